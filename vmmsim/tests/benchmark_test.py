# SPDX-License-Identifier: MIT-0
"""The benchmark's output is read, and two of them are compared."""

import copy
import re
import subprocess

from tests.benchmark import compared, parsed, printed
from vmmsim.built import BUILT

PROGRAM = BUILT["benchmark"]


def test_it_is_compared():
    done = subprocess.run([PROGRAM, "2", "fill", "sum"], capture_output=True, text=True, check=True)
    old = parsed(done.stdout)
    assert list(old["kernels"]) == ["fill", "sum"]
    assert parsed(printed(old)) == old
    assert compared(old, old)[1]
    new = copy.deepcopy(old)
    new["kernels"]["sum"]["best"] *= 1.3
    lines, is_good = compared(old, new)
    assert not is_good
    assert re.search(r"^sum .* 1\.30  slower$", lines[1])
    new = copy.deepcopy(old)
    new["kernels"]["fill"]["result"] = "00000000"
    assert re.search(r"^fill .* 1\.00  another result$", compared(old, new)[0][0])
