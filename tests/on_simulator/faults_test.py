#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Every call of a lesson fails once: faults_test.py VMMSIM PROGRAM

One run with --trace tells which calls the program makes, and from where. Then, for each place, its first call fails by
--fail. The program must end soon with status 1, name the call and the error, and leave nothing behind: no process that
goes on, no file, and none of its processes waiting for another. By the lesson's lesson.json a program may make its
calls inside functions, which it names in their place, and drop the result of some of them, for a reason each.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from tests.on_simulator.sim_test import as_wanted, name_of, program_config, short_args
from vmmsim.processes import end_session, in_session

LIMIT = 30  # seconds, and three times as long as the program takes when nothing fails
ERRORS = "CUDA_ERROR_UNKNOWN", "CUDA_ERROR_OUT_OF_MEMORY"  # in turn, but none that a program expects of this call
NAMES = {"CUDA_ERROR_UNKNOWN": "cudaErrorUnknown", "CUDA_ERROR_OUT_OF_MEMORY": "cudaErrorMemoryAllocation"}


def start(vmmsim, options, program, directory, limit):
    """Runs it in a session of its own: (exit status or None for too late, output, errors, what is left behind)."""
    command = [vmmsim, "--strict", "--gpus", "2", *options, program, *short_args(name_of(program))]
    process = subprocess.Popen(
        command,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=directory,
        env={**os.environ, "TMPDIR": str(directory)},
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=limit)
        status = process.returncode
    except subprocess.TimeoutExpired:
        end_session(process.pid)
        return None, *process.communicate(), []
    for _ in range(1000):  # who was killed takes a moment to go
        left = [f"process {pid}" for pid in in_session(process.pid)]
        if not left:
            break
        time.sleep(0.01)
    if left:
        end_session(process.pid)
    return status, output, errors, left + [f"file {path}" for path in directory.iterdir()]


def places(vmmsim, program):
    """The first call of each place: (call, how many of its name came before and it, place). What each call answers when
    nothing fails, and how long to wait.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, tempfile.NamedTemporaryFile() as trace:
        status, output, errors, left = start(vmmsim, ["--trace", trace.name], program, pathlib.Path(scratch), 60)
        if status != 0 or not as_wanted(program_config(name_of(program)).get("on_stderr", ""), errors) or left:
            sys.exit(f"FAIL: without a fault: status {status}, left behind {left}\n{output}{errors}")
        lines = [json.loads(line) for line in trace.read().decode().splitlines()]
    counts, first, answers = collections.Counter(), {}, collections.defaultdict(set)
    for line in filter(lambda line: line["result"], lines):  # calls of CUDA: close and exit have no result
        counts[line["call"]] += 1
        answers[line["call"]].add(line["result"])
        first.setdefault((line["call"], line["callers"][0]), counts[line["call"]])
    limit = LIMIT + 3 * (time.monotonic() - began)
    return [(call, number, place) for (call, place), number in first.items()], answers, limit


def wrong_with(vmmsim, program, call, number, error, limit):
    """Makes this call fail. What is wrong with how the program takes it, or ""."""
    with tempfile.TemporaryDirectory() as scratch:
        fail = ["--fail", f"{call}:{number}={error}"]
        status, output, errors, left = start(vmmsim, fail, program, pathlib.Path(scratch), limit)
    names = [rf"\b{call}\b", program_config(name_of(program)).get("calls_named_as")]
    if call == "cudaLaunchKernel":
        names.append("cudaGetLastError")  # a launch has no result of its own
    if status is None:
        wrong = f"it had not ended after {limit:.0f} s"
    elif left:
        wrong = f"left behind: {left}"
    elif status != 1:
        wrong = f"exit status {status}"
    elif not any(name and re.search(name, errors) for name in names):
        wrong = "stderr does not name the call"
    elif error not in errors and NAMES[error] not in errors:
        wrong = "stderr does not name the error"
    else:
        wrong = ""
    return wrong and f"{wrong}\n--- stdout\n{output}--- stderr\n{errors}---"


def main(vmmsim, program):
    all_places, answers, limit = places(vmmsim, program)
    if len(all_places) < 10:
        sys.exit(f"FAIL: the trace shows {len(all_places)} places only")

    def check(numbered):
        i, (call, number, place) = numbered
        possible = [error for error in ERRORS if not answers[call] & {error, NAMES[error]}]
        error = possible[i % len(possible)]
        wrong = wrong_with(vmmsim, program, call, number, error, limit)
        return call, wrong, f"{call} #{number}, at {place}, answers {error}"

    dropped = {call: len(reasons) for call, reasons in program_config(name_of(program)).get("dropped", {}).items()}
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for call, wrong, what in pool.map(check, enumerate(all_places)):
            if dropped.get(call) and wrong.startswith(("exit status 0", "stderr does not name")):
                dropped[call] -= 1
                print(f"ok: {what}: dropped, as it should be", flush=True)
                continue
            print(f"{'FAIL' if wrong else 'ok'}: {what}{wrong and ': ' + wrong}", flush=True)
            bad += bool(wrong)
    if bad or any(dropped.values()):
        sys.exit(f"FAIL: {bad} of {len(all_places)} places; not dropped: {dropped}")
    print(f"{len(all_places)} places")


if __name__ == "__main__":
    main(*sys.argv[1:])
