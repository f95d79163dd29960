# SPDX-License-Identifier: MIT-0
"""The addresses of a process at some moment, the memory there and who may use it, as a few lines of text."""

import dataclasses
import re

from labs.judge.check import GIVEN_BACK, Followed, place_of
from vmmsim.trace import OF_MODULES
from vmmsim.view import size_text

MOST_LINES, MOST_COLUMNS = 5, 100
HERE = " <- here"


@dataclasses.dataclass
class Row:
    """A range of addresses; or, without an address, memory that has none here."""

    address: int
    size: int
    what: str
    rights: str
    first: int = 0  # the memory, by number, and the last of several in a row
    last: int = 0
    room: int = 0  # the reservation

    def goes_on_in(self, other):
        """Whether the next row is the same once more."""
        alike = (self.what, self.rights, self.room) == (other.what, other.rights, other.room)
        return alike and self.room and self.first and other.first == self.last + 1

    def line(self, is_here):
        where = f"{self.address:#x}" if self.address else "no address"
        number = f"#{self.first}" + (f"-{self.last}" if self.last > self.first else "") if self.first else ""
        text = f"{where:14} {size_text(self.size):>8}  {' '.join(filter(None, (self.what, number)))}; {self.rights}"
        most = MOST_COLUMNS - len(HERE)
        text = text if len(text) <= most else text[: most - 1] + "…"
        return text + HERE * is_here


def memory_map(wrong):
    """At most MOST_LINES lines: what there was when the call that is to blame came back; of a leak, in the end."""
    call, machine, pid = wrong.call, Followed(), 0
    end = call.index if call and call.traced and wrong.title != GIVEN_BACK else len(wrong.run.all)
    try:
        for each in wrong.run.all[: end + 1]:
            machine.line(each.traced)
            pid = each.pid
    except (AssertionError, KeyError, TypeError, ValueError, StopIteration, AttributeError):
        return []  # what cannot be followed has no picture
    pid = call.pid if call and call.traced else pid
    return drawn(merged(rows(machine, pid)), addresses_of(call))


def addresses_of(call):
    """Those that the call names, or the fault of which it tells."""
    named = [*call.arguments.values(), (call.fault or {}).get("address")] if call else []
    return [int(it, 16) for it in named if isinstance(it, str) and re.fullmatch(r"0x[0-9a-f]+", it)]


def drawn(all_rows, named):
    here = [any(row.address <= it < row.address + row.size for it in named if row.address) for row in all_rows]
    if len(all_rows) <= MOST_LINES:
        return [row.line(is_here) for row, is_here in zip(all_rows, here, strict=True)]
    first = here.index(True) if True in here else 0  # what the call names is among what is shown
    begin = max(0, min(first - 1, len(all_rows) - MOST_LINES + 1))
    shown = list(zip(all_rows, here, strict=True))[begin : begin + MOST_LINES - 1]
    return [row.line(is_here) for row, is_here in shown] + [f"and {len(all_rows) - len(shown)} more"]


def rows(machine, pid):
    """Reservations with their mappings, ordinary memory, and what is held without an address."""
    process, found = machine.processes[pid], []
    for base, room in process.reservations.in_order():
        at, end = base, base + room.size
        for address in process.mappings.overlapping(base, room.size):
            found += [reserved(at, address - at)] if address > at else []
            found.append(of_mapping(address, process.mappings[address], base))
            at = address + process.mappings[address].size
        found += [reserved(at, end - at)] if end > at else []
    for address, (size, device, name) in sorted(process.blocks.items()):
        if not name.startswith(OF_MODULES):
            found.append(Row(address, size, f"memory of {name}, {place_of(device)}", "its GPU may use it"))
    mapped = {mapping.memory.number for mapping in process.mappings.values()}
    for memory in machine.memory:
        if memory.lives() and memory.number not in mapped:
            found.append(Row(0, memory.size, what_of(memory), held_by(memory, pid), memory.nth, memory.nth))
    return found


def merged(all_rows):
    found = []
    for row in all_rows:
        if found and found[-1].goes_on_in(row):
            found[-1].size += row.size
            found[-1].last = row.last
        else:
            found.append(row)
    return found


def reserved(address, size):
    return Row(address, size, "reserved", "nothing is mapped")


def of_mapping(address, mapping, room):
    memory = mapping.memory
    return Row(address, mapping.size, what_of(memory), rights(mapping.access), memory.nth, memory.nth, room)


def what_of(memory):
    return "multicast object" if memory.is_multicast else f"memory of {place_of(memory.device)},"


def rights(access):
    """In words: GPU 0 reads and writes, GPUs 1-3 read."""
    words = []
    for flags, one, several in ((3, "reads and writes", "read and write"), (1, "reads", "read")):
        gpus = sorted(gpu for gpu, its in access.items() if its == flags)
        if len(gpus) > 2 and gpus == list(range(gpus[0], gpus[-1] + 1)):
            words.append(f"GPUs {gpus[0]}-{gpus[-1]} {several}")
        elif gpus:
            words.append(f"GPU{'s' * (len(gpus) > 1)} {', '.join(map(str, gpus))} {several if len(gpus) > 1 else one}")
    return ", ".join(words) or "nobody has access"


def held_by(memory, pid):
    """What keeps memory that this process has not mapped."""
    if memory.in_objects:
        return "a multicast object holds it"
    if any(handle.pid == pid and handle.references for handle in memory.handles):
        return "not mapped, a handle holds it"
    return "another process holds it"
