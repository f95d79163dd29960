# SPDX-License-Identifier: MIT-0
"""What holds memory that no call gives back: descriptors, and processes that end without a word.

Programs run under --trace; then the model must say of each moment what the driver had answered.
"""

import pathlib
import subprocess
import sys
import tempfile
import time

from tests.in_python import DRIVER
from vmmsim.built import BUILT
from vmmsim.trace.model import Machine
from vmmsim.trace.recording import Recording

VMMSIM = pathlib.Path(BUILT["vmmsim"])

PROGRAM = (
    DRIVER
    + r"""
import signal, socket
zero = ctypes.c_uint64(0)
def create(size):
    handle, properties = ctypes.c_uint64(), (ctypes.c_uint64 * 4)(1 | 1 << 32, 1)  # pinned, for a descriptor, on GPU 0
    must(cuda.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(size), properties, zero))
    return handle
def export(handle):
    fd = ctypes.c_int()
    must(cuda.cuMemExportToShareableHandle(ctypes.byref(fd), handle, 1, zero))
    return fd.value
def take(fd):
    handle = ctypes.c_uint64()
    must(cuda.cuMemImportFromShareableHandle(ctypes.byref(handle), ctypes.c_void_p(fd), 1))
    return handle
def release(handle):
    must(cuda.cuMemRelease(handle))
def ask():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    must(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
def allocate(size):
    must(cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(size)))
"""
)
TWO = r"""
ours, its = socket.socketpair()
worker = os.fork()
start()
if not worker:
    ours.close()
    fd = socket.recv_fds(its, 1, 1)[1][0]
    memory = take(fd)
    os.close(fd)
    allocate(100 * MiB)
    its.send(b"x")
    its.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)
its.close()
memory = create(32 * MiB)
fd = export(memory)
release(memory)
socket.send_fds(ours, [b"x"], [fd])
os.close(fd)
ours.recv(1)
ask()
ours.send(b"x")
ours.recv(1)  # its end
"""


def run_it(text, status=0):
    with tempfile.TemporaryDirectory() as scratch:
        trace = pathlib.Path(scratch, "trace.jsonl")
        command = [VMMSIM, "--gpus", "1", "--trace", trace, sys.executable, "-c", PROGRAM + text]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (status, "")
        return Recording.read(trace)


def told(recording):
    """[(the call, MiB of GPU 0 that the model has then, how many of the memory a descriptor alone holds)]; each
    cuMemGetInfo must agree."""
    machine, found, room = Machine(strict=False), [], None
    for line in recording.lines:
        machine.line(line)
        assert machine.doubts == [], line
        held = [memory for memory in machine.memory if memory.look().is_there]
        ordinary = sum(size for process in machine.processes.values() for size, *_ in process.blocks.values())
        vmm = sum(memory.size for memory in held)
        found.append((line["call"], (vmm + ordinary) >> 20, sum(memory.held_by_fd for memory in held)))
        if line["call"] == "cuMemGetInfo":
            free = line["outputs"]["free"] + vmm + ordinary
            assert free == (room or free)
            room = free
    return found


def after(recording, call, nth=1):
    """What told() has of that call."""
    return [(mib, held) for name, mib, held in told(recording) if name == call][nth - 1]


def test_a_worker_that_is_killed_vanishes():
    recording = run_it(TWO + "os.waitpid(worker, 0); ask()\n")
    changes = told(recording)
    assert changes[-2:] == [("cuMemGetInfo", 0, 0), ("exit", 0, 0)]
    (vanished,) = (line for line in recording.lines if line["call"] == "vanished")
    assert (vanished["arguments"], vanished["callers"]) == ({"signal": 9}, ["unknown"])
    assert vanished["pid"] != recording.lines[-1]["pid"]
    assert [mib for call, mib, _ in changes if call == "cuMemGetInfo"] == [132, 0]


def test_who_vanishes_last_is_told_of():
    """vmmsim itself tells of it: of the program, and of one that was killed when the others make no more calls."""
    for text, status, told in (
        ("start(); allocate(2 * MiB); os.kill(os.getpid(), 9)\n", 137, [{"signal": 9}]),
        (TWO + "os._exit(0)\n", 0, [{"signal": 9}]),
        ("start(); os.execv(sys.executable, [sys.executable, '-c', 'pass'])\n", 0, [{}]),
        (f"start(); os.execv(sys.executable, [sys.executable, '-c', {PROGRAM + 'start(); ask()'!r}])\n", 0, [{}]),
    ):
        lines = run_it(text, status).lines
        assert [line["arguments"] for line in lines if line["call"] == "vanished"] == told, text


def test_a_descriptor_holds_memory_until_it_is_closed():
    recording = run_it("start(); m = create(2 * MiB); fd = export(m); release(m); ask(); os.close(fd); ask()\n")
    changes = told(recording)
    assert changes[-7:] == [
        ("cuMemCreate", 2, 0),
        ("cuMemExportToShareableHandle", 2, 0),
        ("cuMemRelease", 2, 1),
        ("cuMemGetInfo", 2, 1),
        ("close", 0, 0),
        ("cuMemGetInfo", 0, 0),
        ("exit", 0, 0),
    ]


def test_descriptors_that_nobody_tells_of_hold_memory():
    """A copy, a message that is on its way, and a child without a driver hold memory as well."""
    for keep, drop in (
        ("other = os.dup(fd)", "os.dup2(0, other)"),
        ("a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [fd])", "b.close()"),
        ("os.set_inheritable(fd, 1)\nif not (child := os.fork()): signal.pause()", "os.kill(child, 9); os.wait()"),
    ):
        text = f"start(); m = create(2 * MiB); fd = export(m)\n{keep}\nos.close(fd); release(m); ask()\n{drop}\n"
        changes = told(run_it(text + "m = create(4 * MiB); ask(); release(m)\n"))
        assert [mib for call, mib, _ in changes if call == "cuMemGetInfo"] == [2, 4], keep
        assert ("cuMemRelease", 2, 1) in changes
        assert ("gone", 4, 0) in changes


HANGS = """
held = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: signal.pause())
start()
must(cuda.cuLaunchHostFunc(None, held, None))
must(cuda.cuCtxSynchronize())
"""


def test_a_call_that_never_ends_has_a_line(tmp_path):
    """Before anything ends the process, and but one however long it waits."""
    trace = tmp_path / "trace.jsonl"
    command = [VMMSIM, "--gpus", "1", "--trace", trace, sys.executable, "-c", PROGRAM + HANGS]
    with subprocess.Popen(command) as process:
        try:
            limit = time.monotonic() + 120
            while not trace.exists() or b'"call":"wait"' not in trace.read_bytes():
                assert process.poll() is None and time.monotonic() < limit, "no line tells of it"
                time.sleep(0.05)
        finally:
            process.terminate()
    waits = [line for line in Recording.read(trace).lines if line["call"] == "wait"]
    assert [(line["arguments"], line["result"]) for line in waits] == [({"call": "cuCtxSynchronize", "nth": 1}, "")]


def test_an_exit_leaves_descriptors():
    recording = run_it("start(); m = create(2 * MiB); fd = export(m); release(m)\n")
    assert told(recording)[-2:] == [("cuMemRelease", 2, 1), ("exit", 0, 0)]
