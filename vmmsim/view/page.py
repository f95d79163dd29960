# SPDX-License-Identifier: MIT-0
"""A recording as something to step through, call by call: one HTML file that needs no other, or a part of the book.

    page(recording, steps)          the text of the file
    fragment(recording, steps, id)  what stands in a page of the book, which has the script, view.css and their colours
    script()                        the text of what shows it: the files in js, as one

A view holds what there was when, as lifetimes.py has it, compressed and in letters; the script unpacks that and draws
the step that is looked at, and above it the timeline of memory. What comes from a recording is there, and in text that
is escaped: nothing of it becomes a tag. Without scripts what matters shows.
"""

import base64
import dataclasses
import hashlib
import html
import json
import pathlib
import re
import zlib

from vmmsim.trace.line import NO_CALLS
from vmmsim.trace.recording import Recording
from vmmsim.view.durations import of_gpus
from vmmsim.view.engine import code_of, code_of_drawing
from vmmsim.view.frames import Step, Steps, notes
from vmmsim.view.overview import is_launch, matters
from vmmsim.view.records import Lane
from vmmsim.view.sizes import plural
from vmmsim.view.style import style_of_pages

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = "ownership comparison picture source list timeline view".split()  # those first that others use
LAUNCHERS = re.compile(r"(.*/)?(python[\d.]*|bash|sh|mpirun|mpiexec|torchrun|env|timeout|nice)|[A-Z_\d]+=.*|-.*|\d+")
COLUMNS = [field.name for field in dataclasses.fields(Step) if field.name != "number"]
FIRST = re.compile(r"cuMemAddressReserve|cuMemCreate|cuMemImport|cuMulticastCreate")  # where a view in the book opens

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
{meta}
<title>{title}</title>
<style>
{style}
</style>
</head>
<body class="{kind}">
{body}
</body>
</html>
"""
NO_TIMES = "; the times are the simulator's, not a GPU's"
NO_COPIES = "; copies are not recorded"  # nor when a call began
NO_LATE_COPIES = "; asynchronous copies are not recorded"  # by one whose launches have no correlation
META = """<meta name="generator" content="vmmsim">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'sha256-{hash}'">"""

FRAGMENT = """<div class="vmm-view" data-key="{key}"{marks}>
<p class="vmm-about">{about}</p>
{notes}<div class="vmm-overview">
{matters}<div class="vmm-timeline"></div>
</div>
<noscript><p>Without scripts the steps are not shown.</p></noscript>
<script type="application/octet-stream">{data}</script>
</div>
"""


def page(recording, steps):
    content = view(recording, steps, "step", f' data-alone data-opens="{steps.overview.opens()}"')
    return filled(f"{name_of(recording)}, step by step", content, "vmm-alone")


def filled(title, content, kind):
    code, title = script(), html.escape(title)
    meta = META.format(hash=base64.b64encode(hashlib.sha256(code.encode()).digest()).decode())
    body = f"<main>\n<h1>{title}</h1>\n{content}\n</main>\n<script>{code}</script>"
    style = "\n".join([style_of_pages(), *((HERE / file).read_text() for file in ("view.css", "view_page.css"))])
    return PAGE.format(meta=meta, title=title, style=style, kind=kind, body=body)


def script() -> str:
    """Nothing of it is seen by other scripts of the page."""
    return f'(() => {{\n"use strict";\n{code_of_drawing()}{code_of(SCRIPTS)}}})();\n'


def fragment(recording: Recording, steps: Steps, id: str) -> str:
    """A page may have several, so a link to a step is #ID-step=12. It opens at the first call of VMM, with the list of
    the calls folded."""
    opens_at = next((step.number for step in steps if step.kind == "changes" and FIRST.match(step.call)), 1)
    return view(recording, steps, f"{id}-step", f' data-folded data-opens="{opens_at}"')


def view(recording, steps, key, marks):
    """marks: data-alone, so that keys work all over the page; data-folded, the list of the calls; data-opens, at a
    step."""
    items = "".join(f"<li>{html.escape(note)}</li>\n" for note in notes(recording))
    return FRAGMENT.format(
        key=html.escape(key),
        marks=marks,
        matters=matters(steps.overview, key),
        about=about(recording),
        notes=f'<ul class="vmm-notes">\n{items}</ul>\n' if items else "",
        data=packed(recording, steps),
    )


def calls_of(recording):
    return [line for line in recording.lines if line["call"] not in NO_CALLS]


def about(recording):
    """HTML: what was run where, and how much is known of it."""
    processes = len(recording.processes())
    count, whose = len(calls_of(recording)), f" of {processes} processes" if processes > 1 else ""
    calls = plural(count, "call") + whose
    if count < len(recording.lines):
        calls = f"{plural(len(recording.lines), 'step')}, {count:,} of them calls{whose}"
    where = recording.about.get("where", "")
    more = without_copies(recording) + NO_TIMES * ("simulated" in where and bool(recording.times()))
    facts = ", ".join(filter(None, [where, calls + more]))
    command = " ".join(map(str, recording.about.get("command", []))) or "a recording"
    return f"<code>{html.escape(command)}</code>: {html.escape(facts)}."


def without_copies(recording):
    """What an older recorder has left out."""
    if not recording.modules:  # it is no recorder's
        return ""
    if not recording.took():
        return NO_COPIES
    has_all = all("correlation" in line for line in recording.lines if is_launch(line))
    return "" if has_all else NO_LATE_COPIES


def name_of(recording):
    command = [str(word) for word in recording.about.get("command", [])]
    words = [word for word in command if not LAUNCHERS.fullmatch(word)] or command
    return pathlib.PurePath(words[0]).name if command else "A recording"


# --- What the script reads
def packed(recording, steps):
    sources = {step.place[0] for step in steps if step.place[0]}
    owners = {owner: nth for nth, owner in enumerate(dict.fromkeys(step.owner for step in steps))}
    content = {
        **drawn(steps),
        "processes": len({step.process for step in steps}),
        "lanes": [Lane(device, changes) for device, changes in steps.overview.shown().items()],
        "pieces": steps.overview.pieces,
        "times": recording.times(),
        "took": recording.took(),
        "work": of_gpus(recording),
        "sources": {name: recording.source(name) for name in sorted(sources)},
        "columns": {**columns_of(steps, COLUMNS), "owner": [owners[step.owner] for step in steps]},
        "frames_of_code": list(steps.callers.numbers),
        "stacks": steps.callers.stacks,
        "libraries": steps.callers.libraries,
        "owners": list(owners),
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def columns_of(steps, names):
    return {name: [getattr(step, name) for step in steps] for name in names}


def drawn(steps):
    """What draw.js needs of them."""
    return {
        "columns": columns_of(steps, ("process", "thread", "call", "place", "fault", "named")),
        **steps.lives.packed(),
        "devices": steps.devices,
        "names_of_processes": list(steps.drawn.values()),
        **({"torch": steps.blocks.packed()} if steps.blocks else {}),
    }
