#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The preset `lessons` leaves the simulator out, and what has to do with it: lessons_alone_test.py CMAKE [OPTIONS...]

Configured with these options besides, one lesson and the tests that need no more are built and run.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from tests.lesson_test import ROOT, fail

RUN = r"^(check_header|arguments\.01_vmm_basics|skips\.no_driver\.01_vmm_basics|docs\.pages|docs\.calls)$"


def run(*command):
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        fail(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main(cmake, *options):
    with tempfile.TemporaryDirectory() as build:
        run(cmake, "--preset", "lessons", "-B", build, *options)
        # What is built and tested has nothing of the simulator.
        targets = run(cmake, "--build", build, "--target", "help")
        for name in ("vmmsim", "simulator_core", "facts_vmm"):
            if name in targets:
                fail(f"it builds {name}")
        ctest = str(pathlib.Path(cmake).with_name("ctest"))
        tests = json.loads(run(ctest, "--test-dir", build, "--show-only=json-v1"))["tests"]
        wrong = [test["name"] for test in tests if "vmmsim" in json.dumps(test) or ".sim" in test["name"]]
        if wrong:
            fail(f"it tests {wrong}")
        # What is left works.
        run(cmake, "--build", build, "--target", "vmm_basics", "check_test")
        print(run(ctest, "--test-dir", build, "-R", RUN, "--no-tests=error", "--output-on-failure"))


if __name__ == "__main__":
    main(*sys.argv[1:])
