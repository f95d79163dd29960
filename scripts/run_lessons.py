#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Runs the lessons that ./run.sh has built, in order, and ends with a table. Needs the standard library only."""
import argparse
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "build" / "bin"
TIME_LIMIT = 300  # seconds; a lesson takes some


def classify(status, output, errors):
    """What the end of a program means: ("OK", ""), ("SKIP", "what is missing; what lifts it") or ("FAIL", "why").

    status is the exit status, negative for a signal; output and errors are what it wrote to stdout and stderr.
    """
    if status == 0:
        return "OK", ""
    if status == 77:
        told = re.findall(r"^SKIP: (\S.*; \S.*?)\s*$", output, re.MULTILINE)
        if told:
            return "SKIP", told[-1]
        return "FAIL", "exit status 77 without a line 'SKIP: what is missing; how to get it'"
    if status == 127:  # the loader gave up, before main or at the first call of a function that is not there
        if "libcuda.so.1: cannot open shared object file" in errors:
            return "SKIP", "no NVIDIA driver on this machine (libcuda.so.1 is not there); install the driver"
        missing = re.search(r"symbol lookup error: .*undefined symbol: (cu[A-Z]\w*)", errors)
        if missing:
            return "SKIP", f"the NVIDIA driver is too old (it has no {missing.group(1)}); update the driver"
    if status < 0:
        return "FAIL", f"ended by {signal_name(-status)}"
    return "FAIL", f"exit status {status}"


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def run(command, limit=TIME_LIMIT):
    """Runs a program, showing what it writes as it writes it. Returns its result, the reason and the seconds it took.

    The program and the processes it starts are a process group of their own, and none of them outlives this call.
    """
    written = {1: bytearray(), 2: bytearray()}
    began = time.monotonic()
    # A pipe would make the program keep back its output until it ends: stdout is a terminal if there is one to be had.
    try:
        output, theirs = pty.openpty()
        modes = termios.tcgetattr(theirs)
        modes[1] &= ~termios.OPOST  # newlines arrive as they were written
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
    except OSError:
        output, theirs = os.pipe()
    try:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=theirs,
                                   stderr=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        os.close(output)
        return "FAIL", f"it did not start: {error}", 0.0
    finally:
        os.close(theirs)

    errors = process.stderr.fileno()
    open_files = {output: 1, errors: 2}  # in this order: what came before an error is shown before it

    def show_what_is_there(wait):
        with selectors.DefaultSelector() as selector:
            for descriptor in open_files:
                selector.register(descriptor, selectors.EVENT_READ)
            ready = {key.fd for key, _ in selector.select(wait)}
        for descriptor in [each for each in open_files if each in ready]:
            try:
                data = os.read(descriptor, 1 << 16)
            except OSError:  # so a terminal says that its other side is closed
                data = b""
            if not data:
                del open_files[descriptor]
                continue
            stream = open_files[descriptor]
            written[stream] += data
            shown = (sys.stdout if stream == 1 else sys.stderr).buffer
            shown.write(data)
            shown.flush()
        return ready

    in_time = True
    try:
        while process.poll() is None and in_time:
            if open_files:
                show_what_is_there(0.1)
            else:
                time.sleep(0.1)
            in_time = time.monotonic() - began < limit
    finally:
        end_group(process)
        while open_files and show_what_is_there(0):
            pass
        os.close(output)
        process.stderr.close()

    seconds = time.monotonic() - began
    if not in_time:
        return "FAIL", f"not done after {limit} seconds", seconds
    texts = [bytes(written[stream]).decode(errors="replace") for stream in (1, 2)]
    result, reason = classify(process.returncode, *texts)
    return result, reason, seconds


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def lessons():
    return sorted(path.name for path in ROOT.glob("[0-9][0-9]_*") if path.is_dir())


def arguments():
    known = lessons()
    parser = argparse.ArgumentParser(
        prog="run.sh", formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
        usage="./run.sh [--help] [NN ...]",
        description="Sets up what is missing, builds, runs the lessons in order, and ends with a table of results.",
        epilog="lessons:\n  " + "\n  ".join(known) + "\n\n"
        "What is there is used. If g++ is missing it comes from the system's packages; CMake, Ninja and the CUDA\n"
        "compiler come from PyPI into .venv. CUDACXX names an nvcc that is not on the PATH. The programs are in\n"
        "build/bin/ afterwards; each takes --help.\n\n"
        "exit status: 0 every lesson worked or was skipped, 1 one failed or could not be built, 2 bad arguments")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # only look at the arguments
    parser.add_argument("lessons", metavar="NN", nargs="*", help="the lesson's number, 03 for instance; all if none")
    given = parser.parse_args()
    chosen = set()
    for word in given.lessons:
        found = [name for name in known if word in (name, name[:2], name[:2].removeprefix("0"))]
        if not found:
            parser.error(f"there is no lesson {word!r}; there are {', '.join(name[:2] for name in known)}")
        chosen.update(found)
    return given.check, sorted(chosen) or known


def main():
    only_check, chosen = arguments()
    if only_check:
        return 0
    for number in (signal.SIGTERM, signal.SIGHUP):  # leave as on Ctrl-C, with no program left behind
        signal.signal(number, lambda number, _: sys.exit(128 + number))

    rows = []
    for lesson in chosen:
        print(f"\n== {lesson} ==", flush=True)
        rows.append((lesson, *run([PROGRAMS / lesson[3:]])))

    width = max(len(row[0]) for row in rows)
    print(f"\n{'lesson':{width}}  result  seconds")
    for lesson, result, reason, seconds in rows:
        missing, _, remedy = reason.partition("; ")
        print(f"{lesson:{width}}  {result:6}  {seconds:7.1f}  {missing}".rstrip())
        if remedy:
            print(f"{'':{width}}  {'':6}  {'':7}  to lift it: {remedy}")
    return 1 if any(row[1] == "FAIL" for row in rows) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output has left, as in ./run.sh | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
