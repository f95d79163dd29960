# SPDX-License-Identifier: MIT-0
"""What a call changed, in a few words: brief(line, since, name, apart) is "2 MiB → R190", of the list of calls.

apart = told_apart(names) is, by the whole name of a kernel, what only that has of the arguments of its template.
"""

import itertools
import re

from vmmsim.processes import signal_name
from vmmsim.trace.entities import Mapping, Reservation
from vmmsim.trace.recording import bare
from vmmsim.view.overview import is_launch
from vmmsim.view.sizes import exact_size, size_text
from vmmsim.view.words import RIGHTS, extents, is_refused, kernels_of

LONGEST = 60


def brief(line, since, name, apart, is_captured=False):
    if is_refused(line):
        return line["result"]
    if is_launch(line):
        return "captured " * is_captured + launched(line, apart)
    if line["call"] == "vanished":
        number = line["arguments"].get("signal")
        return f"ended by {signal_name(number)}" if number else "ended without a word"
    if line["call"] == "wait":
        return f"{line['arguments'].get('call')} never ends"
    parts = list(dict.fromkeys(changes(since, lambda thing: name(thing.pid, thing))))
    parts = parts or list(dict.fromkeys(ordinary(line)))
    return ", ".join(parts[:2]) + (f" and {len(parts) - 2} more" if len(parts) > 2 else "")


def changes(since, name):
    came, gone = list(since.came.values()), [thing for _, _, thing in since.gone.values()]
    for arrow, things in ("→", came), ("←", gone):
        for thing in things:
            if isinstance(thing, Reservation):
                yield f"{size_text(thing.size)} {arrow} {name(thing)}"
            elif isinstance(thing, Mapping):
                place = f" + {exact_size(offset)}" if (offset := thing.at - thing.room.base) else ""
                yield f"{size_text(thing.size)} #{thing.memory.nth} {arrow} {name(thing.room)}{place}"
    opened, begins = {}, {}
    for mapping, was in since.access.values():
        for device, flags in mapping.access.items():
            if flags != was.get(device, 0) and mapping.number not in since.gone:
                key = mapping.room, RIGHTS.get(flags, flags)
                opened.setdefault(key, {})[device] = True
                begins[key] = min(mapping.at, begins.get(key, mapping.at))
    for (room, right), devices in opened.items():
        offset = begins[room, right] - room.base
        place = f" + {exact_size(offset)}" if offset else ""
        yield f"{name(room)}{place}: GPU {', '.join(map(str, devices))} {right}"
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
            yield f"{size_text(change['size'])}, not VMM"
        elif change.get("kind") == "free":
            yield f"{change.get('address')}, not VMM"


def launched(line, apart):
    names = kernels_of(line)
    if "Graph" in line["call"] and len(names) != 1:
        return f"graph of {len(names)} kernels" if names else "a graph"
    name = names[0] if names else ""
    name = "graph of " * ("Graph" in line["call"]) + bare(name)[:LONGEST] + apart.get(name, "")
    grid, block = (f"({size})" if " × " in size else size for size in extents(line["arguments"]))
    return name + (f"<<<{grid}, {block}>>>".replace(" × ", ",") if grid else "")


def told_apart(names):
    alike, found = {}, {}
    for name in names:
        alike.setdefault(bare(name), {})[name] = of_template(name)
    for arguments in alike.values():  # of the kernels that are called so, by the whole name
        columns = [
            column for column in itertools.zip_longest(*arguments.values(), fillvalue="") if len(set(column)) > 1
        ]
        columns = next(([column] for column in columns if len(set(column)) == len(arguments)), columns)  # one may do
        full = [", ".join(parts) for parts in zip(*columns, strict=True)]
        short = [text.partition("(")[0] for text in full]  # without what a function takes
        parts = zip(arguments, short if len(set(short)) == len(arguments) else full, strict=False)
        found |= {name: f"<{part[:LONGEST]}>" for name, part in parts}
    return found


def of_template(name):
    """The arguments of a kernel's template, without the names of spaces."""
    depth, found = 0, [""]
    for letter in re.sub(r"\w+::|\(anonymous namespace\)::", "", name).partition("<")[2]:
        depth += (letter in "<(") - (letter in ">)")
        if depth < 0:
            break
        found += [""] * (letter == "," and not depth)
        found[-1] += letter * (letter != "," or depth > 0)
    return [argument.strip() for argument in found]
