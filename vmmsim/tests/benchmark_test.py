# SPDX-License-Identifier: MIT-0
"""The benchmark's output is read, and two of them are compared: benchmark_test.py PROGRAM, which runs one kernel."""

import copy
import subprocess
import sys
import unittest

from vmmsim.tests.benchmark import compared, parsed

PROGRAM = sys.argv.pop(1)


class Benchmark(unittest.TestCase):
    def test_it_is_compared(self):
        done = subprocess.run([PROGRAM, "2", "fill", "sum"], capture_output=True, text=True, check=True)
        old = parsed(done.stdout)
        self.assertEqual(list(old["kernels"]), ["fill", "sum"])
        self.assertTrue(compared(old, old)[1])
        new = copy.deepcopy(old)
        new["kernels"]["sum"]["best"] *= 1.3
        lines, is_good = compared(old, new)
        self.assertFalse(is_good)
        self.assertRegex(lines[1], r"^sum .* 1\.30  slower$")
        new = copy.deepcopy(old)
        new["kernels"]["fill"]["result"] = "00000000"
        self.assertRegex(compared(old, new)[0][0], r"^fill .* 1\.00  another result$")


if __name__ == "__main__":
    unittest.main()
