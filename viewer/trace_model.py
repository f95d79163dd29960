# SPDX-License-Identifier: MIT-0
"""The machine that the lines of --trace tell of: handles, reservations, mappings, rights, in all processes.

machine.line() takes one line after another and changes the model as the line says. It raises AssertionError if the line
makes no sense: what changes must be what the call is for, and the driver's answers must be those of the model.
"""

import collections
import itertools

KEYS = "pid thread number call nth callers device arguments result outputs changes explanation".split()
# What a call that succeeds must have changed, and nothing else; what is not here changes nothing.
KINDS = {
    "cuMemCreate": "create",
    "cuMemRelease": "release",
    "cuMemRetainAllocationHandle": "retain",
    "cuMemExportToShareableHandle": "export",
    "cuMemImportFromShareableHandle": "import",
    "cuMemAddressReserve": "reserve",
    "cuMemAddressFree": "free_reservation",
    "cuMemMap": "map",
    "cuMemUnmap": "unmap",
    "cuMemSetAccess": "access",
    "cuMulticastCreate": "multicast_create",
    "cuMulticastAddDevice": "add_device",
    "cuMulticastBindMem": "bind",
    "cuMulticastBindAddr": "bind",
    "cuMulticastUnbind": "unbind",
    "cudaMalloc": "allocate",
    "cudaFree": "free",
    "cudaMallocHost": "allocate",
    "cudaFreeHost": "free",
    "cudaIpcOpenMemHandle": "allocate",
    "cudaIpcCloseMemHandle": "free",
    "cudaDeviceEnablePeerAccess": "peer",
    "cudaDeviceDisablePeerAccess": "peer",
}
# A module's variables come with the first launch or question that needs them, and a pool's memory with what is wanted
# of it; any call that waits gives back what the pool does not need.
OF_MODULES = "cudaLaunch", "cudaFunc", "cudaMemcpyToSymbol", "cudaMemcpyFromSymbol", "cudaGetSymbol"
SUCCESS = "CUDA_SUCCESS", "cudaSuccess", ""  # the last is that of `close` and `exit`, which are no calls of CUDA


class Thing:
    """Has a number, by which one knows it again in a copy of the machine."""

    numbers = itertools.count(1)  # none is false

    def __init__(self):
        self.number = next(self.numbers)


class Memory(Thing):  # or a multicast object
    def __init__(self, size, device, is_multicast):
        super().__init__()
        self.size, self.device, self.is_multicast = size, device, is_multicast
        self.handles = []  # in all processes
        self.team, self.bound = set(), {}  # of an object: devices; (device, offset) -> (memory, size)
        self.in_objects = []
        self.exports = []  # (process, "fd" or "fabric"), in order
        self.is_exported = False  # a descriptor may hold it, and nobody is told when that is closed
        self.held_by_fd = False  # nothing else does, and cuMemGetInfo has shown that it is still there

    def lives(self):
        return any(handle.references or handle.mappings for handle in self.handles) or any(
            it.lives() for it in self.in_objects
        )


class Handle:
    def __init__(self, memory):
        self.memory, self.references, self.mappings = memory, 1, 0
        memory.handles.append(self)


class Reservation(Thing):
    def __init__(self, size, nth):
        super().__init__()
        self.size, self.nth = size, nth  # nth: of this process, from 0


class Mapping(Thing):
    def __init__(self, size, handle, memory):
        super().__init__()
        self.size, self.handle, self.memory, self.access = size, handle, memory, {}


class Process:
    def __init__(self):
        self.handles, self.reservations, self.mappings, self.blocks = {}, {}, {}, {}
        self.order = self.reserved = 0  # of the last change; how many reservations there have been


class Machine:
    def __init__(self):
        self.processes, self.records, self.memory = collections.defaultdict(Process), {}, []
        self.seen = {}  # device -> bytes that VMM may have, beside this ordinary memory
        self.checks = collections.Counter()

    def expect(self, right, what):
        self.checks[what] += 1
        if not right:
            raise AssertionError(f"not so: {what}")

    def line(self, line):
        self.expect(list(line) == KEYS, "a line has the documented members")
        process = self.processes[line["pid"]]
        succeeded = line["result"] in SUCCESS
        kinds = {change["kind"] for change in line["changes"] if not self.is_of_pool(process, change)}
        of_nothing = line["arguments"].get("devPtr", "") in (None, "0x0")
        wanted = KINDS.get(line["call"]) if succeeded and not of_nothing else None
        may_allocate = line["call"].startswith((*OF_MODULES, "cudaMallocAsync"))
        allowed = {"allocate"} if may_allocate else set()
        self.expect(kinds - allowed == ({wanted} if wanted else set()), "a call changes what it is for")
        for change in line["changes"]:
            self.expect(change["order"] > process.order, "changes come in order")
            process.order = change["order"]
            getattr(self, change["kind"])(
                process, line, **{key: number(value) for key, value in change.items() if key not in ("order", "kind")}
            )
        if succeeded:
            getattr(self, "after_" + line["call"], lambda *_: None)(process, line)

    @staticmethod
    def is_of_pool(process, change):
        block = process.blocks.get(number(change.get("address")))
        return change["kind"] == "free" and block and block[2] == "cudaMallocAsync"

    # --- Changes
    def create(self, process, line, handle, size, device, record, multicast, devices=None):
        self.records[record] = Memory(size, device, multicast)
        self.memory.append(self.records[record])
        self.expect(handle not in process.handles, "a new handle is new")
        process.handles[handle] = Handle(self.records[record])

    def multicast_create(self, process, line, handle, size, devices, record):
        self.create(process, line, handle, size, -1, record, True)

    def import_(self, process, line, handle, size, device, record, multicast):
        memory = self.records[record]
        self.expect((memory.size, memory.is_multicast) == (size, multicast), "an import is what was exported")
        self.expect(memory.is_exported, "what is imported was exported")
        process.handles[handle] = Handle(memory)

    def retain(self, process, line, handle):
        process.handles[handle].references += 1
        self.expect(number(line["outputs"]["handle"]) == handle, "the call gives the handle")

    def release(self, process, line, handle):
        process.handles[handle].references -= 1
        self.forget(process, handle)

    def export(self, process, line, handle, fd=None, fabric=False):
        self.expect(fd is not None or fabric, "an export is a descriptor or a fabric handle")
        memory = process.handles[handle].memory
        memory.is_exported = True
        memory.exports.append((line["pid"], "fabric" if fabric else "fd"))

    def forget(self, process, name):
        handle = process.handles[name]
        self.expect(handle.references >= 0, "no more releases than references")
        if not handle.references and not handle.mappings:
            del process.handles[name]

    def reserve(self, process, line, address, size):
        self.expect(not overlapping(process.reservations, address, size), "reservations do not overlap")
        process.reservations[address] = Reservation(size, process.reserved)
        process.reserved += 1

    def free_reservation(self, process, line, address, size):
        self.expect(process.reservations.pop(address).size == size, "a reservation is freed whole")
        self.expect(not any(address <= at < address + size for at in process.mappings), "what is freed is unmapped")

    def map(self, process, line, address, size, handle):
        self.expect(
            any(base <= address and address + size <= base + it.size for base, it in process.reservations.items()),
            "a mapping lies where is reserved",
        )
        self.expect(not overlapping(process.mappings, address, size), "mappings do not overlap")
        self.expect(process.handles[handle].memory.size == size, "memory is mapped whole")
        process.handles[handle].mappings += 1
        process.mappings[address] = Mapping(size, handle, process.handles[handle].memory)

    def unmap(self, process, line, address, size):
        mapping = process.mappings.pop(address)
        self.expect(mapping.size == size, "a mapping is unmapped whole")
        process.handles[mapping.handle].mappings -= 1
        self.forget(process, mapping.handle)

    def access(self, process, line, address, size, device, flags):
        self.expect(process.mappings[address].size == size, "access is that of a mapping")
        process.mappings[address].access[device] = flags

    def add_device(self, process, line, handle, device):
        process.handles[handle].memory.team.add(device)

    def bind(self, process, line, handle, offset, size, device, memory=None, memory_offset=0, address=None):
        thing = process.handles[handle].memory
        if address is None:
            bound = process.handles[memory].memory
        else:  # ordinary memory, which has no handle
            bound = next(
                (
                    Memory(at + block[0] - address, block[1], False)
                    for at, block in process.blocks.items()
                    if at <= address < at + block[0]
                ),
                None,
            )
            self.expect(bound, "ordinary memory that is bound was allocated")
        self.expect(device in thing.team and bound.device == device, "memory of the team is bound")
        self.expect(memory_offset + size <= bound.size and offset + size <= thing.size, "what is bound fits")
        thing.bound[device, offset] = bound, size
        bound.in_objects.append(thing)

    def unbind(self, process, line, handle, offset, size, device):
        thing = process.handles[handle].memory
        bound, bound_size = thing.bound.pop((device, offset))
        self.expect(size == bound_size, "what is unbound was bound")
        bound.in_objects.remove(thing)

    def allocate(self, process, line, address, size, device, shared):
        self.expect(address not in process.blocks, "what is allocated was free")
        process.blocks[address] = size, device, line["call"]

    def free(self, process, line, address):
        self.expect(process.blocks.pop(address, None), "what is freed was allocated")

    def peer(self, process, line, device, peer, enabled):
        self.expect(device == line["device"], "a device enables its own access")

    # --- What calls answer
    def after_cuMemGetAccess(self, process, line):
        address, location = number(line["arguments"]["ptr"]), line["arguments"]["location"]
        device = location["id"] if location["type"] == "CU_MEM_LOCATION_TYPE_DEVICE" else -1
        flags = next(
            mapping.access.get(device, 0)
            for at, mapping in process.mappings.items()
            if at <= address < at + mapping.size
        )
        self.expect(number(line["outputs"]["flags"]) == flags, "access is what cuMemGetAccess says")

    def after_cuMemGetInfo(self, process, line):
        device = line["device"]
        lives = sum(memory.size for memory in self.memory if memory.device == device and memory.lives())
        others = {
            (pid, at) for pid, it in self.processes.items() for at, block in it.blocks.items() if block[1] == device
        }
        hidden = sum(
            memory.size
            for memory in self.memory
            if memory.device == device and memory.is_exported and not memory.lives()
        )
        room, for_others = self.seen.get(device, (None, None))
        free = line["outputs"]["free"]
        if others == for_others:  # how much ordinary memory takes is not told: it comes in whole pages
            self.expect(0 <= room - free - lives <= hidden, "free memory is as much as cuMemGetInfo says")
            for memory in self.memory:
                if memory.device == device and memory.is_exported and not memory.lives():
                    memory.held_by_fd = room - free - lives == hidden
                    memory.is_exported = room - free - lives > 0
        elif not hidden:
            self.seen[device] = free + lives, others

    def end(self):
        for process in self.processes.values():
            self.expect(not process.handles, "all handles are released at the end")
            self.expect(not process.mappings, "all is unmapped at the end")
            self.expect(not process.reservations, "all reservations are freed at the end")
            left = [caller for _, _, caller in process.blocks.values() if not caller.startswith(OF_MODULES)]
            self.expect(not left, "all is freed at the end")
        self.expect(not any(memory.lives() for memory in self.memory), "no memory lives at the end")


setattr(Machine, "import", Machine.import_)


def number(value):
    return int(value, 16) if isinstance(value, str) and value.startswith("0x") else value


def overlapping(ranges, address, size):
    return any(at < address + size and address < at + it.size for at, it in ranges.items())
