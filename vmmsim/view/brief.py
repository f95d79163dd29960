# SPDX-License-Identifier: MIT-0
"""What a call changed, in a few words: brief(line, since, name) is "2 MiB → R190", of the list of calls."""

from vmmsim.trace.entities import Mapping, Reservation
from vmmsim.trace.recording import bare
from vmmsim.view.overview import is_launch
from vmmsim.view.sizes import exact_size, size_text
from vmmsim.view.words import RIGHTS, extents, is_refused, kernels_of

LONGEST = 60


def brief(line, since, name):
    if is_refused(line):
        return line["result"]
    if is_launch(line):
        return launched(line)
    parts = list(dict.fromkeys(changes(since, lambda thing: name(thing.pid, thing))))
    parts = parts or list(dict.fromkeys(ordinary(line)))
    return ", ".join(parts[:2]) + (f" and {len(parts) - 2} more" if len(parts) > 2 else "")


def place(mapping, name):
    offset = mapping.at - mapping.room.base
    return name(mapping.room) + (f" + {exact_size(offset)}" if offset else "")


def changes(since, name):
    came, gone = list(since.came.values()), [thing for _, _, thing in since.gone.values()]
    for arrow, things in ("→", came), ("←", gone):
        for thing in things:
            if isinstance(thing, Reservation):
                yield f"{size_text(thing.size)} {arrow} {name(thing)}"
            elif isinstance(thing, Mapping):
                yield f"{size_text(thing.size)} #{thing.memory.nth} {arrow} {place(thing, name)}"
    opened = {}
    for mapping, was in since.access.values():
        for device, flags in mapping.access.items():
            if flags != was.get(device, 0) and mapping.number not in since.gone:
                opened.setdefault((mapping.room, RIGHTS.get(flags, flags)), {})[device] = True
    for (room, right), devices in opened.items():
        yield f"{name(room)}: GPU {', '.join(map(str, devices))} {right}"
    if not any(isinstance(thing, Mapping) for thing in came + gone):
        yield from looks(since)


def looks(since):
    others = {number for look in since.was.values() for number in look.bound.keys() ^ look.memory.look().bound.keys()}
    for look in since.was.values():
        memory, now = look.memory, look.memory.look()
        size = f"{size_text(memory.size)} " if memory.size else ""
        bound = now.bound.keys() ^ look.bound.keys()
        for number in bound:
            other = {**now.bound, **look.bound}[number]
            yield f"#{other.nth} {'→' if number in now.bound else '←'} #{memory.nth}"
        if bound or memory.number in others:
            continue
        if now.is_there and not look.is_there:
            yield f"{size}→ #{memory.nth}"
        elif now != look:
            yield f"#{memory.nth}" + ("" if now.is_there else " goes")


def ordinary(line):
    for change in line["changes"]:
        if change.get("kind") == "allocate" and isinstance(change.get("size"), int):
            yield f"{size_text(change['size'])} ordinary"
        elif change.get("kind") == "free":
            yield f"ordinary memory at {change.get('address')}"


def launched(line):
    name = bare((kernels_of(line) or ["a graph" * ("Graph" in line["call"])])[0])[:LONGEST]
    grid, block = (f"({size})" if " × " in size else size for size in extents(line["arguments"]))
    return name + (f"<<<{grid}, {block}>>>".replace(" × ", ",") if grid else "")
