# SPDX-License-Identifier: MIT-0
"""05b: a fabric handle holds no memory, nor does a copy of it: the exporter's release comes after the last import.

One machine is enough: main takes one granule of GPU 0; what can differ is who is slow, and each importer is.
"""

import re

from labs.judge.check import EXPORT, CheckFailed, Run, check
from labs.judge.diagnosis import ENDED, how_it_ended
from labs.judge.drawn import drawn

TITLE = "Hold it long enough"
MINUTES = 10
SIZE = drawn("05b").randrange(4, 40, 2)  # MiB
PROCESSES = "exporter", "first importer", "second importer"  # in the order of their first calls
BEGINS = {"first importer": "} else if (!first) {", "second importer": "} else {"}  # before the part of each


def without(socket, process):
    """A change of main: the process cannot write to this socket; who reads at the other end waits until it ends."""
    cut = f" {{ int cut[2]; EXPECT(!pipe(cut) && dup({socket}) >= 0 && dup2(cut[0], {socket}) >= 0, \"no pipe\"); "
    return {BEGINS[process]: BEGINS[process] + cut + "close(cut[1]); }"}


MAINS = (
    {"integers": 1 << 19},
    {"integers": SIZE << 18, "changes": {"size = 2 << 20": f"size = {SIZE} << 20"}},
    {
        "prints": "",
        "fail": ("second importer", "first importer", "exporter"),
        "words": "with a second importer that cannot write to the first",
        "changes": without("to_first", "second importer"),
    },
    {
        "prints": "",
        "fail": ("first importer", "exporter"),
        "words": "with a first importer that cannot write to the exporter",
        "changes": without("to_exporter", "first importer"),
    },
    {
        "prints": "",
        "fail": ("first importer", "exporter"),
        "words": "with a first importer that cannot write to the second",
        "changes": without("to_second", "first importer"),
    },
)
PAGE = "05_fabric/README.md#2-send-its-name"
OUTPUT = "both importers read {integers} integers\n"
HINTS = [
    "A fabric handle holds no memory. Who holds it while an import is still to come, and until when?",
    "The byte that says that an import is done is sent after the import: a write that comes before it says nothing.",
    "The exporter does not know of the second importer. The first one does: it passed the handle on.",
    "Three processes, one byte each way: the second importer tells the first, and the first tells the exporter.",
    "write(socket, &byte, 1) answers 1. So does read(socket, &byte, 1), or 0 where the other process has ended.",
]
HINT_OF = {"first_imported": 1, "second_imported": 3, "answers": 5}


created_once = check("memory is created once, by the exporter", kept=True)(Run.must_create_once)


@check("the exporter keeps the memory until the first importer has imported it", points=2)
def first_imported(run):
    must_hold(run, 1)
    must_hear(run)
    must_hold(slow(run, 2), 1)


@check("the exporter keeps the memory until the second importer has imported it", points=3)
def second_imported(run):
    must_hold(run, 2)
    must_hold(slow(run, 3), 2)
    for importer in 2, 3:  # and these runs end as they should
        run.again(slow_importer=importer)


def slow(run, importer):
    """A run in which one importer is slow, whatever this one has come to: whose import was refused may be luck."""
    return run.runner.run(run.options | {"slow_importer": importer})


def must_hold(run, which):
    """The exporter holds the memory when this importer imports it."""
    process = processes(run)
    its = [call for call in run.must_import() if call.pid == process.get(PROCESSES[which])]
    wanted = f"the exporter holds the memory until the {PROCESSES[which]} has imported it"
    if not its:
        raise run.stopped() or run.wrong(wanted, f"the {PROCESSES[which]} did not import it")
    if lost := let_go_before(run, its[0]):
        call, is_held = lost
        by_others = "and nobody held it any more"
        if is_held:
            by_others = "and only the first importer still held it: nobody promises that a name works then"
        raise call.wrong(wanted, f"{call.name} came before the {PROCESSES[which]}'s import, {by_others}")


def processes(run):
    pids = dict.fromkeys(call.pid for call in run.all if call.line)
    return dict(zip(PROCESSES, pids, strict=False))


def let_go_before(run, first):
    """The call before this import after which no handle and no mapping of the exporter held the memory, and whether any
    other does; or None."""
    exporter = run.calls(EXPORT)[0].pid
    for call, machine in run.replay():
        if call.index >= first.index:
            return None
        if call.pid == exporter and call.name in ("cuMemRelease", "cuMemUnmap"):
            memory = next((it for it in machine.memory if it.exports), None)
            held = [handle.pid for handle in memory.handles if handle.references or handle.mappings] if memory else []
            if exporter not in held:
                return call, bool(held)
    return None


def must_hear(run):
    """No importer ends as if all were done while another process still reads what it was to say."""
    process, ends = processes(run), {call.pid: call for call in run.calls("exit")}
    for listener, teller in ("first importer", "second importer"), ("exporter", "first importer"):
        reads, told = (ends.get(process.get(name)) for name in (listener, teller))
        has_failed = reads and reads.argument("status") and re.search(r"\b(read|recv\w*)\(", run.said)
        if has_failed and told and told.argument("status") == 0 and told.index < reads.index:
            happened = f"the {teller} imported and ended, and what the {listener} reads had not come:\n{run.said}"
            wrong = run.part(f"the {teller}").wrong(f"the {listener} hears what it waits for", happened)
            wrong.title = ENDED
            raise wrong


@check("what each call, read and write returns is looked at", main=0)
def answers(run):
    run.must_look_at_answers()
    try:
        must_hold(run, 2)
    except CheckFailed as wrong:  # then its exporter has ended, whatever becomes of the others
        wrong.title = second_imported.title
        raise
    wanted = (
        "if read or write fails, as when the other process has ended, the program tells of it and ends with status 1"
    )
    for main in range(2, len(MAINS)):
        other = run.runner.run(run.options | {"main": main})
        process, ends = processes(other), {call.pid: call for call in other.calls("exit")}
        for name in MAINS[main]["fail"]:
            end = ends.get(process.get(name))
            if end and end.argument("status") == 0:
                raise other.part(f"the {name}").wrong(wanted, f"the {name} went on, and ended with status 0")
        if "an importer failed" in other.said:
            raise other.part("the exporter").wrong(wanted, "the exporter went on, and gave the memory back")
        if other.ended.why:
            raise other.wrong(wanted, how_it_ended(other))
