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
MAINS = (
    {"threads": 1024, "old": 1024, "new": 1024},
    {"threads": THREADS, "old": THREADS, "new": THREADS, "changes": {"threads = 1024": f"threads = {THREADS}"}},
    # B is no other address of what A leads to: whoever does not read through B is found.
    {
        "threads": 1024,
        "old": 0,
        "new": 0,
        "changes": {"reinterpret_cast<int*>(b), read,": "reinterpret_cast<int*>(b + size / 2), read,"},
    },
)
PAGE = "07_aliasing/README.md#5-put-a-fence-between"
OUTPUT = """\
first read: {old} of {threads} old
second read: {new} of {threads} new
"""
HINTS = [
    "No two threads use the same element. So what does a thread gain if it waits for the others at a barrier?",
    "A and B are two addresses of the same memory. The first read through B may leave a copy in a cache, under the "
    "address in B, and a write through A does not change that copy. Look for what orders accesses through two aliases.",
    "It is one PTX instruction, fence.proxy.alias. In C++ it is cuda::ptx::fence_proxy_alias(), and the program has "
    "included <cuda/ptx> for it. It stands after the write and before the second read, in place of the barrier.",
]


KERNEL = "read_write_read"
NOT_YET = "read B, write A, fence.proxy.alias, read B: in this order, in every thread"


@check("no thread reads the old value after it has written", points=3)
def nothing_stale(run):
    launch = next((call for call in run.launches if KERNEL in call.arguments["func"]), None)
    if not launch:
        raise run.wrong(f"the kernel {KERNEL} is launched", "it was not launched")
    run.must_end()
    found = re.search(r"^second read: (\d+) of \d+ new$", run.stdout, re.MULTILINE)
    if not found:
        raise run.wrong("it prints how many threads read the new value", f"it printed\n{run.stdout}")
    new = int(found[1])
    if new < run.main.new:
        raise launch.wrong(
            "the second read through B returns what the thread wrote through A, in all threads",
            f"{run.main.new - new} threads read the old value: a barrier does not order accesses through two "
            "aliases, and a fence orders those of the thread that executes it",
        )
    if new > run.main.new:
        raise launch.wrong(
            "the second read goes through B: here B is an address of other memory, to which nobody has written 42",
            f"{new} threads had 42, from A or of their own",
        )


@check("the alias fence stands between the write through A and the read through B", points=4)
def fenced(run):
    part = run.part("order the write through A")
    for call in run.calls("unordered"):
        happened = f"{call.arguments['where'].partition(', `')[0]}: no fence stands between its write and its read"
        raise part.wrong(NOT_YET, f"{happened}; that the result is right on this GPU is luck, and no promise")
    for told in run.program.spliced.assembly:
        if "fence.proxy.alias" not in told.instructions or '"memory"' in told.clobbers:
            continue
        happened = 'asm without a clobber of "memory" lets the compiler move reads and writes over it'
        raise run.line_of_file(told.line).wrong("the fence orders what the compiler makes, too", happened)
