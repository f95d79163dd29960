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
    "Each thread reads what it wrote, and what its left neighbour wrote. On which ways has it to wait for the "
    "neighbour, and where?",
    "A and B are two addresses of the same memory. A read may leave a copy in a cache, under its own address, and a "
    "write through the other does not change that copy. A barrier makes threads wait, and no cache forget. "
    "Only an alias fence tells the GPU that both addresses are one memory.",
    "The fence is one PTX instruction, fence.proxy.alias. In C++ it is cuda::ptx::fence_proxy_alias(), and the program "
    "has included <cuda/ptx> for it. Other fences do not cross from one address to the other.",
    "Follow each write to its reads at the other address: from a[i] to b[i] and b[left], and from b[threads + i] to "
    "a[threads + i] and a[threads + left]. A fence orders what was written before it, and nothing behind it.",
    "A fence knows no direction, from A to B or from B to A. Where do both writes of a thread lie before one fence, "
    "and all reads at the other address behind it?",
]
HINT_OF = {"waits": 1, "fences": 2, "ordered": 4, "no_more": 5}


PART = "what each thread does"
ACROSS = "between each write and the reads of it at the other address stands fence.proxy.alias, in every thread"


def reads(run, by_another):
    """What was read and nothing has ordered: each as a place of the file, its call, and in words where it was."""
    for call in run.calls("unordered"):
        its = call.arguments
        if its["by_another"] == by_another:
            way = "there" if its["written"] == its["read"] else "back"
            yield function_of_part(run, way), its, f"on the way {way}, {place_in(its)}"


def function_of_part(run, name):
    """The line in which the part defines it, or the part."""
    part = run.part(PART)
    lines = run.program.text.splitlines()[part.line - 1 :]
    defined = re.compile(rf"^[^/]*\bvoid\s+{name}\s*\(")
    return run.line_of_file(next((at for at, line in enumerate(lines, part.line) if defined.match(line)), part.line))


def place_in(arguments):
    """In words, which thread it was."""
    return arguments["where"].partition(", `")[0]


def outcome(run):
    """In words, what came of it."""
    found = re.search(r"^back: (\d+) of \d+ new$", run.stdout, re.MULTILINE)
    old = run.main.threads - int(found[1]) if found else 0
    if not old:
        return "that the result is right on this GPU is luck, and no promise"
    return f"{old} thread{'s' * (old > 1)} read old values"


@check("each thread waits for the writes of others before it reads them", kept=True)
def waits(run):
    run.must_end()
    for place, _, where in reads(run, by_another=True):
        happened = f"{where}: it has not waited for the thread that wrote what it reads, and time is no wait"
        raise place.wrong("a barrier stands between what a thread writes and what another reads", happened)


@check("an alias fence runs in every thread", points=2)
def fences(run):
    have_run = run.calls("fence")
    for place, its, where in reads(run, by_another=False):
        if not have_run:
            happened = "no alias fence has run, and a barrier or __threadfence() is none"
            raise place.wrong(ACROSS, f"{happened}; {outcome(run)}")
        if not its["fences"]:
            raise place.wrong(ACROSS, f"{where}: this thread runs none, and others do; {outcome(run)}")


@check("an alias fence stands between each write and the reads of it at the other address", points=2)
def ordered(run):
    for place, _, where in reads(run, by_another=False):
        happened = f"{where}: its alias fence ran before its write at B, and orders nothing behind it"
        raise place.wrong(ACROSS, f"{happened}; {outcome(run)}")
    for told in run.program.spliced.assembly:
        if "fence.proxy.alias" not in told.instructions or '"memory"' in told.clobbers:
            continue
        happened = 'asm without a clobber of "memory" lets the compiler move reads and writes over it'
        raise run.line_of_file(told.line).wrong("the fence orders what the compiler makes, too", happened)


@check("no thread runs more than one alias fence", points=2, kept=True)
def no_more(run):
    for call in run.calls("fence"):
        if call.arguments["count"] > 1:
            happened = f"{place_in(call.arguments)} ran a second"
            raise run.part(PART).wrong("one alias fence in each thread orders all that was written before it", happened)
