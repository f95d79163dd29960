#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The lines of --trace tell enough to redraw the address spaces: trace_test.py VMMSIM PROGRAM...

Each lesson runs under --trace. From the changes alone a model of the machine is made, of all processes together, and
after each call it must make sense: mappings lie in reservations and refer to living memory, rights are those that
cuMemGetAccess gives, free memory is as much as cuMemGetInfo says. At the end everything has been given back. Of a
refused call the line has what --explain says, also without --explain.
"""

import collections
import json
import subprocess
import sys
import tempfile

from scripts.run_lessons import source_of
from tests.on_simulator.sim_test import name_of, short_args
from vmmsim.trace import SUCCESS, Machine


def replay(vmmsim, program):
    """What is wrong with the trace of a program, or "", and which checks there were."""
    machine = Machine()
    with tempfile.NamedTemporaryFile() as trace:
        done = subprocess.run(
            [vmmsim, "--gpus", "2", "--trace", trace.name, program, *short_args(name_of(program))],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        lines = trace.read().decode().splitlines()
    if done.returncode or done.stderr or len(lines) < 10:
        return f"status {done.returncode}, {len(lines)} lines: {done.stdout}{done.stderr}", machine.checks
    text = ""
    try:
        for text in lines:
            machine.line(json.loads(text))
        text = "at the end"
        machine.end()
    except (AssertionError, KeyError, TypeError, ValueError, StopIteration, AttributeError) as error:
        return f"{type(error).__name__}: {error}\n{text}", machine.checks
    if not machine.checks["a mapping lies where is reserved"]:
        return "nothing was mapped", machine.checks
    if wrong := wrong_ends([json.loads(text) for text in lines]):
        return wrong, machine.checks
    return "", machine.checks


def wrong_explanations(vmmsim, program):
    """What is wrong with the explanations in the trace of a program, or ""."""
    told = {}
    for option in ([], ["--explain"]):
        with tempfile.NamedTemporaryFile() as trace:
            done = subprocess.run(
                [vmmsim, *option, "--trace", trace.name, program, *short_args(name_of(program))],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
            )
            lines = [json.loads(line) for line in trace.read().decode().splitlines()]
        told[bool(option)] = [line["explanation"] for line in lines if line["explanation"]]
        refused = [line["call"] for line in lines if line["result"] not in SUCCESS]
        if not refused or [text.partition("(")[0] for text in told[bool(option)]] != refused:
            return f"refused were {refused}, explained are {told[bool(option)]}"
    said = [line.removeprefix("vmmsim: ") for line in done.stderr.splitlines()]
    # Addresses of the program itself differ from run to run.
    if told[True] != said or len(told[False]) != len(said) or not all(": " in text for text in told[False]):
        return f"--explain says\n{said}\nand the trace {told[True]}, without --explain {told[False]}"
    return ""


def wrong_ends(lines):
    """Each process says at last that it exits, and with what; and closes each descriptor that it exported."""
    ended, open_ones = set(), collections.Counter()
    for line in lines:
        pid, number = line["pid"], line["arguments"].get("fd")
        if pid in ended:
            return f"{line['call']} after the exit"
        if line["call"] == "exit":
            ended.add(pid)
            if line["arguments"] | {"sockets": []} != {"status": 0, "descriptors": [], "sockets": []}:
                return f"an exit with {line['arguments']}"
        for change in line["changes"]:
            open_ones[pid, change.get("fd")] += change["kind"] == "export" and "fd" in change
        open_ones[pid, number] -= line["call"] == "close" and open_ones[pid, number] > 0
    if ended != {line["pid"] for line in lines}:
        return "a process has no line for its exit"
    if +open_ones:
        return f"never closed: {+open_ones}"
    return ""


def main(vmmsim, *programs):
    bad, checks = 0, collections.Counter()
    refusing = [program for program in programs if "REFUSED(" in source_of(name_of(program)).read_text()]
    if wrong := wrong_explanations(vmmsim, refusing[0]):
        bad += 1
        print(f"FAIL: {name_of(refusing[0])}: {wrong}")
    for program in programs:
        wrong, made = replay(vmmsim, program)
        checks += made
        print(
            f"{'FAIL' if wrong else 'ok'}: {name_of(program)}: {made.total()} checks{wrong and ': ' + wrong}",
            flush=True,
        )
        bad += bool(wrong)
    for what in (
        "what is imported was exported",
        "memory of the team is bound",
        "access is what cuMemGetAccess says",
        "free memory is as much as cuMemGetInfo says",
    ):
        if not checks[what]:
            bad += 1
            print(f"FAIL: no lesson let this be checked: {what}")
    if bad:
        sys.exit(f"FAIL: {bad}")


if __name__ == "__main__":
    main(*sys.argv[1:])
