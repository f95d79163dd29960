# SPDX-License-Identifier: MIT-0
"""What stopped a program, or was wrong when it ended: a CheckFailed of the run, or of the call to blame."""

import re
import signal
from fnmatch import fnmatchcase

from labs.judge.program import STILL
from vmmsim.processes import signal_name
from vmmsim.trace import OF_MODULES, Machine, number

ENDED = "no call is refused, no kernel faults, and it ends as it should"
GIVEN_BACK = "all is given back"
NOT_YET = "CUDA_ERROR_NOT_READY", "cudaErrorNotReady"  # an answer, and no refusal
LAST_ERROR = "cudaGetLastError", "cudaPeekAtLastError"  # they tell of a call that has told itself
GIVES_BACK = {  # what, and in words
    "cuMemRelease": ("handle", "released this handle"),
    "cuMemUnmap": ("ptr", "unmapped this address"),
    "cuMemAddressFree": ("ptr", "freed these addresses"),
    "cudaFree": ("devPtr", "freed this memory"),
    "cudaStreamDestroy": ("stream", "destroyed this stream"),
    "cudaEventDestroy": ("event", "destroyed this event"),
    "close": ("fd", "closed this descriptor"),
}

# --- Calls


def refusal(run):
    """The first call that was refused or tells of a fault, and should not have been."""
    for call in run.all:
        if call.succeeded or call.result in NOT_YET or call.name in (*run.options.get("refusals", ()), *LAST_ERROR):
            continue
        if run.is_injected(call):
            continue
        if call.fault:
            happened = f"a kernel faulted, and {call.name} is the first to tell: {call.result}"
            wanted = "a kernel reads and writes only memory that is mapped, and to which its GPU has the right"
            return call.wrong(wanted, happened)
        return call.wrong("each call succeeds", f"{call.name} was refused: {call.result}{given_back_before(call)}")
    return None


def given_back_before(call):
    """Where the program has given back before what this call is to give back, if it has."""
    argument, words = GIVES_BACK.get(call.name, ("", ""))
    for other in reversed(call.run.all[: call.index]):
        is_alike = (other.name, other.pid, other.succeeded) == (call.name, call.pid, True)
        if words and is_alike and other.line and other.arguments[argument] == call.arguments[argument]:
            return f"\nline {other.line} has {words} before"
    return ""


# --- The end


def after_last_call(run):
    last = next((call for call in reversed(run.all) if call.line), None)
    return f"; the last call that came back is {last.name} in line {last.line}" if last else ""


def who_waits(run):
    """In words, for each process of several that had not ended: whether it waits, and after which call."""
    last = {call.pid: call for call in run.all if call.line and call.pid in run.ended.waiting}
    if len(last) < 2:
        return ""
    exporters = {call.pid for call in run.calls("cuMemExportToShareableHandle")}
    importers = [pid for pid in dict.fromkeys(call.pid for call in run.all if call.line) if pid not in exporters]
    places = ("the importer",) if len(importers) == 1 else ("the first importer", "the second importer")
    names = dict.fromkeys(exporters, "the exporter") | dict(zip(importers, places, strict=False))
    words = ""
    for pid, call in last.items():
        who = names.get(pid, "one process") if exporters else "one process"
        wait = "waits" if run.ended.waiting[pid] else "goes on"
        words += f"\n{who} {wait}, after {call.name} in line {call.line}"
    return words + ("\neach waits for another" if all(run.ended.waiting[pid] for pid in last) else "")


def wrong_status(run):
    status, words = run.ended.status, f"it ended with status {run.ended.status}"
    number = -status if status < 0 else status - 128  # what vmmsim runs ends as in a shell
    if 0 < number < 65:
        words = f"it was ended by {signal_name(number)}"
        if number == signal.SIGPIPE:
            words += ": it wrote to a socket whose other end was closed, as when a process ends"
        words += after_last_call(run)
    words += f", and said:\n{run.said}" if run.said else ""
    if status == 125:  # the simulator's: it says why
        explained = [line[8:] for line in run.ended.stderr.splitlines() if line.startswith("vmmsim: ")]
        words += "\n" + "\n".join(explained[-3:])
    return words


WHY = {  # a program was ended, in words
    "time": "it was still running after {limit} seconds and was ended{where}",
    "still": f"nothing happened in it for {STILL} seconds, and it was ended{{where}}",
    "trace": "it made calls without end, and was ended{where}",
    "processes": "it started processes without end, and was ended",
    "memory": "it took shared memory without end, and was ended",
    "left": "it ended, and processes that it had started went on; they were ended",
    **dict.fromkeys(("stdout", "stderr"), "it printed without end, and was ended; it began with\n{began}"),
}


def how_it_ended(run):
    """In words, if it did not end as it should; or ""."""
    failed = next((call for call in run.calls("exit") if call.argument("status")), None)
    if run.is_disturbed:
        return "the record of its calls does not fit them: does it write to what is not its own?"
    if run.ended.why:
        where, began = who_waits(run) or after_last_call(run), (run.stdout or run.said)[:400]
        return WHY[run.ended.why].format(limit=run.program.limit, where=where, began=began)
    if run.ended.status != run.status:
        return wrong_status(run)
    if run.status == 0 and failed:
        return f"process {failed.pid} of it ended with status {failed.argument('status')}"
    before = "it ended before its first call of CUDA: does something end it before main, or at its beginning?"
    return "" if run.all else before


def is_left(run):
    """Whether the program did not come to its end, and nothing shows why: no call was refused, and it did not say that
    it failed. What fails does so with status 1, or by a signal."""
    status = run.ended.status
    has_ended = status == 0 and "are not given back" in run.stdout or run.ended.why
    has_failed = run.said and (status == 1 or not 0 <= status < 128)
    return not (has_ended or has_failed or run.is_disturbed or refusal(run))


def wrong_end(run):
    happened = how_it_ended(run)
    file = re.escape(run.program.source.name)
    to_do = re.search(rf"^(?:.*/)?{file}:(\d+): TODO: (.*)$", run.said, re.MULTILINE)
    if to_do and not run.ended.why and not run.is_disturbed:
        wrong = run.line_of_file(int(to_do[1])).wrong("this part is yours to write", f"still to do: {to_do[2]}")
    elif happened:
        wrong = run.wrong(f"the program ends by itself, with status {run.status}", happened)
    else:
        return None
    wrong.moment = len(run.all)
    return wrong


# --- What is left

KEPT = {
    "allocate": "it was never freed",
    "map": "it is still mapped at the end: cuMemUnmap was not called for it",
    "handle": "its handle is still held at the end: each cuMemCreate, import and retain needs a cuMemRelease",
    "reserve": "the addresses are still reserved at the end: cuMemAddressFree was not called for them",
}

OBJECTS = {  # what makes an object, and what destroys it
    ("cu*StreamCreate*",): "cu*StreamDestroy*",
    ("cu*EventCreate*",): "cu*EventDestroy*",
    ("cu*GraphCreate", "cu*GraphClone", "cu*StreamEndCapture"): "cu*GraphDestroy",
    ("cu*GraphInstantiate*",): "cu*GraphExecDestroy",
    ("cu*MemPoolCreate",): "cu*MemPoolDestroy",
}


def undestroyed(run):
    """The calls that made an object that was not destroyed."""
    made = {}
    for makes, destroys in OBJECTS.items():
        for call in run.calls(*makes, destroys):
            is_made = not fnmatchcase(call.name, destroys)
            thing = call.pid, destroys, next(iter((call.outputs if is_made else call.arguments).values()), None)
            if is_made:
                made[thing] = call
            else:
                made.pop(thing, None)
    return made.values()


def leak(run):
    """The first thing that a process has not given back, as a CheckFailed of the call that made it; or None."""
    made, machine = {}, Machine()
    for call, machine in run.replay():  # noqa: B007
        for change in call.changes:
            kind = "handle" if change["kind"] in ("create", "import", "multicast_create", "retain") else change["kind"]
            made[call.pid, kind, number(change.get("handle" if kind == "handle" else "address"))] = call
    found = [(call, "it was never destroyed") for call in undestroyed(run)]
    for pid, process in machine.processes.items():
        left = [("allocate", name) for name, block in process.blocks.items() if not block[2].startswith(OF_MODULES)]
        left += [("map", name) for name in process.mappings]
        left += [("handle", name) for name, handle in process.handles.items() if handle.references]
        left += [("reserve", name) for name in process.reservations]
        found += [(made[pid, kind, name], KEPT[kind]) for kind, name in left]
    for end in run.calls("exit"):
        for fd in end.arguments["sockets"][1:]:  # the first is main's, with which the two processes speak
            found.append((end, f"descriptor {fd}, of a socket or a pipe, is still open in a process when it ends"))
    for call, words in sorted(found, key=lambda one: one[0].index):
        wrong = call.wrong("at its end the program has given back all that it made", f"{call.name}: {words}")
        wrong.title = GIVEN_BACK
        return wrong
    return None
