# SPDX-License-Identifier: MIT-0
"""What a picture of many things needs to know at once of all that there is: kept up to date with each call."""

import bisect
import collections
import dataclasses

from vmmsim.trace.model import Mapping, Reservation


@dataclasses.dataclass
class Run:
    """Neighbours that are alike."""

    at: int
    end: int
    key: tuple
    count: int
    first: Mapping
    last: Mapping


def alike(mapping):
    memory = mapping.memory
    return (
        mapping.size,
        memory.device,
        memory.is_multicast,
        memory.source_unknown,
        tuple(sorted(mapping.access.items())),
    )


def only(mapping, key):
    return Run(mapping.at, mapping.at + mapping.size, key, 1, mapping, mapping)


def follows(run, mapping, key):
    return run.end == mapping.at and run.key == key and run.last.memory is not mapping.memory


def joined(mappings, key_of):
    runs = []
    for mapping in mappings:
        key = key_of(mapping)
        if runs and follows(runs[-1], mapping, key):
            run = runs[-1]
            run.end, run.count, run.last = run.end + mapping.size, run.count + 1, mapping
        else:
            runs.append(only(mapping, key))
    return runs


def set_apart(runs, reservation, mapping, instead):
    """Puts these runs in the place of one mapping; its neighbours are other runs then."""
    index = bisect.bisect_right(runs, mapping.at, key=lambda run: run.at) - 1
    run, size = runs[index], mapping.size
    parts = []
    if run.at < mapping.at:
        last = reservation.mappings[mapping.at - size]
        parts.append(Run(run.at, mapping.at, run.key, (mapping.at - run.at) // size, run.first, last))
    parts += instead
    if mapping.at + size < run.end:
        first = reservation.mappings[mapping.at + size]
        parts.append(Run(first.at, run.end, run.key, (run.end - first.at) // size, first, run.last))
    runs[index : index + 1] = parts


def put_in(runs, mapping):
    """Adds a mapping to the runs."""
    index, key = bisect.bisect_right(runs, mapping.at, key=lambda run: run.at), alike(mapping)
    runs.insert(index, only(mapping, key))
    for at in index, index - 1:  # with what follows, and with what comes before
        if 0 <= at < len(runs) - 1 and follows(runs[at], runs[at + 1].first, runs[at + 1].key):
            one, other = runs[at : at + 2]
            runs[at : at + 2] = [Run(one.at, other.end, one.key, one.count + other.count, one.first, other.last)]


class Index:
    """What such a picture needs to know at once, of all that there is: kept up to date with each line."""

    def __init__(self):
        self.runs = {}  # of reservations, by number
        self.recent = collections.defaultdict(dict)  # by process: its reservations, those last that changed last
        self.mapped = collections.Counter()  # bytes, by process
        self.idle = collections.defaultdict(dict)  # by GPU: memory that is there and not mapped
        self.idle_bytes = collections.Counter()  # by GPU
        self.groups = collections.defaultdict(dict)  # by process: of reservations that are alike, by number
        self.group_of = {}  # what such have in common, by number
        self.there = {}  # memory by number: (its GPU, its size)
        self.totals = collections.defaultdict(lambda: [0, 0])  # by GPU: how many, bytes
        self.objects = {}  # by number
        self.ordinary = collections.defaultdict(lambda: [0, 0])  # by (GPU, call): how many, bytes
        self.blocks = {}  # by (process, address): (GPU, call), size

    def update(self, machine, since):
        reservations, changed = {}, collections.defaultdict(list)
        for thing in [*since.came.values(), *(thing for _, _, thing in since.gone.values())]:
            if isinstance(thing, Reservation):
                reservations[thing.number] = thing
            elif isinstance(thing, Mapping):
                changed[thing.room.number].append(thing)
                self.mapped[thing.room.pid] += thing.size if thing.number in since.came else -thing.size
        for mapping, _ in since.access.values():
            if mapping.number not in since.came and mapping.number not in since.gone:
                changed[mapping.room.number].append(mapping)
        for number, mappings in changed.items():
            reservations[number] = mappings[0].room
            self.update_runs(mappings, since)
        for number, reservation in reservations.items():
            recent = self.recent[reservation.pid]
            recent.pop(number, None)
            if machine.processes[reservation.pid].reservations.get(reservation.base) is reservation:
                recent[number] = reservation
            else:
                self.runs.pop(number, None)
            self.update_group(reservation, number in recent)
        for look in since.was.values():
            self.update_memory(look.memory)
        self.update_blocks(machine, since)

    def update_group(self, reservation, is_there):
        number, groups = reservation.number, self.groups[reservation.pid]
        if (likeness := self.group_of.pop(number, None)) is not None:
            del groups[likeness][number]
            if not groups[likeness]:
                del groups[likeness]
        if is_there:
            runs = self.runs_of(reservation)
            inside = [(run.at - reservation.base, run.end - reservation.base, run.count, run.key) for run in runs]
            likeness = (reservation.size, *inside) if len(inside) < 4 else number
            self.group_of[number] = likeness
            groups[likeness] = {**groups.pop(likeness, {}), number: reservation}  # the last that changed

    def ordinary_bytes(self, device):
        return sum(size for (its, _), (_, size) in self.ordinary.items() if its == device)

    def update_blocks(self, machine, since):
        for pid, address in since.blocks:
            which, size = self.blocks.pop((pid, address), (None, 0))
            if which:
                self.ordinary[which][0] -= 1
                self.ordinary[which][1] -= size
            block = machine.processes[pid].blocks.get(address)
            if block:
                which = block[1], block[2]
                self.blocks[pid, address] = which, block[0]
                self.ordinary[which][0] += 1
                self.ordinary[which][1] += block[0]

    def update_runs(self, mappings, since):
        mapping = mappings[0]
        reservation = mapping.room
        runs = self.runs.get(reservation.number)
        if len(mappings) > 1 or runs is None:
            self.runs.pop(reservation.number, None)
            return
        if mapping.number not in since.came:
            set_apart(runs, reservation, mapping, [])
        if mapping.number not in since.gone:
            put_in(runs, mapping)

    def runs_of(self, reservation):
        if reservation.number not in self.runs:
            mappings = (mapping for _, mapping in reservation.mappings.in_order())
            self.runs[reservation.number] = joined(mappings, alike)
        return self.runs[reservation.number]

    def update_memory(self, memory):
        device, size = self.there.pop(memory.number, (None, 0))
        if device is not None:
            self.totals[device][0] -= 1
            self.totals[device][1] -= size
            if self.idle[device].pop(memory.number, None):
                self.idle_bytes[device] -= size
        is_there = memory.look().is_there
        if memory.is_multicast:
            self.objects.pop(memory.number, None)
            if is_there:
                self.objects[memory.number] = memory
        elif is_there:
            self.there[memory.number] = memory.device, memory.size
            self.totals[memory.device][0] += 1
            self.totals[memory.device][1] += memory.size
            if not memory.mapped:
                self.idle[memory.device][memory.number] = memory
                self.idle_bytes[memory.device] += memory.size
