# SPDX-License-Identifier: MIT-0
"""A call in words: what it does with which memory and addresses, and what it answers.

    asked = Asked(machine, line, names, processes)    before machine.line(line), which changes what it tells of
    asked.words()                                     after it

names(pid, reservation) is what a reservation is called, and processes are the names of processes, by pid. Whatever a
line has, this says something of it.
"""

import collections
import contextlib
import functools
import re

from vmmsim.processes import signal_name
from vmmsim.trace.line import ENDS, NO_CALLS, SUCCESS, number
from vmmsim.trace.recording import short
from vmmsim.view.sizes import (
    IS_MANAGED,
    MANAGED,
    ORDINARY,
    OWN,
    VMM,
    exact_size,
    kind_of_block,
    plural,
    size_and_bytes,
    size_text,
    sizes_text,
)

NOT_YET = "CUDA_ERROR_NOT_READY", "cudaErrorNotReady"  # an answer, and no refusal
LAST_ERRORS = "cudaGetLastError", "cudaPeekAtLastError"
HANDLE_TYPES = {1: "a file descriptor", 8: "a fabric handle"}
RIGHTS = {0: "no access", 1: "read", 3: "read-write"}
PROTECTION = {"PROT_NONE": 0, "PROT_READ": 1, "PROT_READWRITE": 3}
OF_KERNELS = re.compile("ILLEGAL_?ADDRESS|LAUNCH_?(FAILED|FAILURE)", re.IGNORECASE)  # errors
WAIT = "wait for its stream (cudaStreamSynchronize) before the unmap"  # for that of a kernel
MOST_BEFORE = 100  # steps between memory that was unmapped and a fault that may come of it
VERBS = {"copy": "copies", "launch": "launches"}
ASKED = {  # what a call is to do: a verb, and the rest; or a function that says so
    "cudaStreamBeginCapture": "begin to capture a stream: what comes in it becomes a graph, and is not executed",
    "cudaStreamEndCapture": "end the capture of a stream",
    "cudaGetLastError": "ask for the last error of the runtime",
    "cudaStreamSynchronize": "wait for all work of a stream",
    "cuDeviceGetCount": "ask how many GPUs there are",
    "cuInit": "initialise the driver",
    "cuMemRelease": lambda call: f"release a handle of {call.memory()}",
    "cuMemRetainAllocationHandle": lambda call: f"ask for a handle of what is mapped at {call.at('addr')}",
    "cuMemUnmap": lambda call: f"unmap the {call.range()}",
    "cuMemGetAccess": lambda call: f"ask what {location(call.argument('location'))} may do at {call.at('ptr')}",
    "cuMemGetAllocationPropertiesFromHandle": lambda call: f"ask for the properties of {call.memory()}",
    "cuMulticastGetGranularity": lambda call: f"ask for the {call.granularity()} granularity of a multicast object",
    "cuMemGetAllocationGranularity": lambda call: (
        f"ask for the {call.granularity()} granularity of memory of {call.where()}"
    ),
    "cuMemExportToShareableHandle": lambda call: f"export {call.memory()} as {call.kind('handleType')}",
    "cuMemImportFromShareableHandle": lambda call: f"import what {call.kind('shHandleType')} stands for",
    "cuDeviceCanAccessPeer": lambda call: (
        f"ask whether {call.device('dev', 'device')} can access memory of {call.device('peerDev', 'peerDevice')}"
    ),
    "cudaDeviceEnablePeerAccess": lambda call: f"let GPU {call.line['device']} access {call.of_peer()}",
    "cudaDeviceDisablePeerAccess": lambda call: f"end the access of GPU {call.line['device']} to {call.of_peer()}",
    "cuMulticastCreate": lambda call: (
        f"make a multicast object of {sized(member(call.argument('prop'), 'size'))} for a team of "
        f"{plural(integer(member(call.argument('prop'), 'numDevices')), 'GPU')}"
    ),
    "cuMulticastBindMem": lambda call: (
        f"bind {sized(call.number('size'))} of {call.memory('memHandle')} to {call.memory('mcHandle')}"
    ),
    "cuMulticastAddDevice": lambda call: f"add {call.device('dev')} to the team of {call.memory('mcHandle')}",
    "cuMulticastBindAddr": lambda call: f"bind the {call.range('memptr')} to {call.memory('mcHandle')}",
    "cuMulticastUnbind": lambda call: f"unbind what {call.device('dev')} has bound to {call.memory('mcHandle')}",
    "cudaMalloc": lambda call: (
        f"allocate {sized(call.argument('size', 'bytesize', 'bytes'))}"
        + " of page-locked host memory" * ("Host" in call.line["call"])
    ),
    "cudaSetDevice": lambda call: f"make {call.device('device')} the current one",
    "cudaDeviceSynchronize": lambda call: f"wait for all work of GPU {call.line['device']}",
}
ANSWERED = {  # what it answers if it succeeds
    "cudaLaunchKernel": "succeeds",
    "cudaStreamEndCapture": "gives the graph",
    "cudaGetLastError": "answers that there is none",
    "begin": "A kernel begins that was launched before.",
    "fence": "A thread runs an alias fence.",
    "unordered": "A thread reads what was written in memory that is mapped at two addresses, and nothing orders that.",
    "wait": lambda call: (
        f"{call.argument('call')} waits for work of a GPU and has not ended: the program hangs here, or was ended "
        f"while it waited{call.last_launch()}."
    ),
    "send": "The process sends descriptors to another.",
    "sleep": "The process sleeps, and here no sleep takes time.",
    "cuMemCreate": lambda call: f"gives a handle of allocation #{call.answered_memory('handle').nth}",
    "cuMemGetAccess": lambda call: f"answers {right(call.answered_number('flags'))}",
    "cuMemGetAllocationGranularity": lambda call: f"answers {size_text(call.answered_number('granularity'))}",
    "cuMulticastGetGranularity": lambda call: f"answers {size_text(call.answered_number('granularity'))}",
    "cuMulticastCreate": lambda call: f"gives a handle of multicast object #{call.answered_memory('mcHandle').nth}",
    "cudaMalloc": lambda call: f"gives it at {call.answered_number('devPtr', 'dptr', 'ptr', 'pHost', 'pp'):#x}",
    "cuMemGetAllocationPropertiesFromHandle": lambda call: f"answers that it is memory of {call.where(call.outputs)}",
    "cuMemGetInfo": lambda call: (
        f"answers {size_text(call.answered_number('free'))} of {size_text(call.answered_number('total'))}"
    ),
    "cuDeviceCanAccessPeer": lambda call: "answers yes" if call.answered_number("canAccessPeer") else "answers no",
    "cuDeviceGetCount": lambda call: f"answers {call.answered_number('count')}",
    "exit": lambda call: f"The process ends with status {call.number('status')}.",
}
ALIKE = {  # calls that are told like another one; so are those whose names differ in cu and cuda
    "cudaMalloc": r"cudaMalloc(Host|Async|Managed|FromPoolAsync)|cudaHostAlloc"
    r"|cuMem(Host)?Alloc(Host|Async|Managed|FromPoolAsync)?",
    "cudaFree": r"cu(da|Mem)Free(Host|Async)?",
    "cudaMemcpy": r"cu(da)?Memcpy(HtoD|DtoH|DtoD|Peer)?(Async)?",
    "cudaMemset": r"cu(da)?Memset(D8|D16|D32)?(Async)?",
    "cudaLaunchKernel": r"cu(da)?Launch(Cooperative)?Kernel(ExC?)?",
    "cuDeviceGetCount": "cudaGetDeviceCount",
    "cudaGetLastError": "cudaPeekAtLastError",
    "cudaDeviceSynchronize": "cuCtxSynchronize",
}


@functools.cache
def alike(call):
    """The call that is told in the same words."""
    twin = call.replace("cuda", "cu", 1) if call.startswith("cuda") else call.replace("cu", "cuda", 1)
    others = (other for other, names in ALIKE.items() if re.fullmatch(names, call))
    return next(others, twin if call not in ASKED and twin in ASKED else call)


class MissingField(Exception):
    """The line lacks what is to be said, or has something else there."""


def put(table, call):
    """The function is what the table has of this call."""
    return lambda function: table.setdefault(call, function)


asked, answered = functools.partial(put, ASKED), functools.partial(put, ANSWERED)


def is_refused(line):
    return line["result"] not in (*SUCCESS, *NOT_YET) and line["call"] not in LAST_ERRORS


def is_fault(line):
    """Simulated GPUs say so; of real ones the error tells it."""
    return bool(line.get("fault")) or (is_refused(line) and bool(OF_KERNELS.search(line["result"])))


def member(values, *keys):
    """The value of the first key that is there."""
    for key in keys:
        if isinstance(values, dict) and key in values:
            return values[key]
    raise MissingField


def integer(value):
    try:
        value = number(value)
    except ValueError:
        raise MissingField from None
    if not isinstance(value, int) or abs(value) >> 64:
        raise MissingField
    return value


def sized(value):
    return size_and_bytes(integer(value))


def kernels_of(line):
    """The names of what a launch launches. Of a graph a recorder knows them only if it is told what GPUs did."""
    arguments, executed = line["arguments"], [work["name"] for work in line.get("work", ()) if "name" in work]
    names = arguments.get("kernels", [arguments[key] for key in ("func", "f") if key in arguments] or executed)
    return [str(name).removeprefix("void ") for name in names] if isinstance(names, list) else []


def extents(arguments):
    """(of the grid, of a block) of a launch: 2048, or 16 × 16; "" is not known."""
    config = arguments.get("config")
    given = config if isinstance(config, dict) else arguments
    found = []
    for name in "gridDim", "blockDim":
        sizes = given.get(name, [given.get(name + axis) for axis in "XYZ"])
        if not isinstance(sizes, list) or not sizes or not all(isinstance(size, int) for size in sizes):
            return "", ""
        while sizes[1:] and sizes[-1] == 1:
            sizes = sizes[:-1]
        found.append(" × ".join(map(str, sizes)))
    return tuple(found)


def pairs(values, others=()):
    """Those that are short, by name."""
    short = (
        (key, value) for key, value in values.items() if isinstance(value, (int, float, str)) and key not in others
    )
    return ", ".join(f"{key} {value}" for key, value in short)[:120]


def right(flags):
    return RIGHTS.get(flags, flags)


def location(value):
    kind = str(member(value, "type"))
    if kind == "CU_MEM_LOCATION_TYPE_DEVICE":
        return f"GPU {member(value, 'id')}"
    return "the host" if "HOST" in kind else f"no place ({kind})"


def memory_text(memory):
    if memory.is_multicast:
        return f"multicast object #{memory.nth} ({size_text(memory.size)})"
    where = f" of GPU {memory.device}" if memory.device >= 0 else ""
    return f"allocation #{memory.nth} ({size_text(memory.size) if memory.size else 'size not known'}{where})"


def holders(memory, processes):
    """What alone holds it: descriptors."""
    whose = {pid: f" of {name}" for pid, name in processes.items() if name}
    known = [f"descriptor {fd}{whose.get(pid, '')}" for pid, fd in sorted(memory.descriptors)]
    if not known:
        known = ["a descriptor that no call tells of (a copy, one in a message, one of a program without CUDA)"]
    return f"{' and '.join(known[:3])}{' and others' * (len(known) > 3)} still {'hold' if known[1:] else 'holds'} it"


class Asked:
    def __init__(self, machine, line, names, processes):
        self.machine, self.line, self.names, self.processes = machine, line, names, processes
        self.process, self.arguments, self.outputs = machine.processes[line["pid"]], line["arguments"], line["outputs"]
        self.spoken = {}  # of these reservations and memory, in order
        # What is there before the line and may go with it.
        self.held = self.memory_given_back()
        is_end = line["call"] in ENDS
        self.had = {handle.memory for handle in self.process.handles.values()} if is_end else set()
        self.blocks = list(self.process.blocks.values()) if is_end else []
        self.verb = self.rest = ""
        self.fault_before = 0  # the step of the fault that it answers again
        self.unmapped_late = 0  # the step that unmapped, after the launch, what a fault touched
        self.is_captured = False  # it becomes a node of a graph
        self.freed = self.freed_beside()
        self.own_of = lambda line: ""  # the program's own line behind a call, in words
        with contextlib.suppress(MissingField):  # its arguments are no such call's
            self.verb, _, self.rest = self.said(ASKED).partition(" ")

    def memory_given_back(self):
        """The memory of a handle, a mapping or a descriptor that is given back, or None."""
        call, process = self.line["call"], self.process
        with contextlib.suppress(MissingField):
            if call == "cuMemRelease":
                return getattr(process.handles.get(self.number("handle")), "memory", None)
            if call == "cuMemUnmap":
                return getattr(process.mappings.at(self.number("ptr"))[1], "memory", None)
            return process.descriptors.get(self.number("fd"))

    def freed_beside(self):
        """Of a call that is not there to free: sizes of the ordinary memory that goes, by the call that gave it."""
        if alike(self.line["call"]) == "cudaFree" or self.line["call"] in ENDS:
            return {}
        gone = (change.get("address") for change in self.line["changes"] if change.get("kind") == "free")
        blocks = (self.process.blocks.get(number(address)) for address in gone)
        sizes = collections.Counter()
        for size, _, call in filter(None, blocks):
            sizes[call] += size
        return sizes

    def said(self, table):
        """What the table says of the call, or ""."""
        words = table.get(alike(self.line["call"]), "")
        return words if isinstance(words, str) else words(self)

    def words(self):
        freed = (f"{size_text(size)} of {call}" for call, size in self.freed.items())
        return self.of_call() + (f" With it goes {' and '.join(freed)}." if self.freed else "")

    def of_call(self):
        line = self.line
        call, answer = line["call"], self.answer()
        if call in NO_CALLS:
            return answer
        if self.is_captured:
            asked = f": a launch of the graph is to {self.verb} {self.rest}" if self.verb else ""
            given = f"; it {answer}, and counts from here on" if line["changes"] else ""
            return f"{call} is captured, and does nothing now{asked}{given}."
        if not self.verb:
            shown = pairs(self.arguments, self.outputs)  # without the addresses of outputs
            return f"{call}{f' ({shown})' if shown else ''} {answer}{self.at_fault()}."
        if is_refused(line):
            return f"{call} was to {self.verb} {self.rest}. It {answer}{self.at_fault() or ', and nothing changes'}."
        return f"{call} {VERBS.get(self.verb, self.verb + 's')} {self.rest}; it {answer}."

    def at_fault(self):
        """Which launch went wrong: real GPUs do not tell, so there it is the last one before that succeeded."""
        if self.fault_before:
            return f": the fault of step {self.fault_before} again, as every later call of the process does"
        pid, all_launches, late, inferred = self.line["pid"], self.machine.launches, "", ""
        step, line = all_launches.get((pid, self.line.get("fault", {}).get("launch")), (0, None))
        if "fault" not in self.line and OF_KERNELS.search(self.line["result"]):
            launches = reversed(all_launches.values())
            last = (launch for launch in launches if launch[1]["pid"] == pid and not is_refused(launch[1]))
            step, line = next(last, (0, None))
            late, inferred = ", which comes late", ", if it was the last launch before this call (inferred)"
            if unmapped := step and self.unmapped_before(pid):
                return f". {unmapped}. Otherwise it was the last launch, in step {step}"
        if not step:
            return ""
        kernels = kernels_of(line)
        kernel = f"the kernel {short(kernels[0])}" if len(kernels) == 1 else "a kernel"
        late_unmap = f", for step {self.unmapped_late} unmapped its memory while it could still run: {WAIT}"
        inferred += late_unmap * bool(self.unmapped_late)
        return f"{late}: {kernel} that {line['call']} launched in step {step} went wrong{inferred}"

    def last_launch(self):
        launches = (step for step, line in reversed(self.machine.launches.values()) if line["pid"] == self.line["pid"])
        step = next(launches, 0)
        return f". The last launch before that is in step {step}" if step else ""

    def unmapped_before(self, pid):
        """What may be the reason for a fault that real GPUs tell late, and of a launch that they do not name."""
        calls, size, running = self.machine.unmapped_beside_work(pid)
        if not running or self.machine.lines - calls[-1][0] > MOST_BEFORE:
            return ""
        owners = {self.own_of(line) for _, line in calls}
        who = f"{owners.pop()} unmapped" if len(owners) == 1 and all(owners) else "The process unmapped"
        first, last = calls[0][0], calls[-1][0]
        when = f"steps {first} to {last}" if last > first else f"step {first}"
        launched = ", ".join(f"the last {kind} in step {step}" for step, kind in sorted(running, reverse=True))
        fault = "went wrong" if "FAIL" in self.line["result"].upper() else "touched memory that was not mapped"
        before = f"while work that was launched before ({launched}) may still have been running (inferred): {WAIT}"
        return f"An earlier kernel {fault}; CUDA reports it only now. {who} {size_text(size)} in {when} {before}"

    def answer(self):
        call, result = self.line["call"], self.line["result"]
        if result not in SUCCESS and call not in NO_CALLS:
            return f"answers {result}"
        words = "succeeds"
        with contextlib.suppress(MissingField):
            words = self.said(ANSWERED)
        shown = pairs(self.outputs) if call == alike(call) else ""
        return words or (f"answers {shown}" if shown else "succeeds")

    # --- What is spoken of
    def argument(self, *keys):
        return member(self.arguments, *keys)

    def number(self, *keys):
        return integer(member(self.arguments, *keys))

    def answered_number(self, *keys):
        return integer(member(self.outputs, *keys))

    def answered_memory(self, key):
        handle = self.process.handles.get(self.answered_number(key))
        if not handle:
            raise MissingField
        self.spoken[handle.memory] = True
        return handle.memory

    def device(self, *keys):
        return f"GPU {self.number(*keys)}"

    def reservation(self, address):
        """(its base, what it is called, its size), or (None, "", 0)."""
        base, reservation = self.process.reservations.at(address)
        if not reservation:
            return None, "", 0
        self.spoken[reservation] = True
        return base, f"reservation {self.names(self.line['pid'], reservation)}", reservation.size

    def at(self, *keys):
        """A place among the addresses of the process."""
        address = self.number(*keys)
        base, name, _ = self.reservation(address)
        start = f"the start of {name}"
        if not name:
            base, (size, _, call) = self.process.block_at(address)
            name = start = f"the {size_text(size)} of {call}"
        if base is None:
            return f"address {address:#x}"
        return f"offset {exact_size(address - base)} of {name}" if address > base else start

    def memory(self, key="handle"):
        """What a handle stands for."""
        name = self.number(key)
        handle = self.process.handles.get(name)
        if not handle:
            return f"handle {name:#x}, which is not known"
        self.spoken[handle.memory] = True
        return memory_text(handle.memory)

    def range(self, address="ptr"):
        return f"{sized(self.argument('size'))} at {self.at(address)}"

    def where(self, values=None):
        """Of the properties that are given, or answered."""
        return location(member(member(values or self.arguments, "prop"), "location"))

    def kind(self, key):
        return HANDLE_TYPES.get(self.number(key), "a shareable handle")

    def of_peer(self):
        return f"memory by cudaMalloc of {self.device('peerDev', 'peerDevice')}"

    def granularity(self):
        return "recommended" if self.number("option") else "minimum"

    # --- Addresses, memory, mappings
    @asked("cuMemAddressReserve")
    def reserve(self):
        wished = integer(self.arguments.get("addr") or 0)
        where = f", if it can at {wished:#x}" if wished else ""
        return f"reserve {sized(self.argument('size'))} of addresses{where}"

    @answered("cuMemAddressReserve")
    def reserved(self):
        address = self.answered_number("ptr")
        _, name, _ = self.reservation(address)
        if not name:
            raise MissingField
        return f"gives {name}, which begins at {address:#x}"

    @asked("cuMemAddressFree")
    def free_reservation(self):
        address = self.number("ptr")
        base, name, size = self.reservation(address)
        if name and (base, size) == (address, self.number("size")):
            return f"free {name} ({size_text(size)} of addresses)"
        return f"free the reservation of {self.range()}"

    @asked("cuMemCreate")
    def create(self):
        prop = self.argument("prop")
        types = integer(member(prop, "requestedHandleTypes"))
        kinds = [words for bit, words in HANDLE_TYPES.items() if types & bit]
        exportable = f", exportable as {' or '.join(kinds)}" if kinds else ""
        return f"allocate {sized(self.argument('size'))} of memory of {self.where()}{exportable}"

    @answered("cuMemRelease")
    def released(self):
        handle = self.process.handles.get(self.number("handle"))
        if handle and not handle.references:
            return "succeeds, and the memory stays while it is mapped"
        return self.unmapped()

    @answered("cuMemUnmap")
    def unmapped(self):
        if self.held and self.held.held_by_fd:
            return f"succeeds, and {holders(self.held, self.processes)}"
        return "succeeds"

    @answered("cuMemRetainAllocationHandle")
    def retained(self):
        memory = self.answered_memory("handle")
        references = self.process.handles[self.answered_number("handle")].references
        return f"gives one of {memory_text(memory)}, which now has {plural(references, 'reference')} here"

    @asked("cuMemMap")
    def map(self):
        size, offset = self.number("size"), integer(self.arguments.get("offset") or 0)
        handle = self.process.handles.get(self.number("handle"))
        part = f"{sized(size)} of "
        if offset:
            part = f"{sized(size)} from offset {exact_size(offset)} of "
        elif handle and handle.memory.size == size:
            part = ""
        return f"map {part}{self.memory()} at {self.at('ptr')}"

    @asked("cuMemSetAccess")
    def set_access(self):
        given, asked = [], self.argument("desc")
        for one in asked if isinstance(asked, list) else [asked]:
            flags = member(one, "flags")
            if not isinstance(flags, (int, str)):
                raise MissingField
            flags = PROTECTION.get(str(flags).removeprefix("CU_MEM_ACCESS_FLAGS_"), flags)
            given.append(f"{location(member(one, 'location'))} {right(flags)}")
        if len(given) > 4:
            given[3:] = [f"{len(given) - 3} more alike"]
        return f"set access to the {self.range()}: {', '.join(given)}"

    @answered("cuMemImportFromShareableHandle")
    def imported(self):
        memory = self.answered_memory("handle")
        others = dict.fromkeys(pid for pid, _ in memory.exports if pid != self.line["pid"])
        source = ""
        if memory.source_unknown:
            source = ": of which export, the recording does not tell"
        elif others:
            source = f", which {' and '.join(self.processes.get(pid, 'another process') for pid in others)} exported"
        return f"gives a handle of {memory_text(memory)}{source}"

    # --- What no call of CUDA does
    @answered("close")
    def close(self):
        if self.line["result"]:
            return f"The process closes descriptor {self.number('fd')}, which is not open."
        if not self.held:
            return f"The process closes descriptor {self.number('fd')}, which held memory."
        left = f": {holders(self.held, self.processes)}" if self.held.held_by_fd else ""
        return f"The process closes descriptor {self.number('fd')}, of {memory_text(self.held)}{left}."

    @answered("gone")
    def gone(self):
        identities = [number(change.get("identity")) for change in self.line["changes"]]
        names = [memory_text(memory) for memory in map(self.machine.followed.get, identities) if memory]
        subject = " and ".join(names) if names else "What was exported"
        are, them = ("are", "them") if names[1:] else ("is", "it")
        return f"{subject[0].upper()}{subject[1:]} {are} gone: no process and no descriptor holds {them}."

    @answered("vanished")
    def vanish(self):
        which, unknown = self.arguments.get("signal"), "a signal ended it, quick_exit did, or it became another program"
        how = f"{signal_name(which)} ended it" if which else unknown
        return f"The process vanished: {how}. The system takes back what it alone held{self.taken_back()}."

    def taken_back(self):
        """Sizes of what has gone with the process, by GPU."""
        sizes = collections.Counter()
        for memory in self.had:
            if not memory.look().is_there and not memory.is_multicast:
                sizes[VMM, memory.device] += memory.size
        for size, device, call in self.blocks:
            kind = kind_of_block(call)
            sizes[MANAGED if kind == IS_MANAGED else ORDINARY, device] += size if kind in (OWN, IS_MANAGED) else 0
        return f": {sizes_text(+sizes)}" if +sizes else ""

    # --- Ordinary memory
    @asked("cudaFree")
    def free(self):
        keys = "devPtr", "dptr", "ptr", "p"
        address = self.argument(*keys)
        return f"free {self.at(*keys) if address and integer(address) else 'nothing: the address is 0'}"

    @asked("cuMemGetInfo")
    def get_info(self):
        device = self.line["device"]
        return "ask how much memory is free" + (f" on GPU {device}" if device >= 0 else "")

    @asked("cudaMemcpy")
    def copy(self):
        size = sized(self.argument("count", "ByteCount", "sizeBytes"))
        source = self.place("src", "srcDevice", "srcHost")
        return f"copy {size} from {source} to {self.place('dst', 'dstDevice', 'dstHost')}"

    def place(self, *keys):
        where = self.at(*keys)
        return "the host" if where.startswith("address ") else where

    @asked("cudaMemset")
    def fill(self):
        width = {"cuMemsetD32": 4, "cuMemsetD16": 2}.get(self.line["call"].removesuffix("Async"), 1)
        return f"fill {sized(self.number('count', 'N') * width)} at {self.at('devPtr', 'dstDevice')}"

    # --- The rest
    @asked("cudaLaunchKernel")
    def launch(self):
        name = (kernels_of(self.line) or [""])[0]
        gpu = f" on GPU {self.line['device']}" if self.line["device"] >= 0 else ""
        grid, block = extents(self.arguments)
        threads = f", {grid} block{'s' * (grid != '1')} of {block} thread{'s' * (block != '1')}" if grid else ""
        return f"launch the kernel {name if len(name) <= 90 else name[:90] + '…'}{gpu}{threads}"

    @asked("cudaGraphLaunch")
    def launch_graph(self):
        names = kernels_of(self.line)
        if not names:
            return "launch a graph" + " without kernels" * ("kernels" in self.arguments)
        counted = (f"{name} ({count} ×)" if count > 1 else name for name, count in collections.Counter(names).items())
        text = f"the kernel {names[0]}" if len(names) == 1 else f"{len(names)} kernels: {', '.join(counted)}"
        return f"launch a graph with {text if len(text) <= 120 else text[:120] + '…'}"
