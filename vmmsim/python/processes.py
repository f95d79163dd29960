# SPDX-License-Identifier: MIT-0
"""The processes that this one has started: who they are, how they end."""

import contextlib
import os
import pathlib
import signal
import time

PATIENCE = 10  # seconds for what was killed to go: in state D the kernel keeps it


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def look_at(stat):
    """(name, state, parent, session), of a file stat under /proc; None if that thread or process has gone."""
    try:
        with open(stat, "rb", buffering=0) as file:  # a judge looks at all processes again and again
            name, _, rest = file.read().decode(errors="replace").rpartition(")")
    except OSError:
        return None
    state, parent, _, session = rest.split()[:4]
    return name.partition("(")[2], state, int(parent), int(session)


def living():
    """What look_at says of each process that has not ended, by its id."""
    found = {int(entry): look_at(f"/proc/{entry}/stat") for entry in os.listdir("/proc") if entry.isdigit()}
    return {pid: about for pid, about in found.items() if about and about[1] not in "ZX"}


def turns_of(pids):
    """How often each thread of these processes has stopped to run, by its id; {} if one does not wait."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):  # it has gone
            for thread in os.listdir(f"/proc/{pid}/task"):
                status = pathlib.Path(f"/proc/{pid}/task/{thread}/status").read_text(errors="replace")
                if "State:\tS" not in status:
                    return {}
                found[thread] = status[status.index("voluntary_ctxt") :]
    return found


def waits(pid):
    """Whether all threads of a process wait for something."""
    return bool(turns_of([pid]))


def descendants(root):
    """All living processes that `root` started, and those that these started."""
    children = {}
    for pid, (_, _, parent, _) in living().items():
        children.setdefault(parent, []).append(pid)
    found, todo = [], [root]
    while todo:
        started = children.get(todo.pop(), [])
        todo += started
        found += started
    return found


def in_session(leader):
    return [pid for pid, (_, _, _, session) in living().items() if session == leader]


def end_all():
    """Ends all that this process has started. What does not end, in words."""
    return end(lambda: descendants(os.getpid()), reap)


def end_tree(root):
    """Ends a process that this one has started, and all below it. What does not end, in words."""

    def tree():
        states = living()
        return [pid for pid in (root, *descendants(root)) if pid in states]

    return end(tree, tree)


def end_session(leader):
    """Ends all processes of a session, those of its leader's group at once. What does not end, in words."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    return end(lambda: in_session(leader), lambda: in_session(leader))


def end(find, is_any_left):
    """Ends what find() finds until none is left. First each is stopped, so that none starts another meanwhile."""
    deadline, killed = time.monotonic() + PATIENCE, set()
    # Who has lost its parent may be nobody's here, and still be on its way out.
    while time.monotonic() < deadline and (is_any_left() or (killed and killed & living().keys())):
        found = find()
        for sign in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, sign)
        killed.update(found)
        time.sleep(0.001)  # what was killed needs a moment
    states = living() if killed else {}
    return [
        f"process {pid} ({states[pid][0]}) was killed {PATIENCE} s ago and has not ended: its state is {states[pid][1]}"
        for pid in sorted(killed)
        if pid in states
    ]


def reap():
    """Whether this process has children that have not ended. Who looks through /proc may miss one just started."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False
