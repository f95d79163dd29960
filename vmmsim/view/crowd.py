# SPDX-License-Identifier: MIT-0
"""What a picture shows where there is much: many reservations, allocations, GPUs or processes.

Neighbours that are alike are one. Of what is too much for a picture, what changed last is shown, and the rest is
counted.
"""

import bisect
import collections
import dataclasses

from vmmsim.trace.model import Mapping, Reservation
from vmmsim.view.contents import GONE, KEPT, Contents, Part
from vmmsim.view.index import alike, joined, only, set_apart
from vmmsim.view.layout import GUTTER, INSET, MARGIN, WIDTH, Measures, least_widths
from vmmsim.view.sizes import plural, size_text

BOXES = 16  # of a GPU, that are looked at
# So many reservations of a process and boxes of a GPU are shown: fewer, where that would be too high.
LEVELS = (12, 12), (8, 8), (6, 6), (6, 4), (4, 3), (3, 2), (2, 2)
IN_FULL = 4  # processes
MEASURES = Measures(part=36, name=24, label=20, gap=(20, 35), tag=35)
WIDEST = WIDTH - GUTTER - MARGIN


@dataclasses.dataclass(eq=False)
class Rest(Part):
    """What of a reservation is left out."""

    is_whole = False

    def label(self):
        return f"… {self.count} more"

    def note(self):
        return size_text(self.size)


@dataclasses.dataclass
class Section:
    """A process: its name, the reservations that are shown, and what there is more."""

    name: str
    regions: list
    more: str


class Crowd(Contents):
    """index: an Index of the machine; active: the process whose turn it is; most: reservations of a process, boxes of a
    GPU; fault: (process, address), or None."""

    def __init__(self, *contents, index, active, most=LEVELS[0], fault=None):
        super().__init__(*contents)
        self.index = index
        self.most_regions, self.most_boxes = most
        self.find_marked()
        if fault:
            pid, address = fault
            _, reservation = self.machine.processes[pid].reservations.at(address)
            if reservation:
                self.touched[pid][reservation.number] = reservation
        self.sections = []
        self.others = []  # processes, in words
        self.add_processes(self.in_full(active))
        for look in self.since.was.values():
            if look.is_there or look.memory.look().is_there:
                self.add_box(look.memory)
        for memory in list(index.objects.values())[:4]:
            self.add_box(memory)
        for device in self.devices:
            for memory in list(index.idle[device].values())[-4 * BOXES :]:
                self.add_box(memory)

    def find_marked(self):
        since = self.since
        self.touched = collections.defaultdict(dict)  # by process: reservations in which something is to be marked
        self.marked = collections.defaultdict(dict)  # by reservation: mappings
        self.gone = collections.defaultdict(list)  # by reservation
        gone = [thing for _, _, thing in since.gone.values()]
        for thing in [*since.came.values(), *gone]:
            if isinstance(thing, Reservation):
                self.touched[thing.pid][thing.number] = thing
        mappings = [thing for thing in since.came.values() if isinstance(thing, Mapping)]
        mappings += [mapping for mapping, _ in since.access.values() if mapping.number not in since.gone]
        for look in since.was.values():
            mappings += list(look.memory.mapped.values())[:BOXES]
        for mapping in mappings:
            self.touched[mapping.room.pid][mapping.room.number] = mapping.room
            self.marked[mapping.room.number][mapping.number] = mapping
        for thing in gone:
            if isinstance(thing, Mapping):
                self.touched[thing.room.pid][thing.room.number] = thing.room
                self.gone[thing.room.number].append(thing)

    def in_full(self, active):
        """The process whose turn it is, and those that share memory with it; all, if they are few."""
        if len(self.pids) <= IN_FULL:
            return set(self.pids)
        full = [active] if active in self.pids else self.pids[:1]
        for pid in self.pids:
            handles = self.machine.processes[pid].handles.values()
            if pid not in full and any(other.pid in full for handle in handles for other in handle.memory.handles):
                full.append(pid)
        return set(full[:IN_FULL])

    def add_processes(self, full):
        nothing = []
        for name, pid in zip(self.processes, self.pids, strict=True):
            count = len(self.machine.processes[pid].reservations)
            if pid in full:
                self.sections.append(self.section(name, pid, self.most_regions // min(2, len(full))))
            elif count:
                mapped = size_text(self.index.mapped[pid])
                self.others.append(f"{name}: {plural(count, 'reservation')}, {mapped} mapped")
            else:
                nothing.append(name.removeprefix("process "))
        if nothing:
            what = "process" if len(nothing) == 1 else "processes"
            self.others.append(f"{what} {', '.join(nothing)}: nothing reserved")

    def section(self, name, pid, most):
        shown, reservations = self.chosen(pid, most), self.machine.processes[pid].reservations
        hidden = len(reservations) - sum(reservations.get(one.base) is one for group in shown for one in group)
        more = f"… and {hidden} more reservation{'s' if hidden > 1 else ''}" if hidden else ""
        if not shown and not hidden:
            more = "nothing reserved"
        return Section(name, [self.filled_region(pid, *group) for group in shown], more)

    def chosen(self, pid, most):
        """The reservations that are shown, in groups of those that are alike: those of which something changes, each by
        itself, and the largest groups; of equal ones those that changed last."""
        touched = dict(list(self.touched[pid].items())[-most:])
        groups = [[reservation] for reservation in touched.values()]
        for members in sorted(reversed(self.index.groups[pid].values()), key=len, reverse=True):
            if len(groups) >= most:
                break
            if others := [reservation for number, reservation in members.items() if number not in touched]:
                groups.append(sorted(others, key=lambda one: one.number))
        return sorted(groups, key=lambda group: group[0].number)

    def filled_region(self, pid, reservation, *others):
        region = self.region(pid, reservation)
        region.others = list(others)
        last = others[-1] if others else reservation
        lasts = self.runs_of(last)
        parts = [
            self.part_of(reservation, run, lasts[i].last if others else run.last, others)
            for i, run in enumerate(self.runs_of(reservation))
        ]
        if others:
            region.name = f"{region.name} … {self.names(pid, last)}"
        region.fill(parts)
        whole = region.parts
        for most in range(6, 0, -1):  # with less in it, if it is wider than the picture
            if sum(least_widths(region, MEASURES)) + 2 * INSET <= WIDEST:
                break
            region.parts = self.some_of(whole, most)
        return region

    def runs_of(self, reservation):
        """With what is to be marked set apart."""
        marked, gone = self.marked[reservation.number], self.gone[reservation.number]
        if len(marked) + len(gone) > 4:
            mappings = [*reservation.mappings.values(), *gone]
            return joined(sorted(mappings, key=lambda mapping: (mapping.at, mapping.number)), self.likeness)
        runs = list(self.index.runs_of(reservation))
        for mapping in marked.values():
            set_apart(runs, reservation, mapping, [only(mapping, None)])
        for mapping in gone:
            index = bisect.bisect_left(runs, mapping.at, key=lambda run: run.at)
            runs.insert(index, only(mapping, None))
        return runs

    def likeness(self, mapping):
        """Like others, and marked like others."""
        number, since = mapping.number, self.since
        if number in since.came or number in since.gone or number in since.access:
            mark = since.status(mapping), str(since.access.get(number, ("", ""))[1])
        else:
            mark = mapping.memory.number if mapping.memory.number in since.was else None
        return *alike(mapping), mark

    def part_of(self, reservation, run, last, others):
        """last: the mapping of the last of the reservations that are alike."""
        alike_ones, times = [reservation, *others], 1 + len(others)
        memory = run.first.memory
        self.add_box(memory)
        box = self.boxes[memory.number]
        part = self.part(run.at - reservation.base, run.first)
        part.size, part.count, part.last = run.end - run.at, run.count, last
        if run.count * times > box.count:
            box.count, box.last, box.run = run.count * times, last.memory, (alike_ones, part)
        return part

    @staticmethod
    def some_of(parts, most):
        """What is marked stays, and what comes first."""
        marked = [part for part in parts if part.memory and part.is_marked]
        kept = {id(part) for part in marked[: max(1, most // 2)]}
        for part in parts:
            if len(kept) < most:
                kept.add(id(part))
        result = []
        for part in parts:
            mappings = part.count if part.memory else 0
            if id(part) in kept:
                result.append(part)
            elif result and isinstance(result[-1], Rest):
                result[-1].size += part.size
                result[-1].count += mappings
            else:
                result.append(Rest(part.offset, part.size, count=mappings))
        return result

    def boxes_of(self, device):
        """Of a GPU, or with -1 of nobody knows which: as many as are shown, in order."""
        boxes = [box for box in self.boxes.values() if box.device == device and not box.memory.is_multicast]
        boxes.sort(key=lambda box: (box.status == KEPT, box.memory.nth))
        boxes = self.joined(boxes[: 6 * BOXES])[: self.most_boxes]
        return sorted(boxes, key=lambda box: box.memory.nth)

    @staticmethod
    def joined(boxes):
        """Allocations that are alike, and mapped nowhere, are one."""
        result, like = [], {}
        for box in boxes:
            what = box.size, box.memory.held_by_fd, box.memory.source_unknown, *sorted(box.handles.items())
            is_alone = box.exports or box.status != KEPT or box.memory.mapped
            if is_alone:
                result.append(box)
            elif what in like:
                first = like[what]
                first.members = [*(first.members or [first.memory.nth]), box.memory.nth]
                first.count, first.last = len(first.members), box.memory
            else:
                like[what] = box
                result.append(box)
        return result

    def hidden_objects(self):
        """How many multicast objects are not among the boxes."""
        shown = [box for box in self.boxes.values() if box.memory.is_multicast and box.status != GONE]
        return len(self.index.objects) - len(shown)
