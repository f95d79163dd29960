# SPDX-License-Identifier: MIT-0
"""One state of a notebook's machine as a picture and in words, with the names of the notebook's variables.

    Names(namespace)            what its variables hold: numbers that may be handles or addresses
    picture(machine, since, pids, processes, names, title, calls)   a Drawn

Where there is too much to be read, what has changed and what is largest is drawn, and the rest is counted.
"""

import ctypes
import dataclasses
import types

from vmmsim.trace.model import Mapping
from vmmsim.view.arrows import picture_file
from vmmsim.view.contents import Badge, Part, Scene
from vmmsim.view.layout import TooWide
from vmmsim.view.prose import words_of
from vmmsim.view.sizes import plural, size_text

# Reservations of a process, parts of each, and memory that is not mapped: the first that there is room for is taken.
MOST = (6, 16, 6), (6, 8, 4), (4, 8, 2), (4, 4, 2), (2, 4, 2), (1, 2, 1)
MOST_MEMBERS = 64  # of a list or an object, that are looked at for names
LONGEST_NAME = 20


class Names(dict):
    """{number: the expression that holds it}: variables, and what is in lists, dictionaries and own objects."""

    def __init__(self, namespace, hidden=()):
        super().__init__()
        own = [(name, value) for name, value in namespace.items() if name[0] != "_" and name not in hidden]
        for name, value in own:
            self.note(name, value)
        for name, value in own:
            for ending, each in members(value):
                self.note(name + ending, each)

    def note(self, name, value):
        number = number_in(value)
        if number and len(name) <= LONGEST_NAME:
            self.setdefault(number, name)

    def inside(self, base, size):
        """The pointers into a range that is called by its own name, as `name = base + 2 MiB`."""
        whole = self.get(base)
        found = sorted((number, name) for number, name in self.items() if whole and base < number < base + size)
        return [f"{name} = {whole} + {size_text(number - base)}" for number, name in found]


def number_in(value):
    """The integer that a variable holds, as Python, ctypes or cuda.bindings have it; else None."""
    if isinstance(value, ctypes._SimpleCData):
        value = value.value
    if isinstance(value, bool):
        return None
    is_number = isinstance(value, int) or type(value).__module__.startswith("cuda.") and hasattr(value, "__int__")
    return int(value) if is_number else None


def members(value):
    if isinstance(value, (list, tuple)):
        return [(f"[{index}]", each) for index, each in enumerate(value[:MOST_MEMBERS])]
    if isinstance(value, dict):
        return [(f"[{key!r}]", each) for key, each in list(value.items())[:MOST_MEMBERS]]
    if type(value).__module__ == "__main__" and not isinstance(value, (type, types.FunctionType)):
        return [(f".{name}", each) for name, each in list(getattr(value, "__dict__", {}).items())[:MOST_MEMBERS]]
    return []


@dataclasses.dataclass
class Drawn:
    svg: str  # or "": there was no room for it
    words: str
    notes: list  # sentences that belong under it


class LeftOut(Part):
    """Mappings for which there is no room."""

    def label(self):
        return f"{self.count} more"

    def note(self):
        return "left out"


class Named(Scene):
    """A scene whose handles have the names of the variables that hold them. What is left out is counted."""

    def __init__(self, names, *contents):
        self.variables, self.left_out = names, []
        super().__init__(*contents)

    def badges(self, box, terse=False):
        badges = super().badges(box, terse)
        if box.count > 1 or not self.pids:
            return badges
        held = [handle.name for handle in box.memory.handles if handle.pid == self.pids[0]]
        name = next((self.variables[number] for number in held if number in self.variables), "")
        own = next((badge for badge in badges if name and badge.rank == 0 and badge.text.startswith("handle")), None)
        return [Badge(f"handle {name}", one.status, one.rank) if one is own else one for one in badges]

    def cut(self, most_regions, most_parts, most_idle):
        """Keeps what has changed, and of the rest the largest."""
        for rank, space in enumerate(self.spaces):
            kept = first_of(space, most_regions, lambda one: (one.status != "kept" or has_marks(one), one.size))
            gone = [region for region in space if region not in kept]
            if gone:
                mapped = sum(end - begin for region in gone for begin, end in region.mapped)
                whose = f" of {self.processes[rank]}" if self.processes[rank] else ""
                self.left_out.append(f"{plural(len(gone), 'reservation')}{whose} with {size_text(mapped)} mapped")
            self.spaces[rank] = kept
            for region in kept:
                region.parts = fewer(region.parts, most_parts)
        self.cut_boxes(most_idle)

    def cut_boxes(self, most):
        shown = {part.memory for space in self.spaces for region in space for part in region.parts}
        whole = [box for number, box in self.boxes.items() if number in shown or box.device < 0]
        shown |= {number for box in whole for number, _ in box.bound}
        idle = [box for number, box in self.boxes.items() if number not in shown and not box.memory.mapped]
        idle = first_of(idle, most, lambda box: (box.mark() != "kept", box.size))
        shown |= {box.memory.number for box in whole + idle}
        gone = [box for number, box in self.boxes.items() if number not in shown]
        if gone:
            count, size = sum(box.count for box in gone), sum(box.count * box.size for box in gone)
            self.left_out.append(f"{plural(count, 'allocation')} of {size_text(size)} together")
        self.boxes = {number: box for number, box in self.boxes.items() if number in shown}


def has_marks(region):
    return any(part.is_marked for part in region.parts)


def first_of(things, most, rank):
    """The first of them by rank, in the order in which they are."""
    if len(things) <= most:
        return things
    best = {id(thing) for thing in sorted(things, key=rank, reverse=True)[:most]}
    return [thing for thing in things if id(thing) in best]


def fewer(parts, most):
    """Those from the first that has changed on, as many as there is room for; the others are counted."""
    first = next((index for index, part in enumerate(parts) if part.is_marked), 0)
    first = max(0, min(first, len(parts) - most))
    ends = parts[:first], parts[first + most :]
    before, after = ([LeftOut(end[0].offset, size_of(end), count=len(end))] if end else [] for end in ends)
    return [*before, *parts[first : first + most], *after]


def size_of(parts):
    return sum(part.size for part in parts)


def picture(machine, since, pids, processes, names, title, calls):
    """Of the first two processes, which is what a picture has room for."""
    pids, processes, count = pids[:2], processes[:2], len(pids)

    def name(pid, reservation):
        return pid == pids[0] and names.get(reservation.base) or f"R{reservation.nth + 1}"

    drawn, scene = "", None
    for most in MOST:
        scene = Named(names, devices_of(machine, since), processes, machine, since, pids, name)
        scene.cut(*most)
        try:
            drawn = picture_file(scene, title, calls)
            break
        except TooWide:
            continue
    notes = [f"Left out: {', '.join(scene.left_out)}."] if scene.left_out and drawn else []
    if count > 2:
        notes.append(f"Left out: the memory of {plural(count - 2, 'other child')}.".replace("childs", "children"))
    if not drawn:
        notes.append("There is too much for a picture: " + totals(machine))
    pointers = [each for room in rooms(machine, pids[0]) for each in names.inside(room.base, room.size)]
    if pointers:
        more = f" and {len(pointers) - 6} more" * (len(pointers) > 6)
        notes.append(f"Pointers: {', '.join(pointers[:6])}{more}.")
    notes += ordinary(machine, pids[0], names)
    return Drawn(drawn, words_of(scene, title), notes)


def devices_of(machine, since):
    """The first GPUs, up to the last one that has memory or is given access, or had it before this cell."""
    memories = [*machine.memory, *(look.memory for look in since.was.values())]
    mappings = [mapping for process in machine.processes.values() for mapping in process.mappings.values()]
    mappings += [thing for _, _, thing in since.gone.values() if isinstance(thing, Mapping)]
    used = [device for mapping in mappings for device in mapping.access]
    used += [device for memory in memories for device in (memory.device, *memory.team)]
    return range(max([device for device in used if 0 <= device < 64], default=0) + 1)


def rooms(machine, pid):
    return [room for _, room in machine.processes[pid].reservations.in_order()]


def totals(machine):
    sizes = {}
    for memory in machine.memory:
        if memory.lives() and not memory.is_multicast:
            count, size = sizes.get(memory.device, (0, 0))
            sizes[memory.device] = count + 1, size + memory.size
    each = [f"{size_text(size)} of GPU {device} in {count}" for device, (count, size) in sorted(sizes.items())]
    return (", ".join(each) or "nothing is allocated") + "."


def ordinary(machine, pid, names):
    """Memory that is no reservation's, in one sentence."""
    blocks = machine.processes[pid].blocks
    told = [
        f"{size_text(size)} by {call}" + (f" ({names[at]})" if at in names else "")
        for at, (size, _, call) in blocks.items()
    ]
    more = f" and {len(told) - 4} more" * (len(told) > 4)
    return [f"Ordinary memory: {', '.join(told[:4])}{more}."] if told else []
