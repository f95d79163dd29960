#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Programs of NVIDIA's packages for Python: python_programs.py NAME runs the function of this name.

They need no pytest: they also run where the newest of these packages are, and nothing else.
"""

import random
import secrets
import socket
import subprocess
import sys

MiB = 1 << 20
LIMIT = 120  # seconds for an answer
SCALE = """
extern "C" __global__ void scale(float* to, const float* from, float by, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = by * from[i];
}
"""
CALLS = """
extern "C" __device__ int called(int);
extern "C" __global__ void calls(int* to, int more) { to[threadIdx.x] = called(threadIdx.x) + more; }
"""
CALLED = 'extern "C" __device__ int called(int x) { return 3 * x; }'


def ok(answer):
    """What a call of cuda.bindings gives besides its error, which is a plain number after some calls of 13.0."""
    error, *values = answer
    assert not int(error), error
    return values[0] if len(values) == 1 else values


def write(address, bytes):
    from cuda.bindings import driver

    ok(driver.cuMemcpyHtoD(address, bytes, len(bytes)))


def read(address, size):
    from cuda.bindings import driver

    bytes = bytearray(b"\xa5" * size)
    ok(driver.cuMemcpyDtoH(bytes, address, size))
    return bytes


def grow():
    """A buffer of cuda.core that grows: release 1.2.2 moves it to other addresses, with the memory that it has."""
    from cuda.core import Device, VirtualMemoryResource

    device = Device(1)
    device.set_current()
    memory = VirtualMemoryResource(device)
    buffer = memory.allocate(4 * MiB)
    text = random.randbytes(4 * MiB)
    write(int(buffer.handle), text)
    buffer = memory.modify_allocation(buffer, 10 * MiB)
    address = int(buffer.handle)
    assert buffer.size == 10 * MiB and read(address, 4 * MiB) == text
    text = random.randbytes(10 * MiB)
    write(address, text)
    assert read(address, 10 * MiB) == text


def map_it(handle, size):
    from cuda.bindings import driver

    access = driver.CUmemAccessDesc()
    access.location = properties().location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    address = ok(driver.cuMemAddressReserve(size, 0, 0, 0))
    ok(driver.cuMemMap(address, size, 0, handle, 0))
    ok(driver.cuMemSetAccess(address, size, [access], 1))
    return address


def properties():
    from cuda.bindings import driver

    its = driver.CUmemAllocationProp()
    its.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    its.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    its.requestedHandleTypes = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    return its


def start():
    from cuda.bindings import driver

    ok(driver.cuInit(0))
    ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(0))))
    return driver, driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


def share():
    """Memory that two processes have, by a descriptor that one sends to the other."""
    driver, kind = start()
    handle = ok(driver.cuMemCreate(2 * MiB, properties(), 0))
    address, text = map_it(handle, 2 * MiB), secrets.token_bytes(2 * MiB)
    write(address, text)
    mine, other = socket.socketpair()
    mine.settimeout(LIMIT)
    child = subprocess.Popen(
        [sys.executable, "-B", __file__, "receive", str(other.fileno())], pass_fds=[other.fileno()]
    )
    other.close()
    descriptor = ok(driver.cuMemExportToShareableHandle(handle, kind, 0))
    socket.send_fds(mine, [b"it"], [descriptor])
    assert child.wait(LIMIT) == 0
    assert read(address, 2 * MiB) == text[::-1]


def receive(number):
    driver, kind = start()
    with socket.socket(fileno=int(number)) as other:
        other.settimeout(LIMIT)
        _, (descriptor,), _, _ = socket.recv_fds(other, 2, 1)
    address = map_it(ok(driver.cuMemImportFromShareableHandle(descriptor, kind)), 2 * MiB)
    write(address, read(address, 2 * MiB)[::-1])


def runtime():
    """The CUDA runtime that cuda.bindings has inside, stripped of the names of its functions."""
    from cuda.bindings import runtime

    assert ok(runtime.cudaGetDeviceCount()) == 2
    ok(runtime.cudaSetDevice(1))
    text, found = secrets.token_bytes(MiB), bytearray(MiB)
    address, stream = ok(runtime.cudaMalloc(MiB)), ok(runtime.cudaStreamCreate())
    kinds = runtime.cudaMemcpyKind
    ok(runtime.cudaMemcpyAsync(address, text, MiB, kinds.cudaMemcpyHostToDevice, stream))
    ok(runtime.cudaStreamSynchronize(stream))
    ok(runtime.cudaMemset(address, 7, MiB // 2))
    ok(runtime.cudaMemcpy(found, address, MiB, kinds.cudaMemcpyDeviceToHost))
    assert found == bytes([7]) * (MiB // 2) + text[MiB // 2 :]
    assert ok(runtime.cudaGetDeviceProperties(1)).major == 9
    refused, _ = runtime.cudaMalloc(1 << 50)
    assert refused == runtime.cudaError_t.cudaErrorMemoryAllocation == runtime.cudaGetLastError()[0]
    ok(runtime.cudaStreamDestroy(stream))
    ok(runtime.cudaFree(address))


def compile():
    """A kernel of which NVRTC gives machine code, by both packages."""
    import numpy
    from cuda.bindings import driver, nvrtc
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    device = Device()
    device.set_current()
    stream = device.create_stream()
    of_core = Program(SCALE, "c++", ProgramOptions(arch="sm_90")).compile("cubin").get_kernel("scale")

    program = ok(nvrtc.nvrtcCreateProgram(SCALE.encode(), b"scale.cu", 0, None, None))
    ok(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"]))
    image = bytearray(ok(nvrtc.nvrtcGetCUBINSize(program)))
    ok(nvrtc.nvrtcGetCUBIN(program, image))
    of_bindings = ok(driver.cuModuleGetFunction(ok(driver.cuModuleLoadData(image)), b"scale"))

    count = 1000
    size = count * 4
    source, target = device.allocate(size, stream=stream), device.allocate(size, stream=stream)
    stream.sync()
    for kernel in of_core, of_bindings:
        values, by = numpy.random.default_rng().random(count, numpy.float32), numpy.float32(random.random())
        write(int(source.handle), values.tobytes())
        write(int(target.handle), numpy.full(count, numpy.nan, numpy.float32).tobytes())
        if kernel is of_core:
            launch(stream, LaunchConfig(grid=8, block=128), kernel, target, source, by, numpy.int32(count))
        else:
            arguments = numpy.array([int(target.handle)], numpy.uint64), numpy.array([int(source.handle)], numpy.uint64)
            arguments += numpy.array([by]), numpy.array([count], numpy.int32)
            addresses = numpy.array([argument.ctypes.data for argument in arguments], numpy.uint64)
            ok(driver.cuLaunchKernel(kernel, 8, 1, 1, 128, 1, 1, 0, stream.handle, addresses.ctypes.data, 0))
        stream.sync()
        found = numpy.frombuffer(read(int(target.handle), size), numpy.float32)
        assert (found == by * values).all(), found


def link():
    """A kernel and its function, in PTX and in LTO code, of which nvJitLink gives machine code. So does Numba."""
    import numpy
    from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, Program, ProgramOptions, launch

    device = Device()
    device.set_current()
    stream = device.create_stream()
    target = device.allocate(4 * 32, stream=stream)
    stream.sync()
    for kinds in ("ptx", "ptx"), ("ltoir", "ltoir"), ("ltoir", "ptx"):
        parts = []
        for source, kind in zip((CALLS, CALLED), kinds, strict=True):
            has_lto = {"link_time_optimization": True} if kind == "ltoir" else {}
            options = ProgramOptions(arch="sm_90", relocatable_device_code=True, **has_lto)
            parts.append(Program(source, "c++", options).compile(kind))
        options = LinkerOptions(arch="sm_90", link_time_optimization="ltoir" in kinds or None)
        kernel = Linker(*parts, options=options).link("cubin").get_kernel("calls")
        write(int(target.handle), b"\xa5" * 4 * 32)
        more = random.randrange(1000)
        launch(stream, LaunchConfig(grid=1, block=32), kernel, target, numpy.int32(more))
        stream.sync()
        found = numpy.frombuffer(read(int(target.handle), 4 * 32), numpy.int32)
        assert (found == numpy.arange(32) * 3 + more).all(), (kinds, found)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
