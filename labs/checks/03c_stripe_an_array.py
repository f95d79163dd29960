# SPDX-License-Identifier: MIT-0
"""03c: memory is created in the pieces in which it is mapped, and each mapping has rights of its own."""

from labs.judge.check import Run, check, place_of
from labs.judge.drawn import drawn
from vmmsim.trace import number

TITLE = "Stripe an array"
MINUTES = 15
draw = drawn("03c")
STEP, MOST = draw.choice([(17, 26), (18, 29), (19, 31), (21, 34), (22, 37)])
MAINS = (  # GPU g has room for (first + step * g) % most stripes: of three 3, 0, 1; then 0, and many but unlike
    {"first": 3, "step": 5, "most": 4},
    {"first": 0, "step": STEP, "most": MOST, "changes": {"(3 + 5 * gpu) % 4": f"{STEP} * gpu % {MOST}"}},
)
PAGE = "03_multi_gpu/README.md#1-lay-the-table-across-the-gpus"
GPUS = 3
ELSEWHERE = {"gpus": 2}, {"gpus": 5, "machine": "coarse_memory"}, {"gpus": draw.randrange(33, 41)}
OUTPUT = "one kernel read the array from end to end: all are 7\n"
HINTS = [
    "An allocation is mapped whole, or not at all. How many allocations do the stripes need?",
    "Take 3, 0, 1 and 2 for the room of four GPUs, and write down whose each stripe is. What is left in `room` after "
    "each of them?",
    "Release each handle right after its mapping: the mapping holds the memory.",
    "cuMemSetAccess takes whole mappings and an array of descriptors. One that says CU_MEM_ACCESS_FLAGS_PROT_READ for "
    "each GPU lets all of them read. Who needs another right, and where?",
    "cuMemSetAccess changes the rights of the GPUs that it names, and leaves everybody else's alone: after a call for "
    "all comes one for the stripe's own GPU, of this stripe alone.",
]
HINT_OF = {"striped": 1, "all_read": 4, "owner_writes": 5, "GIVEN_BACK": 3}
RIGHTS = {0: "has no access to", 1: "may only read", 3: "may read and write"}


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


@check("stripes of one granule alternate, of each GPU as many as it has room for", points=6)
def striped(run):
    call, mappings = array_at_first_kernel(run)
    gpus, granule = run.options["gpus"], run.calls("cuMemGetAllocationGranularity")[0].outputs["granularity"]
    maps = {call.argument("ptr"): call for call in run.calls("cuMemMap")}
    for address, mapping in mappings:
        if mapping.size != granule:
            happened = f"{mapping.size >> 20} MiB of {place_of(mapping.memory.device)} lie in one piece"
            raise maps[address].wrong(f"each stripe is memory of one granule, {granule >> 20} MiB", happened)
    found, wanted = [mapping.memory.device for _, mapping in mappings], owners(run.main, gpus)
    if found != wanted:
        by = next((maps[at] for (at, _), one, due in zip(mappings, found, wanted, strict=False) if one != due), call)
        raise by.wrong(f"the stripes lie on GPUs {listed(wanted)}", f"they lie on GPUs {listed(found)}")
    for call in [*run.ordinary_memory(), *run.copies()]:
        raise call.wrong("the kernels of main work in the array itself", f"{call.name} was called")
    for _ in run.work():
        pass  # each stripe is memory of its own


def must_have(run, is_right, wanted):
    """At each kernel of main is_right(right, is_owner) holds for each GPU and stripe."""
    array_at_first_kernel(run)  # there is one
    most, granted = {}, {}  # by mapping, and by mapping and GPU: the call that said so last
    for call, machine in run.replay():
        mappings = machine.processes[call.pid].mappings
        for change in call.changes:
            if change["kind"] == "access":
                mapping = mappings[number(change["address"])].number
                granted[mapping] = granted[mapping, change["device"]] = call
                most[mapping, change["device"]] = max(change["flags"], most.get((mapping, change["device"]), 0))
        for stripe, (_, mapping) in enumerate(sorted(mappings.items()) if call in run.launches else ()):
            owner = mapping.memory.device
            for gpu in sorted({*range(run.options["gpus"]), *mapping.access}):
                if not is_right(right := mapping.access.get(gpu, 0), gpu == owner):
                    by = granted.get((mapping.number, gpu)) or granted.get(mapping.number) or call
                    happened = f"{place_of(gpu)} {RIGHTS[right]} stripe {stripe}, which is of GPU {owner}"
                    if right < most.get((mapping.number, gpu), 0):
                        happened += "; an earlier call had granted more, and this one has replaced it"
                    raise by.wrong(wanted, happened)


@check("every GPU may read every stripe when the kernels run", page="#3-let-the-reader-in", kept=True)
def all_read(run):
    must_have(run, lambda right, is_owner: right, "every GPU may read every stripe")


@check("each GPU may write the stripes of its own memory, and no other", page="#3-let-the-reader-in", points=4)
def owner_writes(run):
    run.must_not_enable_peers()
    wanted = "each GPU may read and write the stripes of its own memory, and only read all others"
    must_have(run, lambda right, is_owner: right == (3 if is_owner else 1), wanted)


answers = check("each answer is looked at", kept=True, main=0)(Run.must_look_at_answers)
