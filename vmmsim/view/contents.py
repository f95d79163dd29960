# SPDX-License-Identifier: MIT-0
"""What a picture shows: the reservations of each process, what is mapped in them, the memory, and what has changed.

    scene = Scene(devices, processes, machine, since, pids, names)

Of machine, a trace.model.Machine, all that there is now, and what has come and gone since a moment. names(pid,
reservation) is what a reservation is called, and processes are the names of the processes.
"""

import dataclasses
import itertools

from vmmsim.trace.model import Handle, Mapping, Reservation
from vmmsim.view.sizes import size_text

NEW, KEPT, GONE = "new", "kept", "gone"
RIGHTS = {0: "no access", 1: "read", 3: "read-write"}
EXPORTED = {"fd": "exported as an fd", "fabric": "exported as 64 bytes"}
NO_HANDLE = "no handle"


@dataclasses.dataclass(eq=False)
class Part:
    """Of a reservation: a mapping, neighbours that are alike, or (without memory) where nothing is mapped."""

    offset: int
    size: int
    status: str = KEPT
    memory: int | None = None  # its number
    access: dict = dataclasses.field(default_factory=dict)  # device: (flags, whether that has changed)
    count: int = 1
    first: Mapping | None = None  # the mappings, for what is said of them
    last: Mapping | None = None
    x = width = 0
    is_whole = True  # nothing of it is left out

    @property
    def end(self):
        return self.offset + self.size

    @property
    def middle(self):
        return self.x + self.width / 2

    @property
    def is_marked(self):
        return self.status != KEPT or any(changed for _, changed in self.access.values())

    def label(self):
        return size_text(self.size) if self.count == 1 else f"{self.count} × {size_text(self.size // self.count)}"

    def note(self):
        """What stands below the label, where nothing is mapped."""
        return "not mapped"


@dataclasses.dataclass(eq=False)
class Region:
    """A reservation."""

    name: str
    size: int
    status: str
    parts: list
    reservation: Reservation
    mapped: list = dataclasses.field(default_factory=list)  # (begin, end) of what is mapped, shown or not
    unmapped: list = dataclasses.field(default_factory=list)  # of what was
    caption: str = ""
    others: list = dataclasses.field(default_factory=list)  # reservations that are like this one, for which it stands
    x = width = 0

    def all(self):
        return [self.reservation, *self.others]

    def fill(self, parts):
        """With these parts, and what lies between them."""
        for mapped, is_gone in (self.mapped, False), (self.unmapped, True):
            mapped[:] = [(part.offset, part.end) for part in parts if part.size and (part.status == GONE) == is_gone]
        self.parts, at = [], 0
        for part in parts:
            if part.offset > at:
                self.parts.append(Part(at, part.offset - at))
            if part.size:
                self.parts.append(part)
            at = part.end
        if self.size > at:
            self.parts.append(Part(at, self.size - at))

    def label(self, short=False):
        size = f"{len(self.others) + 1} × {size_text(self.size)}" if self.others else size_text(self.size)
        return (self.name and self.name + ": ") + size + ("" if short else " reserved")


@dataclasses.dataclass(eq=False)
class Box:
    """An allocation, or neighbours that are alike, or a multicast object."""

    memory: object
    status: str
    handles: dict  # rank: (how many, status)
    exports: list  # made since: rank, and "fd" or "fabric"
    bound: list  # numbers of memory, and the status of the binding
    has_grown: bool  # the team
    count: int = 1
    last: object = None  # memory, of several
    members: list = dataclasses.field(default_factory=list)  # of several: their numbers
    run: tuple = ()  # or where they are mapped: reservations, and the part of each
    x = y = width = height = 0

    @property
    def size(self):
        return self.memory.size

    @property
    def device(self):
        return self.memory.device

    @property
    def team(self):
        return sorted(self.memory.team)

    def mark(self):
        return NEW if self.status == KEPT and self.has_grown else self.status

    def label(self):
        if not self.size:
            return "size not known"
        return size_text(self.size) if self.count == 1 else f"{self.count} × {size_text(self.size)}"

    def is_like(self, other):
        """So that as neighbours they can be one."""

        def what(box):
            return box.size, box.device, box.status, box.handles, box.exports, bool(box.memory.mapped), box.team

        return what(self) == what(other)


@dataclasses.dataclass
class Badge:
    """On a box: what holds the memory, or was done with it; of the process of this rank, or of none."""

    text: str
    status: str = KEPT
    rank: int | None = None


def change(before, now):
    return KEPT if before and now else NEW if now else GONE


def by_number(things):
    return sorted(things, key=lambda thing: thing.number)


class Contents:
    """What pictures with few things and with many have in common."""

    def __init__(self, devices, processes, machine, since, pids, names):
        self.devices, self.processes = devices, processes
        self.machine, self.since, self.pids, self.names = machine, since, pids, names
        self.boxes = {}  # by the number of the memory

    def region(self, pid, reservation):
        name = self.names(pid, reservation)
        return Region(name, reservation.size, self.since.status(reservation), [], reservation)

    def part(self, offset, mapping):
        state = self.since.status(mapping)
        was = {} if state == NEW else self.since.access.get(mapping.number, (mapping, mapping.access))[1]
        access = {
            device: (mapping.access.get(device, 0), mapping.access.get(device, 0) != was.get(device, 0))
            for device in self.devices
        }
        return Part(offset, mapping.size, state, mapping.memory.number, access, 1, mapping, mapping)

    def add_box(self, memory):
        if memory.number in self.boxes:
            return
        new = memory.look()
        old = self.since.was.get(memory.number, new)
        handles = {}
        for rank, pid in enumerate(self.pids):
            counts = old.references.get(pid, 0), new.references.get(pid, 0)
            if any(counts):
                handles[rank] = counts[1] or counts[0], change(*counts)
        bound = {**old.bound, **new.bound}
        self.boxes[memory.number] = Box(
            memory,
            change(old.is_there, new.is_there),
            handles,
            [(self.pids.index(pid), kind) for pid, kind in memory.exports[old.exports :]],
            [(number, change(number in old.bound, number in new.bound)) for number in sorted(bound)],
            old.team != new.team,
        )
        for number in sorted(bound):
            self.add_box(bound[number])

    def badges(self, box, terse=False):
        """In the order in which they stand. That there is no handle, only where there is room for it."""
        badges = []
        for rank, (count, state) in sorted(box.handles.items()):
            owner = f" of {self.processes[rank]}" if self.processes[rank] else ""
            name = ("handle" if count == 1 else f"{count} handles") if box.count == 1 else "handles"
            badges.append(Badge(name + owner, state, rank))
        if len(badges) > 3:
            changed = [badge for badge in badges if badge.status != KEPT]
            badges = [Badge(f"handles of {len(badges)} processes"), *changed[:2]]
        badges += [Badge(EXPORTED[kind], NEW, rank) for rank, kind in box.exports]
        if box.memory.held_by_fd:
            badges.append(Badge("held by an open fd"))
        elif not box.handles and box.memory.mapped and box.status != GONE and not terse:
            badges.append(Badge(NO_HANDLE))
        return badges


class Scene(Contents):
    """All that there is."""

    def __init__(self, *contents):
        super().__init__(*contents)
        self.spaces = [self.space(pid) for pid in self.pids]  # of each process: its reservations
        held = {**self.machine.held, **{n: look.memory for n, look in self.since.was.items() if look.held_by_fd}}
        for _, memory in sorted(held.items()):
            self.add_box(memory)
        for region in itertools.chain(*self.spaces):
            region.fill(self.joined(region.parts))

    def space(self, pid):
        process = self.machine.processes[pid]
        gone = [(at, thing) for its_pid, at, thing in self.since.gone.values() if its_pid == pid]
        handles, reservations, mappings = (
            [(at, thing) for at, thing in gone if isinstance(thing, kind)] for kind in (Handle, Reservation, Mapping)
        )
        for handle in by_number([*process.handles.values(), *(handle for _, handle in handles)]):
            self.add_box(handle.memory)
        regions = []
        for reservation in by_number([*process.reservations.values(), *(thing for _, thing in reservations)]):
            region = self.region(pid, reservation)
            its_gone = [item for item in mappings if item[1].room is reservation]
            inside = [*reservation.mappings.items(), *its_gone]
            for at, mapping in sorted(inside, key=lambda item: (item[0], item[1].number)):
                self.add_box(mapping.memory)
                region.parts.append(self.part(at - reservation.base, mapping))
            regions.append(region)
        return regions

    def joined(self, parts):
        """Three or more neighbours that are alike, each with memory of its own, become one."""
        runs = []
        for part in parts:
            if runs and self.are_alike(runs[-1][-1], part):
                runs[-1].append(part)
            else:
                runs.append([part])
        result = []
        for run in runs:
            result += [self.one_of(run)] if len(run) > 2 else run
        return result

    def one_of(self, run):
        first, last = run[0], run[-1]
        for part in run[1:]:
            if part is last:
                self.boxes[first.memory].last = self.boxes[part.memory].memory
            del self.boxes[part.memory]
        self.boxes[first.memory].count = len(run)
        self.boxes[first.memory].members = [part.first.memory.nth for part in run]
        return dataclasses.replace(first, size=sum(part.size for part in run), count=len(run), last=last.last)

    def are_alike(self, one, other):
        box, next_box = self.boxes[one.memory], self.boxes[other.memory]
        return (
            one.memory != other.memory
            and one.end == other.offset
            and (one.size, one.status, one.access) == (other.size, other.status, other.access)
            and box.is_like(next_box)
            and not next_box.team
        )
