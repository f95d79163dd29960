# SPDX-License-Identifier: MIT-0
"""06a: a bind waits until the team is complete, and a multicast object has a granularity of its own."""

from lab_check import Wrong, check

TITLE = "Add all, then bind"
MINUTES = 15
PAGE = "06_multicast/README.md#4-create-the-multicast-object-and-add-every-gpu"
GPUS = 2
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
]


def complete_before_bound(run):
    gpus, added = run.options["gpus"], run.calls("cuMulticastAddDevice")
    bound = next((call for call in run.all if call.name.startswith("cuMulticastBind")), None)
    in_time = [call for call in added if not bound or call.index < bound.index]
    if len(in_time) == gpus:
        return
    wanted = f"all {gpus} GPUs are added before the first bind"
    if not added:
        raise Wrong(wanted, "no GPU was added", run=run)
    raise in_time[-1].wrong(
        wanted, f"{len(in_time)} of {gpus} were added, and a bind or a map waits for the others, for ever"
    )


def every_replica_bound(run):
    gpus = run.options["gpus"]
    for call, machine in run.replay():
        if call.name != "cudaLaunchKernel":
            continue
        it = next((memory for memory in machine.memory if memory.is_multicast), None)
        missing = set(range(gpus)) - {device for device, _ in it.bound} if it else set(range(gpus))
        if missing:
            gpu = min(missing)
            raise call.wrong("memory of every GPU is bound when the kernel runs", f"no memory of GPU {gpu} is bound")
        return
    raise Wrong("a kernel stores to all replicas", "none ran", run=run)


@check("every GPU is added before memory is bound")
def all_added_first(run):
    complete_before_bound(run)


@check("memory of every GPU is bound when the kernel runs")
def all_bound(run):
    every_replica_bound(run)


@check("the multicast granularity is asked for before the object is created")
def granularity_is_asked(run):
    created = run.calls("cuMulticastCreate")[0]
    if not any(call.index < created.index for call in run.calls("cuMulticastGetGranularity")):
        raise created.wrong(
            "cuMulticastGetGranularity is asked, and the size is a multiple of its answer",
            "it was not asked: the granularity of memory may be smaller, though here it is not",
        )


def the_same(run):
    complete_before_bound(run)
    every_replica_bound(run)
    run.must_end()
    if run.stdout != OUTPUT:
        raise Wrong(f"it prints\n{OUTPUT}", f"it printed\n{run.stdout}", run=run)


@check("the same with four GPUs", gpus=4)
def four_gpus(run):
    the_same(run)


@check("the same with eight GPUs", gpus=8)
def eight_gpus(run):
    the_same(run)
