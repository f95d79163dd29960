# SPDX-License-Identifier: MIT-0
"""07a: a barrier lets threads wait for one another; it does not order accesses through two aliases."""

import dataclasses
import re

from labs.judge.check import Wrong, check

TITLE = "Fence it"
MINUTES = 10
PAGE = "07_aliasing/README.md#6-put-a-fence-between"
OUTPUT = """\
first read: 1024 of 1024 old
second read: 1024 of 1024 new
0 KiB are not given back
OK
"""
HINTS = [
    "No two threads use the same element. So what does a thread gain if it waits for the others at a barrier?",
    "A and B are two addresses of the same memory. The first read through B may leave a copy in a cache, under the "
    "address in B, and a write through A does not change that copy. Look for what orders accesses through two aliases.",
    "It is one PTX instruction, fence.proxy.alias. In C++ it is cuda::ptx::fence_proxy_alias(), and the program has "
    "included <cuda/ptx> for it. It stands after the write and before the second read, in place of the barrier.",
]

KERNEL = "read_write_read"
A, B, SECOND = {"0"}, {"1"}, {"3"}  # among its parameters
NOT_YET = "read B, write A, fence.proxy.alias, read B: in this order, in every thread"


def launches(run):
    found = [call for call in run.calls("cudaLaunch*", "cuLaunch*") if KERNEL in call.arguments.get("func", "")]
    if not found:
        raise Wrong(f"the kernel {KERNEL} is launched", "it was not launched", run=run)
    return found


@check("no thread reads the old value after it has written")
def nothing_stale(run):
    launched = launches(run)
    run.must_end()
    found = re.search(r"^second read: (\d+) of 1024 new$", run.stdout, re.MULTILINE)
    if not found:
        raise Wrong("it prints how many threads read the new value", f"it printed\n{run.stdout}", run=run)
    if int(found[1]) < 1024:
        raise launched[0].wrong(
            "the second read through B returns what the thread wrote through A, in all 1024 threads",
            f"{1024 - int(found[1])} threads read the old value: a barrier does not order accesses through two "
            "aliases, and a fence orders those of the thread that executes it",
        )


@check("one launch reads, writes and reads again")
def one_launch(run):
    for call in run.calls("cudaLaunch*", "cuLaunch*"):
        name = call.arguments.get("func", "")
        if "lab::" not in name and call is not launches(run)[0]:
            raise call.wrong("all of it happens in one launch", "another kernel was launched")
    for call in run.calls("cudaMemcpy*", "cuMemcpy*", "cudaMemset*", "cuMemset*"):
        if "Symbol" not in call.name:  # what lab::count uses
            raise call.wrong("the threads themselves read the new value", f"{call.name} was called")


@check("one allocation is mapped at A and at B when the kernel runs")
def mapped_twice(run):
    first = launches(run)[0]
    for call, machine in run.replay():
        if call.index != first.index:
            continue
        mappings = list(machine.processes[call.pid].mappings.values())
        if len(mappings) != 2 or mappings[0].memory is not mappings[1].memory:
            raise call.wrong("A and B are two mappings of one allocation", "they are not, when the kernel runs")


@dataclasses.dataclass
class Step:
    """A global access of the kernel, or the fence. `to` has the parameters that its address is made of."""

    what: str  # "ld", "st", "fence", "branch", "other"
    to: set
    loads: set  # the numbers of the loads that the value comes from


def steps_of(instructions):
    """What the kernel does, in order: which parameter leads to each address is followed through the registers."""
    steps, parameters, loads = [], {}, {}  # of each register
    for text in instructions:
        opcode, *operands = re.split(r"[\s,;]+", text.strip(" ;"))
        registers = [re.findall(r"%\w+", operand) for operand in operands]
        used = {register for its in registers[1:] for register in its}
        if "fence.proxy.alias" in text and not opcode.startswith("@"):
            steps.append(Step("fence", set(), set()))
        elif opcode.startswith("@") or opcode.startswith("bra"):
            steps.append(Step("branch", set(), set()))
        elif opcode.startswith("ld.param"):
            parameters[registers[0][0]] = set(re.findall(r"_param_(\d+)", text))
        elif opcode.startswith("st."):
            to = set().union(*(parameters.get(it, set()) for it in registers[0]))
            steps.append(Step("st", to, set().union(*(loads.get(it, set()) for it in used))))
        elif registers and registers[0]:
            its = set().union(*(parameters.get(it, set()) for it in used))
            if opcode.startswith("ld."):
                loads[registers[0][0]] = {len(steps)}
                steps.append(Step("ld", its, set()))
            else:
                parameters[registers[0][0]] = its
                if opcode.startswith(("mov", "cvt")):
                    loads[registers[0][0]] = set().union(*(loads.get(it, set()) for it in used))
                if opcode.startswith(("atom", "red")):
                    steps.append(Step("other", its, set()))
    return steps


@check("the alias fence stands between the write through A and the read through B")
def fenced(run):
    steps, place = steps_of(run.ptx(KERNEL)), run.part("order the write through A")
    fences = [at for at, step in enumerate(steps) if step.what == "fence"]
    if not fences:
        raise place.wrong(
            NOT_YET, "the kernel has no fence.proxy.alias; that the result is right on this GPU is luck, and no promise"
        )
    if any(step.what == "branch" for step in steps):
        raise place.wrong(NOT_YET, "the kernel has a condition: not every thread goes the same way to its second read")
    written = next((at for at, step in enumerate(steps) if step.what == "st" and step.to == A), len(steps))
    if any(step.what != "ld" and step.to & B for step in steps):
        raise place.wrong(NOT_YET, "the kernel writes through B, too: then it reads what it has written there")
    told = [step.loads for step in steps if step.what == "st" and step.to == SECOND]
    if not all(told) or not told:
        raise place.wrong(NOT_YET, "second[i] gets something else than what was read")
    read = set().union(*told)
    if any(steps[at].to != B for at in read):
        raise place.wrong(NOT_YET, "the second read goes through A: one address alone is used after the write")
    if not any(written < fence < min(read) for fence in fences):
        raise place.wrong(NOT_YET, "the fence does not stand between the write through A and the second read through B")
