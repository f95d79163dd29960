# SPDX-License-Identifier: MIT-0
"""01b: the data is in the memory, not at the address."""

from labs.judge.check import Wrong, check

TITLE = "Move without copying"
MINUTES = 10
PAGE = "01_vmm_basics/README.md#8-move-it"
OUTPUT = """\
1048576 of 1048576 integers are 7 at the new address
0 KiB are not given back
OK
"""
HINTS = [
    "Which of the four things of cudaMalloc has the data in it: the addresses, the memory, the mapping or the access?",
    "An allocation may be mapped at several addresses at once. You need neither a second cuMemCreate nor cudaMemcpy.",
    "Map `handle` at `to` as well. The new mapping starts without access: access belongs to a mapping.",
    "At last take the first mapping away: cuMemUnmap(from, size). The reservation at `from` is freed further down.",
]


@check("memory is created once")
def created_once(run):
    for call in run.calls("cuMemCreate", "cudaMalloc*", "cuMemAlloc*")[1:]:
        raise call.wrong("the memory that is there gets another address", f"{call.name} made more memory")


@check("not a byte is copied or written again")
def nothing_copied(run):
    for call in run.calls("cudaMemcpy*", "cuMemcpy*", "cudaMemset*", "cuMemset*"):
        if "Symbol" not in call.name:  # what lab::count uses
            raise call.wrong("the data stays where it is", f"{call.name} was called")
    for call in run.calls("cudaLaunch*", "cuLaunch*")[1:]:
        if "lab::count_kernel" not in call.arguments.get("func", ""):
            raise call.wrong("no kernel runs but the one that filled and the one that counts", "another kernel ran")


def at_the_launches(run):
    """For the kernel that fills and the last that counts: the call, and what is mapped then, by address."""
    launches = [(call, dict(machine.processes[call.pid].mappings)) for call, machine in run.replay() if is_launch(call)]
    if len(launches) < 2:
        raise Wrong("the integers are counted at the new address", "that kernel did not run", run=run)
    return launches[0], launches[-1]


def is_launch(call):
    return call.name == "cudaLaunchKernel" and call.succeeded


@check("the new address leads to the same memory, and GPU 0 may read and write there")
def same_memory(run):
    (_, before), (counted, now) = at_the_launches(run)
    new = [mapping for address, mapping in now.items() if address not in before]
    if not new:
        raise counted.wrong("the memory is mapped at `to` before its integers are counted", "it is mapped nowhere new")
    if new[0].access.get(0) != 3:
        may = "may only read there" if new[0].access.get(0) else "has no access there"
        raise counted.wrong(
            "cuMemSetAccess grants GPU 0 to read and write the new mapping",
            f"the memory is mapped at `to`, and GPU 0 {may}: access belongs to a mapping, not to memory",
        )


@check("nothing is mapped at the old address any more")
def old_is_gone(run):
    (_, before), (counted, now) = at_the_launches(run)
    if set(before) & set(now):
        raise counted.wrong(
            "`from` is unmapped before the integers are counted at `to`", "`from` still leads to the memory"
        )
