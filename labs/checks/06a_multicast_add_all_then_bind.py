# SPDX-License-Identifier: MIT-0
"""06a: a bind waits until the team is complete, and a multicast object has a granularity of its own."""

from labs.judge.check import Wrong, check

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
    "cuMulticastGetGranularity(&of_object, &team, CU_MULTICAST_GRANULARITY_MINIMUM) answers in of_object, a size_t. "
    "Round team.size up after that, to std::max(granularity, of_object).",
]

GRANULARITY = "06_multicast/README.md#3-ask-for-the-granularity"
BINDING = "06_multicast/README.md#5-create-each-gpus-memory-and-bind-it"


def complete_before_bound(run):
    gpus, added = run.options["gpus"], run.calls("cuMulticastAddDevice")
    bound = next((call for call in run.all if call.name.startswith("cuMulticastBind")), None)
    in_time = [call for call in added if not bound or call.index < bound.index]
    if len(in_time) == gpus:
        return
    wanted = f"all {gpus} GPUs are added before the first bind"
    if not added:
        raise Wrong(wanted, "no GPU was added", run=run)
    blamed = in_time[-1] if in_time else bound
    raise blamed.wrong(
        wanted, f"{len(in_time)} of {gpus} were added, and a bind or a map waits for the others, for ever"
    )


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
    raise Wrong("a kernel stores to all replicas", "none ran", run=run)


@check("every GPU is added before memory is bound")
def all_added_first(run):
    complete_before_bound(run)


@check("memory of every GPU is bound when the kernel runs", page=BINDING)
def all_bound(run):
    every_replica_bound(run)


@check("the multicast granularity is asked for before the object is created", page=GRANULARITY)
def granularity_is_asked(run):
    created = run.calls("cuMulticastCreate")[0]
    asked = run.calls("cuMulticastGetGranularity")
    wanted = "cuMulticastGetGranularity is called before cuMulticastCreate, which takes a size of whole granules"
    if not asked:
        raise created.wrong(wanted, "it was not called: the granularity of memory may be another one")
    if asked[0].index > created.index:
        raise asked[0].wrong(wanted, "it was called after the object had been created")


def whole_granules(run, of_memory, of_object):
    """The sizes of the object and of the memory are the least that fit: the data is smaller than any granule."""
    right = max(of_memory, of_object)
    for call in run.all:
        if call.name == "cuMulticastCreate":
            size = call.arguments["prop"]["size"]
        elif call.name == "cuMemCreate":
            size = call.argument("size")
        else:
            continue
        if size != right:
            raise call.wrong(
                f"{right} bytes, the data rounded up to the larger of the two minimum granularities:\n"
                f"that of memory is {of_memory}, that of the multicast object {of_object}",
                f"{call.name} is asked for {size} bytes",
            )


@check("the size is rounded up to the minimum granularity, and no further", page=GRANULARITY)
def no_more_than_needed(run):
    whole_granules(run, 2 << 20, 2 << 20)


@check("the size fits where the multicast granularity is the larger", page=GRANULARITY, machine="coarse_multicast")
def coarse_multicast(run):
    whole_granules(run, 2 << 20, 4 << 20)


@check("the size fits where the granularity of memory is the larger", page=GRANULARITY, machine="coarse_memory")
def coarse_memory(run):
    whole_granules(run, 4 << 20, 2 << 20)


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
