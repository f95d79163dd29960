# SPDX-License-Identifier: MIT-0
"""From a recording to steps: each call in words, and of all of them what there was when.

    for step in steps(recording): ...    one for each call
    notes(recording)                     what is to be said of the whole

The page has the lives of all things and draws the step that is looked at: js/draw.js. A recording may be anybody's:
where it contradicts itself or begins late, the words of the step say so, and the steps go on.
"""

import collections
import dataclasses
import re

from vmmsim.trace import captures, imports
from vmmsim.trace.line import ENDS
from vmmsim.trace.line import number as in_number
from vmmsim.trace.model import Machine
from vmmsim.trace.recording import Recording
from vmmsim.view import durations, records
from vmmsim.view.brief import brief, told_apart
from vmmsim.view.callers import Callers
from vmmsim.view.lifetimes import Lifetimes
from vmmsim.view.naming import variable
from vmmsim.view.overview import Overview, is_launch, lanes
from vmmsim.view.owners import Owners
from vmmsim.view.pieces import holes, worst
from vmmsim.view.refusals import Successes, answered, lacking
from vmmsim.view.snapshot import Blocks, Snapshot
from vmmsim.view.words import WAIT, Asked, is_fault, is_refused, kernels_of

# Advice of --explain that is of no use to a kernel which was launched when the memory was still mapped.
TOO_LATE = re.compile(
    r": map memory \(cuMemMap\) and open it to .*? \(cuMemSetAccess\)|: use it before that, not after"
)

HOLES, FREE = "holes between mappings", "PyTorch's free memory"  # what lies in pieces


@dataclasses.dataclass
class Step:
    number: int  # from 1
    process: int  # in the order in which they change something, from 0
    call: str
    words: str
    place: records.Place  # as Recording.place gives it
    kind: str  # "changes", "refused" (or what else is an error) or "asks"
    explanation: str
    owner: str = ""  # the program's own line
    brief: str = ""  # what changed, for the list of calls
    is_launch: bool = False  # of what runs
    is_captured: bool = False  # it becomes a node of a graph, and does nothing now
    thread: int = 0  # of its process, in the order in which they call
    stream: int = 0  # the same, from 1; 0: the default one, or none
    led_there: tuple = ()  # places from which the function was called, and so on
    stack: int = 0  # the number of that which led to the call
    cause: str = ""  # of a long explanation what went wrong, without the call and its arguments
    is_answered: bool = False  # a refusal that is no failure
    fault: records.Fault | None = None  # what a kernel must not touch
    named: records.Named | None = None  # reservations and memory, in its words


class Steps(list):
    """One Step for each call, and what is to be said of all of them."""

    def __init__(self, recording, snapshot=None):
        super().__init__()
        self.recording, lines = recording, recording.lines
        self.captured = captures.captured(lines)
        self.machine = Machine(strict=False, sources=imports.sources(lines), captured=self.captured)
        self.devices = devices_of(lines)
        changing = {line["pid"] for line in lines if line["changes"]}
        self.nth = {pid: place for place, pid in enumerate(recording.processes())}
        pids = [pid for pid in self.nth if pid in changing] or list(self.nth)[:1]
        self.drawn = {pid: f"process {self.nth[pid] + 1}" if len(self.nth) > 1 else "" for pid in pids}  # in pictures
        reserve = [line for line in lines if line["call"] == "cuMemAddressReserve" and not is_refused(line)]
        self.names, self.variables = {}, {}  # of reservations; by the callers of a line
        self.often = collections.Counter((line["pid"], self.variable(line)) for line in reserve)
        self.ranks = collections.defaultdict(dict)  # of threads and streams
        self.threads = collections.defaultdict(set)  # of each process
        self.numbers = {}  # by process, call and its sequence number among these
        for number, line in enumerate(lines, 1):
            self.threads[line["pid"]].add(line["thread"])
            self.numbers[line["pid"], line["call"], line["nth"]] = number
        self.unmapped = []  # (process, address, size, step)
        self.lives, self.owners, self.callers = Lifetimes(self.name, self.nth), Owners(recording), Callers(recording)
        self.apart = told_apart(name for line in lines for name in kernels_of(line))
        self.answered, self.successes = answered(recording), Successes(recording)
        self.overview = Overview(recording, self.answered, self.captured)
        self.extend(self.step(number, line) for number, line in enumerate(lines, 1))
        self.overview.lanes, self.overview.left = lanes(self.lives, self.devices), self.lives.left()
        if not recording.is_cut and not recording.about.get("status"):  # else it had no time to give it back
            self.overview.leaked = self.lives.leaked()
        self.blocks = Blocks(snapshot, self) if snapshot else None
        self.overview.pieces = self.pieces()

    def pieces(self):
        """[FreeMemory...], of what is ever in pieces."""
        of_blocks = self.blocks.pieces.items() if self.blocks else ()
        between = holes(self.lives)
        has_several = worst(between).held.scattered > 0  # else something is unmapped from its beginning on
        free = [records.FreeMemory(FREE, gpu, changes) for gpu, changes in of_blocks]
        return [records.FreeMemory(HOLES, -1, between)] * has_several + free

    def step(self, number, line):
        since = self.machine.since()
        asked = Asked(self.machine, line, self.name, self.drawn)
        self.machine.line(line)
        self.lives.note(number, line, since, self.machine)
        asked.fault_before, asked.own_of = self.overview.repeats.get(number, 0), self.owners.own
        asked.is_captured = is_captured = number in self.captured
        address = line.get("fault", {}).get("address")
        asked.unmapped_late = self.unmapped_late(line)
        for change in line["changes"]:
            if change.get("kind") == "unmap":
                address_and_size = map(in_number, (change.get("address"), change.get("size")))
                self.unmapped.append((line["pid"], *address_and_size, number))
        is_change = since.has_changed() or bool(line["changes"])
        changed, words = brief(line, since, self.name, self.apart, is_captured), self.words(line, asked, number)
        named = self.lives.named(asked.spoken) if asked.spoken else None
        self.machine.forget_since(since)
        return Step(
            number=number,
            process=self.nth[line["pid"]],
            call=line["call"],
            words=words,
            place=records.Place(*self.recording.place(line)),
            owner=self.owners.of(line),
            kind="refused" if is_refused(line) or is_bad_end(line) else "changes" if is_change else "asks",
            explanation=self.with_steps(line, line["explanation"], asked.unmapped_late),
            brief=changed,
            is_launch=is_launch(line) and not is_captured,
            is_captured=is_captured,
            thread=self.rank("thread", line, line["thread"]),
            stream=self.rank("stream", line, stream) + 1 if (stream := stream_of(line)) else 0,
            is_answered=number in self.answered,
            led_there=self.recording.led_there(line)[:4],
            stack=self.callers.of(line),
            cause=self.with_steps(line, cause(line), asked.unmapped_late),
            fault=records.Fault(self.nth[line["pid"]], int(address, 16)) if address else None,
            named=named,
        )

    def launch_of(self, line):
        """The step of the launch that a fault names, or 0."""
        call, _, nth = line.get("fault", {}).get("launch", "").partition(" #")
        return self.numbers.get((line["pid"], call, int(nth)), 0) if nth.isdecimal() else 0

    def unmapped_late(self, line):
        """The step that unmapped what a fault touched, if that was after the launch; or 0."""
        address, launch = in_number(line.get("fault", {}).get("address")), self.launch_of(line)
        steps_that_did = (
            step
            for pid, at, size, step in reversed(self.unmapped)
            if pid == line["pid"] and isinstance(at, int) and isinstance(size, int) and at <= address < at + size
        )
        last = next(steps_that_did, 0) if launch and isinstance(address, int) else 0
        return last if last > launch else 0

    def with_steps(self, line, text, unmapped_late):
        """What is told of calls by their numbers, by those of steps; and what helps a kernel that ran too long."""

        def named(found):
            step = self.numbers.get((line["pid"], found[1], int(found[2])))
            return f"{found[1]} in step {step}" if step else found[0]

        if unmapped_late:
            text = TOO_LATE.sub(f" after step {self.launch_of(line)} had launched the kernel: {WAIT}", text)
        return re.sub(r"\b(cu(?:da)?[A-Z]\w*) #(\d{1,9})", named, text)

    def rank(self, kind, line, value):
        """In the order in which a process names them."""
        ranks = self.ranks[kind, line["pid"]]
        return ranks.setdefault(value, len(ranks))

    def words(self, line, asked, number):
        whose = self.whose(line)
        wrong = "The recording contradicts itself or is not whole: it should be that"
        doubts = [f"{wrong} {doubt}." for doubt in dict.fromkeys(self.machine.doubts)]
        is_unanswered = is_refused(line) and not is_fault(line) and number not in self.answered
        later = self.successes.later(number, line) if is_unanswered else ""
        of_call = asked.words(), durations.in_words(line), lacking(line), self.answered.get(number), later
        return whose + " ".join(filter(None, [*of_call, *doubts]))

    def whose(self, line):
        """Process 2, thread 3: of what there are several."""
        process, thread = self.nth[line["pid"]] + 1, self.rank("thread", line, line["thread"]) + 1
        callers = [f"process {process}"] * (len(self.nth) > 1)
        callers += [f"thread {thread}"] * (len(self.threads[line["pid"]]) > 1 and line["call"] not in ENDS)
        words = ", ".join(callers)
        return f"{words[0].upper()}{words[1:]}: " if words else ""

    def name(self, pid, reservation):
        """What a reservation is called: the variable that the source has for it, or else its number; or, if that is
        the variable of several, both."""
        number, made = reservation.number, reservation.made
        if number not in self.names:
            name, nth = self.variable(made) if made and made["call"] else "", f"R{reservation.nth + 1}"
            self.names[number] = f"{nth} ({name})" if self.often[pid, name] > 1 and name else name or nth
        return self.names[number]

    def variable(self, line):
        key = tuple(line["callers"])
        if key not in self.variables:
            self.variables[key] = variable(self.recording, line)
        return self.variables[key]


def is_bad_end(line):
    """Of a process that has vanished, or of a call, which never ends."""
    return line["call"] in ("wait", "vanished")


def steps(recording: Recording, snapshot: Snapshot | None = None) -> Steps:
    """One Step for each call of the recording; the snapshot is PyTorch's, of the same run."""
    return Steps(recording, snapshot)


def notes(recording):
    """What is to be said of a recording as a whole: sentences."""
    sentences = recording.missing()
    if not recording.lines:
        sentences.append("The recording has no calls.")
    elif not any(line["changes"] for line in recording.lines):
        sentences.append("No call changes addresses or memory.")
    return sentences


def stream_of(line):
    """None for the default streams, of which cudaStreamLegacy and cudaStreamPerThread are two."""
    stream = captures.stream_of(line)
    return stream if stream not in ("0x0", "0x1", "0x2") else None


def cause(line):
    explanation, fault = line["explanation"], line.get("fault")
    why = fault.get("why") if isinstance(fault, dict) else ""
    if isinstance(why, str) and why and explanation.endswith(why):
        return why
    found = re.search(r" answers [A-Za-z_]+: ", explanation)
    return explanation[found.end() :] if found else explanation


def devices_of(lines):
    """The GPUs that have memory, or access to some."""
    found = (change.get(key) for line in lines for change in line["changes"] for key in ("device", "peer"))
    return sorted({0, *(device for device in found if isinstance(device, int) and 0 <= device < 64)})
