# SPDX-License-Identifier: MIT-0
"""With REQUIRE_GPU=1 a lesson fails that is skipped for want of a GPU, and none that is skipped for something else

On the toolkit's stub of a driver.
"""

import os
import pathlib
import subprocess
import sys

import pytest

from vmmsim.built import BUILT

VMM_BASICS = str(pathlib.Path(BUILT["build"]) / "bin/vmm_basics")
OTHER = "SKIP: NCCL_NVLS_ENABLE=0 refuses multicast; ask whoever runs the machine"


def status(program, expected, require):
    environment = {name: value for name, value in os.environ.items() if name != "REQUIRE_GPU"} | require
    command = [sys.executable, "-B", "-m", "tests.run_program", "run", program, expected]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ("FAIL: REQUIRE_GPU=1, and " in done.stderr) == (done.returncode == 1), done
    return done.returncode


@pytest.mark.parametrize(("require", "of_gpus"), [({}, 77), ({"REQUIRE_GPU": ""}, 77), ({"REQUIRE_GPU": "1"}, 1)])
def test_what_lacks_a_gpu_fails(tmp_path, require, of_gpus):
    expected, other = tmp_path / "expected_output.txt", tmp_path / "vmm_basics"
    expected.write_text("OK\n")
    other.write_text(f"#!/bin/sh\necho '{OTHER}'\nexit 77\n")
    other.chmod(0o755)
    assert status(VMM_BASICS, expected, require) == of_gpus
    assert status(other, expected, require) == 77
