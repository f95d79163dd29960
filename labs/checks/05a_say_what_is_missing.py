# SPDX-License-Identifier: MIT-0
"""05a: an attribute tells of GPU and driver; what this process may do is shown by trying, and its refusal is told."""

import itertools

from labs.judge.check import EXPORT, check, place_of
from labs.judge.drawn import drawn

TITLE = "Say what is missing"
MINUTES = 10
PAGE = "05_fabric/README.md#1-create-memory-that-may-leave-the-machine"
OUTPUT = "the memory can go to another machine\n"
HINTS = [
    "The program runs on several machines. On one of them the attribute is 0, and there nothing has to be tried: "
    'REQUIRE(supported, "GPU 0 has no fabric handles; what to do") ends the program with status 77.',
    "On another the attribute is 1, and cuMemCreate answers CUDA_ERROR_NOT_PERMITTED. CHECK ends the program with "
    "status 1, so take the answer yourself: const CUresult answer = cuMemCreate(...).",
    'REQUIRE(answer != CUDA_ERROR_NOT_PERMITTED, "... no channel; what to do"), then CHECK(answer). If memory ran out, '
    "for instance, no channel is missing.",
]
HINT_OF = {"no_fabric": 1, "no_channel": 2, "other_refusal": 3}
ERRORS = ["OUT_OF_MEMORY", "NOT_SUPPORTED", "INVALID_DEVICE", "INVALID_VALUE", "SYSTEM_NOT_READY", "UNKNOWN"]
ERRORS += ["ILLEGAL_STATE", "NOT_FOUND", "OPERATING_SYSTEM", "TIMEOUT"]
FABRIC, DESCRIPTOR = 8, 1  # CU_MEM_HANDLE_TYPE_*


def is_of(call, handle_type):
    """Whether a call of cuMemCreate asks for handles of this type."""
    return bool(int(call.arguments["prop"]["requestedHandleTypes"]) & handle_type)


def tried(run):
    """The calls of cuMemCreate, whatever they answered; none makes memory for a descriptor alone."""
    calls = [call for call in run.all if call.name == "cuMemCreate"]
    for call in calls:
        if is_of(call, DESCRIPTOR) and not is_of(call, FABRIC):
            happened = "it made memory for a file descriptor, which no other machine can import"
            raise call.wrong("the program makes fabric memory, or ends and says what is missing", happened)
    return calls


def says(run, words, other):
    """Where something is missing: nothing else is made, and one line tells what it is, and not what it is elsewhere."""
    for call in run.created():
        raise call.wrong("the program ends and says what is missing", f"{call.name} made other memory")
    for call in tried(run):
        if not call.succeeded and run.ended.status != 77:
            wanted = f'the program ends with status 77 and says what is missing: "{words}"'
            raise call.wrong(wanted, f"it was refused, and the program ended with status {run.ended.status}")
    told = run.stdout or run.said  # beside the line, a student's own may go to stderr
    if run.ended.status == 77 and (len(told.splitlines()) != 1 or words not in told or other in told):
        wanted = f'it says what is missing here, and only that, in one line: "{words}"'
        raise run.wrong(wanted, f"it printed\n{told or 'nothing'}")


@check("where nothing is missing, memory is created and exported as a fabric handle", kept=True)
def exported(run):
    tried(run)
    shared = run.must_call(EXPORT, "fabric memory is created and exported")[0]
    if shared.argument("handleType") != FABRIC:
        raise shared.wrong("the memory is exported as a fabric handle", "it was exported as something else")
    first, *more = run.created()
    for call in more:
        raise call.wrong("the memory that main releases is exported", f"{call.name} made more memory")
    if (place := place_of(first.changes[0]["device"])) != "GPU 0":
        raise first.wrong("the memory is on GPU 0", f"it is memory of {place}")


@check("without fabric handles it ends with status 77, and says so", points=2, machine="no_fabric", status=77)
def no_fabric(run):
    tried(run)
    says(run, "no fabric handles", "no channel")


MAY_BE_REFUSED = {"status": 77, "refusals": ("cuMemCreate",)}


@check("without a channel it tries, ends with status 77, and says so", points=3, machine="no_channel", **MAY_BE_REFUSED)
def no_channel(run):
    if not any(is_of(call, FABRIC) for call in tried(run)):
        happened = "cuMemCreate was never called with CU_MEM_HANDLE_TYPE_FABRIC: only the driver decides"
        raise run.wrong("the program tries to make fabric memory", happened)
    says(run, "no channel", "no fabric handles")


@check("any other refusal is a failure, and no channel that is missing", kept=True)
def other_refusal(run):
    errors = drawn("05a").sample(ERRORS, len(ERRORS))
    for nth, error in itertools.product(range(1, len(run.calls("cuMemCreate")) + 1), errors):
        run.must_end_at_failure(f"cuMemCreate:{nth}=CUDA_ERROR_{error}", says=f"CUDA_ERROR_{error}")
    run.must_end_at_failure(f"{EXPORT}:1=CUDA_ERROR_NOT_PERMITTED")
