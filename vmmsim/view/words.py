# SPDX-License-Identifier: MIT-0
"""A call in words: what it does with which memory and addresses, and what it answers.

    asked = Asked(machine, line, names, processes)    before machine.line(line), which changes what it tells of
    asked.words()                          after it

names(pid, reservation) is what a reservation is called, and processes are the names of processes, by pid. Whatever a
line has, this says something of it.
"""

from vmmsim.trace.line import SUCCESS, number
from vmmsim.view.picture import RIGHTS, in_words

NOT_YET = "CUDA_ERROR_NOT_READY", "cudaErrorNotReady"  # an answer, and no refusal
LAST_ERRORS = "cudaGetLastError", "cudaPeekAtLastError"
HANDLE_TYPES = {1: "a file descriptor", 8: "a fabric handle"}
# What comes of members that a line lacks, or that are something else.
ODD = (KeyError, TypeError, ValueError, IndexError, OverflowError, StopIteration)
VERBS = {"copy": "copies", "launch": "launches"}


def is_refused(line):
    return line["result"] not in (*SUCCESS, *NOT_YET) and line["call"] not in LAST_ERRORS


def integer(value):
    value = number(value)
    if not isinstance(value, int):
        raise TypeError
    return value


def exactly(offset):
    """In the largest unit of which it is a whole number."""
    for unit, shift in ("GiB", 30), ("MiB", 20), ("KiB", 10):
        if offset and offset % (1 << shift) == 0:
            return f"{offset >> shift} {unit}"
    return f"{offset} B"


def sized(value):
    """With the bytes where the short form is not exact: what is missing there may be the mistake."""
    size = integer(value)
    unit = 1 << min(30, (max(size, 1).bit_length() - 1) // 10 * 10)
    return in_words(size) if size * 10 % unit == 0 else f"{in_words(size)} ({size:,} B)"


class Asked:
    def __init__(self, machine, line, names, processes):
        self.machine, self.line, self.names, self.processes = machine, line, names, processes
        self.process, self.arguments = machine.processes[line["pid"]], line["arguments"]
        self.verb = self.rest = ""
        ask = ASKS.get(ALIKE.get(line["call"], line["call"]))
        if ask:
            try:
                self.verb, _, self.rest = ask(self).partition(" ")
            except ODD:
                self.verb = ""

    def words(self):
        line = self.line
        call, answer = line["call"], self.answer()
        if call in ("exit", "close"):
            return answer
        if not self.verb:
            return f"{call}{self.values()} {answer}."
        if is_refused(line):
            return f"{call} was to {self.verb} {self.rest}. It {answer}, and nothing changes."
        return f"{call} {VERBS.get(self.verb, self.verb + 's')} {self.rest}; it {answer}."

    def values(self):
        """The arguments that are not addresses of outputs, short."""
        shown = [
            f"{key} {value}"
            for key, value in self.arguments.items()
            if isinstance(value, (int, float, str)) and key not in self.line["outputs"]
        ]
        return f" ({', '.join(shown)[:120]})" if shown else ""

    def answer(self):
        line, out = self.line, self.line["outputs"]
        call = line["call"]
        try:
            if call == "exit":
                return f"The process ends with status {integer(self.arguments['status'])}."
            if call == "close":
                return "The process closes a descriptor that held memory."
            if line["result"] not in SUCCESS:
                return f"answers {line['result']}"
            answer = ANSWERS.get(ALIKE.get(call, call))
            if answer:
                return answer(self, out)
            told = [f"{key} {value}" for key, value in out.items() if isinstance(value, (int, str))]
            return f"answers {', '.join(told)[:120]}" if told and call not in ALIKE else "succeeds"
        except ODD:
            return "succeeds"

    # --- What is spoken of
    def device(self, key="dev"):
        return f"GPU {integer(self.arguments[key])}"

    def reservation(self, address):
        """(its base, it), or (None, None)."""
        return self.process.reservations.at(address)

    def at(self, address):
        """A place among the addresses of the process."""
        address = integer(address)
        base, room = self.reservation(address)
        if room:
            where = f"reservation {self.names(self.line['pid'], room)}"
            return f"offset {exactly(address - base)} of {where}" if address > base else f"the start of {where}"
        for base, block in self.process.blocks.items():
            if base <= address < base + block[0]:
                of = f"the {in_words(block[0])} of {block[2]}"
                return f"offset {exactly(address - base)} of {of}" if address > base else of
        return f"address {address:#x}"

    def memory(self, name):
        """What a handle stands for."""
        handle = self.process.handles.get(integer(name))
        return self.of(handle.memory) if handle else f"handle {integer(name):#x}, which is not known"

    @staticmethod
    def of(memory):
        if memory.is_multicast:
            return f"multicast object #{memory.nth} ({in_words(memory.size)})"
        where = f" of GPU {memory.device}" if memory.device >= 0 else ""
        return f"allocation #{memory.nth} ({in_words(memory.size) if memory.size else 'size not known'}{where})"

    def range(self, address="ptr", size="size"):
        return f"the {sized(self.arguments[size])} at {self.at(self.arguments[address])}"

    @staticmethod
    def location(it):
        return f"GPU {it['id']}" if it["type"] == "CU_MEM_LOCATION_TYPE_DEVICE" else "the host"

    # --- Addresses, memory, mappings
    def cuMemAddressReserve(self):
        wished = integer(self.arguments.get("addr") or 0)
        return f"reserve {sized(self.arguments['size'])} of addresses" + (
            f", if it can at {wished:#x}" if wished else ""
        )

    def answer_cuMemAddressReserve(self, out):
        address = integer(out["ptr"])
        _, room = self.reservation(address)
        if not room:
            return "succeeds"
        return f"gives reservation {self.names(self.line['pid'], room)}, which begins at {address:#x}"

    def cuMemAddressFree(self):
        address = integer(self.arguments["ptr"])
        base, room = self.reservation(address)
        whole = room and (base, room.size) == (address, integer(self.arguments["size"]))
        if whole:
            return f"free reservation {self.names(self.line['pid'], room)} ({in_words(room.size)} of addresses)"
        return f"free the reservation of {self.range()[4:]}"

    def cuMemCreate(self):
        prop = self.arguments["prop"]
        kinds = [words for bit, words in HANDLE_TYPES.items() if integer(prop["requestedHandleTypes"]) & bit]
        exportable = f", exportable as {' or '.join(kinds)}" if kinds else ""
        return f"allocate {sized(self.arguments['size'])} of memory of {self.location(prop['location'])}{exportable}"

    def answer_cuMemCreate(self, out, key="handle"):
        memory = self.process.handles[integer(out[key])].memory
        return f"gives a handle of allocation #{memory.nth}"

    def cuMemRelease(self):
        return f"release a handle of {self.memory(self.arguments['handle'])}"

    def answer_cuMemRelease(self, out):
        handle = self.process.handles.get(integer(self.arguments["handle"]))
        if handle and not handle.references:
            return "succeeds, and the memory stays while it is mapped"
        return "succeeds"

    def cuMemRetainAllocationHandle(self):
        return f"ask for a handle of what is mapped at {self.at(self.arguments['addr'])}"

    def answer_cuMemRetainAllocationHandle(self, out):
        handle = self.process.handles[integer(out["handle"])]
        return f"gives one of {self.of(handle.memory)}, which now has {plural(handle.references, 'reference')} here"

    def cuMemMap(self):
        name, size = self.arguments["handle"], integer(self.arguments["size"])
        offset, handle = integer(self.arguments.get("offset") or 0), self.process.handles.get(integer(name))
        part = f"{sized(size)} of "
        if offset:
            part = f"{sized(size)} from offset {exactly(offset)} of "
        elif handle and handle.memory.size == size:
            part = ""
        return f"map {part}{self.memory(name)} at {self.at(self.arguments['ptr'])}"

    def cuMemUnmap(self):
        return f"unmap {self.range()}"

    def cuMemSetAccess(self):
        given = []
        for it in self.arguments["desc"]:
            flags = {"PROT_NONE": 0, "PROT_READ": 1, "PROT_READWRITE": 3}.get(
                str(it["flags"]).removeprefix("CU_MEM_ACCESS_FLAGS_"), it["flags"]
            )
            given.append(f"{self.location(it['location'])} {RIGHTS.get(flags, flags)}")
        if len(given) > 4:
            given[3:] = [f"{len(given) - 3} more alike"]
        return f"set access to {self.range()}: {', '.join(given)}"

    def cuMemGetAccess(self):
        return f"ask what {self.location(self.arguments['location'])} may do at {self.at(self.arguments['ptr'])}"

    def answer_cuMemGetAccess(self, out):
        flags = integer(out["flags"])
        return f"answers {RIGHTS.get(flags, flags)}"

    def cuMemGetAllocationGranularity(self):
        kind = "recommended" if integer(self.arguments["option"]) else "minimum"
        return f"ask for the {kind} granularity of memory of {self.location(self.arguments['prop']['location'])}"

    def answer_cuMemGetAllocationGranularity(self, out):
        return f"answers {sized(out['granularity'])}"

    def cuMemGetAllocationPropertiesFromHandle(self):
        return f"ask for the properties of {self.memory(self.arguments['handle'])}"

    def answer_cuMemGetAllocationPropertiesFromHandle(self, out):
        return f"answers that it is memory of {self.location(out['prop']['location'])}"

    def cuMemExportToShareableHandle(self):
        kind = HANDLE_TYPES.get(integer(self.arguments["handleType"]), "a shareable handle")
        return f"export {self.memory(self.arguments['handle'])} as {kind}"

    def cuMemImportFromShareableHandle(self):
        kind = HANDLE_TYPES.get(integer(self.arguments["shHandleType"]), "a shareable handle")
        return f"import what {kind} stands for"

    def answer_cuMemImportFromShareableHandle(self, out):
        memory = self.process.handles[integer(out["handle"])].memory
        others = dict.fromkeys(pid for pid, _ in memory.exports if pid != self.line["pid"])
        of = f", which {' and '.join(self.processes.get(pid, 'another process') for pid in others)} exported"
        if not memory.exports:
            of = ": nobody knows which memory of which process that is"
        return f"gives a handle of {self.of(memory)}{of if others or not memory.exports else ''}"

    # --- Multicast
    def cuMulticastGetGranularity(self):
        kind = "recommended" if integer(self.arguments["option"]) else "minimum"
        return f"ask for the {kind} granularity of a multicast object"

    answer_cuMulticastGetGranularity = answer_cuMemGetAllocationGranularity

    def cuMulticastCreate(self):
        prop = self.arguments["prop"]
        team = plural(integer(prop["numDevices"]), "GPU")
        return f"make a multicast object of {sized(prop['size'])} for a team of {team}"

    def answer_cuMulticastCreate(self, out):
        memory = self.process.handles[integer(out["mcHandle"])].memory
        return f"gives a handle of multicast object #{memory.nth}"

    def cuMulticastAddDevice(self):
        return f"add {self.device()} to the team of {self.memory(self.arguments['mcHandle'])}"

    def cuMulticastBindMem(self):
        return (
            f"bind {sized(self.arguments['size'])} of {self.memory(self.arguments['memHandle'])} "
            f"to {self.memory(self.arguments['mcHandle'])}"
        )

    def cuMulticastBindAddr(self):
        return f"bind {self.range('memptr')} to {self.memory(self.arguments['mcHandle'])}"

    def cuMulticastUnbind(self):
        return f"unbind what {self.device()} has bound to {self.memory(self.arguments['mcHandle'])}"

    # --- Ordinary memory
    def cudaMalloc(self):
        key = next(key for key in ("size", "bytesize", "bytes") if key in self.arguments)
        return f"allocate {sized(self.arguments[key])} of ordinary memory"

    def answer_cudaMalloc(self, out):
        key = next(key for key in ("devPtr", "dptr", "ptr", "pHost", "pp") if key in out)
        return f"gives it at {integer(out[key]):#x}"

    def cudaFree(self):
        key = next(key for key in ("devPtr", "dptr", "ptr", "p") if key in self.arguments)
        address = self.arguments[key]
        return f"free {self.at(address) if address and integer(address) else 'nothing: the address is 0'}"

    def cuMemGetInfo(self):
        device = self.line["device"]
        return "ask how much memory is free" + (f" on GPU {device}" if device >= 0 else "")

    def answer_cuMemGetInfo(self, out):
        return f"answers {in_words(integer(out['free']))} of {in_words(integer(out['total']))}"

    def cudaMemcpy(self):
        keys = ("count", "ByteCount", "sizeBytes")
        key = next(key for key in keys if key in self.arguments)
        to = next(self.arguments[it] for it in ("dst", "dstDevice", "dstHost") if it in self.arguments)
        source = next(self.arguments[it] for it in ("src", "srcDevice", "srcHost") if it in self.arguments)
        return f"copy {sized(self.arguments[key])} from {self.place(source)} to {self.place(to)}"

    def place(self, address):
        where = self.at(address)
        return "the host" if where.startswith("address ") else where

    def cudaMemset(self):
        key = next(key for key in ("count", "N") if key in self.arguments)
        address = next(self.arguments[it] for it in ("devPtr", "dstDevice") if it in self.arguments)
        bytes_of_one = {"cuMemsetD32": 4, "cuMemsetD16": 2}.get(self.line["call"].removesuffix("Async"), 1)
        return f"fill {sized(integer(self.arguments[key]) * bytes_of_one)} at {self.at(address)}"

    # --- The rest
    def cudaLaunchKernel(self):
        name = self.arguments.get("func", self.arguments.get("f"))
        gpu = f" on GPU {self.line['device']}" if self.line["device"] >= 0 else ""
        name = str(name).removeprefix("void ")
        return f"launch the kernel {name if len(name) <= 90 else name[:90] + '…'}{gpu}"

    def cudaGraphLaunch(self):
        names = [str(name).removeprefix("void ") for name in self.arguments["kernels"]]
        if not names:
            return "launch a graph without kernels"
        text = f"the kernel {names[0]}" if len(names) == 1 else f"{len(names)} kernels: {', '.join(names)}"
        return f"launch a graph with {text if len(text) <= 120 else text[:120] + '…'}"

    def cudaStreamBeginCapture(self):
        return "begin to capture a stream: what comes in it becomes a graph, and is not executed"

    def cudaStreamEndCapture(self):
        return "end the capture of a stream"

    def cudaSetDevice(self):
        return f"make {self.device('device')} the current one"

    def cudaGetLastError(self):
        return "ask for the last error of the runtime"

    def answer_cudaLaunchKernel(self, out):
        return "succeeds"

    def answer_cudaStreamEndCapture(self, out):
        return "gives the graph"

    def answer_cudaGetLastError(self, out):
        return "answers that there is none"

    def cudaDeviceSynchronize(self):
        return f"wait for all work of GPU {self.line['device']}"

    def cudaStreamSynchronize(self):
        return "wait for all work of a stream"

    def cuDeviceCanAccessPeer(self):
        keys = ("dev", "peerDev") if "dev" in self.arguments else ("device", "peerDevice")
        return f"ask whether {self.device(keys[0])} can access memory of {self.device(keys[1])}"

    def answer_cuDeviceCanAccessPeer(self, out):
        return "answers yes" if integer(out["canAccessPeer"]) else "answers no"

    def cudaDeviceEnablePeerAccess(self):
        return f"let GPU {self.line['device']} access ordinary memory of {self.device('peerDevice')}"

    def cudaDeviceDisablePeerAccess(self):
        return f"end the access of GPU {self.line['device']} to ordinary memory of {self.device('peerDevice')}"

    def cuDeviceGetCount(self):
        return "ask how many GPUs there are"

    def answer_cuDeviceGetCount(self, out):
        return f"answers {integer(out['count'])}"

    def cuInit(self):
        return "initialise the driver"


def plural(count, what):
    return f"{count} {what}" + ("" if count == 1 else "s")


# By call: the function that says what it asks, and the one that says what it answers.
ASKS = {name: function for name, function in vars(Asked).items() if name.startswith("cu")}
ANSWERS = {
    name.removeprefix("answer_"): function for name, function in vars(Asked).items() if name.startswith("answer_")
}


# Calls that are told like another one.
ALIKE = {
    **dict.fromkeys(
        "cudaMallocHost cudaHostAlloc cudaMallocAsync cudaMallocManaged cudaMallocFromPoolAsync cuMemAlloc "
        "cuMemAllocHost cuMemHostAlloc cuMemAllocAsync cuMemAllocManaged cuMemAllocFromPoolAsync".split(),
        "cudaMalloc",
    ),
    **dict.fromkeys("cudaFreeHost cudaFreeAsync cuMemFree cuMemFreeHost cuMemFreeAsync".split(), "cudaFree"),
    **dict.fromkeys(
        "cudaMemcpyAsync cuMemcpy cuMemcpyAsync cuMemcpyHtoD cuMemcpyHtoDAsync cuMemcpyDtoH cuMemcpyDtoHAsync "
        "cuMemcpyDtoD cuMemcpyDtoDAsync".split(),
        "cudaMemcpy",
    ),
    **dict.fromkeys(
        "cudaMemsetAsync cuMemsetD8 cuMemsetD16 cuMemsetD32 cuMemsetD8Async cuMemsetD32Async".split(), "cudaMemset"
    ),
    **dict.fromkeys(
        (
            "cuLaunchKernel cuLaunchKernelEx cudaLaunchKernelExC cudaLaunchCooperativeKernel cuLaunchCooperativeKernel"
        ).split(),
        "cudaLaunchKernel",
    ),
    "cuGraphLaunch": "cudaGraphLaunch",
    "cuStreamBeginCapture": "cudaStreamBeginCapture",
    "cuStreamEndCapture": "cudaStreamEndCapture",
    "cudaMemGetInfo": "cuMemGetInfo",
    "cudaGetDeviceCount": "cuDeviceGetCount",
    "cudaDeviceCanAccessPeer": "cuDeviceCanAccessPeer",
    "cudaPeekAtLastError": "cudaGetLastError",
    "cuCtxSynchronize": "cudaDeviceSynchronize",
    "cuStreamSynchronize": "cudaStreamSynchronize",
}


class Teller:
    """What is said of a part of a picture where a reader points at it."""

    def __init__(self, recording, names, processes):
        self.recording, self.names, self.processes = recording, names, processes  # processes: names, by pid
        self.told = {}  # where calls were made, by the line's identity

    def made(self, verb, line, other=None):
        """By which call, and where; with the last of several."""
        if not line or not line["call"]:
            return " Nobody saw it made: the recording begins later, or has not all."
        if id(line) not in self.told:
            file, row, function = self.recording.place(line)
            self.told[id(line)] = f", {file}:{row}" if file else f", in {function}" if function else ""
        several = other and other is not line and other["call"]
        which = f"{line['call']} #{line['nth']}" + (f" to #{other['nth']}" if several else "")
        return f" {verb} by {which}{self.told[id(line)]}."

    def reservation(self, room):
        it = room.it
        name = self.names(it.pid, it)
        return (
            f"Reservation {name}: {in_words(it.size)} of addresses, {it.base:#x} to {it.base + it.size:#x}."
            + self.made("Reserved", it.made)
        )

    def gap(self, block, room):
        it = room.it
        return (
            f"{in_words(block.size)} at offset {exactly(block.offset)} of reservation {self.names(it.pid, it)}, from "
            f"{it.base + block.offset:#x}: reserved and not mapped. An access to them is a fault."
        )

    def block(self, block, room):
        it, first, last = room.it, block.first, block.last
        what = "multicast object" if first.memory.is_multicast else "allocation"
        which = f"{what} #{first.memory.nth}"
        if last.memory is not first.memory:
            which = f"{what}s #{first.memory.nth} to #{last.memory.nth}"
        where = f" of GPU {first.memory.device}" if first.memory.device >= 0 else ""
        rights = ", ".join(f"GPU {gpu} {RIGHTS.get(flags, flags)}" for gpu, (flags, _) in sorted(block.access.items()))
        given = [line for gpu, line in first.opened.items() if first.access.get(gpu)]
        opened = self.made("Opened", given[-1]) if given else ""
        return (
            f"{block.label()} at offset {exactly(block.offset)} of reservation {self.names(it.pid, it)}, from "
            f"{it.base + block.offset:#x}, {'was' if block.status == 'gone' else 'is'} {which}{where}. {rights}."
            f"{self.made('Mapped', first.made, last.made)}{opened}"
        )

    def memory(self, box):
        it, last = box.it, box.last or box.it
        what = "Multicast object" if it.is_multicast else "Allocation"
        which = f"{what} #{it.nth}" if last is it else f"{what}s #{it.nth} to #{last.nth}"
        where = f" of GPU {it.device}" if it.device >= 0 else "" if it.is_multicast else ", of which GPU is not known"
        held = [
            f"{self.processes.get(pid) or 'it'} has {count}" for pid, count in it.look().references.items() if count
        ]
        mapped = plural(len(it.mapped), "mapping")
        handles = f"References of handles: {', '.join(held)}" if held else "No handle has a reference"
        each = " each" if last is not it else ""
        if not it.made:
            made = " Which call made it is not known."
        else:
            made = self.made("Made", it.made, last.made)
        return f"{which}: {box.label()}{where}. {handles}; {mapped}{each}.{made}"
