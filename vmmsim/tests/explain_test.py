# SPDX-License-Identifier: MIT-0
"""What --explain and --leaks say of mistakes.

Each mistake of explain.cu must be told in as many sentences as stand here, with the phrases that stand here; ADDRESS is
the address that the program printed.
"""

import json
import pathlib
import re
import subprocess
import sys

import pytest

from vmmsim.built import BUILT

SOURCE = pathlib.Path(__file__).with_name("explain.cu")


def line_of(text):
    """Where the only line of the source with this text is: the program is built with -lineinfo."""
    numbers = [number for number, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line]
    assert len(numbers) == 1, (text, numbers)
    return f"tests/explain.cu:{numbers[0]}"


KERNEL = (
    "kernel (anonymous namespace)::write_number(int*, int) on GPU 0, block (2, 0, 0), thread (5, 0, 0), "
    "`st.global.u32 ["
)
ADD = "kernel (anonymous namespace)::add_to_all(float*) on GPU {}, block (2, 0, 0), thread (5, 0, 0), `multimem.red"
FAULT = "cudaDeviceSynchronize() answers cudaErrorIllegalAddress: "

# Each sentence by its phrases, in their order; "..." is anything.
FAULTS = {
    "null": [
        FAULT + KERNEL + f"...` ({line_of('if (is_it()) *to = value;')}, line ... of its PTX): ADDRESS is a null "
        "pointer"
    ],
    "inlined": [
        FAULT + f"kernel (anonymous namespace)::write_there(int*) ...` ({line_of('// in set')}, inlined at "
        f"{line_of('// in write_there')}, line ... of its PTX): ADDRESS is reserved"
    ],
    "reserved": [
        FAULT + KERNEL + "... ADDRESS is reserved, and nothing is mapped there: map memory (cuMemMap) and "
        "open it to GPU 0 (cuMemSetAccess)"
    ],
    "past_the_end": [FAULT + KERNEL + "... ADDRESS is neither mapped nor reserved; 0 bytes before it a mapping ends"],
    "closed": [
        FAULT + KERNEL.replace("GPU 0", "GPU 1") + "... ADDRESS lies in the mapping of 2 MiB from 0x...,"
        " memory of GPU 0, which is not open to GPU 1; cudaDeviceEnablePeerAccess does not open it: call "
        "cuMemSetAccess with a descriptor for GPU 1 "
    ],
    "read_only": [
        FAULT + KERNEL + "... ADDRESS lies in the mapping of ..., which GPU 0 may only read: call "
        "cuMemSetAccess with a descriptor for GPU 0 and CU_MEM_ACCESS_FLAGS_PROT_READWRITE"
    ],
    "unmapped": [
        FAULT + KERNEL + "... ADDRESS is reserved, and nothing is mapped there; it was unmapped by cuMemUnmap #1: "
    ],
    "unmapped_too_early": [
        FAULT + KERNEL + "... ADDRESS is reserved, and nothing is mapped there; it was unmapped by cuMemUnmap #1 after "
        "cudaLaunchKernel #1 had launched the kernel: wait for its stream (cudaStreamSynchronize) before the unmap"
    ],
    "unmapped_before_a_copy": [
        FAULT + "a copy or memset came too late: ADDRESS is reserved, and nothing is mapped there; it was unmapped by "
        "cuMemUnmap #1 after cudaMemsetAsync #1 had asked for it: wait for its stream (cudaStreamSynchronize) before"
    ],
    "given_back": [
        FAULT + KERNEL + "... ADDRESS is neither mapped nor reserved; it was given back by cuMemAddressFree #1"
    ],
    "freed": [FAULT + KERNEL + "... ADDRESS is neither mapped nor reserved; it was freed by cudaFree #1"],
    "peer": [
        FAULT + KERNEL.replace("GPU 0", "GPU 1") + "... ADDRESS is ordinary memory of GPU 0, and not open to GPU 1"
        ": call cudaDeviceEnablePeerAccess(0, 0) while GPU 1 is the current device"
    ],
    "host": [FAULT + KERNEL + "... ADDRESS is no address of CUDA: ... cuMemHostAlloc"],
    "beside_registered": [FAULT + KERNEL + "... ADDRESS is no address of CUDA: ... (cudaHostRegister)"],
    "registered_read_only": [FAULT + KERNEL + "... ADDRESS is host memory that is registered for reading only"],
    "misaligned": ["answers cudaErrorMisalignedAddress: " + KERNEL + "... ADDRESS is not a multiple of ... 4 bytes"],
    "multicast_store": [FAULT + KERNEL + "... ADDRESS lies in ..., of a multicast object: only multimem instructions"],
    "multimem_of_memory": [FAULT + ADD.format(0) + "... ADDRESS is an ordinary address, ...(cuMulticastCreate"],
    "multimem_unbound": [
        FAULT + ADD.format(0) + "... ADDRESS GPU 1 of the 2 ... has bound no memory: call cuMulticastBindMem"
    ],
    "multimem_closed": [
        FAULT + ADD.format(1) + "... ADDRESS ... of a multicast object, which is not open to GPU 1: "
        "call cuMemSetAccess with a descriptor for GPU 1"
    ],
    "read": [
        FAULT + "kernel void (anonymous namespace)::read_number<long>(long const*, long*) on GPU 0, ..."
        "`ld.global.u64 ... ADDRESS is reserved"
    ],
    "shared": [
        FAULT + "kernel (anonymous namespace)::write_shared(int) ... thread (5, 0, 0), `st.volatile.shared.u32 "
        "... write of 4 bytes at 0x80 of __shared__ memory, which has 128 bytes"
    ],
    "trap": ["answers cudaErrorLaunchFailure: kernel (anonymous namespace)::stop() ... `trap` ... __trap()"],
    "assertion": [
        "answers cudaErrorAssert: kernel (anonymous namespace)::insist(int) ... assertion `number == 0 || "
        "!is_it()` failed"
    ],
    "after": [
        FAULT + KERNEL,
        "cudaMalloc(size = 8) answers cudaErrorIllegalAddress: a kernel or copy went wrong before, ... "
        "no line tells of the next",
    ],
    "forked": ["cudaMalloc(size = 8) answers cudaErrorInitializationError: ... fork before cuInit"],
    "exiting": [
        'cudaLaunchKernel(func = "(anonymous namespace)::nothing(int)", gridDim = [1,1,1], blockDim = [1,1,1], '
        "sharedMem = 0, stream = null) answers cudaErrorCudartUnloading: the process exits"
    ],
    "captures": [
        "cudaMalloc(size = 8) answers cudaErrorStreamCaptureUnsupported: a stream captures, and a call that does not "
        "go into a stream is not repeated when the graph is launched: make it before, or in a thread with "
        "CU_STREAM_CAPTURE_MODE_RELAXED (cuThreadExchangeStreamCaptureMode)",
        "cudaLaunchKernel(...) answers cudaErrorStreamCaptureInvalidated: the capture is invalid since cudaMalloc #1, "
        "which must not be made in it: end it (cuStreamEndCapture), and capture anew",
        "cudaStreamEndCapture(...) answers cudaErrorStreamCaptureInvalidated: the capture is invalid since "
        "cudaMalloc #1",
        "cudaStreamEndCapture(...) answers cudaErrorStreamCaptureUnjoined: another stream took part, and its last "
        "nodes are not awaited: record an event there, and let this stream wait for it",
        "cudaLaunchKernel(...) answers cudaErrorStreamCaptureImplicit: stream 0 waits for all streams that were made "
        "without CU_STREAM_NON_BLOCKING, and one of these captures",
        "cudaStreamEndCapture(...) answers cudaErrorStreamCaptureInvalidated: the capture is invalid since "
        "cudaLaunchKernel #3",
        "cudaGraphExecUpdate(...) answers cudaErrorGraphExecUpdateFailure: the graph has 2 nodes, and the executable "
        "one 1: instantiate the graph anew",
    ],
    "crashes": [
        "cuMemcpyHtoD #1: here an H200's driver (580.159.04) ended the process with SIGSEGV: memory of the host is "
        "mapped at ADDRESS, and not open to the host: give it access (cuMemSetAccess)",
        "cuMemcpyHtoD(dstDevice = ADDRESS, ..., ByteCount = 1) answers CUDA_ERROR_INVALID_VALUE: ",
        "cuMemcpy #1: here an H200's driver (580.159.04) ended the process with SIGSEGV: nothing is mapped at 0x...,"
        " which is reserved: map memory there (cuMemMap), or give the copy a direction",
        "cuMemcpy(...) answers CUDA_ERROR_INVALID_VALUE: ",
        "cuMemcpyHtoD(...) answers CUDA_ERROR_INVALID_VALUE: ",
        "cudaIpcGetEventHandle #1: here an H200's driver (580.159.04) ended the process with SIGSEGV: the event is "
        "for other processes and of GPU 0, and GPU 1 is current: make the event's GPU current first",
    ],
    "no_init": ["cuDeviceGetCount(count = null) answers CUDA_ERROR_NOT_INITIALIZED: cuInit has not been called"],
    "no_context": [
        "cuMemAlloc(bytesize = 8) answers CUDA_ERROR_INVALID_CONTEXT: no context is current ...cudaSetDevice"
    ],
}

PROP = (
    'prop = {"type":"CU_MEM_ALLOCATION_TYPE_PINNED","requestedHandleTypes":1,"location":{"type":'
    '"CU_MEM_LOCATION_TYPE_DEVICE","id":%d},"allocFlags":{"compressionType":0,"gpuDirectRDMACapable":0,"usage":0}}'
)
DESC = (
    'desc = [{"location":{"type":"CU_MEM_LOCATION_TYPE_DEVICE","id":%d},"flags":"CU_MEM_ACCESS_FLAGS_PROT_READWRITE"}]'
)
INVALID = " answers CUDA_ERROR_INVALID_VALUE: "
REFUSALS = [
    f"cuMemCreate(size = 3145728, {PROP % 0}, flags = 0x0){INVALID}size is 3 MiB: round it up",
    f"cuMemCreate(size = 2097152, {PROP % 99}, flags = 0x0) answers CUDA_ERROR_INVALID_DEVICE: there is no GPU 99",
    f"cuMemCreate(handle = null, ...){INVALID}handle is null",
    "cuMemCreate(...) answers CUDA_ERROR_OUT_OF_MEMORY: GPU 0 has ... left for all processes, and 1024 TiB are wanted",
    "cudaMallocAsync(...) answers cudaErrorMemoryAllocation: GPU 0 has ... left for all processes, and 200 GiB are "
    "wanted",
    "cudaDeviceEnablePeerAccess(...) answers cudaErrorPeerAccessUnsupported: device and peer are the same GPU, which "
    "reaches its own memory without this call",
    f"cuMemAddressReserve(size = 2097153, alignment = 0, addr = 0x0, flags = 0x0){INVALID}size is 2097153 bytes: make "
    "it a multiple of 2 MiB",
    f"cuMemAddressReserve(...){INVALID}alignment is 3 MiB: make it a power of two",
    f"cuMemMap(ptr = 0x1000000000, size = 2097152, offset = 0, handle = 0x..., flags = 0x0){INVALID}ptr: nothing is "
    "reserved at 0x1000000000: reserve it first (cuMemAddressReserve)",
    f"cuMemMap(...){INVALID}0x... is not a handle of this process",
    "cuMemMap(...) answers CUDA_ERROR_NOT_SUPPORTED: the allocation has 2 MiB, and is mapped whole only: "
    "make offset 0, and size 2 MiB; what shall be mapped in pieces is created in pieces (cuMemCreate)",
    f"cuMemSetAccess(ptr = 0x..., size = 2097152, {DESC % 0}, count = 1){INVALID}the range from ... map memory there "
    "first (cuMemMap)",
    f"cuMemMap(...){INVALID}memory is mapped already from 0x... unmap it first",
    f"cuMemSetAccess(..., {DESC % 99}, count = 1){INVALID}desc: descriptor 0's location is no GPU of this process: "
    "...; its location.id is 99",
    f"cuMemSetAccess(ptr = 0x..., size = 1048576, ...){INVALID}the range cuts the mapping from 0x...: only "
    "whole mappings",
    f"cuMemAddressFree(ptr = 0x..., size = 2097152){INVALID}memory is mapped there, for instance at 0x...: unmap it "
    "first (cuMemUnmap)",
    f"cuMemcpyHtoD(dstDevice = 0x..., ByteCount = 8){INVALID}0x... which is not open to GPU 0, although it holds the "
    "memory: call cuMemSetAccess",
    f"cuMemFree(dptr = 0x...){INVALID}...(cuMemUnmap), its handle released (cuMemRelease), and its addresses freed "
    "(cuMemAddressFree)",
    f"cuMemRelease(handle = 0x...){INVALID}all references of the handle are released",
    f"cuMemRetainAllocationHandle(addr = 0x...){INVALID}no memory of cuMemCreate is mapped at 0x...",
    "cuMemImportFromShareableHandle(...) answers CUDA_ERROR_UNKNOWN: descriptor 1 is not one that "
    "cuMemExportToShareableHandle gave",
    f"cuMemAddressFree(...){INVALID}ptr: nothing is reserved at 0x...",
    f'cuMulticastCreate(prop = {{"numDevices":1,"size":2097152,"handleTypes":0,"flags":0}}){INVALID}prop: numDevices '
    "is 1: a team has two GPUs at least",
    "cudaSetDevice(device = 99) answers cudaErrorInvalidDevice: there is no GPU 99: this process sees 2",
    "cudaMemcpy(dst = 0x..., kind = 9) answers cudaErrorInvalidMemcpyDirection: kind is none of",
    "cudaMalloc(devPtr = null, size = 8) answers cudaErrorInvalidValue: devPtr is null",
    'cudaLaunchKernel(func = "(anonymous namespace)::write_number(int*, int)", gridDim = [1,1,1], '
    "blockDim = [2048,1,1], sharedMem = 0, stream = null) answers cudaErrorInvalidValue: the block ... has more than "
    "1024 threads",
    "cudaGetLastError() answers cudaErrorInvalidValue: cudaLaunchKernel answered so before",
]

CREATES, RESERVES = (
    line_of("must(cuMemCreate(&handle, size, &prop, 0))"),
    line_of("must(cuMemAddressReserve(&address, size, 0, 0, 0))"),
)
LEAKS = {
    "leaks": [
        f"leak: handle of 2 MiB of GPU 0, made by cuMemCreate at {CREATES} (cuMemRelease)",
        f"leak: multicast object of 2 MiB, made by cuMulticastCreate at {line_of('must(cuMulticastCreate(')}, with 1 "
        "binding (cuMulticastUnbind, cuMemRelease)",
        f"leak: mapping of 2 MiB of GPU 0, made by cuMemMap at {line_of('// in map')} (cuMemUnmap)",
        f"leak: 2 reservations, each of 2 MiB, made by cuMemAddressReserve at {RESERVES} (cuMemAddressFree)",
        f"leak: allocation of 1000 bytes of GPU 0, made by cudaMalloc at {line_of('// left on the GPU')} (free it)",
        f"leak: allocation of 1000 bytes of the host, made by cudaMallocHost at {line_of('// left on the host')} "
        "(free it)",
        f"leak: registration of 1000 bytes of the host, made by cudaHostRegister at {line_of('// left registered')} "
        "(cudaHostUnregister)",
        f"leak: descriptor of 2 MiB of GPU 0, made by cuMemExportToShareableHandle at {line_of('// left open')} "
        "(close)",
        "9 leaks, 4 MiB of GPU 0, 1000 bytes of GPU 0 by cudaMalloc, 1000 bytes of the host by cudaMallocHost, "
        "1 multicast object, 2 reservations of 4 MiB, 1 registration of 1000 bytes, 1 descriptor",
    ],
    "leaks_of_one_line": [
        f"leak: 3 handles, together of 8 MiB of GPU 0, made by cuMemCreate at {line_of('// thrice')} (cuMemRelease)",
        f"leak: 2 reservations, each of 64 MiB, made by cuMemAddressReserve at {line_of('// twice')} "
        "(cuMemAddressFree)",
        "5 leaks, 8 MiB of GPU 0, 2 reservations of 128 MiB",
    ],
    "leaks_of_a_graph": [
        f"leak: allocation of 1 MiB of GPU 0, made by cudaMallocAsync at {line_of('// a node')}, a graph's own "
        "(cuGraphDestroy, cuGraphExecDestroy)",
        "1 leak, 1 MiB of GPU 0 by cudaMallocAsync",
    ],
    "leaks_of_an_heir": [
        "leak: descriptor of a memory pool, received or inherited (close)",
        "1 leak, 1 descriptor",
    ],
    "no_leaks": [],
}
LEAKS_OF_PYTHON = """import ctypes
cuda, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
assert not cuda.cuInit(0)
def reserve():
    assert not cuda.cuMemAddressReserve(ctypes.byref(address), 1 << 21, 0, 0, 0)
reserve()
"""


def run(*words):
    return subprocess.run([BUILT["vmmsim"], "--gpus", "2", *words], capture_output=True, text=True, timeout=60)


def says(line, phrases, address):
    wanted = re.escape(phrases).replace(re.escape("..."), ".*").replace("ADDRESS", re.escape(address or "?"))
    return re.search(wanted, line)


def told(option, mistake):
    """What is said of a mistake, and the address that the program printed."""
    done = run("--strict", option, BUILT["explain"], mistake)
    assert done.returncode == 0 and "unexpected" not in done.stdout, done
    address = done.stdout.split()[0] if done.stdout.startswith("0x") else None
    return [line for line in done.stderr.splitlines() if line.startswith("vmmsim: ")], address


@pytest.mark.parametrize("mistake", [*FAULTS, "refusals", "no_leaks"])
def test_each_mistake_is_explained(mistake):
    expected = {**FAULTS, "refusals": REFUSALS, "no_leaks": []}[mistake]
    lines, address = told("--explain", mistake)
    assert len(lines) == len(expected), "\n".join(lines)
    for line, phrases in zip(lines, expected, strict=True):
        assert says(line, phrases, address), f"not said: {phrases}"


@pytest.mark.parametrize("mistake", LEAKS)
def test_what_leaks_is_told(mistake):
    lines, _ = told("--leaks", mistake)
    assert lines == [f"vmmsim: {line}" for line in LEAKS[mistake]]


def test_what_leaks_is_told_without_addr2line(monkeypatch, tmp_path):
    """By the functions and places in the program."""
    monkeypatch.setenv("PATH", str(tmp_path))
    why, handles, *_ = told("--leaks", "leaks_of_one_line")[0]
    assert why == "vmmsim: no lines of sources can be told: addr2line is missing: install binutils"
    assert re.search(
        r" made by cuMemCreate in \S* ?\S*make_three\(\) \(explain\+0x[0-9a-f]+\) \(cuMemRelease\)$", handles
    )


def test_what_leaks_from_python_is_told(tmp_path):
    script = tmp_path / "reserves.py"
    script.write_text(LEAKS_OF_PYTHON)
    done = run("--leaks", sys.executable, script)
    made = f"made by cuMemAddressReserve at {tmp_path.name}/reserves.py:5 (cuMemAddressFree)"
    wanted = [f"vmmsim: leak: reservation of 2 MiB, {made}", "vmmsim: 1 leak, 1 reservation of 2 MiB"]
    assert done.stderr.splitlines() == wanted


def test_the_trace_tells_of_a_fault_in_each_call_that_answers_it(tmp_path):
    run("--trace", tmp_path / "trace", BUILT["explain"], "after").check_returncode()
    lines = [json.loads(line) for line in (tmp_path / "trace").read_text().splitlines()]
    faults = [line["fault"] for line in lines if "fault" in line]
    refused = [line for line in lines if line["result"] == "cudaErrorIllegalAddress"]
    assert faults == faults[:1] * len(refused)
    where, why = faults[0]["where"], faults[0]["why"]
    assert where.startswith(KERNEL)
    assert why.startswith(f"{faults[0]['address']} is a null pointer")
    assert refused[0]["explanation"].endswith(f"Address: {where}: {why}")
