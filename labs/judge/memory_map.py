# SPDX-License-Identifier: MIT-0
"""The addresses of a process at some moment, the memory there and who may use it, as a few lines of text."""

import contextlib
import dataclasses
import re

from labs.judge.check import GIVEN_BACK, CheckFailed, place_of
from labs.judge.program import CannotJudge
from vmmsim.trace import OF_MODULES, number
from vmmsim.view import size_text

MOST_LINES, MOST_COLUMNS = 5, 100
HERE = " <- here"


@dataclasses.dataclass
class Row:
    """A range of addresses; or, at address 0, memory that has none here."""

    address: int
    size: int
    what: str
    rights: str
    name: str = ""  # the program's, of the addresses

    def line(self, is_here):
        where = f"{self.address:#x}" if self.address else "no address"
        text = f"{where:14} {size_text(self.size):>8}  {self.name}{self.what}; {self.rights}"
        most = MOST_COLUMNS - len(HERE)
        return (text if len(text) <= most else text[: most - 1] + "…") + HERE * is_here


def memory_map(wrong):
    """At most MOST_LINES lines: what there was when the call that is to blame came back; of a leak, in the end."""
    call, machine, names = wrong.call if wrong.call and wrong.call.traced else None, None, {}
    with contextlib.suppress(CheckFailed, CannotJudge):  # what cannot be followed is shown until then
        for each, machine in wrong.run.replay():  # noqa: B007
            names |= {(each.pid, base): name for base, name in named(each)}
            if each is call and wrong.title != GIVEN_BACK:
                break
    if not machine:
        return []
    pid = (call or each).pid
    its = rows(machine, pid)
    for row in its:
        base, _ = machine.processes[pid].reservations.at(row.address)
        name = names.get((pid, base or row.address))
        more = f" + {size_text(row.address - base)}" if base and row.address > base else ""
        row.name = f"{name}{more}: " if name else ""
    return drawn(its, addresses_of(call))


def named(call):
    """(the address, the program's name of it) of what a call reserves or allocates: its line tells where that goes."""
    line = call.run.program.line(call.line, call.in_part) if call.line else ""
    if found := re.search(rf"\b{re.escape(call.name)}\([^&,;]*&?\b([A-Za-z_][\w.\[\]]*)\)?,", line):
        for change in call.changes:
            if change["kind"] in ("reserve", "allocate"):
                yield number(change["address"]), found[1]


def addresses_of(call):
    """Those that the call names, or the fault of which it tells."""
    named = [*call.arguments.values(), (call.fault or {}).get("address")] if call else []
    return [number(it) for it in named if isinstance(it, str) and it.startswith("0x")]


def drawn(all_rows, named):
    here = [any(row.address <= it < row.address + row.size for it in named if row.address) for row in all_rows]
    lines = [row.line(is_here) for row, is_here in zip(all_rows, here, strict=True)]
    if len(lines) <= MOST_LINES:
        return lines
    first = here.index(True) if True in here else 0  # what the call names is among what is shown
    begin = max(0, min(first - 1, len(lines) - MOST_LINES + 1))
    return [*lines[begin : begin + MOST_LINES - 1], f"and {len(lines) - MOST_LINES + 1} more"]


def rows(machine, pid):
    """Reservations with their mappings, ordinary memory, and what is held without an address."""
    process, found = machine.processes[pid], []
    for base, room in process.reservations.in_order():
        at, end = base, base + room.size
        for address in process.mappings.overlapping(base, room.size):
            mapping = process.mappings[address]
            found += reserved(at, address)
            found.append(of_memory(address, mapping.size, mapping.memory, rights(mapping.access)))
            at = address + mapping.size
        found += reserved(at, end)
    for address, (size, device, name) in sorted(process.blocks.items()):
        if not name.startswith(OF_MODULES):
            found.append(Row(address, size, f"memory of {name}, {place_of(device)}", "its GPU may use it"))
    mapped = {mapping.memory.number for mapping in process.mappings.values()}
    for memory in machine.memory:
        if memory.lives() and memory.number not in mapped:
            found.append(of_memory(0, memory.size, memory, held_by(memory, pid)))
    return found


def reserved(begin, end):
    return [Row(begin, end - begin, "reserved", "nothing is mapped")] if end > begin else []


def of_memory(address, size, memory, words):
    what = "multicast object" if memory.is_multicast else f"memory of {place_of(memory.device)},"
    return Row(address, size, f"{what} #{memory.nth}", words)


def rights(access):
    """In words: GPU 0 reads and writes, GPUs 1, 2, 3 read."""
    words = []
    for flags, one, several in ((3, "reads and writes", "read and write"), (1, "reads", "read")):
        gpus = [str(gpu) for gpu, its in sorted(access.items()) if its == flags]
        if gpus:
            words.append(f"GPUs {', '.join(gpus)} {several}" if gpus[1:] else f"GPU {gpus[0]} {one}")
    return ", ".join(words) or "nobody has access"


def held_by(memory, pid):
    """What keeps memory that this process has not mapped."""
    if memory.in_objects:
        return "a multicast object holds it"
    if any(handle.pid == pid and handle.references for handle in memory.handles):
        return "not mapped, a handle holds it"
    return "another process holds it"
