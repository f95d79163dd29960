# SPDX-License-Identifier: MIT-0
"""01c: a call fails for what another line did: too few addresses, one chunk opened twice, a handle lost, no unmap."""

from labs.judge.check import Run, check, place_of
from labs.judge.drawn import drawn

TITLE = "Repair from the explanations"
MINUTES = 10
SIZE = drawn("01c").randrange(6, 40, 2)  # MiB
MAINS = {"integers": 1 << 21}, {"integers": SIZE << 19, "changes": {"chunk = 4 << 20": f"chunk = {SIZE} << 20"}}
PAGE = "01_vmm_basics/README.md#1-get-addresses-and-memory"
ELSEWHERE = ({"gpus": 2},)
OUTPUT = "{integers} of {integers} integers are 7\n"
HINTS = [
    "*In words* says what went wrong, and *Memory then* shows what there was. Which line should have made what is "
    "missing?",
    "Where does the second chunk begin, and where do the reserved addresses end?",
    "Which chunk does each turn of the loop open to the GPU?",
    "At the end two handles are released. How many different ones has the loop kept?",
    "A mapping is taken away by a call of its own, and until then its addresses cannot be freed.",
]
HINT_OF = {"mapped": 2, "granted": 3, "given_back": 4, "GIVEN_BACK": 4}


@check("two chunks are mapped, one after the other", page="#1-get-addresses-and-memory", points=2)
def mapped(run):
    run.must_not_stop_at("cuMemAddressReserve", "cuMemCreate", "cuMemMap")
    run.must_call("cuMemMap", "the chunks are mapped")
    left = run.main.integers * 4
    for call in run.calls("cuMemCreate"):
        left -= call.argument("size")
        if left < 0:
            raise call.wrong("each chunk is created once", "cuMemCreate made more memory")
    if len(made := run.calls("cuMemCreate")) != 2:
        raise made[0].wrong(
            "two chunks are created, each once", f"{len(made)} was, of {made[0].argument('size')} bytes"
        )


@check("the kernels may read and write both", page="#2-map-the-memory-and-let-the-gpu-in")
def granted(run):
    run.must_not_stop_at("cuMemSetAccess", "kernel")
    run.must_call("cuMemSetAccess", "access is granted")


@check("each thing is given back by the call that undoes it", page="#5-give-it-back")
def given_back(run):
    run.must_not_stop_at("cuMemUnmap", "cuMemRelease", "cuMemAddressFree", "cudaFree")
    run.must_call("cuMemUnmap", "what is mapped is unmapped")


@check("all memory comes from cuMemCreate", kept=True)
def not_allocated(run):
    for call in run.ordinary_memory():
        raise call.wrong("the calls that are there are repaired", f"{call.name} was called")


@check("the kernels work in this memory, which is on GPU 0")
def on_gpu_0(run):
    for call in run.calls("cuMemCreate"):
        for change in call.changes:
            if change["device"] != 0:
                raise call.wrong("the memory is created on GPU 0", f"it was created on {place_of(change['device'])}")
    run.must_work(0, 0)


answers = check("each answer is looked at", kept=True, main=0)(Run.must_look_at_answers)
