# SPDX-License-Identifier: MIT-0
"""03a: sharing is not all or nothing, and the GPU that holds the memory has no right from that."""

from labs.judge.check import Run, check
from labs.judge.drawn import drawn

TITLE = "Open one buffer"
MINUTES = 10
RESERVE = "CUdeviceptr between; CHECK(cuMemAddressReserve(&between, size, 0, 0, 0)); "
SIZE = drawn("03a").randrange(4, 40, 2)  # MiB
MAINS = (  # in which order make() makes the buffers, neighbours or not
    {"order": ("open", "secret"), "integers": 1 << 19},
    {
        "order": ("secret", "open"),
        "integers": SIZE << 18,
        "words": "with other addresses and sizes in main",
        "changes": {
            "size = 2 << 20": f"size = {SIZE} << 20",
            "open = make(), secret = make();": f"secret = make(); {RESERVE}const CUdeviceptr open = make();",
            "give_back(open);": "give_back(open); CHECK(cuMemAddressFree(between, size));",
        },
    },
)
PAGE = "03_multi_gpu/README.md#2-let-the-loader-in"
GPUS = 2
OUTPUT = """\
GPU 0: {integers} of {integers} integers are 8
GPU 1: {integers} of {integers} integers are 7
"""
HINTS = [
    "cudaDeviceEnablePeerAccess is for memory of cudaMalloc, and for all of it. It grants nothing in memory of VMM. "
    "Which call grants access to one mapping?",
    "A CUmemAccessDesc names one GPU, in its location, and one right, in its flags. cuMemSetAccess takes an array of "
    "them, and their number.",
    "GPU 0 holds the memory, and that is no right: it needs a descriptor like every other GPU, in both buffers.",
    "`open` needs two descriptors: GPU 0 with CU_MEM_ACCESS_FLAGS_PROT_READWRITE, GPU 1 with "
    "CU_MEM_ACCESS_FLAGS_PROT_READ. `secret` needs the first of them alone.",
]
HINT_OF = {"peer_access_off": 1, "taken": 2, "owner": 3, "reader": 4}

RIGHTS = {0: "no access", 1: "read access", 3: "read and write access"}
WANTED = {"open": {0: 3, 1: 1}, "secret": {0: 3}}


peer_access_off = check("peer access stays off", page="#3-let-the-reader-in")(Run.must_not_enable_peers)


@check("both buffers are memory of VMM on GPU 0", kept=True)
def on_gpu_0(run):
    for call in [*run.ordinary_memory(), *run.copies(), *run.calls("cuMemCreate")[2:]]:
        raise call.wrong("the two buffers that make() gives are used", f"{call.name} was called")


@check("cuMemSetAccess takes the descriptors", page="#2-let-the-loader-in")
def taken(run):
    run.must_not_stop_at("cuMemSetAccess")


def must_have(run, gpus):
    """At every kernel each of these GPUs has the right that the task says, in both buffers, at each address; and who
    has none there never has any."""
    granting = {}  # by mapping, and by mapping and GPU
    for call, machine in run.replay():
        mappings = machine.processes[call.pid].mappings
        for change in call.changes:
            if change["kind"] == "access":
                mapping, gpu = mappings[int(change["address"], 16)], change["device"]
                granting[mapping.number] = granting[mapping.number, gpu] = call
                name = run.main.order[mapping.memory.nth - 1]
                if gpu in gpus and gpu not in WANTED[name] and (has := mapping.access.get(gpu, 0)):
                    raise call.wrong(f"in `{name}`, GPU {gpu} has no access", f"GPU {gpu} has {RIGHTS[has]} there")
        for mapping in mappings.values() if call.name == "cudaLaunchKernel" else ():
            name = run.main.order[mapping.memory.nth - 1]
            for gpu in gpus:
                right, has = WANTED[name].get(gpu, 0), mapping.access.get(gpu, 0)
                if has != right:
                    text = f"GPU {gpu} has {RIGHTS[has]} there"
                    text += ": to hold the memory is no right" if gpu == 0 and not has else ""
                    by = granting.get((mapping.number, gpu)) or granting.get(mapping.number) or call
                    raise by.wrong(f"in `{name}`, GPU {gpu} has {RIGHTS[right]}", text)
    run.must_call("cudaLaunchKernel", "the two GPUs use the buffers")


@check("GPU 0, which holds the buffers, may read and write both", page="#2-let-the-loader-in")
def owner(run):
    must_have(run, [0])


@check("GPU 1 may read one buffer, and not reach the other", page="#3-let-the-reader-in")
def reader(run):
    must_have(run, [1])


@check("a further GPU of the machine reaches neither")
def further(run):
    for gpus in range(3, 9):
        must_have(run.again(gpus=gpus), range(gpus))
    run.must_work(0, 0, 0, 1)


answers = check("each answer is looked at", kept=True, main=0)(Run.must_look_at_answers)
