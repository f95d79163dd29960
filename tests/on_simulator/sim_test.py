#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The lessons, unchanged, on the simulator.

    sim_test.py run EXPECTED -- COMMAND            it works, says nothing on stderr, and prints what was recorded on
                                                   hardware
    sim_test.py facts EXPECTED -- COMMAND          it prints what was recorded; on stderr it may say what it likes
    sim_test.py lesson EXPECTED VMMSIM PROGRAM GPUS
                                                   a program of a lesson, with its arguments for simulated GPUs; it
                                                   takes no longer than somebody waits for it
    sim_test.py small VMMSIM PROGRAM               it works, with little work to do, and says nothing on stderr
    sim_test.py csv VMMSIM PROGRAM...              those that measure, with --csv: the rows are as a page wants them,
                                                   and a file that cannot be written ends them with status 2
    sim_test.py skips VMMSIM MACHINE PROGRAM...    those of the programs that must skip on this machine do so, for the
                                                   right reason; where none must, one of them works
    sim_test.py no_code VMMSIM PROGRAM...          each says what to build, where the driver takes none of its code

What differs from program to program stands in the lesson's lesson.json.

Exit status 0, 1 on a failure.
"""

import concurrent.futures
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
from csv import DictReader

from scripts.run_lessons import on_simulator, program_config, short_args, source_of
from scripts.transcript import expectations, pair
from tests.lesson_test import classify, fail, outcome, start

HERE = pathlib.Path(__file__).resolve().parent

# Machines on which every program skips, by the gate of check.h; and those with eight GPUs of which two suffice.
ALL_SKIP = {"no_gpu": "the driver sees no GPU", "old_driver": "the driver is for CUDA 12.4, this program for"}
TWO_SUFFICE = "no_multicast", "no_fabric", "no_channel", "no_fd_handles", "no_compression"
# The smallest machines, on which those that need no more have to work.
ALL_RUN = "one_gpu", "laptop"

QUIET = "--strict", "--slow-after", "600"  # on a busy machine a kernel may be slow


def name_of(program):
    return os.path.basename(program).removesuffix("_small")


def as_wanted(words, errors):
    return words in errors if words else not errors


def difference(expected, output, command):
    gpus = int(command[command.index("--gpus") + 1]) if "--gpus" in command else None
    return pair(expectations(expected), output, gpus)[1]


def changed(file, changes):
    """What the file expects, for other arguments: with each of these regular expressions replaced."""
    expected = pathlib.Path(file).read_text()
    for old, new in changes.items():
        expected, times = re.subn(old, new, expected)
        if not times:
            fail(f"{file} has nothing to change for {old!r}")
    return expected


def run(file, dashes, *command, changes=None, on_stderr=""):
    expected = changed(file, changes or {})
    done = start(*command)
    if outcome(done):
        fail("it skipped")
    if on_stderr is not None and not as_wanted(on_stderr, done.stderr):
        fail(f"on stderr it should say {on_stderr or 'nothing'}")
    wrong = difference(expected, done.stdout, command)
    if wrong:
        fail(f"{file}: {wrong}")


def facts(file, *words):
    run(file, *words, on_stderr=None)


def lesson(file, vmmsim, program, gpus):
    name = name_of(program)
    its = program_config(name)
    wanted = {"changes": its.get("changes", {}), "on_stderr": its.get("on_stderr", "")}
    run(file, "--", vmmsim, *QUIET, "--gpus", gpus, program, *on_simulator(name), **wanted)
    if "TESTS_ARE_EMULATED" in os.environ:  # an emulator's time is no measure
        return
    # With their children, if these were waited for. What 2 cores do: a busy machine changes little in that.
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    limit = 2 * (30 if measures(program) else 5)
    if used.ru_utime + used.ru_stime > limit:
        fail(f"it took {used.ru_utime + used.ru_stime:.1f} s of the processors' time, more than {limit}")


def small(vmmsim, program):
    name = name_of(program)
    done = start(vmmsim, *QUIET, "--gpus", "2", program, *short_args(name))
    if outcome(done) or not as_wanted(program_config(name).get("on_stderr", ""), done.stderr):
        fail("it skipped, or says on stderr what it should not")


def measures(program):
    """Whether its usage tells of a file for what it measures."""
    return "--csv FILE" in source_of(name_of(program)).read_text()


def csv(vmmsim, *programs):
    programs = [program for program in programs if measures(program)]
    if not programs:
        fail("no program measures")
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "measured.csv"
        for program in programs:
            command = vmmsim, "--gpus", "2", program, *short_args(name_of(program)), "--csv"
            if outcome(start(*command, str(path))):
                fail("it skipped")
            text = path.read_text()
            head, *lines = text.splitlines()
            about = rf"# {name_of(program)} .*, 2 NVIDIA .*, driver \w.*, CUDA \d.*, \d{{4}}-\d\d-\d\d"
            rows = list(DictReader(lines))
            times = [[float(row[key]) for key in ("min_us", "median_us", "max_us")] for row in rows]
            if not re.fullmatch(about, head) or len(rows) < 8 or any(sorted(each) != each for each in times):
                fail(f"{program} wrote\n{text}")
            done = start(*command, f"{scratch}/none/measured.csv")
            if done.returncode != 2 or f"cannot write {scratch}/none/measured.csv: No such file" not in done.stderr:
                fail(f"{program} does not say that it cannot write, status {done.returncode}")
            path.unlink()


def no_code(vmmsim, *programs):
    launching = 0
    for program in programs:
        fail_first = "--fail", "cudaLaunchKernel:1=CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
        done = start(vmmsim, *QUIET, "--gpus", "2", *fail_first, program, *short_args(name_of(program)))
        if done.returncode == 0:  # it launches nothing
            continue
        launching += 1
        told = re.findall(r"^SKIP: this program has no code .* build it with nvcc -arch=sm_90 .*$", done.stdout, re.M)
        # Status 1: another process of the program misses the one that ended, and says so. It may be one that is silent.
        ended = done.returncode == 1 and "exited with status 77" in done.stderr
        if not (len(told) == 1 and done.returncode in (77, 1) or ended and not told):
            fail(f"{program} does not say what to build: status {done.returncode}")
    if not launching:
        fail("no program launches a kernel")


def skips(vmmsim, machine, *programs):
    def reason_of(program):
        return ALL_SKIP.get(machine) or program_config(name_of(program))["skips"].get(machine)

    def check(program):
        name = name_of(program)
        its = program_config(name)
        fewer = ["--gpus", "2"] if machine in TWO_SUFFICE else []
        command = [vmmsim, *QUIET, "--machine", machine, *fewer, program, *short_args(name)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        reason = reason_of(program)
        result, told = classify(done.returncode, done.stdout, done.stderr)
        right = (
            result == ("SKIP" if reason else "OK")
            and (not reason or reason in told)
            and as_wanted("" if reason else its.get("on_stderr", ""), done.stderr)
        )
        return f"{'ok' if right else 'FAIL'}: {name}: {result} {told}", right, done

    if machine not in ALL_RUN:
        programs = [program for program in programs if reason_of(program)] or programs[:1]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for line, right, done in pool.map(check, programs):
            print(line if right else f"{line}\n{done.stdout}{done.stderr}", flush=True)
            bad += not right
    if bad:
        fail(f"{bad} of {len(programs)} programs")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
