# SPDX-License-Identifier: MIT-0
"""Builds a lab's program and runs it, on simulated GPUs or real ones, within bounds.

What it does arrives through pipes that only this process reads: the program can add to them, and take nothing back.
After each run no process that it started is left, in whatever session or group it hides.
"""

import contextlib
import ctypes
import dataclasses
import fcntl
import os
import pathlib
import platform
import re
import resource
import selectors
import shutil
import signal
import subprocess
import tempfile
import time

from vmmsim.processes import descendants, end_all, reap
from vmmsim.trace.places import line_of, places

ROOT = pathlib.Path(__file__).resolve().parents[2]

BUILD = ROOT / os.environ.get("LABS_BUILD", "build")
VMMSIM = BUILD / "bin" / "vmmsim"
SECONDS = 20  # for one run; a lab takes less than one
COMPILER_SECONDS = 120
MOST = {"stdout": 1 << 20, "stderr": 1 << 20, "trace": 64 << 20}  # bytes
MOST_PROCESSES = 64
MORE_THREADS = 400  # of this user, than there are; root has no such bound
MOST_MEMORY = 4 << 30  # bytes of its own for each process; those of the simulated GPUs are not among them
SLOW_RUNS = 5  # for one in which the importer is slow
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
prctl = ctypes.CDLL(None, use_errno=True).prctl


@dataclasses.dataclass
class Ended:
    """How a command ended: its exit status, negative for a signal, or why it was ended; and all that it wrote."""

    status: int
    why: str  # "", "time", "stdout", "stderr", "trace", "processes"; "left": it ended, and processes of it did not
    stdout: str
    stderr: str
    trace: bytes
    waits: dict = dataclasses.field(default_factory=dict)  # of one ended for its time: process -> what it waits for
    was_too_fast: bool = False  # its importer, which was to be slow


def cached(name):
    """What CMake has found, by the name of its variable."""
    with contextlib.suppress(OSError):
        found = re.search(rf"^{name}:\w+=(.+)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
        return found[1] if found else ""
    return ""


# By the numbers of system calls, which are each processor's own.
WAITS = {
    "x86_64": {0: "read", 7: "poll", 23: "select", 45: "recv", 47: "recvmsg", 61: "waitpid", 232: "epoll_wait"}
    | {247: "waitid", 270: "select", 271: "poll", 281: "epoll_wait"},
    "aarch64": {22: "epoll_wait", 63: "read", 72: "select", 73: "poll", 95: "waitid", 207: "recv", 212: "recvmsg"}
    | {260: "waitpid"},
}.get(platform.machine(), {})


def waits_in(pid):
    """The system call in which a process waits for another; "" if in none of them, None if nobody may know."""
    try:
        number = pathlib.Path(f"/proc/{pid}/syscall").read_text().split()[0]
    except OSError:
        return None
    return WAITS.get(int(number), "") if number.isdigit() else ""


class SlowImporter:
    """Lets an importer be slow: stops it when the exporter makes memory, until that has exported it and waits for
    another process, or has ended, or time is up. A sleep is no wait. On a busy machine an importer may have imported
    before it was stopped: it was too fast.
    """

    def __init__(self, program, seconds):
        self.program, self.seconds = program, seconds
        self.exporter, self.stopped, self.waits_since, self.is_over = None, [], None, False
        self.was_too_fast = False

    def look(self, trace):
        if self.is_over:
            return
        now = time.monotonic()
        if not self.exporter:
            line = re.search(rb'"pid":(\d+),[^\n]*"call":"cuMemCreate",[^\n]*\n', trace)
            if not line:
                return
            self.exporter, self.until = int(line[1]), now + self.seconds
            self.signal(signal.SIGSTOP, [self.exporter])  # while the others are looked for
            self.stopped = [pid for pid in descendants(self.program) if pid != self.exporter]
            self.signal(signal.SIGSTOP, self.stopped)
            self.signal(signal.SIGCONT, [self.exporter])
        imports = re.findall(rb'"pid":(\d+),[^\n]*"call":"cuMemImportFromShareableHandle"', trace)
        self.was_too_fast = any(int(pid) != self.exporter for pid in imports)
        wait = waits_in(self.exporter) if b'"call":"cuMemExportToShareableHandle"' in trace else ""
        self.waits_since = (self.waits_since or now) if wait or wait is None else None
        enough = 2 if wait is None else 0.1
        has_ended = self.exporter not in descendants(self.program)
        is_enough = self.waits_since and now - self.waits_since > enough
        if is_enough or has_ended or now > self.until or self.was_too_fast:
            self.is_over = True
            self.signal(signal.SIGCONT, self.stopped)

    @staticmethod
    def signal(number, pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def threads_of_user():
    count = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{entry}").st_uid == os.getuid():
                    count += os.stat(f"/proc/{entry}/task").st_nlink - 2
    return count


def be_bounded(limit, threads):
    """In the new process: what it and all that it starts may take."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (4 * limit, 4 * limit + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    if most == resource.RLIM_INFINITY or threads < most:
        resource.setrlimit(resource.RLIMIT_NPROC, (threads, most))


def run(command, limit, cwd, environment, slow_importer=False):
    """Runs a command. A word "TRACE" of it becomes the name of the pipe for the trace."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)  # what loses its parent becomes ours, and is found
    pipes = {name: os.pipe() for name in MOST}
    written = {name: bytearray() for name in MOST}
    words = [f"/proc/self/fd/{pipes['trace'][1]}" if word == "TRACE" else str(word) for word in command]
    for read, _ in pipes.values():
        with contextlib.suppress(OSError):  # no more than the user may have
            fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, 1 << 20)
    why, process, threads, waits = "", None, threads_of_user() + MORE_THREADS, {}
    try:
        with selectors.DefaultSelector() as selector:
            try:
                process = subprocess.Popen(
                    words,
                    cwd=cwd,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=pipes["stdout"][1],
                    stderr=pipes["stderr"][1],
                    pass_fds=[pipes["trace"][1]],
                    start_new_session=True,
                    preexec_fn=lambda: be_bounded(limit, threads),  # no thread is here
                )
            except OSError as error:
                return Ended(127, "", "", f"{command[0]} cannot be started: {error.strerror}", b"")
            finally:
                for name, (read, write) in pipes.items():
                    os.close(write)
                    os.set_blocking(read, False)
                    selector.register(read, selectors.EVENT_READ, name)
            began = looked = time.monotonic()
            end = None  # of the program
            slow = SlowImporter(process.pid, limit / 2) if slow_importer else None
            while not why:
                for key, _ in selector.select(0.02):
                    data = os.read(key.fd, 1 << 16)
                    written[key.data] += data
                    if not data:
                        selector.unregister(key.fd)
                    if len(written[key.data]) > MOST[key.data]:
                        why = key.data
                if slow:
                    slow.look(bytes(written["trace"]))
                now = time.monotonic()
                if process.poll() is not None:
                    end = end or now
                    reap()
                    if not descendants(os.getpid()):
                        break
                    if now - end > 1:
                        why = "left"
                elif now - began > limit:
                    why = "time"
                    waits = {pid: waits_in(pid) for pid in descendants(process.pid)}
                elif now - looked > 0.1:
                    looked = now
                    if len(descendants(process.pid)) > MOST_PROCESSES:
                        why = "processes"
    finally:
        if process:
            if process.poll() is None:  # all of its group at once, even if they fork
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            end_all()
        for name, (read, _) in pipes.items():
            with contextlib.suppress(BlockingIOError):
                while len(written[name]) <= MOST[name] and (data := os.read(read, 1 << 16)):
                    written[name] += data
            os.close(read)
    texts = [bytes(written[name]).decode(errors="replace") for name in ("stdout", "stderr")]
    return Ended(process.returncode, why, *texts, bytes(written["trace"]), waits, bool(slow and slow.was_too_fast))


def environment(work, **more):
    """What a program is told: nothing that leads it to another driver, and a place for its files."""
    kept = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "VMMSIM")}
    return {**kept, "TMPDIR": str(work), **more}


class Program:
    """A student's file, built in a directory of its own that goes at the end of `with`."""

    def __init__(self, source, architecture=75, limit=SECONDS):
        self.source, self.architecture, self.limit = source, architecture, limit

    def __enter__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="lab-"))
        self.file = self.directory / "program" / self.source.stem
        self.work = self.directory / "work"
        self.file.parent.mkdir()
        return self

    def __exit__(self, *_):
        for path in (self.directory, *self.directory.glob("**/")):
            with contextlib.suppress(OSError):
                path.chmod(0o700)
        shutil.rmtree(self.directory, ignore_errors=True)

    def shown(self, text):
        """With the paths as short as they can be."""
        text = re.sub(r"[^\s']*tmpxft_\w+-\d+_", "", text)  # what nvcc has made of the file
        text = re.sub(r":\(\.text[^)\s]*\):", ":", text)  # where in the object file: some linkers tell
        return text.replace(f"{self.directory}/", "").replace(f"{ROOT}/", "")

    def build(self):
        """Whether it could be built, and what the compiler said."""
        source = self.source.relative_to(ROOT) if self.source.is_relative_to(ROOT) else self.source
        flags = ["-std=c++17", f"-arch=compute_{self.architecture}", "--no-compress"]
        # For members of classes addr2line tells lines of DWARF 5 as those of another file.
        flags += ["-Xcompiler=-Wall,-Wextra,-g1,-gdwarf-4", "-I", "labs/solutions"]  # "../lab.h", wherever the file is
        done = run(
            [cached("CMAKE_CUDA_COMPILER") or "nvcc", *flags, source, "-o", self.file, "-lcuda"],
            COMPILER_SECONDS,
            ROOT,
            {**os.environ, "TMPDIR": str(self.file.parent)},
        )
        text = done.stderr + done.stdout
        if done.why:
            text = f"the compiler was ended: {done.why}\n{text[:4000]}"
        return not done.status and not done.why, self.shown(text)

    def run(self, gpus=1, machine="h200x8", memory="1GiB", fail=None, strict=False, slow_importer=False):
        """Runs it on simulated GPUs."""
        options = ["--gpus", gpus, "--machine", machine, "--memory", memory, "--explain", "--trace", "TRACE"]
        options += ["--fail", fail] if fail else []
        options += ["--strict"] if strict else []
        more = {"LD_LIBRARY_PATH": "", "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}
        return self.start([VMMSIM, *options, self.file], slow_importer, **more)

    def run_on_gpu(self):
        """Runs it on this machine's GPUs."""
        return self.start([self.file], False, CUDA_MODULE_LOADING="EAGER")

    def start(self, command, slow_importer, **more):
        for _ in range(SLOW_RUNS):
            shutil.rmtree(self.work, ignore_errors=True)
            self.work.mkdir(parents=True)
            ended = run(command, self.limit, self.work, environment(self.work, **more), slow_importer)
            if not ended.was_too_fast:
                break
        return ended

    def lines(self, addresses):
        """By address in the program: the line of the student's file that led there, the innermost, or None."""
        found = places(self.file, addresses)
        return {at: line for at in found if (line := line_of(found[at], self.source.name))}
