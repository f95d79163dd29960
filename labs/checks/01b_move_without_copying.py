# SPDX-License-Identifier: MIT-0
"""01b: the data is in the memory, not at the address."""

from labs.judge.check import Run, check
from labs.judge.drawn import drawn

TITLE = "Move without copying"
MINUTES = 10
SIZE = drawn("01b").randrange(6, 40, 2)  # MiB
MAINS = {"integers": 1 << 20}, {"integers": SIZE << 18, "changes": {"size = 4 << 20": f"size = {SIZE} << 20"}}
PAGE = "01_vmm_basics/README.md#3-move-the-data-without-copying-it"
ELSEWHERE = ({"gpus": 2, "machine": "coarse_memory"},)
OUTPUT = "{integers} of {integers} integers are 7 at the new address\n"
HINTS = [
    "Which of the four things of cudaMalloc has the data in it: the addresses, the memory, the mapping or the access?",
    "An allocation may be mapped at several addresses at once. You need neither a second cuMemCreate nor cudaMemcpy.",
    "Map `memory` at `to` as well. The new mapping starts without access: access belongs to a mapping.",
    "At last take the first mapping away: cuMemUnmap(from, size). The reservation at `from` is freed further down.",
]
HINT_OF = {"created_once": 2, "nothing_copied": 2, "same_memory": 3, "old_is_gone": 4}


@check("memory is created once")
def created_once(run):
    for call in [*run.ordinary_memory(), *run.calls("cuMemCreate")[1:]]:
        raise call.wrong("the memory that is there gets another address", f"{call.name} made more memory")


@check("not a byte is copied or written again")
def nothing_copied(run):
    for call in run.copies(launches=True):
        raise call.wrong("the data stays where it is", f"{call.name} was called")


def filled_and_counted(run):
    """Of main's two kernels each: the Kernel, and what was mapped then, by address."""
    mapped = {call: dict(machine.processes[call.pid].mappings) for call, machine in run.replay()}
    kernels = [kernel for kernel in run.kernels if kernel.range and not kernel.launch.is_students]
    if len(kernels) != 2:
        raise run.wrong("main fills the memory, and counts the integers at the new address", "it did not")
    return [(kernel, mapped[kernel.begin]) for kernel in kernels]


@check("the new address leads to the same memory, and GPU 0 may read and write there", points=3)
def same_memory(run):
    run.must_open_to(0)
    (filled, before), (counted, now) = filled_and_counted(run)
    (old, size), (new, _) = filled.range, counted.range
    if new not in now or new == old or now[new].size < size:
        raise counted.launch.wrong("the memory is mapped at `to` before its integers are counted", "it is not")
    if now[new].memory is not before[old].memory:
        raise counted.launch.wrong("the same memory is mapped at `to`", "other memory is mapped there")
    if now[new].access.get(0) != 3:
        may = "may only read there" if now[new].access.get(0) else "has no access there"
        happened = f"the memory is mapped at `to`, and GPU 0 {may}: access belongs to a mapping, not to memory"
        raise counted.launch.wrong("cuMemSetAccess grants GPU 0 to read and write the new mapping", happened)


@check("nothing is mapped at the old address any more", kept=True)
def old_is_gone(run):
    (filled, _), (counted, now) = filled_and_counted(run)
    if filled.range[0] in now:
        wanted = "`from` is unmapped before the integers are counted at `to`"
        raise counted.launch.wrong(wanted, "`from` still leads to the memory")
    if len(now) > 1:
        raise counted.launch.wrong("the memory is mapped at `to` and nowhere else", f"it is mapped {len(now)} times")


answers = check("each answer is looked at", kept=True, main=0)(Run.must_look_at_answers)
