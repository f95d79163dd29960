# SPDX-License-Identifier: MIT-0
"""Runs a student's program, and reads from its trace what it did."""

import itertools
import json

from labs.judge.check import Call, Run
from vmmsim.trace import NO_CALLS, validate_call

OF_THE_JUDGE = "status", "refusals"  # options that are not Program.run's


class NoMoreRuns(Exception):
    """What is looked at needs another run, and there is to be none."""


class Runner:
    def __init__(self, program):
        self.program, self.runs = program, []
        self.takes_each_by_itself = False  # each check, now that it is known what is to be told first
        self.is_closed = False  # whether there are to be no more runs

    def run(self, options):
        """The run with these options; there is one."""
        for run in self.runs:
            if run.options == options:
                return run
        if self.is_closed or self.takes_each_by_itself and any(run.ended.why for run in self.runs):  # one that hangs is
            raise NoMoreRuns  # enough
        ended = self.program.run(**{key: value for key, value in options.items() if key not in OF_THE_JUDGE})
        run = Run(self, options, ended)
        lines = read_lines(ended.trace)
        run.is_disturbed = lines is None or not fits(lines, ended)
        run.all = self.calls(run, in_order(lines or []))
        self.runs.append(run)
        return run

    def calls(self, run, lines):
        name = self.program.file.name + "+"
        frames = [
            [int(at.removeprefix(name), 16) - 1 for at in line["callers"] if at.startswith(name)] for line in lines
        ]
        places = self.program.lines(sorted(set(itertools.chain(*frames)))) if lines else {}
        found = [[place for at in addresses for place in places.get(at, ())] for addresses in frames]
        found = [line_in_file(line, its) for line, its in zip(lines, found, strict=True)]
        return [
            Call(run, index, number, line, in_part)
            for index, (line, (number, in_part)) in enumerate(zip(lines, found, strict=True))
        ]


def line_in_file(line, places):
    """(line, whether it is the student's) of the innermost place of a call; what the compiler has made of a kernel's
    head is none."""
    kernel = line["arguments"].get("func", "")
    its = (one for one in places if one[2] != kernel and "__device_stub_" not in one[2])
    return next(its, (0, False))[:2]


def in_order(lines):
    """A line is written a little after its changes: those of several threads come in the order of the changes."""
    lines = list(lines)
    for pid in {line["pid"] for line in lines}:
        changed = [at for at, line in enumerate(lines) if line["pid"] == pid and line["changes"]]
        ordered = sorted((lines[at] for at in changed), key=lambda line: line["changes"][0]["order"])
        for at, line in zip(changed, ordered, strict=True):
            lines[at] = line
    return lines


def read_lines(trace):
    """The lines of a trace; None if something else stands among them, or a line that the simulator did not write."""
    lines = []
    for text in trace.split(b"\n")[:-1]:  # the last may have been cut off
        try:
            line = json.loads(text)
        except ValueError:
            return None
        if not isinstance(line, dict) or validate_call(line):
            return None
        lines.append(line)
    return lines


def fits(lines, ended):
    """Whether each thread has a line for each call that the witness saw it make, and no other, in the same order; and
    nothing else has changed the machine. The last line may have been cut off, where the program ended in the middle."""
    if ended.seen is None:
        return True
    if None in ended.seen:
        return False
    told = [(line["thread"], line["call"]) for line in lines if line["call"] not in NO_CALLS]
    was_cut = ended.status or ended.why
    for thread in {thread for thread, _ in (*told, *ended.seen)}:
        seen, its = ([name for by, name in calls if by == thread] for calls in (ended.seen, told))
        if its != seen and not (was_cut and its == seen[:-1]):
            return False
    return True
