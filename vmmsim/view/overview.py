# SPDX-License-Identifier: MIT-0
"""The whole of a recording at a glance: a strip of memory by step, and a line of what matters.

    overview = Overview(devices, times)
    overview.note(step, line, totals)   after each line, with the totals.Totals of the machine
    matters(overview, key), strip(overview, processes)    what stands above the steps

All figures are the model's. The strip is drawn here and once, so that it shows without scripts and on paper too.
"""

import dataclasses
import html

from vmmsim.view.lives import ORDINARY, VMM
from vmmsim.view.sizes import plural, size_text
from vmmsim.view.words import ALIKE, is_refused

COLUMNS = 1500  # of the strip; of a longer recording several steps share one, which shows the most there was
HEIGHT = 1000  # in the units of the strip
MOST_MARKS = 80  # that are more than a line
LAUNCHES = "cudaLaunchKernel", "cudaGraphLaunch"


def is_launch(line):
    return ALIKE.get(line["call"], line["call"]) in LAUNCHES and not is_refused(line)


@dataclasses.dataclass(frozen=True)
class Held:
    """Bytes of a GPU after a step. Memory that is mapped twice is there once."""

    mapped: int = 0
    idle: int = 0  # created, and mapped nowhere
    ordinary: int = 0

    @property
    def total(self):
        return self.mapped + self.idle + self.ordinary


class Overview:
    """times: of each step, microseconds since the first; None: the recording has none."""

    def __init__(self, devices, times=None):
        self.lanes = {device: [(0, Held())] for device in devices}  # of GPUs: (step, Held) where it changes
        self.refused, self.launches, self.faults, self.vanished, self.processes = [], [], [], [], []
        self.last_fault = None
        self.times = times
        self.left, self.leaked = ({}, {}), 0  # as lives.left() and lives.leaked() have it
        self.answered = {}  # as refusals.answered() has it

    def note(self, step, line, totals):
        for device, changes in self.lanes.items():
            idle = totals.idle_bytes[device]
            now = Held(totals.bytes[device] - idle, idle, totals.ordinary[device])
            if now != changes[-1][1]:
                changes.append((step, now))
        self.processes.append(line["pid"])
        if is_refused(line):
            self.refused.append(step)
        if is_launch(line):
            self.launches.append(step)
        if line["call"] == "vanished":
            self.vanished.append(step)
        fault = line["pid"], str(line.get("fault"))
        if line.get("fault") and fault != self.last_fault:  # later calls of the process answer it again
            self.faults.append(step)
            self.last_fault = fault

    @property
    def count(self):
        return len(self.processes)

    def shown(self):
        """The lanes that have something, or else the first."""
        lanes = {device: changes for device, changes in self.lanes.items() if len(changes) > 1}
        return lanes or dict(list(self.lanes.items())[:1])

    def peak(self, device):
        """(step, Held): when there was the most, the first time."""
        return max(self.lanes[device], key=lambda change: change[1].total)

    @property
    def unanswered(self):
        return [step for step in self.refused if step not in self.answered]

    def opens_at(self):
        """The step that is looked at first: the first fault, refusal that nothing answered, or process that vanished;
        or else the end, if there is a leak; or else the peak."""
        wrong = [*self.faults[:1], *self.unanswered[:1], *self.vanished[:1]]
        peak = max((self.peak(device) for device in self.lanes), key=lambda peak: peak[1].total)
        return min(wrong, default=self.count if self.leaked else peak[0]) or 1

    def opens(self):
        """And of a leak, whose it is."""
        step = self.opens_at()
        return f"{step}{HELD}" if self.leaked and step == self.count else f"{step}"


# --- The line of what matters
HELD = ",held"  # behind the number of a step: what is held there is listed, and by whom


def link(key, step, text, more=""):
    return f'<a href="#{html.escape(key)}={step}{more}">{html.escape(text)}</a>'


def at_step(key, numbers, one, many):
    count = f"1 {one} at" if len(numbers) == 1 else f"{len(numbers):,} {many} from"
    return link(key, numbers[0], f"{count} step {numbers[0]}")


def left_text(sizes, others, gpus_shown):
    """18 MiB and 2 MiB ordinary of GPU 0, 4 MiB of the host. Other things only if no memory is left."""
    devices = sorted({device for _, device in sizes}, key=lambda device: (device < 0, device))
    gpus = [device for device in devices if device >= 0]

    def worded(some):
        by_kind = ((sum(sizes[kind, device] for device in some), kind) for kind in (VMM, ORDINARY))
        return " and ".join(f"{size_text(size)} {kind}".rstrip() for size, kind in by_kind if size)

    parts = [worded([device]) + (f" of GPU {device}" if gpus_shown > 1 else "") for device in gpus]
    if len(gpus) > 4:
        parts = [f"{worded(gpus)} of {len(gpus)} GPUs"]
    if -1 in devices:
        parts.append(f"{worded([-1])} of the host")
    return ", ".join(parts or [plural(count, noun) for noun, count in others.items()])


def matters(overview, key):
    """HTML: the peak of each GPU, refusals, faults, launches, and what is left; each leads to its step, the peaks and
    what is left to who holds it there."""
    parts = []
    peaks = [(device, *overview.peak(device)) for device in overview.shown()]
    for device, step, held in peaks[:4]:
        of = f"GPU {device}: " if len(peaks) > 1 else ""
        if step:
            parts.append(of + "peak " + link(key, step, f"{size_text(held.total)} at step {step}", HELD))
    if len(peaks) > 4:
        parts.append(f"{len(peaks) - 4} more GPUs")
    wrong = (
        (overview.faults, "fault", "faults"),
        (overview.unanswered, "refusal", "refusals"),
        (overview.vanished, "process vanished", "processes vanished"),
    )
    for numbers, *nouns in wrong:
        if numbers:
            parts.append(f'<span class="vmm-bad">{at_step(key, numbers, *nouns)}</span>')
    if overview.answered:
        parts.append(at_step(key, list(overview.answered), "answered refusal", "answered refusals"))
    if overview.launches:
        parts.append(at_step(key, overview.launches, "launch", "launches"))
    if left := left_text(*overview.left, len(peaks)):
        leaked = f" ({size_text(overview.leaked)} mapped nowhere)" if overview.leaked else ""
        parts.append(f"left at the end: {link(key, overview.count, left, HELD)}{leaked}")
    elif any(step for _, step, _ in peaks):
        parts.append("nothing left at the end")
    return f'<p class="vmm-matters">{"; ".join(parts)}.</p>\n' if parts else ""


# --- The strip
def bins(changes, count, width):
    """[(column, Held)] where it changes: of each column the moment that had the most."""
    if count <= width:
        return [(max(step - 1, 0), held) for step, held in changes]
    most, last = {}, Held()
    for step, held in changes:
        column = max(step - 1, 0) * width // count
        here = max(most.get(column, last), last, held, key=lambda one: one.total)
        most[column], last = here, held
        if held != here:
            most.setdefault(column + 1, held)
    return sorted(most.items())


def outline(changes, width, top, value):
    path, at = f"M0 {HEIGHT}", HEIGHT
    for column, held in changes:
        y = HEIGHT - round(HEIGHT * value(held) / top) if top else HEIGHT
        if y != at:
            path += f"H{column}V{y}"
            at = y
    return f"{path}H{width}V{HEIGHT}z"


LAYERS = (  # from the back to the front
    ("ordinary", lambda held: held.total),
    ("idle", lambda held: held.mapped + held.idle),
    ("mapped", lambda held: held.mapped),
)


def chart(content, width, height=HEIGHT):
    return f'<svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" aria-hidden="true">{content}</svg>'


def lane(device, changes, count, top):
    """HTML: what a GPU had in each of so many steps; at the upper end there are `top` bytes."""
    width, (step, held) = min(count, COLUMNS), max(changes, key=lambda change: change[1].total)
    binned = bins(changes, count, width)
    paths = "".join(
        f'<path class="vmm-{layer}" d="{outline(binned, width, top, value)}"/>'
        for layer, value in LAYERS
        if any(getattr(each, layer) for _, each in binned)
    )
    peak = f'<i class="vmm-peak" style="left:{(max(step, 1) - 0.5) / count:.3%}"></i>' if step else ""
    return (
        f'<div class="vmm-lane" data-gpu="{device}" style="--vmm-fill:var(--vmm-gpu{device % 8})">'
        f"<span><b>GPU {device}</b> {size_text(held.total)}<small></small></span>"
        f"<div>{chart(paths, width)}{peak}</div></div>\n"
    )


def strip(overview, names):
    """HTML: a lane for each GPU, and one for each process with its calls, launches and refusals. names: of processes,
    by pid."""
    lanes, count = overview.shown(), max(overview.count, 1)
    width = min(count, COLUMNS)
    top = max(overview.peak(device)[1].total for device in lanes)
    result = []
    result += [lane(device, changes, count, top) for device, changes in lanes.items()]
    pids = [pid for pid in names if pid in set(overview.processes)]
    for pid in pids:
        name = names.get(pid, "") if len(pids) > 1 else "calls"
        result.append(
            f'<div class="vmm-events"><span>{html.escape(name)}</span><div>{events(overview, pid, width)}</div></div>\n'
        )
    result.append(f'<div class="vmm-axis"><span></span><div>{axis(overview)}</div></div>\n')
    size = "vmm-many" if len(lanes) + len(pids) > 6 else "vmm-few"
    legend = "".join(f'<span class="vmm-{kind}">{words}</span>' for kind, words in legend_of(overview, lanes))
    return (
        f'<p class="vmm-legend" style="--vmm-fill:var(--vmm-gpu{next(iter(lanes)) % 8})">{legend}</p>\n'
        f'<div class="vmm-strip {size}">\n{"".join(result)}</div>\n'
    )


def seconds(microseconds):
    """Since the first call: three digits."""
    for unit, factor in ("µs", 1), ("ms", 1000), ("s", 1_000_000):
        if microseconds < 1000 * factor or unit == "s":
            return f"{microseconds / factor:.3g} {unit}"


def axis(overview):
    """The numbers of some steps, and when they were if the recording has that."""
    count = overview.count
    labels = []
    for step in dict.fromkeys(1 + round((count - 1) * quarter / 4) for quarter in range(5)):
        text = f"step {step:,}" if step == 1 else f"{step:,}"
        if overview.times:
            text += f" · {seconds(overview.times[step - 1])}"
        labels.append(f'<i style="left:{(step - 0.5) / max(count, 1):.3%}">{text}</i>')
    return "".join(labels)


def legend_of(overview, lanes):
    held = [each for changes in lanes.values() for _, each in changes]
    for kind, words in ("mapped", "mapped"), ("idle", "created, not mapped"), ("ordinary", "ordinary (cudaMalloc …)"):
        if any(getattr(each, kind) for each in held):
            yield f"key vmm-{kind}", words
    if overview.launches:
        yield "key vmm-launch", "launch"
    if overview.unanswered or overview.faults:
        yield "key vmm-wrong", "refused"


def events(overview, pid, width):
    """A band where the process makes calls, a line for each launch, a cross for each refusal."""
    count = max(overview.count, 1)
    mine = [number for number, its in enumerate(overview.processes, 1) if its == pid]
    columns = sorted({(number - 1) * width // count for number in mine})
    runs = []
    for column in columns:
        if runs and runs[-1][1] == column:
            runs[-1][1] = column + 1
        else:
            runs.append([column, column + 1])
    band = "".join(f"M{begin} 3h{end - begin}v4h-{end - begin}z" for begin, end in runs)
    mine = set(mine)
    launches = sorted({(number - 1) * width // count for number in overview.launches if number in mine})
    lines = "".join(f"M{column + 0.5:g} 0v10" for column in launches)
    wrong = [number for number in sorted({*overview.unanswered, *overview.faults}) if number in mine]
    crosses = "".join(f'<i style="left:{(number - 0.5) / count:.3%}">✖</i>' for number in wrong[:MOST_MARKS])
    content = f'<path class="vmm-calls-made" d="{band}"/>' + (
        f'<path class="vmm-launch" d="{lines}"/>' if lines else ""
    )
    return chart(content, width, 10) + crosses
