# SPDX-License-Identifier: MIT-0
"""07a: a barrier lets threads wait for one another; it does not order accesses through two aliases.

One machine is enough: main makes the memory, one granule of GPU 0, and the part is what each thread does.
"""

import re

from labs.judge.check import check
from labs.judge.drawn import drawn

TITLE = "Fence it"
MINUTES = 10
THREADS = drawn("07a").randrange(33, 1000)
MAINS = {"threads": 1024}, {"threads": THREADS, "changes": {"threads = 1024": f"threads = {THREADS}"}}
PAGE = "07_aliasing/README.md#5-put-a-fence-between"
OUTPUT = """\
there: {threads} of {threads} new
back: {threads} of {threads} new
"""
HINTS = [
    "A question is read by the thread that wrote it, and by another. What has each of the two to wait for?",
    "A and B are two addresses of the same memory. A read may leave a copy in a cache, under its own address, and a "
    "write through the other does not change that copy. A barrier makes threads wait, and no cache forget.",
    "On the way back the roles are changed: written through B, read through A. Has the first fence ordered what was "
    "written after it?",
    "The fence is one PTX instruction, fence.proxy.alias. In C++ it is cuda::ptx::fence_proxy_alias(), and the program "
    "has included <cuda/ptx> for it. The barrier stays.",
]
HINT_OF = {"nothing_stale": 2, "fenced": 3}


KERNEL, PART = "ask_and_answer", "what each thread does"
NOT_YET = "between each write and the reads at the other address: fence.proxy.alias and a barrier, in every thread"


def place_in(unordered):
    """In words, which thread reads what nothing has ordered."""
    return unordered.arguments["where"].partition(", `")[0]


@check("no thread reads an old value, there or back", points=3)
def nothing_stale(run):
    launch = next((call for call in run.launches if KERNEL in call.arguments["func"]), None)
    if not launch:
        raise run.wrong(f"the kernel {KERNEL} is launched", "it was not launched")
    run.must_end()
    for way in "there", "back":
        found = re.search(rf"^{way}: (\d+) of \d+ new$", run.stdout, re.MULTILINE)
        if not found:
            raise run.wrong("it prints how many threads read new values", f"it printed\n{run.stdout}")
        if old := run.main.threads - int(found[1]):
            raise launch.wrong(
                "all threads read what was written at the other address, their own and their neighbour's",
                f"{old} threads read an old value on the way {way}: a barrier makes threads wait, and does not order "
                "what they see at two addresses of the same memory",
            )
    for call in run.calls("unordered"):
        if call.arguments["by_another"]:
            happened = f"{place_in(call)}: it has not waited for the thread that wrote what it reads; time is no wait"
            raise run.part(PART).wrong("each thread waits for the writes of the others before it reads them", happened)


@check("an alias fence stands between each write and the reads at the other address", points=4)
def fenced(run):
    part = run.part(PART)
    for call in run.calls("unordered"):
        happened = f"{place_in(call)}: no fence stands between its write and its read"
        raise part.wrong(NOT_YET, f"{happened}; that the result is right on this GPU is luck, and no promise")
    for told in run.program.spliced.assembly:
        if "fence.proxy.alias" not in told.instructions or '"memory"' in told.clobbers:
            continue
        happened = 'asm without a clobber of "memory" lets the compiler move reads and writes over it'
        raise run.line_of_file(told.line).wrong("the fence orders what the compiler makes, too", happened)
