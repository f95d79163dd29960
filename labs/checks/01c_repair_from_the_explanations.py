# SPDX-License-Identifier: MIT-0
"""01c: zeros are no default, a right to read is none to write, release does not unmap, cudaFree does not fit."""

from labs.judge.check import Run, check, place_of
from labs.judge.drawn import drawn

TITLE = "Repair from the explanations"
MINUTES = 15
SIZE = drawn("01c").randrange(6, 40, 2)  # MiB
MAINS = {"integers": 1 << 20}, {"integers": SIZE << 18, "changes": {"size = 4 << 20": f"size = {SIZE} << 20"}}
PAGE = "01_vmm_basics/README.md#1-get-addresses-and-memory"
ELSEWHERE = ({"gpus": 2},)
OUTPUT = "{integers} of {integers} integers are 7\n"
HINTS = [
    "Read *In words*: it names the argument, the rule, and what to do.",
    "The first: `= {}` sets every member of the properties to 0. Which one must not be 0, and is not set?",
    "The second: which access does the descriptor grant, and what does lab::fill do?",
    "The third: cudaFree undoes cudaMalloc and nothing else. Mapping and reservation have calls of their own, and "
    "cuMemRelease undoes neither.",
]


@check("cuMemCreate gets all that it needs", page="#1-get-addresses-and-memory", points=4)
def created(run):
    run.must_not_stop_at("cuMemCreate")


@check("the kernels have the rights that they need", page="#2-map-the-memory-and-let-the-gpu-in", points=3)
def granted(run):
    run.must_not_stop_at("cuMemSetAccess", "kernel")


@check("all memory comes from cuMemCreate", kept=True)
def not_allocated(run):
    for call in run.ordinary_memory():
        raise call.wrong("the calls that are there are repaired", f"{call.name} was called")


@check("the kernels work in this memory, which is on GPU 0", points=3)
def on_gpu_0(run):
    for call in run.calls("cuMemCreate"):
        for change in call.changes:
            if change["device"] != 0:
                raise call.wrong("the memory is created on GPU 0", f"it was created on {place_of(change['device'])}")
    run.must_work(0, 0)


answers = check("each answer is looked at", kept=True, main=0)(Run.must_look_at_answers)
