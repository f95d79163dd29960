# SPDX-License-Identifier: MIT-0
"""What was there when: the life of each reservation, mapping, handle and memory of a recording, by steps.

lives = Lifetimes(name, rank)    name(pid, reservation) is what it is called; rank[pid] a process's place
lives.note(step, line, since, machine)
lives.left()                 what nobody gave back
lives.packed()               for the script, which draws from it what there is in a step
"""

import collections

from vmmsim.trace.entities import Mapping, Memory, Reservation
from vmmsim.view.sizes import IS_MANAGED, MANAGED, ORDINARY, OWN, VMM, kind_of_block
from vmmsim.view.words import RIGHTS

LONGEST = 5000  # events of one thing; more nobody reads
# Where in what is packed of one the step stands in which it goes.
DIED = {"reservations": 5, "mappings": 5, "handles": 3, "blocks": 4, "descriptors": 4, "bindings": 3, "peers": 4}


class Lifetimes:
    def __init__(self, name, rank):
        self.name, self.rank = name, rank
        self.memory = {}  # as it is packed, by what it is called
        self.all = {kind: [] for kind in DIED}  # as they are packed
        self.alive = {}  # of these, by kind and by what tells it apart
        self.rooms = {}  # places of reservations in these, by number
        self.ends = set()  # steps in which a process exits, and the system takes back what it left; not if it vanishes

    def note(self, step, line, since, machine):
        if line["call"] == "exit":
            self.ends.add(step)
        for thing in since.came.values():
            if isinstance(thing, Reservation):
                self.reserved(step, thing)
        for thing in since.came.values():
            if isinstance(thing, Mapping):
                self.mapped(step, thing)
        for mapping, was in since.access.values():
            self.granted(step, mapping, was)
        for _, _, thing in since.gone.values():
            self.went(step, thing)
        for look in since.was.values():
            self.looked(step, look, look.memory.look())
        for peer in since.peers:
            self.end("peers", peer, step)
            if peer[1:] in machine.processes[peer[0]].peers:
                self.begin("peers", peer, [self.rank[peer[0]], *peer[1:], step, 0])
        for pid, address in since.blocks:
            self.end("blocks", (pid, address), step)
            if block := machine.processes[pid].blocks.get(address):
                size, device, call = block
                its = [self.rank[pid], size, device, step, 0, kind_of_block(call), call]
                self.begin("blocks", (pid, address), its)
        for pid, fd in since.descriptors:
            self.end("descriptors", (pid, fd), step)
            if memory := machine.processes[pid].descriptors.get(fd):
                self.begin("descriptors", (pid, fd), [self.rank[pid], memory.nth, fd, step, 0])

    def begin(self, kind, key, its):
        self.all[kind].append(its)
        self.alive[kind, key] = its

    def end(self, kind, key, step):
        if its := self.alive.pop((kind, key), None):
            its[DIED[kind]] = step

    def numbers(self, things):
        """Of reservations and memory: the numbers that they have for the script."""
        rooms = [self.rooms[one.number] for one in things if one.number in self.rooms]
        return [rooms, [one.nth for one in things if isinstance(one, Memory)]]

    def record(self, memory):
        """What is packed of it: size, GPU, kind, events, the steps in which it comes and goes, and what few have."""
        known = self.memory.setdefault(memory.nth, [0, -1, False, [], [], {}])
        known[:3] = memory.size, memory.device, memory.is_multicast
        return known

    def event(self, memory, step, text):
        events = self.record(memory)[3]
        if len(events) < LONGEST and [step, text] not in events[-4:]:
            events.append([step, text])

    def reserved(self, step, reservation):
        self.rooms[reservation.number] = len(self.all["reservations"])
        what = [self.name(reservation.pid, reservation), hex(reservation.base), reservation.size]
        its = [self.rank[reservation.pid], *what, step, 0, int(reservation.is_guessed)]
        self.begin("reservations", reservation.number, its)

    def mapped(self, step, mapping):
        room, memory = mapping.room, mapping.memory
        its = [self.rooms[room.number], mapping.at - room.base, mapping.size, memory.nth, step, 0, []]
        self.begin("mappings", mapping.number, its)
        self.event(memory, step, f"mapped in {self.name(room.pid, room)}")

    def granted(self, step, mapping, was):
        its = self.alive.get(("mappings", mapping.number))
        for device, flags in mapping.access.items() if its else ():
            if flags != was.get(device, 0):
                its[6].append([step, device, flags])
                text = f"GPU {device} {RIGHTS.get(flags, flags)}"
                self.event(mapping.memory, step, f"{text} in {self.name(mapping.room.pid, mapping.room)}")

    def went(self, step, thing):
        if isinstance(thing, Reservation):
            self.end("reservations", thing.number, step)
        elif isinstance(thing, Mapping) and ("mappings", thing.number) in self.alive:
            self.end("mappings", thing.number, step)
            self.event(thing.memory, step, f"unmapped from {self.name(thing.room.pid, thing.room)}")

    def looked(self, step, before, now):
        memory = before.memory
        whose = {pid: f" of process {rank + 1}" if len(self.rank) > 1 else "" for pid, rank in self.rank.items()}
        if now.is_there and not before.is_there:
            made = memory.made and memory.made["call"].startswith(("cuMemCreate", "cuMulticastCreate"))
            self.event(memory, step, "created" if made else "first seen")
        for pid in {**before.references, **now.references}:
            had, has = before.references.get(pid, 0), now.references.get(pid, 0)
            if has and not had:
                counts = [[step, has]] if has > 1 else []
                self.begin("handles", (pid, memory.number), [self.rank[pid], memory.nth, step, 0, counts])
            elif has and has != had:
                self.alive["handles", (pid, memory.number)][4].append([step, has])
            elif had and not has:
                self.end("handles", (pid, memory.number), step)
            if has < had:
                self.event(memory, step, f"handle{whose.get(pid, '')} released" + (f", {has} left" if has else ""))
            elif has > had and before.is_there:
                self.event(memory, step, f"handle{whose.get(pid, '')} " + ("retained" if had else "imported"))
        more = self.record(memory)[5]
        for pid, kind in memory.exports[before.exports :]:
            more.setdefault("exports", []).append([step, kind, self.rank[pid]])
            self.event(memory, step, "exported" + ("" if kind == "fd" else " as 64 bytes"))
        if before.held_by_fd != now.held_by_fd:
            more.setdefault("held_by_fd", []).append([step, int(now.held_by_fd)])
        for device in memory.team - {device for _, device in more.get("team", ())}:
            more.setdefault("team", []).append([step, device])
        if memory.source_unknown:
            more["source_unknown"] = 1
        if not (memory.made and memory.made["call"]):
            more["is_unseen"] = 1
        for number in before.bound.keys() ^ now.bound.keys():
            is_new = number in now.bound
            other = (now.bound if is_new else before.bound)[number]
            if is_new:
                self.begin("bindings", (memory.number, number), [memory.nth, other.nth, step, 0])
            else:
                self.end("bindings", (memory.number, number), step)
            for one, words in (memory, f"#{other.nth}"), (other, f"multicast object #{memory.nth}"):
                self.event(one, step, f"bound to {words}" if is_new else f"unbound from {words}")
        if now.held_by_fd and not before.held_by_fd:
            self.event(memory, step, "only a descriptor holds it")
        if before.is_there and not now.is_there:
            self.event(memory, step, "gone: nothing holds it any more")
        if before.is_there != now.is_there:  # the steps in which it comes and goes, in turn
            self.memory[memory.nth][4].append(step)

    # --- What nobody gave back
    def is_left(self, died):
        return not died or died in self.ends

    def has_left(self, packed, is_multicast=False):
        came_and_went = packed[4] or [-1, -1]
        return packed[2] == is_multicast and self.is_left(0 if len(came_and_went) % 2 else came_and_went[-1])

    def left_memory(self):
        """Of each: (size, GPU, VMM, ORDINARY or MANAGED, the step that made it)."""
        for each in self.memory.values():
            if self.has_left(each):
                yield each[0], each[1], VMM, each[4][0]
        for _, size, device, born, died, kind, _ in self.all["blocks"]:
            if self.is_left(died) and kind in (OWN, IS_MANAGED):
                yield size, device, MANAGED if kind == IS_MANAGED else ORDINARY, born

    def left(self):
        """{(VMM, ORDINARY or MANAGED, GPU): bytes}, and {what else: how many}. GPU -1 is the host, or not known."""
        sizes, others = collections.Counter(), collections.Counter()
        for size, device, kind, _ in self.left_memory():
            sizes[kind, device] += size
        others["multicast object"] = sum(self.has_left(each, True) for each in self.memory.values())
        for kind, noun in ("handles", "handle"), ("descriptors", "open descriptor"), ("reservations", "reservation"):
            others[noun] = sum(self.is_left(its[DIED[kind]]) for its in self.all[kind])
        return +sizes, +others

    def leaked(self):
        """Bytes of what is left and mapped nowhere: nobody could use it any more."""
        used = {nth for _, _, _, nth, _, died, _ in self.all["mappings"] if self.is_left(died)}
        used |= {nth for _, nth, _, died in self.all["bindings"] if self.is_left(died)}
        return sum(each[0] for nth, each in self.memory.items() if nth not in used and self.has_left(each))

    # --- For the script
    def packed(self):
        most = max(self.memory, default=0)
        return {**self.all, "memory": [self.memory.get(nth, 0) for nth in range(1, most + 1)]}
