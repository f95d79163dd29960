# SPDX-License-Identifier: MIT-0
"""Builds a lab's program and runs it, on simulated GPUs or real ones, within bounds.

What it does arrives through pipes that only this process reads; that with the record a witness writes (sandbox.py).
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
import shutil
import signal
import subprocess
import tempfile
import time

from labs.judge import sandbox
from labs.judge.splice import MADE_GLOBAL, OF_STARTER, SELECT, NotWhole, parts, spliced
from labs.judge.splice import program as program_of
from vmmsim.processes import descendants, end_all, look_at, reap, turns_of, waits
from vmmsim.programs import NotStarted, Output, end_with_session, started
from vmmsim.tool import PACKAGE
from vmmsim.trace import source_places as places

ROOT = pathlib.Path(__file__).resolve().parents[2]

BUILD = ROOT / os.environ.get("LABS_BUILD", "build")
VMMSIM = PACKAGE / "bin" / "vmmsim"
SECONDS = 20  # for one run; a lab takes less than one
SLOW_IMPORT = 5  # seconds for which an exporter that neither ends nor waits is given time before the import
OF_TRACE = 8  # the descriptor of the trace, in what is run
STILL = 5  # seconds in which nothing at all happens: all wait for one another
LATE = 300  # milliseconds for which a kernel does not begin, unless the program waits for it
COMPILER_SECONDS = 120
MOST = {"stdout": 1 << 20, "stderr": 1 << 20, "trace": 64 << 20}  # bytes
MOST_PROCESSES = 64
MOST_DESCRIPTORS = 4096  # what has a larger number the simulator does not see when a process ends
MOST_MEMORY = 4 << 30  # bytes of its own for each process; those of the simulated GPUs are not among them
MOST_SHARED = 8 << 30  # bytes of shared memory more than before, of the whole machine
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
prctl = ctypes.CDLL(None, use_errno=True).prctl


class CannotJudge(Exception):
    """What is no mistake of the student's: a check has one, or a process does not end."""


@dataclasses.dataclass
class Ended:
    """How a command ended: its exit status, negative for a signal, or why it was ended; and all that it wrote."""

    status: int
    why: str  # "", "time", "still", "processes", "memory", a name of MOST; "left": processes of it did not end
    stdout: str
    stderr: str
    trace: bytes
    seen: list = None  # as Witness.record has it; None: there was no witness
    waiting: dict = dataclasses.field(default_factory=dict)  # of one ended so: process -> whether it waits


def cached(name):
    """What CMake has found, by the name of its variable."""
    with contextlib.suppress(OSError):
        found = re.search(rf"^{name}:\w+=(.+)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
        return found[1] if found else ""
    return ""


def be_bounded():
    """In the new process: what it and all that it starts may take."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    files = min(MOST_DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    for bound, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, MOST_MEMORY),
        (resource.RLIMIT_NOFILE, files),
    ):
        resource.setrlimit(bound, (most, most))


def shared_memory():
    """The bytes of it that the machine has given out."""
    found = re.search(r"^Shmem: +(\d+) kB$", pathlib.Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found[1]) << 10


def too_much(output):
    """The name of one through which more has come than may, or ""."""
    return next((name for name, most in MOST.items() if len(output.written[name]) > most), "")


def run(command, limit, cwd, environment, seen=None):
    """Runs a command. A word "TRACE" of it becomes the name of the pipe for the trace, unless a witness writes that.

    It sees the files `seen`, arguments of sandbox.inside, and those of the system, and no others; all if that is None.
    """
    prctl(PR_SET_CHILD_SUBREAPER, 1)  # what loses its parent becomes ours, and is found
    read, trace = (open(end, "wb", 0) for end in os.pipe())
    with contextlib.suppress(OSError):  # no more than the user may have
        fcntl.fcntl(trace, fcntl.F_SETPIPE_SZ, 1 << 20)
    if seen:
        sandbox.give(trace.fileno())  # to be opened by its name
    by = (seen or {}).get("by")
    trace_file = os.devnull if by else f"/proc/self/fd/{OF_TRACE}"
    command = [trace_file if word == "TRACE" else str(word) for word in command]

    def begin():
        os.dup2(trace.fileno(), OF_TRACE)
        os.set_inheritable(OF_TRACE, True)  # where it has that number already, dup2 does nothing
        be_bounded()

    words = sandbox.inside(command, cwd=cwd, **seen) if seen else command
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "bufsize": 0}
    of_process = {"cwd": cwd, "env": environment, "pass_fds": [OF_TRACE], "begin": begin, **pipes}
    with read, trace:
        try:
            with started(words, end_with_all, **of_process) as process:
                trace.close()
                files = {"stdout": process.stdout, "stderr": process.stderr, "trace": read}
                output = Output(**{name: file.fileno() for name, file in files.items()})
                why = watch(process, output, limit)
                pids = descendants(process.pid) if why in ("time", "still") else ()
                waiting = {sandbox.number_inside(pid): waits(pid) for pid in pids}
        except NotStarted as error:
            return Ended(127, "", "", str(error), b"")
        with process.stdout, process.stderr:
            while output.read(0) and not too_much(output):
                pass
    stderr = output.text("stderr")
    if seen and process.returncode and stderr.startswith("bwrap: "):
        raise CannotJudge(f"the sandbox could not be made: {stderr}")
    if seen and process.returncode == sandbox.LEFT:
        why = why or "left"
    lines, calls = by.record(output.written["trace"]) if by else (bytes(output.written["trace"]), None)
    return Ended(process.returncode, why, output.text("stdout"), stderr, lines, calls, waiting)


def watch(process, output, limit):
    """Reads what it writes until all has ended, or is to be ended: why, or ""."""
    began = looked = stirred = time.monotonic()
    end, turns, shared = None, {}, shared_memory()  # of the process itself; of all threads
    while True:
        output.read(0.02)
        if too_much(output):
            return too_much(output)
        now = time.monotonic()
        has_ended = process.poll() is not None
        if has_ended and not reap():
            return ""
        if has_ended:
            end = end or now
            if now - end > 1:
                return "left"
        elif now - began > limit:
            return "time"
        elif now - looked > 0.25:
            looked, before = now, turns
            pids = descendants(process.pid)
            if len(pids) >= MOST_PROCESSES:
                return "processes"
            if shared_memory() - shared > MOST_SHARED:
                return "memory"
            # vmmsim itself looks now and then whether all have ended
            turns = turns_of(pid for pid in pids if (look_at(f"/proc/{pid}/stat") or [""])[0] != VMMSIM.name)
            if not turns or turns != before:
                stirred = now
            elif now - stirred > STILL:
                return "still"


def end_with_all(process):
    if left := end_with_session(process) or end_all():
        raise CannotJudge("\n".join(left))


def replaced(file):
    """A function of the system's libraries that a program defines, so that all would call that; or ""."""
    done = subprocess.run(["nm", "--defined-only", "-g", "-P", file], capture_output=True, text=True, check=True)
    kinds = {name: kind for name, kind, *_ in map(str.split, done.stdout.splitlines())}
    libraries = [ctypes.CDLL(name) for name in ("libc.so.6", "libstdc++.so.6")]
    own = [name for name, kind in kinds.items() if kind in "TWi" and not name.startswith("_Z")]
    return next((name for name in own if any(hasattr(library, name) for library in libraries)), "")


class Program:
    """A student's parts in the judge's own program, built in a directory of its own that goes at the end of `with`.

    `starter` is the text of the lab's, and `mains` are changes of it: each is a main of the program, to be run in turn.
    Without a starter the source is built as it stands.
    """

    def __init__(self, source, starter="", mains=({},), architecture=75, limit=SECONDS):
        self.source, self.starter, self.mains = source, starter, mains
        self.architecture, self.limit = architecture, limit
        self.text = source.read_text(errors="replace").removeprefix("\ufeff")
        self.spliced, self.known = None, {}  # places, by address

    def __enter__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="lab-"))
        self.file = self.directory / "labs" / "program" / self.source.stem
        self.work = self.directory / "work"
        self.file.parent.mkdir(parents=True)
        for header in (*ROOT.glob("common/*.h"), *ROOT.glob("labs/*.h")):
            to = self.directory / header.relative_to(ROOT)
            to.parent.mkdir(exist_ok=True)
            shutil.copy(header, to)
        self.directory.chmod(0o755)  # perhaps another user runs it
        return self

    def __exit__(self, *_):
        for path in (self.directory, *self.directory.glob("**/")):
            with contextlib.suppress(OSError):
                path.chmod(0o700)
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def name(self):
        """The student's file, as short as it can be said."""
        return self.shown(str(self.source))

    def shown(self, text):
        """With the paths as short as they can be."""
        text = re.sub(r"[^\s']*tmpxft_\w+-\d+_", "", text)  # what nvcc has made of the file
        text = re.sub(r":\(\.text[^)\s]*\):", ":", text)  # where in the object file: some linkers tell
        text = re.sub(r"\bmain_\d+::", "", text)  # the namespace in which splice puts a main
        return text.replace(f"{self.directory}/", "").replace(f"{ROOT}/", "")

    def build(self):
        """Whether it could be built, and what the compiler said."""
        code = self.file.with_suffix(".cu")
        try:
            self.spliced = spliced(self.starter, self.text, code.name, self.mains) if self.starter else None
        except NotWhole as wrong:
            return False, f"{code.name}({wrong.line}): error: {wrong.words}\n"
        code.write_text(program_of([self.spliced]) if self.spliced else self.text)
        nvcc = cached("CMAKE_CUDA_COMPILER") or shutil.which("nvcc") or "nvcc"
        flags = ["-std=c++17", f"-arch=compute_{self.architecture}", "--no-compress"]
        # For members of classes addr2line tells lines of DWARF 5 as those of another file.
        flags += ["-Xcompiler=-Wall,-Wextra,-Werror=return-type,-g1,-gdwarf-4"]
        seen = {
            "readable": [self.directory / "labs", self.directory / "common"],
            "writable": [self.file.parent],
        }
        toolkit = pathlib.Path(os.path.realpath(nvcc)).parents[1]
        if not toolkit.is_relative_to("/usr"):  # else it is with the system's files
            seen["readable"].append(toolkit)
        sandbox.give(self.file.parent)
        environment = {"PATH": os.environ.get("PATH", os.defpath), "TMPDIR": str(self.file.parent), "HOME": "/tmp"}
        done = run(
            [nvcc, *flags, code.name, "-o", self.file, "-lcuda"], COMPILER_SECONDS, self.file.parent, environment, seen
        )
        text = done.stderr + done.stdout
        if done.why:
            text = f"the compiler was ended: {done.why}\n{text[:4000]}"
        if not done.status and not done.why and (its := replaced(self.file)):
            words = f"it defines {its}, a function of the system, which the simulator calls"
            return False, f"{code.name}(1): error: {words}\n"
        return not done.status and not done.why, self.at_lines_of_file(self.shown(text))

    def at_lines_of_file(self, text):
        """What the compiler or the program says, with lines and names as the student has them."""
        text = MADE_GLOBAL.sub("", text)
        return re.sub(r"(?<=[:( ])1\d{6}(?=[:)])", lambda line: str(self.place_of(int(line[0]))[0]), text)

    def place_of(self, line):
        """(line of the student's file, whether it is the student's) of a line that the compiler was told."""
        if line < OF_STARTER:
            return line, True
        lines = self.spliced.lines if self.spliced else {}
        return lines.get(line - OF_STARTER, line - OF_STARTER), False

    def run(self, gpus=1, machine="h200x8", memory="1GiB", fail=None, late_kernels=LATE, main=0, **flags):
        """Runs one of its mains on simulated GPUs. Flags are strict, adversarial_timing and slow_importer: what it
        imports, its exporter has had time to give back, and then, too, the timing is adversarial."""
        own = ROOT / f"labs/judge/{machine}.conf"
        machine = own if own.exists() else machine
        options = ["--gpus", gpus, "--machine", machine, "--memory", memory, "--explain", "--trace", "TRACE"]
        options += ["--unsupported", "exit"]  # a kernel that is not simulated is named as that, and as no mistake
        options += ["--fail", fail] if fail else []
        options += ["--strict"] if flags.get("strict") else []
        options += ["--late-kernels", late_kernels] if late_kernels else []
        if slow := flags.get("slow_importer"):
            which = "" if slow is True else f"@{slow}"  # of all imports, or of one process
            options += ["--slow-import", f"{min(SLOW_IMPORT, self.limit // 2)}{which}"]
        options += ["--adversarial-timing"] if flags.get("adversarial_timing") or flags.get("slow_importer") else []
        seen = {
            "by": sandbox.witness(cached("CMAKE_CXX_COMPILER") or "g++", PACKAGE),
            "readable": [self.file, VMMSIM, PACKAGE / "simulator"],
            "writable": [self.work],
        }
        seen["readable"] += [own] if own.exists() else []
        return self.start([VMMSIM, *options, self.file], seen, **{SELECT: str(main)})

    def run_on_gpu(self):
        """Runs it on this machine's GPUs: with all that these need, so in no sandbox."""
        return self.start([self.file], None, **{**os.environ, SELECT: "0", "CUDA_MODULE_LOADING": "EAGER"})

    def start(self, command, seen, **environment):
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        sandbox.give(self.work)
        environment = {"PATH": os.defpath, "LANG": "C.UTF-8", **environment, "TMPDIR": str(self.work)}
        return run(command, self.limit, self.work, environment, seen)

    def lines(self, addresses):
        """By address in the program: (line, whether it is the student's, function) that led there, innermost first."""
        for at, found in places(self.file, [at for at in addresses if at not in self.known]).items():
            its = [one for one in found if pathlib.Path(one[0]).name == self.source.name]
            self.known[at] = [(*self.place_of(line), function) for _, line, function in its]
        return self.known

    def line(self, number, is_students=True):
        """The text of a line of the student's file; or of the starter's, of a line that is not judged there."""
        lines = self.text.splitlines()
        if not is_students and self.spliced:
            its = next((at for at, line in self.spliced.lines.items() if line == number), number)
            lines, number = self.starter.splitlines(), its
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def line_of_part(self, words, function=""):
        """The line after the mark of the part whose mark in the starter has these words; or the one there that defines
        this function: of lines that begin a definition or declaration of it the last."""
        marks = [self.starter.splitlines()[first - 1] for first, _ in parts(self.starter)]
        for mark, (first, last) in zip(marks, parts(self.text), strict=False):
            if words in mark:
                lines = self.text.splitlines()[first : last - 1]
                its = [at for at, line in enumerate(lines) if function and re.match(rf"\S.*\b{function}\(", line)]
                return first + 1 + (its[-1] if its else 0)
        return 0
