# SPDX-License-Identifier: MIT-0
"""04a: a descriptor's number means nothing elsewhere, nor tells it a size; access is each mapping's own, and an open
descriptor holds memory.

The two memories have different sizes, the larger one first in the second main.
"""

import ctypes

from labs.judge.check import EXPORT, IMPORT, check
from labs.judge.drawn import drawn

TITLE = "Send two descriptors"
MINUTES = 15
SECOND, FIRST = sorted(drawn("04a").sample(range(6, 40, 2), 2))  # MiB
SEND, RECEIVE, GO_ON = "send_fds(socket, fds, sizes);", "receive_fds(socket, fds, sizes);", " std::exit(0);"
SHUT = "shutdown(socket, SHUT_RDWR); signal(SIGPIPE, SIG_IGN); "
FILL = "int last = 0; for (int fd; (fd = dup(0)) >= 0;) last = fd; close(last); "
MAINS = (
    {"first": 1 << 19, "second": 1 << 20},  # integers
    {
        "first": FIRST << 18,
        "second": SECOND << 18,
        "changes": {"{2 << 20, 4 << 20}": f"{{{FIRST} << 20, {SECOND} << 20}}"},
    },
    {
        "prints": "",
        "words": "with a socket that is shut before the descriptors are sent",
        "changes": {SEND: SHUT + SEND + GO_ON, RECEIVE: RECEIVE + GO_ON},
    },
    {
        "prints": "",
        "words": "where the importer has one free descriptor and no more",
        "changes": {RECEIVE: FILL + RECEIVE + GO_ON},
    },
    {
        "prints": "",
        "words": "where the importer has no free descriptor",
        "changes": {RECEIVE: FILL.replace(" close(last);", "") + RECEIVE + GO_ON},
    },
)
PAGE = "04_ipc_fd/README.md#2-send-it"
ELSEWHERE = ({"gpus": 2},)
OUTPUT = """\
{first} are 7
{second} are 8
"""
HINTS = [
    "A descriptor's number is its place in the table of one process. Linux enters it into the table of another if it "
    "travels in a control message: sendmsg with SCM_RIGHTS. send_fds does so with the first.",
    "How many descriptors a control message carries, its length alone says: cmsg_len. Which other lengths have to fit, "
    "of the sender's buffer and of the receiver's?",
    "With too little room in msg_controllen, or no free descriptor, those that do not fit are lost, and recvmsg "
    "succeeds: MSG_CTRUNC in msg_flags tells of it, and so does cmsg_len.",
    "The bytes that iovec names may be any. What must the importer know of each memory, and how many bytes does "
    "recvmsg return then? One reservation has room for both. Where in it does the second begin?",
    "Which GPUs may use the importer's mappings? They are new, and the exporter's access does not come with them.",
    "close(fd): in the exporter when both are sent, in the importer when both are imported. An open descriptor holds "
    "the memory as a handle does.",
]
HINT_OF = {
    "imports_its_own": 2,
    "side_by_side": 4,
    "access_in_the_importer": 5,
    "no_descriptor_left": 6,
    "other_numbers": 1,
    "closed_at_once": 6,
    "sent": 2,
    "answers": 3,
}


@check("memory is created by the exporter alone", kept=True)
def created_by_exporter(run):
    for call in run.created()[2:]:
        raise call.wrong("the importer uses the memory of the exporter", f"{call.name} made more memory")


def exported(run):
    """The descriptors that were exported: (the call, the number)."""
    return [(call, change["fd"]) for call in run.calls(EXPORT) for change in call.changes if "fd" in change]


def imported(run):
    """The same of what was imported."""
    return [(call, number_of(call)) for call in run.calls(IMPORT)]


def number_of(call):
    """The descriptor that a call imports, or closes."""
    return ctypes.c_int(call.argument("osHandle", "fd")).value


def closes(run, pid, fd):
    return [call for call in run.calls("close") if (call.pid, number_of(call)) == (pid, fd)]


def what_was_imported(run, call):
    """In words, of an import that was refused."""
    fd = number_of(call)
    for its in closes(run, call.pid, fd):
        if its.index < call.index:
            return f"it imported {fd}, a descriptor that it had closed before, in line {its.line}"
    told = run.runner.run(run.options | {"adversarial_timing": True})  # then messages are, too
    sent = [fds for message in told.calls("send") if (fds := message.arguments["fds"])]
    for other in {*sum(sent, [])} - {number for _, number in exported(told)}:
        return f"the exporter sent {other}, which is no memory that it has exported: what stands in CMSG_DATA?"
    if fd in [fd for _, fd in exported(run)]:
        return f"it imported {fd}, a number that means no memory in its process"
    if 1 in map(len, sent):
        return "a message carried 1 descriptor, and this is the second: cmsg_len of its sender says how many travel"
    return f"it imported {fd}: no descriptor was sent beside the message, or none was taken from it"


@check("the importer imports the descriptors that it was sent", page="#2-send-it", points=2)
def imports_its_own(run):
    wanted = "the importer receives descriptors of its own, sent as SCM_RIGHTS, and imports them"
    for call in run.must_import():
        if not call.succeeded:
            wrong = call.wrong(wanted, what_was_imported(run, call))
            wrong.is_in_full = True  # the driver's words would be about the number
            raise wrong


@check("the importer maps both whole, side by side in one reservation", page="#3-import-it-and-use-it", points=3)
def side_by_side(run):
    run.must_not_stop_at("cuMemAddressReserve", "cuMemMap")
    reads = run.must_read_in_importer()
    mapped = run.machine_after(reads[0]).processes[reads[0].pid].mappings
    its, sizes = [one for _, one in sorted(mapped.items())], [4 * run.main.first, 4 * run.main.second]
    wanted = f"when a kernel reads, one reservation has the first memory, {mib(sizes[0])}, "
    wanted += f"and right behind it the second, {mib(sizes[1])}"
    words, end = [], its[0].at if its else 0
    for one in its:
        words += [f"nothing in {mib(one.at - end)}"] if one.at != end else []
        words.append(mib(one.size))  # cuMemMap maps all of a memory, or nothing
        end = one.at + one.size
    rooms = len({one.room for one in its})
    if words != [mib(size) for size in sizes] or rooms != 1:
        happened = f"in the order of the addresses: {', '.join(words)}" if its else "nothing is mapped"
        happened += f"; in {rooms} reservations" if rooms > 1 else ""
        maps = [call for call in run.calls("cuMemMap") if call.pid == reads[0].pid]
        raise maps[-1].wrong(wanted, happened) if maps else run.wrong(wanted, happened)


def mib(size):
    return f"{size / 2**20:g} MiB"


@check("GPU 0 has access to the importer's mappings", page="#3-import-it-and-use-it")
def access_in_the_importer(run):
    run.must_open_to(0)
    reads = run.must_read_in_importer()
    for call, machine in run.replay():
        if call in reads and any(0 not in it.access for it in machine.processes[call.pid].mappings.values()):
            raise call.wrong(
                "the importer grants GPU 0 access before a kernel reads",
                "its mapping grants nobody access: what the exporter granted is for the exporter's mapping",
            )


@check("no descriptor is left open in either process", page="#5-let-go")
def no_descriptor_left(run):
    for end in run.calls("exit"):
        for who, when, calls in ("exporter", "sent", exported(run)), ("importer", "imported", imported(run)):
            its = [(call, fd) for call, fd in calls if call.pid == end.pid]
            for fd in end.arguments["descriptors"] if its and end.argument("status") == 0 else ():
                call, words = its[-1][0], f"descriptor {fd} is still open when it ends, and holds the memory"
                if fd not in [number for _, number in its]:
                    words += ": it is a second one for the same memory, as dup makes"
                raise call.wrong(f"the {who} closes each descriptor when it is {when}", words)


@check("nothing relies on a descriptor having the same number in both processes", adversarial_timing=True)
def other_numbers(run):
    imports_its_own(run)
    no_descriptor_left(run)


@check("each closes its descriptors as soon as it may", page="#5-let-go", slow_importer=True)
def closed_at_once(run):
    """The import waits until the exporter has nothing to do but to wait."""
    imports, wanted = (
        imported(run),
        "the exporter closes the descriptors when they are sent, the importer when they are imported",
    )
    for call, fd in [*exported(run), *imports]:
        last, words = (
            (run.must_read_in_importer()[-1], "a kernel") if (call, fd) in imports else (imports[0][0], "the import")
        )
        its = [it for it in closes(run, call.pid, fd) if it.index > call.index]
        if its and its[0].index > last.index:
            raise its[0].wrong(wanted, f"it was closed after {words} in line {last.line}")


@check("one message carries both descriptors, and no other", adversarial_timing=True)
def sent(run):
    exports, wanted = exported(run), "one message carries both descriptors as SCM_RIGHTS, and no other"
    messages = run.calls("send")
    if exports and not messages:
        raise exports[0][0].wrong(wanted, "no message of the exporter carries one")
    for call in messages[1:]:
        raise call.wrong(wanted, "this is one message more")
    for call in messages:
        if len(call.arguments["fds"]) != 2:
            numbers = ", ".join(map(str, call.arguments["fds"]))
            raise call.wrong(
                wanted, f"this one carries {numbers}; cmsg_len says how many: CMSG_LEN(2 * sizeof(int)) for two"
            )


@check("what each call, sendmsg and recvmsg answer is looked at", kept=True, main=0)
def answers(run):
    run.must_look_at_answers()
    wanted = "if a message cannot be sent, or not both descriptors come, the program tells of it and ends with status 1"
    for main in 2, 3, 4:
        other = run.runner.run(run.options | {"main": main})
        exporter = other.must_call(EXPORT, "the program gets there")[0].pid
        for end in other.calls("exit"):
            if end.argument("status") == 0:
                name, who = ("send_fds", "exporter") if end.pid == exporter else ("receive_fds", "importer")
                place = other.part("the descriptors travel", name)
                raise place.wrong(wanted, f"{name} returned, and the {who} went on")
        if not other.said:
            raise other.part("the descriptors travel").wrong(wanted, "it ended, and said nothing")
