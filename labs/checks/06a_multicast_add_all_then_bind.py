# SPDX-License-Identifier: MIT-0
"""06a: a bind waits until the team is complete, and a multicast object has a granularity of its own."""

from labs.judge.check import CheckFailed, Run, check

TITLE = "Add all, then bind"
MINUTES = 15
MAINS = {"n": 1100000}, {"n": 2100000, "changes": {"n = 1100000": "n = 2100000"}}  # integers, no multiple of a granule
PAGE = "06_multicast/README.md#2-create-the-object-and-add-every-gpu"
GPUS = 2
ELSEWHERE = {"gpus": 3, "machine": "coarse_multicast"}, {"gpus": 5, "machine": "granules_of_16_mib"}, {"gpus": 12}
ARCHITECTURE = 90
OUTPUT = """\
GPU 0 stored to all replicas: every GPU has it
0 KiB are not given back
OK
"""
HINTS = [
    "cuMulticastBindMem is not refused while a GPU is missing: it waits for it. Who adds the missing GPU meanwhile?",
    "Two loops, one after the other: the first calls cuMulticastAddDevice for each GPU, the second creates memory on "
    "each and binds it.",
    "cuMulticastGetGranularity takes the properties of the object, before it is created. The size must be a multiple "
    "of its answer and of the granularity of memory: both are powers of two, so take the larger.",
    "cuMulticastGetGranularity(&of_object, &team, CU_MULTICAST_GRANULARITY_MINIMUM) answers in of_object, a size_t. "
    "Round team.size up after that, to std::max(granularity, of_object).",
]

GRANULARITY = "06_multicast/README.md#1-ask-for-the-granularity"
GRANULES = {"coarse_multicast": (2 << 20, 4 << 20), "granules_of_16_mib": (16 << 20, 2 << 20)}  # memory's, an object's
BINDING = "06_multicast/README.md#3-bind-memory-of-every-gpu"


@check("every GPU is added before memory is bound")
def complete_before_bound(run):
    gpus, added, last = run.options["gpus"], 0, None
    for call, machine in run.replay():
        added = max((len(memory.team) for memory in machine.memory), default=0)
        if call.name.startswith("cuMulticastBind") and added < gpus:
            break
        last = call if call.name == "cuMulticastAddDevice" else last
    if added < gpus:
        wanted = f"all {gpus} GPUs are added before the first bind"
        happened = f"{added} of {gpus} were added, and a bind or a map waits for the others, for ever"
        raise last.wrong(wanted, happened) if last else CheckFailed(wanted, "no GPU was added", run=run)


@check("memory of every GPU is bound when the kernel runs", page=BINDING)
def every_replica_bound(run):
    gpus = run.options["gpus"]
    for call, machine in run.replay():
        if call.name != "cudaLaunchKernel":
            continue
        missing = set(range(gpus)) - {device for memory in machine.memory for device, _ in memory.bound}
        if missing:
            gpu, its = min(missing), run.calls("cuMulticastBind*")
            blamed = its[-1] if its else call
            raise blamed.wrong("memory of every GPU is bound when the kernel runs", f"no memory of GPU {gpu} is bound")
        return
    raise CheckFailed("a kernel stores to all replicas", "none ran", run=run)


def whole_granules(run):
    """The sizes of the object and of the memory are the least that fit."""
    of_memory, of_object = GRANULES.get(run.options.get("machine"), (2 << 20, 2 << 20))
    data = run.main.n * 4
    right = -(-data // max(of_memory, of_object)) * max(of_memory, of_object)
    for call in run.all:
        if call.name not in ("cuMulticastCreate", "cuMemCreate"):
            continue
        size = call.arguments["prop"]["size"] if call.name == "cuMulticastCreate" else call.argument("size")
        if size != right:
            raise call.wrong(
                f"{right} bytes, {data} rounded up to the larger of the two minimum granularities:\n"
                f"that of memory is {of_memory}, that of the multicast object {of_object}",
                f"{call.name} is asked for {size} bytes",
            )


@check("the size is rounded up to the minimum granularity, and no further", page=GRANULARITY)
def no_more_than_needed(run):
    whole_granules(run)
    for call in run.calls("cuMulticastCreate"):
        if not any(
            asked.index < call.index and not asked.argument("option")
            for asked in run.calls("cuMulticastGetGranularity")
        ):
            wanted = "before, cuMulticastGetGranularity says how large a granule of the object is at least"
            raise call.wrong(wanted, "the object was created without asking: elsewhere a granule may be larger")


answers = check("each answer is looked at", main=0)(Run.must_look_at_answers)
