# SPDX-License-Identifier: MIT-0
"""System calls fail too.

Each call of the system that vmmsim, the simulator and a program make on the way is made to fail in turn, each in a run
of its own. The run then works all the same, or it ends with the right status and says why; it never hangs, and leaves
no process and no file.
"""

import concurrent.futures
import errno
import os
import pathlib
import re
import signal
import struct
import subprocess
import tempfile
import time

import pytest

from vmmsim.built import BUILT

SOURCE = pathlib.Path(__file__).with_name("failing_calls.c")
LIMIT = 60  # seconds of a run
MOST = 12  # times that a call is made to fail, if a program calls it more often: the first and the last ones
ERRORS = {  # what calls fail with; any other with EMFILE
    "mmap": ["ENOMEM"],
    "mmap64": ["ENOMEM"],
    "ftruncate": ["ENOSPC", "EINTR"],
    "fallocate": ["ENOSPC", "EINTR"],
    "fallocate64": ["ENOSPC", "EINTR"],
    "fcntl": ["ENOLCK"],
    "fcntl64": ["ENOLCK"],
    "read": ["EIO", "EINTR"],
    "write": ["ENOSPC", "EINTR"],
    "fork": ["EAGAIN"],
    "waitpid": ["EINTR"],
    "setsockopt": ["ENOMEM"],
    "bind": ["EADDRINUSE"],
    "connect": ["ECONNREFUSED", "EINTR"],
    "accept": ["EMFILE", "EINTR"],
    "accept4": ["EMFILE", "EINTR"],
    "poll": ["EINTR"],
    "send": ["ENOBUFS", "EINTR"],
    "recv": ["ENOMEM", "EINTR"],
    "sendmsg": ["ENOBUFS", "EINTR"],
    "recvmsg": ["ENOMEM", "EINTR"],
}
WORDS = re.compile(r"^vmmsim: |: (expected|failed) |; (it )?had to ", re.MULTILINE)


def processes_of(place):
    """Those that have its name in their environment, and have not ended."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and str(place).encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Counts the calls of the program that FAILING_PROGRAM names, and makes FAILING_CALL fail."""
    made = tmp_path_factory.mktemp("library") / "failing_calls.so"
    flags = "-x", "c", "-O1", "-w", "-shared", "-fPIC"
    subprocess.run([BUILT["cxx"], *flags, SOURCE, "-o", made, "-ldl"], check=True)
    return made


def run(library, name, call=""):
    """How often each call was made, and what is wrong."""
    command = BUILT["vmmsim"], "--gpus", "2", "--trace", "trace", BUILT["ipc_fd" if name == "vmmsim" else name]
    with tempfile.TemporaryDirectory(prefix="failing") as place:
        counts, work = pathlib.Path(place) / "counts", pathlib.Path(place) / "work"
        counts.write_bytes(bytes(4096))
        work.mkdir()
        failing = {"FAILING_PROGRAM": name, "FAILING_COUNTS": str(counts), "FAILING_CALL": call}
        environment = {**os.environ, "LD_PRELOAD": str(library), "TMPDIR": str(work), **failing}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, cwd=work, env=environment, start_new_session=True, **pipes)
        try:
            out, err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            err += f"it hung for {LIMIT} s"
        wrong = wrong_end(process.returncode, out, err)
        deadline = time.monotonic() + 20  # a killed child may still be on its way out
        while (left := processes_of(place)) and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        wrong += [f"process {pid} is left" for pid in left]
        wrong += [f"{file.name} is left" for file in work.iterdir() if file.name != "trace"]
        lines = struct.iter_unpack("24sQ", counts.read_bytes()[:4064])
        return {name.rstrip(b"\0").decode(): count for name, count in lines if count}, wrong, err


def wrong_end(status, out, err):
    if status == 0:
        return [] if out.endswith("OK\n") else ["status 0 without OK"]
    if status not in (1, 125, 126):
        return [f"status {status}"]
    return [] if WORDS.search(err) else [f"status {status} without a word"]


def failures(counts):
    for name, count in counts.items():
        numbers = range(1, count + 1)
        if count > MOST:
            numbers = [*numbers[: MOST // 2], *numbers[-MOST // 2 :]]
        for error in ERRORS.get(name, ["EMFILE"]):
            for number in numbers:
                yield name, number, error


@pytest.mark.parametrize("program", ["vmmsim", "ipc_fd", "ipc_ring"])
def test_each_call_fails(library, program):
    counts, wrong, words = run(library, program)
    assert counts
    assert wrong == [], words
    found = []
    with concurrent.futures.ThreadPoolExecutor(2 * os.cpu_count()) as pool:
        runs = {
            pool.submit(run, library, program, f"{name}:{number}:{getattr(errno, error)}"): (name, number, error)
            for name, number, error in failures(counts)
        }
        for done, (name, number, error) in runs.items():
            _, wrong, words = done.result()
            if wrong:
                found.append(f"{name} number {number} fails with {error}: {wrong}\n{words}")
    print(len(runs), "failures")
    assert not found, "\n".join(found)
