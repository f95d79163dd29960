# SPDX-License-Identifier: MIT-0
"""The style of a picture's file: of the book's rules and colours those that the picture uses.

A page of the book has docs/_static/pictures.css and book.css. A code forge shows a picture by itself, where no style
sheet of a page reaches: it follows what the reader's system prefers.
"""

import pathlib
import re

STATIC = pathlib.Path(__file__).resolve().parents[2] / "docs" / "_static"
RULE = re.compile(r"^\.vmm-picture (\S+) (\{.*\})$", re.MULTILINE)
CLASSES = re.compile(r' class="([^"]*)"')


def colours(selector):
    """{variable: value} as the block of book.css with this selector has them."""
    block = (STATIC / "book.css").read_text().partition(f"{selector} {{\n")[2].partition("}")[0]
    return dict(re.findall(r"(--vmm-\w+): (#\w+);", block))


def is_used(selector, svg):
    """Whether an element has all the classes of the selector, or there is one of that name."""
    if not selector.startswith("."):
        return f"<{selector}" in svg
    wanted = set(selector[1:].split("."))
    return any(wanted <= set(kinds.split()) for kinds in CLASSES.findall(svg))


def styled(svg):
    """The text of the file with the style that it needs."""
    rules = RULE.findall((STATIC / "pictures.css").read_text())
    known = {kind for selector, _ in rules for kind in selector.split(".")} | {"vmm-picture"}
    unknown = {kind for kinds in CLASSES.findall(svg) for kind in kinds.split()} - known
    if unknown:
        raise AssertionError(f"docs/_static/pictures.css has no rule for {', '.join(sorted(unknown))}")
    used = [f"{selector} {body}" for selector, body in rules if is_used(selector, svg)]
    variables = sorted(set(re.findall(r"var\((--vmm-\w+)\)", "".join(used))))
    light, dark = (
        f"svg {{ {'; '.join(f'{name}: {values[name]}' for name in variables)} }}"
        for values in (colours("body"), colours('body[data-theme="dark"]'))
    )
    style = "\n".join([light, f"@media screen and (prefers-color-scheme: dark) {{ {dark} }}", *used])
    before, _, rest = svg.partition("<style>")
    return f"{before}<style>\n{style}\n</style>{rest.partition('</style>')[2]}"
