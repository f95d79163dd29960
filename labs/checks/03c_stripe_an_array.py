# SPDX-License-Identifier: MIT-0
"""03c: neighbouring addresses may lead to different GPUs, and one call grants access to all the mappings."""

from labs.judge.check import Run, check, place_of
from labs.judge.drawn import drawn

TITLE = "Stripe an array"
MINUTES = 15
draw = drawn("03c")
STEP, MOST = draw.choice([(4, 9), (5, 11), (5, 6), (6, 7), (6, 8), (7, 9), (9, 11)])
MAINS = (  # GPU g has room for (first + step * g) % most stripes: of three 3, 0, 1; then 0, and many but unlike
    {"first": 3, "step": 5, "most": 4},
    {"first": 0, "step": STEP, "most": MOST, "changes": {"(3 + 5 * gpu) % 4": f"{STEP} * gpu % {MOST}"}},
)
PAGE = "03_multi_gpu/README.md#1-lay-the-table-across-the-gpus"
GPUS = 3
ELSEWHERE = {"gpus": 2}, {"gpus": 5, "machine": "coarse_memory"}, {"gpus": draw.randrange(33, 41)}
OUTPUT = "one kernel read the array from end to end: all are 7\n"
HINTS = [
    "An allocation lies on one GPU. How many do the stripes need, and which member of the properties says where?",
    "Take 3, 0 and 1 for the room of three GPUs, and write down whose each stripe is. Which GPU is asked in each turn?",
    "A turn may make no stripe. So what counts the turns cannot be what counts the stripes: where is each mapped?",
    "Release each handle right after its mapping: the mapping holds the memory.",
    "cuMemSetAccess takes a range of several whole mappings and an array of descriptors: one call after the loop.",
]
HINT_OF = {"striped": 2, "everyone_has_access": 5, "one_call": 5, "GIVEN_BACK": 4}


def array_at_first_kernel(run):
    """The first kernel, and the mappings then, as (address, mapping) in a row."""
    for call, machine in run.replay():
        if call in run.launches:
            return call, sorted(machine.processes[call.pid].mappings.items())
    raise run.wrong("kernels write and read the array", "none ran")


def owners(main, gpus):
    """The GPU of each stripe."""
    room = [(main.first + main.step * gpu) % main.most for gpu in range(gpus)]
    return [gpu for turn in range(main.most) for gpu in range(gpus) if turn < room[gpu]]


def listed(gpus):
    return ", ".join(str(gpu) if gpu >= 0 else "none (the host)" for gpu in gpus) or "none"


@check("the stripes are memory of the GPUs in turn, of each as many as it has room for", points=9)
def striped(run):
    call, mappings = array_at_first_kernel(run)
    gpus, granule = run.options["gpus"], run.calls("cuMemGetAllocationGranularity")[0].outputs["granularity"]
    maps = {call.argument("ptr"): call for call in run.calls("cuMemMap")}
    for stripe, (address, mapping) in enumerate(mappings):
        if mapping.size != granule:
            happened = f"stripe {stripe} has {mapping.size >> 20} MiB of {place_of(mapping.memory.device)}"
            raise maps[address].wrong(f"each stripe is memory of one granule, {granule >> 20} MiB", happened)
    found, wanted = [mapping.memory.device for _, mapping in mappings], owners(run.main, gpus)
    if found != wanted:
        by = next((maps[at] for (at, _), one, due in zip(mappings, found, wanted, strict=False) if one != due), call)
        raise by.wrong(f"the stripes lie on GPUs {listed(wanted)}", f"they lie on GPUs {listed(found)}")
    for call in [*run.ordinary_memory(), *run.copies()]:
        raise call.wrong("the kernels of main work in the array itself", f"{call.name} was called")
    for _ in run.work():
        pass  # each stripe is memory of its own


@check("every GPU may read and write every stripe when the kernels run", page="#3-let-the-reader-in", kept=True)
def everyone_has_access(run):
    call, mappings = array_at_first_kernel(run)
    for stripe, (_, mapping) in enumerate(mappings):
        for gpu in range(run.options["gpus"]):
            if mapping.access.get(gpu) != 3:
                happened = f"GPU {gpu} may not read and write stripe {stripe}, of GPU {mapping.memory.device}"
                raise call.wrong("every GPU may read and write every stripe", happened)


@check("one call grants access to the whole array", page="#3-let-the-reader-in", kept=True)
def one_call(run):
    for call in run.calls("cuMemSetAccess")[1:]:
        raise call.wrong("one cuMemSetAccess, of the whole range and for all GPUs", "it was called more than once")


answers = check("each answer is looked at", kept=True, main=0)(Run.must_look_at_answers)
