# SPDX-License-Identifier: MIT-0
"""The GPUs of this machine, as its driver tells of them."""

import os
import subprocess
import sys

TIME_LIMIT = 300  # seconds in which a driver answers
MISSING = "libcuda.so.1: cannot open shared object file"  # of the loader
NO_DRIVER = "there is no NVIDIA driver (no libcuda.so.1)"


def ask_driver(question):
    """What a process has printed that has put this to `driver`, in Python. It may die of a broken driver.

    The simulator's library is never the one that answers: in a process that vmmsim has not started its cuInit fails.
    """
    return subprocess.run(
        [sys.executable, "-I", "-c", f"import ctypes; driver = ctypes.CDLL('libcuda.so.1'); {question}"],
        env={name: value for name, value in os.environ.items() if name not in ("VMMSIM", "LD_PRELOAD")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
    )


def lacks_driver():
    """Whether this machine has none at all; one that is there may still not work."""
    try:
        return MISSING in ask_driver("pass").stderr
    except subprocess.TimeoutExpired:
        return False


def count_gpus():
    """The GPUs of this machine, as its driver counts them: (number, why there is none)."""
    question = (
        "count = ctypes.c_int(); print(driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)), count.value)"
    )
    try:
        done = ask_driver(question)
    except subprocess.TimeoutExpired:
        return 0, f"the NVIDIA driver does not answer within {TIME_LIMIT} seconds"
    if MISSING in done.stderr:
        return 0, NO_DRIVER
    error, _, count = done.stdout.strip().rpartition(" ")
    if done.returncode or error != "0":
        return 0, {"34": "there is only the toolkit's stub of a driver", "100": "the NVIDIA driver sees no GPU"}.get(
            error, f"the NVIDIA driver does not start (error {error or done.returncode})"
        )
    return int(count), "the NVIDIA driver counts no GPU"
