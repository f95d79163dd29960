# SPDX-License-Identifier: MIT-0
"""The tool without its sources, in an empty environment with no nvcc.

A program that knows nothing of the tool, as nvcc builds it, runs, is shown and is recorded.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import pytest

from vmmsim.tests.built import BUILT

NVCC = BUILT["nvcc"], f"-L{pathlib.Path(BUILT['cudart_static']).parent}"
HERE = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = """#include <cuda_runtime.h>
#include <cstdio>
__global__ void add(int n, float* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1;
}
int main() {
  const int n = 1000;
  float* x = nullptr;
  cudaMallocManaged(&x, n * sizeof(float));
  for (int i = 0; i < n; ++i) x[i] = i;
  add<<<4, 256>>>(n, x);
  cudaError_t error = cudaDeviceSynchronize();
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += x[i] != i + 1;
  std::printf("%s, %d wrong\\n", cudaGetErrorString(error), wrong);
  cudaFree(x);
  return wrong != 0;
}
"""


class Installation:
    """What must hold, however it came there."""

    @classmethod
    def setup_class(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="vmmsim installed ")
        cls.place = pathlib.Path(cls.scratch.name)
        (cls.place / "mine.cu").write_text(PROGRAM)
        cls.run_here(*NVCC, "mine.cu", "-o", "mine")
        cls.run_here(sys.executable, "-m", "venv", "empty")
        cls.clean = {name: text for name, text in os.environ.items() if not name.startswith(("CUDA", "CMAKE", "VMM"))}
        cls.clean |= {"PATH": "/usr/bin:/bin"}
        cls.install()

    @classmethod
    def teardown_class(cls):
        cls.scratch.cleanup()

    @classmethod
    def run_here(cls, *command, check=True, **options):
        command = [cls.place / command[0] if "/" in command[0] else command[0], *command[1:]]
        return subprocess.run(command, cwd=cls.place, check=check, capture_output=True, text=True, **options)

    def vmmsim(self, *words, status=0):
        done = self.run_here("empty/bin/vmmsim", *words, check=False, env=self.clean, timeout=60)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def test_a_program_runs(self):
        assert self.vmmsim("--gpus", "2", "./mine").stdout == "no error, 0 wrong\n"

    def test_nvml_is_there(self):
        ask = "import ctypes; n = ctypes.c_uint(); ml = ctypes.CDLL('libnvidia-ml.so.1')"
        ask += "; print(ml.nvmlInit_v2(), ml.nvmlDeviceGetCount_v2(ctypes.byref(n)), n.value)"
        assert self.vmmsim("--gpus", "2", self.place / "empty/bin/python3", "-c", ask).stdout == "0 0 2\n"

    def test_view_writes_one_page_that_needs_no_other_file(self):
        assert "calls of CUDA: open mine.html in a browser" in self.vmmsim("view", "./mine").stderr
        page = (self.place / "mine.html").read_text()
        assert "cudaMallocManaged" in page
        assert re.findall(r"(?:src|href)=\"(?!#)", page) == [], "the page needs another file"

    def test_what_has_no_gpu_is_not_recorded(self):
        said = self.vmmsim("record", "run.jsonl", "./mine", status=1).stderr
        assert "no GPU here: " in said
        library = next(self.place.glob("empty/lib/python3*/site-packages/vmmsim/recorder/libvmm_recorder.so"), None)
        if type(self) is TestInstalled and not library:
            pytest.skip("the build had no CUPTI")
        said = self.run_here("ldd", str(library), env={**self.clean, "LD_LIBRARY_PATH": ""}, check=False).stdout
        assert "libcupti.so" in said

    def test_it_is_told_how(self):
        assert "vmmsim view [options]" in self.vmmsim("--help").stdout
        assert "usage: vmmsim view" in self.vmmsim("view", "--help").stdout
        assert "usage: vmmsim record" in self.vmmsim("record", status=2).stdout
        assert "there is no such program" in self.vmmsim("./none", status=127).stderr


class TestInstalled(Installation):
    """Its parts where pip would put them."""

    @classmethod
    def install(cls):
        (library,) = cls.place.glob("empty/lib/python3*/site-packages")
        cls.run_here(BUILT["cmake"], "--install", BUILT["build"], "--prefix", library / "vmmsim")
        command = cls.place / "empty" / "bin" / "vmmsim"
        command.write_text(f'#!/bin/sh\nexec "{cls.place}/empty/bin/python3" -m vmmsim "$@"\n')
        command.chmod(0o755)


class TestWheel(Installation):
    """What wheels.sh makes, installed by pip."""

    @classmethod
    def install(cls):
        ignored = shutil.ignore_patterns("build*", "__pycache__", "tests")
        shutil.copytree(HERE, cls.place / "vmmsim", ignore=ignored)
        # A compiler of C++, which need not take the time to optimise, and nothing of CUDA.
        quick = cls.place / "c++"
        quick.write_text(f'#!/bin/sh\nexec {BUILT["cxx"]} "$@" -O0\n')
        quick.chmod(0o755)
        environment = {**cls.clean, "CXX": str(quick), "PYTHON": sys.executable}
        done = cls.run_here("vmmsim/wheels.sh", "dist", env=environment, check=False)
        if done.returncode and re.search("No matching distribution|Connection|Temporary failure|imed out", done.stderr):
            if os.environ.get("CI") != "true":
                pytest.skip("no Python package index can be reached; look at the network and at pip's settings")
        if done.returncode:
            raise AssertionError(f"wheels.sh\n{done.stdout}{done.stderr}")
        shutil.rmtree(cls.place / "vmmsim")  # the sources are not needed any more
        (wheel,) = cls.place.glob("dist/*.whl")
        cls.run_here("empty/bin/pip", "install", "--no-index", wheel, env=cls.clean)

    def test_what_is_in_the_wheel(self):
        (wheel,), (source,) = self.place.glob("dist/*.whl"), self.place.glob("dist/*.tar.gz")
        assert re.search(r"^vmmsim-[\d.]+-py3-none-manylinux_2_\d+_(x86_64|aarch64)(\.|$)", wheel.name)
        names = [name.partition("/")[2] for name in zipfile.ZipFile(wheel).namelist()]
        for name in "py.typed", "docs/testing.md", "licenses/LICENSE", "licenses/docs/LICENSE":
            assert name in names
        assert [name for name in names if "libcupti" in name] == []
        names = [name.partition("/")[2] for name in tarfile.open(source).getnames()]
        for name in "LICENSE", "docs/LICENSE", "CHANGELOG.md", "wheels.sh":
            assert name in names
        assert [name for name in names if name.startswith("tests/")] == []
