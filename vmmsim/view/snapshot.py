# SPDX-License-Identifier: MIT-0
"""PyTorch's own snapshot beside a recording of the same run: its blocks in the memory that the recording has.

    snapshot = Snapshot.read("it.pickle")    what torch.cuda.memory._dump_snapshot() has written, or Failed
    Blocks(snapshot, steps)                  its blocks and its free pieces by the recording's steps, or Failed

A snapshot has the blocks of its moment, and a trace: what the allocator has done up to then, as far as that was kept.
From that moment the trace is gone through backward. What it asked of CUDA is found in the recording, in order; what it
did between stands in the step that its time tells. The file has numbers, texts, lists and dicts: nothing that it names
is called.
"""

import bisect
import collections
import dataclasses
import itertools
import pickle
import zlib

from vmmsim.tool import Failed
from vmmsim.trace.line import number
from vmmsim.trace.recording import OF_PACKAGES, OF_THE_SYSTEM, opened, short_names
from vmmsim.view.pieces import Pieces, changed
from vmmsim.view.records import ChangeOfFree, Frame, Free, Range, TorchBlock

WRITER = "torch.cuda.memory._dump_snapshot()"
# What it asks of CUDA, and the change by which that has ended: what is mapped is opened at last.
ASKS = {"segment_map": "access", "segment_unmap": "unmap", "segment_alloc": "allocate", "segment_free": "free"}
ROUNDED = 512  # bytes: to a multiple of these PyTorch rounds what is requested
MOST_BLOCKS = 100_000
PART = 21  # addresses are looked up by 2 MiB
BROKEN = (
    *(pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, ImportError),
    *(MemoryError, RecursionError, OverflowError, zlib.error),
)


class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"it names {module}.{name}, and a snapshot names nothing")


@dataclasses.dataclass
class Event:
    action: str
    address: int
    size: int
    time: int  # microseconds of some clock, or 0
    frames: tuple
    step: int = 0  # after which it is so

    def last(self):
        """An address of what it asked CUDA for: of what is mapped in parts, in the last of them."""
        return self.address + (max(self.size, 1) - 1) * ("map" in self.action)


@dataclasses.dataclass
class Block:
    """One that was allocated, and in which steps."""

    gpu: int
    address: int
    size: int
    frames: tuple = ()  # [(file, line, function)...], the innermost first
    born: int = 0  # 0: before the trace begins
    awaits: int = 0  # since when it was freed by the program, and another stream may still use it; 0: not
    died: int = 0  # 0: it is there in the snapshot


class Snapshot:
    """By GPU: ranges of addresses [(address, size, is_expandable)...], blocks of the end, and events."""

    def __init__(self):
        self.segments = collections.defaultdict(list)
        self.blocks = collections.defaultdict(list)
        self.events = collections.defaultdict(list)

    @classmethod
    def read(cls, path):
        try:
            with opened(path) as file:
                return cls().filled(Plain(file).load())
        except OSError as error:
            if error.errno:
                raise Failed(f"{path} cannot be read: {error.strerror}") from None
            raise Failed(f"{path} cannot be decompressed: {error}") from None
        except BROKEN as error:
            reason = f": {error}" if isinstance(error, pickle.UnpicklingError) else ""
            raise Failed(f"{path} is no snapshot of PyTorch, as {WRITER} writes it{reason}") from None

    def filled(self, content):
        for segment in content["segments"]:
            gpu, at = integer(segment.get("device", 0)), integer(segment["address"])
            self.segments[gpu].append((at, integer(segment["total_size"]), bool(segment.get("is_expandable"))))
            for block in segment["blocks"]:
                size = integer(block["size"])
                if str(block["state"]).startswith("active"):
                    awaits = block["state"] != "active_allocated"
                    self.blocks[gpu].append(Block(gpu, at, size, frames_of(block), awaits=int(awaits)))
                at += size
        for gpu, trace in enumerate(content["device_traces"]):
            for entry in trace:
                given = (integer(entry.get(key, 0)) for key in ("addr", "size", "time_us"))
                self.events[gpu].append(Event(str(entry["action"]), *given, frames_of(entry)))
        return self


def integer(value):
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise ValueError
    return value


def frames_of(entry):
    frames = ((frame["filename"], frame["line"], frame["name"]) for frame in entry.get("frames", ()))
    return tuple((str(file), line if isinstance(line, int) else 0, str(name)) for file, line, name in frames)


class Blocks:
    """blocks: as TorchBlock; pieces: changes by GPU, as pieces.py has them; ranges: of addresses that were ever the
    allocator's; begin, end: the steps that the trace covers."""

    def __init__(self, snapshot, steps):
        lines = steps.recording.lines
        self.times, self.last = steps.recording.times(), len(lines)
        self.process, anchors = matched(snapshot, lines, steps.nth)
        if not anchors:
            raise Failed("the snapshot is of another run: what it asked CUDA for is not in the recording")
        self.place(snapshot, anchors, len(lines))
        placed = [event.step for events in snapshot.events.values() for event in events]
        self.begin, self.end = (min(placed), max(placed)) if placed else (max(anchors), max(anchors))
        self.pieces, found = {}, []
        ranges = Pieces()
        for address, size in ranges_of(snapshot):
            ranges.add(address, address + size)
        self.ranges = [Range(begin, ranges.ends[begin]) for begin in ranges.begins]
        for gpu in sorted(snapshot.segments.keys() | snapshot.events.keys()):
            found += self.replay(gpu, snapshot)
        self.left_out = max(0, len(found) - MOST_BLOCKS)  # the smallest
        found = sorted(found, key=lambda block: -block.size)[:MOST_BLOCKS]
        stacks = stacks_of(dict.fromkeys(block.frames for block in found), steps.callers)
        self.blocks = [
            TorchBlock(block.gpu, block.address, block.size, block.born, block.awaits, block.died, stacks[block.frames])
            for block in sorted(found, key=lambda block: (block.born, block.address))
        ]

    def packed(self):
        """As js/torch.js reads it."""
        return {name: getattr(self, name) for name in ("process", "ranges", "begin", "end", "left_out", "blocks")}

    def place(self, snapshot, anchors, last):
        """Each event's step: between those of the calls before and after it, by its time if both have times."""
        events = [event for trace in snapshot.events.values() for event in trace]
        known = [event for event in events if event.step and event.time] if self.times else []
        apart = sorted(self.times[event.step - 1] - event.time for event in known)[len(known) // 2] if known else 0
        for trace in snapshot.events.values():
            least, until, before = 1 if known else min(anchors), last, None
            for event in trace:
                if not event.step:
                    is_for_it = event.action == "alloc" and before in ("segment_map", "segment_alloc")
                    is_timed = known and event.time and not is_for_it
                    step = bisect.bisect_left(self.times, event.time + apart) + 1 if is_timed else least
                    event.step = -min(max(step, least), last)  # to be held against the next
                least, before = abs(event.step), event.action
            for event in reversed(trace):
                until = min(until, abs(event.step)) if event.step < 0 else event.step
                event.step = until

    def replay(self, gpu, snapshot):
        """Of a GPU, from the end to the beginning. Returns the blocks; notes how its free pieces change."""
        alive = {block.address: block for block in snapshot.blocks[gpu]}
        pieces, found, states, self.gpu = Pieces(), list(alive.values()), [], gpu
        for address, size, is_expandable in snapshot.segments[gpu]:
            pieces.walls |= set() if is_expandable else {address, address + size}
            pieces.add(address, address + size)
        for block in found:
            pieces.remove(block.address, block.address + block.size)
            block.awaits = self.end * block.awaits  # or since an event says
        for event in reversed(snapshot.events[gpu]):
            states.append((event.step, pieces.now()))
            self.undo(event, alive, pieces, found)
        changes = [ChangeOfFree(0, Free(0, 0)), ChangeOfFree(self.begin, pieces.now())]
        for step, now in reversed(states):
            changed(changes, step, now)
        if self.end < self.last:
            changes.append(ChangeOfFree(self.end + 1, Free(0, 0)))  # nobody knows
        self.pieces[gpu] = changes
        return [block for block in found if not block.died or block.born < block.died]

    def undo(self, event, alive, pieces, found):
        """What there was before it."""
        begin, end = event.address, event.address + event.size
        if event.action == "alloc":
            block = alive.pop(begin, None)
            if block:
                block.born, block.frames = event.step, event.frames or block.frames
                end = begin + block.size
            pieces.add(begin, end)
        elif event.action == "free_completed":
            size = -(-event.size // ROUNDED) * ROUNDED
            alive[begin] = Block(self.gpu, begin, size, died=event.step)  # the frames are of the free
            found.append(alive[begin])
            pieces.remove(begin, begin + size)
        elif event.action == "free_requested" and begin in alive:
            alive[begin].awaits = event.step
        elif event.action in ("segment_unmap", "segment_free"):
            if event.action == "segment_free":
                pieces.walls |= {begin, end}
            pieces.add(begin, end)
        elif event.action in ("segment_map", "segment_alloc"):
            pieces.remove(begin, end)


def matched(snapshot, lines, nth):
    """(the number of the process whose allocator this is, the steps of what it asked for); events get these."""
    best, events = (0, []), snapshot.events.values()
    for pid, rank in nth.items():
        changes = changes_of(pid, lines)
        found = [pair for trace in events for pair in in_order(trace, changes, len(lines))]
        found += [(None, step) for step in of_end(snapshot, changes)] if not any(events) else []
        if len(found) > len(best[1]):
            best = rank, found
    for event, step in best[1]:
        if event:
            event.step = step
    return best[0], [step for _, step in best[1]]


def changes_of(pid, lines):
    """By kind and by part of the addresses: [(step, begin, end)...]."""
    changes = collections.defaultdict(list)
    for step, line in enumerate(lines, 1):
        for change in line["changes"] if line["pid"] == pid else ():
            kind, begin, size = change["kind"], number(change.get("address")), number(change.get("size"))
            if kind in ASKS.values() and isinstance(begin, int):
                end = begin + (size or 1)
                last = end - 1 if kind in ("access", "unmap") else begin
                for part in range(begin >> PART, (last >> PART) + 1):
                    changes[kind, part].append((step, begin, end))
    return changes


def steps_with(changes, kind, address):
    return [step for step, begin, end in changes.get((kind, address >> PART), ()) if begin <= address < end]


def in_order(events, changes, last):
    """[(event, step)...] of what asks CUDA, from the first on or, if more are found so, from the last backward: the
    trace may begin late, and the snapshot may be taken early."""
    asking, ways = [event for event in events if event.action in ASKS], []
    for way in 1, -1:
        found, step = [], 0 if way > 0 else last + 1
        for event in asking[::way]:
            steps = steps_with(changes, ASKS[event.action], event.last())
            if steps := [number for number in steps if (number - step) * way >= 0]:
                step = steps[0 if way > 0 else -1]
                found.append((event, step))
        ways.append(found[::way])
    return max(ways, key=len)


def of_end(snapshot, changes):
    """Without a trace: the steps in which the segments became what they are."""
    for address, size, is_expandable in itertools.chain(*snapshot.segments.values()):
        kind, last = ("access", address + size - 1) if is_expandable else ("allocate", address)
        yield from steps_with(changes, kind, last)[-1:]


def ranges_of(snapshot):
    yield from ((address, size) for address, size, _ in itertools.chain(*snapshot.segments.values()))
    for events in snapshot.events.values():
        yield from ((event.address, event.size) for event in events if event.action in ASKS)


def stacks_of(all_frames, callers):
    """The numbers of stacks, by frames; they become stacks of the recording's, the program's own line first."""
    names = short_names({file for frames in all_frames for file, _, _ in frames})
    numbers = {}
    for frames in all_frames:
        own = [nth for nth, (file, _, _) in enumerate(frames) if is_own(file)]
        known = [Frame(function, f"{names[file]}:{line}") for file, line, function in frames[own[0] if own else 0 :]]
        numbers[frames] = len(callers.stacks)
        callers.stacks.append([callers.numbers.setdefault(frame, len(callers.numbers)) for frame in known])
        callers.libraries.append("")
    return numbers


def is_own(file):
    return file.endswith(".py") and not file.startswith(OF_THE_SYSTEM) and not any(part in file for part in OF_PACKAGES)
