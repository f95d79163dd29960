# SPDX-License-Identifier: MIT-0
"""06a: a bind waits until the team is complete, and a multicast object has a granularity of its own."""

from labs.judge.check import Run, check
from labs.judge.drawn import drawn

TITLE = "Add all, then bind"
MINUTES = 15
draw = drawn("06a")
N = draw.randrange(1100001, 3000000, 2)  # integers, no multiple of a granule
WHOLE = draw.randrange(4, 20, 4) << 20  # and one of each
MAINS = {"n": 1100000}, *({"n": n, "changes": {"n = 1100000": f"n = {n}"}} for n in (N, WHOLE))
PAGE = "06_multicast/README.md#1-add-every-gpu-then-bind"
GPUS = 2
ELSEWHERE = (
    {"gpus": 3, "machine": "coarse_multicast"},
    {"gpus": 5, "machine": "granules_of_16_mib"},
    {"gpus": draw.randrange(17, 19)},
)
ARCHITECTURE = 90
OUTPUT = "object 1: every GPU has it\nobject 2: every GPU has it\n"
HINTS = [
    "cuMulticastBindMem is not refused while a GPU is missing: it waits for it. Who adds the missing GPU meanwhile?",
    "An object is created; every GPU is added to it; memory is bound. Which of these steps may not come earlier in the "
    "turn of another GPU? And in the turn of the other object?",
    "Memory is created once for each GPU, and large enough for both objects. What says in a bind which part of it is "
    "meant? Look at the zeros of the lesson's call.",
    "cuMulticastGetGranularity takes the properties of the object, before it is created. The size must be a multiple "
    "of its answer and of the granularity of memory: both are powers of two.",
]
HINT_OF = {"complete_before_bound": 2, "halves_bound": 3, "no_more_than_needed": 4}

GRANULES = {"coarse_multicast": (2 << 20, 4 << 20), "granules_of_16_mib": (16 << 20, 2 << 20)}  # memory's, an object's


@check("every GPU is added to an object before memory is bound to it", points=4)
def complete_before_bound(run):
    gpus, added, last = run.options["gpus"], {}, {}
    for call in run.all:
        its = call.argument("mcHandle")
        if call.name.startswith("cuMulticastBind") and added.get(its, 0) < gpus:
            break
        if call.name == "cuMulticastAddDevice" and call.succeeded:
            added[its], last[its] = added.get(its, 0) + 1, call
    missing = [its for its, count in added.items() if count < gpus]
    if missing or not added:
        happened = f"{added.get(*missing[:1], 0) if missing else 0} of {gpus} were added"
        blamed = last[missing[0]] if missing else run
        wanted = f"all {gpus} GPUs are added before the first bind"
        raise blamed.wrong(wanted, f"{happened}, and a bind or a map waits for the others, for ever")


@check("half of each GPU's one allocation is bound to each object", page="#1-add-every-gpu-then-bind", points=3)
def halves_bound(run):
    launches = run.must_call("cudaLaunchKernel", "a kernel stores to all replicas")
    bound = run.calls("cuMulticastBind*")
    for gpu in range(run.options["gpus"]):
        machine = run.machine_after(launches[0])
        its = [memory for memory in machine.memory if memory.device == gpu and not memory.is_multicast]
        if len(its) != 1:
            blamed = [launches[0], *run.calls("cuMemCreate")][-1]
            raise blamed.wrong(f"GPU {gpu} has one allocation, with a half for each object", f"it has {len(its)}")
        objects = sum(gpu in {device for device, _ in memory.bound} for memory in machine.memory)
        if objects != 2:
            happened = f"memory of GPU {gpu} is bound to {objects} of them"
            raise [launches[0], *bound][-1].wrong("memory of every GPU is bound to both objects", happened)
    made = {call.changes[0]["device"]: call for call in run.calls("cuMemCreate")}
    for kernel, _, (own, *_) in run.work():
        gpu, other = kernel.begin.device, own.memory.device
        if gpu != other:
            raise made[other].wrong(f"memory[{gpu}] is memory of GPU {gpu}", f"it was created on GPU {other}")
    halves = {(call.argument("mcHandle"), call.argument("memOffset")) for call in bound}
    if len(halves) != 2 or len({offset for _, offset in halves}) != 2:
        raise bound[-1].wrong("one half of the memory is the first object's, the other the second's", "they share one")


@check("the size is rounded up to the minimum granularity, and no further", page="#1-add-every-gpu-then-bind", points=4)
def no_more_than_needed(run):
    of_memory, of_object = GRANULES.get(run.options.get("machine"), (2 << 20, 2 << 20))
    larger, data = max(of_memory, of_object), run.main.n * 4
    wanted = (data + larger - 1) // larger * larger
    for call in run.all:
        if call.name in ("cuMulticastCreate", "cuMemCreate"):
            size = call.argument("size") or call.arguments["prop"]["size"]
            if size != wanted * (1 if call.name == "cuMulticastCreate" else 2):
                raise call.wrong(
                    f"{wanted} bytes for an object, and twice as many of memory: {data} rounded up to the larger of "
                    "the two minimum granularities:\n"
                    f"that of memory is {of_memory}, that of the multicast object {of_object}",
                    f"{call.name} is asked for {size} bytes",
                )
    asked = [call.index for call in run.calls("cuMulticastGetGranularity") if not call.argument("option")]
    for call in run.calls("cuMulticastCreate"):
        if not asked or asked[0] > call.index:
            wanted = "before, cuMulticastGetGranularity says how large a granule of the object is at least"
            raise call.wrong(wanted, "the object was created without asking: elsewhere a granule may be larger")


answers = check("each answer is looked at", kept=True, main=0)(Run.must_look_at_answers)
