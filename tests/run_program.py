# SPDX-License-Identifier: MIT-0
"""Runs programs and says whether they did what they should. It needs no pytest: it also runs where a user has none.

    run_program.py run PROGRAM EXPECTED      on the real GPUs: it works, and prints what was recorded; or skips
    run_program.py sanitizer PROGRAM         the same under compute-sanitizer: no bad access, no leaked memory of
                                             cudaMalloc (that of cuMemCreate the sanitizer doesn't see)
    run_program.py on_gpus PROGRAM           on the real GPUs: a test's own program, which prints what it likes
    run_program.py skips REASON PROGRAM...   each skips here, for this reason
    run_program.py simulated EXPECTED VMMSIM PROGRAM GPUS
                                             a program of a lesson, with its arguments for simulated GPUs: it works,
                                             says nothing on stderr, prints what was recorded on hardware, and takes
                                             no longer than somebody waits for it
    run_program.py small VMMSIM PROGRAM      the same program with little work to do: it works, and says nothing on
                                             stderr
    run_program.py skip REASON               stands in for a test that was not built

What differs from program to program stands in the lesson's lesson.json.

Exit status 0, 77 for a skip (its reason is in the output), 1 otherwise. With REQUIRE_GPU=1 in the environment run and
sanitizer fail where they would skip for want of a GPU, of its driver or of enough GPUs.
"""

import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

from scripts.lessons import on_simulator, program_config, short_args, source_of
from scripts.run_lessons import classify, count_gpus
from scripts.transcript import expectations, pair

QUIET = "--strict", "--slow-after", "600"  # on a busy machine a kernel may be slow
# compute-sanitizer 2025.3 takes each __managed__ variable for a leak of the call in which the runtime allocates it.
OF_MANAGED_VARIABLES = re.compile(r"^=+ Leaked .*\n=+ +Saved host backtrace.*\n=+ +Host Frame: cudaSetDevice ", re.M)


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
    done = start(tool, "--target-processes=all", "--report-api-errors=no", "--leak-check=full", program)
    if done.returncode:
        fail(f"under compute-sanitizer it ended with {done.returncode}")
    summary = re.search(r"ERROR SUMMARY: (\d+) error", done.stdout)
    if not summary:
        fail("compute-sanitizer gave no summary")
    if errors := int(summary[1]) - len(OF_MANAGED_VARIABLES.findall(done.stdout)):
        fail(f"compute-sanitizer found {errors} errors")


def skips(reason, *programs):
    for program in programs:
        done = start(program)
        if not outcome(done):
            fail(f"{program} did not skip")
        line = next(line for line in done.stdout.splitlines() if line.startswith("SKIP: "))
        if reason not in line or "; " not in line:
            fail(f"another reason, or no remedy: {line}")


# --- on the simulator


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


def as_recorded(file, *command, changes=None, on_stderr=""):
    expected = changed(file, changes or {})
    done = start(*command)
    if outcome(done):
        fail("it skipped")
    if not as_wanted(on_stderr, done.stderr):
        fail(f"on stderr it should say {on_stderr or 'nothing'}")
    wrong = difference(expected, done.stdout, command)
    if wrong:
        fail(f"{file}: {wrong}")


def simulated(file, vmmsim, program, gpus):
    name = name_of(program)
    its = program_config(name)
    wanted = {"changes": its.get("changes", {}), "on_stderr": its.get("on_stderr", "")}
    as_recorded(file, vmmsim, *QUIET, "--gpus", gpus, program, *on_simulator(name), **wanted)
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


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
