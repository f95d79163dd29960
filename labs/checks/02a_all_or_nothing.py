# SPDX-License-Identifier: MIT-0
"""02a: a growth whose good path works is not done: any of its calls may fail half-way."""

from labs.judge.check import Run, check
from labs.judge.drawn import drawn

TITLE = "All or nothing"
MINUTES = 20
MOST = drawn("02a").randrange(33, 37)  # chunks
MAINS = (  # what it has after the second growth
    {"chunks": 5, "integers": 5 << 19},
    {
        "chunks": MOST,
        "integers": MOST << 19,
        "changes": {
            "8 * chunk": "40 * chunk",
            "5 * chunk": f"{MOST} * chunk",
            "CHECK(grow(buffer, 2 * chunk));": "CHECK(grow(buffer, 0)); CHECK(grow(buffer, 2 * chunk));",
            "  lab::fill": "  CHECK(grow(buffer, buffer.size));\n  lab::fill",
        },
        "words": f"with {MOST} chunks in main, which also grows the buffer to the size that it has",
    },
    {
        "words": "with two buffers at once in main",
        "prints": "grow: CUDA_SUCCESS, size: 5 chunks, 1048576 of 1048576 old integers are 7\n"
        "2621440 of 2621440 integers are 7\n1572864 are 9\n",
        "changes": {
            "CHECK(grow(buffer, 2 * chunk));": "Buffer other = buffer; CHECK(grow(buffer, 2 * chunk)); "
            "CHECK(cuMemAddressReserve(&other.address, 8 * chunk, 0, 0, 0)); CHECK(grow(other, 3 * chunk)); "
            "lab::fill<int>(other.address, 3 << 19, 9);",
            "lab::fill<int>(buffer.address + 2 * chunk": "CHECK(grow(other, 6 * chunk)); "
            "lab::fill<int>(buffer.address + 2 * chunk",
            "CHECK(cuMemUnmap(buffer": 'std::printf("%llu are 9\\n", lab::count<int>(other.address, 3 << 19, 9)); '
            "CHECK(cuMemUnmap(other.address, other.size)); CHECK(cuMemAddressFree(other.address, 8 * chunk)); "
            "CHECK(cuMemUnmap(buffer",
        },
    },
)
PAGE = "02_growable/README.md#3-fail-half-way"
OUTPUT = """\
grow: CUDA_SUCCESS, size: {chunks} chunks, 1048576 of 1048576 old integers are 7
{integers} of {integers} integers are 7
"""
HINTS = [
    "When the third new chunk cannot be created, two new ones are mapped. Which call of the driver takes them away "
    "again, and from which address on, how many bytes?",
    "Count in a variable of its own how far memory is mapped. `buffer.size` changes at the end, when all went well.",
    "When cuMemMap fails, the chunk is created and not mapped. Only its handle holds it: release the handle in every "
    "case, whether cuMemMap succeeded or not.",
    "When cuMemSetAccess fails, all new chunks are mapped. One cuMemUnmap takes them all away: from address + size on, "
    "so many bytes as are newly mapped. Their handles are released, so this frees them.",
    "Do not call cuMemUnmap for 0 bytes, nor for the old chunks. Return the first error, not that of the undoing.",
]
HINT_OF = {"nothing_changed": 3, "same_size": 5}


CHUNK = 2 << 20
CALLS = "cuMemCreate", "cuMemMap", "cuMemSetAccess"
# In turn, in an order that is drawn: whoever minds some of them alone is found.
ERRORS = ["OUT_OF_MEMORY", "ILLEGAL_STATE", "NOT_SUPPORTED", "UNKNOWN", "NOT_PERMITTED", "INVALID_VALUE"]
ERRORS += ["INVALID_DEVICE", "SYSTEM_NOT_READY", "OPERATING_SYSTEM", "ALREADY_MAPPED", "MAP_FAILED", "TIMEOUT"]


def held(machine, pid):
    """What a process has: its mappings by address, with rights, and what its handles hold."""
    process = machine.processes[pid]
    rights = {address: (it.size, sorted(it.access.items())) for address, it in process.mappings.items()}
    return rights, {name for name, handle in process.handles.items() if handle.references}


@check("the buffer grows in place, and its data is not copied", kept=True)
def in_place(run):
    for call in [*run.ordinary_memory(), *run.copies(launches=True)]:
        raise call.wrong("new chunks are mapped after the old ones, which stay", f"{call.name} was called")
    for call in run.calls("cuMemAddressReserve")[1:]:
        raise call.wrong("the addresses that main has reserved are used", "more addresses were reserved")


@check("each chunk is memory of GPU 0, and of its own", kept=True)
def memory_of_its_own(run):
    for one in (run, run.again(gpus=2)):
        one.must_work(*[0] * len(one.launches))


@check("each create, map and access call may fail, and the state is then the one before", points=11)
def nothing_changed(run):
    run.must_end()
    filled, counted = run.launches[:2]
    growth = [call for call in run.calls(*CALLS) if filled.index < call.index < counted.index]
    if {call.name for call in growth} != set(CALLS):
        raise run.wrong("the second growth creates, maps and grants access to new chunks", "it does not")
    draw = drawn("02a")
    if len(growth) > 9:  # of many chunks some calls
        growth = sorted({*draw.sample(growth, 2), growth[0], *growth[-2:]}, key=lambda call: call.index)
    errors = draw.sample(ERRORS, len(ERRORS)) * len(growth)
    for call, error in zip(growth + growth[-1:], errors, strict=False):
        as_before(run.again(fail=f"{call.name}:{call.nth}=CUDA_ERROR_{error}"))
    first_growth(run, filled)
    must_tell(run.ended_with(memory="8MiB", status=1, refusals=("cuMemCreate",)), "CUDA_ERROR_OUT_OF_MEMORY")


@check("a growth to the size that the buffer has succeeds, and changes nothing", points=3, main=1)
def same_size(run):
    if wrong := run.stopped():
        wrong.title = same_size.title
        raise wrong
    filled = run.launches[0]
    mapped = sum(it.size for it in run.machine_after(filled).processes[filled.pid].mappings.values())
    if mapped != 2 * CHUNK:
        raise filled.wrong("2 chunks stay mapped", f"then {mapped // CHUNK} were mapped")


apart = check("two buffers at once do not disturb each other", kept=True, main=2)(Run.must_do_as_well)


def must_tell(run, error):
    """What main prints first where the second growth answers an error."""
    first = f"grow: {error}, size: 2 chunks, 1048576 of 1048576 old integers are 7"
    if not run.stdout.startswith(first):
        raise run.wrong(f"main prints\n{first}", f"it printed\n{run.stdout}")


def first_growth(run, filled):
    """In the first growth nothing was there before; main then exits, and keeps its addresses."""
    for name in CALLS:
        call = [call for call in run.calls(name) if call.index < filled.index][-1]
        refused, other = None, run.ended_with(fail=f"{name}:{call.nth}=CUDA_ERROR_UNKNOWN", status=1)
        for call, machine in other.replay():
            refused = call if other.is_injected(call) else refused
            left = held(machine, call.pid)
        if left != ({}, set()):
            text = f"after {name} was refused (./lab.sh lets it fail), a chunk is still mapped or held"
            raise refused.wrong("after an error nothing is mapped or held that was not before", text)


def as_before(run):
    """In a run in which one call of the second growth was refused: grow has changed nothing, and told of it."""
    before, refused, made = None, None, {}
    for call, machine in run.replay():
        made |= {(change["kind"], change.get("address", change.get("handle"))): call for change in call.changes}
        if refused and call.name in CALLS and not revokes(call):
            raise call.wrong(f"grow returns {refused.name}'s error to its caller", "grow went on after the error")
        if run.is_injected(call):
            refused = call
        elif refused and call.name == "cudaMemcpyToSymbol":  # lab::count begins
            return compare(run, refused, before, held(machine, call.pid), made)
        elif call in run.launches:
            before = held(machine, call.pid)
    raise run.wrong("grow returns the error, and main counts the old data", "main did not get there")


def revokes(call):
    """Whether it takes access away, as one may before an unmap."""
    flags = [its["flags"] for its in call.arguments.get("desc", ())]
    return bool(flags) and all(its == "CU_MEM_ACCESS_FLAGS_PROT_NONE" for its in flags)


def compare(run, refused, before, now, made):
    said = f"after {refused.name} number {refused.nth} was refused (in a run in which ./lab.sh lets it fail)"
    for address in set(now[0]) - set(before[0]):
        text = f"{said}, this chunk is still mapped when grow returns"
        raise made["map", hex(address)].wrong("after an error no new chunk is mapped", text)
    for name in now[1] - before[1]:
        text = f"{said}, its handle still holds the memory when grow returns"
        raise made["create", hex(name)].wrong("after an error no new memory is held", text)
    if now != before:
        raise refused.wrong("the old chunks stay mapped, with access", f"{said}, they are not as before")
    must_tell(run, refused.result)
