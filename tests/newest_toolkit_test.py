#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The lessons with a newer toolkit than the driver, as a user may have it: newest_toolkit_test.py VMMSIM.

The set-up fetches it into a copy of the checkout, in the place of its own. It builds every program without a warning;
and on the simulator, whose driver is for CUDA 13.0, no lesson skips, and each prints what it prints otherwise. Exit
status 0, 77 without a package index (a failure where CI is true), 1 otherwise.
"""

import pathlib
import re
import shutil
import sys

from scripts import run_lessons
from tests.machines import ROOT, Skip, copy_checkout, expect, hiding, need_index, run, scratch
from tests.setup_test import COMPILER

NEWEST = "tests/requirements-newest-cuda.txt"
BUILD = 'set -euo pipefail; source scripts/setup.sh; check_machine; setup; build "$@"'
OPTIONS = "-DVMM_SIMULATOR=OFF", "-DBUILD_TESTING=OFF", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON"


def main(vmmsim):
    need_index()
    with scratch() as directory:
        checkout = copy_checkout(directory / "check out")
        shutil.copy(checkout / NEWEST, checkout / "scripts" / "requirements-cuda.txt")
        environment = hiding(directory, COMPILER)
        done = run(checkout, "bash", "-c", BUILD, "setup", *run_lessons.lessons(), *OPTIONS, environment=environment)
        expect(done.returncode == 0, "it does not build", done)

        (nvcc,) = (checkout / ".venv").glob("lib/python3.*/site-packages/nvidia/cu13/bin/nvcc")
        release = re.search(r"release (\d+\.\d+)", run("/", nvcc, "--version").stdout)[1]
        wanted = re.search(r"^nvidia-cuda-nvcc==(\d+\.\d+)", (ROOT / NEWEST).read_text(), re.MULTILINE)[1]
        expect(release == wanted and release != "13.0", f"the compiler is of CUDA {release}, not {wanted}")

        for lesson in run_lessons.lessons():
            program = checkout / "build" / "bin" / lesson[3:]
            expected = ROOT / lesson / "expected_output.txt"
            test = sys.executable, "-B", "-m", "tests.on_simulator.sim_test", "lesson"
            done = run(ROOT, *test, expected, vmmsim, program, "2")
            expect(done.returncode == 0, f"{lesson}, built with CUDA {release}", done)
            print(f"{lesson}, built with CUDA {release}: as recorded", flush=True)


if __name__ == "__main__":
    try:
        main(pathlib.Path(sys.argv[1]))
    except Skip as skip:
        print(f"SKIP: {skip}")
        sys.exit(77)
    except AssertionError as error:
        sys.exit(f"FAIL: {error}")
