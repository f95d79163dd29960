# SPDX-License-Identifier: MIT-0
"""A picture where there is much: many reservations, allocations, GPUs or processes. It has rows, and no arrows.

What a mapping leads to is told by a number: allocation #7 is #7 among the addresses and in the memory. Neighbours that
are alike are one. Of what is too much for a picture, what changed last is shown, and the rest is counted.
"""

import bisect
import collections
import dataclasses

from vmmsim.trace.model import Mapping, Reservation
from vmmsim.view.picture import (
    GAP,
    GONE,
    GUTTER,
    INSET,
    KEPT,
    LABEL,
    MARGIN,
    MARKS,
    NEW,
    WIDTH,
    Block,
    Room,
    Scene,
    in_words,
    width_of,
)

ROOMS, BOXES = 12, 16  # that are shown, of a process and of a GPU
IN_FULL = 4  # processes
WIDEST = WIDTH - GUTTER - MARGIN


@dataclasses.dataclass
class Run:
    """Neighbours that are alike."""

    at: int
    end: int
    key: tuple
    count: int
    first: Mapping
    last: Mapping


def alike(mapping):
    memory = mapping.memory
    return mapping.size, memory.device, memory.is_multicast, tuple(sorted(mapping.access.items()))


def only(mapping, key):
    return Run(mapping.at, mapping.at + mapping.size, key, 1, mapping, mapping)


def follows(run, mapping, key):
    return run.end == mapping.at and run.key == key and run.last.memory is not mapping.memory


def joined(mappings, key_of):
    runs = []
    for it in mappings:
        key = key_of(it)
        if runs and follows(runs[-1], it, key):
            run = runs[-1]
            run.end, run.count, run.last = run.end + it.size, run.count + 1, it
        else:
            runs.append(only(it, key))
    return runs


def set_apart(runs, room, mapping, instead):
    """Puts these runs in the place of one mapping; its neighbours are other runs then."""
    index = bisect.bisect_right(runs, mapping.at, key=lambda run: run.at) - 1
    run, size = runs[index], mapping.size
    parts = []
    if run.at < mapping.at:
        last = room.mappings[mapping.at - size]
        parts.append(Run(run.at, mapping.at, run.key, (mapping.at - run.at) // size, run.first, last))
    parts += instead
    if mapping.at + size < run.end:
        first = room.mappings[mapping.at + size]
        parts.append(Run(first.at, run.end, run.key, (run.end - first.at) // size, first, run.last))
    runs[index : index + 1] = parts


def put_in(runs, mapping):
    """Adds a mapping to the runs."""
    index, key = bisect.bisect_right(runs, mapping.at, key=lambda run: run.at), alike(mapping)
    runs.insert(index, only(mapping, key))
    for at in index, index - 1:  # with what follows, and with what comes before
        if 0 <= at < len(runs) - 1 and follows(runs[at], runs[at + 1].first, runs[at + 1].key):
            one, other = runs[at : at + 2]
            runs[at : at + 2] = [Run(one.at, other.end, one.key, one.count + other.count, one.first, other.last)]


class Index:
    """What such a picture needs to know at once, of all that there is: kept up to date with each line."""

    def __init__(self):
        self.runs = {}  # of reservations, by number
        self.recent = collections.defaultdict(dict)  # by process: its reservations, those last that changed last
        self.mapped = collections.Counter()  # bytes, by process
        self.idle = collections.defaultdict(dict)  # by GPU: memory that is there and not mapped
        self.there = {}  # memory by number: (its GPU, its size)
        self.totals = collections.defaultdict(lambda: [0, 0])  # by GPU: how many, bytes
        self.objects = {}  # by number
        self.ordinary = collections.defaultdict(lambda: [0, 0])  # by (GPU, call): how many, bytes
        self.blocks = {}  # by (process, address): (GPU, call), size

    def update(self, machine, since):
        rooms, changed = {}, collections.defaultdict(list)
        for thing in [*since.came.values(), *(thing for _, _, thing in since.gone.values())]:
            if isinstance(thing, Reservation):
                rooms[thing.number] = thing
            elif isinstance(thing, Mapping):
                changed[thing.room.number].append(thing)
                self.mapped[thing.room.pid] += thing.size if thing.number in since.came else -thing.size
        for mapping, _ in since.access.values():
            if mapping.number not in since.came and mapping.number not in since.gone:
                changed[mapping.room.number].append(mapping)
        for number, its in changed.items():
            rooms[number] = its[0].room
            self.update_runs(its, since)
        for number, room in rooms.items():
            recent = self.recent[room.pid]
            recent.pop(number, None)
            if machine.processes[room.pid].reservations.get(room.base) is room:
                recent[number] = room
            else:
                self.runs.pop(number, None)
        for look in since.was.values():
            self.update_memory(look.memory)
        for pid, address in since.blocks:
            which, size = self.blocks.pop((pid, address), (None, 0))
            if which:
                self.ordinary[which][0] -= 1
                self.ordinary[which][1] -= size
            block = machine.processes[pid].blocks.get(address)
            if block:
                which = block[1], block[2]
                self.blocks[pid, address] = which, block[0]
                self.ordinary[which][0] += 1
                self.ordinary[which][1] += block[0]

    def update_runs(self, its, since):
        room = its[0].room
        runs = self.runs.get(room.number)
        if len(its) > 1 or runs is None:
            self.runs.pop(room.number, None)
            return
        mapping = its[0]
        if mapping.number not in since.came:
            set_apart(runs, room, mapping, [])
        if mapping.number not in since.gone:
            put_in(runs, mapping)

    def runs_of(self, room):
        if room.number not in self.runs:
            self.runs[room.number] = joined((it for _, it in room.mappings.in_order()), alike)
        return self.runs[room.number]

    def update_memory(self, memory):
        device, size = self.there.pop(memory.number, (None, 0))
        if device is not None:
            self.totals[device][0] -= 1
            self.totals[device][1] -= size
            self.idle[device].pop(memory.number, None)
        is_there = memory.look().is_there
        if memory.is_multicast:
            self.objects.pop(memory.number, None)
            if is_there:
                self.objects[memory.number] = memory
        elif is_there:
            self.there[memory.number] = memory.device, memory.size
            self.totals[memory.device][0] += 1
            self.totals[memory.device][1] += memory.size
            if not memory.mapped:
                self.idle[memory.device][memory.number] = memory


class Crowd(Scene):
    def __init__(self, devices, processes, index):
        super().__init__("", [], len(devices), processes)
        self.devices, self.index = devices, index
        self.sections = []  # (name, rooms, what there is more)
        self.others = []  # processes, in words
        self.terse = self.roomy = True  # no word of allocations without a handle

    # --- What is to be drawn
    def fill(self, machine, since, pids, names, active):
        self.names, self.since, self.pids = names, since, pids
        self.touched = collections.defaultdict(dict)  # by process: reservations in which something is to be marked
        self.marked = collections.defaultdict(dict)  # by reservation: mappings
        self.gone = collections.defaultdict(list)  # by reservation
        for thing in [*since.came.values(), *(thing for _, _, thing in since.gone.values())]:
            if isinstance(thing, Reservation):
                self.touched[thing.pid][thing.number] = thing
        mappings = [thing for thing in since.came.values() if isinstance(thing, Mapping)]
        mappings += [mapping for mapping, _ in since.access.values() if mapping.number not in since.gone]
        for look in since.was.values():
            mappings += list(look.memory.mapped.values())[:BOXES]
        for mapping in mappings:
            self.touched[mapping.room.pid][mapping.room.number] = mapping.room
            self.marked[mapping.room.number][mapping.number] = mapping
        for _, _, thing in since.gone.values():
            if isinstance(thing, Mapping):
                self.touched[thing.room.pid][thing.room.number] = thing.room
                self.gone[thing.room.number].append(thing)
        full, nothing = self.in_full(machine, active), []
        for rank, pid in enumerate(pids):
            process = machine.processes[pid]
            count, size = len(process.reservations), self.index.mapped[pid]
            if pid in full:
                shown = self.chosen(pid, ROOMS if len(full) == 1 else ROOMS // 2)
                hidden = count - sum(process.reservations.get(it.base) is it for it in shown)
                rooms = [self.room(pid, it) for it in shown]
                more = f"… and {hidden} more reservation{'s' if hidden > 1 else ''}" if hidden else ""
                if not rooms and not hidden:
                    more = "nothing reserved"
                self.sections.append((self.processes[rank], rooms, more))
            elif count:
                reservations = f"{count} reservation{'s' if count > 1 else ''}"
                self.others.append(f"{self.processes[rank]}: {reservations}, {in_words(size)} mapped")
            else:
                nothing.append(self.processes[rank].removeprefix("process "))
        if nothing:
            self.others.append(
                f"{'process' if len(nothing) == 1 else 'processes'} {', '.join(nothing)}: nothing reserved"
            )
        for look in since.was.values():
            if look.is_there or look.memory.look().is_there:
                self.add_box(look.memory, since, pids)
        for memory in list(self.index.objects.values())[:4]:
            self.add_box(memory, since, pids)
        for device in self.devices:
            for memory in list(self.index.idle[device].values())[-4 * BOXES :]:
                self.add_box(memory, since, pids)

    def in_full(self, machine, active):
        """The process whose turn it is, and those that share memory with it; all, if they are few."""
        if len(self.pids) <= IN_FULL:
            return set(self.pids)
        full = [active] if active in self.pids else self.pids[:1]
        for pid in self.pids:
            its = machine.processes[pid].handles.values()
            if pid not in full and any(handle.pid in full for it in its for handle in it.memory.handles):
                full.append(pid)
        return set(full[:IN_FULL])

    def chosen(self, pid, most):
        """The reservations that are shown: those of which something changes, and those that changed last."""
        shown = dict(list(self.touched[pid].items())[-most:])
        for number in reversed(self.index.recent[pid]):
            if len(shown) >= most:
                break
            shown.setdefault(number, self.index.recent[pid][number])
        return [shown[number] for number in sorted(shown)]

    def room(self, pid, it):
        blocks = []
        for run in self.runs_of(it):
            blocks.append(self.block_of(it, run))
        room = Room(self.names(pid, it), it.size, self.since.status(it), self.with_gaps(blocks, it.size), it)
        room.remember()
        return self.narrowed(room)

    def runs_of(self, it):
        """With what is to be marked set apart."""
        marked, gone = self.marked[it.number], self.gone[it.number]
        if len(marked) + len(gone) > 4:
            its = sorted([*it.mappings.values(), *gone], key=lambda mapping: (mapping.at, mapping.number))
            return joined(its, self.mark)
        runs = list(self.index.runs_of(it))
        for mapping in marked.values():
            set_apart(runs, it, mapping, [only(mapping, None)])
        for mapping in gone:
            index = bisect.bisect_left(runs, mapping.at, key=lambda run: run.at)
            runs.insert(index, only(mapping, None))
        return runs

    def mark(self, mapping):
        """Like others, and marked like others."""
        number = mapping.number
        if number in self.since.came or number in self.since.gone or number in self.since.access:
            mark = self.since.status(mapping), str(self.since.access.get(number, ("", ""))[1])
        else:
            mark = mapping.memory.number if mapping.memory.number in self.since.was else None
        return *alike(mapping), mark

    def block_of(self, room, run):
        first = run.first
        self.add_box(first.memory, self.since, self.pids)
        box = self.boxes[first.memory.number]
        if run.count > box.count:
            box.count, box.last = run.count, run.last.memory
        block = self.block(run.at - room.base, first, self.since)
        block.size, block.count, block.last = run.end - run.at, run.count, run.last
        return block

    def block(self, offset, mapping, since):
        """As in other pictures, but of the GPUs that there are here."""
        state = since.status(mapping)
        was = {} if state == NEW else since.access.get(mapping.number, (mapping, mapping.access))[1]
        access = {
            device: (mapping.access.get(device, 0), mapping.access.get(device, 0) != was.get(device, 0))
            for device in self.devices
        }
        return Block(offset, mapping.size, state, mapping.memory.number, access, 1, mapping, mapping)

    def narrowed(self, room):
        """With less in it, if it is wider than the picture: what is marked stays, and what comes first."""
        whole = room.blocks
        for most in range(6, 0, -1):
            if sum(self.least_widths(room)) + 2 * INSET <= WIDEST:
                break
            room.blocks = self.some(whole, most)
        return room

    def some(self, blocks, most):
        marked = [it for it in blocks if it.memory and self.is_marked(it)]
        kept = {id(it) for it in marked[: max(1, most // 2)]}
        for it in blocks:
            if len(kept) < most:
                kept.add(id(it))
        result = []
        for it in blocks:
            if id(it) in kept:
                result.append(it)
            elif result and isinstance(result[-1], Rest):
                result[-1].size += it.size
                result[-1].count += it.count if it.memory else 0
            else:
                result.append(Rest(it.offset, it.size, count=it.count if it.memory else 0))
        return result

    @staticmethod
    def is_marked(block):
        return block.status != KEPT or any(changed for _, changed in block.access.values())

    def pills(self, box):
        pills = super().pills(box)
        if len(box.handles) > 3:
            changed = [it for it in pills[: len(box.handles)] if it[1] != KEPT]
            pills[: len(box.handles)] = [(f"handles of {len(box.handles)} processes", KEPT, None), *changed[:2]]
        return pills

    # --- Drawing
    def draw(self):
        self.out = []
        y = MARGIN
        for name, rooms, more in self.sections:
            if name:
                self.text(MARGIN, y + 14, name, "vmm-left vmm-bold")
                y += 20
            for row in self.rows(rooms):
                y = self.row(row, y) + 8
            if more:
                self.text(GUTTER, y + 13, more, "vmm-left vmm-small")
                y += 20
        y = self.lines_of(self.others, MARGIN, y)
        y = self.memory(y + 6)
        return self.end(y)

    def lines_of(self, texts, x, y):
        """Small texts, as many on a line as go there."""
        lines = []
        for text in texts:
            if lines and width_of(f"{lines[-1]}; {text}", 12) < WIDTH - MARGIN - x:
                lines[-1] += f"; {text}"
            else:
                lines += [text]
        for line in lines:
            self.text(x, y + 13, line, "vmm-left vmm-small")
            y += 18
        return y + (4 if lines else 0)

    def rows(self, rooms):
        rows, left = [], 0
        for room in rooms:
            width = sum(self.least_widths(room)) + 2 * INSET
            if not rows or width > left:
                rows.append([])
                left = WIDEST
            rows[-1].append(room)
            left -= width + GAP
        return rows

    def above_memory(self, room):  # there are no arrows
        return room.x

    def place(self, rooms):
        super().place(rooms)
        x = GUTTER  # all at the left
        for room in rooms:
            shift = x - room.x
            room.x = x
            for block in room.blocks:
                block.x += shift
            x += room.width + GAP

    def row(self, rooms, y):
        self.gpus = 1  # for place, which then keeps their order
        self.place(rooms)
        top, high = y + 18, self.height_of(rooms, 44)
        self.text(MARGIN, top + 24, "addresses", "vmm-left")
        for room in rooms:
            self.rect(room.x, top, room.width, high, "vmm-box", room.status, self.about("reservation", room))
            self.to_scale(room, top + high - 6)
            was = "vmm-was" if room.status == GONE else ""
            self.text(room.x + room.width / 2, y + 12, room.label(self.short), was)
            for block in room.blocks:
                self.in_row(block, room, top)
        y = top + high + 4
        for devices, lane in self.lanes(rooms):
            self.text(MARGIN, y + 15, devices, "vmm-left")
            for run, (flags, changed) in lane:
                x, width = run[0].x + 2, run[-1].x + run[-1].width - run[0].x - 4
                self.rights(x, y, width, flags, changed)
            y += 25
        return y

    def in_row(self, block, room, top):
        middle = block.x + block.width / 2
        if not block.memory:
            if room.status != GONE:
                is_rest = isinstance(block, Rest)
                about = "" if is_rest else self.about("gap", block, room)
                self.text(middle, top + 20, block.label(), "vmm-small", about)
                self.text(middle, top + 35, in_words(block.size) if is_rest else "not mapped", "vmm-small")
            return
        box = self.boxes[block.memory]
        kind = f"vmm-box vmm-gpu{box.device % 8}" if box.device >= 0 else "vmm-box"
        self.rect(block.x + 2, top + 4, block.width - 4, 36, kind, block.status, self.about("block", block, room))
        self.text(middle, top + 20, block.label(), "vmm-was" if block.status == GONE else "vmm-bold")
        self.text(middle, top + 35, tag(block.first.memory, block.last.memory), "vmm-small")

    def lanes(self, rooms):
        """GPUs that have the same rights to all of a row are one lane: its name, and what is in it."""
        runs = [run for room in rooms for run in self.runs(room) if run[0].status != GONE]
        lanes = collections.defaultdict(list)
        for device in self.devices:
            lanes[tuple(run[0].access[device] for run in runs)].append(device)
        if not runs:
            return []
        return [
            (gpus(its) + (" has" if len(its) == 1 else ""), zip(runs, rights, strict=True))
            for rights, its in lanes.items()
        ]

    def least_widths(self, room):
        widths = super().least_widths(room)
        return [
            max(width, width_of(tag(block.first.memory, block.last.memory), 12) + 8) if block.memory else width
            for block, width in zip(room.blocks, widths, strict=True)
        ]

    def memory(self, y):
        without, empty = [], []
        for device in [*self.devices, -1]:
            boxes = [box for box in self.boxes.values() if box.device == device and not box.it.is_multicast]
            count, size = self.index.totals[device]
            name = f"GPU {device}" if device >= 0 else "elsewhere"
            if boxes:
                y = self.panel(name, in_words(size), boxes, count, y) + 8
            elif count:
                without.append(f"{name} holds {in_words(size)} in {count} allocation{'s' if count > 1 else ''}")
            elif device >= 0:
                empty.append(device)
        if empty:
            without.append(f"{gpus(empty, True)} {'holds' if len(empty) == 1 else 'hold'} no allocations")
        y = self.lines_of(without, MARGIN, y)
        objects = [box for box in self.boxes.values() if box.it.is_multicast]
        for box in objects:
            y = self.object(box, y) + 8
        hidden = len(self.index.objects) - sum(box.status != GONE for box in objects)
        if hidden > 0:
            self.text(MARGIN + 10, y + 13, f"… and {hidden} more multicast objects", "vmm-left vmm-small")
            y += 20
        return y

    def panel(self, name, size, boxes, count, y):
        boxes = self.alike_joined(sorted(boxes, key=lambda box: (box.status == KEPT, box.it.nth))[: 6 * BOXES])[:BOXES]
        boxes.sort(key=lambda box: box.it.nth)
        shown = sum(box.count for box in boxes if box.status != GONE)
        lines, left = [], 0
        for box in boxes:
            pills = [width_of(text, 12) + 14 for text, *_ in self.pills(box)]
            box.width = max(56, width_of(box.label()) + 12, width_of(tag(box.it, box.last), 12) + 12, *pills)
            if not lines or box.width > left:
                lines.append([])
                left = WIDTH - 2 * MARGIN - LABEL - 6
            lines[-1].append(box)
            left -= box.width + 6
        heights = [42 + 19 * max(len(self.pills(box)) for box in line) for line in lines]
        more = f"… and {count - shown} more" if count > shown else ""
        height = max(44, 14 + sum(heights) + 6 * len(lines) + (18 if more else 0))
        self.rect(MARGIN, y, WIDTH - 2 * MARGIN, height, "vmm-panel")
        self.text(MARGIN + 8, y + 20, name, "vmm-left vmm-bold")
        self.text(MARGIN + 8, y + 36, size, "vmm-left vmm-small")
        at = y + 10
        for line, high in zip(lines, heights, strict=True):
            x = MARGIN + LABEL
            for box in line:
                box.x, box.y, box.height = x, at, high
                self.in_panel(box)
                x += box.width + 6
            at += high + 6
        if more:
            self.text(MARGIN + LABEL, at + 10, more, "vmm-left vmm-small")
        return y + height

    def alike_joined(self, boxes):
        """Allocations that follow one another and are alike are one."""
        result = []
        for box in boxes:
            last = result[-1] if result else None
            end = last and (last.last or last.it)
            if (
                last
                and not box.exports
                and last.status == box.status == KEPT
                and end.nth + 1 == box.it.nth
                and (last.size, last.handles, last.held_by_fd) == (box.size, box.handles, box.held_by_fd)
                and not (last.is_mapped or box.is_mapped)
            ):
                last.count, last.last = last.count + box.count, box.last or box.it
            else:
                result.append(box)
        return result

    def in_panel(self, box):
        kind = f"vmm-box vmm-gpu{box.device % 8}" if box.device >= 0 else "vmm-box"
        self.rect(box.x, box.y, box.width, box.height, kind, box.status, self.about("memory", box))
        middle, was = box.x + box.width / 2, box.status == GONE
        self.text(middle, box.y + 17, box.label(), "vmm-was" if was else "vmm-bold")
        self.text(middle, box.y + 33, tag(box.it, box.last), "vmm-small")
        for index, (text, state, _) in enumerate(self.pills(box)):
            self.pill(middle, box.y + 40 + 19 * index, text, state, box.status)

    def object(self, box, y):
        bound = [f"#{self.boxes[number].it.nth}{MARKS[state]}" for number, state in box.bound if number in self.boxes]
        lines = [
            f"multicast object #{box.it.nth}, {in_words(box.size)}, team of {gpus(box.team, True) or 'no GPU yet'}"
        ]
        if bound:
            shown = ", ".join(bound[:8]) + (f" and {len(bound) - 8} more" if len(bound) > 8 else "")
            lines.append(f"bound: {shown}")
        pills = self.pills(box)
        height = 12 + 17 * len(lines) + 19 * len(pills)
        self.rect(MARGIN, y, WIDTH - 2 * MARGIN, height, "vmm-box", box.mark(), self.about("memory", box))
        for index, line in enumerate(lines):
            kind = ("vmm-was" if box.status == GONE else "vmm-bold") if not index else "vmm-small"
            self.text(WIDTH / 2, y + 18 + 17 * index, line, kind)
        for index, (text, state, _) in enumerate(pills):
            self.pill(WIDTH / 2, y + 8 + 17 * len(lines) + 19 * index, text, state, box.status)
        return y + height


@dataclasses.dataclass(eq=False)
class Rest(Block):
    """What of a reservation is left out."""

    def label(self):
        return f"… {self.count} more"


def tag(first, last):
    return f"#{first.nth}" if last in (None, first) else f"#{first.nth}–#{last.nth}"


def gpus(devices, is_sentence=False):
    """GPU 0, GPU 0–3, GPU 0, 2."""
    parts = []
    for device in sorted(devices):
        if parts and parts[-1][1] == device - 1:
            parts[-1][1] = device
        else:
            parts.append([device, device])
    text = "GPU " + ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in parts) if parts else ""
    return text if is_sentence or width_of(text) < GUTTER - MARGIN else f"{len(devices)} GPUs"
