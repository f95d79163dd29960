# SPDX-License-Identifier: MIT-0
"""%load_ext vmmsim: after each cell that changed something, the address spaces; under a refused call, why."""

import base64
import html
import json
import os
import shlex

from IPython.core.error import UsageError
from IPython.display import display

from vmmsim.notebook.drawing import Names, picture
from vmmsim.notebook.kernel import PROBLEM, SHOWN, TRACE, command
from vmmsim.trace import imports
from vmmsim.trace.line import NO_CALLS
from vmmsim.trace.model import Machine
from vmmsim.trace.recording import OF_LOADING
from vmmsim.view.sizes import plural
from vmmsim.view.words import is_refused

MOST_CALLS = 12  # names of calls, above a picture
MOST_REFUSED = 5  # in one cell
ATTRIBUTE = "_vmmsim_live"  # of the shell
UNTIL = "until the process ends"  # of what an earlier fault has left
WHY = '<p style="border-left:4px solid #b3261e;padding-left:8px;margin:8px 0">{}<code>{}</code>{}</p>'


def load(shell):
    if not os.environ.get(TRACE):
        raise UsageError(os.environ.get(PROBLEM) or not_traced())
    live = Live(shell, os.environ[TRACE])
    setattr(shell, ATTRIBUTE, live)
    live.catch_up()
    shell.events.register("post_run_cell", live.after_cell)
    shell.register_magic_function(live.magic, magic_name="vmm")


def unload(shell):
    live = getattr(shell, ATTRIBUTE, None)
    if live:
        shell.events.unregister("post_run_cell", live.after_cell)
        delattr(shell, ATTRIBUTE)


def not_traced():
    return (
        "nobody sees what this kernel asks of CUDA: it was not started under vmmsim.\n"
        f"  1. In a terminal, once: {command()} install    (for real GPUs: install --real)\n"
        f"  2. Here: Kernel > Change Kernel > {SHOWN[False]}\n"
        "  3. Run this cell again."
    )


class Live:
    """The machine that the kernel's trace tells of, as far as it was read."""

    def __init__(self, shell, path):
        self.shell, self.pid, self.is_on = shell, os.getpid(), True
        self.file, self.rest = open(path, "rb"), b""  # noqa: SIM115
        self.machine, self.sharing = Machine(strict=False), []
        self.others = []  # processes besides the kernel, in the order in which they came
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

    def catch_up(self):
        """With calls that were made before the extension was loaded: what has come of them is not new."""
        self.take(self.read())
        self.begin()
        if self.holds(self.pid):
            self.magic("")

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
        """The kernel, and others that have not ended."""
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
        title = f"After [{self.shell.execution_count - 1}]"
        return picture(self.machine, self.since, [self.pid, *others], whose, names, title, calls)

    def magic(self, line):
        """%vmm draws what there is now; %vmm off and %vmm on: whether each cell does."""
        words = shlex.split(line)
        if words not in ([], ["on"], ["off"]):
            raise UsageError("%vmm draws what there is now; %vmm off, %vmm on: whether that comes after each cell")
        if words:
            self.is_on = words == ["on"]
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
    return why + "; to go on, choose Kernel > Restart Kernel" * (UNTIL in why)


def ended(pid):
    return {
        **dict.fromkeys(("thread", "number", "nth"), 0),
        **{"pid": pid, "call": "exit", "callers": [], "device": -1, "arguments": {}, "result": "", "outputs": {}},
        **{"changes": [], "explanation": ""},
    }
