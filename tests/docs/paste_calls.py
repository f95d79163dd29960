# SPDX-License-Identifier: MIT-0
"""Each call of a program to paste fails once: what its tests share, one of which runs in a Python without pytest.

A run under --trace tells which calls there are. Then each of them fails by --fail, under --leaks, and the program must
end with status 1. Several processes count their calls together.
"""

import collections
import importlib.metadata
import json
import os
import re
import subprocess
import sys

# After these a reference stays which nobody can give back; cuda.core keeps one that has to be retained first.
LOSES_A_HANDLE = {"cuMemRelease", "cuMemRetainAllocationHandle"}
PASTE = "docs/paste/"


def run(vmmsim, gpus, program, *options):
    command = [vmmsim, "--gpus", gpus, "--leaks", *options, *program]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=120, check=False)
    return done.returncode, re.findall("^vmmsim: leak: .*", done.stderr, re.MULTILINE), done.stdout + done.stderr


def expect_use(vmmsim, program):
    """A program of Python with `use` says OK, and nothing else."""
    command = [vmmsim, "--gpus", "1", "--leaks", *program, "use"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    if done.returncode or done.stdout != "OK\n" or done.stderr:
        sys.exit(f"FAIL: status {done.returncode}\n{done.stdout}{done.stderr}")


def need(*packages):
    try:
        for package in packages:
            importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as missing:
        print(f"SKIP: this Python has no {missing.name}; ./test.sh --all fetches it (vmmsim/requirements-python.txt)")
        sys.exit(77)


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


def failing(command, trace, is_own):
    """Of each call that is_own(its callers), in a run of its own in which it fails: name, leaks and output."""
    status, leaks, output = run(*command, "--trace", trace)
    assert (status, leaks) == (0, []), output
    counts = collections.Counter()
    for line in map(json.loads, trace.read_text().splitlines()):
        if line["call"].startswith("cu") and line["result"]:
            counts[line["call"]] += 1
            if is_own(line["callers"]):
                fault = f"{line['call']}:{counts[line['call']]}=CUDA_ERROR_UNKNOWN"
                status, leaks, output = run(*command, "--fail", fault)
                assert status == 1, f"{fault}: status {status}\n{output}"
                yield line["call"], leaks, f"{fault}: {output}"


def fail_in_turn(vmmsim, gpus, program, trace):
    """The calls that stand in a snippet: the program says so, and leaves what it could not give back at most."""
    own = list(failing((vmmsim, gpus, program), trace, lambda callers: is_of_paste(callers, program[0])))
    assert len(own) >= 4
    for call, leaks, output in own:
        assert "CUDA_ERROR_UNKNOWN" in output.partition(": ")[2], output
        assert all(call in LOSES_A_HANDLE and "leak: handle " in leak for leak in leaks), output
