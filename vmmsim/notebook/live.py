# SPDX-License-Identifier: MIT-0
"""After each cell that changed something, the address spaces; under a refused call, why."""

import base64
import html
import json
import os
import shlex

from IPython.core.error import UsageError
from IPython.display import display

from vmmsim.notebook.cells import AGAIN
from vmmsim.notebook.drawing import Names, picture
from vmmsim.trace import imports
from vmmsim.trace.line import NO_CALLS
from vmmsim.trace.model import Machine
from vmmsim.trace.recording import OF_LOADING
from vmmsim.view.sizes import plural
from vmmsim.view.words import is_refused

MOST_CALLS = 12  # names of calls, above a picture
MOST_REFUSED = 5  # in one cell
UNTIL = "until the process ends"  # of what an earlier fault has left
WHY = '<p style="border-left:4px solid #b3261e;padding-left:8px;margin:8px 0">{}<code>{}</code>{}</p>'


class Live:
    """The machine that the trace of this process tells of, as far as it was read."""

    def __init__(self, shell, path):
        self.shell, self.pid, self.is_on, self.is_folded = shell, os.getpid(), True, False
        self.cell = 0  # the number of the one that runs
        self.file, self.rest = open(path, "rb"), b""  # noqa: SIM115
        self.machine, self.sharing = Machine(strict=False), []
        self.others = []  # processes besides this one, in the order in which they came
        self.since = self.machine.since()

    def read(self):
        """The lines since the last time."""
        *texts, self.rest = (self.rest + self.file.read()).split(b"\n")
        lines = []
        for text in texts:
            try:
                line = json.loads(text.decode(errors="replace"))
            except ValueError:  # of a process that was killed while it wrote
                continue
            if line.get("call", OF_LOADING) != OF_LOADING:
                lines.append(line)
        return lines

    def take(self, lines):
        kinds = {change["kind"] for line in lines for change in line["changes"]}
        self.sharing += [line for line in lines if any(change["kind"] in imports.SEEN for change in line["changes"])]
        if kinds & {"export", "import"}:  # of which export an import is, a recorder leaves open
            self.machine.sources = imports.sources(self.sharing)
        for line in lines:
            if line["pid"] != self.pid and line["pid"] not in self.others:
                self.others.append(line["pid"])
            self.machine.line(line)
        for pid in self.others:
            if pid in self.machine.processes and not os.path.exists(f"/proc/{pid}"):
                self.machine.line(ended(pid))  # killed: it has not said so

    def begin(self):
        """From now on, what comes is new."""
        self.machine.forget_since(self.since)
        self.since = self.machine.since()

    def after_cell(self, result=None):
        if os.getpid() != self.pid:  # a child that was forked
            return
        lines = self.read()
        self.take(lines)
        alive = self.alive()
        calls = [line for line in lines if line["pid"] in alive and line["call"] not in NO_CALLS]
        refused = [line for line in lines if is_refused(line)]
        is_changed = self.since.has_changed()
        if self.is_on and (calls or refused or is_changed):
            self.show(calls, refused, is_changed)
        self.begin()

    def alive(self):
        """This process, and others that have not ended."""
        return [self.pid, *(pid for pid in self.others if os.path.exists(f"/proc/{pid}"))]

    def holds(self, pid):
        process = self.machine.processes[pid]
        return bool(process.handles or process.reservations)

    def show(self, lines, refused, is_changed):
        calls = [line["call"] for line in lines]
        names = list(dict.fromkeys(calls))
        kept = [call for call in calls if call in names[:MOST_CALLS]]
        if len(names) > MOST_CALLS:
            kept.append(f"and {len(names) - MOST_CALLS} others")
        parts, words = [], []
        if is_changed:
            parts, words = shown(self.drawn(kept))
        elif not refused:
            which = ", ".join(names[:4]) + ", …" * (len(names) > 4)
            words = [f"{plural(len(calls), 'call')} ({which}): addresses and memory are as they were."]
            parts = [f'<p style="margin:4px 0;opacity:.7"><small>{words[0]}</small></p>']
        for line in refused[:MOST_REFUSED]:
            why = format_line(line)
            whose = "" if line["pid"] == self.pid else "In a child process: "
            parts.append(WHY.format(whose, f"{line['call']}: {line['result']}", f"<br>{html.escape(why)}" * bool(why)))
            words.append(f"{whose}{line['call']}: {line['result']}. {why}")
        if len(refused) > MOST_REFUSED:
            words.append(f"{len(refused) - MOST_REFUSED} more were refused.")
            parts.append(f"<p>{words[-1]}</p>")
        send(parts, words)

    def drawn(self, calls):
        names = Names(self.shell.user_ns, self.shell.user_ns_hidden)
        had = {pid for pid, _, _ in self.since.gone.values()}
        others = [pid for pid in self.others if pid in had or self.holds(pid)]
        whose = ["notebook", *(f"child {self.others.index(pid) + 1}" for pid in others)] if others else [""]
        title = f"After [{self.cell}]"
        return picture(self.machine, self.since, [self.pid, *others], whose, names, title, calls)

    def magic(self, line):
        """%vmm draws what there is now; %vmm on, off, fold: whether each cell does, and whether that stays folded."""
        words = shlex.split(line)
        if words not in ([], ["on"], ["off"], ["fold"]):
            raise UsageError(
                "%vmm draws what there is now; %vmm on, %vmm off, %vmm fold: whether that comes after each cell, and\n"
                "folded; %vmm start [--gpus N] [--memory SIZE] [--machine NAME] [--real]: a new process"
            )
        if words:
            self.is_on, self.is_folded = words != ["off"], words == ["fold"]
            return
        send(*shown(self.drawn([])))


def shown(drawn):
    """As parts of HTML, and in words."""
    picture_of_it = [image(drawn.svg, drawn.words)] if drawn.svg else []
    notes = [f'<p style="margin:4px 0">{html.escape(note)}</p>' for note in drawn.notes]
    return picture_of_it + notes, [drawn.words, *drawn.notes]


def send(parts, words):
    display({"text/html": f"<div>{''.join(parts)}</div>", "text/plain": "\n".join(words)}, raw=True)


def image(svg, words):
    """A picture of its own: neither the page's style nor another picture's comes into it."""
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{html.escape(words)}" src="data:image/svg+xml;base64,{data}" style="max-width:100%">'


def format_line(line):
    """Why a call was refused, without what its own line has said already; "" of a real driver, which does not say."""
    why = line["explanation"].partition(f" answers {line['result']}: ")[2] or line["explanation"]
    return why + f". {AGAIN}" * (UNTIL in why)


def ended(pid):
    return {
        **dict.fromkeys(("thread", "number", "nth"), 0),
        **{"pid": pid, "call": "exit", "callers": [], "device": -1, "arguments": {}, "result": "", "outputs": {}},
        **{"changes": [], "explanation": ""},
    }
