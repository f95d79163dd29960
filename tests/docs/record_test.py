#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""docs/results/record.sh on a machine of four GPUs that is not there: record_test.py SOURCE_DIRECTORY.

The programs and nvidia-smi are stand-ins. What they measure is no matter here: the files must be those that the book is
drawn from, and a program that fails must leave nothing in them.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
PROGRAM = """#!/usr/bin/env bash
echo "$CUDA_VISIBLE_DEVICES: ${0##*/} $*"
echo "{}" > "${@: -1}"
[[ " $* " != *" --mib $BAD "* ]]
"""


class Record(unittest.TestCase):
    def record(self, *more, bad="", status=0):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        scratch = pathlib.Path(directory.name)
        programs = scratch / "bin"
        programs.mkdir()
        for name in {path.stem for path in ROOT.glob("[0-9][0-9]_*/*.cu")}:
            (programs / name).write_text(PROGRAM)
        (programs / "nvidia-smi").write_text("#!/bin/sh\nseq 4\n")
        for program in programs.iterdir():
            program.chmod(0o755)
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "BAD": bad}
        self.out = scratch / "out"
        done = subprocess.run(
            [ROOT / "docs/results/record.sh", programs, self.out, *more],
            env=environment,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, status, done)
        return done.stderr

    def test_its_files_are_those_of_the_book(self):
        """All that it records on four GPUs; of the other machines the book has some of these files."""
        self.assertEqual(self.record(), "")
        recorded = {path.name for path in self.out.glob("*.jsonl")}
        for machine in (ROOT / "docs/results").iterdir():
            kept = {path.name for path in machine.glob("*.jsonl")}
            self.assertLessEqual(kept, recorded, machine)
            if machine.name == "four_h200s":
                self.assertEqual(kept, recorded)
        told = "".join(path.read_text() for path in (self.out / "output").iterdir())
        runs = sum(path.read_text().count("{}\n") for path in self.out.glob("*.jsonl"))
        self.assertEqual(told.count("\n"), runs)
        self.assertIn("0,1,2,3: peer_cost --kib 64 ", told)

    def test_a_run_that_fails_is_told_and_adds_nothing(self):
        told = self.record(bad="16", status=1)
        self.assertIn("record.sh: exit status 1: ipc_cost --mib 16\n", told)
        self.assertEqual((self.out / "ipc_cost_1_gpu_sizes.jsonl").read_text(), "{}\n" * 4)

    def test_bad_arguments(self):
        self.assertIn("usage: ", self.record("surplus", status=2))
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
