# SPDX-License-Identifier: MIT-0
"""From a recording to frames: the address spaces and the memory after each call, and the call in words.

    for step in steps(recording): ...    one for each call
    notes(recording)                     what is to be said of the whole

The frames are drawn by picture.py, as the pages' pictures are, and what the call changed is marked. A recording may be
anybody's: where it contradicts itself or begins late, the words of the step say so, and the frames go on.
"""

import collections
import dataclasses
import re

from vmmsim.trace.model import OF_MODULES, Machine
from vmmsim.view.crowd import Crowd, Index
from vmmsim.view.picture import GONE, KEPT, NEW, Scene, TooWide, in_words
from vmmsim.view.words import Asked, Teller, is_refused, plural

MOST_STEPS = 20_000  # of one view; more would be more than a browser likes
NAMED = re.compile(
    r"cuMemAddressReserve\w*\s*\(\s*(?:\(\s*CUdeviceptr\s*\*\s*\)\s*)?&?\s*([A-Za-z_][\w.\[\]>-]{0,23})\s*,"
)


@dataclasses.dataclass
class Step:
    number: int  # from 1
    process: int  # in the order in which they change something, from 0
    pid: int
    call: str
    words: str
    place: tuple  # (file, line, function), as Recording.place gives it
    kind: str  # "changes", "refused" or "asks"
    explanation: str
    svg: list  # elements, each a text
    height: int
    is_same: bool  # the frame equals the one before


def steps(recording):
    """One Step for each call of the recording, up to MOST_STEPS."""
    return Film(recording).steps()


def notes(recording):
    """What is to be said of a recording as a whole: sentences."""
    told = recording.missing()
    if len(recording.lines) > MOST_STEPS:
        told.append(
            f"The recording has {len(recording.lines):,} calls; the first {MOST_STEPS:,} are shown. "
            "Let the program do less, or record a part of it."
        )
    if not recording.lines:
        told.append("The recording has no calls.")
    elif not any(line["changes"] for line in recording.lines):
        told.append("No call changes addresses or memory.")
    return told


class Film:
    """The machine of a recording, its frames, and what they need to know of all that went before."""

    def __init__(self, recording):
        self.recording, self.lines = recording, recording.lines[:MOST_STEPS]
        self.machine, self.index = Machine(strict=False), Index()
        changing = dict.fromkeys(line["pid"] for line in self.lines if line["changes"])
        self.all_pids = list(changing | dict.fromkeys(line["pid"] for line in self.lines))
        self.pids = list(changing) or self.all_pids[:1]
        several = len(self.all_pids) > 1
        self.processes = [f"process {self.all_pids.index(pid) + 1}" if several else "" for pid in self.pids]
        self.devices = devices_of(self.lines)
        self.most_mappings = 160 if len(self.lines) <= 2000 else 24  # of a picture with arrows
        self.names, self.taken = {}, collections.defaultdict(collections.Counter)  # of reservations
        self.process_of = dict(zip(self.pids, self.processes, strict=True))
        self.teller = Teller(recording, self.name, self.process_of)
        self.strings = {}  # each text once

    def steps(self):
        result, svg, height, was_marked = [], None, 0, False
        for count, line in enumerate(self.lines, 1):
            since = self.machine.since()
            asked = Asked(self.machine, line, self.name, self.process_of)
            self.machine.line(line)
            self.index.update(self.machine, since)
            is_changed = has_changed(since)
            is_same = False
            if svg is None or is_changed or was_marked:
                before, svg, height = (svg, height), *self.frame(since, line["pid"])
                is_same = before == (svg, height)
            else:
                is_same = True
            was_marked = is_changed
            self.machine.forget_since(since)
            process = self.all_pids.index(line["pid"])
            whose = f"Process {process + 1}: " if len(self.all_pids) > 1 else ""
            doubts = [doubt(it) for it in dict.fromkeys(self.machine.doubts)]
            result.append(
                Step(
                    count,
                    process,
                    line["pid"],
                    line["call"],
                    whose + " ".join([asked.words(), *doubts]),
                    tuple(self.recording.place(line)),
                    "refused" if is_refused(line) else "changes" if is_changed or line["changes"] else "asks",
                    line["explanation"],
                    svg,
                    height,
                    is_same,
                )
            )
        return result

    def name(self, pid, room):
        """What a reservation is called: the variable that the source has for it, or else its number."""
        if room.number not in self.names:
            name = self.variable(room.made) if room.made and room.made["call"] else ""
            self.taken[pid][name] += 1
            often = self.taken[pid][name]
            self.names[room.number] = f"R{room.nth + 1}" if not name else f"{name} {often}" if often > 1 else name
        return self.names[room.number]

    def variable(self, line):
        file, row, _ = self.recording.place(line)
        lines = self.recording.source(file).splitlines() if file and row else []
        found = NAMED.search("\n".join(lines[row - 1 : row + 2]))
        return found[1] if found else ""

    def frame(self, since, pid):
        """What there is now, and what has changed since: the elements, and how high they are together."""
        try:
            scene = self.scene(since, pid) if self.is_simple() else self.crowd(since, pid)
            scene.roomy = True  # and otherwise in rows
            elements, height = scene.draw()
        except TooWide:
            elements, height = self.crowd(since, pid).draw()
        return [self.strings.setdefault(element, element) for element in elements], height

    def is_simple(self):
        """Whether there may be room for arrows."""
        processes = [self.machine.processes[pid] for pid in self.pids]
        objects = len(self.index.objects)
        return (
            self.devices == list(range(len(self.devices)))
            and len(self.devices) <= 3
            and len(self.pids) <= 2
            and objects <= 1
            and not (objects and len(self.pids) > 1)
            and not self.index.totals[-1][0]
            and max(len(it.reservations) for it in processes) <= 6
            and sum(len(it.mappings) for it in processes) <= self.most_mappings
            and sum(map(len, self.index.idle.values())) <= 8
        )

    def scene(self, since, pid):
        scene = Scene("", [], len(self.devices), self.processes)
        scene.teller, scene.extras = self.teller, self.extras(since)
        scene.fill(self.machine, since, self.pids, self.name)
        return scene

    def crowd(self, since, pid):
        crowd = Crowd(self.devices, self.processes, self.index)
        crowd.teller, crowd.extras = self.teller, self.extras(since)
        crowd.fill(self.machine, since, self.pids, self.name, pid)
        return crowd

    def extras(self, since):
        """Ordinary memory, by GPU and by the call that it comes from, and who may use whose."""
        rows, changed = [], {}
        for pid, address in since.blocks:
            block = self.index.blocks.get((pid, address))
            if block:
                changed[block[0][0]] = NEW
        by_gpu = collections.defaultdict(list)
        for (device, call), (count, size) in sorted(self.index.ordinary.items()):
            if count:
                by_gpu[device].append((count, size, call))
        for device, its in by_gpu.items():
            where = f"GPU {device}" if device >= 0 else "the host"
            parts = [
                f"{in_words(size)} {whence(call)}" + (f" ×{count}" if count > 1 else "") for count, size, call in its
            ]
            text = f"Ordinary memory of {where}: {', '.join(parts[:3])}"
            if len(parts) > 3:
                text += f" and {in_words(sum(size for _, size, _ in its[3:]))} by others"
            state = changed.get(device, KEPT)
            count, size = sum(it[0] for it in its), sum(it[1] for it in its)
            about = f"{in_words(size)} in {plural(count, 'allocation')}, outside of reservations: {', '.join(parts)}."
            rows.append((text, state, about))
        gone = [pair for pair in since.blocks if pair not in self.index.blocks]
        if gone:
            rows.append((f"{plural(len(gone), 'ordinary allocation')} freed", GONE, ""))
        peers = {pair for pid in self.pids for pair in self.machine.processes[pid].peers}
        if peers or since.peers:
            pairs = [f"GPU {device} → GPU {peer}" for device, peer in sorted(peers)]
            shown = ", ".join(pairs[:4]) + (f" and {len(pairs) - 4} more" if len(pairs) > 4 else "")
            state = NEW if since.peers else KEPT
            rows.append((f"Peer access to ordinary memory: {shown or 'none any more'}", state, ", ".join(pairs)))
        return rows


def whence(call):
    """Where ordinary memory comes from: a call, or that this brings what kernels have of variables."""
    return "for __device__ variables" if call.startswith(OF_MODULES) else f"by {call}"


def doubt(what):
    return f"The recording contradicts itself or is not whole: it should be that {what}."


def has_changed(since):
    return bool(since.came or since.gone or since.access or since.blocks or since.peers) or any(
        it != it.memory.look() for it in since.was.values()
    )


def devices_of(lines):
    """The GPUs that have memory, or access to some."""
    found = {0}
    for line in lines:
        for change in line["changes"]:
            found |= {change[key] for key in ("device", "peer") if isinstance(change.get(key), int)}
    return sorted(it for it in found if 0 <= it < 64)
