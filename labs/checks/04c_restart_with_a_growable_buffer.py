# SPDX-License-Identifier: MIT-0
"""04c: a buffer in chunks outlives its process, if each chunk may leave it and goes by a descriptor of its own."""

from labs.judge.check import EXPORT, IMPORT, Run, check
from labs.judge.drawn import drawn

TITLE = "Restart with a growable buffer"
MINUTES = 30
OUTPUT = "{new} chunks, of which {old} were taken over and {old} are right\n"
draw = drawn("04c")
OLD, NEW = draw.randrange(5, 9), draw.randrange(9, 14)  # chunks: before the restart, and at last
MIB = draw.choice((4, 6, 10))  # of a chunk
# The second buffer has sockets of its own, which are closed unless the student's part has done that.
PAIR = (
    'int pair[2]; EXPECT(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), "no socket"); '
    "const pid_t old_server = fork(); const int aside = pair[old_server ? 1 : 0]; close(pair[old_server ? 0 : 1]);"
)
SHUT = "if (dup2(aside, aside) == aside) close(aside);"
RESERVE = "CHECK(cuMemAddressReserve(&buffer.address, most, 0, 0, 0));"
MAINS = (
    {"old": 3, "new": 5},
    {
        "old": OLD,
        "new": NEW,
        "changes": {"chunk = 2 <<": f"chunk = {MIB} <<", "3 * chunk": f"{OLD} * chunk", "5 * chunk": f"{NEW} * chunk"},
    },
    {
        "words": "with two buffers at once in main",
        "prints": OUTPUT.format(new=5, old=3) + "3145728 are 9\n",
        "changes": {
            "const pid_t old_server = fork();": PAIR,
            RESERVE: f"{RESERVE} Buffer other = buffer; {RESERVE.replace('buffer', 'other')}",
            "grow(buffer, 3 * chunk);": "grow(other, 2 * chunk); grow(buffer, 3 * chunk); grow(other, 4 * chunk); "
            "lab::fill<int>(other.address, 4 * n, 9);",
            "hand_over(socket, buffer);": "hand_over(socket, buffer); hand_over(aside, other); "
            f"give_back(other); {SHUT}",
            "take_over(socket, buffer);": f"take_over(socket, buffer); take_over(aside, other); {SHUT}",
            "grow(buffer, 5 * chunk);": "grow(buffer, 5 * chunk); grow(other, 6 * chunk); "
            "lab::fill<int>(other.address + 4 * chunk, 2 * n, 9);",
            "  return lab::end();": '  std::printf("%llu are 9\\n", lab::count<int>(other.address, 6 * n, 9)); '
            "give_back(other);\n  return lab::end();",
        },
    },
)
PAGE = "04_ipc_fd/README.md#1-make-memory-that-may-leave"
ADVERSARIAL_TIMING = True  # a descriptor has other numbers in each process
ELSEWHERE = ({"gpus": 2, "memory": "40MiB"},)  # too little for the old buffer beside the new one
HINTS = [
    "What has to be said when memory is created, so that it may leave the process? It cannot be said later.",
    "cuMemExportToShareableHandle takes a handle. Which handles of its chunks has the buffer when it is handed over? "
    "Keep them, or ask for them again: cuMemRetainAllocationHandle.",
    "The new server has to know how many chunks come: let the old one write that first. Then comes a descriptor of "
    "each, by lab::send_fd, in the order of the addresses.",
    "A descriptor becomes memory by cuMemImportFromShareableHandle, and memory is used by cuMemMap and cuMemSetAccess: "
    "behind what is mapped already, as in grow.",
    "Who closes the descriptors? In the old server when one is sent, in the new one when it is imported.",
]
HINT_OF = {"sent": 2, "side_by_side": 4, "may_leave": 1, "no_descriptor_left": 5}


def old_server(run):
    """Its process; any other is the new one."""
    return run.must_call(EXPORT, "the old server exports its chunks")[0].pid


@check("the old server sends a descriptor of each chunk", points=5)
def sent(run):
    run.must_not_stop_at("cuMemRetainAllocationHandle", EXPORT, IMPORT)
    old_server(run)
    fds = [fd for call in run.calls("send") for fd in call.arguments["fds"]]
    if len(fds) != run.main.old:
        wanted = f"{run.main.old} descriptors are sent, one of each chunk"
        raise run.calls(EXPORT)[-1].wrong(wanted, f"{len(fds)} are sent")


@check("the new server maps the same memory side by side, in the same order", page="#3-import-it-and-use-it", points=8)
def side_by_side(run):
    run.must_not_stop_at("cuMemMap", "cuMemSetAccess", "kernel")
    run.must_open_to(0)
    run.must_import()
    old, before, now = old_server(run), [], []
    for call, machine in run.replay():
        if call.name == EXPORT and call.pid == old:
            before = [it.memory for _, it in sorted(machine.processes[old].mappings.items())]
        if call.pid != old and call in run.launches:
            now = sorted(machine.processes[call.pid].mappings.items())
            break
    else:
        raise run.wrong("kernels of the new server use the buffer", "none ran there")
    found = [before.index(it.memory) if it.memory in before else "another" for _, it in now][: len(before)]
    if found != list(range(run.main.old)):
        imports = run.calls(IMPORT)[-1]
        wanted = f"chunks 0 to {run.main.old - 1} of the old server lie side by side when the first kernel runs"
        raise imports.wrong(wanted, f"these do, in the order of the addresses: {', '.join(map(str, found)) or 'none'}")
    for kernel, _, mappings in run.work():
        if any(mapping.access.get(0) != 3 for mapping in mappings):
            raise kernel.launch.wrong("GPU 0 may read and write each chunk", "GPU 0 may only read one")


@check("the new server creates what it grows by, and no more", points=2)
def created(run):
    old = old_server(run)
    for is_old, chunks, who in (True, run.main.old, "old"), (False, run.main.new - run.main.old, "new"):
        for call in [call for call in run.created() if (call.pid == old) == is_old][chunks:]:
            raise call.wrong(f"the {who} server creates {chunks} chunks", f"{call.name} made more memory")


@check("every chunk may leave its process, in either server", points=3)
def may_leave(run):
    for call in run.must_call("cuMemCreate", "chunks are created"):
        if not call.arguments["prop"]["requestedHandleTypes"]:
            wanted = "each chunk is created with the type of handle by which it will be exported"
            raise call.wrong(wanted, "this one can never leave its process: requestedHandleTypes is 0")


@check("no descriptor is left open in either process", page="#5-let-go", points=4)
def no_descriptor_left(run):
    run.must_call(IMPORT, "the new server imports the chunks")
    for end in run.calls("exit"):
        made = [call for call in run.calls(EXPORT, IMPORT) if call.pid == end.pid]
        for fd in end.arguments["descriptors"] if made else ():
            happened = f"descriptor {fd} is still open when the process ends, and holds the memory"
            raise made[-1].wrong("each descriptor is closed when it is sent, or imported", happened)


apart = check("two buffers at once do not disturb each other", main=2)(Run.must_do_as_well)
answers = check("each answer is looked at", main=0, points=4)(Run.must_look_at_answers)
