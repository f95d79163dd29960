# SPDX-License-Identifier: MIT-0
"""Programs as nvcc builds them, and what vmmsim says of them before they start.
CUDART_STATIC CUDA NVCC..."""

import os
import subprocess

from tests.built_programs import LIMIT, BuiltPrograms
from vmmsim.built import BUILT

VMMSIM, NVCC = BUILT["vmmsim"], [BUILT["nvcc"]]
CUDART, CUDART_STATIC, CUDA = (BUILT[name] for name in ("cudart", "cudart_static", "cuda_driver"))
SHARED = ["-cudart", "shared", "-L" + os.path.dirname(CUDART), CUDA]
PLAIN = ["-L" + os.path.dirname(CUDART_STATIC), CUDA]  # with the runtime inside
LIBRARY = ["-shared", "-Xcompiler", "-fPIC"]
PTX = ["-gencode", "arch=compute_75,code=compute_75"]
NEWER = ["-gencode", "arch=compute_100,code=compute_100"]
MACHINE_CODE = ["-gencode", "arch=compute_90,code=sm_90"]
KERNEL = """
#include <cstdio>
__global__ void add(int* to, int value) { *to += value; }
int main() {
  int* cell;
  int found = 0;
  cudaMalloc(&cell, sizeof *cell);
  cudaMemset(cell, 0, sizeof *cell);
  add<<<1, 1>>>(cell, 42);
  const cudaError_t error = cudaGetLastError();
  cudaMemcpy(&found, cell, sizeof found, cudaMemcpyDeviceToHost);
  std::printf("%s %d\\n", cudaGetErrorName(error), found);
}
"""
DRIVER_ONLY = """
#include <cuda.h>
#include <cstdio>
int main() {
  int count = 0;
  const int initialized = cuInit(0), counted = cuDeviceGetCount(&count);
  std::printf("%d %d %d\\n", initialized, counted, count);
}
"""
LTO_CODE = """
#include <cuda.h>
#include <cstdio>
int main() {
  alignas(8) const unsigned char image[4096] = {0xed, 0x43, 0x4e, 0x7f, 1, 'A'};  // as nvcc -ltoir begins
  CUcontext context;
  CUmodule module;
  cuInit(0), cuDevicePrimaryCtxRetain(&context, 0), cuCtxSetCurrent(context);
  std::printf("%d\\n", cuModuleLoadData(&module, image));
}
"""
KERNEL_THAT_ASKS = KERNEL.replace("*to += value", "cudaGetDevice(to)")
KERNEL_WITH_TENSORS = "#include <mma.h>\n" + KERNEL.replace(
    "*to += value",
    "nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> f;"
    "nvcuda::wmma::load_matrix_sync(f, (float*)to, 16, nvcuda::wmma::mem_row_major); *to = f.x[value]",
)
RUNTIME_ONLY = "#include <cuda_runtime.h>\nint main() { int count; return cudaGetDeviceCount(&count); }\n"

UNIT = """
#include <cstdio>
__device__ int of_the_other_unit(int);
__global__ void kernel(int* to) { *to = of_the_other_unit(2); }
int main() {
  int* cell;
  int found = 0;
  cudaMalloc(&cell, sizeof *cell);
  kernel<<<1, 1>>>(cell);
  const cudaError_t error = cudaGetLastError();
  cudaMemcpy(&found, cell, sizeof found, cudaMemcpyDeviceToHost);
  std::printf("%s %d\\n", cudaGetErrorName(error), found);
}
"""
OTHER_UNIT = "__device__ int of_the_other_unit(int x) { return 21 * x; }\n"


class TestPrograms(BuiltPrograms):
    nvcc = NVCC

    def run_it(self, *words, hidden=None):
        """Where `hidden` is no library that can be loaded, whatever the system has."""
        environment = dict(os.environ)
        if hidden:
            (self.scratch / hidden).touch()
            environment["LD_LIBRARY_PATH"] = str(self.scratch)
        return subprocess.run(
            [VMMSIM, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT
        )

    def ends(self, done, status, stdout="", *stderr):
        assert (done.returncode, done.stdout) == (status, stdout), done
        assert done.stderr.count("\n") == (len(stderr) > 0), done
        for part in stderr:
            assert part in done.stderr

    def test_compressed_code_runs_if_its_library_is_there(self):
        for mode, library, package in (
            ("default", "libzstd.so.1", "libzstd1"),
            ("size", "libzstd.so.1", "libzstd1"),
            ("speed", "liblz4.so.1", "liblz4-1"),
            ("none", None, None),
        ):
            program = self.build(f"{mode}.cu", KERNEL, *PLAIN, *PTX, f"--compress-mode={mode}")
            self.ends(self.run_it(program), 0, "cudaSuccess 42\n")
            if not library:
                continue
            words = library, package, "--no-compress"
            self.ends(self.run_it(program, hidden=library), 125, "", f"vmmsim: {program}", *words)
            # In a process that vmmsim has not looked at.
            self.ends(self.run_it("sh", "-c", '"$0"; echo $?', program, hidden=library), 0, "125\n", "vmmsim: ", *words)
            (self.scratch / library).unlink()
            bytes = bytearray(program.read_bytes())
            at = bytes.index(b"\x28\xb5\x2f\xfd" if "zstd" in library else b".version 9") + 12
            bytes[at : at + 100] = b"\xff" * 100
            program.write_bytes(bytes)
            self.ends(
                self.run_it(program), 0, "cudaErrorInvalidPtx 0\n", "vmmsim: GPU code of the program cannot be read: "
            )

    def test_without_ptx_for_the_gpu_it_does_not_start(self):
        for name, options, found in (
            ("machine_code", MACHINE_CODE, "it holds machine code for sm_90, "),
            ("newer", NEWER, "it holds PTX for compute_100, "),
            ("both", MACHINE_CODE + NEWER, "it holds PTX for compute_100, machine code for sm_90, "),
        ):
            program = self.build(name + ".cu", KERNEL, *PLAIN, *options)
            self.ends(
                self.run_it(program), 125, "", f"vmmsim: {program} ", found, "-gencode arch=compute_90,code=compute_90"
            )
            self.ends(self.run_it("--gpus", "0", program), 0, "cudaErrorNoDevice 0\n")
            words = ["vmmsim: GPU code that cannot run: ", found] if options != NEWER else []  # a GPU refuses this too
            self.ends(self.run_it("sh", "-c", '"$0"', program), 0, "cudaErrorNoKernelImageForDevice 0\n", *words)
            exit = ["--unsupported", "exit", "sh", "-c", '"$0"; echo $?', program]
            printed = "125\n" if words else "cudaErrorNoKernelImageForDevice 0\n0\n"
            self.ends(self.run_it(*exit), 0, printed, *words)

    def test_ptx_newer_than_the_driver_is_refused(self):
        for code, printed in (
            ("compute_90", "cudaErrorUnsupportedPtxVersion 0\n"),
            ("[sm_90,compute_90]", "cudaSuccess 42\n"),
        ):
            options = "-gencode", f"arch=compute_90,code={code}", "--compress-mode=none"
            program = self.build("late.cu", KERNEL, *PLAIN, *options)
            ours, late = b".version 9.0", b".version 9.5"
            assert program.read_bytes().count(ours) == 1
            program.write_bytes(program.read_bytes().replace(ours, late))
            words = ["vmmsim: ", "9.5"] if "Unsupported" in printed else []
            self.ends(self.run_it(program), 0, printed, *words)
            self.ends(self.run_it("--machine", "h200x8_cuda_13_5", program), 0, "cudaSuccess 42\n")

    def test_each_unit_needs_its_ptx(self):
        apart = [*PLAIN, "-rdc=true"]
        other = self.scratch / "other.cu"
        other.write_text(OTHER_UNIT)
        remedy = ["-gencode", "arch=compute_90,code=compute_90"]
        program = self.build("units.cu", UNIT, *apart, *MACHINE_CODE, other)
        self.ends(self.run_it(program), 125, "", f"vmmsim: {program} ", "machine code for sm_90, ", " ".join(remedy))
        self.ends(self.run_it(self.build("units.cu", UNIT, *apart, *remedy, other)), 0, "cudaSuccess 42\n")
        # One unit alone lacks PTX.
        subprocess.run(
            [*NVCC, "-rdc=true", "-c", other, "-o", other.with_suffix(".o"), *MACHINE_CODE], check=True, timeout=LIMIT
        )
        program = self.build("units.cu", UNIT, *apart, "-arch=sm_90", other.with_suffix(".o"))
        self.ends(
            self.run_it(program),
            0,
            "cudaErrorNoKernelImageForDevice 0\n",
            "vmmsim: GPU code that cannot run: it holds machine code for sm_90, ",
            " ".join(remedy),
        )

    def test_programs_without_kernels_run(self):
        for runtime in PLAIN, SHARED:
            self.ends(self.run_it(self.build("driver_only.cpp", DRIVER_ONLY, *runtime)), 0, "0 0 8\n")
            self.ends(self.run_it(self.build("runtime_only.cpp", RUNTIME_ONLY, *runtime)), 0)

    def test_lto_code_is_told(self):
        program = self.build("lto_code.cpp", LTO_CODE, *PLAIN)
        self.ends(self.run_it(program), 0, "209\n", "vmmsim: a module's image is LTO code", "link it with nvJitLink")
        self.ends(self.run_it("--unsupported", "exit", program), 125, "", "vmmsim: a module's image is LTO code")

    def test_what_is_not_simulated_is_told(self):
        program = self.build("tensors.cu", KERNEL_WITH_TENSORS, *PLAIN)
        words = "vmmsim: not simulated: line ", "kernel _Z3addPii", "wmma.load"
        fails = "The launch fails with CUDA_ERROR_NOT_SUPPORTED"
        self.ends(self.run_it(program), 0, "cudaErrorNotSupported 0\n", *words, fails)
        self.ends(self.run_it("--unsupported", "exit", program), 125, "", *words)
        options = *PLAIN, "-rdc=true", "-arch=sm_90"
        program = self.build("asks.cu", KERNEL_THAT_ASKS, *options)
        self.ends(
            self.run_it(program),
            0,
            "cudaErrorNotSupported 0\n",
            "vmmsim: not simulated: kernel _Z3addPii calls ",
            fails,
        )

    def test_libraries_of_a_program_are_checked_before_it_starts(self):
        packed = self.build("libpacked.cu", KERNEL.replace("main()", "packed()"), *PLAIN, *PTX, *LIBRARY)
        main = "int packed(); int main(int count, char**) { return count > 1 ? packed() : 0; }"
        program = self.build("with_packed.cpp", main, *PLAIN, packed)
        self.ends(self.run_it(program), 0)
        self.ends(self.run_it(program, hidden="libzstd.so.1"), 125, "", f"vmmsim: {packed}", "libzstd1")
        (self.scratch / "libzstd.so.1").unlink()
