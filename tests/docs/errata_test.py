# SPDX-License-Identifier: MIT-0
"""Each mistake of the guide, proven.

Each file in docs/errata holds the guide's form (under AS_PRINTED) and ours, and says what has to come of the two:
    // Printed: does not compile: a regular expression that the compiler's message has
    // Right: compiles
or how each is run, and what it prints.
"""

import os
import pathlib
import re
import subprocess

import pytest

from vmmsim.built import BUILT

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE, MPIEXEC = pathlib.Path(BUILT["headers"]), pathlib.Path(BUILT.get("mpiexec_beside", ""))
FILES = sorted((ROOT / "docs/errata").glob("[0-9]*"))
FORM = r"^// {}: (does not compile|compiles|runs(?: on a GPU| under MPI)?)(?:: |, and prints: |$)(.*)$"
LAUNCHERS = {"runs": [], "runs on a GPU": [BUILT["vmmsim"], "--gpus", "1"], "runs under MPI": [MPIEXEC, "-n", "2"]}


def command(file, form, program):
    options = ["-std=c++17", f"-I{INCLUDE}", f"-I{MPIEXEC.parent.parent / 'include'}"]
    options += ["-DAS_PRINTED"] if form == "Printed" else []
    if file.suffix == ".cu":
        return [BUILT["nvcc"], "-arch=sm_90", "-c", *options, file, "-o", program]
    if not program:
        return ["g++", "-Wall", "-Wextra", "-fsyntax-only", *options, file]
    libraries = [f"{BUILT['stub_directory']}/libcuda.so.1"]
    if "<mpi.h>" in file.read_text():
        directory = MPIEXEC.parent.parent / "lib"
        libraries += [f"-L{directory}", f"-Wl,-rpath,{directory}", "-lmpi"]
    return ["g++", "-Wall", "-Wextra", *options, file, *libraries, "-o", program]


def run(words):
    environment = {**os.environ, "LC_ALL": "C"}  # the compiler's messages in English, with plain quotes
    options = {"text": True, "capture_output": True, "timeout": 120, "stdin": subprocess.DEVNULL}
    return subprocess.run([str(word) for word in words], env=environment, **options)


@pytest.mark.parametrize("form", ["Printed", "Right"])
@pytest.mark.parametrize("file", FILES, ids=[file.name for file in FILES])
def test_each_form_does_what_it_says(file, form, tmp_path):
    if "<mpi.h>" in file.read_text() and "mpiexec_beside" not in BUILT:
        pytest.skip("no MPI beside this Python")
    outcome, text = re.search(FORM.format(form), file.read_text(), re.MULTILINE).groups()
    runs = outcome.startswith("runs")
    program = tmp_path / "program" if runs or file.suffix == ".cu" else None
    compiled = run(command(file, form, program))
    if outcome == "does not compile":
        assert compiled.returncode
        assert re.search(text, compiled.stderr)
        return
    assert (compiled.returncode, compiled.stderr) == (0, "")
    if runs:
        ran = run([*LAUNCHERS[outcome], program])
        assert (ran.returncode, ran.stdout.strip()) == (0, text), ran.stderr


def test_the_page_leads_to_every_file():
    page = (ROOT / "docs/guide.md").read_text()
    links = set(re.findall(r"\[\d+\]\(errata/\S+\)", page))
    assert {f"[{int(file.name[:2])}](errata/{file.name})" for file in FILES} == links


def test_the_header_says_of_windows_what_the_page_says():
    header = (INCLUDE / "cuda.h").read_text()
    member = re.search(r"/\*\*((?:(?!\*/).)*)\*/\s*void \*win32HandleMetaData;", header, re.DOTALL)
    assert "POBJECT_ATTRIBUTES" in member[1]
