#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Runs the lessons that ./run.sh has built, in order, and ends with a table. Needs the standard library only."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time

from scripts.lessons import PROGRAMS, SIMULATED_GPUS, arguments, on_simulator, programs
from scripts.run import end_with
from vmmsim.hardware import MISSING, NO_DRIVER, count_gpus, lacks_driver
from vmmsim.processes import signal_name
from vmmsim.programs import NotStarted, Output, end_with_session, started

TIME_LIMIT = 300  # seconds; a lesson takes some


def classify(status, output, errors):
    """What the end of a program means: ("OK", ""), ("SKIP", "what is missing; what lifts it") or ("FAIL", "why").

    status is the exit status, negative for a signal; output and errors are what it wrote to stdout and stderr.
    """
    if status == 0:
        return "OK", ""
    if status == 77:
        reasons = re.findall(r"^SKIP: (\S.*; \S.*?)\s*$", output, re.MULTILINE)
        if reasons:
            return "SKIP", reasons[-1]
        return "FAIL", "exit status 77 without a line 'SKIP: what is missing; how to get it'"
    if status == 127:  # the loader gave up, before main or at the first call of a function that is not there
        if MISSING in errors:
            return "SKIP", "no NVIDIA driver on this machine (libcuda.so.1 is not there); install the driver"
        missing = re.search(r"symbol lookup error: .*undefined symbol: (cu[A-Z]\w*)", errors)
        if missing:
            return "SKIP", f"the NVIDIA driver is too old (it has no {missing.group(1)}); update the driver"
    if status < 0:
        return "FAIL", f"ended by {signal_name(-status)}"
    return "FAIL", f"exit status {status}"


def open_stdout():
    """The two ends of a program's stdout. A pipe would make it keep back its output until it ends: so it is a terminal,
    if there is one to be had."""
    try:
        output, theirs = pty.openpty()
        modes = termios.tcgetattr(theirs)
        modes[1] &= ~termios.OPOST  # newlines arrive as they were written
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        return output, theirs
    except OSError:
        return os.pipe()


def show(name, data):
    stream = getattr(sys, name).buffer
    stream.write(data)
    stream.flush()


def run(command, limit=TIME_LIMIT):
    """Runs a program, showing what it writes as it writes it. Returns its result, the reason and the seconds it took.

    The program and the processes it starts are a session of their own, and none of them outlives this call.
    """
    began, left, output, in_time = time.monotonic(), [], None, True

    def end(process):
        left.extend(end_with_session(process))
        while output and output.read(0):
            pass

    streams = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with contextlib.ExitStack() as files:
        stdout, theirs = (files.enter_context(open(end_of_it, "wb", 0)) for end_of_it in open_stdout())
        try:
            with started(command, end, stdout=theirs, **streams) as process:
                theirs.close()
                files.enter_context(process.stderr)  # closed after the program's end
                # In this order: what came before an error is shown before it.
                output = Output(show, stdout=stdout.fileno(), stderr=process.stderr.fileno())
                while process.poll() is None and in_time:
                    output.read(0.1)
                    in_time = time.monotonic() - began < limit
        except NotStarted as error:
            return "FAIL", str(error), 0.0

    seconds = time.monotonic() - began
    if left:
        return "FAIL", left[0], seconds
    if not in_time:
        return "FAIL", f"not done after {limit} seconds", seconds
    return *classify(process.returncode, output.text("stdout"), output.text("stderr")), seconds


def places(gpu, sim):
    """Where to run a lesson, one after the other until it is not skipped: (where, words before the program)."""
    simulator = PROGRAMS / "vmmsim"
    simulated = [(f"{SIMULATED_GPUS} simulated GPUs", [simulator, "--strict", "--gpus", SIMULATED_GPUS])]
    if sim:
        return simulated
    number, why = count_gpus()
    real = [(f"{number or 'no'} GPU{'s' if number > 1 else ''}", [])]
    if gpu:
        return real
    if not simulator.exists():
        print("The simulator is not built here: it needs Linux on 64-bit x86 or Arm.")
        return real
    if number:
        print(f"What this machine's {real[0][0]} cannot run is run on {SIMULATED_GPUS} simulated GPUs.")
        return real + simulated
    print(f"No GPU here: {why}. The lessons run on {SIMULATED_GPUS} simulated GPUs (--gpu leaves the simulator out).")
    return simulated


def run_all(given):
    """Runs them, and returns the exit status."""
    if given.gpu and lacks_driver():
        sys.exit(f"./run.sh --gpu: {NO_DRIVER}: install it, or leave --gpu out to run on simulated GPUs")
    for number in (signal.SIGTERM, signal.SIGHUP):  # leave as on Ctrl-C, with no program left behind
        signal.signal(number, lambda number, _: sys.exit(128 + number))

    rows = []
    to_try = places(given.gpu, given.sim)
    for lesson in given.lessons:
        for program in programs(lesson) if given.all else [lesson[3:]]:
            name = lesson if program == lesson[3:] else f"{lesson} {program}"
            for where, words in to_try:
                more = on_simulator(program) if words else []
                print(f"\n== {' '.join([name, *more])}, {where} ==", flush=True)
                rows.append((name, where, *run([*words, given.programs.absolute() / program, *more])))
                if rows[-1][2] != "SKIP":
                    break

    width, where_width = (max(len(row[i]) for row in rows) for i in (0, 1))
    print(f"\n{'lesson':{width}}  {'where':{where_width}}  result  seconds")
    for lesson, where, result, reason, seconds in rows:
        missing, _, remedy = reason.partition("; ")
        print(f"{lesson:{width}}  {where:{where_width}}  {result:6}  {seconds:7.1f}  {missing}".rstrip())
        if remedy:
            print(f"{'':{width}}  {'':{where_width}}  {'':6}  {'':7}  to lift it: {remedy}")
    others = [f"{lesson[:2]} {' '.join(programs(lesson)[1:])}" for lesson in given.lessons if programs(lesson)[1:]]
    if others and not given.all and given.programs == PROGRAMS:
        print(f"\nThere are other programs, which --all runs too: {'; '.join(others)}.")
    worked = [lesson for lesson in given.lessons if any(row[0] == lesson and row[2] == "OK" for row in rows)]
    if worked and given.programs == PROGRAMS:
        print(f"\nNext, read how it works:         {worked[0]}/README.md")
        if (PROGRAMS / "vmmsim").exists():
            print(f"Or see what each call has done:  ./run.sh --view build/bin/{worked[0][3:]}")
    return 1 if any(row[2] == "FAIL" for row in rows) else 0


if __name__ == "__main__":
    end_with(lambda: run_all(arguments()))
