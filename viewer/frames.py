# SPDX-License-Identifier: MIT-0
"""From a recording to frames: the address spaces and the memory after each call, and the call in words.

    for step in steps(recording): ...    one for each call
    notes(recording)                     what is to be said of the whole

The frames are drawn by picture.py, as the pages' pictures are, and what the call changed is marked. A recording may be
anybody's: where it contradicts itself or begins late, the words of the step say so, and the frames go on.
"""

import dataclasses
import html
import re
import textwrap

from picture import MARGIN, Scene
from trace_model import Machine
from words import Asked, is_refused

MOST_STEPS = 20_000  # of one view; more would be more than a browser likes
NAMED = re.compile(
    r"cuMemAddressReserve\w*\s*\(\s*(?:\(\s*CUdeviceptr\s*\*\s*\)\s*)?&?\s*([A-Za-z_][\w.\[\]>-]{0,23})\s*,"
)


@dataclasses.dataclass
class Step:
    number: int  # from 1
    process: int  # in the order in which they appear, from 0
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
    told = []
    if recording.is_cut:
        told.append("The last line of the recording is cut off: it ends before the program did.")
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
    def __init__(self, recording):
        self.recording, self.lines = recording, recording.lines[:MOST_STEPS]
        self.machine = Machine(strict=False)
        self.all_pids = list(dict.fromkeys(line["pid"] for line in self.lines))
        self.pids = [pid for pid in self.all_pids if any(line["changes"] for line in self.lines if line["pid"] == pid)]
        self.pids = self.pids or self.all_pids[:1]
        several = len(self.all_pids) > 1
        self.processes = [f"process {self.all_pids.index(pid) + 1}" if several else "" for pid in self.pids]
        self.devices = devices_of(self.lines)
        self.given = {}  # names of reservations, by number
        self.strings = {}  # each text once

    def steps(self):
        result, before = [], None
        for index, line in enumerate(self.lines, 1):
            since = self.machine.since()
            asked = Asked(self.machine, line, self.name)
            self.machine.line(line)
            words = " ".join([asked.words(), *map(doubt, dict.fromkeys(self.machine.doubts))])
            is_changed = bool(line["changes"]) or has_changed(since)
            if before is None or is_changed or before[2]:
                before = *self.frame(since), is_changed
                is_same = bool(result) and (result[-1].svg, result[-1].height) == before[:2]
            else:
                is_same = True
            self.machine.forget_since(since)
            result.append(
                Step(
                    index,
                    self.all_pids.index(line["pid"]),
                    line["pid"],
                    line["call"],
                    words,
                    tuple(self.recording.place(line)),
                    "refused" if is_refused(line) else "changes" if is_changed else "asks",
                    line["explanation"],
                    before[0],
                    before[1],
                    is_same,
                )
            )
        return result

    def name(self, pid, room):
        """What a reservation is called: the variable that the source has for it, or its number."""
        if room.number not in self.given:
            name = ""
            if room.made:
                file, line, _ = self.recording.place(room.made)
                text = "\n".join(self.recording.source(file).splitlines()[max(0, line - 1) : line + 2]) if file else ""
                found = NAMED.search(text)
                name = found[1] if found else ""
            taken = {it for (its, _), it in self.given_names().items() if its == pid}
            number = room.nth + 1
            if not name or name in taken:
                name = f"{name} {number}" if name else f"R{number}"
            self.given[room.number] = pid, name
        return self.given[room.number][1]

    def given_names(self):
        return {(pid, number): name for number, (pid, name) in self.given.items()}

    def frame(self, since):
        scene = Scene("", [], len(self.devices) and max(self.devices) + 1, self.processes)
        names = {pid: _Names(self, pid) for pid in self.pids}
        scene.fill(self.machine, since, self.pids, names)
        try:
            elements, height = scene.draw()
        except AssertionError:
            elements, height = in_lines(scene.words())
        return [self.strings.setdefault(element, element) for element in elements], height


class _Names:
    def __init__(self, film, pid):
        self.film, self.pid = film, pid

    def __getitem__(self, nth):
        rooms = self.film.machine.processes[self.pid].reservations.values()
        room = next((it for it in rooms if it.nth == nth), None)
        return self.film.name(self.pid, room) if room else f"R{nth + 1}"


def in_lines(text):
    lines = textwrap.wrap(text, 90)
    elements = [
        f'<text class="vmm-left" x="{MARGIN}" y="{20 + 18 * index}">{html.escape(line, False)}</text>'
        for index, line in enumerate(lines)
    ]
    return elements, 30 + 18 * len(lines)


def doubt(what):
    return f"The recording contradicts itself or is not whole: it should be that {what}."


def has_changed(since):
    return bool(since.came or since.gone or since.access or since.blocks or since.peers) or any(
        it is None or it != it.memory.look() for it in since.was.values()
    )


def devices_of(lines):
    """The GPUs that have memory, or access to some."""
    found = {0}
    for line in lines:
        for change in line["changes"]:
            found |= {change[key] for key in ("device", "peer") if isinstance(change.get(key), int)}
    return sorted(it for it in found if 0 <= it < 64)
