# SPDX-License-Identifier: MIT-0
"""What the tests of vmmsim from outside share."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

from tests.in_python import DRIVER
from vmmsim.built import BUILT

CC, VMMSIM = BUILT["cxx"], pathlib.Path(BUILT["vmmsim"])
LIBRARIES = VMMSIM.parent.parent / "simulator"
RUNTIME = next(path.name for path in LIBRARIES.glob("libcudart.so.*"))
MAJOR = RUNTIME.rpartition(".")[2]
CLASS = "nvidia-caps-imex-channels"
SYSTEM_NOT_READY = 802
LIMIT = 60  # seconds for anything

COUNT = (
    "import ctypes; d = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int()\n"
    "print(d.cuInit(0), d.cuDeviceGetCount(ctypes.byref(n)), n.value)\n"
)
MEMORY = (
    DRIVER
    + r"""
def allocate(size):
    address = ctypes.c_uint64()
    must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
    return address.value
def free(address):
    must(cuda.cuMemFree_v2(ctypes.c_uint64(address)))
def fill(address, value, size):
    must(cuda.cuMemsetD8_v2(ctypes.c_uint64(address), ctypes.c_ubyte(value), ctypes.c_size_t(size)))
    must(cuda.cuCtxSynchronize())
def read(address, size):
    bytes = ctypes.create_string_buffer(size)
    must(cuda.cuMemcpyDtoH_v2(bytes, ctypes.c_uint64(address), ctypes.c_size_t(size)))
    return bytes.raw
def touched():  # KiB of this machine's memory that the GPUs take: of the files that vmmsim holds open
    total = 0
    for name in os.listdir(f"/proc/{os.getppid()}/fd"):
        file = f"/proc/{os.getppid()}/fd/{name}"
        try:
            if "memfd:vmmsim-memory" in os.readlink(file): total += os.stat(file).st_blocks // 2
        except FileNotFoundError:  # vmmsim had it open for a moment
            pass
    return total
start()
"""
)


def vmmsim(*words, environment=None, **options):
    return subprocess.run(
        [VMMSIM, *words],
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        **options,
    )


def is_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


class VmmsimCase:
    @pytest.fixture(autouse=True)
    def in_scratch(self):
        """Not tmp_path: other users go into it, and its name has a space."""
        with tempfile.TemporaryDirectory(prefix="vmmsim ") as scratch, contextlib.ExitStack() as self.at_end:
            self.scratch = pathlib.Path(scratch)
            yield

    def build(self, name, text, *options):
        """A program, or a library, from C."""
        path = self.scratch / name
        subprocess.run([CC, "-x", "c", "-", "-o", path, "-x", "none", *options], input=text, text=True, check=True)
        return path

    def ends(self, done, status, stdout="", stderr=()):
        assert done.returncode == status, done
        assert done.stdout == stdout, done
        for part in stderr:
            assert part in done.stderr
        if not stderr:
            assert done.stderr == ""

    def trace(self):
        return [json.loads(line) for line in (self.scratch / "trace.json").read_text().splitlines()]

    def start(self, script, words=(), **options):
        process = subprocess.Popen(
            [VMMSIM, *words, sys.executable, "-c", script],
            text=True,
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **options},
        )
        self.at_end.callback(process.wait, LIMIT)
        self.at_end.callback(process.kill)
        if process.stdout:
            self.at_end.callback(process.stdout.close)
        return process
