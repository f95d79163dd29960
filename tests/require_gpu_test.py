# SPDX-License-Identifier: MIT-0
"""With REQUIRE_GPU=1 a lesson fails that is skipped for want of a GPU, and none that is skipped for something else:
require_gpu_test.py VMM_BASICS, on the toolkit's stub of a driver."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

VMM_BASICS = sys.argv.pop()
OTHER = "SKIP: NCCL_NVLS_ENABLE=0 refuses multicast; ask whoever runs the machine"


class RequireGpu(unittest.TestCase):
    def status(self, program, expected, require):
        environment = {name: value for name, value in os.environ.items() if name != "REQUIRE_GPU"} | require
        command = [sys.executable, "-B", "-m", "tests.lesson_test", "run", program, expected]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        self.assertEqual("FAIL: REQUIRE_GPU=1, and " in done.stderr, done.returncode == 1, done)
        return done.returncode

    def test_what_lacks_a_gpu_fails(self):
        with tempfile.TemporaryDirectory() as scratch:
            expected, other = pathlib.Path(scratch) / "expected_output.txt", pathlib.Path(scratch) / "vmm_basics"
            expected.write_text("OK\n")
            other.write_text(f"#!/bin/sh\necho '{OTHER}'\nexit 77\n")
            other.chmod(0o755)
            for require, of_gpus in ({}, 77), ({"REQUIRE_GPU": ""}, 77), ({"REQUIRE_GPU": "1"}, 1):
                self.assertEqual(self.status(VMM_BASICS, expected, require), of_gpus)
                self.assertEqual(self.status(other, expected, require), 77)


if __name__ == "__main__":
    unittest.main()
