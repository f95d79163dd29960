#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Every call of a program to paste fails once: paste_faults_test.py VMMSIM PROGRAM

A run under --trace tells which calls it makes. Then each fails by --fail, under --leaks. The program must end with
status 1, and may leave behind only what the driver refused to take back.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

GIVES_BACK = {"cuMemRelease", "cuMemUnmap", "cuMemAddressFree"}


def run(vmmsim, program, *options):
    command = [vmmsim, "--gpus", "1", "--leaks", *options, program]
    done = subprocess.run(command, text=True, capture_output=True, timeout=60, check=False)
    return done.returncode, re.findall("^vmmsim: leak: .*", done.stderr, re.MULTILINE), done.stdout + done.stderr


def main(vmmsim, program):
    with tempfile.TemporaryDirectory() as scratch:
        trace = pathlib.Path(scratch, "trace")
        status, leaks, output = run(vmmsim, program, "--trace", trace)
        lines = [json.loads(line) for line in trace.read_text().splitlines()]
    if status or leaks:
        sys.exit(f"FAIL: without a fault: status {status}\n{output}")
    counts, bad = collections.Counter(), 0
    for call in (line["call"] for line in lines if line["result"]):
        counts[call] += 1
        fault = f"{call}:{counts[call]}=CUDA_ERROR_UNKNOWN"
        status, leaks, output = run(vmmsim, program, "--fail", fault)
        wrong = status != 1 or (leaks and call not in GIVES_BACK)
        print(f"{'FAIL' if wrong else 'ok'}: {fault}: status {status}, {len(leaks)} leaks{output if wrong else ''}")
        bad += bool(wrong)
    if bad or sum(counts.values()) < 10:
        sys.exit(f"FAIL: {bad} of {sum(counts.values())} calls")


if __name__ == "__main__":
    main(*sys.argv[1:])
