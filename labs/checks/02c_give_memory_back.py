# SPDX-License-Identifier: MIT-0
"""02c: to unmap frees nothing while a handle holds the memory, and waits for nobody."""

from labs.judge.check import LAUNCHES, Run, check
from labs.judge.drawn import drawn

TITLE = "Give memory back"
MINUTES = 10
SHRINKS = sorted(drawn("02c").sample(range(3, 19), 2), reverse=True)
FILL = "lab::fill_kernel<int><<<4, 256>>>(reinterpret_cast<int*>(buffer.address), n, 7);"
MAINS = (  # chunks, after each shrink
    {"left": (5, 2), "KiB": (10240, 4096), "integers": 1 << 20},
    {
        "left": SHRINKS,
        "KiB": [each << 11 for each in SHRINKS],
        "integers": SHRINKS[1] << 19,
        "changes": {
            "8 * chunk": "19 * chunk",
            "{5, 2}": str(SHRINKS).replace("[", "{").replace("]", "}"),
            "  shrink(buffer, 0);": f"  {FILL}\n  shrink(buffer, 0);",
        },
        "words": "with other sizes in main, and a kernel before the last shrink",
    },
    {
        "words": "with two buffers at once in main",
        "prints": "5 chunks: 22528 KiB of memory are taken\n2 chunks: 10240 KiB of memory are taken\n"
        "1048576 of 1048576 integers are 7\n1572864 are 9\n",
        "changes": {
            "  Buffer buffer;": "  Buffer buffer, other; "
            "CHECK(cuMemAddressReserve(&other.address, 8 * chunk, 0, 0, 0)); grow(other, 8 * chunk); "
            "lab::fill<int>(other.address, 8 << 19, 9);",
            "shrink(buffer, chunks * chunk);": "shrink(buffer, chunks * chunk); shrink(other, (chunks + 1) * chunk);",
            "shrink(buffer, 0);": 'std::printf("%llu are 9\\n", lab::count<int>(other.address, 3 << 19, 9)); '
            "shrink(other, 0); for (const CUmemGenericAllocationHandle memory : other.handles) "
            "CHECK(cuMemRelease(memory)); CHECK(cuMemAddressFree(other.address, 8 * chunk)); shrink(buffer, 0);",
        },
    },
)
PAGE = "02_growable/README.md#4-shrink"
ADVERSARIAL_TIMING = True  # a sleep takes no time
# Room for little more than the buffer; and a sleep that takes its time.
ELSEWHERE = {"gpus": 2, "memory": "20MiB"}, {"adversarial_timing": False}
OUTPUT = """\
{left[0]} chunks: {KiB[0]} KiB of memory are taken
{left[1]} chunks: {KiB[1]} KiB of memory are taken
{integers} of {integers} integers are 7
"""
HINTS = [
    "Memory is freed when nothing holds it any more. What holds the memory of a chunk: its mappings, and what else?",
    "Two ways are right: grow() releases each handle as soon as the chunk is mapped, so that the mapping alone holds "
    "the memory; or shrink() releases the handles of the chunks that it unmaps, and takes them out of `handles`.",
    "cuMemUnmap does not ask whether a kernel still uses the addresses. Which call returns when all kernels of the GPU "
    "are done? It has to come before cuMemUnmap.",
]
HINT_OF = {"waited": 3, "given_back": 2}


CHUNK = 2 << 20
HOST_TO_HOST = 0  # a kind of copy
# What may tell the host that a kernel has ended, beside a call that waits for it: behind it in its stream.
TELLS = "cudaLaunchHostFunc", "cuLaunchHostFunc", "cudaStreamAddCallback", "cuStreamAddCallback", "cudaMemcpyAsync"


@check("nothing is unmapped while a kernel may use it", points=2)
def waited(run):
    """A kernel here begins when the program waits for it, or late: what does not wait unmaps before it has begun."""
    begun = {kernel.launch: kernel for kernel in run.kernels}
    for unmap in run.calls("cuMemUnmap"):
        for launch in [call for call in run.calls(*LAUNCHES) if call.index < unmap.index]:
            kernel = begun.get(launch)
            if not kernel or kernel.begin.index > unmap.index or not is_known(run, kernel, unmap):
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
    if any(call.succeeded and (call.name, call.arguments) in not_yet for call in asked):
        return True
    return any(call.name in TELLS and is_behind(run, call, kernel.launch) for call in between)


def is_behind(run, call, launch):
    """Whether it comes after the kernel: in the same stream, or in one that waits for the default stream."""
    return call.stream == launch.stream or not run.streams_aside & {call.stream, launch.stream}


@check("the chunks that stay keep their memory", kept=True)
def stays(run):
    run.must_open_to(0)
    grown = None
    for call, machine in run.replay():
        if call.name == "cudaLaunchKernel":
            mappings = machine.processes[call.pid].mappings
            grown = grown or dict(mappings)
            if any(grown.get(address) is not mapping for address, mapping in mappings.items()):
                wanted = "the first chunks stay mapped as they are"
                raise call.wrong(wanted, "other memory is mapped when this kernel runs")


@check("with each shrink, memory is given back at once", page="#4-shrink", points=2)
def given_back(run):
    created, unmapped, wanted = False, None, iter(run.main.left)
    for call, machine in run.replay():
        created = created or call.name == "cuMemCreate"
        unmapped = call if call.name == "cuMemUnmap" else unmapped
        if call.name != "cudaMemGetInfo" or call.is_students or not created:
            continue
        chunks = next(wanted, None)
        if chunks is None:
            return
        lives = sum(memory.size for memory in machine.memory if memory.lives()) // CHUNK
        if lives == chunks:
            continue
        if not unmapped:
            raise call.wrong(f"chunks are unmapped, and {chunks} stay", "cuMemUnmap was not called")
        handles = machine.processes[call.pid].handles.values()
        held = sum(1 for it in handles if it.references and not it.mappings)
        reason = f": the handles of {held} unmapped chunks still hold their memory" if held else ""
        after = f"after the shrink to {chunks} chunks, {chunks} chunks of memory are left"
        raise unmapped.wrong(after, f"{lives} chunks of memory are left{reason}")
    raise run.wrong("main looks twice at the free memory", "it did not get there")


apart = check("two buffers at once do not disturb each other", kept=True, main=2)(Run.must_do_as_well)
answers = check("each answer is looked at", kept=True, main=0)(Run.must_look_at_answers)
