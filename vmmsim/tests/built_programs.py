# SPDX-License-Identifier: MIT-0
"""What tests of programs that nvcc builds have in common."""

import pathlib
import subprocess
import tempfile
import unittest

LIMIT = 120  # seconds for anything


class BuiltPrograms(unittest.TestCase):
    """Cases that build programs into one scratch directory. `nvcc`: the compiler, with its options."""

    nvcc = ()

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="vmmsim-programs-")
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)

    def build(self, name, text, *options):
        """A program, or with -shared a library."""
        source = self.scratch / name
        program = source.with_suffix(".so" if "-shared" in options else "")
        source.write_text(text)
        subprocess.run([*self.nvcc, source, "-o", program, *options], check=True, timeout=LIMIT)
        return program
