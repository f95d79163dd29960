# SPDX-License-Identifier: MIT-0
"""What lessons ask of the driver, and what it answers, is the same on GPUs and on the simulator.

`.venv/bin/python3 -B -m tests.on_simulator.calls_test --write RECORDING LESSON` makes LESSON/recorded_calls.jsonl of
what libvmm_recorder.so recorded on GPUs.

Compared are the calls that the recorder records, one after another in each process: arguments, answers, outputs,
changes and whose context was current. A handle is named by how many were made after it, an address by its reservation
or by being the next, what is free by its change since it was last asked for. So what a loop does is the same again and
again, and is told once. Where the two differ, and why, says lesson.json: "calls". How many calls were compared, and
that they do not differ, says docs/evidence.md.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

import pytest

from scripts.lessons import short_args
from tests.run_program import QUIET
from vmmsim.built import BUILT
from vmmsim.testing.recorded_names import recorded_names
from vmmsim.trace import OF_MODULES

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "docs/evidence.md"

GRANULE = 2 << 20  # of an H200
COMPARED = "device", "arguments", "result", "outputs", "changes", "times"
HANDLES = "handle", "mcHandle", "memHandle", "memory"
# The simulator gives records and identities anew, and of an imported handle an H200 does not tell whose memory it is.
LEFT_OUT = {"create": ("record",), "multicast_create": ("record",), "import": ("size", "device", "record", "multicast")}


class Process:
    """The calls of one process, with names in the place of what is another in each run."""

    def __init__(self, outputs):
        self.outputs = outputs  # by call: the names of its outputs
        self.handles, self.ranges, self.free = {}, {}, {}
        self.numbers = collections.Counter()
        self.end = 0  # of the last mapping that a change was about
        self.lines = []

    def number(self, kind):
        self.numbers[kind] += 1
        return self.numbers[kind]

    def add(self, line):
        told = [change for change in line["changes"] if change["kind"] != "gone"]  # no GPU tells of that
        changes = [change for change in told if not is_of_module(line["call"], change)]
        for change in changes:
            if change["kind"] in ("create", "multicast_create", "import"):
                self.handles[change["handle"]] = self.number("handle")
            elif change["kind"] in ("reserve", "allocate"):
                kind = "reservation" if change["kind"] == "reserve" else "memory"
                self.ranges[int(change["address"], 16)] = change["size"] or 1, f"{kind} {self.number(kind)}"
        self.lines.append(
            {
                "call": line["call"],
                "device": line["device"],
                "arguments": {
                    key: self.argument(line["call"], key, it)
                    for key, it in line["arguments"].items()
                    if key != "kernels"  # of a graph: real GPUs do not tell
                },
                "result": line["result"],
                "outputs": {key: self.output(line, key, value) for key, value in line["outputs"].items()},
                "changes": told_once([self.change(change) for change in changes], 1),
            }
        )

    def argument(self, call, key, value):
        return "variable" if key in self.outputs[call] and value else self.value(key, value)

    def output(self, line, key, value):
        if line["call"] not in ("cuMemGetInfo", "cudaMemGetInfo"):
            return self.value(key, value)
        if key != "free":
            return "all"
        before = self.free.get(line["device"], value)
        self.free[line["device"]] = value
        change = value - before
        # What is no whole granule is the context of another process, which has ended; a simulated one takes no memory.
        return f"{change if change % GRANULE == 0 else 0:+d} bytes"

    def change(self, change):
        left_out = "order", "identity", "followed", *LEFT_OUT.get(change["kind"], ())
        told = {key: self.value(key, value) for key, value in change.items() if key not in left_out}
        if change["kind"] in ("map", "unmap", "access"):
            self.end = int(change["address"], 16) + change["size"]
        return told

    def value(self, key, value):
        if key in ("fd", "osHandle"):
            return "descriptor"
        if not isinstance(value, str) or not re.fullmatch("0x[0-9a-f]+", value) or int(value, 16) < 0x1000:
            return value
        if key in HANDLES:
            return (
                f"handle {self.handles[value] - self.numbers['handle']}" if value in self.handles else "unknown handle"
            )
        address = int(value, 16)
        for base, (size, name) in reversed(self.ranges.items()):
            if base == address:
                return name
            if base < address < base + size:
                return f"{name}, next" if address == self.end else f"{name} + {address - base:#x}"
        return "pointer"


def told_once(things, longest):
    """The same, but what is there again and again only once, with how many times: one thing, or up to `longest`."""
    told, at = [], 0
    while at < len(things):
        for length in range(1, longest + 1):
            times = 1
            while things[at : at + length] == things[at + times * length : at + (times + 1) * length] != []:
                times += 1
            if times > 2:
                break
        else:
            length = times = 1
        told += [it | {"times": times} if times > 1 else it for it in things[at : at + length]]
        at += length * times
    return told


def is_of_module(call, change):
    """The memory of a module's variables: it comes by a call of the driver's own."""
    return change["kind"] == "allocate" and call.startswith(OF_MODULES)


def normalised(lines):
    """By process: the lines that are compared."""
    names = recorded_names()
    lines = [line for line in lines if line.get("call") in names]
    outputs = collections.defaultdict(set)
    for line in lines:
        outputs[line["call"]] |= set(line["outputs"])
    processes = collections.defaultdict(lambda: Process(outputs))
    for line in lines:
        processes[line["pid"]].add(line)
    # Which of several is first is another in each run.
    its = [told_once(process.lines, 4) for process in processes.values()]
    return sorted(its, key=lambda lines: json.dumps(lines[:3]))


def differences(recorded, simulated):
    """(which call, what of it, on an H200, on the simulator), ..."""
    if len(recorded) != len(simulated):
        yield "", "processes", len(recorded), len(simulated)
    for number, (those, these) in enumerate(zip(recorded, simulated, strict=False), 1):
        nth = collections.Counter()
        for that, this in zip(those, these, strict=False):
            nth[that["call"]] += 1
            which = f"{that['call']} #{nth[that['call']]}" + (f" of process {number}" if len(recorded) > 1 else "")
            if that["call"] != this["call"]:
                yield which, "call", that["call"], this["call"]
                return
            for part in COMPARED:
                one, other = that.get(part), this.get(part)
                if not isinstance(one, dict):
                    one, other = {"": one}, {"": other}
                for key in [*one, *(key for key in other if key not in one)]:
                    if one.get(key) != other.get(key) or (key in one) != (key in other):
                        yield which, f"{part} {key}".strip(), one.get(key), other.get(key)
        if len(those) != len(these):
            yield f"process {number}", "calls", len(those), len(these)


def write(recording, lesson):
    processes = normalised(json.loads(line) for line in pathlib.Path(recording).read_text().splitlines())
    with open(pathlib.Path(lesson, "recorded_calls.jsonl"), "w") as file:
        for number, lines in enumerate(processes, 1):
            for line in lines:
                told = {part: value for part, value in line.items() if value or part not in ("outputs", "changes")}
                file.write(json.dumps({"process": number} | told, separators=(",", ":")) + "\n")


def simulated(lesson, trace):
    program, gpus = lesson.name[3:], json.loads((lesson / "lesson.json").read_text())["calls"]["gpus"]
    command = [BUILT["vmmsim"], *QUIET, "--gpus", str(gpus), "--trace", trace, f"{BUILT['build']}/bin/{program}"]
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run([*command, *short_args(program)], **options)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return normalised(json.loads(line) for line in trace.read_text().splitlines())


@pytest.mark.parametrize("file", sorted(ROOT.glob("*/recorded_calls.jsonl")), ids=lambda file: file.parent.name)
def test_calls_are_as_recorded_on_hardware(file, tmp_path):
    lesson, recorded = file.parent, collections.defaultdict(list)
    for line in file.read_text().splitlines():
        line = {"outputs": {}, "changes": []} | json.loads(line)
        recorded[line["process"]].append(line)
    compared = [line for lines in recorded.values() for line in lines]
    assert compared
    found = differences(list(recorded.values()), simulated(lesson, tmp_path / "trace"))
    wrong = [
        f"{which}: {part}\n  hardware   {json.dumps(on_gpu)}\n  simulator  {json.dumps(on_simulator)}"
        for which, part, on_gpu, on_simulator in found
    ]
    assert not wrong, "\n".join(wrong)
    calls = sum(line.get("times", 1) for line in compared)
    row = re.search(rf"^\| {lesson.name[:2]} \| (\d+) \| .* \| (.*) \|$", EVIDENCE.read_text(), re.MULTILINE)
    assert row.groups() == (str(calls), "none"), "docs/evidence.md says how many were compared, and that none differs"


if __name__ == "__main__":
    option, *files = sys.argv[1:]
    {"--write": write}[option](*files)
