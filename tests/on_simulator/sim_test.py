# SPDX-License-Identifier: MIT-0
"""The lessons, unchanged, on simulated machines that lack one thing each; and what they write with --csv.

Each runs with little to do: as lesson.json says, and where it makes a smaller program, as that.
"""

import pathlib
import re
from csv import DictReader

import pytest

from scripts.lessons import program_config, short_args
from scripts.run_lessons import classify
from tests.lessons_test import SOURCES, start
from tests.run_program import QUIET, as_wanted, measures
from vmmsim.built import BUILT

PROGRAMS = [source.stem for source in SOURCES]
LAUNCHING = [source.stem for source in SOURCES if re.search("<<<|cudaLaunchKernel", source.read_text())]
MACHINES = BUILT["machines"].split()

# Machines on which every program skips, by the gate of check.h; and those with eight GPUs of which two suffice.
ALL_SKIP = {"no_gpu": "the driver sees no GPU", "old_driver": "the driver is for CUDA 12.4, this program for"}
TWO_SUFFICE = "no_multicast", "no_fabric", "no_channel", "no_fd_handles", "no_compression"
# The smallest machines, on which those that need no more have to work.
ALL_RUN = "one_gpu", "laptop"


def reason_to_skip(machine, program):
    return ALL_SKIP.get(machine) or program_config(program)["skips"].get(machine)


def on_machines():
    """Each machine with the programs that must skip there. Where none must, and on the smallest, others work."""
    for machine in MACHINES:
        skipping = [program for program in PROGRAMS if reason_to_skip(machine, program)]
        for program in PROGRAMS if machine in ALL_RUN else skipping or PROGRAMS[:1]:
            yield pytest.param(machine, program, id=f"{machine}-{program}")


@pytest.mark.parametrize(("machine", "program"), [*on_machines()])
def test_it_works_or_skips_for_the_right_reason(machine, program):
    """It skips for the right reason, or works."""
    reason = reason_to_skip(machine, program)
    fewer = ["--gpus", "2"] if machine in TWO_SUFFICE else []
    done = start(BUILT["vmmsim"], *QUIET, "--machine", machine, *fewer, BUILT[f"small {program}"], *short_args(program))
    result, told = classify(done.returncode, done.stdout, done.stderr)
    assert result == ("SKIP" if reason else "OK"), f"{told}\n{done.stdout}\n{done.stderr}"
    assert (reason or "") in told
    assert as_wanted("" if reason else program_config(program).get("on_stderr", ""), done.stderr), done.stderr


@pytest.mark.parametrize("program", LAUNCHING)
def test_no_code_is_a_skip(program):
    """Where the driver takes none of its code, it says what to build."""
    refused = "--fail", "cudaLaunchKernel:1=CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
    built = pathlib.Path(BUILT["build"], "bin", program)
    done = start(BUILT["vmmsim"], *QUIET, "--gpus", "2", *refused, built, *short_args(program))
    told = re.findall(r"^SKIP: this program has no code .* build it with nvcc -arch=sm_90 .*$", done.stdout, re.M)
    # Status 1: another process of the program misses the one that ended, and says so. It may be one that is silent.
    ended = done.returncode == 1 and "exited with status 77" in done.stderr
    assert len(told) == 1 and done.returncode in (77, 1) or ended and not told, done


@pytest.mark.parametrize("program", [program for program in PROGRAMS if measures(program)])
def test_csv_is_as_a_page_wants_it(program, tmp_path):
    """The rows are as a page wants them, and a file that cannot be written ends it with status 2."""
    command = BUILT["vmmsim"], "--gpus", "2", BUILT[f"small {program}"], *short_args(program), "--csv"
    done = start(*command, tmp_path / "measured.csv")
    assert done.returncode == 0, done
    head, *lines = (tmp_path / "measured.csv").read_text().splitlines()
    assert re.fullmatch(rf"# {program} .*, 2 NVIDIA .*, driver \w.*, CUDA \d.*, \d{{4}}-\d\d-\d\d", head)
    assert len(lines) > 8
    for row in DictReader(lines):
        times = [float(row[key]) for key in ("min_us", "median_us", "max_us")]
        assert times == sorted(times)
    done = start(*command, tmp_path / "none/measured.csv")
    assert done.returncode == 2
    assert f"cannot write {tmp_path}/none/measured.csv: No such file" in done.stderr
