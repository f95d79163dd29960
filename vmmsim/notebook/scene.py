# SPDX-License-Identifier: MIT-0
"""Pictures of what there is in a machine, and has come and gone since a moment.

    scene = Scene(devices, processes, machine, since, pids, names)
    picture_file(scene, title, calls)    the text of a file
    words_of(scene, title)               the same in words

names(pid, reservation) is what a reservation is called, and processes are the names of the processes.
"""

import functools
import pathlib

from vmmsim.trace.entities import Handle, Mapping, Reservation
from vmmsim.view import records
from vmmsim.view.engine import pictures
from vmmsim.view.pictures import file_of

PROSE = pathlib.Path(__file__).with_name("prose.js")
BEFORE, NOW = 1, 2  # the moment, and now: the steps of these lives


def life(was_there, is_there):
    """When something came and went."""
    return {"born": BEFORE if was_there else NOW, "died": 0 if is_there else NOW}


class Scene:
    """The lives of all that was there before or is there now, as lifetimes.Lifetimes packs those of a recording."""

    def __init__(self, devices, processes, machine, since, pids, names, handle_names=None):
        self.machine, self.since, self.pids = machine, since, pids
        self.handle_names = handle_names or {}  # by (process, handle): what badges say
        self.words = {}  # of what is drawn, by title
        self.reservations, self.mappings, self.memory, self.handles, self.bindings = [], [], {}, [], []
        gone = [(pid, thing) for pid, _, thing in since.gone.values()]
        for rank, pid in enumerate(pids):
            gone_here = [thing for owner, thing in gone if owner == pid]
            self.add_process(rank, machine.processes[pid], gone_here, functools.partial(names, pid))
        for memory in [*machine.held.values(), *(look.memory for look in since.was.values())]:
            self.add_memory(memory)
        self.data = {
            "devices": list(devices),
            "names_of_processes": list(processes),
            "reservations": self.reservations,
            "mappings": self.mappings,
            "memory": [self.memory.get(nth, 0) for nth in range(1, max(self.memory, default=0) + 1)],
            "handles": self.handles,
            "bindings": self.bindings,
            "blocks": [],
            "peers": [],
        }

    def life(self, thing):
        status = self.since.status(thing)
        return life(status != "new", status != "gone")

    def add_process(self, rank, process, gone, name):
        def all_of(kind, there):
            return sorted(
                [*there, *(thing for thing in gone if isinstance(thing, kind))], key=lambda thing: thing.number
            )

        for handle in all_of(Handle, process.handles.values()):
            self.add_memory(handle.memory)
        mappings = all_of(Mapping, process.mappings.values())
        for reservation in all_of(Reservation, process.reservations.values()):
            place = len(self.reservations)
            names = {"process": rank, "name": name(reservation), "base": hex(reservation.base)}
            record = records.Reservation(**names, size=reservation.size, **self.life(reservation), is_guessed=0)
            self.reservations.append(record)
            for mapping in mappings:
                if mapping.room is reservation:
                    self.add_mapping(place, mapping)

    def add_mapping(self, place, mapping):
        self.add_memory(mapping.memory)
        lifetime, before = self.life(mapping), {}
        if lifetime["born"] == BEFORE:
            before = self.since.access.get(mapping.number, (mapping, mapping.access))[1]
        changed = {device: flags for device, flags in mapping.access.items() if flags != before.get(device, 0)}
        granted = [
            records.Grant(step, device, flags)
            for step, access in ((BEFORE, before), (NOW, changed))
            for device, flags in access.items()
        ]
        where = {"reservation": place, "offset": mapping.at - mapping.room.base, "size": mapping.size}
        self.mappings.append(records.Mapping(**where, memory=mapping.memory.nth, **lifetime, granted=granted))

    def add_memory(self, memory):
        if memory.nth in self.memory or not memory.nth:
            return
        now = memory.look()
        was = self.since.was.get(memory.number, now)
        members = enumerate(sorted(memory.team))
        rare = {
            "exports": [records.Export(NOW, kind, self.pids.index(pid)) for pid, kind in memory.exports[was.exports :]],
            "team": [records.Member(BEFORE if nth < was.team else NOW, device) for nth, device in members],
            "held_by_fd": [records.HeldByFd(BEFORE, int(memory.held_by_fd))],
            "source_unknown": int(memory.source_unknown),
        }
        steps = [BEFORE] * was.is_there + [NOW] * (was.is_there != now.is_there)
        kind = {"size": memory.size, "device": memory.device, "is_multicast": memory.is_multicast}
        self.memory[memory.nth] = records.Memory(**kind, events=[], steps=steps, rare=rare)
        for rank, pid in enumerate(self.pids):
            had, has = was.references.get(pid, 0), now.references.get(pid, 0)
            if had or has:
                own = (handle.name for handle in memory.handles if handle.pid == pid)
                name = next((self.handle_names.get((pid, handle)) for handle in own), None)
                counts = [records.Count(BEFORE, had), records.Count(NOW, has)]
                self.handles.append(records.Handle(rank, memory.nth, **life(had, has), counts=counts, name=name))
        for number, other in {**was.bound, **now.bound}.items():
            self.add_memory(other)
            lifetime = life(number in was.bound, number in now.bound)
            self.bindings.append(records.Binding(memory.nth, other.nth, **lifetime))


def picture_file(scene, title, calls=()):
    asked = {"from": BEFORE, "to": NOW, "title": title, "calls": list(calls)}
    (picture,) = pictures(scene.data, [asked], PROSE.read_text())
    scene.words[title] = picture["words"]
    return file_of(picture, title, picture["words"])


def words_of(scene, title):
    if title not in scene.words:
        picture_file(scene, title)
    return scene.words[title]
