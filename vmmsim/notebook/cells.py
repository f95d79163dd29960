# SPDX-License-Identifier: MIT-0
"""%load_ext vmmsim: the cells below it run in a process whose calls of CUDA are traced; here is what passes them on.

Cells that begin with %% stay in the kernel, as %%bash, and so do those that load the extension or have `%vmm start`.
Each message is a line of JSON. The process begins with {"pid": its own}. process.py lists what it is asked, and what it
answers, up to {"done": true}.
"""

import argparse
import contextlib
import json
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading

from IPython.core.error import UsageError

from vmmsim.hardware import count_gpus
from vmmsim.tool import Failed, Tool

ATTRIBUTE = "_vmmsim_cells"  # of the shell
STAYS = re.compile(r"\A\s*%%|^%((re|un)?load_ext vmmsim|vmm start)\b", re.MULTILINE)
AGAIN = "Run %vmm start, and then the cells again"


def load(shell):
    cells = Cells(shell)
    setattr(shell, ATTRIBUTE, cells)
    shell.input_transformers_cleanup.append(cells.transform)
    shell.register_magic_function(cells.magic, magic_name="vmm")
    if kernel := getattr(shell, "kernel", None):  # that of a notebook, and no terminal
        kernel.do_complete, kernel.do_inspect = cells.complete, cells.inspect


def unload(shell):
    cells = getattr(shell, ATTRIBUTE, None)
    if cells:
        shell.input_transformers_cleanup.remove(cells.transform)
        cells.end()
        delattr(shell, ATTRIBUTE)
        if kernel := getattr(shell, "kernel", None):
            del kernel.do_complete, kernel.do_inspect


class Cells:
    def __init__(self, shell):
        self.shell, self.process, self.machine = shell, None, None  # that of the last %vmm start

    def transform(self, lines):
        """What IPython runs in place of a cell."""
        text = "".join(lines)
        return lines if STAYS.search(text) else [f"get_ipython().{ATTRIBUTE}.run({text!r})\n"]

    def run(self, text):
        """The cell, over there."""
        if not self.process:
            self.process = Process(self.machine or machine_of([]))
        error = None
        try:
            number = len(self.shell.user_ns["In"]) - 1  # execution_count is that of the next in IPython 9.18
            for message in self.process.ask(cell=text, count=number):
                error = self.show(**message) or error
        except Ended:
            self.end()
            raise
        if error:
            raise error

    def show(self, stdout="", stderr="", display=None, clear=None, error=None):
        """One message; the error that it tells of."""
        print(stdout, end="")
        print(stderr, end="", file=sys.stderr)
        if display:
            self.shell.display_pub.publish(**display)
        if clear is not None:
            self.shell.display_pub.clear_output(clear)
        return error and error_of(*error)

    def complete(self, code, cursor_pos):
        """What the Tab key shows; of what the process has not seen, nothing."""
        return self.answer(complete=code, at=cursor_pos) or {
            **{"status": "ok", "matches": [], "metadata": {}},
            **{"cursor_start": cursor_pos, "cursor_end": cursor_pos},
        }

    def inspect(self, code, cursor_pos, *_, **__):
        """What Shift and Tab show."""
        return self.answer(inspect=code, at=cursor_pos) or {"status": "ok", "found": False, "data": {}, "metadata": {}}

    def answer(self, **question):
        if not self.process:
            return None
        try:
            return next((message["answer"] for message in [*self.process.ask(**question)] if "answer" in message), None)
        except Ended:
            return None

    def magic(self, line):
        """%vmm start [--gpus N] [--memory SIZE] [--machine NAME] [--real]: a new process, with nothing in it"""
        words = shlex.split(line)
        if words[:1] != ["start"]:
            return self.run(f"%vmm {line}")
        machine = machine_of(words[1:])
        self.end()
        self.process, self.machine = Process(machine), machine

    def end(self):
        if self.process:
            self.process.end()
            self.process = None


def machine_of(words):
    """The options of `%vmm start`."""
    parser = Parser(prog="%vmm start", allow_abbrev=False, add_help=False)
    parser.add_argument("--real", action="store_true")
    of_simulated = [("--gpus", "N"), ("--memory", "SIZE"), ("--machine", "NAME")]
    for name, what in of_simulated:
        parser.add_argument(name, metavar=what)
    machine = parser.parse_args(words)
    given = [(name, getattr(machine, name[2:])) for name, _ in of_simulated]
    machine.options = [word for name, value in given if value for word in (name, value)]
    if machine.real and machine.options:
        raise UsageError(f"{machine.options[0]} is of simulated GPUs: leave it or --real out")
    if machine.real:
        number, why = count_gpus()
        if not number:
            raise UsageError(f"--real: no GPU here: {why}. Leave --real out for simulated GPUs")
    try:
        Tool().prepare(machine)
    except Failed as error:
        raise UsageError(str(error)) from None
    return machine


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(f"{message}\n{self.format_usage()}".rstrip())


class Ended(Exception):
    """The process is not there any more."""

    def _render_traceback_(self):
        return [f"{type(self).__name__}: {self}"]


class Process:
    def __init__(self, machine):
        self.channel, theirs = socket.socketpair()
        # The trace is a file without a name: nobody has to remove it, and a process that is started anew has a new one.
        self.trace = os.memfd_create("vmmsim-notebook")
        trace = f"/proc/{os.getpid()}/fd/{self.trace}"
        environment = os.environ.copy()
        # A checkout's set-up names its own, which has what draws; a kernel's need not.
        python = os.environ.get("VMMSIM_PYTHON") or sys.executable
        command = [python, "-B", "-m", "vmmsim.notebook.process", str(theirs.fileno()), trace]
        if machine.real:
            environment |= {"CUDA_INJECTION64_PATH": str(Tool().recorder), "VMM_RECORD": trace}
        else:
            command = [str(Tool().launcher), *machine.options, "--trace", trace, *command]
        self.process = subprocess.Popen(
            command,
            env=environment,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,  # of what is not Python: kernels that print, programs that a cell starts, vmmsim
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Jupyter's signals are for the kernel, which passes an interrupt on
        )
        theirs.close()
        self.rest = b""
        self.pid = self.message()["pid"]

    def ask(self, **request):
        """The messages about this request, up to its end."""
        with self.takes_interrupts():
            try:
                self.channel.sendall(json.dumps(request).encode() + b"\n")
            except OSError:
                raise self.ended() from None
            while "done" not in (message := self.message()):
                yield message
            self.show_printed()  # what came at the same time

    @contextlib.contextmanager
    def takes_interrupts(self):
        """An interrupt goes to the process, whenever it comes; nothing here stops half-way."""
        if threading.current_thread() is not threading.main_thread():  # only that one can say so
            yield
            return

        def pass_on(*_):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGINT)

        before = signal.signal(signal.SIGINT, pass_on)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def message(self):
        """The next one."""
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.channel, self.process.stdout], [], [], 1)
            self.show_printed()
            if self.channel not in ready:
                # What it has started may hold its end of the channel, so that is not all that tells of its end.
                if self.process.poll() is not None:
                    raise self.ended()
                continue
            try:
                more = self.channel.recv(1 << 20)
            except OSError:
                more = b""
            if not more:
                raise self.ended()
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def show_printed(self):
        while select.select([self.process.stdout], [], [], 0)[0]:
            text = os.read(self.process.stdout.fileno(), 1 << 16)
            if not text:
                break
            print(text.decode(errors="replace"), end="")

    def ended(self):
        status = self.process.wait()
        self.show_printed()
        by = -status if status < 0 else status - 128  # as vmmsim tells it
        how = f"signal {signal.Signals(by).name}" if by in list(signal.Signals) else f"status {status}"
        return Ended(f"the process in which cells run has ended, with {how}. {AGAIN}")

    def end(self):
        self.channel.close()  # it ends then
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()
        os.close(self.trace)


def error_of(name, value, traceback):
    """The error of a cell as IPython shows one of its own: under its name, with the lines from over there."""

    class Error(Exception):
        def _render_traceback_(self):
            return traceback

    Error.__name__ = Error.__qualname__ = name
    return Error(value)
