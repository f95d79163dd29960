# SPDX-License-Identifier: MIT-0
"""What there is in a machine: memory, handles, reservations and mappings, by process; and what has changed of it."""

import bisect
import dataclasses
import itertools


class Entity:
    """Has a number, by which one knows it again, and the line of the call that made it."""

    numbers = itertools.count(1)  # none is false

    def __init__(self, made=None):
        self.number, self.made = next(self.numbers), made


class Memory(Entity):  # or a multicast object
    def __init__(self, size, device, is_multicast, made=None):
        super().__init__(made)
        self.size, self.device, self.is_multicast = size, device, is_multicast  # device -1: the host's, or not known
        self.nth = 0  # of this machine, from 1
        self.handles = []  # in all processes
        self.mapped = {}  # in all processes, by number
        self.team, self.bound = set(), {}  # of an object: devices; (device, offset) -> (memory, size)
        self.in_objects = []
        self.exports = []  # (process, "fd" or "fabric"), in order
        self.identities = set()  # of these
        self.source_unknown = False  # it was imported, and of which export is not known
        self.is_exported = False  # a descriptor may hold it
        self.is_followed = False  # and the recording tells when nothing holds it any more; or else cuMemGetInfo may
        self.is_gone = False  # it has told
        self.descriptors = {}  # that hold it: (process, fd) -> the line that gave it; those that are known
        self.held_by_fd = False  # nothing else does
        self.last_look = None  # until it changes

    def lives(self):
        return any(handle.references or handle.mappings for handle in self.handles) or any(
            thing.lives() for thing in self.in_objects
        )

    def look(self):
        if self.last_look:
            return self.last_look
        references = {}
        for handle in self.handles:
            references[handle.pid] = references.get(handle.pid, 0) + handle.references
        self.last_look = Look(
            self,
            self.lives() or self.held_by_fd,
            self.held_by_fd,
            references,
            len(self.exports),
            {memory.number: memory for memory, _ in self.bound.values()},
            len(self.team),
        )
        return self.last_look


@dataclasses.dataclass
class Look:
    """What there was of a memory at some moment."""

    memory: Memory
    is_there: bool
    held_by_fd: bool
    references: dict  # by process
    exports: int
    bound: dict  # by number
    team: int  # how many GPUs


class Handle(Entity):
    def __init__(self, memory, pid, name, made=None):
        super().__init__(made)
        self.memory, self.pid, self.name, self.references, self.mappings = memory, pid, name, 1, 0
        memory.handles.append(self)


class Ranges(dict):
    """By address, what has a size."""

    def __init__(self):
        super().__init__()
        self.addresses = []  # in order

    def __setitem__(self, address, value):
        if address not in self:
            bisect.insort(self.addresses, address)
        super().__setitem__(address, value)

    def __delitem__(self, address):
        super().__delitem__(address)
        del self.addresses[bisect.bisect_left(self.addresses, address)]

    def pop(self, address):
        value = self[address]
        del self[address]
        return value

    def at(self, address):
        """(where it begins, what) of what lies there, or (None, None)."""
        index = bisect.bisect_right(self.addresses, address) - 1
        if index < 0:
            return None, None
        base = self.addresses[index]
        return (base, self[base]) if address < base + self[base].size else (None, None)

    def overlapping(self, address, size):
        """Where those begin that have a part in the range."""
        first, _ = self.at(address)
        begin = bisect.bisect_left(self.addresses, address if first is None else first)
        return self.addresses[begin : bisect.bisect_left(self.addresses, address + size)]

    def in_order(self):
        return [(address, self[address]) for address in self.addresses]


class Reservation(Entity):
    def __init__(self, pid, base, size, nth, made=None):
        super().__init__(made)
        self.pid, self.base, self.size, self.nth = pid, base, size, nth  # nth: of this process, from 0
        self.mappings = Ranges()  # in it
        self.is_guessed = False  # nobody has seen it made


class Mapping(Entity):
    def __init__(self, size, handle, memory, made=None):
        super().__init__(made)
        self.size, self.handle, self.memory, self.access = size, handle, memory, {}
        self.at, self.room = 0, None  # its address; the reservation
        self.opened = {}  # device -> the line that gave it its rights


class Process:
    has_ended = False

    def __init__(self):
        self.handles, self.reservations, self.mappings, self.blocks = {}, Ranges(), Ranges(), {}
        self.descriptors = {}  # by number: memory
        self.peers = {}  # (device, peer) -> the line that has let the one use the other's memory
        self.order = self.reserved = 0  # of the last change; how many reservations there have been

    def block_at(self, address):
        """(where it begins, it) of the ordinary memory there: size, device, the call that gave it."""
        for base, block in self.blocks.items():
            if address is not None and base <= address < base + block[0]:
                return base, block
        return None, (0, -1, "")


class Since:
    """What has come, gone and changed since a moment. Machine.since() begins one, Machine.forget_since() ends it."""

    def __init__(self):
        self.came = {}  # things by number
        self.gone = {}  # by number: (pid, address or name, thing)
        self.was = {}  # memory by number: a Look
        self.access = {}  # of mappings by number: (mapping, {device: flags})
        self.blocks = set()  # (pid, address) of ordinary allocations that came or went
        self.peers = set()  # (pid, device, peer) that changed
        self.descriptors = set()  # (pid, fd) that were opened or closed

    def has_changed(self):
        """What pictures show."""
        return bool(self.came or self.gone or self.access or self.blocks) or any(
            look != look.memory.look() for look in self.was.values()
        )

    def status(self, thing):
        return "new" if thing.number in self.came else "gone" if thing.number in self.gone else "kept"
