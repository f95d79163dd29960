# SPDX-License-Identifier: MIT-0
"""The colours of pictures, light and dark, and what their parts look like.

A view that stands by itself and a page of the book have all of it. A picture that is a file by itself, as a code forge
shows it, is reached by no style sheet of a page: it has what it uses, and follows what the reader's system prefers.

On the fills of the GPUs and on faint, ink is readable (4.5:1 or more); each fill stands out from the paper by 3:1, and
so does dim. What is mapped is filled; memory that is mapped nowhere has the outline of its GPU's colour.
"""

import re

COLOURS = {  # light and dark
    "ink": ("#14181d", "#f3f5f7"),
    "paper": ("#ffffff", "#131416"),
    "faint": ("#e4e8ec", "#2b3036"),
    "dim": ("#5b6169", "#a3abb3"),
    "bad": ("#b3261e", "#ff8a80"),
    "good": ("#1a6e2e", "#6fce85"),
    "gpu0": ("#3f95d2", "#266da1"),
    "gpu1": ("#da7823", "#9f581a"),
    "gpu2": ("#349c68", "#26724c"),
    "gpu3": ("#b676cb", "#9744b3"),
    "gpu4": ("#a49217", "#786b11"),
    "gpu5": ("#279e9e", "#1d7474"),
    "gpu6": ("#d8648a", "#b82e5c"),
    "gpu7": ("#878e99", "#626973"),
}
LIGHT, DARK = ({f"--vmm-{name}": pair[theme] for name, pair in COLOURS.items()} for theme in (0, 1))
INK, GOOD, BAD = "var(--vmm-ink)", "var(--vmm-good)", "var(--vmm-bad)"
RULES = {
    "text": f"font: 13px system-ui, sans-serif; fill: {INK}; text-anchor: middle",
    ".vmm-title": "font-size: 15px; font-weight: 600; text-anchor: start",
    ".vmm-call": "font: 12px ui-monospace, monospace",
    ".vmm-calls": "font: 12px ui-monospace, monospace; text-anchor: start",
    ".vmm-left": "text-anchor: start",
    ".vmm-bold": "font-weight: 600",
    ".vmm-small": "font-size: 12px",
    ".vmm-paper": "fill: var(--vmm-paper)",
    ".vmm-box": f"fill: var(--vmm-paper); stroke: {INK}; stroke-width: 1",
    ".vmm-pill": f"fill: var(--vmm-paper); stroke: {INK}; stroke-width: 1",
    ".vmm-panel": "fill: var(--vmm-faint); stroke: none",
    ".vmm-now": f"fill: {GOOD}",
    **{f".vmm-gpu{gpu}": f"fill: var(--vmm-gpu{gpu})" for gpu in range(8)},
    ".vmm-unmapped": "stroke-width: 2.5",
    **{f".vmm-rim{gpu}": f"stroke: color-mix(in srgb, var(--vmm-gpu{gpu}) 75%, {INK})" for gpu in range(8)},
    ".vmm-none": f"fill: none; stroke: {INK}; stroke-width: 1; stroke-opacity: .55",
    ".vmm-read": f"fill: {GOOD}; fill-opacity: .14; stroke: {GOOD}; stroke-width: 1",
    ".vmm-read-write": f"fill: {GOOD}; fill-opacity: .32; stroke: {GOOD}; stroke-width: 1",
    ".vmm-new": f"stroke: {GOOD}; stroke-width: 3; stroke-opacity: 1",
    ".vmm-gone": f"fill: none; stroke: {BAD}; stroke-width: 1.5; stroke-dasharray: 5 3",
    ".vmm-pill.vmm-gone": "fill: var(--vmm-paper)",
    ".vmm-was": f"fill: {BAD}; text-decoration: line-through",
    ".vmm-arrow": f"fill: none; stroke: {INK}; stroke-width: 1.5",
    ".vmm-arrow.vmm-new": f"stroke: {GOOD}; stroke-width: 3",
    ".vmm-arrow.vmm-gone": f"stroke: {BAD}",
    ".vmm-hatch": f"fill: none; stroke: {INK}; stroke-width: 1; stroke-opacity: .5; pointer-events: none",
    ".vmm-live": f"fill: none; stroke: {INK}; stroke-width: 3; pointer-events: none",
    ".vmm-track": "fill: none; stroke: var(--vmm-dim); stroke-width: 1",
    ".vmm-true": f"fill: none; stroke: {INK}; stroke-width: 4",
    ".vmm-true.vmm-gone": f"stroke: {BAD}; stroke-width: 4; stroke-dasharray: none",
    ".vmm-fault": f"fill: none; stroke: {BAD}; stroke-width: 3",
    ".vmm-fault-at": f"fill: {BAD}",
    ".vmm-border": f"fill: none; stroke: {INK}; stroke-width: 1; stroke-dasharray: 5 3",
    ".vmm-head": f"fill: {INK}",
    ".vmm-head.vmm-new": f"fill: {GOOD}; stroke: none",
    ".vmm-head.vmm-gone": f"fill: {BAD}; stroke: none",
}
CLASSES = re.compile(r' class="([^"]*)"')


class NoRule(Exception):
    """A part of a picture is of a kind that has no style."""


def colours(selector, values):
    return f"{selector} {{ {'; '.join(f'{name}: {value}' for name, value in values.items())} }}"


def style_of_pages() -> str:
    """They are light on paper, or else follow their switch, or without one what the reader's system prefers."""
    dark = colours('body[data-theme="dark"]', DARK)
    preferred = colours('body:not([data-theme="light"])', DARK)
    return "\n".join(
        [
            colours("body", LIGHT),
            f"@media not print {{ {dark} @media (prefers-color-scheme: dark) {{ {preferred} }} }}",
            *(f".vmm-picture {selector} {{ {rule} }}" for selector, rule in RULES.items()),
        ]
    )


def is_used(selector, svg):
    """Whether an element has all the classes of the selector, or there is one of that name."""
    if not selector.startswith("."):
        return f"<{selector}" in svg
    wanted = set(selector[1:].split("."))
    return any(wanted <= set(kinds.split()) for kinds in CLASSES.findall(svg))


def styled(svg: str) -> str:
    """The text of a picture's file with the style that it needs in its <style>."""
    known = {kind for selector in RULES for kind in selector.split(".")} | {"vmm-picture"}
    unknown = {kind for kinds in CLASSES.findall(svg) for kind in kinds.split()} - known
    if unknown:
        raise NoRule(f"vmmsim/view/style.py has no rule for {', '.join(sorted(unknown))}")
    used = [f"{selector} {{ {rule} }}" for selector, rule in RULES.items() if is_used(selector, svg)]
    variables = sorted(set(re.findall(r"var\((--vmm-\w+)\)", "".join(used))))
    light, dark = (colours("svg", {name: values[name] for name in variables}) for values in (LIGHT, DARK))
    style = "\n".join([light, f"@media screen and (prefers-color-scheme: dark) {{ {dark} }}", *used])
    before, _, rest = svg.partition("<style>")
    return f"{before}<style>\n{style}\n</style>{rest.partition('</style>')[2]}"
