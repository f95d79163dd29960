# SPDX-License-Identifier: MIT-0
"""03b: each GPU has a right of its own, and a right is no order."""

from lab_check import Wrong, check

TITLE = "Writer and reader"
MINUTES = 15
PAGE = "03_multi_gpu/README.md#4-read-and-write-for-one-read-for-the-other"
GPUS = 2
OUTPUT = """\
GPU 1 read 1048576 of 1048576 integers as GPU 0 wrote them
0 KiB are not given back
OK
"""
HINTS = [
    "Two descriptors go to one cuMemSetAccess, each with flags of its own. Which flags fit a GPU that only reads?",
    "An event is recorded on the stream that works, behind the kernel: cudaEventRecord while GPU 0 is current. The "
    "other stream waits: cudaSetDevice(1), then cudaStreamWaitEvent(nullptr, event, 0). The host goes on at once.",
    "cudaDeviceCanAccessPeer(&answer, 1, 0) asks whether GPU 1 reaches GPU 0.",
    'REQUIRE(answer, "what is missing; what to do") ends the program with status 77 if the answer is 0.',
]


def writer_and_reader(run):
    """The kernel that writes and the one that reads."""
    launches = run.calls("cudaLaunchKernel")
    if len(launches) != 2 or [call.device for call in launches] != [0, 1]:
        places = ", ".join(str(call.device) for call in launches) or "none"
        raise Wrong("one kernel writes on GPU 0, then one reads on GPU 1", f"kernels ran on GPUs: {places}", run=run)
    return launches


@check("GPU 0 may read and write, GPU 1 may only read")
def rights(run):
    writer, reader = writer_and_reader(run)
    words = {0: "nothing", 1: "only read", 3: "read and write"}
    for call, machine in run.replay():
        if call in (writer, reader):
            for mapping in machine.processes[call.pid].mappings.values():
                for gpu, wanted in ((0, 3), (1, 1)):
                    if mapping.access.get(gpu, 0) != wanted:
                        may = words[mapping.access.get(gpu, 0)]
                        raise call.wrong(f"GPU {gpu} may {words[wanted]} when this kernel runs", f"it may {may}")


@check("an event orders the read after the write, and the host does not wait")
def ordered(run):
    writer, reader = writer_and_reader(run)
    between = [call for call in run.all[: reader.index] if call.succeeded]
    wanted = "the stream of GPU 1 waits for an event that is recorded behind the write on GPU 0"
    for call in between[writer.index :]:
        if call.name.endswith("Synchronize"):
            raise call.wrong(f"{wanted}; the host goes on", f"{call.name} makes the host wait")
    recorded = {}
    happened = "nothing orders it after the write: that GPU 1 may read does not say when"
    for call in between:
        if call.name.startswith(("cudaEventRecord", "cuEventRecord")) and call.device == 0:
            recorded[call.arguments.get("event", call.arguments.get("hEvent"))] = call
        if call.name in ("cudaStreamWaitEvent", "cuStreamWaitEvent"):
            record = recorded.get(call.arguments.get("event", call.arguments.get("hEvent")))
            if record and call.device != 1:
                happened = "a stream of GPU 0 waits for the event, and GPU 1 does not"
            elif record and record.index < writer.index:
                happened = "it waits for an event that was recorded before the write began"
            elif record:
                return
            else:
                happened = "it waits for an event that nobody has recorded on GPU 0: that is no wait"
    raise reader.wrong(wanted, happened)


@check("without peer access it skips, with status 77", machine="h200x2_no_peer", status=77)
def skips(run):
    for call in run.all:
        if call.name == "cuMemCreate":
            raise call.wrong("the program skips before it makes memory", "it did not ask, or did not skip")
