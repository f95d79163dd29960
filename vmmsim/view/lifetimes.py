# SPDX-License-Identifier: MIT-0
"""What was there when: the life of each reservation, mapping, handle and memory of a recording, by steps.

lives = Lifetimes(name, rank)    name(pid, reservation) is what it is called; rank[pid] a process's place
lives.note(step, line, since, machine)
lives.left()                 what nobody gave back
lives.packed()               for the script, which draws what there is in a step: all as records.py has it
"""

import collections

from vmmsim.trace.entities import Mapping, Memory, Reservation
from vmmsim.view import records
from vmmsim.view.sizes import IS_MANAGED, MANAGED, OF_GRAPH, ORDINARY, OWN, VMM, kind_of_block
from vmmsim.view.words import RIGHTS

LONGEST = 5000  # events of one thing; more nobody reads
KINDS = "reservations", "mappings", "handles", "blocks", "descriptors", "bindings", "peers"


class Lifetimes:
    def __init__(self, name, rank):
        self.name, self.rank = name, rank
        self.memory = {}  # by what it is called
        self.all = {kind: [] for kind in KINDS}
        self.alive = {}  # places in these, by kind and by what tells it apart
        self.places = {}  # of reservations in these, by number
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
                pid, device, other = peer
                self.begin("peers", peer, records.Peer(self.rank[pid], device, other, step, 0))
        for pid, address in since.blocks:
            self.end("blocks", (pid, address), step)
            if block := machine.processes[pid].blocks.get(address):
                size, device, call = block
                block = records.Block(
                    self.rank[pid], size, device, step, 0, kind_of_block(call, step in machine.captured)
                )
                self.begin("blocks", (pid, address), block)
        for pid, fd in since.descriptors:
            self.end("descriptors", (pid, fd), step)
            if memory := machine.processes[pid].descriptors.get(fd):
                self.begin("descriptors", (pid, fd), records.Descriptor(self.rank[pid], memory.nth, fd, step, 0))

    def begin(self, kind, key, record):
        self.alive[kind, key] = len(self.all[kind])
        self.all[kind].append(record)

    def end(self, kind, key, step):
        if (kind, key) in self.alive:
            place = self.alive.pop((kind, key))
            self.all[kind][place] = self.all[kind][place]._replace(died=step)

    def named(self, things):
        """Reservations and memory by the numbers that they have for the script."""
        places = [self.places[thing.number] for thing in things if thing.number in self.places]
        return records.Named(places, [thing.nth for thing in things if isinstance(thing, Memory)])

    def record(self, memory):
        known = self.memory.get(memory.nth) or records.Memory(0, -1, False, [], [], {})
        seen = {"size": memory.size, "device": memory.device, "is_multicast": memory.is_multicast}
        self.memory[memory.nth] = known = known._replace(**seen)
        return known

    def event(self, memory, step, text):
        events, event = self.record(memory).events, records.Event(step, text)
        if len(events) < LONGEST and event not in events[-4:]:
            events.append(event)

    def reserved(self, step, reservation):
        pid, number, is_guessed = reservation.pid, reservation.number, int(reservation.is_guessed)
        names = self.rank[pid], self.name(pid, reservation), hex(reservation.base)
        self.places[number] = len(self.all["reservations"])
        self.begin("reservations", number, records.Reservation(*names, reservation.size, step, 0, is_guessed))

    def mapped(self, step, mapping):
        room, memory = mapping.room, mapping.memory
        place, offset = self.places[room.number], mapping.at - room.base
        record = records.Mapping(place, offset, mapping.size, memory.nth, step, 0, [])
        self.begin("mappings", mapping.number, record)
        self.event(memory, step, f"mapped in {self.name(room.pid, room)}")

    def granted(self, step, mapping, was):
        place = self.alive.get(("mappings", mapping.number))
        for device, flags in mapping.access.items() if place is not None else ():
            if flags != was.get(device, 0):
                self.all["mappings"][place].granted.append(records.Grant(step, device, flags))
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
                counts = [records.Count(step, has)] * (has > 1)
                handle = records.Handle(self.rank[pid], memory.nth, step, 0, counts, None)
                self.begin("handles", (pid, memory.number), handle)
            elif has and has != had:
                place = self.alive["handles", (pid, memory.number)]
                self.all["handles"][place].counts.append(records.Count(step, has))
            elif had and not has:
                self.end("handles", (pid, memory.number), step)
            if has < had:
                self.event(memory, step, f"handle{whose.get(pid, '')} released" + (f", {has} left" if has else ""))
            elif has > had and before.is_there:
                self.event(memory, step, f"handle{whose.get(pid, '')} " + ("retained" if had else "imported"))
        rare = self.record(memory).rare
        for pid, kind in memory.exports[before.exports :]:
            rare.setdefault("exports", []).append(records.Export(step, kind, self.rank[pid]))
            self.event(memory, step, "exported" + ("" if kind == "fd" else " as 64 bytes"))
        if before.held_by_fd != now.held_by_fd:
            rare.setdefault("held_by_fd", []).append(records.HeldByFd(step, int(now.held_by_fd)))
        for device in memory.team - {member.device for member in rare.get("team", ())}:
            rare.setdefault("team", []).append(records.Member(step, device))
        if memory.source_unknown:
            rare["source_unknown"] = 1
        if not (memory.made and memory.made["call"]):
            rare["is_unseen"] = 1
        for number in before.bound.keys() ^ now.bound.keys():
            is_new = number in now.bound
            other = (now.bound if is_new else before.bound)[number]
            if is_new:
                self.begin("bindings", (memory.number, number), records.Binding(memory.nth, other.nth, step, 0))
            else:
                self.end("bindings", (memory.number, number), step)
            for bound, words in (memory, f"#{other.nth}"), (other, f"multicast object #{memory.nth}"):
                self.event(bound, step, f"bound to {words}" if is_new else f"unbound from {words}")
        if now.held_by_fd and not before.held_by_fd:
            self.event(memory, step, "only a descriptor holds it")
        if before.is_there and not now.is_there:
            self.event(memory, step, "gone: nothing holds it any more")
        if before.is_there != now.is_there:
            self.memory[memory.nth].steps.append(step)

    # --- What nobody gave back
    def is_left(self, record):
        return not record.died or record.died in self.ends

    def left_of(self, is_multicast=False):
        for nth, memory in self.memory.items():
            if memory.is_multicast == is_multicast and memory.steps:
                if len(memory.steps) % 2 or memory.steps[-1] in self.ends:
                    yield nth, memory

    def left_memory(self):
        """Of each: (size, GPU, VMM, ORDINARY or MANAGED, the step that made it)."""
        for _, memory in self.left_of():
            yield memory.size, memory.device, VMM, memory.steps[0]
        for block in self.all["blocks"]:
            if self.is_left(block) and block.kind in (OWN, OF_GRAPH, IS_MANAGED):
                yield block.size, block.device, MANAGED if block.kind == IS_MANAGED else ORDINARY, block.born

    def left(self):
        """{(VMM, ORDINARY or MANAGED, GPU): bytes}, and {what else: how many}. GPU -1 is the host, or not known."""
        sizes, others = collections.Counter(), collections.Counter()
        for size, device, kind, _ in self.left_memory():
            sizes[kind, device] += size
        others["multicast object"] = len([*self.left_of(is_multicast=True)])
        for kind, noun in ("handles", "handle"), ("descriptors", "open descriptor"), ("reservations", "reservation"):
            others[noun] = sum(map(self.is_left, self.all[kind]))
        return +sizes, +others

    def leaked(self):
        """Bytes of what is left and mapped nowhere: nobody could use it any more."""
        uses = filter(self.is_left, [*self.all["mappings"], *self.all["bindings"]])
        used = {use.memory for use in uses}
        return sum(memory.size for nth, memory in self.left_of() if nth not in used)

    # --- For the script
    def packed(self):
        most = max(self.memory, default=0)
        return {**self.all, "memory": [self.memory.get(nth, 0) for nth in range(1, most + 1)]}
