#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""A program prints on the simulator what it printed on hardware: facts_test.py EXPECTED COMMAND...

On stderr it may say what it likes. Exit status 0, 77 where nothing was recorded yet, 1 otherwise.
"""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests"))
from transcript import expectations, pair  # noqa: E402


def main(expected, *command):
    expected = pathlib.Path(expected)
    if not expected.exists():
        print(f"SKIP: never run on hardware, record it: {command[-1]} > {expected}")
        return 77
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr, flush=True)
    if done.returncode:
        return f"FAIL: exit status {done.returncode}"
    gpus = int(command[command.index("--gpus") + 1])
    wrong = pair(expectations(expected.read_text()), done.stdout, gpus)[1]
    return f"FAIL: {expected}: {wrong}" if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
