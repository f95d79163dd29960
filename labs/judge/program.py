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
import re
import resource
import selectors
import shutil
import signal
import subprocess
import tempfile
import time

from vmmsim.processes import descendants, end_all, end_session, reap, turns_of, waits
from vmmsim.trace.places import places

ROOT = pathlib.Path(__file__).resolve().parents[2]

BUILD = ROOT / os.environ.get("LABS_BUILD", "build")
VMMSIM = BUILD / "bin" / "vmmsim"
SECONDS = 20  # for one run; a lab takes less than one
SLOW_IMPORT = 10  # seconds for which an exporter that neither ends nor waits is given time before the import
STILL = 5  # seconds in which nothing at all happens: all wait for one another
LATE = 300  # milliseconds for which a kernel does not begin, unless the program waits for it
COMPILER_SECONDS = 120
MOST = {"stdout": 1 << 20, "stderr": 1 << 20, "trace": 64 << 20}  # bytes
MOST_PROCESSES = 64
MOST_DESCRIPTORS = 4096  # what has a larger number the simulator does not see when a process ends
MORE_THREADS = 400  # of this user, than there are; root has no such bound
MOST_MEMORY = 4 << 30  # bytes of its own for each process; those of the simulated GPUs are not among them
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
prctl = ctypes.CDLL(None, use_errno=True).prctl


class CannotJudge(Exception):
    """What is no mistake of the student's: a check has one, or a process does not end."""


@dataclasses.dataclass
class Ended:
    """How a command ended: its exit status, negative for a signal, or why it was ended; and all that it wrote."""

    status: int
    why: str  # "", "time", "still", "stdout", "stderr", "trace", "processes"; "left": processes of it did not end
    stdout: str
    stderr: str
    trace: bytes
    waiting: dict = dataclasses.field(default_factory=dict)  # of one ended so: process -> whether it waits


def cached(name):
    """What CMake has found, by the name of its variable."""
    with contextlib.suppress(OSError):
        found = re.search(rf"^{name}:\w+=(.+)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
        return found[1] if found else ""
    return ""


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
    files = min(MOST_DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    if most == resource.RLIM_INFINITY or threads < most:
        resource.setrlimit(resource.RLIMIT_NPROC, (threads, most))


class Pipes:
    """What a command writes, each through a pipe that only this process reads."""

    def __init__(self):
        self.ends = {name: os.pipe() for name in MOST}
        self.written = {name: bytearray() for name in MOST}
        self.selector = selectors.DefaultSelector()
        for name, (read, _) in self.ends.items():
            os.set_blocking(read, False)
            self.selector.register(read, selectors.EVENT_READ, name)
            with contextlib.suppress(OSError):  # no more than the user may have
                fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, 1 << 20)

    def close_writers(self):
        for _, write in self.ends.values():
            os.close(write)

    def read(self):
        """The name of one through which more has come than may, or ""."""
        for key, _ in self.selector.select(0.02):
            data = os.read(key.fd, 1 << 16)
            self.written[key.data] += data
            if not data:
                self.selector.unregister(key.fd)
        return next((name for name in MOST if len(self.written[name]) > MOST[name]), "")

    def close(self):
        """After the last writer has gone. What is still in the pipes is read first."""
        for name, (read, _) in self.ends.items():
            with contextlib.suppress(BlockingIOError):
                while len(self.written[name]) <= MOST[name] and (data := os.read(read, 1 << 16)):
                    self.written[name] += data
            os.close(read)
        self.selector.close()

    def texts(self):
        return [bytes(self.written[name]).decode(errors="replace") for name in ("stdout", "stderr")]


def run(command, limit, cwd, environment):
    """Runs a command. A word "TRACE" of it becomes the name of the pipe for the trace."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)  # what loses its parent becomes ours, and is found
    threads, process, pipes = threads_of_user() + MORE_THREADS, None, Pipes()
    trace = pipes.ends["trace"][1]
    # Who is asked to end meanwhile waits with that until it knows whom it has started, and so has to end.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))

    def begin():  # no thread is here
        be_bounded(limit, threads)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    try:
        process = subprocess.Popen(
            [f"/proc/self/fd/{trace}" if word == "TRACE" else str(word) for word in command],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=pipes.ends["stdout"][1],
            stderr=pipes.ends["stderr"][1],
            pass_fds=[trace],
            start_new_session=True,
            preexec_fn=begin,
        )
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return Ended(127, "", "", f"{command[0]} cannot be started: {error.strerror}", b"")
    finally:
        pipes.close_writers()
        if not process:
            pipes.close()
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        why = watch(process, pipes, limit)
        waiting = {pid: waits(pid) for pid in descendants(process.pid)} if why in ("time", "still") else {}
    finally:
        end_with_all(process)
        pipes.close()
    return Ended(process.returncode, why, *pipes.texts(), bytes(pipes.written["trace"]), waiting)


def watch(process, pipes, limit):
    """Reads what it writes until all has ended, or is to be ended: why, or ""."""
    began = looked = stirred = time.monotonic()
    end, turns = None, {}  # of the process itself; of all threads
    while True:
        if too_much := pipes.read():
            return too_much
        now = time.monotonic()
        if process.poll() is not None:
            end = end or now
            if not reap():
                return ""
            if now - end > 1:
                return "left"
        elif now - began > limit:
            return "time"
        elif now - looked > 0.1:
            looked, before = now, turns
            pids = descendants(process.pid)
            if len(pids) >= MOST_PROCESSES:
                return "processes"
            turns = turns_of(pids)  # vmmsim itself looks now and then whether all have ended
            if not turns or turns != before:
                stirred = now
            elif now - stirred > STILL:
                return "still"


def end_with_all(process):
    left = end_session(process.pid)
    if not left:
        process.wait()
        left = end_all()
    if left:
        raise CannotJudge("\n".join(left))


def environment(work, **more):
    """What a program is told: nothing that leads it to another driver, and a place for its files."""
    kept = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "VMMSIM")}
    return {**kept, "TMPDIR": str(work), **more}


class Program:
    """A student's file, built in a directory of its own that goes at the end of `with`."""

    def __init__(self, source, architecture=75, limit=SECONDS):
        self.source, self.architecture, self.limit = source, architecture, limit
        self.known = {}  # lines, by address

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

    def run(
        self,
        gpus=1,
        machine="h200x8",
        memory="1GiB",
        fail=None,
        strict=False,
        slow_importer=False,
        no_luck=False,
        late_kernels=LATE,
    ):
        """Runs it on simulated GPUs. What a slow importer imports, its exporter has had time to give back; then too a
        sleep is no wait, and numbers of descriptors differ (--no-luck)."""
        options = ["--gpus", gpus, "--machine", machine, "--memory", memory, "--explain", "--trace", "TRACE"]
        options += ["--fail", fail] if fail else []
        options += ["--strict"] if strict else []
        options += ["--late-kernels", late_kernels] if late_kernels else []
        options += ["--slow-import", min(SLOW_IMPORT, self.limit // 2)] if slow_importer else []
        options += ["--no-luck"] if no_luck or slow_importer else []
        more = {"LD_LIBRARY_PATH": "", "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}
        return self.start([VMMSIM, *options, self.file], **more)

    def run_on_gpu(self):
        """Runs it on this machine's GPUs."""
        return self.start([self.file], CUDA_MODULE_LOADING="EAGER")

    def start(self, command, **more):
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        return run(command, self.limit, self.work, environment(self.work, **more))

    def lines(self, addresses):
        """By address in the program: (line, function) of the student's file that led there, the innermost first."""
        name = self.source.name
        for at, found in places(self.file, [at for at in addresses if at not in self.known]).items():
            self.known[at] = [(line, what) for path, line, what in found if pathlib.Path(path).name == name]
        return self.known
