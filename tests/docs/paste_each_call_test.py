#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Each call that a snippet of docs/paste makes of the driver fails once.

    paste_each_call_test.py VMMSIM GPUS PROGRAM [ARGUMENT...]

A run under --trace tells which calls of the program stand in a file of docs/paste. Then each of them fails by --fail,
under --leaks. The program must say CUDA_ERROR_UNKNOWN and end with status 1. It may leave behind nothing but a handle
that the driver refused to take back. Several processes count their calls together.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# After these a reference stays which nobody can give back; cuda.core keeps one that has to be retained first.
LOSES_A_HANDLE = {"cuMemRelease", "cuMemRetainAllocationHandle"}
PASTE = "docs/paste/"


def run(vmmsim, gpus, program, *options):
    command = [vmmsim, "--gpus", gpus, "--leaks", *options, *program]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=120, check=False)
    return done.returncode, re.findall("^vmmsim: leak: .*", done.stderr, re.MULTILINE), done.stdout + done.stderr


def is_of_paste(callers, program):
    """Whether a call stands in a snippet: in the innermost line of source, or in the next if a test has wrapped it."""
    lines = []
    for caller in callers:
        module, _, offset = caller.partition("+0x")
        if offset and module == os.path.basename(program):
            before = hex(int(offset, 16) - 1)  # of the call, not of what comes after it
            words = ["addr2line", "-i", "-e", program, before]
            lines += subprocess.run(words, text=True, capture_output=True, check=True).stdout.splitlines()
        elif not offset and not lines:  # of Python
            return PASTE in caller
    return any(PASTE in line for line in lines[:2])


def main(vmmsim, gpus, *program):
    with tempfile.TemporaryDirectory() as scratch:
        trace = pathlib.Path(scratch, "trace")
        status, leaks, output = run(vmmsim, gpus, program, "--trace", trace)
        lines = [json.loads(line) for line in trace.read_text().splitlines()]
    if status or leaks:
        sys.exit(f"FAIL: without a fault: status {status}\n{output}")
    counts, own = collections.Counter(), []
    for line in lines:
        if line["call"].startswith("cu") and line["result"]:
            counts[line["call"]] += 1
            if is_of_paste(line["callers"], program[0]):
                own.append((line["call"], counts[line["call"]]))
    bad = 0
    for call, number in own:
        fault = f"{call}:{number}=CUDA_ERROR_UNKNOWN"
        status, leaks, output = run(vmmsim, gpus, program, "--fail", fault)
        if call in LOSES_A_HANDLE:
            leaks = [leak for leak in leaks if "leak: handle " not in leak]
        wrong = status != 1 or "CUDA_ERROR_UNKNOWN" not in output or bool(leaks)
        print(f"{'FAIL' if wrong else 'ok'}: {fault}: status {status}, {len(leaks)} leaks{output if wrong else ''}")
        bad += bool(wrong)
    if bad or len(own) < 4:
        sys.exit(f"FAIL: {bad} of {len(own)} calls")


if __name__ == "__main__":
    main(*sys.argv[1:])
