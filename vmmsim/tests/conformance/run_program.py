# SPDX-License-Identifier: MIT-0
"""A program prints on the simulator what it printed on hardware: run_program.py EXPECTED COMMAND...

On stderr it may say what it likes. Exit status 0, 77 where nothing was recorded yet, 1 otherwise.

The simulator may be one with AddressSanitizer. Then a signal is still a signal, what the program itself leaks is its
own matter, and where the sanitizer has its shadow nothing can be reserved; nor can addresses be few. It gives threads
a stack for handlers.
"""

import itertools
import os
import pathlib
import re
import subprocess
import sys


def difference(recorded, output):
    """The first line that is not as recorded, or "". Lines that begin with # are comments; {12} is any integer."""
    pattern = re.compile(r"(?<!\{)\{\d+\}(?!\})")
    wanted = [line for line in recorded.splitlines() if not line.startswith("#")]
    for number, (line, got) in enumerate(itertools.zip_longest(wanted, output.splitlines()), 1):
        literal = [re.escape(part.replace("{{", "{").replace("}}", "}")) for part in pattern.split(line or "")]
        if line is None or got is None or not re.fullmatch(r"\d+".join(literal), got):
            return f"line {number} of the output is {got!r}, recorded is {line!r}"
    return ""


def main(expected, *command):
    expected = pathlib.Path(expected)
    if not expected.exists():
        print(f"SKIP: never run on hardware, record it: {command[-1]} > {expected}")
        return 77
    options = "detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_abort=0"
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "ASAN_OPTIONS": options},
    )
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr, flush=True)
    if done.returncode:
        return f"FAIL: exit status {done.returncode}"
    recorded, output = expected.read_text(), done.stdout
    if b"__asan_init" in pathlib.Path(command[0]).read_bytes():
        lines = re.compile(r"^(reserve 2\^4\d|RLIMIT_AS|a stack of its own for handlers).*\n", re.MULTILINE)
        recorded, output = (lines.sub("", text) for text in (recorded, output))
    wrong = difference(recorded, output)
    return f"FAIL: {expected}: {wrong}" if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
