# SPDX-License-Identifier: MIT-0
"""The lines of --trace tell enough to redraw the address spaces.

Each lesson runs under --trace. From the changes alone a model of the machine is made, of all processes together, and
after each call it must make sense: mappings lie in reservations and refer to living memory, rights are those that
cuMemGetAccess gives, free memory is as much as cuMemGetInfo says. At the end everything has been given back. Of a
refused call the line has what --explain says, also without --explain.
"""

import collections
import json
import subprocess

import pytest

from scripts.lessons import short_args
from tests.lessons_test import SOURCES
from vmmsim.built import BUILT
from vmmsim.trace import SUCCESS, Machine

PROGRAMS = [source.stem for source in SOURCES if not source.stem.endswith("_broken")]
REFUSED = next(source.stem for source in SOURCES if source.stem in PROGRAMS and "REFUSED(" in source.read_text())
# What at least these let be checked.
CHECKED = {
    "ipc_fd": ("what is imported was exported", "free memory is as much as cuMemGetInfo says"),
    "multicast": ("memory of the team is bound",),
    "vmm_basics": ("access is what cuMemGetAccess says",),
}


def traced(program, trace, *options):
    """The lines, and what was said on stderr."""
    command = [BUILT["vmmsim"], *options, "--trace", trace, BUILT[f"small {program}"], *short_args(program)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    return [json.loads(line) for line in trace.read_text().splitlines()], done.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_trace_tells_enough_to_redraw_the_memory(program, tmp_path):
    lines, said = traced(program, tmp_path / "trace", "--gpus", "2")
    assert said == ""
    assert len(lines) >= 10
    machine = Machine()
    for line in lines:
        try:
            machine.line(line)
        except Exception as error:
            raise AssertionError(f"this line: {line}") from error
    machine.end()
    assert machine.checks["a mapping lies where is reserved"]
    assert all(machine.checks[what] for what in CHECKED.get(program, ()))
    expect_ends(lines)


def expect_ends(lines):
    """Each process says at last that it exits, and with what; and closes each descriptor that it exported."""
    ended, open_ones = set(), collections.Counter()
    for line in lines:
        pid, number = line["pid"], line["arguments"].get("fd")
        assert pid not in ended
        if line["call"] == "exit":
            ended.add(pid)
            assert line["arguments"] | {"sockets": []} == {"status": 0, "descriptors": [], "sockets": []}
        for change in line["changes"]:
            open_ones[pid, change.get("fd")] += change["kind"] == "export" and "fd" in change
        open_ones[pid, number] -= line["call"] == "close" and open_ones[pid, number] > 0
    assert ended == {line["pid"] for line in lines}
    assert not +open_ones, "never closed"


def test_a_trace_explains_each_refusal(tmp_path):
    told = {}
    for option in [], ["--explain"]:
        lines, said = traced(REFUSED, tmp_path / "trace", *option)
        told[bool(option)] = [line["explanation"] for line in lines if line["explanation"]]
        refused = [line["call"] for line in lines if line["result"] not in SUCCESS]
        assert refused
        assert [text.partition("(")[0] for text in told[bool(option)]] == refused
    assert told[True] == [line.removeprefix("vmmsim: ") for line in said.splitlines()]
    assert len(told[False]) == len(told[True])  # addresses of the program itself differ from run to run
    assert all(": " in text for text in told[False])
