# SPDX-License-Identifier: MIT-0
"""What was there when: the life of each reservation, mapping and memory of a recording, by steps.

    lives = Lives(name, rank)    name(pid, reservation) is what it is called; rank[pid] a process's place
    lives.note(step, line, since)
    lives.packed()               for view.js, which shows what a reader points at, and all reservations of a step

A picture says by which numbers it means something: `pin` of a reservation, a part of one, memory.
"""

from vmmsim.trace.model import Mapping, Reservation
from vmmsim.view.contents import RIGHTS

LONGEST = 5000  # events of one thing; more nobody reads


def ranges(numbers):
    """1-3,7 of 1, 2, 3, 7."""
    runs = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{one}-{other}" if other > one else str(one) for one, other in runs)


class Lives:
    def __init__(self, name, rank):
        self.name, self.rank = name, rank
        self.reservations, self.mappings, self.memory = [], [], {}  # as they are packed; memory by what it is called
        self.of_reservation, self.of_mapping = {}, {}  # places in these, by number

    def note(self, step, since):
        for thing in since.came.values():
            if isinstance(thing, Reservation):
                self.reserved(step, thing)
        for thing in since.came.values():
            if isinstance(thing, Mapping):
                self.mapped(step, thing)
        for mapping, was in since.access.values():
            if mapping.number in self.of_mapping:
                self.granted(step, mapping, was)
        for _, _, thing in since.gone.values():
            self.went(step, thing)
        for look in since.was.values():
            self.looked(step, look, look.memory.look())

    def event(self, memory, step, text):
        events = self.memory.setdefault(memory.nth, [0, -1, False, []])
        events[:3] = memory.size, memory.device, memory.is_multicast
        if len(events[3]) < LONGEST and [step, text] not in events[3][-4:]:
            events[3].append([step, text])

    def reserved(self, step, reservation):
        self.of_reservation[reservation.number] = len(self.reservations)
        name, base = self.name(reservation.pid, reservation), hex(reservation.base)
        self.reservations.append([self.rank[reservation.pid], name, base, reservation.size, step, 0])

    def mapped(self, step, mapping):
        room, memory = mapping.room, mapping.memory
        self.of_mapping[mapping.number] = len(self.mappings)
        offset = mapping.at - room.base
        self.mappings.append([self.of_reservation[room.number], offset, mapping.size, memory.nth, step, 0, []])
        self.event(memory, step, f"mapped in {self.name(room.pid, room)}")

    def granted(self, step, mapping, was):
        for device, flags in mapping.access.items():
            if flags != was.get(device, 0):
                text = f"GPU {device} {RIGHTS.get(flags, flags)}"
                self.mappings[self.of_mapping[mapping.number]][6].append([step, text])
                self.event(mapping.memory, step, f"{text} in {self.name(mapping.room.pid, mapping.room)}")

    def went(self, step, thing):
        if isinstance(thing, Reservation) and thing.number in self.of_reservation:
            self.reservations[self.of_reservation[thing.number]][5] = step
        elif isinstance(thing, Mapping) and thing.number in self.of_mapping:
            self.mappings[self.of_mapping[thing.number]][5] = step
            self.event(thing.memory, step, f"unmapped from {self.name(thing.room.pid, thing.room)}")

    def looked(self, step, before, now):
        memory = before.memory
        whose = {pid: f" of process {rank + 1}" if len(self.rank) > 1 else "" for pid, rank in self.rank.items()}
        if now.is_there and not before.is_there:
            made = memory.made and memory.made["call"].startswith(("cuMemCreate", "cuMulticastCreate"))
            self.event(memory, step, "created" if made else "first seen")
        for pid in {**before.references, **now.references}:
            had, has = before.references.get(pid, 0), now.references.get(pid, 0)
            if has < had:
                self.event(memory, step, f"handle{whose.get(pid, '')} released" + (f", {has} left" if has else ""))
            elif has > had and before.is_there:
                self.event(memory, step, f"handle{whose.get(pid, '')} " + ("retained" if had else "imported"))
        for _, kind in memory.exports[before.exports :]:
            self.event(memory, step, "exported" + ("" if kind == "fd" else " as 64 bytes"))
        for number in before.bound.keys() ^ now.bound.keys():
            is_new = number in now.bound
            other = (now.bound if is_new else before.bound)[number]
            for one, words in (memory, f"#{other.nth}"), (other, f"multicast object #{memory.nth}"):
                self.event(one, step, f"bound to {words}" if is_new else f"unbound from {words}")
        if before.is_there and not now.is_there:
            self.event(memory, step, "gone: nothing holds it any more")

    # --- What a picture means
    def pin_of_reservations(self, reservations, part=None):
        found = [self.of_reservation[each.number] for each in reservations if each.number in self.of_reservation]
        if not found:
            return ""
        return f"r{ranges(found)}" + (f":{part.offset}:{part.size}" if part else "")

    @staticmethod
    def pin_of_memory(numbers):
        return f"m{ranges(numbers)}"

    def packed(self):
        most = max(self.memory, default=0)
        memory = [self.memory.get(nth, 0) for nth in range(1, most + 1)]
        return {"reservations": self.reservations, "mappings": self.mappings, "memory": memory}
