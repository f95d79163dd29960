# SPDX-License-Identifier: MIT-0
"""The checking header prints what it promises and exits as it promises."""

import pathlib
import re
import subprocess

import pytest

from vmmsim.built import BUILT

PROGRAM, ARCHITECTURES = BUILT["check_test"], BUILT["check_test_architectures"]
VMMSIM = [BUILT["vmmsim"]] if "vmmsim" in BUILT else []
SOURCE = pathlib.Path(__file__).with_name("check_test.cu").read_text().splitlines()


def at(statement):
    """Where the statement stands in the program, as an error names the place."""
    return f"check_test.cu:{1 + SOURCE.index('    ' + statement)}: "


def test_the_header_is_short():  # whoever reads the first lesson reads it too
    header = pathlib.Path(__file__).parents[1] / "common" / "check.h"
    assert len(header.read_text().splitlines()) <= 80


def run_case(*arguments, by=()):
    done = subprocess.run([*by, PROGRAM, *arguments], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("the story so far\n"), done
    return done


def fails(case, status, stdout="", stderr=()):
    """The case exits with this status, having printed this and not gone on; the error names each of these."""
    done = run_case(*case.split())
    assert done.returncode == status, done
    assert done.stdout == "the story so far\n" + stdout
    for part in stderr:
        assert part in done.stderr
    if not stderr:
        assert done.stderr == ""


def test_what_holds_passes():
    done = run_case("success")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "the story so far\n    cudaErrorInvalidValue\n      -> cudaErrorInvalidValue\nwent on\n"


def test_a_failing_driver_call_is_told():  # its name comes from the driver, which may not be there
    fails(
        "driver_call_fails",
        1,
        stderr=[at("CHECK(CUDA_ERROR_INVALID_VALUE);") + "failed CUDA_ERROR_INVALID_VALUE\n", " (1): "],
    )


def test_a_failing_runtime_call_is_told():
    fails(
        "runtime_call_fails",
        1,
        stderr=[
            at("CHECK(cudaErrorMemoryAllocation);") + "failed cudaErrorMemoryAllocation\n",
            "cudaErrorMemoryAllocation (2): out of memory\n",
        ],
    )


def test_another_answer_than_the_refusal_is_told():
    fails(
        "wrong_answer",
        1,
        "    cudaErrorNotPermitted\n      -> cudaErrorNotPermitted\n",
        [
            at("REFUSED(cudaErrorInvalidValue, cudaErrorNotPermitted);") + "wrong answer from cudaErrorNotPermitted\n",
            "cudaErrorNotPermitted, expected cudaErrorInvalidValue\n",
        ],
    )


def test_a_missing_refusal_is_told():
    fails(
        "no_refusal",
        1,
        "    cudaSuccess\n      -> cudaSuccess\n",
        ["cudaSuccess, expected cudaErrorInvalidValue\n"],
    )


def test_a_missing_requirement_is_a_skip():
    fails("requirement_missing", 77, "SKIP: needs 3 of it; get more\n")


def test_a_broken_expectation_is_told():
    fails(
        "expectation_broken",
        1,
        stderr=[
            at('EXPECT(argc % 2 == 1, "%d%% of it is wrong", 50);') + "expected argc % 2 == 1\n  50% of it is wrong\n"
        ],
    )


def test_the_gate_refuses_the_stub_of_a_driver():
    fails("gate", 77, "SKIP: only the toolkit's stub of a driver; install the NVIDIA driver\n")


@pytest.mark.skipif(not VMMSIM, reason="no simulator was given")
def test_no_code_for_this_gpu_is_a_skip():
    """Newer PTX than the driver's, or machine code for other GPUs alone: what is there, and what to build."""
    built = " ".join(f"{it[:-1]}.{it[-1]}" for it in re.findall(r"\d+", ARCHITECTURES)) or "[0-9. ]+"

    def skip(gpu):
        here = rf"for GPU {gpu} \(compute capability 9.0\), only for {built}"
        how = r"build it with nvcc -arch=sm_90 \(CMake: -DCMAKE_CUDA_ARCHITECTURES=90\), or update the driver"
        return rf"SKIP: this program has no code that the driver takes {here}; {how}\n"

    for error in "UNSUPPORTED_PTX_VERSION", "NO_BINARY_FOR_GPU":
        fails = *VMMSIM, "--gpus", "2", "--fail", f"cudaLaunchKernel:1=CUDA_ERROR_{error}"
        done = run_case("launch", by=fails)
        assert (done.returncode, done.stderr) == (77, ""), done
        assert re.search(rf"\Athe story so far\n{skip(gpu=1)}\Z", done.stdout)
    done = run_case("launch", by=[*VMMSIM, "--gpus", "2"])
    assert (done.returncode, done.stdout) == (0, "the story so far\nwent on\n"), done
    done = run_case("no_code", by=VMMSIM)
    assert (done.returncode, done.stderr) == (77, ""), done
    assert re.search(rf"\Athe story so far\n{skip(gpu=0)}contexts: 0\n\Z", done.stdout)


def test_arguments_are_read():
    for given, read in [("", "size 4 full 0"), ("--size 9", "size 9 full 0"), ("--full --size 1", "size 1 full 1")]:
        assert read + "\nwent on\n" in run_case("arguments", *given.split()).stdout
    done = run_case("arguments", "--size", "3", "--help")
    assert (done.returncode, done.stdout) == (0, "the story so far\nusage: arguments\n")


def test_bad_arguments_are_refused():
    for given, named in [
        ("--size 0", "--size 0"),
        ("--size 10", "--size 10"),
        ("--size", "--size"),
        ("--size x", "x"),
        ("--size 3x", "3x"),
        ("--size 99999999999999999999", "--size 9999"),
        ("more", "more"),
        ("--other 3", "--other"),
        ("--full 1", "1"),
        ("--siz 1", "--siz"),
        ("--size --full", "--full"),
    ]:
        fails("arguments " + given, 2, stderr=["bad argument: ", named, "usage: arguments\n"])
    fails("arguments --size  3 ", 0, "size 3 full 0\nwent on\n")
    done = run_case("arguments", "--size", "")
    assert done.returncode == 2
