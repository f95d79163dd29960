# SPDX-License-Identifier: MIT-0
"""02c: to unmap frees nothing while a handle holds the memory, and waits for nobody."""

from labs.judge.check import LAUNCHES, CheckFailed, check
from vmmsim.trace import number

TITLE = "Give memory back"
MINUTES = 10
MAINS = {"left": (5, 2)}, {"left": (7, 6), "changes": {"{5, 2}": "{7, 6}"}}  # chunks, after each shrink
PAGE = "02_growable/README.md#4-shrink"
ADVERSARIAL_TIMING = True  # a sleep takes no time
ELSEWHERE = ({"gpus": 2, "memory": "20MiB"},)  # room for little more than the buffer
HINTS = [
    "Memory is freed when nothing holds it any more. What holds the memory of a chunk: its mappings, and what else?",
    "Two ways are right: grow() releases each handle as soon as the chunk is mapped, so that the mapping alone holds "
    "the memory; or shrink() releases the handles of the chunks that it unmaps, and takes them out of `handles`.",
    "cuMemUnmap does not ask whether a kernel still uses the addresses. Which call returns when all kernels of the GPU "
    "are done? It has to come before cuMemUnmap.",
]


def OUTPUT(main):
    return f"""\
{main.left[0]} chunks: {main.left[0] << 11} KiB of memory are taken
{main.left[1]} chunks: {main.left[1] << 11} KiB of memory are taken
{main.left[1] << 19} of {main.left[1] << 19} integers are 7
0 KiB are not given back
OK
"""


CHUNK = 2 << 20
HOST_TO_HOST = 0  # a kind of copy
# What may tell the host that a kernel has ended, beside a call that waits for it: behind it in its stream.
TELLS = "cudaLaunchHostFunc", "cuLaunchHostFunc", "cudaStreamAddCallback", "cuStreamAddCallback", "cudaMemcpyAsync"
NON_BLOCKING = 1  # cudaStreamNonBlocking, CU_STREAM_NON_BLOCKING


@check("nothing is unmapped while a kernel may use it")
def waited(run):
    """A kernel here begins when the program waits for it, or late: what does not wait unmaps before it has begun."""
    begun = {kernel.launch: kernel for kernel in run.kernels}
    for unmap in run.calls("cuMemUnmap"):
        for launch in run.calls(*LAUNCHES):
            kernel = begun.get(launch)
            if (
                launch.index > unmap.index
                or kernel
                and kernel.begin.index < unmap.index
                and is_known(run, kernel, unmap)
            ):
                continue
            raise unmap.wrong(
                "before memory is unmapped, the program waits for the kernel that uses it",
                "the kernel was launched and not waited for: cuMemUnmap does not wait, and the kernel may fault",
            )


def is_known(run, kernel, unmap):
    """Whether something has told the host that the kernel has ended. That time has passed tells nothing."""
    if kernel.waiter and kernel.waiter.arguments.get("kind") != HOST_TO_HOST:  # what no GPU does waits for none
        return True
    between = run.all[kernel.launch.index : unmap.index]
    asked = [call for call in between if call.name.endswith("Query")]
    not_yet = [(call.name, call.arguments) for call in asked if not call.succeeded]  # who asks until it is so
    return any(call.succeeded and (call.name, call.arguments) in not_yet for call in asked) or any(
        call.name in TELLS and is_behind(run, call, kernel) for call in between
    )


def stream_of(call):
    return number(call.arguments.get("stream", call.arguments.get("hStream"))) or 0


def is_behind(run, call, kernel):
    """Whether it comes after the kernel: in the same stream, or in one that waits for the default stream."""
    aside = [it for it in run.calls("cudaStreamCreate*", "cuStreamCreate*") if flags(it) == NON_BLOCKING]
    asides = {number(it.outputs.get("pStream", it.outputs.get("phStream"))) for it in aside}
    return stream_of(call) == stream_of(kernel.launch) or not (asides & {stream_of(call), stream_of(kernel.launch)})


def flags(call):
    return call.arguments.get("flags", call.arguments.get("Flags", 0))


@check("the chunks that stay keep their memory")
def stays(run):
    grown = None
    for call, machine in run.replay():
        mappings = machine.processes[call.pid].mappings
        if call.name == "cudaLaunchKernel":
            if grown is None:
                grown = dict(mappings)
            for address, mapping in mappings.items():
                if grown.get(address) is not mapping:
                    raise call.wrong(
                        "the first chunks stay mapped as they are", "other memory is mapped when this kernel runs"
                    )


@check(
    "with each shrink, memory is given back at once",
    page="02_growable/README.md#4-shrink",
)
def given_back(run):
    created, unmapped, wanted = {}, None, iter(run.main.left)
    for call, machine in run.replay():
        for change in call.changes:
            if change["kind"] == "create":
                created[change["handle"]] = call
        if call.name == "cuMemUnmap":
            unmapped = call
        if call.name != "cudaMemGetInfo" or call.is_students or not created:
            continue
        chunks = next(wanted, None)
        if chunks is None:
            return
        lives = sum(memory.size for memory in machine.memory if memory.lives()) // CHUNK
        handles = machine.processes[call.pid].handles.values()
        held = sum(1 for it in handles if it.references and not it.mappings)
        if lives != chunks and not unmapped:
            raise call.wrong(f"chunks are unmapped, and {chunks} stay", "cuMemUnmap was not called")
        if lives != chunks:
            reason = f": the handles of {held} unmapped chunks still hold their memory" if held else ""
            raise unmapped.wrong(
                f"after the shrink to {chunks} chunks, {chunks} chunks of memory are left",
                f"{lives} chunks of memory are left" + reason,
            )
    raise CheckFailed("main looks twice at the free memory", "it did not get there", run=run)
