#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""With REQUIRE_GPU=1 a lesson fails that is skipped for want of a GPU, and none that is skipped for something else:
require_gpu_test.py VMM_BASICS FABRIC, on the toolkit's stub of a driver."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

FABRIC, VMM_BASICS = sys.argv.pop(), sys.argv.pop()
TESTS = pathlib.Path(__file__).resolve().parent
ROOT = TESTS.parent

FOR_WANT_OF_A_GPU = [  # status, where it says so, what it says
    (77, 1, "SKIP: only the toolkit's stub of a driver; install the NVIDIA driver"),
    (77, 1, "SKIP: the driver sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES"),
    (77, 1, "SKIP: the driver is for CUDA 12.4, this program for 13.0; update the driver"),
    (77, 1, "SKIP: needs 2 GPUs, sees 1; use a larger machine, or widen CUDA_VISIBLE_DEVICES"),
    (127, 2, "lesson: error while loading shared libraries: libcuda.so.1: cannot open shared object file"),
    (127, 2, "lesson: symbol lookup error: lesson: undefined symbol: cuMemCreate"),
]
FOR_SOMETHING_ELSE = [
    (77, 1, "SKIP: NCCL_NVLS_ENABLE=0 refuses multicast here; only whoever runs the machine can lift that"),
    (77, 1, "SKIP: no channel file in /dev/nvidia-caps-imex-channels, and cuMemCreate is refused; as root: mkdir"),
    (77, 1, "SKIP: GPU 0 cannot reach the memory of GPU 1; choose GPUs that can with CUDA_VISIBLE_DEVICES"),
    (77, 1, "SKIP: NVIDIA H200 has no virtual memory management; use bare metal"),
]


class RequireGpu(unittest.TestCase):
    def status(self, verb, program, require, *more):
        environment = {name: value for name, value in os.environ.items() if name != "REQUIRE_GPU"}
        done = subprocess.run(
            [sys.executable, "-B", "-m", "tests.lesson_test", verb, program, *more],
            env={**environment, **require},
            capture_output=True,
            text=True,
        )
        self.assertEqual("FAIL: REQUIRE_GPU=1, and " in done.stderr, done.returncode == 1, done)
        return done.returncode

    def check(self, program, expected, required):
        for verb, more in ("run", [expected]), ("sanitizer", []):
            self.assertEqual(self.status(verb, program, {}, *more), 77)
            self.assertEqual(self.status(verb, program, {"REQUIRE_GPU": ""}, *more), 77)
            self.assertEqual(self.status(verb, program, {"REQUIRE_GPU": "1"}, *more), required)

    def test_programs_on_no_driver(self):
        self.check(VMM_BASICS, ROOT / "01_vmm_basics" / "expected_output.txt", 1)
        self.check(FABRIC, ROOT / "05_fabric" / "expected_output.txt", 1)

    def test_each_reason(self):
        with tempfile.TemporaryDirectory() as scratch:
            program, expected = pathlib.Path(scratch) / "vmm_basics", pathlib.Path(scratch) / "expected_output.txt"
            expected.write_text("OK\n")
            for reasons, required in (FOR_WANT_OF_A_GPU, 1), (FOR_SOMETHING_ELSE, 77):
                for status, stream, text in reasons:
                    program.write_text(f'#!/bin/sh\necho "{text}" >&{stream}\nexit {status}\n')
                    program.chmod(0o755)
                    with self.subTest(text):
                        self.check(program, expected, required)

    def test_the_reasons_are_those_of_the_programs(self):
        files = "common/check.h", "scripts/run_lessons.py"
        sources = "".join((ROOT / name).read_text() for name in files)
        for words in (
            "only the toolkit's stub of a driver; ",
            "the driver sees no GPU; ",
            "the driver is for CUDA %d.%d, ",
            "needs %d GPUs, sees %d; ",
            "no NVIDIA driver on this machine ",
            "the NVIDIA driver is too old ",
        ):
            self.assertIn(words, sources)


if __name__ == "__main__":
    unittest.main()
