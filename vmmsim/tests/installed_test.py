# SPDX-License-Identifier: MIT-0
"""The tool without its sources, in an empty environment with no nvcc: installed_test.py HOW CXX CMAKE NVCC [FLAGS...]

HOW is `wheel`, what wheels.sh makes, installed by pip; or a build tree, whose parts CMake puts where pip would. Then a
program that knows nothing of the tool, as nvcc builds it, runs, is shown and is recorded.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

HOW, CXX, CMAKE, *NVCC = sys.argv[1:]
del sys.argv[1:]
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


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="vmmsim installed ")
        cls.addClassCleanup(scratch.cleanup)
        cls.place = pathlib.Path(scratch.name)
        (cls.place / "mine.cu").write_text(PROGRAM)
        cls.run_here(*NVCC, "mine.cu", "-o", "mine")
        cls.run_here(sys.executable, "-m", "venv", "empty")
        cls.clean = {name: text for name, text in os.environ.items() if not name.startswith(("CUDA", "CMAKE", "VMM"))}
        cls.clean |= {"PATH": "/usr/bin:/bin"}
        cls.from_wheel() if HOW == "wheel" else cls.from_build()

    @classmethod
    def from_build(cls):
        (library,) = cls.place.glob("empty/lib/python3*/site-packages")
        cls.run_here(CMAKE, "--install", HOW, "--prefix", library / "vmmsim")
        command = cls.place / "empty" / "bin" / "vmmsim"
        command.write_text(f'#!/bin/sh\nexec "{cls.place}/empty/bin/python3" -m vmmsim "$@"\n')
        command.chmod(0o755)

    @classmethod
    def from_wheel(cls):
        ignored = shutil.ignore_patterns("build*", "__pycache__", "tests")
        shutil.copytree(HERE, cls.place / "vmmsim", ignore=ignored)
        # A compiler of C++, which need not take the time to optimise, and nothing of CUDA.
        quick = cls.place / "c++"
        quick.write_text(f'#!/bin/sh\nexec {CXX} "$@" -O0\n')
        quick.chmod(0o755)
        environment = {**cls.clean, "CXX": str(quick), "PYTHON": sys.executable}
        done = cls.run_here("vmmsim/wheels.sh", "dist", env=environment, check=False)
        if done.returncode and re.search("No matching distribution|Connection|Temporary failure|imed out", done.stderr):
            if os.environ.get("CI") != "true":
                print("SKIP: no Python package index can be reached; look at the network and at pip's settings")
                os._exit(77)
        if done.returncode:
            raise AssertionError(f"wheels.sh\n{done.stdout}{done.stderr}")
        shutil.rmtree(cls.place / "vmmsim")  # the sources are not needed any more
        (wheel,) = cls.place.glob("dist/*.whl")
        cls.run_here("empty/bin/pip", "install", "--no-index", wheel, env=cls.clean)

    @classmethod
    def run_here(cls, *command, check=True, **options):
        command = [cls.place / command[0] if "/" in command[0] else command[0], *command[1:]]
        return subprocess.run(command, cwd=cls.place, check=check, capture_output=True, text=True, **options)

    def vmmsim(self, *words, status=0):
        done = self.run_here("empty/bin/vmmsim", *words, check=False, env=self.clean, timeout=60)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    @unittest.skipUnless(HOW == "wheel", "it was not installed from a wheel")
    def test_what_is_in_the_wheel(self):
        (wheel,), (source,) = self.place.glob("dist/*.whl"), self.place.glob("dist/*.tar.gz")
        self.assertRegex(wheel.name, r"^vmmsim-[\d.]+-py3-none-manylinux_2_\d+_(x86_64|aarch64)(\.|$)")
        names = [name.partition("/")[2] for name in zipfile.ZipFile(wheel).namelist()]
        for name in "py.typed", "docs/testing.md", "licenses/LICENSE", "licenses/docs/LICENSE":
            self.assertIn(name, names)
        self.assertEqual([name for name in names if "libcupti" in name], [])
        names = [name.partition("/")[2] for name in tarfile.open(source).getnames()]
        for name in "LICENSE", "docs/LICENSE", "CHANGELOG.md", "wheels.sh":
            self.assertIn(name, names)
        self.assertEqual([name for name in names if name.startswith("tests/")], [])

    def test_a_program_runs(self):
        self.assertEqual(self.vmmsim("--gpus", "2", "./mine").stdout, "no error, 0 wrong\n")

    def test_nvml_is_there(self):
        ask = "import ctypes; n = ctypes.c_uint(); ml = ctypes.CDLL('libnvidia-ml.so.1')"
        ask += "; print(ml.nvmlInit_v2(), ml.nvmlDeviceGetCount_v2(ctypes.byref(n)), n.value)"
        self.assertEqual(self.vmmsim("--gpus", "2", self.place / "empty/bin/python3", "-c", ask).stdout, "0 0 2\n")

    def test_view_writes_one_page_that_needs_no_other_file(self):
        self.assertIn("calls of CUDA: open mine.html in a browser", self.vmmsim("view", "./mine").stderr)
        page = (self.place / "mine.html").read_text()
        self.assertIn("cudaMallocManaged", page)
        self.assertEqual(re.findall(r"(?:src|href)=\"(?!#)", page), [], "the page needs another file")

    def test_what_has_no_gpu_is_not_recorded(self):
        said = self.vmmsim("record", "run.jsonl", "./mine", status=1).stderr
        self.assertIn("no GPU here: ", said)
        library = next(self.place.glob("empty/lib/python3*/site-packages/vmmsim/recorder/libvmm_recorder.so"), None)
        if HOW != "wheel" and not library:
            self.skipTest("the build had no CUPTI")
        said = self.run_here("ldd", str(library), env={**self.clean, "LD_LIBRARY_PATH": ""}, check=False).stdout
        self.assertIn("libcupti.so", said)

    def test_it_is_told_how(self):
        self.assertIn("vmmsim view [options]", self.vmmsim("--help").stdout)
        self.assertIn("usage: vmmsim view", self.vmmsim("view", "--help").stdout)
        self.assertIn("usage: vmmsim record", self.vmmsim("record", status=2).stdout)
        self.assertIn("there is no such program", self.vmmsim("./none", status=127).stderr)


if __name__ == "__main__":
    unittest.main()
