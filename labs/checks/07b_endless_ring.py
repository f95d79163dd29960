# SPDX-License-Identifier: MIT-0
"""07b: one mapping cannot go over its end; two mappings of one allocation in a row make a ring without an end.

main says the size and the GPU: what differs elsewhere is that a further GPU could be let in.
"""

from labs.judge.check import LAUNCHES, Run, check, memory_under
from labs.judge.drawn import drawn

TITLE = "Endless ring"
MINUTES = 15
draw = drawn("07b")
RECORDS, AT, MIB = draw.randrange(4, 8), draw.randrange(1, 1 << 21), draw.randrange(4, 10, 2)
MAINS = (
    {"records": 8, "bytes": 12 << 20, "size": 2 << 20},
    {
        "records": RECORDS,
        "size": MIB << 20,
        "bytes": RECORDS * MIB * (3 << 18),
        "changes": {
            "size = 2 << 20": f"size = {MIB} << 20",
            "records = 8": f"records = {RECORDS}",
            "size_t at = 0": f"size_t at = {AT}",
        },
    },
    {
        "size": 2 << 20,
        "words": "with two rings at once in main",
        "prints": "12582912 of 12582912 bytes are in their place\n1572864 are z\n",
        "changes": {
            "  Ring ring;": "  Ring ring, other; const std::vector<char> zs(length, 'z');",
            "start(ring, properties, access);": "start(ring, properties, access); start(other, properties, access);",
            "put(ring, at, record.data());": "put(other, size - 1, zs.data()); put(ring, at, record.data());",
            "  end(ring);": '  std::printf("%llu are z\\n", lab::count<char>(other.address, length - 1, \'z\') + '
            "lab::count<char>(other.address + size - 1, 1, 'z')); end(other); end(ring);",
        },
    },
)
PAGE = "07_aliasing/README.md#1-map-a-ring-twice-in-a-row"
ELSEWHERE = ({"gpus": 2},)
OUTPUT = "{bytes} of {bytes} bytes are in their place\n"
HINTS = [
    "A record may begin at the last byte of the ring. How many of its bytes then lie behind the end, and to which "
    "memory must the addresses there lead?",
    "Reserve 2 * size bytes of addresses, in one call, so that they are in a row. The memory stays as large as it is.",
    "One cuMemMap cannot map more than the memory has. Call it twice with the same handle and offset 0: at the "
    "address of the ring, and at this address + size.",
    "The second mapping needs access, too. One cuMemSetAccess over 2 * size bytes grants it for both.",
    "put() is then one cudaMemcpy of `length` bytes to address + at. end() unmaps and frees 2 * size bytes.",
]
HINT_OF = {"twice_the_addresses": 2, "mapped_twice": 3, "one_copy": 5}


WAITS = "cudaStreamSync*", "cudaDeviceSync*", "cudaEventSync*", "cuStreamSync*", "cuCtxSync*", "cuEventSync*"
ASKS = "cudaStreamQuery", "cuStreamQuery", "cudaEventQuery", "cuEventQuery"
ORDERS = *WAITS, *ASKS, "cudaStreamWaitEvent", "cuStreamWaitEvent", "cudaEventRecord*", "cuEventRecord*"


def base_of(run):
    """The ring's address."""
    return int(run.must_call("cuMemAddressReserve", "addresses are reserved")[0].outputs["ptr"], 16)


def copies(run):
    """What puts records into the ring, in order."""
    base, found = base_of(run), run.calls("cudaMemcpy*", "cuMemcpy*", "cudaMemset*", "cuMemset*")
    to = {call: call.argument("dst", "dstDevice", "devPtr") or base for call in found if "Symbol" not in call.name}
    return [call for call, address in to.items() if base <= address < base + 2 * run.main.size]


@check("the ring takes no more memory than its size", kept=True)
def created_once(run):
    made = [call for call in run.created() if not is_on_host(call)]
    if not made:
        raise run.wrong("memory is created by cuMemCreate", "cuMemCreate was not called")
    for call in made[1:]:
        raise call.wrong("both halves of the addresses lead to the same memory", f"{call.name} made more memory")
    if made[0].name != "cuMemCreate" or made[0].argument("size") != run.main.size:
        raise made[0].wrong(f"cuMemCreate creates {run.main.size} bytes, the size of the ring", "other memory was made")


def is_on_host(call):
    return any(change["kind"] == "allocate" and change["device"] < 0 for change in call.changes)


@check("twice the addresses are reserved, in one call", points=2)
def twice_the_addresses(run):
    first, *more = run.must_call("cuMemAddressReserve", "addresses are reserved")
    for call in more:
        raise call.wrong("one reservation holds both mappings, one behind the other", "more addresses were reserved")
    size = first.argument("size")
    if size != 2 * run.main.size:
        why = (
            "behind the end of the ring is no room for a mapping"
            if size < 2 * run.main.size
            else "two mappings need no more"
        )
        raise first.wrong(
            f"{2 * run.main.size} bytes of addresses are reserved, twice the ring", f"{size} bytes were reserved: {why}"
        )


@check("the same memory is mapped twice in a row, and GPU 0 may read and write both", points=3)
def mapped_twice(run):
    base, uses = base_of(run), copies(run)
    run.must_open_to(0)
    for call, machine in run.replay():
        if call not in uses:
            continue
        mappings = machine.processes[call.pid].mappings
        if sorted(mappings) != [base, base + run.main.size]:
            raise call.wrong(
                "for each record two mappings are there, one at the ring's address and one right behind it",
                f"there are {len(mappings)}" if len(mappings) != 2 else "they are not one behind the other",
            )
        if mappings[base].memory is not mappings[base + run.main.size].memory:
            raise call.wrong("the second mapping leads to the memory of the first", "it leads to other memory")
        for half, address in (("first", base), ("second", base + run.main.size)):
            if memory_under(machine, call.pid, address).access.get(0) != 3:
                raise call.wrong(
                    "cuMemSetAccess grants GPU 0 to read and write both mappings",
                    f"the {half} is mapped, and GPU 0 may not read and write it: access belongs to a mapping",
                )


@check("each record is put into the ring by one copy", points=3)
def one_copy(run):
    records, length, found = run.main.records, run.main.size // 4 * 3, copies(run)
    if not found:
        raise run.wrong("each record is copied into the ring", "nothing was copied")
    wanted = f"one copy puts all {length} bytes of a record into the ring"
    for at, call in enumerate(found):
        size = call.argument("count", "ByteCount") or call.argument("width") * call.argument("height")
        is_told = not call.name.endswith(("2D", "3D")) or size  # some have it in a structure
        if is_told and not size or "emset" in call.name:
            raise call.wrong("one cudaMemcpy puts a record into the ring, in one piece", f"{call.name} was called")
        if is_told and size != length:
            raise call.wrong(wanted, f"this one copies {size} bytes")
        if at >= records:
            raise call.wrong(wanted, f"it is copy number {at + 1}, and there are {records} records")
    if len(found) < records:
        raise run.wrong(f"{records} records are copied", f"there were {len(found)} copies")
    for call in run.calls(*LAUNCHES):
        if not call.is_count:
            raise call.wrong("a copy alone puts a record into the ring", "a kernel ran")


@check("each copy is done before its record is read", kept=True)
def in_order(run):
    """A copy in a stream aside is loose until the host, or a stream, waits for what comes behind it."""
    loose, recorded, aside = [], {}, run.streams_aside  # copies; of an event those that come before it
    for call in run.calls("cudaMemcpy*", "cuMemcpy*", *LAUNCHES, *ORDERS):
        event, before = call.argument("event", "hEvent"), [copy for copy in loose if copy.stream == call.stream]
        if "Memcpy" in call.name:
            loose += [call] if "Async" in call.name and call.stream in aside else []
        elif "Launch" in call.name:
            for copy in loose:
                happened = f"line {call.line} reads it, and nothing lets that wait for {copy.name} in another stream"
                raise copy.wrong("the record is in the ring before it is read", happened)
        elif "EventRecord" in call.name:
            recorded[event] = before
        elif "Query" not in call.name or asks_again(run, call):
            done = recorded.get(event, []) if "Event" in call.name else before if "Stream" in call.name else loose
            loose = [copy for copy in loose if copy not in done]


def asks_again(run, query):
    """Whether it is asked until the answer is yes: once the answer is made another."""
    error = "cudaErrorNotReady" if query.name.startswith("cuda") else "CUDA_ERROR_NOT_READY"
    first = next(
        call for call in run.all if (call.name, call.line) == (query.name, query.line)
    )  # how many come is luck
    run = run.runner.run(run.options | {"fail": f"{first.name}:{first.nth}={error}"})
    failed = next((call for call in run.all if run.is_injected(call)), first)
    after = (call.name for call in run.all[failed.index + 1 :] if call.name == query.name or "Launch" in call.name)
    return next(after, "") == query.name


apart = check("two rings at once do not disturb each other", kept=True, main=2)(Run.must_do_as_well)
answers = check("each answer is looked at", kept=True, main=0)(Run.must_look_at_answers)
