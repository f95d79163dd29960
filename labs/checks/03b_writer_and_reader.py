# SPDX-License-Identifier: MIT-0
"""03b: each GPU has a right of its own, and a right is no order."""

from labs.judge.check import LAUNCHES, CheckFailed, check

TITLE = "Writer and reader"
MINUTES = 15
POINTS = {
    "one kernel writes on GPU 0, then one reads on GPU 1": 0,
    "peer access stays off": 0,
}  # the starter is right there
MAINS = {"size": 4 << 20}, {"size": 6 << 20, "changes": {"size = 4 << 20": "size = 6 << 20"}}
LESSON = "03_multi_gpu/README.md"
PAGE = f"{LESSON}#4-make-the-reader-wait"
GPUS = 2
ELSEWHERE = ({"gpus": 3},)
ADVERSARIAL_TIMING = True  # a sleep takes no time, and is told
LATE_KERNELS = 2000  # milliseconds for which the write does not begin, unless the program waits for it
ACCESS = 2  # cudaDevP2PAttrAccessSupported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED
HINTS = [
    "Two descriptors go to one cuMemSetAccess, each with flags of its own. Which flags fit a GPU that only reads?",
    "An event is recorded on the stream that works, behind the kernel: cudaEventRecord while GPU 0 is current. The "
    "other stream waits: cudaSetDevice(1), then cudaStreamWaitEvent(nullptr, event, 0). The host goes on at once.",
    "cudaDeviceCanAccessPeer(&answer, 1, 0) asks whether GPU 1 reaches GPU 0.",
    'REQUIRE(answer, "what is missing; what to do") ends the program with status 77 if the answer is 0.',
]


def OUTPUT(main):
    return f"""\
GPU 1 read {main.size // 4} of {main.size // 4} integers as GPU 0 wrote them
0 KiB are not given back
OK
"""


def writer_and_reader(run):
    """The kernel that writes and the one that reads."""
    launches = run.calls(*LAUNCHES)
    if len(launches) != 2 or [call.device for call in launches] != [0, 1]:
        wanted = "one kernel writes on GPU 0, then one reads on GPU 1"
        places = [str(call.device) for call in launches]
        if places == ["0", "0"]:
            happened = "both ran on GPU 0: cudaSetDevice says which GPU is current, and a kernel runs on that one"
            raise launches[1].wrong(wanted, happened)
        raise CheckFailed(wanted, f"kernels ran on GPUs: {', '.join(places) or 'none'}", run=run)
    return launches


def event_of(call):
    return call.arguments.get("event", call.arguments.get("hEvent"))


def from_and_to(call):
    """The two GPUs of which it asks whether the first reaches the second."""
    return tuple(gpu for name, gpu in call.arguments.items() if "dev" in name.lower())


@check("one kernel writes on GPU 0, then one reads on GPU 1")
def in_their_places(run):
    writer_and_reader(run)


@check("peer access stays off", page=f"{LESSON}#break-it-on-purpose")
def no_peer_access(run):
    for call in run.all:
        if call.name in ("cudaDeviceEnablePeerAccess", "cuCtxEnablePeerAccess"):
            raise call.wrong(
                "descriptors grant GPU 1 access to this memory",
                f"{call.name} was called: it grants access to memory of cudaMalloc, and to none of VMM",
            )


@check("GPU 0 may read and write, GPU 1 may only read", page=f"{LESSON}#3-let-the-reader-in")
def rights(run):
    writer, reader = writer_and_reader(run)
    for call in [*run.ordinary_memory(), *(it for it in run.calls("cuMemCreate") if it.is_students)]:
        raise call.wrong("the memory of main is written and read", f"{call.name} made more")
    words = {0: "it has no access", 1: "it may only read", 3: "it may read and write"}
    for call, machine in run.replay():
        mappings = machine.processes[call.pid].mappings.values()
        if writer.index < call.index and any(mapping.access.get(1, 0) == 3 for mapping in mappings):
            raise call.wrong("GPU 1 may only read, also between the two kernels", "for a while it may write")
        if call in (writer, reader):
            for mapping in mappings:
                for gpu in range(run.options["gpus"]):
                    wanted, given = words[{0: 3, 1: 1}.get(gpu, 0)], words[mapping.access.get(gpu, 0)]
                    if given != wanted:
                        may = wanted.removeprefix("it ")
                        raise call.wrong(f"GPU {gpu} {may} when this kernel runs", given)


@check("an event orders the read after the write, and the host does not wait")
def ordered(run):
    """The write begins when the program waits for it: lab::count does so, behind the student's part."""
    writer, reader = writer_and_reader(run)
    begun = {kernel.launch: kernel for kernel in run.kernels}
    wanted = "the stream of GPU 1 waits for an event that is recorded behind the write on GPU 0"
    between = [call for call in run.all[writer.index : reader.index] if call.is_students]
    if reader not in begun or writer not in begun or begun[reader].begin.index < begun[writer].begin.index:
        raise reader.wrong(wanted, why_unordered(run, writer, reader))
    asked = [call for call in between if call.name.endswith("Query")]
    for call in asked[1:]:
        if (call.name, call.arguments) in [(other.name, other.arguments) for other in asked[: asked.index(call)]]:
            raise call.wrong(f"{wanted}; the host goes on", f"the host asks by {call.name} until the write is done")
    waiter = begun[writer].waiter
    if waiter in between:
        raise waiter.wrong(f"{wanted}; the host goes on", f"{waiter.name} makes the host wait")
    sleeps = [call for call in run.calls("sleep") if call.is_students and call.index > writer.index]
    if not waiter or sleeps:
        place = sleeps[0] if sleeps else run.part("waits for the write")
        raise place.wrong(f"{wanted}; the host goes on", "the host lets time pass until the write is done")


def why_unordered(run, writer, reader):
    recorded = {}
    for call in run.all[: reader.index]:
        if call.name.startswith(("cudaEventRecord", "cuEventRecord")) and call.device == 0:
            recorded[event_of(call)] = call
        elif call.name in ("cudaStreamWaitEvent", "cuStreamWaitEvent"):
            record = recorded.get(event_of(call))
            if not record:
                return "it waits for an event that nobody has recorded on GPU 0: that is no wait"
            if call.device != 1:
                return "a stream of GPU 0 waits for the event, and GPU 1 does not"
            if record.index < writer.index:
                return "it waits for an event that was recorded before the write began"
            return (
                "the event is of a stream that does not wait for the write, or another stream than the reader's waits"
            )
    return "nothing orders it after the write: that GPU 1 may read does not say when"


@check("the program asks whether GPU 1 reaches GPU 0", page=f"{LESSON}#2-let-the-loader-in")
def asked(run):
    questions = run.calls("cudaDeviceCanAccessPeer", "cuDeviceCanAccessPeer")
    for call in run.calls("cudaDeviceGetP2PAttribute", "cuDeviceGetP2PAttribute"):
        questions += [call] if ACCESS in (call.arguments.get("attr"), call.arguments.get("attrib")) else []
    wanted = "before it makes memory the program asks whether GPU 1 can access GPU 0: cudaDeviceCanAccessPeer(…, 1, 0)"
    if any(from_and_to(call) == (1, 0) for call in questions):
        return
    for call in questions:
        raise call.wrong(wanted, "it asked whether GPU 0 can access GPU 1, which may be answered otherwise")
    raise CheckFailed(wanted, "it did not ask", run=run)


@check(
    "without peer access it skips, with status 77",
    page=f"{LESSON}#2-let-the-loader-in",
    machine="h200x2_no_peer",
    status=77,
)
def skips(run):
    ends_before_memory(run)


@check(
    "it skips where GPU 0 reaches GPU 1, and not the other way round",
    page=f"{LESSON}#2-let-the-loader-in",
    machine="one_way_peers",
    status=77,
)
def skips_one_way(run):
    ends_before_memory(run)


def ends_before_memory(run):
    for call in run.all:
        if call.name == "cuMemCreate":
            raise call.wrong("the program skips before it makes memory", "it asked, got the answer 0, and went on")
    if run.ended.status == 77 and "SKIP: " not in run.stdout:
        raise run.wrong("it says what is missing, as REQUIRE does", f"it printed\n{run.stdout or 'nothing'}")
    if stopped := run.stopped():
        raise stopped
