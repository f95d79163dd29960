# SPDX-License-Identifier: MIT-0
"""02b: growth needs no copy, no second block and no new address."""

import itertools

from labs.judge.check import Run, check
from labs.judge.drawn import drawn

TITLE = "Keep the address"
MINUTES = 15
ROOM = drawn("02b").randrange(5, 60)  # GiB of addresses: more than 32 bits tell
MAINS = (  # the sizes in MiB
    {"sizes": (2, 4, 8, 16), "integers": 4 << 20, "most": 16 << 20},
    {
        "sizes": (2, 8, 14),
        "integers": 7 << 19,
        "most": ROOM << 30,
        "changes": {
            "wanted *= 2": "wanted += 3 * granule",
            "most = 16 << 20": f"most = size_t({ROOM}) << 30",
            "wanted <= most": "wanted <= 14 << 20 && wanted <= most",
        },
    },
    {
        "words": "with two buffers at once in main",
        "prints": "4194304 of 4194304 integers are 7 after 0 moves\n4194304 are 9\n",
        "changes": {
            "  Buffer buffer;": "  Buffer buffer, other;",
            "start(buffer);": "start(buffer); start(other);",
            "grow(buffer, wanted);": "grow(buffer, wanted); const size_t had = other.size; grow(other, wanted); "
            "lab::fill<int>(other.address + had, (other.size - had) / sizeof(int), 9);",
            "end(buffer);": 'std::printf("%llu are 9\\n", lab::count<int>(other.address, n, 9)); '
            "end(other); end(buffer);",
        },
    },
)
PAGE = "02_growable/README.md#1-grow-in-a-loop"
ELSEWHERE = ({"gpus": 2, "memory": "20MiB"},)  # room for little more than the buffer
OUTPUT = "{integers} of {integers} integers are 7 after 0 moves\n"
HINTS = [
    "Addresses take no memory. How many does the buffer need when it has its largest size, and when must it get them?",
    "start() reserves `most` bytes of addresses. grow() creates memory for what is new, wanted - size bytes, and maps "
    "it after what is there, at address + size. The address never changes.",
    "After the mapping the new part has no access. One cuMemSetAccess grants it: for wanted - size bytes, from "
    "address + size on.",
    "Release the handle when its memory is mapped, as the lesson's buffer does: the mapping keeps the memory.",
    "end() unmaps all in one call of cuMemUnmap(address, size), and then frees all addresses that start() reserved.",
]
HINT_OF = {"nothing_copied": 2, "one_reservation": 1, "no_more_memory": 2, "opened": 3, "GIVEN_BACK": 5}


@check("no memory comes from cudaMalloc, and no data is copied")
def nothing_copied(run):
    for call in [*run.ordinary_memory(), *run.copies(launches=True)]:
        raise call.wrong("the data stays in its memory, and more is mapped after it", f"{call.name} was called")


@check("addresses are reserved once, for the largest size", points=2)
def one_reservation(run):
    first, *more = run.must_call("cuMemAddressReserve", "addresses are reserved for 16 MiB")
    for call in more:
        raise call.wrong("one reservation holds the buffer at every size", "more addresses were reserved")
    if first.argument("size") < run.main.most:
        text = f"{first.argument('size')} bytes were reserved; a reservation cannot be made larger later"
        raise first.wrong(f"addresses for the largest size are reserved: {run.main.most} bytes", text)


@check("a growth creates what is new: memory never exceeds the size of the data", points=2)
def no_more_memory(run):
    run.must_call("cuMemCreate", "memory is created by cuMemCreate")
    growth, sizes = 0, run.main.sizes
    for call, machine in run.replay():
        if call.name == "cuMemCreate" and call.succeeded:
            lives = sum(memory.size for memory in machine.memory if memory.lives())
            size = sizes[min(growth, len(sizes) - 1)]
            if lives > size << 20:
                wanted = f"growth {growth + 1} makes the buffer {size} MiB large, and its memory takes no more"
                raise call.wrong(wanted, f"{lives >> 20} MiB of memory were created by then")
        growth += call in run.launches


@check("kernels may use what is new", page="#1-grow-in-a-loop", points=2)
def opened(run):
    run.must_not_stop_at("kernel")
    run.must_work(*[0] * (len(run.main.sizes) + 1))


@check("what is mapped stays mapped while the buffer grows", kept=True)
def stays(run):
    for call in run.calls("cuMemUnmap"):
        if run.launches and call.index < run.launches[-1].index:
            raise call.wrong(
                "a growth maps what is new, and does not touch what is mapped: a kernel may be using it",
                "cuMemUnmap took a mapping away before the buffer had its last size",
            )


@check("a growth calls cuMemSetAccess once", points=2)
def one_access_call(run):
    granting, launches = run.must_call("cuMemSetAccess", "a growth grants access to what is new"), run.launches
    for first, second in itertools.pairwise(granting):
        if not any(first.index < launch.index < second.index for launch in launches):
            wanted = "one call of cuMemSetAccess grants access to all that a growth has mapped"
            raise second.wrong(wanted, "a growth calls it again")


apart = check("two buffers at once do not disturb each other", kept=True, main=2)(Run.must_do_as_well)
answers = check("each answer is looked at", kept=True, main=0)(Run.must_look_at_answers)
