# SPDX-License-Identifier: MIT-0
"""03b: each GPU has a right of its own, and a right is no order."""

from labs.judge.check import LAUNCHES, Run, check
from labs.judge.drawn import drawn

TITLE = "Writer and reader"
MINUTES = 15
SIZE = drawn("03b").randrange(6, 40, 2)  # MiB
MAINS = {"integers": 1 << 20}, {"integers": SIZE << 18, "changes": {"size = 4 << 20": f"size = {SIZE} << 20"}}
PAGE = "03_multi_gpu/README.md#4-make-the-reader-wait"
GPUS = 2
ELSEWHERE = {"gpus": 3}, {"adversarial_timing": False}
ADVERSARIAL_TIMING = True  # a sleep takes no time, and is told
LATE_KERNELS = 2000  # milliseconds for which the write does not begin, unless the program waits for it
ACCESS = 2  # cudaDevP2PAttrAccessSupported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED
OUTPUT = "GPU 1 read {integers} of {integers} integers as GPU 0 wrote them\n"
HINTS = [
    "Two descriptors go to one cuMemSetAccess, each with flags of its own. Which flags fit a GPU that only reads?",
    "An event is recorded on the stream that works, behind the kernel: cudaEventRecord while GPU 0 is current. The "
    "other stream waits: cudaSetDevice(1), then cudaStreamWaitEvent(nullptr, event, 0). The host goes on at once.",
    "cudaDeviceCanAccessPeer(&answer, 1, 0) asks whether GPU 1 reaches GPU 0.",
    'REQUIRE(answer, "what is missing; what to do") ends the program with status 77 if the answer is 0.',
]
HINT_OF = {"rights": 1, "ordered": 2, "asked": 3, "skips": 4, "skips_one_way": 3}


IN_PLACE = "one kernel writes on GPU 0, then one reads on GPU 1"


def writer_and_reader(run):
    """The kernel that writes and the one that reads."""
    launches = run.calls(*LAUNCHES)
    places = [call.device for call in launches]
    if places == [0, 0]:
        happened = "both ran on GPU 0: cudaSetDevice says which GPU is current, and a kernel runs on that one"
        raise launches[1].wrong(IN_PLACE, happened)
    if places != [0, 1]:
        raise run.wrong(IN_PLACE, f"kernels ran on GPUs: {', '.join(map(str, places)) or 'none'}")
    return launches


in_their_places = check(IN_PLACE, kept=True)(writer_and_reader)
peer_access_off = check("peer access stays off", page="#3-let-the-reader-in", kept=True)(Run.must_not_enable_peers)


@check("GPU 0 may read and write, GPU 1 may only read", page="#3-let-the-reader-in")
def rights(run):
    writer, reader = writer_and_reader(run)
    for call in [*run.ordinary_memory(), *(it for it in run.calls("cuMemCreate") if it.is_students)]:
        raise call.wrong("the memory of main is written and read", f"{call.name} made more")
    words = {0: "it has no access", 1: "it may only read", 3: "it may read and write"}
    for call, machine in run.replay():
        mappings = machine.processes[call.pid].mappings.values()
        if writer.index < call.index and any(mapping.access.get(1, 0) == 3 for mapping in mappings):
            raise call.wrong("GPU 1 may only read, also between the two kernels", "for a while it may write")
        for mapping in mappings if call in (writer, reader) else ():
            for gpu in range(run.options["gpus"]):
                wanted, given = words[{0: 3, 1: 1}.get(gpu, 0)], words[mapping.access.get(gpu, 0)]
                if given != wanted:
                    raise call.wrong(f"GPU {gpu} {wanted.removeprefix('it ')} when this kernel runs", given)


@check("an event orders the read after the write, and the host does not wait", points=4)
def ordered(run):
    """The write begins when the program waits for it: lab::count does so, behind the student's part."""
    writer, reader = writer_and_reader(run)
    begun = {kernel.launch: kernel for kernel in run.kernels}
    wanted = "the stream of GPU 1 waits for an event that is recorded behind the write on GPU 0"
    between = [call for call in run.all[writer.index : reader.index] if call.is_students]
    if reader not in begun or writer not in begun or begun[reader].begin.index < begun[writer].begin.index:
        raise reader.wrong(wanted, why_unordered(run, writer, reader))
    wanted += "; the host goes on"
    asked = []
    for call in between:
        if call.name.endswith("Query"):
            if (call.name, call.arguments) in asked:
                raise call.wrong(wanted, f"the host asks by {call.name} until the write is done")
            asked.append((call.name, call.arguments))
    waiter = begun[writer].waiter
    if waiter in between:
        raise waiter.wrong(wanted, f"{waiter.name} makes the host wait")
    sleeps = [call for call in run.calls("sleep") if call.is_students and call.index > writer.index]
    if not waiter or sleeps:
        place = sleeps[0] if sleeps else run.part("waits for the write")
        raise place.wrong(wanted, "the host lets time pass until the write is done")


def why_unordered(run, writer, reader):
    recorded = {}
    for call in run.all[: reader.index]:
        event = call.arguments.get("event", call.arguments.get("hEvent"))
        if call.name.startswith(("cudaEventRecord", "cuEventRecord")) and call.device == 0:
            recorded[event] = call
        elif call.name in ("cudaStreamWaitEvent", "cuStreamWaitEvent"):
            if event not in recorded:
                return "it waits for an event that nobody has recorded on GPU 0: that is no wait"
            if call.device != 1:
                return "a stream of GPU 0 waits for the event, and GPU 1 does not"
            if recorded[event].index < writer.index:
                return "it waits for an event that was recorded before the write began"
            return "the event, or the wait, is of another stream than the kernel's"
    return "nothing orders it after the write: that GPU 1 may read does not say when"


def from_and_to(call):
    """The two GPUs of which it asks whether the first reaches the second."""
    return tuple(gpu for name, gpu in call.arguments.items() if "dev" in name.lower())


@check("the program asks whether GPU 1 reaches GPU 0", page="#2-let-the-loader-in")
def asked(run):
    questions = run.calls("cu*DeviceCanAccessPeer")
    questions += [it for it in run.calls("cu*DeviceGetP2PAttribute") if it.argument("attr", "attrib") == ACCESS]
    wanted = "before it makes memory the program asks whether GPU 1 can access GPU 0: cudaDeviceCanAccessPeer(…, 1, 0)"
    if any(from_and_to(call) == (1, 0) for call in questions):
        return
    for call in questions:
        raise call.wrong(wanted, "it asked whether GPU 0 can access GPU 1, which may be answered otherwise")
    raise run.wrong(wanted, "it did not ask")


def ends_before_memory(run):
    for call in run.all:
        if call.name == "cuMemCreate":
            raise call.wrong("the program skips before it makes memory", "it asked, got the answer 0, and went on")
    if run.ended.status == 77 and "SKIP: " not in run.stdout:
        raise run.wrong("it says what is missing, as REQUIRE does", f"it printed\n{run.stdout or 'nothing'}")
    if stopped := run.stopped():
        raise stopped


SKIP = {"page": "#2-let-the-loader-in", "status": 77}
skips = check("without peer access it skips, with status 77", points=2, machine="h200x2_no_peer", **SKIP)(
    ends_before_memory
)
skips_one_way = check(
    "it skips where GPU 0 reaches GPU 1, and not the other way round", machine="one_way_peers", **SKIP
)(ends_before_memory)


answers = check("each answer is looked at", kept=True, main=0)(Run.must_look_at_answers)
