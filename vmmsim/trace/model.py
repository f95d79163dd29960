# SPDX-License-Identifier: MIT-0
"""The machine that the lines of a trace tell of: handles, reservations, mappings, rights, in all processes.

machine.line() takes one line after another and changes the model as the line says. It raises AssertionError if the line
makes no sense: what changes must be what the call is for, and the driver's answers must be those of the model.
"""

import collections

from vmmsim.trace import checks, guesses
from vmmsim.trace.entities import Handle, Look, Mapping, Memory, Process, Reservation, Since
from vmmsim.trace.line import ENDS, SUCCESS, members_of, number, validate_call

FEW = 50  # calls between two of a kind that are told of together


class Machine:
    """All processes. If it is not strict it takes a line that makes no sense as well as it can, and notes a doubt.

    sources are those of imports.sources(), for a recording whose records do not tell of which memory an import is;
    captured, of captures.captured(), are the lines whose calls do nothing yet.
    """

    def __init__(self, strict: bool = True, sources: dict | None = None, captured: "set[int] | None" = None) -> None:
        self.sources, self.captured = sources or {}, captured or set()
        self.made_at: dict = {}  # memory by (process, order)
        self.at: tuple | None = None  # the (process, order) of the change that is made
        self.processes: dict[int, Process] = collections.defaultdict(Process)
        self.records: dict = {}
        self.memory: list[Memory] = []
        self.seen: dict[int, int] = {}  # device -> bytes that VMM may have, beside this ordinary memory
        self.held: dict[int, Memory] = {}  # memory by number that only a descriptor holds
        self.followed: dict = {}  # memory by identity
        self.touched: dict[int, Memory] = {}  # of the line that it is at, by number
        self.made = 0  # how much memory there has been
        self.lines = 0  # how many
        self.launches: dict = {}  # by (process, "cudaLaunchKernel #2"), its sequence number and it
        self.unmapped: dict = {}  # by process: the last calls in a row that unmapped something, with sequence numbers
        self.waited: dict = {}  # by (process, GPU): the sequence number of the last call that waited for all its work
        self.checks: collections.Counter[str] = collections.Counter()
        self.strict = strict
        self.doubts: list[str] = []  # of the last line
        self.watches: list[Since] = []

    def expect(self, right, rule):
        """Of every trace. Returns whether it is so."""
        self.checks[rule] += 1
        if not right and self.strict:
            raise AssertionError(f"not so: {rule}")
        if not right:
            self.doubts.append(rule)
        return right

    def demand(self, right, rule):
        """Of a trace that has all: not of a recording, which sees a part."""
        if self.strict:
            self.expect(right, rule)

    def line(self, line: dict) -> None:
        """Takes a line that is a call, as validate_call() has it."""
        self.doubts = []
        self.demand(not validate_call(line), "a line has the documented members")
        self.lines += 1
        if "Launch" in line["call"] and "HostFunc" not in line["call"] and self.lines not in self.captured:
            self.launches[line["pid"], f"{line['call']} #{line['nth']}"] = self.lines, line
        process = self.processes[line["pid"]]
        process.has_ended, self.touched = False, {}
        if any(change.get("kind") == "unmap" for change in line["changes"]):
            unmaps = self.unmapped.setdefault(line["pid"], [])
            if unmaps and self.lines - unmaps[-1][0] >= FEW:
                unmaps.clear()
            unmaps.append((self.lines, line))
        if line["call"] in ("cudaDeviceSynchronize", "cuCtxSynchronize") and line["result"] in SUCCESS:
            self.waited[line["pid"], line["device"]] = self.lines
        checks.of_changes(self, process, line)
        for change in line["changes"]:
            self.demand(change["order"] > process.order, "changes come in order")
            process.order = change["order"]
            self.change(process, line, change)
        if line["result"] in SUCCESS and line["call"] in AFTER:
            AFTER[line["call"]](self, process, line)
        for memory in self.touched.values():
            self.settle(memory)

    def unmapped_beside_work(self, pid):
        """The last calls in a row that unmapped something, with their sequence numbers; how many bytes; and of the
        launches before them that may still have run then, as nobody had waited, the last of each kind."""
        calls = self.unmapped.get(pid, [])
        changes = [change for _, line in calls for change in line["changes"] if change.get("kind") == "unmap"]
        running = {
            "graph" if "Graph" in line["call"] else "kernel": step
            for step, line in self.launches.values()
            if calls
            and line["pid"] == pid
            and self.waited.get((pid, line["device"]), 0) < step < calls[0][0]
            and line["result"] in SUCCESS
        }
        sizes = (change.get("size") for change in changes)
        return calls, sum(size for size in sizes if isinstance(size, int)), [(running[kind], kind) for kind in running]

    def change(self, process, line, change):
        apply = HANDLERS.get(change["kind"])
        if self.expect(apply, f"{change['kind']} is a change that is known"):
            members, self.at = members_of(change), (line["pid"], change["order"])
            if self.expect(members is not None, "what it changed is known"):
                apply(self, process, line, **members)

    # --- What has changed since when
    def since(self) -> Since:
        self.watches.append(Since())
        return self.watches[-1]

    def forget_since(self, since: Since) -> None:
        self.watches.remove(since)

    def comes(self, thing):
        for watch in self.watches:
            watch.came[thing.number] = thing

    def goes(self, pid, at, thing):
        for watch in self.watches:
            if thing.number in watch.came:
                del watch.came[thing.number]
            else:
                watch.gone[thing.number] = pid, at, thing

    def look_at(self, memory):
        """Before it changes, and with it what it holds."""
        for watch in self.watches:
            if memory.number not in watch.was:
                watch.was[memory.number] = memory.look()
        memory.last_look = None
        self.touched[memory.number] = memory
        for bound, _ in memory.bound.values():
            self.look_at(bound)

    # --- What a descriptor alone holds
    def settle(self, memory):
        """Once a line's changes are made: they come in no order that tells of which was the last to hold it."""
        if not memory.is_followed:
            return
        memory.held_by_fd = not memory.is_gone and not memory.lives()
        memory.last_look = None
        if memory.held_by_fd:
            self.held[memory.number] = memory
            return
        self.held.pop(memory.number, None)
        if memory.is_gone:
            for pid, fd in list(memory.descriptors):
                self.close(self.processes[pid], pid, fd)
            if not self.strict and memory in self.memory:
                self.memory.remove(memory)

    def open(self, process, line, fd, memory):
        fd = number(fd)
        if memory.is_followed and isinstance(fd, int):
            self.close(process, line["pid"], fd)
            self.look_at(memory)
            memory.is_gone = False
            process.descriptors[fd], memory.descriptors[line["pid"], fd] = memory, line
            self.note_descriptor(line["pid"], fd)

    def close(self, process, pid, fd):
        if memory := process.descriptors.pop(fd, None):
            self.look_at(memory)
            del memory.descriptors[pid, fd]
            self.note_descriptor(pid, fd)

    def note_descriptor(self, pid, fd):
        for watch in self.watches:
            watch.descriptors.add((pid, fd))

    def gone(self, process, line, identity):
        if memory := self.followed.get(identity):  # else it is a pool's, or made before the recording begins
            self.look_at(memory)
            memory.is_gone = True

    def after_close(self, process, line):
        fd = line["arguments"].get("fd")
        if isinstance(fd, int):
            self.close(process, line["pid"], fd)

    # --- Changes
    def new_memory(self, line, size, device, is_multicast):
        memory = Memory(size or 0, -1 if device is None else device, is_multicast, line)
        self.made += 1
        memory.nth = self.made
        for watch in self.watches:
            watch.was[memory.number] = Look(memory, False, False, {}, 0, {}, 0)
        self.memory.append(memory)
        return memory

    def new_handle(self, process, line, name, memory):
        self.look_at(memory)
        memory.held_by_fd = False
        self.held.pop(memory.number, None)
        process.handles[name] = handle = Handle(memory, line["pid"], name, line)
        self.comes(handle)
        return handle

    def handle(self, process, line, name, size=None, device=None):
        """The handle of this name, made up if nobody has seen it made."""
        if self.expect(name in process.handles, "an allocation handle that is used was made before"):
            return process.handles[name]
        return self.new_handle(process, line, name, self.new_memory(None, size, device, False))

    def create(self, process, line, handle, size, device, record, multicast, devices=None):
        if not self.expect(handle not in process.handles, "a new handle is new"):
            self.drop_handle(process, handle)
        memory = self.new_memory(line, size, device, multicast)
        if record is not None:
            self.records[record] = memory
        self.made_at[self.at] = memory
        self.new_handle(process, line, handle, memory)

    def multicast_create(self, process, line, handle, size, devices, record):
        self.create(process, line, handle, size, -1, record, True)

    def source(self, record, size):
        """(what is imported, its size), each as far as it is known."""
        source = self.sources.get(self.at)
        return (self.made_at.get(source.made), source.size) if source else (self.records.get(record), size)

    def import_handle(self, process, line, handle, size, device, record, multicast, identity=None):
        memory, size = self.source(record, size)
        self.demand(memory, "an import is of a record that is known")
        if memory and self.at not in self.sources:
            self.expect(identity is None or identity in memory.identities, "an import has the identity of its export")
            is_that = size is None or (memory.size, memory.is_multicast) == (size, multicast)
            if not self.expect(is_that, "an import is what was exported"):
                memory = None
            else:
                self.expect(memory.is_exported, "what is imported was exported")
        self.demand(handle not in process.handles, "a new handle is new")
        if handle in process.handles:
            known = process.handles[handle].memory
            if memory is known or not memory and known.source_unknown:  # the driver may give the same name again
                self.look_at(known)
                process.handles[handle].references += 1
                return
            self.drop_handle(process, handle)
        if not memory:
            memory = self.new_memory(line, size, None if self.at in self.sources else device, bool(multicast))
            memory.source_unknown = True
        self.made_at[self.at] = memory
        self.new_handle(process, line, handle, memory)
        if line["arguments"].get("shHandleType") == 1:
            self.open(process, line, line["arguments"].get("osHandle"), memory)

    def retain(self, process, line, handle):
        known = self.handle(process, line, handle)
        self.look_at(known.memory)
        known.references += 1
        self.expect(number(line["outputs"].get("handle")) == handle, "the call gives the handle")

    def release(self, process, line, handle):
        known = self.handle(process, line, handle)
        self.look_at(known.memory)
        known.references -= 1
        self.forget(process, handle)

    def export(self, process, line, handle, fd=None, fabric=False, identity=None, followed=False):
        self.expect(fd is not None or fabric, "an export is a descriptor or a fabric handle")
        memory = self.handle(process, line, handle).memory
        self.look_at(memory)
        memory.is_exported = True
        memory.exports.append((line["pid"], "fabric" if fabric else "fd"))
        memory.identities.add(identity)
        if followed:
            memory.is_followed, self.followed[identity] = True, memory
        self.open(process, line, fd, memory)

    def forget(self, process, name):
        handle = process.handles[name]
        if not self.expect(handle.references >= 0, "no more releases than references"):
            handle.references = 0
        if not handle.references and not handle.mappings:
            self.drop_handle(process, name)

    def drop_handle(self, process, name):
        handle = process.handles.pop(name)
        self.look_at(handle.memory)
        handle.references = handle.mappings = 0
        handle.memory.handles.remove(handle)
        self.goes(handle.pid, name, handle)
        memory = handle.memory
        if not self.strict and not memory.is_exported and not memory.lives() and memory in self.memory:
            self.memory.remove(memory)

    def reserve(self, process, line, address, size):
        overlapping = process.reservations.overlapping(address, size)
        if not self.expect(not overlapping, "reservations do not overlap"):
            for at in overlapping:
                self.drop_reservation(process, line, at)
        process.reservations[address] = Reservation(line["pid"], address, size, process.reserved, line)
        process.reserved += 1
        self.comes(process.reservations[address])

    def free_reservation(self, process, line, address, size):
        if self.expect(address in process.reservations, "a reservation that is freed was made before"):
            self.expect(process.reservations[address].size == size, "a reservation is freed whole")
            self.expect(not process.reservations[address].mappings, "what is freed is unmapped")
            self.drop_reservation(process, line, address)

    def drop_reservation(self, process, line, address):
        room = process.reservations[address]
        for at in list(room.mappings):
            self.drop_mapping(process, line, at)
        del process.reservations[address]
        self.goes(line["pid"], address, room)

    def map(self, process, line, address, size, handle):
        base, room = process.reservations.at(address)
        if not self.expect(room and address + size <= base + room.size, "a mapping lies where is reserved"):
            self.reserve(process, {**line, "call": ""}, address, size)
            room = process.reservations[address]
            room.is_guessed = True
        overlapping = process.mappings.overlapping(address, size)
        if not self.expect(not overlapping, "mappings do not overlap"):
            for at in overlapping:
                self.drop_mapping(process, line, at)
        known = self.handle(process, line, handle, size)
        memory = known.memory
        memory.size = memory.size or size
        self.expect(memory.size == size, "memory is mapped whole")
        self.look_at(memory)
        known.mappings += 1
        mapping = Mapping(size, handle, memory, line)
        mapping.at, mapping.room = address, room
        process.mappings[address] = room.mappings[address] = memory.mapped[mapping.number] = mapping
        self.comes(mapping)

    def unmap(self, process, line, address, size):
        if self.expect(address in process.mappings, "what is unmapped was mapped before"):
            self.expect(process.mappings[address].size == size, "a mapping is unmapped whole")
            self.drop_mapping(process, line, address)

    def drop_mapping(self, process, line, address):
        mapping = process.mappings.pop(address)
        self.look_at(mapping.memory)
        del mapping.room.mappings[address]
        del mapping.memory.mapped[mapping.number]
        self.goes(line["pid"], address, mapping)
        handle = process.handles.get(mapping.handle)
        if handle and handle.memory is mapping.memory and handle.mappings:  # else another has its name by now
            handle.mappings -= 1
            self.forget(process, mapping.handle)

    def access(self, process, line, address, size, device, flags):
        if not self.expect(address in process.mappings, "access is given to what was mapped before"):
            return
        mapping = process.mappings[address]
        self.expect(mapping.size == size, "access is that of a mapping")
        for watch in self.watches:
            watch.access.setdefault(mapping.number, (mapping, dict(mapping.access)))
        mapping.access[device] = flags
        mapping.opened[device] = line

    def add_device(self, process, line, handle, device):
        memory = self.handle(process, line, handle).memory
        self.look_at(memory)
        memory.is_multicast = True
        memory.team.add(device)

    def bind(self, process, line, handle, offset, size, device, memory=None, memory_offset=0, address=None):
        thing = self.handle(process, line, handle).memory
        if memory is not None:
            bound = self.handle(process, line, memory, size, device).memory
        else:  # ordinary memory, which has no handle
            base, (length, owner, _) = process.block_at(address)
            if not self.expect(base is not None, "ordinary memory that is bound was allocated"):
                return
            bound = Memory(base + length - address, owner, False)
        self.expect(device in thing.team and bound.device == device, "memory of the team is bound")
        self.expect(memory_offset + size <= bound.size and offset + size <= thing.size, "what is bound fits")
        self.look_at(thing)
        self.look_at(bound)
        thing.bound[device, offset] = bound, size
        bound.in_objects.append(thing)

    def unbind(self, process, line, handle, offset, size, device):
        thing = self.handle(process, line, handle).memory
        if not self.expect((device, offset) in thing.bound, "what is unbound was bound"):
            return
        self.look_at(thing)
        bound, bound_size = thing.bound.pop((device, offset))
        self.expect(size == bound_size, "what is bound is unbound whole")
        bound.in_objects.remove(thing)

    def allocate(self, process, line, address, size, device, shared):
        self.expect(address not in process.blocks, "what is allocated was free")
        process.blocks[address] = size or 0, -1 if device is None else device, line["call"]
        for watch in self.watches:
            watch.blocks.add((line["pid"], address))

    def free(self, process, line, address):
        self.expect(process.blocks.pop(address, None), "what is freed was allocated")
        for watch in self.watches:
            watch.blocks.add((line["pid"], address))

    def open_pool(self, process, line, address, device, flags):
        pass  # which GPU may use a pool is not kept

    def peer(self, process, line, device, peer, enabled):
        self.demand(device == line["device"], "a device enables its own access")
        if enabled:
            process.peers[device, peer] = line
        else:
            process.peers.pop((device, peer), None)
        for watch in self.watches:
            watch.peers.add((line["pid"], device, peer))

    # --- What calls answer
    def after_exit(self, process, line):
        """What a process leaves, the system takes back. A strict machine keeps it for end() to see."""
        process.has_ended, process.order = True, 0  # another program may go on as this process
        for fd in list(process.descriptors):
            self.close(process, line["pid"], fd)
        if self.strict:
            return
        for address in list(process.reservations):
            self.drop_reservation(process, line, address)
        for name in list(process.handles):
            self.drop_handle(process, name)
        for address in list(process.blocks):
            self.free(process, line, address)
        for pair in list(process.peers):
            self.peer(process, line, *pair, False)
        expected = getattr(self.sources, "processes", set()) - set(self.processes)  # that are still to come
        if not expected and all(process.has_ended for process in self.processes.values()):
            for memory in {**self.held, **self.touched}.values():
                self.look_at(memory)
                memory.is_gone = True

    def end(self) -> None:
        checks.of_end(self)


# By kind, what applies a change.
HANDLERS = {
    "create": Machine.create,
    "import": Machine.import_handle,
    "multicast_create": Machine.multicast_create,
    "retain": Machine.retain,
    "release": Machine.release,
    "export": Machine.export,
    "reserve": Machine.reserve,
    "free_reservation": Machine.free_reservation,
    "map": Machine.map,
    "unmap": Machine.unmap,
    "access": Machine.access,
    "add_device": Machine.add_device,
    "bind": Machine.bind,
    "unbind": Machine.unbind,
    "allocate": Machine.allocate,
    "free": Machine.free,
    "open_pool": Machine.open_pool,
    "peer": Machine.peer,
    "gone": Machine.gone,
}
# By call, what its answer tells.
AFTER = {
    **dict.fromkeys(ENDS, Machine.after_exit),
    "close": Machine.after_close,
    "cuMemGetAccess": checks.of_access,
    "cuMemGetInfo": guesses.from_free_memory,
}
