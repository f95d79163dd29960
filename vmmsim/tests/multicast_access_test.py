# SPDX-License-Identifier: MIT-0
"""Ordinary access to multicast addresses, and what is told of it."""

import json
import re
import subprocess
import tempfile

from vmmsim.built import BUILT
from vmmsim.trace.model import Machine

PROGRAM, VMMSIM = BUILT["multicast_access"], BUILT["vmmsim"]
TOLD = "goes to a multicast address without a multimem instruction, which the PTX manual calls for"
# What the program does to multicast addresses, in its order.
STORE, LOAD = "kernel (anonymous namespace)::store(", "kernel (anonymous namespace)::load("
ACCESSES = [
    STORE,
    LOAD,
    STORE,
    LOAD,
    LOAD,
    "cudaMemcpy",
    LOAD,
    "cudaMemcpy",
    "cudaMemcpy",
    "cudaMemcpy",
    "cudaMemcpy",
    "cudaMemcpyAsync",
    "cudaMemcpyAsync",
    "cudaMemcpyPeer",
    "cudaMemcpyPeer",
    "cudaMemcpy2D",
    "cudaMemcpy2D",
    "cudaMemset",
    "cuMemsetD16",
    "cuMemsetD32Async",
    "cuMemsetD2D32Async",
    "cudaMemset2D",
]
HOLE = "GPU 1 of the 2 in the multicast object's team has bound no memory"
FAULT, SUCCESS = "cudaErrorIllegalAddress\n", "cudaSuccess\n"


def run(*words):
    *options, what = words if words and not words[-1].startswith("-") else (*words, "all")
    return subprocess.run(
        [VMMSIM, "--gpus", "3", *options, PROGRAM, *what.split()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_all_reach_every_replica_and_it_is_told_once():
    done = run()
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stderr
    assert re.search(rf"\Avmmsim: kernel .*store.* on GPU 1, block .* {TOLD};.*--strict.*\n\Z", done.stderr)


def test_once_in_each_process_and_by_one_of_many_threads():
    done = run("many")
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stderr
    assert len(re.findall(TOLD, done.stderr)) == 2, done.stderr
    assert done.stderr.count("\n") == 2, done.stderr


def test_each_is_told_under_explain():
    done = run("--explain")
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stderr
    told = [line.removeprefix("vmmsim: ") for line in done.stderr.splitlines() if TOLD in line]
    assert len(told) == len(ACCESSES), done.stderr
    for line, access in zip(told, ACCESSES, strict=True):
        assert line.startswith(access if "(" in access else f"{access} #"), f"{access}: {line}"


def test_the_trace_tells_what_is_bound():
    machine, most = Machine(), 0
    with tempfile.NamedTemporaryFile() as trace:
        assert run("--trace", trace.name, "all").returncode == 0
        for line in trace.read().decode().splitlines():
            machine.line(json.loads(line))
            most = max(most, sum(len(memory.bound) for memory in machine.memory))
    machine.end()
    assert most == 2


def test_strict_makes_it_a_fault():
    for what in ("store", "load", "atomic"):
        done = run("--strict", "--explain", what)
        assert (done.returncode, done.stdout) == (0, FAULT), (what, done.stderr)
        assert "of a multicast object: only multimem instructions go to" in done.stderr
        assert TOLD not in done.stderr
    for what in ("copy_to", "copy_from", "memset"):
        done = run("--strict", "--explain", what)
        assert (done.returncode, done.stdout) == (0, SUCCESS), (what, done.stderr)
        assert re.search(
            r"\Avmmsim: cudaMem\w*\(.*\) answers cudaErrorInvalidValue: a multicast object "
            r"is mapped at 0x\w+: only multimem instructions go there\n\Z",
            done.stderr,
        )
    done = run("--strict")
    assert (done.returncode, "cudaErrorIllegalAddress" in done.stderr) == (1, True), done.stderr


def test_what_stays_a_fault():
    """Atomic operations, what a stream writes or waits for, holes, and the mapping that is open to another GPU."""
    for what, answer, why in (
        ("atomic", FAULT, "of a multicast object: only multimem instructions go to"),
        ("write_value", SUCCESS, "answers CUDA_ERROR_INVALID_VALUE: a multicast object is mapped at addr"),
        ("wait_value", SUCCESS, "answers CUDA_ERROR_INVALID_VALUE: a multicast object is mapped at addr"),
        ("store hole", FAULT, HOLE),
        ("load hole", FAULT, HOLE),
        ("copy_to hole", SUCCESS, "cudaErrorInvalidValue: at 0x..." + HOLE),
        ("copy_from hole", SUCCESS, "cudaErrorInvalidValue: at 0x..." + HOLE),
        ("memset hole", SUCCESS, "cudaErrorInvalidValue: at 0x..." + HOLE),
        ("others_store", FAULT, "of a multicast object, which is not open to GPU 1"),
        ("others_copy", SUCCESS, "cudaErrorInvalidValue: 0x... of a multicast object, which is not open to GPU 1"),
    ):
        done = run("--explain", what)
        assert (done.returncode, done.stdout) == (0, answer), (what, done.stderr)
        assert re.search(re.escape(why).replace(re.escape("..."), ".*"), done.stderr)
        assert TOLD not in done.stderr
