#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Runs the lessons that ./run.sh has built, in order, and ends with a table. Needs the standard library only."""

import argparse
import json
import os
import pathlib
import pty
import re
import selectors
import signal
import subprocess
import sys
import termios
import time

from vmmsim.hardware import MISSING, NO_DRIVER, count_gpus, lacks_driver
from vmmsim.processes import end_session, signal_name

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "build" / "bin"
SIMULATED_GPUS = 8
TIME_LIMIT = 300  # seconds; a lesson takes some


def classify(status, output, errors):
    """What the end of a program means: ("OK", ""), ("SKIP", "what is missing; what lifts it") or ("FAIL", "why").

    status is the exit status, negative for a signal; output and errors are what it wrote to stdout and stderr.
    """
    if status == 0:
        return "OK", ""
    if status == 77:
        reasons = re.findall(r"^SKIP: (\S.*; \S.*?)\s*$", output, re.MULTILINE)
        if reasons:
            return "SKIP", reasons[-1]
        return "FAIL", "exit status 77 without a line 'SKIP: what is missing; how to get it'"
    if status == 127:  # the loader gave up, before main or at the first call of a function that is not there
        if MISSING in errors:
            return "SKIP", "no NVIDIA driver on this machine (libcuda.so.1 is not there); install the driver"
        missing = re.search(r"symbol lookup error: .*undefined symbol: (cu[A-Z]\w*)", errors)
        if missing:
            return "SKIP", f"the NVIDIA driver is too old (it has no {missing.group(1)}); update the driver"
    if status < 0:
        return "FAIL", f"ended by {signal_name(-status)}"
    return "FAIL", f"exit status {status}"


class Output:
    """What a program writes to stdout and stderr, shown as it writes it."""

    def __init__(self, stdout, stderr):
        # In this order: what came before an error is shown before it.
        self.open = {stdout: sys.stdout.buffer, stderr: sys.stderr.buffer}
        self.written = {stdout: bytearray(), stderr: bytearray()}

    def show(self, wait):
        """Shows what is there, or comes within these seconds. Returns whether there was any, or an end."""
        with selectors.DefaultSelector() as selector:
            for descriptor in self.open:
                selector.register(descriptor, selectors.EVENT_READ)
            ready = {key.fd for key, _ in selector.select(wait)}
        for descriptor in [each for each in self.open if each in ready]:
            try:
                data = os.read(descriptor, 1 << 16)
            except OSError:  # so a terminal says that its other side is closed
                data = b""
            if not data:
                del self.open[descriptor]
                continue
            self.written[descriptor] += data
            self.open[descriptor].write(data)
            self.open[descriptor].flush()
        return bool(ready)

    def texts(self):
        return [bytes(data).decode(errors="replace") for data in self.written.values()]


def open_stdout():
    """The two ends of a program's stdout. A pipe would make it keep back its output until it ends: so it is a terminal,
    if there is one to be had."""
    try:
        output, theirs = pty.openpty()
        modes = termios.tcgetattr(theirs)
        modes[1] &= ~termios.OPOST  # newlines arrive as they were written
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        return output, theirs
    except OSError:
        return os.pipe()


def run(command, limit=TIME_LIMIT):
    """Runs a program, showing what it writes as it writes it. Returns its result, the reason and the seconds it took.

    The program and the processes it starts are a session of their own, and none of them outlives this call.
    """
    began = time.monotonic()
    stdout, theirs = open_stdout()
    words, streams = [str(word) for word in command], {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    # Who is asked to end meanwhile waits with that until it knows whom it has started, and so has to end.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    streams["preexec_fn"] = lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        process = subprocess.Popen(words, stdout=theirs, start_new_session=True, **streams)
    except OSError as error:
        os.close(stdout)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return "FAIL", f"it did not start: {error}", 0.0
    finally:
        os.close(theirs)

    output = Output(stdout, process.stderr.fileno())
    in_time = True
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        while process.poll() is None and in_time:
            if output.open:
                output.show(0.1)
            else:
                time.sleep(0.1)
            in_time = time.monotonic() - began < limit
    finally:
        left = end_session(process.pid)
        if not left:
            process.wait()
        while output.open and output.show(0):
            pass
        os.close(stdout)
        process.stderr.close()

    seconds = time.monotonic() - began
    if left:
        return "FAIL", left[0], seconds
    if not in_time:
        return "FAIL", f"not done after {limit} seconds", seconds
    return *classify(process.returncode, *output.texts()), seconds


def places(gpu, sim):
    """Where to run a lesson, one after the other until it is not skipped: (where, words before the program)."""
    simulator = PROGRAMS / "vmmsim"
    simulated = [(f"{SIMULATED_GPUS} simulated GPUs", [simulator, "--strict", "--gpus", SIMULATED_GPUS])]
    if sim:
        return simulated
    number, why = count_gpus()
    real = [(f"{number or 'no'} GPU{'s' if number > 1 else ''}", [])]
    if gpu:
        return real
    if not simulator.exists():
        print("The simulator is not built here: it needs Linux on 64-bit x86 or Arm.")
        return real
    if number:
        print(f"What this machine's {real[0][0]} cannot run is run on {SIMULATED_GPUS} simulated GPUs.")
        return real + simulated
    print(f"No GPU here: {why}. The lessons run on {SIMULATED_GPUS} simulated GPUs (--gpu leaves the simulator out).")
    return simulated


def lessons():
    return sorted(path.name for path in ROOT.glob("[0-9][0-9]_*") if path.is_dir())


def programs(lesson):
    """Its programs, the main one first."""
    names = sorted(path.stem for path in (ROOT / lesson).glob("*.cu"))
    return sorted(names, key=lambda name: name != lesson[3:])


def source_of(program):
    return next(ROOT.glob(f"[0-9][0-9]_*/{program}.cu"))


def program_config(program):
    """What the lesson.json of its directory says of this program. What skips the lesson, skips it too."""
    about = json.loads(source_of(program).with_name("lesson.json").read_text())
    own = about.get("programs", {}).get(program, {})
    return {**own, "skips": {**about.get("skips", {}), **own.get("skips", {})}}


def on_simulator(program):
    """The arguments for simulated GPUs, which are slow."""
    return program_config(program).get("simulated", "").split()


def short_args(program):
    """The arguments for a program that runs again and again, in tests: less memory, fewer repeats."""
    return program_config(program).get("small", "").split() or on_simulator(program)


def arguments():
    known = lessons()
    parser = argparse.ArgumentParser(
        prog="run.sh",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        usage="./run.sh [--help] [--sim | --gpu] [--all] [NN ...]\n       ./run.sh --docs | --notebooks | --setup\n"
        "       ./run.sh --view [options] PROGRAM [its arguments]",
        description="Sets up what is missing, builds, runs the lessons in order, and ends with a table of results.",
        epilog="lessons:\n  " + "\n  ".join(known) + "\n\n"
        "The lessons run on this machine's GPUs. What these cannot run, or all if there is no GPU, runs on\n"
        f"{SIMULATED_GPUS} simulated GPUs, with less to do where a lesson measures: they say nothing about speed. The\n"
        "table tells where each lesson ran.\n\n"
        "What is there is used. If g++ is missing it comes from the system's packages; CMake, Ninja and the CUDA\n"
        "compiler come from PyPI into .venv. CUDACXX names an nvcc that is not on the PATH. The programs are in\n"
        "build/bin/ afterwards; each takes --help, and so does build/bin/vmmsim, the simulator.\n\n"
        "--view runs any program, on simulated GPUs or with --real on real ones, and writes an HTML file in which one\n"
        "steps through its calls, the address spaces and the memory. It comes first: ./run.sh --view --help.\n\n"
        "exit status: 0 every lesson worked or was skipped, 1 one failed or could not be built, or there is no driver\n"
        "for --gpu, 2 bad arguments",
    )
    parser.add_argument("--programs", type=pathlib.Path, default=PROGRAMS, help=argparse.SUPPRESS)  # of a notebook
    parser.add_argument("--all", action="store_true", help="run the other programs of each lesson as well")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--sim", action="store_true", help="run on simulated GPUs only")
    where.add_argument("--gpu", action="store_true", help="run on this machine's GPUs only")
    where.add_argument("--docs", action="store_true", help="build the book instead, and say where to open it")
    where.add_argument(
        "--notebooks", action="store_true", help="write the lessons as notebooks, and get what runs them"
    )
    where.add_argument("--setup", action="store_true", help="only set up what is missing, and build the simulator")
    where.add_argument("--view", action="store_true", help="show what a program asks of CUDA (below)")
    parser.add_argument("lessons", metavar="NN", nargs="*", help="the lesson's number, 03 for instance; all if none")
    given = parser.parse_args()
    if given.view:
        parser.error("--view comes first: ./run.sh --view PROGRAM")
    for word in ("docs", "notebooks", "setup"):
        if getattr(given, word) and (given.lessons or given.all):
            parser.error(f"--{word} takes no lessons")
    chosen = set()
    for word in given.lessons:
        found = [name for name in known if word in (name, name[:2], name[:2].removeprefix("0"))]
        if not found:
            parser.error(f"there is no lesson {word!r}; there are {', '.join(name[:2] for name in known)}")
        chosen.update(found)
    given.lessons = sorted(chosen) or known
    if given.gpu and lacks_driver():
        sys.exit(f"./run.sh --gpu: {NO_DRIVER}: install it, or leave --gpu out to run on simulated GPUs")
    return given


def run_all(given):
    """Runs them, and returns the exit status."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # leave as on Ctrl-C, with no program left behind
        signal.signal(number, lambda number, _: sys.exit(128 + number))

    rows = []
    to_try = places(given.gpu, given.sim)
    for lesson in given.lessons:
        for program in programs(lesson) if given.all else [lesson[3:]]:
            name = lesson if program == lesson[3:] else f"{lesson} {program}"
            for where, words in to_try:
                more = on_simulator(program) if words else []
                print(f"\n== {' '.join([name, *more])}, {where} ==", flush=True)
                rows.append((name, where, *run([*words, given.programs.absolute() / program, *more])))
                if rows[-1][2] != "SKIP":
                    break

    width, where_width = (max(len(row[i]) for row in rows) for i in (0, 1))
    print(f"\n{'lesson':{width}}  {'where':{where_width}}  result  seconds")
    for lesson, where, result, reason, seconds in rows:
        missing, _, remedy = reason.partition("; ")
        print(f"{lesson:{width}}  {where:{where_width}}  {result:6}  {seconds:7.1f}  {missing}".rstrip())
        if remedy:
            print(f"{'':{width}}  {'':{where_width}}  {'':6}  {'':7}  to lift it: {remedy}")
    others = [f"{lesson[:2]} {' '.join(programs(lesson)[1:])}" for lesson in given.lessons if programs(lesson)[1:]]
    if others and not given.all and given.programs == PROGRAMS:
        print(f"\nThere are other programs, which --all runs too: {'; '.join(others)}.")
    worked = [lesson for lesson in given.lessons if any(row[0] == lesson and row[2] == "OK" for row in rows)]
    if worked and given.programs == PROGRAMS:
        print(f"\nNext, read how it works:         {worked[0]}/README.md")
        if (PROGRAMS / "vmmsim").exists():
            print(f"Or see what each call has done:  ./run.sh --view build/bin/{worked[0][3:]}")
    return 1 if any(row[2] == "FAIL" for row in rows) else 0


def end_with(main):
    """Ends the process with the status that this returns."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output has left, as in ./run.sh | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)


if __name__ == "__main__":
    end_with(lambda: run_all(arguments()))
