# SPDX-License-Identifier: MIT-0
"""What ends processes ends all of them, and says which it could not end."""

import contextlib
import os
import re
import subprocess
import sys
import time
import unittest.mock

import pytest

from vmmsim import processes

FORKS = "import os, time\nfor _ in range(3): os.fork()\nprint(flush=True)\ntime.sleep(1000)\n"


@pytest.fixture
def start():
    """Starts a process that is the leader of a session, and returns when it and those that it started are there."""
    with contextlib.ExitStack() as ends:

        def one():
            command = [sys.executable, "-c", FORKS]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
            ends.callback(process.stdout.close)
            ends.callback(process.wait)
            ends.callback(processes.end_session, process.pid)
            for _ in range(8):
                process.stdout.readline()
            return process

        yield one


def test_a_session_is_ended_whole(start):
    process = start()
    assert len(processes.in_session(process.pid)) == 8
    assert (processes.end_session(process.pid), processes.in_session(process.pid)) == ([], [])


def test_one_is_ended_with_all_below(start):
    process, other = start(), start()
    assert (processes.end_tree(process.pid), processes.in_session(process.pid)) == ([], [])
    assert len(processes.in_session(other.pid)) == 8


def test_end_all_leaves_no_descendant(start):
    process = start()
    assert len(processes.descendants(os.getpid())) == 8
    deadline = time.monotonic() + 30
    while not processes.waits(process.pid):  # it has printed, and may be on its way to sleep
        assert time.monotonic() < deadline
    assert (processes.end_all(), processes.descendants(os.getpid())) == ([], [])


def test_one_that_does_not_end_is_told(start):
    process = start()
    with unittest.mock.patch("os.kill"), unittest.mock.patch.object(processes, "PATIENCE", 0.1):
        (words, *_) = processes.end_all()
    assert re.search(r"^process \d+ \(.*python.*\) was killed 0.1 s ago and has not ended: its state is S$", words)
    processes.end_session(process.pid)
