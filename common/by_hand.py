# SPDX-License-Identifier: MIT-0
"""What the notebooks' cells in Python share: checked calls, the structs of lesson 01, and a lesson's kernels.

from by_hand import Kernels, Process, access_for, cu, memory_on, ok, read, use, write
"""

import array
import ctypes
import functools
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

try:
    from cuda.bindings import driver as cu
except ImportError:
    get_it = f"{sys.executable} -m pip install cuda-bindings==13.0.3"
    raise ImportError(f"this kernel has no cuda.bindings: {get_it}") from None

ROOT = pathlib.Path(__file__).resolve().parents[1]
GRANULE = cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
READ = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READ
READ_WRITE = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
FILE_DESCRIPTOR = cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
FABRIC = cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_FABRIC
NO_HANDLE_TYPE = cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE


class Refused(Exception):
    """The driver has refused a call."""


def ok(answer):
    """What a call gives besides its error. An error ends the cell."""
    error, *values = answer
    if int(error):
        raise Refused(cu.CUresult(int(error)).name)
    return values[0] if len(values) == 1 else values or None


def use(gpu):
    """From here on kernels and copies run on this GPU: cudaSetDevice, in the driver's words."""
    ok(cu.cuInit(0))
    ok(cu.cuCtxSetCurrent(ok(cu.cuDevicePrimaryCtxRetain(gpu))))


def on(gpu):
    location = cu.CUmemLocation()
    location.type, location.id = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, gpu
    return location


def memory_on(gpu, may_leave_as=NO_HANDLE_TYPE):
    """What kind of memory, and where: ordinary memory of this GPU."""
    properties = cu.CUmemAllocationProp()
    properties.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location = on(gpu)
    properties.requestedHandleTypes = may_leave_as
    return properties


def access_for(gpu, right=READ_WRITE):
    """Who may use it, and how."""
    access = cu.CUmemAccessDesc()
    access.location, access.flags = on(gpu), right
    return access


def map_for(gpu, handle, size, alignment=0):
    """Lesson 01: reserve, map, let this GPU in."""
    address = ok(cu.cuMemAddressReserve(size, alignment, 0, 0))
    ok(cu.cuMemMap(address, size, 0, handle, 0))
    ok(cu.cuMemSetAccess(address, size, [access_for(gpu)], 1))
    return int(address)


def read(address, count, kind="i"):
    """So many integers from there, copied to the host. The copy waits for the kernels before it."""
    numbers = array.array(kind, bytes(4 * count))
    ok(cu.cuMemcpyDtoH(numbers, address, 4 * count))
    return numbers


def write(address, numbers):
    ok(cu.cuMemcpyHtoD(address, numbers, numbers.itemsize * len(numbers)))


def counting(first, count, step=1, kind="i"):
    """first, first + step and so on: so many of them."""
    return array.array(kind, range(first, first + step * count, step))


class Kernels:
    """The kernels of a lesson's program, compiled as they stand there: kernels.fill(blocks, threads, arguments...)

    They run on the GPU that use() has chosen.
    """

    def __init__(self, program):
        self._source = next(ROOT.glob(f"[0-9][0-9]_*/{program}.cu"))
        line = re.search(r"^// Build it alone: +nvcc (.*?) \w+\.cu", self._source.read_text(), re.MULTILINE)[1]
        of_this = [ok(cu.cuDeviceGetAttribute(cu.CUdevice_attribute[name], 0)) for name in MAJOR_AND_MINOR]
        with tempfile.TemporaryDirectory() as scratch:
            options = [*re.sub(r"-arch=\S+", "", line).split(), f"-arch=sm_{of_this[0]}{of_this[1]}", "-fatbin"]
            file = pathlib.Path(scratch, "kernels")
            subprocess.run([ROOT / "scripts" / "nvcc", *options, self._source, "-o", file], check=True)
            self._code = file.read_bytes()
        self._modules, self._functions = {}, {}  # by context: each GPU has its own

    def _module(self):
        context = int(ok(cu.cuCtxGetCurrent()))
        if context not in self._modules:
            self._modules[context] = ok(cu.cuModuleLoadData(self._code))
        return context, self._modules[context]

    def variable(self, name):
        """The address of a __device__ variable, on this GPU."""
        return int(ok(cu.cuModuleGetGlobal(self._module()[1], name.encode()))[0])

    def _function(self, name, arguments):
        """The kernel, and the sizes of its arguments as ctypes has them."""
        context, module = self._module()
        if (context, name) not in self._functions:
            functions = ok(cu.cuModuleEnumerateFunctions(ok(cu.cuModuleGetFunctionCount(module)), module))
            of_name = [
                one for one in functions if ok(cu.cuFuncGetName(one)).decode().startswith(f"_Z{len(name)}{name}")
            ]
            if not of_name:
                raise AttributeError(f"{self._source.name} has no kernel {name}")
            sizes = [ok(cu.cuFuncGetParamInfo(of_name[0], index))[1] for index in range(arguments)]
            kinds = tuple(ctypes.c_uint64 if size == 8 else ctypes.c_int32 for size in sizes)
            self._functions[context, name] = of_name[0], kinds
        return self._functions[context, name]

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return functools.partial(self._launch, name)

    def _launch(self, name, blocks, threads, *arguments, stream=0):
        function, kinds = self._function(name, len(arguments))
        values = tuple(map(int, arguments)), kinds
        ok(cu.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, values, 0))


IN_ANOTHER_PROCESS = """
import contextlib, io, json, socket, sys, traceback
import by_hand
names = {**vars(by_hand), "socket": socket.socket(fileno=int(sys.argv[1]))}
for line in sys.stdin:
    out, wrong = io.StringIO(), ""
    with contextlib.redirect_stdout(out):
        try:
            exec(json.loads(line), names)
        except Exception:
            wrong = traceback.format_exc(limit=0)
    print(json.dumps([out.getvalue(), wrong]), flush=True)
"""


class Process:
    """Another process, in which Python runs line by line. A socket is between it and this one: `socket`, in both."""

    def __init__(self):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [sys.executable, "-B", "-c", IN_ANOTHER_PROCESS, str(theirs.fileno())]
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(words, pass_fds=[theirs.fileno()], **streams)
        theirs.close()

    def run(self, lines):
        """These lines, over there. What they print comes here, and so does an error."""
        print(json.dumps(lines), file=self._process.stdin, flush=True)
        out, wrong = json.loads(self._process.stdout.readline())
        print(out, end="")
        if wrong:
            raise Refused(f"in the other process: {wrong.strip()}")

    def end(self):
        self._process.stdin.close()
        self._process.stdout.close()
        if self._process.wait(30):
            raise RuntimeError(f"the other process ended with status {self._process.returncode}")


def send_memory(to, descriptor, size):
    """The message is the size of the memory. The file descriptor travels beside it."""
    socket.send_fds(to, [size.to_bytes(8, "little")], [descriptor])


def receive_memory(to):
    """A descriptor that is this process's own, and the size."""
    size, (descriptor,), _, _ = socket.recv_fds(to, 8, 1)
    return descriptor, int.from_bytes(size, "little")


def multicast_is_off():
    """An administrator has switched it off for this machine's GPUs. (Python's os.environ would not know that it counts
    for no simulated ones.)"""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    return getenv(b"NCCL_NVLS_ENABLE") == b"0"


MAJOR_AND_MINOR = "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR", "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR"
