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
questions: {threads} of {threads} new
answers: {threads} of {threads} new
"""
HINTS = [
    "Where does a thread read what its neighbour wrote, and which of the three functions stands between?",
    "A barrier makes threads wait. Which of the reads stand at another address than the write, and what does a cache "
    "know of a write at the other address?",
    "The fence is one PTX instruction, fence.proxy.alias. In C++ it is cuda::ptx::fence_proxy_alias(), and the program "
    "has included <cuda/ptx> for it. Other fences do not cross from one address to the other.",
    "Follow each write to its reads at the other address: from a[i] to b[i] and b[left], and from b[threads + i] to "
    "a[threads + i] and a[threads + left]. A fence orders what was written before it, and nothing behind it.",
    "A fence knows no direction, from A to B or from B to A. Where do both writes of a thread lie before one fence, "
    "and all reads at the other address behind it?",
]
HINT_OF = {"waits": 1, "fences": 2, "ordered": 4, "no_more": 5}


PART = "what each thread does between its steps"
ACROSS = "between each write and the reads of it at the other address stands fence.proxy.alias, in every thread"


def reads(run, by_another):
    """What was read and nothing has ordered: each as a place of the file, its call, and in words where it was."""
    for call in run.calls("unordered"):
        its = call.arguments
        if its["by_another"] == by_another:
            is_same = its["written"] == its["read"]
            name = "after_questions" if is_same else "after_answers"
            where = f"at the {'address of the write' if is_same else 'other address'}, {place_in(its)}"
            yield function_of_part(run, name), its, where


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
    """In words, what came of it, in one of the mains at least."""
    for main in range(len(MAINS)):
        other = run.runner.run(run.options | {"main": main})
        found = re.search(r"^answers: (\d+) of (\d+) new$", other.stdout, re.MULTILINE)
        if found and found[1] != found[2]:
            return f"of {found[2]} threads {int(found[2]) - int(found[1])} read old values"
    return "that the result is right on this GPU is luck, and no promise"


@check("each thread waits for the writes of others before it reads them", kept=True)
def waits(run):
    run.must_end()
    for place, _, where in reads(run, by_another=True):
        happened = f"{where}: no barrier stands between the other thread's write and this read, and time is no wait"
        raise place.wrong("a barrier stands between what a thread writes and what another reads", happened)


@check("an alias fence runs in every thread", points=2)
def fences(run):
    have_run = run.calls("fence")
    for place, its, where in reads(run, by_another=False):
        if have_run and not its["fences"]:
            raise place.wrong(ACROSS, f"{where}: this thread runs none, and others do; {outcome(run)}")
    if not have_run:
        happened = f"no alias fence has run, and a barrier or __threadfence() is none; {outcome(run)}"
        raise run.part(PART, "after_answers").wrong(ACROSS, happened)


@check("an alias fence stands between each write and the reads of it at the other address", points=2)
def ordered(run):
    if not run.calls("fence"):
        fences(run)
    for place, _, where in reads(run, by_another=False):
        happened = f"{where}: its alias fence ran before its write at B, so it does not order that write"
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
            happened = (
                f"{place_in(call.arguments)} ran a second: which of the three functions has both writes before it, "
            )
            happened += "and all reads at the other address behind it?"
            raise run.part(PART).wrong("one alias fence in each thread is enough", happened)
