# SPDX-License-Identifier: MIT-0
"""04a: a descriptor's number means nothing elsewhere, access is each mapping's own, an open descriptor holds memory.

One machine is enough: main takes one granule of GPU 0; what can differ is a number of a descriptor, and it does.
"""

import ctypes

from labs.judge.check import CheckFailed, Run, check

TITLE = "Send the descriptor"
MINUTES = 20
POINTS = {"memory is created once, by the exporter": 0}  # the starter is right there
MAINS = {"size": 2 << 20}, {"size": 4 << 20, "changes": {"size = 2 << 20": "size = 4 << 20"}}
LESSON = "04_ipc_fd/README.md"
PAGE = f"{LESSON}#how-a-descriptor-travels"
HINTS = [
    "A descriptor's number is its place in the table of one process. Linux enters it into the table of another if it "
    "travels in a control message: sendmsg with SCM_RIGHTS. The page has send_memory and receive_memory.",
    "The message needs a byte of data (msg_iov), and in msg_control a cmsghdr: level SOL_SOCKET, type SCM_RIGHTS, "
    "length CMSG_LEN(sizeof fd), and the number behind it, at CMSG_DATA.",
    "recvmsg wants room for it: msg_control, and in msg_controllen the length of that room. With a length of 0 the "
    "descriptor is lost without an error. The number at CMSG_DATA is the importer's own, and often another.",
    "Which GPUs may use the importer's mapping? It is a new mapping, and the exporter's access does not come with it.",
    "close(fd): in the exporter when the descriptor is sent, in the importer when it is imported. An open descriptor "
    "holds the memory as a handle does.",
]


def OUTPUT(main):
    return f"""\
{main.size // 4} of {main.size // 4} integers are 7 in the importer
exporter: 0 descriptors left open
importer: 0 descriptors left open
0 KiB are not given back
OK
"""


created_once = check("memory is created once, by the exporter")(Run.must_create_once)


def exported(run):
    """The descriptors that were exported: (the call, the number)."""
    calls = run.calls("cuMemExportToShareableHandle")
    return [(call, change["fd"]) for call in calls for change in call.changes if "fd" in change]


def closes(run, pid, fd):
    return [call for call in run.calls("close") if (call.pid, call.argument("fd")) == (pid, fd)]


def what_was_imported(run, call):
    """In words, of an import that was refused."""
    fd = ctypes.c_int(call.argument("osHandle")).value
    for its in closes(run, call.pid, fd):
        if its.index < call.index:
            return f"it imported {fd}, a descriptor that it had closed before, in line {its.line}"
    if fd in [fd for _, fd in exported(run)]:
        return f"it imported {fd}, a number that means no memory in its process"
    return f"it imported {fd}: no descriptor was sent beside the message, or none was taken from it"


@check("the importer imports the descriptor that it was sent", page=f"{LESSON}#break-it-on-purpose")
def imported(run):
    exports = run.calls("cuMemExportToShareableHandle")
    if not exports:
        raise CheckFailed("the exporter exports its memory", "cuMemExportToShareableHandle was never called", run=run)
    imports = [call for call in run.all if call.name == "cuMemImportFromShareableHandle"]
    for call in imports:
        if not call.succeeded:
            raise call.wrong(
                "the importer receives a descriptor of its own, sent as SCM_RIGHTS, and imports it",
                what_was_imported(run, call),
            )
    if not any(call.pid != exports[0].pid for call in imports):
        raise CheckFailed("the importer, another process, imports the memory", "nobody there imported it", run=run)


@check("GPU 0 has access to the importer's mapping", page=f"{LESSON}#break-it-on-purpose")
def access_in_the_importer(run):
    importers = {call.pid for call in run.calls("cuMemImportFromShareableHandle")}
    counted = False
    for call, machine in run.replay():
        if call.name == "cudaLaunchKernel" and call.pid in importers:
            counted = True
            for mapping in machine.processes[call.pid].mappings.values():
                if 0 not in mapping.access:
                    raise call.wrong(
                        "the importer grants GPU 0 access before a kernel reads",
                        "its mapping grants nobody access: what the exporter granted is for the exporter's mapping",
                    )
    if not counted:
        raise CheckFailed("a kernel of the importer reads the memory", "it ran none", run=run)


@check("no descriptor is left open in either process", page=f"{LESSON}#8-let-go")
def no_descriptor_left(run):
    imported = [(call, call.argument("osHandle")) for call in run.calls("cuMemImportFromShareableHandle")]
    for end in run.calls("exit"):
        for who, when, calls in (("exporter", "it is sent", exported(run)), ("importer", "it is imported", imported)):
            its = [(call, ctypes.c_int(fd).value) for call, fd in calls if call.pid == end.pid]
            for fd in end.arguments["descriptors"] if its and end.argument("status") == 0 else ():
                call, words = its[-1][0], f"descriptor {fd} is still open when it ends, and holds the memory"
                if fd not in [number for _, number in its]:
                    words += ": it is a second one for the same memory, as dup makes"
                raise call.wrong(f"the {who} closes the descriptor when {when}", words)


@check("the same where a descriptor has other numbers in each process", adversarial_timing=True)
def other_numbers(run):
    imported(run)
    no_descriptor_left(run)


@check("each closes its descriptor as soon as it may", page=f"{LESSON}#8-let-go", slow_importer=True)
def closed_at_once(run):
    """The import waits until the exporter has nothing to do but to wait."""
    imports = run.calls("cuMemImportFromShareableHandle")
    read = [call for call in run.calls("cudaLaunchKernel") if imports and call.pid == imports[0].pid]
    for call, fd in [*exported(run), *((call, call.argument("osHandle")) for call in imports)]:
        until, words = (read[-1], "a kernel") if call in imports else (imports[-1], "the import")
        its = [it for it in closes(run, call.pid, ctypes.c_int(fd).value) if it.index > call.index]
        if its and its[0].index > until.index:
            wanted = "the exporter closes the descriptor when it is sent, the importer when it is imported"
            raise its[0].wrong(wanted, f"it was closed after {words} in line {until.line}")


@check("one message carries the descriptor, and no other", adversarial_timing=True)
def sent(run):
    exports, wanted = exported(run), "a message carries the descriptor of the memory as SCM_RIGHTS, and no other"
    if exports and not run.calls("send"):
        raise exports[0][0].wrong(wanted, "no message of the exporter carries one")
    for call in run.calls("send")[1:]:
        raise call.wrong(wanted, "it is sent once more")
    for call in run.calls("send"):
        if len(call.arguments["fds"]) != 1:
            numbers = ", ".join(map(str, call.arguments["fds"]))
            raise call.wrong(wanted, f"this one carries {numbers}; cmsg_len says how many: CMSG_LEN(sizeof fd) for one")
