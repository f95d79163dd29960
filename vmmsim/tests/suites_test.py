# SPDX-License-Identifier: MIT-0
"""Suites of tests run under vmmsim as they are: of CTest and of pytest."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from vmmsim.built import BUILT

NVCC, CMAKE, CXX = BUILT["nvcc"], pathlib.Path(BUILT["cmake"]), BUILT["cxx"]
VMMSIM = pathlib.Path(BUILT["vmmsim"])
DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
LIMIT = 240  # seconds for anything

PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(suite LANGUAGES CXX)
enable_testing()
add_executable(allocates allocates.cc)
target_link_libraries(allocates ${CMAKE_DL_LIBS})
add_test(NAME right COMMAND allocates 4096)
add_test(NAME wrong COMMAND allocates 0)
"""
ALLOCATES = """
#include <dlfcn.h>
#include <cstdlib>
template <class... Arguments> void call(const char* name, Arguments... arguments) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (reinterpret_cast<int (*)(Arguments...)>(dlsym(driver, name))(arguments...)) std::exit(1);
}
int main(int, char** words) {
  void* context = nullptr;
  unsigned long address = 0;
  call("cuInit", 0u);
  call("cuDevicePrimaryCtxRetain", &context, 0);
  call("cuCtxSetCurrent", context);
  call("cuMemAlloc_v2", &address, std::atol(words[1]));
}
"""
PYTEST = """
import ctypes
import pytest

@pytest.mark.parametrize("size", [4096, 0], ids=["right", "wrong"])
def test_allocates(size):
    cuda, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0
"""
REASON = "vmmsim: cuMemAlloc(bytesize = 0) answers CUDA_ERROR_INVALID_VALUE: "


class TestSuites:
    @pytest.fixture(autouse=True)
    def suite(self, tmp_path):
        self.scratch = tmp_path / "vmmsim suite"
        self.scratch.mkdir()
        self.log = self.scratch / "log"

    def run_here(self, *words):
        return subprocess.run(words, cwd=self.scratch, capture_output=True, text=True, timeout=LIMIT)

    def reasons(self):
        return [line for line in self.log.read_text().splitlines() if line.startswith(REASON)]

    def test_a_suite_of_ctest_runs_as_it_is(self):
        (self.scratch / "CMakeLists.txt").write_text(PROJECT)
        (self.scratch / "allocates.cc").write_text(ALLOCATES)
        for words in (["-S", ".", "-B", "build", f"-DCMAKE_CXX_COMPILER={CXX}"], ["--build", "build"]):
            done = self.run_here(CMAKE, *words)
            assert done.returncode == 0, done
        done = self.run_here(
            VMMSIM, "--explain", "--log", self.log, CMAKE.with_name("ctest"), "--test-dir", "build", "-j2"
        )
        assert done.returncode == 8, done  # as ctest says that a test has failed
        assert re.search(r"right \.+ +Passed", done.stdout)
        assert re.search(r"wrong \.+\*+Failed", done.stdout)
        assert REASON not in done.stdout + done.stderr  # ctest has captured it
        assert len(self.reasons()) == 1

    def test_a_suite_of_pytest_runs_as_it_is(self):
        (self.scratch / "test_allocates.py").write_text(PYTEST)
        words = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-v", "--tb=no"]
        done = self.run_here(VMMSIM, "--explain", "--log", self.log, *words)
        assert done.returncode == 1, done
        assert "1 failed, 1 passed" in done.stdout
        assert REASON not in done.stdout + done.stderr
        assert len(self.reasons()) == 1

    def test_the_example_runs_as_its_page_says(self):
        """docs/testing.md: its commands work on docs/example, and what it leaves out is what is not simulated."""
        place = self.scratch / "example"
        shutil.copytree(DOCS / "example", place)
        commands = re.search(r"```sh\n(.*?)```", (DOCS / "testing.md").read_text(), re.DOTALL)[1]
        path = f"{VMMSIM.parent}:{pathlib.Path(sys.executable).parent}:{CMAKE.parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "CUDACXX": NVCC, "CXX": CXX}

        def run(text):
            return subprocess.run(
                ["bash", "-ec", text], cwd=place, env=environment, capture_output=True, text=True, timeout=LIMIT
            )

        done = run(commands)
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search("100% tests passed, 0 tests failed out of 2\n", done.stdout)
        assert "1 passed, 1 deselected" in done.stdout
        done = run("vmmsim --gpus 2 --unsupported exit build/fill tensor")
        assert done.returncode == 125, done.stderr
        done = run("vmmsim --gpus 2 ctest --test-dir build")
        assert done.returncode == 8, done.stdout
        assert re.search(r"fill\.tensor_cores \(Failed\)", done.stdout)

    def test_a_program_with_address_sanitizer_runs(self):
        """A program with it, of g++, begins with it; and is told of its own mistakes."""
        text = ALLOCATES.replace(
            'std::atol(words[1]));', 'std::atol(words[1]));\n  return (new char[8])[words[2][0] - 48];'
        )
        source, program = self.scratch / "asan.cc", self.scratch / "asan"
        source.write_text(text)
        done = self.run_here(CXX, "-fsanitize=address", "-g", source, "-o", program, "-ldl")
        if done.returncode:
            pytest.skip("this compiler has no AddressSanitizer")
        for through in ([], ["sh", "-c", '"$0" "$@"']):  # what a script starts, too
            done = self.run_here("env", "ASAN_OPTIONS=detect_leaks=0", VMMSIM, *through, program, "4096", "9")
            assert "heap-buffer-overflow" in done.stderr
            done = self.run_here("env", "ASAN_OPTIONS=detect_leaks=0", VMMSIM, *through, program, "0", "0")
            assert (done.returncode, done.stderr) == (1, ""), done
