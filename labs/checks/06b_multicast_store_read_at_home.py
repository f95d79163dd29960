# SPDX-License-Identifier: MIT-0
"""06b: a multicast address is no ordinary pointer, and each GPU reads its replica at a unicast address."""

from lab_check import Wrong, check

TITLE = "Store by multimem, read at home"
MINUTES = 15
PAGE = "06_multicast/README.md#6-map-the-object-once-for-each-gpu-and-its-replica"
GPUS = 2
ARCHITECTURE = 90
OUTPUT = """\
GPU 0 stored once: every GPU has it
0 KiB are not given back
OK
"""
HINTS = [
    "Only multimem instructions may use a multicast address. An ordinary load or store there is undefined, even where "
    "it seems to work.",
    "Each GPU needs two mappings: one of the object and one of its own memory. lab::map_for takes either handle.",
    "cuMulticastUnbind takes the offset and the size of the bind. Call it for each GPU before cuMemRelease of its "
    "memory.",
]


@check("each replica has a unicast mapping, to which its GPU alone has access")
def mapped_at_home(run):
    for call, machine in run.replay():
        if call.name != "cudaLaunchKernel":
            continue
        mappings = [it for it in machine.processes[call.pid].mappings.values() if not it.memory.is_multicast]
        for gpu in range(run.options["gpus"]):
            its = [it for it in mappings if it.memory.device == gpu]
            if not its:
                raise call.wrong(
                    f"the replica of GPU {gpu} is mapped at a unicast address when kernels run", "it is not mapped"
                )
            allowed = sorted(device for it in its for device, flags in it.access.items() if flags)
            if allowed != [gpu]:
                words = ", ".join(f"GPU {it}" for it in allowed) or "no GPU"
                raise call.wrong(f"GPU {gpu} alone has access to its replica", f"{words} has access there")
        return
    raise Wrong("a kernel stores to all replicas", "none ran", run=run)


@check("only multimem instructions use a multicast address")
def multimem_only(run):
    for words in run.explained:
        if "goes to a multicast address without a multimem instruction" in words:
            launch = run.calls("cudaLaunchKernel")[0]
            raise launch.wrong("kernels use a multicast address by multimem instructions only", words)


@check("one kernel of GPU 0 stores, and the others only read")
def stored_once(run):
    launches, gpus = run.calls("cudaLaunchKernel"), run.options["gpus"]
    if len(launches) > 1 + gpus:
        raise launches[1].wrong(
            "one kernel stores to all replicas, and then one for each GPU reads", f"{len(launches)} kernels ran"
        )


@check("memory is unbound before it is released")
def unbound_first(run):
    unbound = run.calls("cuMulticastUnbind")
    made = run.calls("cuMemCreate")
    for release in run.calls("cuMemRelease"):
        for gpu, create in enumerate(made):
            if create.outputs["handle"] != release.arguments["handle"]:
                continue
            if not any(it.index < release.index and it.changes[0]["device"] == gpu for it in unbound):
                raise release.wrong(
                    f"memory of GPU {gpu} is unbound before it is released", "it is bound still: the object holds it"
                )


@check("the same with four GPUs", gpus=4)
def four_gpus(run):
    mapped_at_home(run)
    unbound_first(run)
    run.must_end()
    if run.stdout != OUTPUT:
        raise Wrong(f"it prints\n{OUTPUT}", f"it printed\n{run.stdout}", run=run)
