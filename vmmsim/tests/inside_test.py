# SPDX-License-Identifier: MIT-0
"""Programs and libraries with the CUDA runtime inside, as nvcc links it when it is not told otherwise.
VMMSIM CUDART CUDART_STATIC CUDA NVCC..."""

import json
import os
import pathlib
import platform
import subprocess

import pytest
from simulator.runtime import known_runtimes

from tests.built_programs import LIMIT, BuiltPrograms
from vmmsim.built import BUILT

VMMSIM, NVCC = BUILT["vmmsim"], [BUILT["nvcc"]]
CUDART, CUDART_STATIC, CUDA = (BUILT[name] for name in ("cudart", "cudart_static", "cuda_driver"))
KNOWS = platform.machine() == "x86_64"  # a runtime by its code
INSIDE = ["-L" + os.path.dirname(CUDART_STATIC), CUDA]  # where nvcc does not look by itself
SHARED = ["-cudart", "shared", "-L" + os.path.dirname(CUDART), CUDA]
NONE = ["-cudart", "none"]
LIBRARY = ["-shared", "-Xcompiler", "-fPIC"]
NO_PIE = ["-Xcompiler", "-fno-pie", "-Xlinker", "-no-pie"]

# run() is of the program, or of a library and has the name that -D gives it.
KERNEL = """
#include <cstdio>
__global__ void add(int* to, int value) { *to += value; }
int* cell() {
  int* made;
  cudaMalloc(&made, sizeof *made);
  cudaMemset(made, 0, sizeof *made);
  return made;
}
extern "C" int RUN(int* to) {
  int found = 0;
  if (!to) to = cell();
  add<<<1, 1>>>(to, 42);
  const cudaError_t error = cudaGetLastError();
  cudaMemcpy(&found, to, sizeof found, cudaMemcpyDeviceToHost);
  std::printf("%s %d\\n", cudaGetErrorName(error), found);
  return found;
}
"""
MAIN = 'int main() { std::puts("started"); return RUN(nullptr) != 42; }\n'
RUNS = "started\ncudaSuccess 42\n"
ASKS_CUPTI = """
#include <dlfcn.h>
#include <cstdio>
int main(int, char** words) {
  void* const library = dlopen(words[1], RTLD_NOW);
  if (!library) return std::puts(dlerror());
  const int kernels = 3;
  std::puts(reinterpret_cast<int (*)(int)>(dlsym(library, "cuptiActivityEnable"))(kernels) ? "refused" : "answered");
}
"""
CALLER = """
extern "C" int {0}(int*);
int main() {{ return {0}(nullptr) != 42; }}
"""
LOADER = """
#include <dlfcn.h>
#include <cstdio>
int run(const char* path) {
  void* const library = dlopen(path, RTLD_NOW);
  if (!library) return std::puts(dlerror());
  const int result = reinterpret_cast<int (*)(int*)>(dlsym(library, "loaded"))(nullptr);
  dlclose(library);
  return result;
}
int main(int, char** words) { return run(words[1]) + run(words[1]) != 84; }
"""
UNIT = KERNEL.replace("*to += value", "*to += of_the_library(value)").replace(
    "__global__", "__device__ int of_the_library(int);\n__global__"
)
UNIT_OF_LIBRARY = "__device__ int of_the_library(int x) { return x; }\n"
DRIVER_ONLY = """
#include <cuda.h>
#include <cstdio>
int main() {
  int count = 0;
  const int initialized = cuInit(0), counted = cuDeviceGetCount(&count);
  std::printf("%d %d %d\\n", initialized, counted, count);
}
"""
RUNTIME_ONLY = """
#include <cuda_runtime.h>
#include <cstdio>
int main() {
  int count = 0;
  std::puts("started");
  std::printf("%d", cudaGetDeviceCount(&count));
  std::printf(" %d\\n", count);
}
"""
WITH_ANOTHER = """
extern "C" int other(int*);
int main() {
  int* const mine = cell();
  const int first = RUN(mine), second = other(mine), third = RUN(mine);
  return first != 42 || second != 84 || third != 126;
}
"""
FORKS = """
#include <sys/wait.h>
#include <unistd.h>
int main() {
  const pid_t child = fork();
  if (!child) return RUN(nullptr) != 42;
  int status = 0;
  waitpid(child, &status, 0);
  return status || RUN(nullptr) != 42;
}
"""
WRITABLE_CODE = """
#include <cstring>
int main() {
  FILE* const maps = std::fopen("/proc/self/maps", "r");
  for (char line[4096]; std::fgets(line, sizeof line, maps);)
    if (std::strstr(line, " rwx")) std::printf("%s", line);
  return RUN(nullptr) != 42;
}
"""
THREAD_VARIABLES = """
extern "C" int run(int*) {
  static thread_local char many[60000];
  return many[0] + 42;
}
"""


class TestInside(BuiltPrograms):
    nvcc = NVCC

    def stripped(self, program):
        copy = program.with_name("stripped_" + program.name)
        subprocess.run(["strip", "-o", copy, program], check=True)
        return copy

    def unknown(self, program):
        """Stripped, and with a runtime inside whose code is not quite that of one that is known."""
        copy = self.stripped(program)
        if KNOWS:
            word = known_runtimes.Runtime(pathlib.Path(CUDART_STATIC).read_bytes()).samples[-1][1].to_bytes(8, "little")
            assert word in copy.read_bytes()
            copy.write_bytes(copy.read_bytes().replace(word, word[::-1]))
        return copy.rename(copy.with_name(copy.name.replace("stripped", "unknown")))

    def runs(self, words, status=0, stdout=RUNS, stderr=(), lines=1):
        done = subprocess.run([VMMSIM, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
        assert (done.returncode, done.stdout) == (status, stdout), done
        assert done.stderr.count("\n") == (lines if stderr else 0), done
        for part in stderr:
            assert part in done.stderr

    def test_programs_have_the_simulators_runtime(self):
        for name, *options in (
            ("plain",),
            ("fixed", *NO_PIE),
            ("per_thread", "-default-stream", "per-thread"),
            ("debugged", "-G", "-g"),
        ):
            program = self.build(name + ".cu", KERNEL + MAIN, "-DRUN=run", *INSIDE, *options)
            self.runs([program])
            self.runs(["sh", "-c", '"$0"; exit $?', program])

    def test_programs_of_several_units_have_it(self):
        library = self.scratch / "libunit.a"
        source = self.scratch / "unit_of_library.cu"
        source.write_text(UNIT_OF_LIBRARY)
        subprocess.run([*NVCC, "-rdc=true", "-lib", source, "-o", library], check=True, timeout=LIMIT)
        self.runs([self.build("units.cu", UNIT + MAIN, "-DRUN=run", "-rdc=true", library, *INSIDE)])

    def test_libraries_have_it(self):
        early = "static int early = RUN(nullptr);\n"
        linked = self.build("liblinked.cu", KERNEL + early, "-DRUN=linked", *LIBRARY, *INSIDE)
        loaded = self.build("libloaded.cu", KERNEL + early, "-DRUN=loaded", *LIBRARY, *INSIDE)
        with_linked = self.build("with_linked.cpp", CALLER.format("linked"), *NONE, linked)
        with_loaded = self.build("with_loaded.cpp", LOADER, *NONE, "-ldl")
        self.runs([with_linked], stdout="cudaSuccess 42\n" * 2)
        self.runs([with_loaded, loaded], stdout="cudaSuccess 42\n" * 4)
        unknown = self.unknown(loaded)
        words = ["cuGetExportTable", f" {unknown} ", "will fail", "not one that is known"]
        self.runs([with_loaded, unknown], 1, "cudaErrorNotSupported 0\n" * 4, words, lines=3)
        if KNOWS:
            self.runs([with_loaded, self.stripped(loaded)], stdout="cudaSuccess 42\n" * 4)
            self.stripped(linked).replace(linked)
            self.runs([with_linked], stdout="cudaSuccess 42\n" * 2)

    def test_all_is_one_runtime(self):
        for name, how in ("another", INSIDE), ("shared", SHARED):
            library = self.build(f"lib{name}.cu", KERNEL, "-DRUN=other", *LIBRARY, *how)
            program = self.build(f"with_{name}.cu", KERNEL + WITH_ANOTHER, "-DRUN=run", library, *INSIDE)
            self.runs([program], stdout="cudaSuccess 42\ncudaSuccess 84\ncudaSuccess 126\n")

    @pytest.mark.skipif(not KNOWS, reason="not on this processor")
    def test_stripped_programs_have_it(self):
        program = self.build("kernel.cu", KERNEL + WITH_ANOTHER.replace("other", "RUN"), "-DRUN=run", *INSIDE)
        self.runs([self.stripped(program)], stdout="cudaSuccess 42\ncudaSuccess 84\ncudaSuccess 126\n")
        program = self.build("runtime_only.cpp", RUNTIME_ONLY, *INSIDE, *NO_PIE)
        self.runs([self.stripped(program)], stdout="started\n0 8\n")

    def test_a_stripped_one_that_is_unknown_is_told(self):
        """What calls the runtime ends: with kernels before it starts, else at the first call."""
        program = self.unknown(self.build("unknown_kernel.cu", KERNEL + MAIN, "-DRUN=run", *INSIDE))
        cure = "do not strip", "-cudart shared"
        self.runs([program], 125, "", [f"vmmsim: {program} ", "not one that is known", *cure])
        self.runs(["sh", "-c", '"$0"; echo $?', program], 0, "started\n125\n", [f" {program} ", *cure])
        program = self.unknown(self.build("unknown_runtime_only.cpp", RUNTIME_ONLY, *INSIDE))
        self.runs([program], 125, "started\n", [f" {program} ", *cure])

    def test_cupti_is_told(self):
        """It has a runtime inside that nobody could build otherwise."""
        found = sorted(pathlib.Path(BUILT["toolkit"]).glob("lib*/libcupti.so.*"))
        if not found:
            pytest.skip("the toolkit has no CUPTI")
        program = self.build("asks_cupti.cpp", ASKS_CUPTI, *NONE, "-Xlinker", "--no-as-needed", CUDA)
        words = "vmmsim: CUPTI, by which profilers look on, is not simulated: "
        self.runs([program, found[0]], 0, "refused\n", [words, "libcupti.so"])

    def test_what_calls_the_driver_alone_runs(self):
        for name in "driver_only.cpp", "driver_only.cu":
            program = self.build(name, DRIVER_ONLY, *INSIDE)
            self.runs([program], stdout="0 0 8\n")
            self.runs([self.stripped(program)], stdout="0 0 8\n")

    def test_forked_processes_have_it(self):
        program = self.build("forks.cu", KERNEL + FORKS, "-DRUN=run", *INSIDE)
        self.runs([program], stdout="cudaSuccess 42\n" * 2)

    def test_no_code_stays_writable(self):
        self.runs([self.build("code.cu", KERNEL + WRITABLE_CODE, "-DRUN=run", *INSIDE)], stdout="cudaSuccess 42\n")

    def test_a_trace_names_who_called(self):
        program = self.build("traced.cu", KERNEL + MAIN, "-DRUN=run", *INSIDE)
        trace = self.scratch / "trace"
        self.runs(["--trace", trace, program])
        calls = [json.loads(line) for line in trace.read_text().splitlines()]
        (set_memory,) = [call for call in calls if call["call"] == "cudaMemset"]
        places = [caller.split("+") for caller in set_memory["callers"]]
        assert {file for file, _ in places} == {"traced"}
        command = ["addr2line", "-f", "-C", "-e", program, *(place for _, place in places)]
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")[::2]
        assert names[:3] == ["cell()", "run", "main"]

    def test_variables_of_threads_stay_their_own(self):
        """The loader has to know of them before it loads libraries."""
        options = [*LIBRARY, *NONE, "-Xcompiler", "-ftls-model=initial-exec"]
        library = self.build("libvariables.cpp", THREAD_VARIABLES, *options)
        self.runs([self.build("with_variables.cpp", CALLER.format("run"), *NONE, library)], stdout="")

    # --- other releases of CUDA: functions with the names of a runtime's

    def release(self, name, calls, *options):
        """A program with functions of these names, and one more, among its runtime's."""
        its = [calls[0], "cudaOfALaterRelease", *calls[1:], "libcudart_static_0"]
        text = "#include <stdio.h>\n"
        text += "".join(f"__attribute__((visibility(\"hidden\"))) int {each}(void) {{ return 1; }}\n" for each in its)
        text += "int cudaOfTheProgram(void) { return 7; }\n"
        text += 'int main(void) {\n  puts("started");\n  printf("%d ", cudaOfALaterRelease());\n'
        text += '  printf("%d %d\\n", cudaGetLastError(), cudaOfTheProgram());\n}\n'
        return self.build(name, text, *NONE, "-Xcompiler", "-falign-functions=16", *options)

    def test_other_releases_are_told(self):
        command = ["nm", "-D", "--defined-only", CUDART]
        symbols = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        calls = sorted({each.split("@")[0] for each in symbols if each.startswith(("cuda", "__cuda"))})
        assert len(calls) > 300
        later = self.release("later.c", calls)
        self.runs([later], 0, "started\n801 801 7\n", ["vmmsim: cudaOfALaterRelease is not simulated"])
        other = self.release("other.c", [call for call in calls if call != "cudaMalloc"])
        words = [f"vmmsim: {other} contains the CUDA runtime", "another major release"]
        self.runs([other], 125, "", words)
        self.runs(["sh", "-c", '"$0"; echo $?', other], 0, "125\n", words)
        short = self.release("short.c", calls, "-Xcompiler", "-falign-functions=1", "-Xcompiler", "-Os")
        self.runs([short], 125, "", [f"vmmsim: {short} contains the CUDA runtime", "too short"])
