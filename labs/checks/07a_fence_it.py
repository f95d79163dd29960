# SPDX-License-Identifier: MIT-0
"""07a: a barrier lets threads wait for one another; it does not order accesses through two aliases."""

import re

from lab_check import Wrong, check

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
            f"{1024 - int(found[1])} threads read the old value; a barrier orders nothing between two aliases",
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


@check("the alias fence stands between the write through A and the read through B")
def fenced(run):
    first = launches(run)[0]
    text = run.program.file.read_bytes().decode("latin-1")
    body = re.search(rf"\.entry \w*{KERNEL}\w*\([^)]*\)[^{{]*(\{{.*?\n\}})", text, re.DOTALL)
    if not body:
        raise Wrong(f"the kernel is called {KERNEL}, as it was", "there is no such kernel", run=run)
    steps = re.findall(r"\b(ld|st)\.(?:\w+\.)*global\S*\s|\b(ld|st)\.[usbf]\d+\s|\b(fence\.proxy\.alias)\b", body[1])
    order = " ".join("".join(step) for step in steps)
    if "fence.proxy.alias" not in order:
        raise first.wrong(
            NOT_YET,
            "the kernel has no fence.proxy.alias; that the result is right on this GPU is luck, and no promise",
        )
    before, _, after = order.rpartition("fence.proxy.alias")
    if before.split().count("st") < 2 or "ld" not in after.split():
        raise first.wrong(NOT_YET, "the fence does not stand between the write through A and the second read through B")
