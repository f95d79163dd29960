# SPDX-License-Identifier: MIT-0
"""06a: a bind waits until the team is complete, and a multicast object has a granularity of its own."""

from labs.judge.check import Run, check
from labs.judge.drawn import drawn

TITLE = "Add all, then bind"
MINUTES = 15
draw = drawn("06a")
N = draw.randrange(1100001, 3000000, 2)  # integers, no multiple of a granule
MAINS = {"n": 1100000}, {"n": N, "changes": {"n = 1100000": f"n = {N}"}}
PAGE = "06_multicast/README.md#1-add-every-gpu-then-bind"
GPUS = 2
ELSEWHERE = (
    {"gpus": 3, "machine": "coarse_multicast"},
    {"gpus": 5, "machine": "granules_of_16_mib"},
    {"gpus": draw.randrange(9, 17)},
)
ARCHITECTURE = 90
OUTPUT = "GPU 0 stored to all replicas: every GPU has it\n"
HINTS = [
    "cuMulticastBindMem is not refused while a GPU is missing: it waits for it. Who adds the missing GPU meanwhile?",
    "Two loops, one after the other: the first calls cuMulticastAddDevice for each GPU, the second creates memory on "
    "each and binds it.",
    "cuMulticastGetGranularity takes the properties of the object, before it is created. The size must be a multiple "
    "of its answer and of the granularity of memory: both are powers of two, so take the larger.",
    "cuMulticastGetGranularity(&of_object, &object_properties, CU_MULTICAST_GRANULARITY_MINIMUM) answers in "
    "of_object, a size_t. Round object_properties.size up after that, to std::max(granule, of_object).",
]

GRANULES = {"coarse_multicast": (2 << 20, 4 << 20), "granules_of_16_mib": (16 << 20, 2 << 20)}  # memory's, an object's


@check("every GPU is added before memory is bound", points=4)
def complete_before_bound(run):
    gpus, added, last = run.options["gpus"], 0, None
    for call, machine in run.replay():
        added = max((len(memory.team) for memory in machine.memory), default=0)
        if call.name.startswith("cuMulticastBind") and added < gpus:
            break
        last = call if call.name == "cuMulticastAddDevice" else last
    if added < gpus:
        happened = f"{added} of {gpus} were added, and a bind or a map waits for the others, for ever"
        raise (last or run).wrong(f"all {gpus} GPUs are added before the first bind", happened)


@check("memory of every GPU is bound when the kernel runs", page="#1-add-every-gpu-then-bind", points=3)
def every_replica_bound(run):
    launch = run.must_call("cudaLaunchKernel", "a kernel stores to all replicas")[0]
    bound = {device for memory in run.machine_after(launch).memory for device, _ in memory.bound}
    missing = set(range(run.options["gpus"])) - bound
    if missing:
        blamed = [launch, *run.calls("cuMulticastBind*")][-1]
        happened = f"no memory of GPU {min(missing)} is bound"
        raise blamed.wrong("memory of every GPU is bound when the kernel runs", happened)


@check("the size is rounded up to the minimum granularity, and no further", page="#1-add-every-gpu-then-bind", points=4)
def no_more_than_needed(run):
    of_memory, of_object = GRANULES.get(run.options.get("machine"), (2 << 20, 2 << 20))
    larger, data = max(of_memory, of_object), run.main.n * 4
    wanted = (data + larger - 1) // larger * larger
    for call in run.all:
        if call.name in ("cuMulticastCreate", "cuMemCreate"):
            size = call.argument("size") or call.arguments["prop"]["size"]
            if size != wanted:
                raise call.wrong(
                    f"{wanted} bytes, {data} rounded up to the larger of the two minimum granularities:\n"
                    f"that of memory is {of_memory}, that of the multicast object {of_object}",
                    f"{call.name} is asked for {size} bytes",
                )
    asked = [call.index for call in run.calls("cuMulticastGetGranularity") if not call.argument("option")]
    for call in run.calls("cuMulticastCreate"):
        if not asked or asked[0] > call.index:
            wanted = "before, cuMulticastGetGranularity says how large a granule of the object is at least"
            raise call.wrong(wanted, "the object was created without asking: elsewhere a granule may be larger")


answers = check("each answer is looked at", kept=True, main=0)(Run.must_look_at_answers)
