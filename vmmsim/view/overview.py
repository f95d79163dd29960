# SPDX-License-Identifier: MIT-0
"""The whole of a recording at a glance: the memory of each GPU by step, and a line of what matters.

    overview = Overview(recording, answered, captured)    as refusals.answered() and captures.captured() have them
    overview.lanes = lanes(lives, devices)
    matters(overview, key)                      what stands above the steps

All figures are the model's. js/timeline.js draws the timeline of them.
"""

import collections
import html
import itertools

from vmmsim.processes import signal_name
from vmmsim.trace.line import ENDS
from vmmsim.view.pieces import since_when, worst
from vmmsim.view.records import Change, Held
from vmmsim.view.sizes import OPENED, plural, size_text, sizes_text
from vmmsim.view.words import alike, is_fault, is_refused


def is_launch(line):
    return alike(line["call"]) in ("cudaLaunchKernel", "cudaGraphLaunch") and not is_refused(line)


def lanes(lives, devices):
    """By GPU: [Change, ...] of what is Held."""
    changes = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))  # by step, by kind
    mapped = collections.defaultdict(collections.Counter)  # by memory, by step: how many mappings more
    for mapping in lives.all["mappings"]:
        mapped[mapping.memory].update({mapping.born: 1})
        mapped[mapping.memory][mapping.died] -= 1
    for nth, memory in lives.memory.items():
        is_there, count, kind, of_device = False, 0, "", changes[memory.device]
        for step in sorted({*memory.steps, *mapped[nth]} - {0} if not memory.is_multicast else ()):
            of_device[step][kind] -= memory.size
            is_there, count = is_there != (step in memory.steps), count + mapped[nth][step]
            kind = ("mapped" if count else "idle") if is_there else ""
            of_device[step][kind] += memory.size
    for block in lives.all["blocks"]:
        if block.kind != OPENED:  # which is there once, for the process that has allocated it
            changes[block.device][block.born]["ordinary"] += block.size
            changes[block.device][block.died]["ordinary"] -= block.size * bool(block.died)
    return {device: list(held(changes[device])) for device in devices}


def held(changes):
    now = Held()
    yield Change(0, now)
    for step, by_kind in sorted(changes.items()):
        then = Held(*(was + by_kind[kind] for kind, was in now._asdict().items()))
        if then != now:
            yield Change(step, then)
        now = then


class Overview:
    """Of the lines of a recording; what the model has of them follows."""

    lanes: dict = {}  # as lanes() has them
    left: tuple = {}, {}  # as lives.left() has it
    leaked = 0  # as lives.leaked() has it
    pieces: list = []  # as Steps.pieces() has them

    def __init__(self, recording, answered, captured):
        lines = list(enumerate(recording.lines, 1))
        self.count, self.answered, self.ending = len(lines), answered, ending(recording)
        self.launches = [step for step, line in lines if is_launch(line) and step not in captured]
        self.captured = [step for step, line in lines if is_launch(line) and step in captured]
        self.hung = [step for step, line in lines if line["call"] == "wait"]
        self.vanished = [step for step, line in lines if line["call"] == "vanished"]
        refused = (step for step, line in lines if is_refused(line) and not is_fault(line))
        self.unanswered = [step for step in refused if step not in answered]
        self.faults, self.repeats = [], {}  # by step: in which one the fault came that it answers again
        last = {}  # by process: a fault, and its step
        for step, line in lines:
            if not is_fault(line):
                continue
            fault, (known, first) = line.get("fault"), last.get(line["pid"], (None, 0))
            if first and fault in (None, known):  # real GPUs do not tell which it is
                self.repeats[step] = first
            else:
                self.faults.append(step)
                last[line["pid"]] = fault, step

    def shown(self):
        """The lanes that have something, or else the first."""
        lanes = {device: changes for device, changes in self.lanes.items() if len(changes) > 1}
        return lanes or dict(list(self.lanes.items())[:1])

    def lane(self, device):
        """[Change...], also of a GPU that the recording knows nothing of."""
        return self.lanes.get(device, [Change(0, Held())])

    def peak(self, device):
        """The Change by which there was the most, the first time."""
        return max(self.lane(device), key=lambda change: change.held.total)

    def is_reached_again(self, device):
        """Whether there was as much as at the peak once more, after there had been less."""
        step, held = self.peak(device)
        later = [change.held.total for change in self.lanes[device] if change.step > step]
        return held.total in itertools.dropwhile(held.total.__eq__, later)

    def opens_at(self):
        """The step that is looked at first: the first fault, refusal that nothing answered, call that never ended, or
        process that vanished;
        or else the end, if there is a leak; or else the peak."""
        wrong = [*self.faults[:1], *self.unanswered[:1], *self.hung[:1], *self.vanished[:1]]
        peak = max((self.peak(device) for device in self.lanes), key=lambda peak: peak.held.total)
        return min(wrong, default=self.count if self.leaked else peak.step) or 1

    def opens(self):
        """And of a leak, whose it is."""
        step = self.opens_at()
        return f"{step}{HELD}" if self.leaked and step == self.count else f"{step}"


# --- How it ended
def ending(recording):
    """In words, as far as it is known: by itself, by a signal, or nobody knows how, for there was no word of it.

    Of a real program only what started it knows, and of the first process alone."""
    last = {line["pid"]: line for line in recording.lines}
    ends = [way_of(line) for line in last.values() if line["call"] in ENDS]
    if not ends:
        status = recording.about.get("status")
        how = f"by {signal_name(status - 128)}" if status and status > 128 else by_itself(status)  # as a shell has it
        return "" if status is None else f"the program ended {how}"
    if len(last) == 1:
        return f"the process ended {ends[0]}"
    ends += ["in a way that is not recorded"] * (len(last) - len(ends))
    counted = (f"{count} {how}" for how, count in collections.Counter(ends).items())
    return f"of {len(last)} processes ended {', '.join(counted)}"


def way_of(line):
    if line["call"] == "exit":
        return by_itself(line["arguments"].get("status"))
    number = line["arguments"].get("signal")
    return f"by {signal_name(number)}" if number else "without a word"


def by_itself(status):
    return f"with status {status}" if status else "by itself"


# --- The line of what matters
REPEATS = "later call fails for the same reason,", "later calls fail for the same reason,"
HELD = ",held"  # behind the number of a step: what is held there is listed, and by whom


def link(key, step, text, more=""):
    return f'<a href="#{html.escape(key)}={step}{more}">{html.escape(text)}</a>'


def at_step(key, numbers, noun, many):
    count = f"1 {noun} at" if len(numbers) == 1 else f"{len(numbers):,} {many} from"
    return link(key, numbers[0], f"{count} step {numbers[0]}")


def matters(overview, key):
    """HTML: the peak of each GPU, refusals, faults, launches, and what is left; each leads to its step, the peaks and
    what is left to who holds it there."""
    parts = []
    peaks = [(device, *overview.peak(device)) for device in overview.shown()]
    for device, step, held in peaks[:4]:
        of = f"GPU {device}: " if len(peaks) > 1 else ""
        if step:
            first = "first " * overview.is_reached_again(device)
            parts.append(of + "peak " + link(key, step, f"{size_text(held.total)} {first}at step {step}", HELD))
    if len(peaks) > 4:
        parts.append(f"{len(peaks) - 4} more GPUs")
    for is_bad, numbers, *nouns in (
        (True, overview.faults, "fault", "faults"),
        (True, overview.unanswered, "refusal", "refusals"),
        (True, overview.hung, "call that never ends", "calls that never end"),
        (True, overview.vanished, "process vanished", "processes vanished"),
        (False, list(overview.repeats), *REPEATS),
        (False, list(overview.answered), "answered refusal", "answered refusals"),
        (False, overview.launches, "launch", "launches"),
        (False, overview.captured, "captured launch", "captured launches"),
    ):
        if numbers:
            linked = at_step(key, numbers, *nouns)
            parts.append(f'<span class="vmm-bad">{linked}</span>' if is_bad else linked)
    for free in overview.pieces:
        step, held = since_when(free.changes)
        if held.scattered and free.device >= 0:  # else they are addresses, and no memory
            of = f"GPU {free.device}: " * (len(peaks) > 1)
            pieces = f"{size_text(sum(held))}, the largest piece {size_text(held.largest)}"
            at_worst, _ = worst(free.changes)
            most = f", most {link(key, at_worst, f'at step {at_worst}')}" * (at_worst != step)
            parts.append(f"{of}{free.kind} is fragmented {link(key, step, f'since step {step}')}: {pieces}{most}")
    sizes, others = overview.left
    if left := sizes_text(sizes, len(peaks)) or ", ".join(plural(count, noun) for noun, count in others.items()):
        leaked = f" ({size_text(overview.leaked)} mapped nowhere)" if overview.leaked else ""
        parts.append(f"left at the end: {link(key, overview.count, left, HELD)}{leaked}")
    elif any(step for _, step, _ in peaks):
        parts.append("nothing left at the end")
    parts += [overview.ending] * bool(overview.ending)
    return f'<p class="vmm-matters">{"; ".join(parts)}.</p>\n' if parts else ""
