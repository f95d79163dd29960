#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""What ends processes ends all of them, and says which it could not end."""

import os
import subprocess
import sys
import time
import unittest
import unittest.mock

from vmmsim import processes

FORKS = "import os, time\nfor _ in range(3): os.fork()\nprint(flush=True)\ntime.sleep(1000)\n"


class ProcessesTest(unittest.TestCase):
    def start(self):
        """A process that is the leader of a session, when it and those that it started are there."""
        process = subprocess.Popen(
            [sys.executable, "-c", FORKS], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(processes.end_session, process.pid)
        for _ in range(8):
            process.stdout.readline()
        return process

    def test_a_session(self):
        process = self.start()
        self.assertEqual(len(processes.in_session(process.pid)), 8)
        self.assertEqual((processes.end_session(process.pid), processes.in_session(process.pid)), ([], []))

    def test_one_and_all_below(self):
        process, other = self.start(), self.start()
        self.assertEqual((processes.end_tree(process.pid), processes.in_session(process.pid)), ([], []))
        self.assertEqual(len(processes.in_session(other.pid)), 8)

    def test_end_all_leaves_no_descendant(self):
        process = self.start()
        self.assertEqual(len(processes.descendants(os.getpid())), 8)
        deadline = time.monotonic() + 30
        while not processes.waits(process.pid):  # it has printed, and may be on its way to sleep
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual((processes.end_all(), processes.descendants(os.getpid())), ([], []))

    def test_one_that_does_not_end(self):
        process = self.start()
        with unittest.mock.patch("os.kill"), unittest.mock.patch.object(processes, "PATIENCE", 0.1):
            (words, *_) = processes.end_all()
        self.assertRegex(words, r"^process \d+ \(.*python.*\) was killed 0.1 s ago and has not ended: its state is S$")
        processes.end_session(process.pid)


if __name__ == "__main__":
    unittest.main()
