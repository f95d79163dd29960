# SPDX-License-Identifier: MIT-0
"""Every call of a lesson fails once.

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
import tempfile
import time

import pytest

from scripts.lessons import program_config, short_args
from tests.lessons_test import SOURCES, name_of
from tests.run_program import as_wanted
from vmmsim.built import BUILT
from vmmsim.processes import end_session, in_session

LIMIT = 30  # seconds, and three times as long as the program takes when nothing fails
ERRORS = "CUDA_ERROR_UNKNOWN", "CUDA_ERROR_OUT_OF_MEMORY"  # in turn, but none that a program expects of this call
NAMES = {"CUDA_ERROR_UNKNOWN": "cudaErrorUnknown", "CUDA_ERROR_OUT_OF_MEMORY": "cudaErrorMemoryAllocation"}


def start(options, program, directory, limit):
    """Runs it in a session of its own: (exit status or None for too late, output, errors, what is left behind)."""
    command = [BUILT["vmmsim"], "--strict", "--gpus", "2", *options, BUILT[f"small {program}"], *short_args(program)]
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


def places(program):
    """The first call of each place: (call, how many of its name came before and it, place). What each call answers when
    nothing fails, and how long to wait.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, tempfile.NamedTemporaryFile() as trace:
        status, output, errors, left = start(["--trace", trace.name], program, pathlib.Path(scratch), 60)
        assert (status, left) == (0, []), f"without a fault: {output}{errors}"
        assert as_wanted(program_config(program).get("on_stderr", ""), errors), errors
        lines = [json.loads(line) for line in trace.read().decode().splitlines()]
    counts, first, answers = collections.Counter(), {}, collections.defaultdict(set)
    # Calls of CUDA: close and exit have no result, and what the compiler calls, such as __cudaInitModule, cannot fail.
    for line in (line for line in lines if line["result"] and not line["call"].startswith("__")):
        counts[line["call"]] += 1
        answers[line["call"]].add(line["result"])
        first.setdefault((line["call"], line["callers"][0]), counts[line["call"]])
    limit = LIMIT + 3 * (time.monotonic() - began)
    return [(call, number, place) for (call, place), number in first.items()], answers, limit


def wrong_with(program, call, number, error, limit):
    """Makes this call fail. What is wrong with how the program takes it, or ""."""
    with tempfile.TemporaryDirectory() as scratch:
        fail = ["--fail", f"{call}:{number}={error}"]
        status, output, errors, left = start(fail, program, pathlib.Path(scratch), limit)
    names = [rf"\b{call}\b", program_config(program).get("calls_named_as")]
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


# Those that measure make many calls, and nobody learns from them how to end.
@pytest.mark.parametrize("source", [it for it in SOURCES if not it.stem.endswith("_cost")], ids=name_of)
def test_each_call_fails(source):
    program = source.stem
    all_places, answers, limit = places(program)
    assert len(all_places) >= 10

    def check(numbered):
        i, (call, number, place) = numbered
        possible = [error for error in ERRORS if not answers[call] & {error, NAMES[error]}]
        error = possible[i % len(possible)]
        return call, wrong_with(program, call, number, error, limit), f"{call} #{number}, at {place}, answers {error}"

    dropped = {call: len(reasons) for call, reasons in program_config(program).get("dropped", {}).items()}
    found = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for call, wrong, what in pool.map(check, enumerate(all_places)):
            if dropped.get(call) and wrong.startswith(("exit status 0", "stderr does not name")):
                dropped[call] -= 1
            elif wrong:
                found.append(f"{what}: {wrong}")
    assert not found, "\n".join(found)
    assert not any(dropped.values()), f"not dropped: {dropped}"
