# SPDX-License-Identifier: MIT-0
"""What tests of programs that nvcc builds have in common."""

import subprocess

import pytest

LIMIT = 120  # seconds for anything


class BuiltPrograms:
    """Cases that build programs into one scratch directory. `nvcc`: the compiler, with its options."""

    nvcc = ()

    @pytest.fixture(autouse=True, scope="class")
    def programs(self, request, tmp_path_factory):
        request.cls.scratch = tmp_path_factory.mktemp("programs")

    def build(self, name, text, *options):
        """A program, or with -shared a library."""
        source = self.scratch / name
        program = source.with_suffix(".so" if "-shared" in options else "")
        source.write_text(text)
        subprocess.run([*self.nvcc, source, "-o", program, *options], check=True, timeout=LIMIT)
        return program
