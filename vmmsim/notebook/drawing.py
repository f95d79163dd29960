# SPDX-License-Identifier: MIT-0
"""One state of a notebook's machine as a picture and in words, with the names of the notebook's variables.

    Names(namespace)            what its variables hold: numbers that may be handles or addresses
    picture(machine, since, pids, processes, names, title, calls)   a Drawn

Where there is too much to be read, what has changed and what is largest is drawn, and the rest is counted.
"""

import ctypes
import dataclasses
import types

from vmmsim.notebook.scene import Scene, picture_file, words_of
from vmmsim.trace.entities import Mapping
from vmmsim.view.engine import NoEngine
from vmmsim.view.sizes import exact_size, size_text

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
        return [f"{name} = {whole} + {exact_size(number - base)}" for number, name in found]


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


def picture(machine, since, pids, processes, names, title, calls):
    def name(pid, reservation):
        return pid == pids[0] and names.get(reservation.base) or f"R{reservation.nth + 1}"

    handles = {(pids[0], number): variable for number, variable in names.items()}
    scene = Scene(devices_of(machine, since), processes, machine, since, pids, name, handles)
    try:
        drawn, words, notes = picture_file(scene, title, calls), words_of(scene, title), []
    except NoEngine as error:
        drawn, words, notes = "", f"{title}: {totals(machine)}", [f"There is no picture: {error}."]
    pointers = [each for room in rooms(machine, pids[0]) for each in names.inside(room.base, room.size)]
    if pointers:
        more = f" and {len(pointers) - 6} more" * (len(pointers) > 6)
        notes.append(f"Pointers: {', '.join(pointers[:6])}{more}.")
    notes += ordinary(machine, pids[0], names)
    return Drawn(drawn, words, notes)


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
