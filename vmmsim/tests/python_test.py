# SPDX-License-Identifier: MIT-0
"""NVIDIA's packages for Python, as PyPI has them."""

import importlib.metadata
import pathlib
import subprocess
import sys

import pytest

from vmmsim.built import BUILT
from vmmsim.testing import python_programs

PROGRAMS = pathlib.Path(python_programs.__file__)


@pytest.mark.parametrize("program", ["grow", "share", "runtime", "compile", "link"])
def test_each_program_of_python_runs(program):
    try:
        for package in "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-nvjitlink":
            importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as missing:
        pytest.skip(f"this Python has no {missing.name}; install requirements-python.txt")
    command = [BUILT["vmmsim"], "--gpus", "2", sys.executable, "-B", PROGRAMS, program]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "vmmsim:" not in done.stderr  # cuda.core 1.2.2 warns of itself in grow()
