# SPDX-License-Identifier: MIT-0
"""05b: all 64 bytes of a fabric handle count, and they hold no memory: its release comes after the import.

One machine is enough: main takes one granule of GPU 0; what can differ is who is slow, and it does.
"""

import re

from labs.judge.check import EXPORT, IMPORT, Run, check
from labs.judge.diagnosis import how_it_ended
from labs.judge.drawn import drawn

TITLE = "Send all 64 bytes, then wait"
MINUTES = 15
SIZE = drawn("05b").randrange(4, 40, 2)  # MiB
SHUT = " signal(SIGPIPE, SIG_IGN); shutdown(socket, SHUT_RDWR);"
EXPORTED = "CHECK(cuMemExportToShareableHandle(&shared, memory, CU_MEM_HANDLE_TYPE_FABRIC, 0));"
IMPORTED = "CHECK(cuMemImportFromShareableHandle(&memory, &shared, CU_MEM_HANDLE_TYPE_FABRIC));"
MAINS = (
    {"integers": 1 << 19},
    {"integers": SIZE << 18, "changes": {"size = 2 << 20": f"size = {SIZE} << 20"}},
    {
        "prints": "",
        "words": "with a socket that is shut before the handle is sent",
        "changes": {EXPORTED: EXPORTED + SHUT},
    },
    {"prints": "", "words": "with a socket that is shut after the import", "changes": {IMPORTED: IMPORTED + SHUT}},
)
PAGE = "05_fabric/README.md#2-send-its-name"
OUTPUT = """\
64 bytes came
{integers} of {integers} integers are 7 in the importer
"""
HINTS = [
    "What is sizeof bytes? bytes is a pointer, and the handle is what it points to.",
    "A fabric handle is a plain struct: write(socket, &shared, sizeof shared) sends all 64 bytes of it.",
    "An open file descriptor holds memory, and a fabric handle does not. Until the import succeeds, only the exporter "
    "holds the memory, and it must not unmap and release.",
    "In the importer, after the import: write(socket, &byte, 1). In the exporter, after the handle is sent: "
    "read(socket, &byte, 1), which returns when that byte has come.",
]
HINT_OF = {"all_bytes": 1, "released_after": 3, "answers": 4}


FABRIC = 8  # CU_MEM_HANDLE_TYPE_FABRIC


created_once = check("memory is created once, by the exporter", kept=True)(Run.must_create_once)


@check("the importer imports all 64 bytes of the handle", points=5)
def all_bytes(run):
    wanted = "all 64 bytes of the fabric handle come to the importer, in their order"
    for call in run.must_import():
        if call.argument("shHandleType") != FABRIC:
            raise call.wrong("the importer imports a fabric handle", "it imported something else")
        for came in re.findall(r"^(\d+) bytes came$", run.stdout, re.MULTILINE):
            if int(came) != 64:
                raise call.wrong(wanted, f"{came} bytes came")
        if not call.succeeded and not lost_before(run, call):
            raise call.wrong(wanted, "what came is not the handle of this memory, and the import was refused")


@check("the exporter gives the memory back after the import", points=5)
def released_after(run):
    import_holds(run)
    import_holds(run.again(slow_importer=True))


def import_holds(run):
    """When the exporter lets go, the importer has the memory."""
    if lost := lost_before(run, run.must_import()[0]):
        happened = f"{lost.name} came before the import, and nobody held the memory any more"
        raise lost.wrong("the exporter holds the memory until the importer has imported it", happened)


def lost_before(run, first):
    """The call before this import after which no handle and no mapping held the memory, or None."""
    for call, machine in run.replay():
        if call.index >= first.index:
            return None
        if call.name in ("cuMemRelease", "cuMemUnmap") and not any(it.lives() for it in machine.memory if it.exports):
            return call
    return None


@check("each answer is looked at, of read and write, too", main=0)
def answers(run):
    run.must_look_at_answers()
    wanted = (
        "if read or write fails, as when the other process has ended, the program tells of it and ends with status 1"
    )
    for main, name in (2, EXPORT), (3, IMPORT):
        other = run.runner.run(run.options | {"main": main})
        before = other.must_call(name, "the program gets there")[-1]
        if other.ended.why or other.ended.status == 0:
            raise before.wrong(wanted, how_it_ended(other) or "the exporter went on, and ended with status 0")
        if "the importer failed" in other.said:
            raise before.wrong(wanted, "the exporter went on, and gave the memory back")
        if "in the importer" in other.stdout:
            raise before.wrong(wanted, "the importer went on, and used the memory")
        for end in other.calls("exit"):
            if end.pid == before.pid and end.argument("status") == 0:
                raise before.wrong(wanted, "the process ended with status 0")
