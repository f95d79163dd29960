# SPDX-License-Identifier: MIT-0
"""The process in which a notebook's cells run. vmmsim or the recorder traces it, and cells.py has started it.

It is asked

    {"cell": text, "count": its number}
    {"complete": text, "at": the cursor's place}, {"inspect": text, "at": the cursor's place}

and sends

    {"stdout": text}, {"stderr": text}
    {"display": arguments of IPython's publish}, {"clear": whether to wait for more}
    {"error": [name, text, lines of the traceback]}
    {"answer": as a kernel of Jupyter does}
    {"done": true}
"""

import contextlib
import io
import json
import os
import queue
import signal
import socket
import sys
import threading

from IPython.core.completer import provisionalcompleter, rectify_completions
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.tokenutil import token_at_cursor
from traitlets import Type

from vmmsim.notebook.folding import folded
from vmmsim.notebook.live import Live


class Channel:
    """To the kernel and from it. What a cell shows can be held until it ends."""

    def __init__(self, descriptor):
        self.socket, self.requests, self.held = socket.socket(fileno=descriptor), queue.SimpleQueue(), None
        threading.Thread(target=self.receive, daemon=True).start()

    def receive(self):
        """Also while a cell is at work: if the kernel is gone, this process has to go."""
        with contextlib.suppress(OSError), self.socket.makefile("rb") as lines:
            for line in lines:
                self.requests.put(json.loads(line))
        self.requests.put(None)
        threading.main_thread().join(2)
        os._exit(1)

    def send(self, **message):
        if self.held is not None:
            self.held.append(message)
        else:
            with contextlib.suppress(OSError):  # the kernel is gone, and nobody looks
                self.socket.sendall(json.dumps(message, default=str).encode() + b"\n")


class Stream(io.TextIOBase):
    encoding = "utf-8"

    def __init__(self, name):
        self.name = name

    def writable(self):
        return True

    def write(self, text):
        if text:
            channel.send(**{self.name: text})
        return len(text)


class Publisher(DisplayPublisher):
    def publish(self, data, metadata=None, *, transient=None, update=False, **_):
        channel.send(display={"data": data, "metadata": metadata or {}, "transient": transient, "update": update})

    def clear_output(self, wait=False):
        channel.send(clear=wait)


class Hook(DisplayHook):
    """Of a cell's last expression."""

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        self.shell.display_pub.publish(format_dict, md_dict)


class Shell(InteractiveShell):
    displayhook_class, display_pub_class = Type(Hook), Type(Publisher)
    colors_force = True
    system = InteractiveShell.system_piped

    def enable_gui(self, gui=None):
        pass

    def ask_exit(self):
        self.exit_now = True

    def _showtraceback(self, etype, evalue, stb):
        channel.send(error=[etype.__name__, str(evalue), list(stb)])

    def show_usage_error(self, exc):
        channel.send(error=["UsageError", str(exc), [f"UsageError: {exc}"]])


def run(shell, live, cell, count):
    shell.execution_count = live.cell = count
    channel.held = [] if live.is_folded else None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = shell.run_cell(cell, store_history=True)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        held, channel.held = channel.held, None
    if held and result.success:
        held = [folded(held)]
    for message in held or ():
        channel.send(**message)


def complete(shell, code, at):
    with provisionalcompleter():
        found = list(rectify_completions(code, shell.Completer.completions(code, at)))
    start, end = (found[0].start, found[0].end) if found else (at, at)
    matches = [each.text for each in found]
    return {"status": "ok", "matches": matches, "metadata": {}, "cursor_start": start, "cursor_end": end}


def inspect(shell, code, at):
    try:
        data = shell.object_inspect_mime(token_at_cursor(code, at))
    except KeyError:
        data = {}
    return {"status": "ok", "found": bool(data), "data": data, "metadata": {}}


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # but in a cell
    sys.stdout, sys.stderr = Stream("stdout"), Stream("stderr")
    shell = Shell.instance()
    shell.history_manager.enabled = False
    live = Live(shell, sys.argv[2])
    shell.events.register("post_run_cell", live.after_cell)
    shell.register_magic_function(live.magic, magic_name="vmm")
    channel.send(pid=os.getpid())
    while not shell.exit_now and (request := channel.requests.get()):
        if "cell" in request:
            run(shell, live, request["cell"], request["count"])
        elif "complete" in request:
            channel.send(answer=complete(shell, request["complete"], request["at"]))
        else:
            channel.send(answer=inspect(shell, request["inspect"], request["at"]))
        channel.send(done=True)


channel = Channel(int(sys.argv[1]))
main()
