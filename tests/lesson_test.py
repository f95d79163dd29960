#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The tests that every lesson has.

    lesson_test.py run PROGRAM EXPECTED      on the real GPUs: it works, and prints what was recorded; or skips
    lesson_test.py sanitizer PROGRAM         the same under compute-sanitizer: no bad access, no leaked memory
    lesson_test.py on_gpus PROGRAM           on the real GPUs: a test's own program, which prints what it likes
    lesson_test.py skips REASON PROGRAM...   each skips here, for this reason
    lesson_test.py arguments PROGRAM...      --help and bad arguments, of those that take some
    lesson_test.py standalone SOURCE NVCC EXPECTED [VMMSIM]
                                             the line at the top of the source builds it, in a copy of its directory,
                                             and what it builds runs on the simulator, a main program as recorded;
                                             the lines of the others beside that have its form, and what they include
    lesson_test.py lint SOURCE CUDA          clang-tidy has nothing to say
    lesson_test.py old_toolkit NVCC CMAKE... CMake, with these arguments, refuses a toolkit that is too old
    lesson_test.py book DIRECTORY VIEWS BIN  the book builds without a warning, with the views of what is built
    lesson_test.py skip REASON               stands in for a test that was not built

Exit status 0, 77 for a skip (its reason is in the output), 1 otherwise. With REQUIRE_GPU=1 in the environment run and
sanitizer fail where they would skip for want of a GPU, of its driver or of enough GPUs.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from scripts.run_lessons import classify, count_gpus, source_of
from scripts.transcript import expectations, pair

ROOT = pathlib.Path(__file__).resolve().parent.parent


def fail(message):
    sys.exit(f"FAIL: {message}")


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(77)


def start(*command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr, flush=True)
    return done


def outcome(done):
    """Ends the test if the program failed. Whether it was skipped."""
    result, reason = classify(done.returncode, done.stdout, done.stderr)
    if result == "FAIL":
        fail(reason)
    if (result == "SKIP") != (done.returncode != 0):
        fail(f"exit status {done.returncode} for {result}")
    return result == "SKIP"


WANT_OF_A_GPU = [  # the reasons of such skips
    "no NVIDIA driver on this machine",
    "the NVIDIA driver is too old",
    "only the toolkit's stub of a driver",
    "the driver is for CUDA",
    "this program has no code that the driver takes",
    "the driver sees no GPU",
    r"needs \d+ GPUs, sees \d+",
]


def outcome_on_gpus(done):
    """The same for a test on the real GPUs, which may be required."""
    skipped = outcome(done)
    _, reason = classify(done.returncode, done.stdout, done.stderr)
    wanting = re.match("|".join(WANT_OF_A_GPU), reason)
    if skipped and wanting and os.environ.get("REQUIRE_GPU") == "1":
        fail(f"REQUIRE_GPU=1, and {reason}")
    return skipped


def run(program, expected):
    done = start(program)
    skipped = outcome_on_gpus(done)
    if not skipped and re.search("^SKIP: ", done.stdout, re.MULTILINE):
        fail("a SKIP line and exit status 0")
    difference = None
    if done.returncode != 127:
        difference = pair(expectations(pathlib.Path(expected).read_text()), done.stdout, count_gpus()[0] or None)[1]
    if difference:
        fail(f"{expected}: {difference}")
    sys.exit(77 if skipped else 0)


def on_gpus(program):
    """A test's own program, which says by itself what is wrong."""
    sys.exit(77 if outcome_on_gpus(start(program)) else 0)


def sanitizer(program):
    if outcome_on_gpus(start(program)):
        sys.exit(77)
    tool = shutil.which("compute-sanitizer")
    if not tool:
        skip("no compute-sanitizer on the PATH; it comes with the CUDA toolkit")
    # Lessons show calls that are refused, so the refusal of a call is no finding.
    done = start(
        tool, "--target-processes=all", "--report-api-errors=no", "--leak-check=full", "--error-exitcode=42", program
    )
    if done.returncode:
        fail(f"compute-sanitizer ended with {done.returncode}")
    if "ERROR SUMMARY: 0 errors" not in done.stdout:
        fail("compute-sanitizer gave no summary")


def skips(reason, *programs):
    for program in programs:
        done = start(program)
        if not outcome(done):
            fail(f"{program} did not skip")
        line = next(line for line in done.stdout.splitlines() if line.startswith("SKIP: "))
        if reason not in line or "; " not in line:
            fail(f"another reason, or no remedy: {line}")


def arguments(*programs):
    taking = [program for program in programs if takes_arguments(source_of(os.path.basename(program)))]
    if not taking:
        fail("no program takes arguments")
    for program in taking:
        takes_arguments_as_it_says(program)


def takes_arguments(source):
    return "check::arguments(" in source.read_text()


def takes_arguments_as_it_says(program):
    done = start(program, "--help")
    if done.returncode or not done.stdout.startswith(f"usage: {os.path.basename(program)}") or done.stderr:
        fail(f"{program} --help does not print the usage")
    usage = done.stdout
    bad = [["--no-such-option"], ["surplus"], [""], ["-h"]]
    for option, argument in re.findall(r"^  (--[a-z-]+)( [A-Z]+)?", usage, re.MULTILINE):
        if argument == " FILE":
            bad += [[option], [option, ""]]
        elif argument:
            bad += [[option], [option, "x"], [option, "-1"], [option, "99999999999999999999"]]
        else:
            bad += [[option, "1"]]
    for words in bad:
        done = start(program, *words)
        if done.returncode != 2 or usage not in done.stderr or done.stdout:
            fail(f"{program} {words} does not end with status 2 and the usage")


def line_of(source):
    """What builds it alone."""
    line = re.search(r"^// Build it alone: +(nvcc .*)$", source.read_text(), re.MULTILINE).group(1)
    name = source.stem
    if not re.fullmatch(rf"nvcc -std=c\+\+17( -arch=sm_90)?( -lineinfo)? {name}\.cu -o {name} -lcuda", line):
        fail(f"{source} is to be built by another kind of line than all others: {line}")
    return line


def standalone(source, nvcc, expected, vmmsim=None):
    source = pathlib.Path(source)
    line, is_main = line_of(source), pathlib.Path(expected).name == "expected_output.txt"
    with tempfile.TemporaryDirectory(prefix="standalone ") as scratch:
        copy = pathlib.Path(scratch) / source.parent.name
        shutil.copytree(source.parent, copy)
        shutil.copytree(ROOT / "common", copy.parent / "common")
        environment = {**os.environ, "PATH": f"{os.path.dirname(nvcc)}:{os.environ['PATH']}"}
        done = start("sh", "-c", line, cwd=copy, env=environment)
        if done.returncode or "warning" in done.stdout + done.stderr:
            fail(f"it does not build cleanly: {line}")
        if takes_arguments(source):
            done = start(str(copy / source.stem), "--help")
            if done.returncode or not done.stdout.startswith("usage: "):
                fail("built alone, it does not start")
        words = "lesson", expected, vmmsim, str(copy / source.stem), "2"
        if not is_main:
            words = "small", vmmsim, str(copy / source.stem)
        if vmmsim and start(sys.executable, "-B", "-m", "tests.on_simulator.sim_test", *words, cwd=ROOT).returncode:
            fail("built alone, it does not work on the simulator")
        for other in sorted(copy.glob("*.cu")) if is_main else ():
            words = line_of(other).partition(" -o ")[0]
            if start("sh", "-c", f"{words} -M -o /dev/null", cwd=copy, env=environment).returncode:
                fail(f"{other.name} includes what is not beside it")


def lint(source, cuda):
    tool = pathlib.Path(sys.executable).with_name("clang-tidy")
    if not tool.exists():
        skip("no clang-tidy beside this Python that can read CUDA 13; ./test.sh gets it")
    bound = ["-Xclang", "-analyzer-config", "-Xclang", "max-nodes=30000"]  # without it twice as long, and nothing more
    with tempfile.TemporaryDirectory() as last:
        # Clang reads this header of cuRAND before any program. Where the toolkit has no cuRAND, it may be empty.
        (pathlib.Path(last) / "curand_mtgp32_kernel.h").touch()
        how = f"-x cuda -std=c++17 --cuda-host-only -nocudalib -idirafter {last}".split()
        how += [f"--cuda-path={cuda}", "-isystem", f"{cuda}/include/cccl", *bound]
        done = start(str(tool), "--quiet", f"--config-file={ROOT}/.clang-tidy", source, "--", *how)
    if done.returncode or "warning:" in done.stdout or "error:" in done.stdout:
        fail("clang-tidy has something to say")


def old_toolkit(nvcc, cmake, *options):
    with tempfile.TemporaryDirectory() as scratch:  # this compiler, which says that it is of CUDA 12.8
        older = pathlib.Path(scratch)
        for part, number in (("MAJOR", 12), ("MINOR", 8)):
            with open(older / "older.h", "a") as header:
                header.write(f"#undef __CUDACC_VER_{part}__\n#define __CUDACC_VER_{part}__ {number}\n")
        (older / "nvcc").write_text(f"#!/bin/sh\nexec '{nvcc}' -include '{older}/older.h' \"$@\"\n")
        (older / "nvcc").chmod(0o755)
        done = start(cmake, "-S", str(ROOT), "-B", f"{older}/build", f"-DCMAKE_CUDA_COMPILER={older}/nvcc", *options)
    if done.returncode == 0 or "is too old: the lessons need 12.9 or later" not in re.sub(r"\s+", " ", done.stderr):
        fail("CMake does not say that CUDA 12.8 is too old")


def book(directory, views, programs):
    if importlib.util.find_spec("sphinx") is None:
        skip("Sphinx is not installed for this Python; ./test.sh gets it")
    for old in directory, views:
        shutil.rmtree(old, ignore_errors=True)  # or a page that was taken out would stay
    built = [path.name for path in sorted(ROOT.glob("[0-9][0-9]_*")) if pathlib.Path(programs, path.name[3:]).exists()]
    if built and pathlib.Path(programs, "vmmsim").exists():
        if start(sys.executable, "-B", "-m", "docs.tools.lesson_views", programs, views, *built, cwd=ROOT).returncode:
            fail("a lesson has no view")
        for file in pathlib.Path(views).iterdir():
            if file.stat().st_size > 500_000:
                fail(f"{file} has more than 500 kB")
    places = "-D", f"views={views}", "-D", f"web={pathlib.Path(views).parent / 'web'}"
    options = *"-q -E -W --keep-going -c docs".split(), *places
    done = start(sys.executable, "-B", "-m", "sphinx", *options, ".", directory, cwd=ROOT)
    if done.returncode or done.stderr:
        fail("Sphinx has something to say")
    if not (pathlib.Path(directory) / "docs" / "index.html").exists():
        fail("there is no book")
    for file in pathlib.Path(views).glob("*.html"):
        (page,) = pathlib.Path(directory).glob(f"[0-9][0-9]_{file.stem}/README.html")
        if file.read_text() not in page.read_text():
            fail(f"{page} has no view")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
