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
from vmmsim.view.engine import pictures
from vmmsim.view.pictures import file_of

PROSE = pathlib.Path(__file__).with_name("prose.js")
BEFORE, NOW = 1, 2  # the moment, and now: the steps of these lives


def life(was, now):
    """When it came and went."""
    return [BEFORE if was else NOW, 0 if now else NOW]


class Scene:
    """The lives of all that was there before or is there now, as lifetimes.Lifetimes packs those of a recording."""

    def __init__(self, devices, processes, machine, since, pids, names, handle_names=None):
        self.machine, self.since, self.pids = machine, since, pids
        self.handle_names = handle_names or {}  # by (process, handle): what badges say
        self.words = {}  # of what is drawn, by title
        self.reservations, self.mappings, self.memory, self.handles, self.bindings = [], [], {}, [], []
        gone = [(pid, thing) for pid, _, thing in since.gone.values()]
        for rank, pid in enumerate(pids):
            its_gone = [thing for its_pid, thing in gone if its_pid == pid]
            self.add_process(rank, machine.processes[pid], its_gone, functools.partial(names, pid))
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
            return sorted([*there, *(thing for thing in gone if isinstance(thing, kind))], key=lambda one: one.number)

        for handle in all_of(Handle, process.handles.values()):
            self.add_memory(handle.memory)
        mappings = all_of(Mapping, process.mappings.values())
        for reservation in all_of(Reservation, process.reservations.values()):
            place = len(self.reservations)
            what = [rank, name(reservation), hex(reservation.base), reservation.size]
            self.reservations.append([*what, *self.life(reservation), 0])
            for mapping in mappings:
                if mapping.room is reservation:
                    self.add_mapping(place, mapping)

    def add_mapping(self, place, mapping):
        self.add_memory(mapping.memory)
        number, (came, went) = mapping.number, self.life(mapping)
        was = {} if came == NOW else self.since.access.get(number, (mapping, mapping.access))[1]
        granted = [[BEFORE, device, flags] for device, flags in was.items()]
        granted += [[NOW, device, flags] for device, flags in mapping.access.items() if flags != was.get(device, 0)]
        offset = mapping.at - mapping.room.base
        self.mappings.append([place, offset, mapping.size, mapping.memory.nth, came, went, granted])

    def add_memory(self, memory):
        if memory.nth in self.memory or not memory.nth:
            return
        now = memory.look()
        was = self.since.was.get(memory.number, now)
        more = {
            "exports": [[NOW, kind, self.pids.index(pid)] for pid, kind in memory.exports[was.exports :]],
            "team": [[BEFORE if nth < was.team else NOW, device] for nth, device in enumerate(sorted(memory.team))],
            "held_by_fd": [[BEFORE, int(memory.held_by_fd)]],
            "source_unknown": int(memory.source_unknown),
        }
        steps = [BEFORE] * was.is_there + [NOW] * (was.is_there != now.is_there)
        self.memory[memory.nth] = [memory.size, memory.device, memory.is_multicast, [], steps, more]
        for rank, pid in enumerate(self.pids):
            had, has = was.references.get(pid, 0), now.references.get(pid, 0)
            if had or has:
                name = next((self.handle_names.get((pid, one.name)) for one in memory.handles if one.pid == pid), None)
                counts = [[BEFORE, had], [NOW, has]]
                self.handles.append([rank, memory.nth, *life(had, has), counts, name])
        for number, other in {**was.bound, **now.bound}.items():
            self.add_memory(other)
            self.bindings.append([memory.nth, other.nth, *life(number in was.bound, number in now.bound)])


def picture_file(scene, title, calls=()):
    asked = {"from": BEFORE, "to": NOW, "title": title, "calls": list(calls)}
    it = pictures(scene.data, [asked], PROSE.read_text())[0]
    scene.words[title] = it["words"]
    return file_of(it, title, it["words"])


def words_of(scene, title):
    if title not in scene.words:
        picture_file(scene, title)
    return scene.words[title]
