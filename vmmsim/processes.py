# SPDX-License-Identifier: MIT-0
"""The processes that this one has started: who they are, how they end."""

import contextlib
import os
import pathlib
import signal


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def descendants(of):
    """All living processes that `of` started, and those that these started."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, IndexError):
                state, parent = pathlib.Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    children.setdefault(int(parent), []).append(int(entry))
    found, todo = [], [of]
    while todo:
        todo += (its := children.get(todo.pop(), []))
        found += its
    return found


def end_all():
    """Ends all that this process has started. First each is stopped, so that none starts another meanwhile."""
    while found := descendants(os.getpid()):
        for sign in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, sign)
        reap()
    reap()


def reap():
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
