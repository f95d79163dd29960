# SPDX-License-Identifier: MIT-0
"""One picture: who may touch which addresses, and which memory is behind them. As SVG, and in words.

    scene = Scene(title, calls, gpus, processes)
    scene.fill(machine, since, pids, names)    of trace_model; what has changed since then is marked
    scene.svg(), scene.words()

From top to bottom: a process's reservations with the mappings in them; what each GPU may do there; arrows to physical
memory, a panel for each GPU. A second process, or a multicast object with its addresses, comes from below, so that no
arrows need to cross. Widths are to scale where the texts then have room. Where those of a reservation are not, a thin
bar in it shows what is mapped, to scale.
"""

import dataclasses
import functools
import html
import itertools

from vmmsim.trace.model import Handle, Reservation
from vmmsim.view.style import styled

WIDTH, GUTTER, MARGIN = 600, 84, 8
GAP, INSET = 12, 4  # between two reservations; between the edge of one and what is in it
LABEL = 70  # at the left of a GPU's memory: its name
NEW, KEPT, GONE = "new", "kept", "gone"
MARKS = {NEW: " (new)", KEPT: "", GONE: " (gone)"}
RIGHTS = {0: "no access", 1: "read", 3: "read-write"}


class TooWide(Exception):
    pass


@functools.cache
def in_words(size):
    for unit, shift in ("GiB", 30), ("MiB", 20), ("KiB", 10):
        if size >= 1 << shift:
            return f"{size / (1 << shift):.1f}".removesuffix(".0") + f" {unit}"
    return f"{size} B"


def width_of(text, size=13):  # generous: which font there is, nobody knows
    return len(text) * size * 0.56


def pack(things, left, right, gap):
    """Gives each its x: with its middle where it wants it, or as near as may be without leaving their order."""
    for thing in things:
        thing.x = left = max(left, thing.middle - thing.width / 2)
        left += thing.width + gap
    for thing in reversed(things):
        thing.x = min(thing.x, right - thing.width)
        right = thing.x - gap


def status(before, now):
    return KEPT if before and now else NEW if now else GONE


def in_order(things):
    return sorted(things, key=lambda thing: thing.number)


@dataclasses.dataclass(eq=False)
class Block:
    """A mapping, or neighbours that are alike, or (without memory) a part of a reservation where nothing is mapped."""

    offset: int
    size: int
    status: str = KEPT
    memory: object = None
    access: dict = dataclasses.field(default_factory=dict)  # device: (flags, whether that has changed)
    count: int = 1
    first: object = None  # the mappings, for what is said of them
    last: object = None
    x = width = 0

    def label(self):
        if not self.memory:
            return in_words(self.size)
        return in_words(self.size) if self.count == 1 else f"{self.count} × {in_words(self.size // self.count)}"


@dataclasses.dataclass(eq=False)
class Room:
    """A reservation."""

    name: str
    size: int
    status: str
    blocks: list
    it: object = None
    mapped: list = dataclasses.field(default_factory=list)  # offsets of begin and end
    unmapped: list = dataclasses.field(default_factory=list)  # what was
    x = width = 0

    def remember(self):
        """What is mapped, of all blocks: some may not be shown."""
        its = [(it.offset, it.offset + it.size, it.status == GONE) for it in self.blocks if it.memory]
        self.mapped = [(begin, end) for begin, end, is_gone in its if not is_gone]
        self.unmapped = [(begin, end) for begin, end, is_gone in its if is_gone]

    def at(self, offset):
        """Where an offset would be, to scale."""
        return self.x + INSET + offset / self.size * (self.width - 2 * INSET)

    @property
    def is_to_scale(self):
        return all(
            abs(it.x - self.at(it.offset)) < 4 and abs(it.x + it.width - self.at(it.offset + it.size)) < 4
            for it in self.blocks
        )

    def label(self, short=False):
        return (self.name and self.name + ": ") + in_words(self.size) + ("" if short else " reserved")


@dataclasses.dataclass(eq=False)
class Box:
    """An allocation, or neighbours that are alike, or a multicast object."""

    number: int
    size: int
    device: int
    status: str
    handles: dict  # rank: (how many, status)
    exports: list  # made in this step: rank, and "fd" or "fabric"
    held_by_fd: bool
    is_mapped: bool
    team: list
    bound: list  # numbers of memory, and the status of the binding
    it: object
    has_grown: bool = False  # the team
    count: int = 1
    last: object = None
    x = width = 0

    def mark(self):
        return NEW if self.status == KEPT and self.has_grown else self.status

    def label(self):
        if not self.size:
            return "size not known"
        return in_words(self.size) if self.count == 1 else f"{self.count} × {in_words(self.size)}"


class Scene:
    def __init__(self, title, calls, gpus, processes):
        self.title, self.gpus, self.processes = title, gpus, processes
        self.set_calls(calls)
        self.spaces = [[] for _ in processes]  # of each process: its reservations
        self.boxes = {}  # of memory and objects, by number
        self.short = self.terse = False  # where the texts need more room than there is
        self.roomy = False  # as wide as the widest fonts need it, or else not at all
        self.teller = None  # of words.py, if what shows a range is to say more of it
        self.extras = []  # below the memory: rows of (text, status, about)

    def set_calls(self, calls):
        counts = dict.fromkeys(calls, 0)
        for call in calls:
            counts[call] += 1
        self.calls = [call if count == 1 else f"{call} ×{count}" for call, count in counts.items()]

    # --- From the machine, and what has changed in it since a moment, to what is to be drawn
    def fill(self, machine, since, pids, names):
        for rank, pid in enumerate(pids):
            process, gone = machine.processes[pid], [it for it in since.gone.values() if it[0] == pid]
            for handle in in_order([*process.handles.values(), *(it for _, _, it in gone if isinstance(it, Handle))]):
                self.add_box(handle.memory, since, pids)
            rooms = [*process.reservations.items(), *((at, it) for _, at, it in gone if isinstance(it, Reservation))]
            for base, room in sorted(rooms, key=lambda item: item[1].number):
                its = [*room.mappings.items(), *((at, it) for _, at, it in gone if getattr(it, "room", None) is room)]
                inside = []
                for at, it in sorted(its, key=lambda item: (item[0], item[1].number)):
                    self.add_box(it.memory, since, pids)
                    inside.append(self.block(at - base, it, since))
                self.spaces[rank].append(Room(names(pid, room), room.size, since.status(room), inside, room))
        held = {**machine.held, **{number: it.memory for number, it in since.was.items() if it.held_by_fd}}
        for _, memory in sorted(held.items()):
            self.add_box(memory, since, pids)
        for space in self.spaces:
            for room in space:
                room.blocks = self.with_gaps(self.grouped(room.blocks), room.size)
                room.remember()

    def block(self, offset, mapping, since):
        state = since.status(mapping)
        was = {} if state == NEW else since.access.get(mapping.number, (mapping, mapping.access))[1]
        access = {
            device: (mapping.access.get(device, 0), mapping.access.get(device, 0) != was.get(device, 0))
            for device in range(self.gpus)
        }
        return Block(offset, mapping.size, state, mapping.memory.number, access, 1, mapping, mapping)

    def add_box(self, memory, since, pids):
        if memory.number in self.boxes:
            return
        new = memory.look()
        old = since.was.get(memory.number, new)
        handles = {}
        for rank, pid in enumerate(pids):
            counts = old.references.get(pid, 0), new.references.get(pid, 0)
            if any(counts):
                handles[rank] = counts[1] or counts[0], status(*counts)
        bound = {**old.bound, **new.bound}
        self.boxes[memory.number] = Box(
            memory.number,
            memory.size,
            memory.device,
            status(old.is_there, new.is_there),
            handles,
            [(pids.index(pid), kind) for pid, kind in memory.exports[old.exports :]],
            memory.held_by_fd,
            bool(memory.mapped),
            sorted(memory.team),
            [(key, status(key in old.bound, key in new.bound)) for key in sorted(bound)],
            memory,
            old.team != new.team,
        )
        for key in sorted(bound):
            self.add_box(bound[key], since, pids)

    def grouped(self, blocks):
        """Three or more neighbours that are alike, each with memory of its own, become one."""
        result = []
        for block in blocks:
            last = result[-1] if result else None
            if last and self.alike(last, block):
                last.append(block)
            else:
                result.append([block])
        merged = []
        for run in result:
            if len(run) > 2:
                first, boxes = run[0], [self.boxes[block.memory] for block in run]
                for box in boxes[1:]:
                    del self.boxes[box.number]
                boxes[0].count, boxes[0].last = len(run), boxes[-1].it
                run = [
                    Block(
                        first.offset,
                        sum(block.size for block in run),
                        first.status,
                        first.memory,
                        first.access,
                        len(run),
                        first.first,
                        run[-1].last,
                    )
                ]
            merged += run
        return merged

    def alike(self, run, block):
        def of(box):
            return box.size, box.device, box.status, box.handles, box.exports, box.is_mapped, box.team

        one, other = run[-1], self.boxes[block.memory]
        return (
            one.memory != block.memory
            and one.offset + one.size == block.offset
            and (one.size, one.status, one.access) == (block.size, block.status, block.access)
            and of(self.boxes[one.memory]) == of(other)
            and not other.team
        )

    @staticmethod
    def with_gaps(blocks, size):
        result, at = [], 0
        for block in [*blocks, Block(size, 0)]:
            if block.offset > at:
                result.append(Block(at, block.offset - at))
            if block.size:
                result.append(block)
            at = block.offset + block.size
        return result

    # --- In words
    def words(self):
        self.terse, told = False, []
        for rank, space in enumerate(self.spaces):
            owner = self.processes[rank] and f"{self.processes[rank]}: "
            if not space:
                told.append(f"{owner}no addresses reserved.")
            for room in space:
                parts = ", then ".join(self.block_in_words(block, room) for block in room.blocks)
                told.append(f"{owner}reservation {room.name}, {in_words(room.size)}{MARKS[room.status]}: {parts}.")
        for device in range(self.gpus):
            mine = [self.box_in_words(box) for box in self.boxes.values() if box.device == device]
            told.append(f"GPU {device} holds {'; '.join(mine) or 'nothing'}.")
        for box in self.boxes.values():
            if box.device < 0:
                told.append(
                    f"Multicast object: {self.box_in_words(box)}; team of {self.team(box)}"
                    + (", memory of both bound." if len(box.bound) == self.gpus else ", nothing bound.")
                )
        return f"{self.title}. " + " ".join(sentence[0].upper() + sentence[1:] for sentence in told)

    def block_in_words(self, block, room):
        if not block.memory:
            return f"{block.label()} not mapped"
        box = self.boxes[block.memory]
        target = f"memory of GPU {box.device}" if box.device >= 0 else "the multicast object"
        rights = ", ".join(
            f"GPU {device} {RIGHTS[flags]}" + (" now" if changed and block.status != NEW else "")
            for device, (flags, changed) in block.access.items()
        )
        mark = block.status if block.status not in (KEPT, room.status) else ""
        about = "; ".join(part for part in (mark, rights if block.status != GONE else "") if part)
        return f"{block.label()} mapped to {target}" + (f" ({about})" if about else "")

    def box_in_words(self, box):
        pills = [text + (MARKS[state] if state != box.status else "") for text, state, _ in self.pills(box)]
        return box.label() + MARKS[box.status] + (f" with {' and '.join(pills)}" if pills else "")

    @staticmethod
    def team(box):
        return " and ".join(f"GPU {device}" for device in box.team) or "no GPU yet"

    def pills(self, box):
        """What else holds it, or was done with it: text, status, rank. That it has no handle, where there is room."""
        result = []
        for rank, (count, state) in sorted(box.handles.items()):
            of = f" of {self.processes[rank]}" if self.processes[rank] else ""
            name = ("handle" if count == 1 else f"{count} handles") if box.count == 1 else "handles"
            result.append((name + of, state, rank))
        for rank, kind in box.exports:
            result.append(("exported as " + {"fd": "an fd", "fabric": "64 bytes"}[kind], NEW, rank))
        if box.held_by_fd:
            result.append(("held by an open fd", KEPT, None))
        elif not box.handles and box.is_mapped and box.status != GONE and not self.terse:
            result.append(("no handle", KEPT, None))
        return result

    # --- As SVG
    def draw(self):
        """The elements, and how high they are together."""
        self.out = []
        objects = [box for box in self.boxes.values() if box.device < 0]
        object_numbers = {box.number for box in objects}
        above, below = list(self.spaces[0]), list(self.spaces[1]) if len(self.spaces) > 1 else []
        if objects:  # what leads to an object comes from below
            below = [room for room in above if any(block.memory in object_numbers for block in room.blocks)]
            above = [room for room in above if room not in below]
        y = MARGIN - 14
        if self.title:
            y = MARGIN + 16
            self.text(MARGIN, y, self.title, "vmm-title")
        for line in self.lines_of_calls():
            y += 18
            self.text(MARGIN, y, line, "vmm-calls")
        y += 14

        y = self.strip(above, y, 0, True)
        below.sort(key=self.above_memory)
        self.place(below)  # the memory stands where both lead to
        start_of_arrows = y
        y = bottom = self.panels(y + self.room_for_arrows(above), above, below)
        self.arrows(above, start_of_arrows)
        if objects:
            y = self.objects(objects, y + 44, bottom, below)
            if below:
                start, y = y + 40, self.strip(below, y + 40, 0, False)
                self.arrows(below, start, upwards=True)
        elif len(self.spaces) > 1:
            end_of_arrows = y + self.room_for_arrows(below)
            y = self.strip(below, end_of_arrows, 1, False)
            self.arrows(below, end_of_arrows, upwards=True)
        return self.end(y)

    def end(self, y):
        """What stands below the memory, and what the marks mean."""
        if self.extras:
            y += 10
        for text, state, about in self.extras:
            shown = f' data-about="{html.escape(about)}"' if about else ""
            width = width_of(text, 12) + 16
            if state != KEPT:
                self.rect(MARGIN, y, min(width, WIDTH - 2 * MARGIN), 20, "vmm-pill", state)
            self.text(MARGIN + 8, y + 14, text, "vmm-left vmm-small", shown)
            y += 23
        y = self.legend(y + 12)
        return self.out, round(y + MARGIN)

    def svg(self):
        """The whole file."""
        elements, height = self.draw()
        head = (
            f'<!-- SPDX-License-Identifier: CC-BY-4.0 -->\n'
            f'<svg xmlns="http://www.w3.org/2000/svg" class="vmm-picture" role="img" '
            f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">\n'
            f"<title>{html.escape(self.title, False)}</title>\n<desc>{html.escape(self.words(), False)}</desc>\n"
            f"<style></style>\n"
            f'<rect class="vmm-paper" width="{WIDTH}" height="{height}" rx="6"/>\n'
        )
        return styled(head + "\n".join(elements) + "\n</svg>\n")

    @staticmethod
    def room_for_arrows(rooms):
        return 40 if any(block.memory for room in rooms for block in room.blocks) else 14

    def text(self, x, y, text, kind="", about=""):
        kind = f' class="{kind}"' if kind else ""
        self.out.append(f'<text{kind} x="{x:.0f}" y="{y:.0f}"{about}>{html.escape(text, False)}</text>')

    def rect(self, x, y, width, height, kind, state=KEPT, about=""):
        state = f" vmm-{state}" if state != KEPT else ""
        self.out.append(
            f'<rect class="{kind}{state}" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="3"'
            f"{about}/>"
        )

    def about(self, what, *of):
        """What is said of a range where somebody points at it, as an attribute."""
        if not self.teller:
            return ""
        return f' data-about="{html.escape(getattr(self.teller, what)(*of))}"'

    def lines_of_calls(self):
        lines = []
        for call in self.calls:
            if lines and width_of(f"{lines[-1]}, {call}", 13) < WIDTH - 2 * MARGIN:
                lines[-1] += f", {call}"
            else:
                if lines:
                    lines[-1] += ","
                lines.append(call)
        return lines

    def place(self, rooms):
        """Widths: all to scale, if the texts then have room. Otherwise what they need, and what is left goes to where
        nothing is mapped, or else on both sides."""
        space = WIDTH - GUTTER - MARGIN - GAP * (len(rooms) - 1) - 2 * INSET * len(rooms)
        blocks = [block for room in rooms for block in room.blocks]
        gaps = [block for block in blocks if not block.memory]
        short_or_not = [False] if self.roomy else [False, True]
        for is_true, self.short in itertools.product([True, False], short_or_not):
            widths = sum(map(self.least_widths, rooms), [])
            if is_true:
                unit = max((width / block.size for width, block in zip(widths, blocks, strict=True)), default=0)
                widths = [block.size * unit for block in blocks]
            spare = space - sum(widths)
            if spare >= 0:
                break
        else:
            raise TooWide(f"{self.title}: the addresses are {-spare:.0f} units too wide")
        stretch = space / sum(widths) if widths else 1
        if not (is_true and gaps):
            stretch = min(1.15, stretch)
        for block, width in zip(blocks, widths, strict=True):
            block.width = width * stretch
        spare = space - sum(block.width for block in blocks)
        for block in gaps:
            block.width += spare / len(gaps)
        x = GUTTER + (0 if gaps else spare / 2)
        for room in rooms:
            room.width = sum(block.width for block in room.blocks) + 2 * INSET
            room.middle = x + room.width / 2 if self.gpus == 1 else self.above_memory(room)
            x += room.width + GAP
        pack(rooms, GUTTER, WIDTH - MARGIN, GAP)
        for room in rooms:
            x = room.x + INSET
            for block in room.blocks:
                block.x, x = x, x + block.width

    def above_memory(self, room):
        devices = [self.boxes[block.memory].device for block in room.blocks if block.memory]
        if not devices or min(devices) < 0:
            return WIDTH / 2
        panel = (WIDTH - 2 * MARGIN + GAP) / self.gpus
        return MARGIN + panel * (sum(devices) / len(devices) + 0.5) + (LABEL - GAP - 6) / 2

    def least_widths(self, room):
        runs, widths = self.runs(room), []
        for block in room.blocks:
            sharing = next((len(run) for run in runs if block in run), 1)  # so many have one text for their rights
            label, gap = (width_of(block.label(), 15) + 8, 104) if self.roomy else (width_of(block.label()) + 8, 76)
            widths.append(max(label, 68 / sharing if block.memory else gap))
        missing = max(0, width_of(room.label(self.short)) - sum(widths))
        return [width + missing / len(widths) for width in widths]

    @staticmethod
    def runs(room):
        """Mappings side by side with the same rights: their rights are written once."""
        runs = []
        for block in room.blocks:
            if (
                block.memory
                and runs
                and runs[-1][-1].memory
                and (runs[-1][-1].access, runs[-1][-1].status) == (block.access, block.status)
            ):
                runs[-1].append(block)
            else:
                runs.append([block])
        return [run for run in runs if run[0].memory]

    def strip(self, rooms, y, rank, downwards):
        """Reservations, and lanes of rights on the side of the memory. Returns where it ends."""
        self.place(rooms)
        lanes = self.gpus if any(self.is_mapped(block) for room in rooms for block in room.blocks) else 0
        high = self.height_of(rooms, 38)
        height = 18 + high + 4 + 25 * lanes
        row, label, lane = (y + 18, y + 12, y + high + 22) if downwards else (y + 25 * lanes + 4, y + height - 2, y)
        owner = self.processes[rank]
        if owner:
            self.text(MARGIN, row + 15, owner, "vmm-left vmm-bold")
        self.text(MARGIN, row + (31 if owner else 23), "addresses", "vmm-left")
        if not rooms:
            self.rect(GUTTER, row, WIDTH - GUTTER - MARGIN, 38, "vmm-none")
            self.text((GUTTER + WIDTH - MARGIN) / 2, row + 23, "nothing reserved")
        for room in rooms:
            self.rect(room.x, row, room.width, high, "vmm-box", room.status, self.about("reservation", room))
            self.to_scale(room, row + high - 6)
            self.text(room.x + room.width / 2, label, room.label(self.short), "vmm-was" if room.status == GONE else "")
            for block in room.blocks:
                middle = block.x + block.width / 2
                if not block.memory:
                    if room.status != GONE:
                        self.text(middle, row + 17, block.label(), "vmm-small", self.about("gap", block, room))
                        self.text(middle, row + 31, "not mapped", "vmm-small")
                    continue
                box = self.boxes[block.memory]
                self.rect(
                    block.x + 2,
                    row + 4,
                    block.width - 4,
                    30,
                    f"vmm-box vmm-gpu{box.device}" if box.device >= 0 else "vmm-box",
                    block.status,
                    self.about("block", block, room),
                )
                self.text(middle, row + 24, block.label(), "vmm-was" if block.status == GONE else "vmm-bold")
        for index in range(lanes):
            at = lane + 25 * index
            self.text(MARGIN, at + 15, f"GPU {index} has", "vmm-left")
            for run in (run for room in rooms for run in self.runs(room) if run[0].status != GONE):
                flags, changed = run[0].access[index]
                x, width = run[0].x + 2, run[-1].x + run[-1].width - run[0].x - 4
                self.rights(x, at, width, flags, changed)
        return y + height

    def rights(self, x, y, width, flags, changed):
        """What a GPU may do there. Flags that nobody knows stand as they are."""
        right = RIGHTS.get(flags, str(flags))
        kind = "none" if right == "no access" else right if flags in RIGHTS else "box"
        self.rect(x, y, width, 21, f"vmm-{kind}", NEW if changed else KEPT)
        self.text(x + width / 2, y + 15, right, "vmm-small")

    @staticmethod
    def height_of(rooms, height):
        """How high reservations are: with a bar, if the width of something is not the true one."""
        return height if all(room.is_to_scale for room in rooms) else height + 6

    def to_scale(self, room, y):
        """A thin bar, if one is needed: what is mapped, and what no longer is; one pixel at least."""
        if room.is_to_scale:
            return
        self.bar("vmm-track", y, [(room.at(0), room.at(room.size))])
        for kind, its in ("vmm-true", room.mapped), ("vmm-true vmm-gone", room.unmapped):
            parts = []
            for begin, end in its:
                x, to = room.at(begin), max(room.at(end), room.at(begin) + 1)
                last = parts[-1] if parts else (0, -1)
                if x - last[1] < 1 and (last[1] - last[0] < 4 or to - x < 4):  # too near to be told apart
                    parts[-1] = last[0], max(to, last[1])
                else:
                    parts.append((x, to - 1 if to - x > 4 else to))
            self.bar(kind, y, parts)

    def bar(self, kind, y, parts):
        if parts:
            path = " ".join(f"M{x:.1f} {y:.0f} H{to:.1f}" for x, to in parts)
            self.out.append(f'<path class="{kind}" d="{path}"/>')

    @staticmethod
    def is_mapped(block):
        return block.memory and block.status != GONE

    def panels(self, y, above, below):
        """Physical memory, one panel for each GPU. Returns where it ends."""
        boxes = [box for box in self.boxes.values() if box.device >= 0]
        sources = {
            box.number: [
                block.x + block.width / 2
                for room in [*above, *below]
                for block in room.blocks
                if block.memory == box.number
            ]
            for box in boxes
        }
        label, space = LABEL, WIDTH - 2 * MARGIN - GAP * (self.gpus - 1)
        for self.terse in False, True:
            needs = self.needs(boxes, sources)
            spare = space - sum(need for _, need in needs) - label * self.gpus
            if spare >= 0:
                break
        else:
            raise TooWide(f"{self.title}: the memory is {-spare:.0f} units too wide")
        rows = max((len(self.pills(box)) for box in boxes), default=0)
        height = 28 + 19 * rows + (8 if rows else 0)
        equal = max(need for _, need in needs) + label <= space / self.gpus
        x = MARGIN
        for gpu, (mine, need) in enumerate(needs):
            width = space / self.gpus if equal else label + need + spare / self.gpus
            self.rect(x, y, width, height + 20, "vmm-panel")
            self.text(x + 10, y + height / 2 + 7, f"GPU {gpu}", "vmm-left vmm-bold")
            self.text(x + 10, y + height / 2 + 23, "memory", "vmm-left")
            if not mine:
                self.text(x + label + (width - label) / 2, y + height / 2 + 15, "nothing allocated")
            for box in mine:
                box.width *= min(1.25, (width - label) / need)
            pack(mine, x + label, x + width - 6, 6)
            for box in mine:
                box.y, box.height = y + 10, height
                self.box(box, f"vmm-box vmm-gpu{gpu}")
            x += width + GAP
        return y + height + 20

    def needs(self, boxes, sources):
        """For each GPU its boxes from left to right, and how wide they must be."""
        needs = []
        for gpu in range(self.gpus):
            mine = [box for box in boxes if box.device == gpu]
            for box in mine:
                from_where = sources[box.number] or [WIDTH * (gpu + 0.5) / self.gpus]
                box.middle = sum(from_where) / len(from_where)
                pills = [width_of(text, 12) + 18 for text, *_ in self.pills(box)]
                box.width = max(48, width_of(box.label()) + 10, *pills)
            mine.sort(key=lambda box: (box.middle, box.number))
            needs.append((mine, sum(box.width + 6 for box in mine) + 6 if mine else 110))
        return needs

    def box(self, box, kind):
        """An allocation with its handles: those of the first process at the top, of the second at the bottom."""
        self.rect(box.x, box.y, box.width, box.height, kind, box.status, self.about("memory", box))
        pills = self.pills(box)
        upper = [pill for pill in pills if pill[2] == 0 and len(self.processes) > 1]
        lower = [pill for pill in pills if pill not in upper]
        middle, y = box.x + box.width / 2, box.y + 6 + 19 * len(upper)
        spare = (box.height - 26 - 19 * len(pills)) / 2 if not pills else 0
        self.text(middle, y + 14 + spare, box.label(), "vmm-was" if box.status == GONE else "vmm-bold")
        for index, (text, state, _) in enumerate(upper):
            self.pill(middle, box.y + 6 + 19 * index, text, state, box.status)
        for index, (text, state, _) in enumerate(lower):
            self.pill(middle, y + 22 + 19 * index, text, state, box.status)

    def pill(self, middle, y, text, state, of_box):
        if text == "no handle":
            self.text(middle, y + 12, text, "vmm-small")
            return
        width = width_of(text, 12) + 8
        self.rect(middle - width / 2, y, width, 17, "vmm-pill", KEPT if state == of_box == NEW else state)
        self.text(middle, y + 13, text, "vmm-small vmm-was" if state == GONE else "vmm-small")

    def objects(self, objects, y, memory_ends, below):
        """Multicast objects below the memory that is bound to them. Returns where they end."""
        for box in objects:
            text = f"multicast object, {in_words(box.size)}, team of {self.team(box)}"
            box.width = width_of(text, 14) + 24
            box.x, box.y, box.height = (WIDTH - box.width) / 2, y, 28 + 19 * len(self.pills(box)) + 6
            self.rect(box.x, y, box.width, box.height, "vmm-box", box.mark(), self.about("memory", box))
            self.text(WIDTH / 2, y + 19, text, "vmm-was" if box.status == GONE else "vmm-bold")
            for index, (pill, state, _) in enumerate(self.pills(box)):
                self.pill(WIDTH / 2, y + 27 + 19 * index, pill, state, box.status)
            for number, state in box.bound:
                target = self.boxes[number]
                to = target.x + target.width / 2
                x = min(max(to, box.x + 20), box.x + box.width - 20)
                self.arrow(x, y, to, memory_ends - 10, state)
                self.text((x + to) / 2 + (30 if to > WIDTH / 2 else -30), y - 16, "bound", "vmm-small")
            y += box.height
        return y

    def arrows(self, rooms, y, upwards=False):
        """From each mapping to its memory."""
        pairs = [(block, self.boxes[block.memory]) for room in rooms for block in room.blocks if block.memory]
        for block, box in pairs:
            into = [other for other, its in pairs if its is box]
            spread = min(26, box.width / (len(into) + 1))
            x = box.x + box.width / 2 + (into.index(block) - (len(into) - 1) / 2) * spread
            edge = box.y + box.height if upwards else box.y
            self.arrow(block.x + block.width / 2, y, x, edge, block.status)

    def arrow(self, x, y, to_x, to_y, state):
        way = 1 if to_y > y else -1
        state = f" vmm-{state}" if state != KEPT else ""
        end = to_y - 9 * way
        middle = (y + end) / 2
        self.out.append(
            f'<path class="vmm-arrow{state}" d="M{x:.0f} {y:.0f} C{x:.0f} {middle:.0f} {to_x:.0f} '
            f'{middle:.0f} {to_x:.0f} {end:.0f}"/>'
        )
        self.out.append(f'<path class="vmm-head{state}" d="M{to_x:.0f} {to_y:.0f} l-5 {-10 * way} h10 z"/>')

    def legend(self, y):
        """What the marks mean, if there are any."""
        x, drawn = MARGIN, "\n".join(self.out)
        for mark, text in (NEW, "made or changed in this step"), (GONE, "taken away in this step"):
            if f"vmm-{mark}" in drawn:
                self.rect(x + 2, y + 2, 22, 14, "vmm-box", mark)
                self.text(x + 32, y + 14, text, "vmm-left vmm-small")
                x += 62 + width_of(text, 12)
        if "vmm-track" in drawn:
            self.bar("vmm-track", y + 9, [(x + 2, x + 24)])
            self.bar("vmm-true", y + 9, [(x + 2, x + 9)])
            text = "mapped, to scale" if x + 32 + width_of("mapped, to scale", 12) < WIDTH else "to scale"
            self.text(x + 32, y + 14, text, "vmm-left vmm-small")
            x += 1
        return y + 18 if x > MARGIN else y - 12
