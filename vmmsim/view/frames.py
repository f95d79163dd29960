# SPDX-License-Identifier: MIT-0
"""From a recording to frames: the address spaces and the memory after each call, and the call in words.

    for step in steps(recording): ...    one for each call
    notes(recording)                     what is to be said of the whole

The frames are drawn as the pages' pictures are, and what the call changed is marked. A recording may be
anybody's: where it contradicts itself or begins late, the words of the step say so, and the frames go on.
"""

import collections
import contextlib
import dataclasses

from vmmsim.trace import imports
from vmmsim.trace.model import OF_MODULES, Machine
from vmmsim.view.arrows import ArrowPicture
from vmmsim.view.brief import brief
from vmmsim.view.contents import GONE, KEPT, NEW, Scene
from vmmsim.view.crowd import LEVELS, Crowd
from vmmsim.view.details import Teller
from vmmsim.view.index import Index
from vmmsim.view.layout import TALLEST, TooWide
from vmmsim.view.lives import Lives
from vmmsim.view.naming import variable
from vmmsim.view.overview import Overview, is_launch
from vmmsim.view.owners import Owners
from vmmsim.view.rows import RowPicture
from vmmsim.view.sizes import plural, size_text
from vmmsim.view.words import Asked, is_refused

MOST_STEPS = 20_000  # of one view; more would be more than a browser likes


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
    owner: str = ""  # the program's own line
    brief: str = ""  # what changed, for the list of calls
    is_launch: bool = False


class Steps(list):
    """One Step for each call, and what is to be said of all of them."""

    overview = lives = None
    processes = {}  # their names, by pid


def steps(recording):
    """One Step for each call of the recording, up to MOST_STEPS."""
    return Film(recording).steps()


def notes(recording):
    """What is to be said of a recording as a whole: sentences."""
    sentences = recording.missing()
    if len(recording.lines) > MOST_STEPS:
        sentences.append(
            f"The recording has {len(recording.lines):,} calls; the first {MOST_STEPS:,} are shown. "
            "Let the program do less, or record a part of it."
        )
    if not recording.lines:
        sentences.append("The recording has no calls.")
    elif not any(line["changes"] for line in recording.lines):
        sentences.append("No call changes addresses or memory.")
    return sentences


class Film:
    """The machine of a recording, its frames, and what they need to know of all that went before."""

    def __init__(self, recording):
        self.recording, self.lines = recording, recording.lines[:MOST_STEPS]
        self.machine, self.index = Machine(strict=False, sources=imports.sources(self.lines)), Index()
        changing = dict.fromkeys(line["pid"] for line in self.lines if line["changes"])
        self.all_pids = list(changing | dict.fromkeys(line["pid"] for line in self.lines))
        self.pids = list(changing) or self.all_pids[:1]
        several = len(self.all_pids) > 1
        self.processes = [f"process {self.all_pids.index(pid) + 1}" if several else "" for pid in self.pids]
        self.devices = devices_of(self.lines)
        self.most_mappings = 160 if len(self.lines) <= 2000 else 24  # of a picture with arrows
        self.names, self.taken = {}, collections.defaultdict(collections.Counter)  # of reservations
        self.process_of = dict(zip(self.pids, self.processes, strict=True))
        rank = {pid: place for place, pid in enumerate(self.all_pids)}
        self.overview, self.lives = Overview(self.devices, recording.times()), Lives(self.name, rank)
        self.teller = Teller(recording, self.name, self.process_of, self.lives)
        self.owners = Owners(recording)
        self.strings = {}  # each text once
        self.level = 0  # how little is shown of much

    def steps(self):
        result, frame, was_marked = Steps(), None, False
        result.overview, result.lives = self.overview, self.lives
        result.processes = {pid: f"process {rank + 1}" for rank, pid in enumerate(self.all_pids)}
        for count, line in enumerate(self.lines, 1):
            since = self.machine.since()
            asked = Asked(self.machine, line, self.name, self.process_of)
            self.machine.line(line)
            self.index.update(self.machine, since)
            self.lives.note(count, line, since, self.machine)
            self.overview.note(count, line, self.index)
            is_changed, before = has_changed(since), frame
            fault = fault_of(line)
            if frame is None or is_changed or was_marked or fault:
                frame = self.frame(since, line["pid"], fault)
            was_marked = is_changed or bool(fault)
            what = brief(line, since, self.name)
            self.machine.forget_since(since)
            is_change = is_changed or bool(line["changes"])
            result.append(
                Step(
                    number=count,
                    process=self.all_pids.index(line["pid"]),
                    pid=line["pid"],
                    call=line["call"],
                    words=self.words(line, asked),
                    place=tuple(self.recording.place(line)),
                    owner=self.owners.of(line),
                    kind="refused" if is_refused(line) else "changes" if is_change else "asks",
                    explanation=line["explanation"],
                    svg=frame[0],
                    height=frame[1],
                    is_same=frame == before,
                    brief=what,
                    is_launch=is_launch(line),
                )
            )
        self.overview.left = self.lives.left()
        return result

    def words(self, line, asked):
        whose = f"Process {self.all_pids.index(line['pid']) + 1}: " if len(self.all_pids) > 1 else ""
        return whose + " ".join([asked.words(), *map(doubt, dict.fromkeys(self.machine.doubts))])

    def name(self, pid, reservation):
        """What a reservation is called: the variable that the source has for it, or else its number."""
        number, made = reservation.number, reservation.made
        if number not in self.names:
            name = variable(self.recording, made) if made and made["call"] else ""
            self.taken[pid][name] += 1
            often = self.taken[pid][name]
            self.names[number] = f"R{reservation.nth + 1}" if not name else f"{name} {often}" if often > 1 else name
        return self.names[number]

    def frame(self, since, pid, fault=None):
        """What there is now, and what has changed since: the elements, and how high they are together."""
        contents = self.devices, self.processes, self.machine, since, self.pids, self.name
        ordinary = {device for (device, _), (count, _) in self.index.ordinary.items() if count}
        more = {"teller": self.teller, "extras": self.extras(since), "ordinary": ordinary, "fault": fault}
        drawn = None
        if self.may_have_arrows():
            with contextlib.suppress(TooWide):
                drawn = ArrowPicture(Scene(*contents), **more).draw()
        if not drawn:
            drawn = self.rows(contents, pid, fault, more)
        elements, height = drawn
        return [self.strings.setdefault(element, element) for element in elements], height

    def rows(self, contents, pid, fault, more):
        """With less in it where the picture would be too high."""

        def drawn(level):
            crowd = Crowd(*contents, index=self.index, active=pid, most=LEVELS[level], fault=fault)
            return RowPicture(crowd, **more).draw()

        result = drawn(self.level)
        while result[1] > TALLEST and self.level < len(LEVELS) - 1:
            self.level += 1
            result = drawn(self.level)
        while self.level and result[1] < TALLEST * 0.7 and (fuller := drawn(self.level - 1))[1] <= TALLEST:
            self.level -= 1
            result = fuller
        return result

    def may_have_arrows(self):
        """Whether there may be room for them."""
        processes = [self.machine.processes[pid] for pid in self.pids]
        objects = len(self.index.objects)
        return (
            self.devices == list(range(len(self.devices)))
            and len(self.devices) <= 3
            and len(self.pids) <= 2
            and objects <= 1
            and not (objects and len(self.pids) > 1)
            and not self.index.totals[-1][0]
            and max(len(process.reservations) for process in processes) <= 6
            and sum(len(process.mappings) for process in processes) <= self.most_mappings
            and sum(map(len, self.index.idle.values())) <= 8
        )

    def extras(self, since):
        """Ordinary memory, by GPU and by the call that it comes from, and who may use whose: a row each."""
        return [*self.ordinary_memory(since), *self.freed(since), *self.peer_access(since)]

    def ordinary_memory(self, since):
        blocks = self.index.blocks
        changed = {blocks[where][0][0] for where in since.blocks if where in blocks}
        by_gpu = collections.defaultdict(list)
        for (device, call), (count, size) in sorted(self.index.ordinary.items()):
            if count:
                by_gpu[device].append((count, size, call))
        for device, sources in by_gpu.items():
            where = f"GPU {device}" if device >= 0 else "the host"
            parts = [
                f"{size_text(size)} {whence(call)}" + (f" ×{count}" if count > 1 else "")
                for count, size, call in sources
            ]
            text = f"Ordinary memory of {where}: {', '.join(parts[:3])}"
            if len(parts) > 3:
                text += f" and {size_text(sum(size for _, size, _ in sources[3:]))} by others"
            size, count = sum(size for _, size, _ in sources), sum(count for count, _, _ in sources)
            allocations = plural(count, "allocation")
            about = f"{size_text(size)} in {allocations}, outside of reservations: {', '.join(parts)}."
            yield text, NEW if device in changed else KEPT, about

    def freed(self, since):
        gone = [where for where in since.blocks if where not in self.index.blocks]
        if gone:
            yield f"{plural(len(gone), 'ordinary allocation')} freed", GONE, ""

    def peer_access(self, since):
        peers = {pair for pid in self.pids for pair in self.machine.processes[pid].peers}
        if peers or since.peers:
            pairs = [f"GPU {device} → GPU {peer}" for device, peer in sorted(peers)]
            shown = ", ".join(pairs[:4]) + (f" and {len(pairs) - 4} more" if len(pairs) > 4 else "")
            text = f"Peer access to ordinary memory: {shown or 'none any more'}"
            yield text, NEW if since.peers else KEPT, ", ".join(pairs)


def whence(call):
    """Where ordinary memory comes from: a call, or that this brings what kernels have of variables."""
    return "for __device__ variables" if call.startswith(OF_MODULES) else f"by {call}"


def doubt(what):
    return f"The recording contradicts itself or is not whole: it should be that {what}."


def has_changed(since):
    return bool(since.came or since.gone or since.access or since.blocks or since.peers) or any(
        look != look.memory.look() for look in since.was.values()
    )


def fault_of(line):
    """(process, address) of what a kernel or copy must not touch, if the line answers that."""
    address = line.get("fault", {}).get("address")
    return (line["pid"], int(address, 16)) if address else None


def devices_of(lines):
    """The GPUs that have memory, or access to some."""
    found = {0}
    for line in lines:
        for change in line["changes"]:
            found |= {change[key] for key in ("device", "peer") if isinstance(change.get(key), int)}
    return sorted(device for device in found if 0 <= device < 64)
