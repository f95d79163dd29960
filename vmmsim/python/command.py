# SPDX-License-Identifier: MIT-0
"""The command vmmsim of an installation: a program on simulated GPUs, or one of the words below."""

import os
import signal
import sys

from vmmsim import tool

USAGE = """
  vmmsim view [options] PROGRAM|RECORDING     one HTML file in which one steps through a program's calls of CUDA
  vmmsim record [options] FILE PROGRAM ...    only the recording, of this machine's GPUs
`vmmsim view --help` tells more. A program of these names is ./view, ./record. In a notebook `%load_ext vmmsim` draws
the address spaces after each cell.
{docs} has pages: simulator.md, what runs and what is not simulated; view.md; testing.md.
"""


def view(words):
    from vmmsim.view import watch

    return watch.main(words)


def record(words):
    if not words or words[0].startswith("-"):
        print("usage: vmmsim record FILE PROGRAM [its arguments]")
        print(
            "Runs a program on this machine's GPUs; what it asks of CUDA goes to FILE, which `vmmsim view FILE` draws."
        )
        return 0 if words[:1] in (["--help"], ["-h"]) else 2
    return view(["--real", "--record", *words])


def main():
    words = sys.argv[1:]
    command = {"view": view, "record": record}.get(words[0] if words else "")
    if command:
        sys.exit(command(words[1:]))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and the program would then, too
    if words == ["--cmake-dir"]:
        print(tool.PACKAGE / "cmake")
        sys.exit(0)
    launcher = tool.Tool().launcher
    if not launcher.exists():
        sys.exit(f"vmmsim: there is no {launcher}: build it, or install vmmsim")
    if words[:1] in (["--help"], ["-h"]):
        os.system(f"'{launcher}' --help")
        print(USAGE.format(docs=tool.PACKAGE / "docs"), end="")
        sys.exit(0)
    os.execv(launcher, ["vmmsim", *words])
