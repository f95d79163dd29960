# SPDX-License-Identifier: MIT-0
"""Each mistake of the guide, proven.

docs/errata.cpp and docs/errata.cu have a function for each. The guide's form is compiled with its number as AS_PRINTED.
Above the function stands what has to come of the two forms:
    // [1] Printed: does not compile: a regular expression that the compiler's message has
or how the program is run, with the number as its argument, and what it prints.
"""

import os
import pathlib
import re
import subprocess

import pytest

from vmmsim.built import BUILT

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE, MPIEXEC = pathlib.Path(BUILT["headers"]), pathlib.Path(BUILT.get("mpiexec_beside", ""))
FILES = ROOT / "docs/errata.cpp", ROOT / "docs/errata.cu"
FORM = re.compile(r"// \[(\d+)\] (Printed|Right): (does not compile|runs[\w ]*)(?:: |, and prints: )(.*)")
SIMULATED = [BUILT["vmmsim"], "--gpus", "1"]  # all: the program is one, and needs a driver to start
LAUNCHERS = {"runs": [], "runs on a GPU": [], "runs under MPI": [MPIEXEC, "-n", "2"]}
# Each form: its file, the lines of its function, what has to come of it, and how that is told.
CASES = []
for path in FILES:
    for match in FORM.finditer(path.read_text()):
        begin = path.read_text().count("\n", 0, match.start()) + 1
        end = path.read_text().splitlines().index("}", begin) + 1
        CASES.append((int(match[1]), match[2], path, range(begin, end), match[3], match[4]))
PRINTED = {number: path for number, form, path, *_ in CASES if form == "Printed"}


def compiled(file, *options, program=None):
    words = ["-std=c++17", f"-I{INCLUDE}", *options, file]
    if file.suffix == ".cu":
        return run([BUILT["nvcc"], "-arch=sm_90", "-c", *words, "-o", program])
    if "mpiexec_beside" in BUILT:
        words.append(f"-I{MPIEXEC.parent.parent / 'include'}")
    if not program:
        return run(["g++", "-Wall", "-Wextra", "-fsyntax-only", *words])
    libraries = [f"{BUILT['stub_directory']}/libcuda.so.1"]
    if "mpiexec_beside" in BUILT:
        directory = MPIEXEC.parent.parent / "lib"
        libraries += [f"-L{directory}", f"-Wl,-rpath,{directory}", "-lmpi"]
    return run(["g++", "-Wall", "-Wextra", *words, *libraries, "-o", program])


def run(words):
    environment = {**os.environ, "LC_ALL": "C"}  # the compiler's messages in English, with plain quotes
    options = {"text": True, "capture_output": True, "timeout": 120, "stdin": subprocess.DEVNULL}
    return subprocess.run([str(word) for word in words], env=environment, **options)


def need_mpi(number):
    if number in (9, 10) and "mpiexec_beside" not in BUILT:
        pytest.skip("no MPI beside this Python")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_right_forms_compile(file, tmp_path):
    done = compiled(file, program=tmp_path / "program")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]}")
def test_each_form_does_what_it_says(case, tmp_path):
    number, form, file, lines, outcome, text = case
    need_mpi(number)
    options = [f"-DAS_PRINTED={number}"] if form == "Printed" else []
    if outcome == "does not compile":
        done = compiled(file, *options, program=tmp_path / "object" if file.suffix == ".cu" else None)
        assert done.returncode
        assert re.search(text, done.stderr), done.stderr
        wrong = [int(line) for line in re.findall(rf"{file.name}[:(](\d+)[:)].*\berror\b", done.stderr)]
        assert wrong
        assert set(wrong) <= set(lines), "an error elsewhere"
        return
    program = tmp_path / "program"
    done = compiled(file, *options, program=program)
    assert (done.returncode, done.stderr) == (0, "")
    done = run([*SIMULATED, *LAUNCHERS[outcome], program, number])
    assert (done.returncode, done.stdout.strip()) == (0, text), done.stderr


def test_all_numbers_are_there():
    assert sorted(PRINTED) == list(range(1, 23))
    text = "".join(file.read_text() for file in FILES)
    assert {int(number) for number in re.findall(r"AS_PRINTED [!=]= (\d+)", text)} == set(PRINTED)
    runs = {number for number, form, *_, outcome, _ in CASES if form == "Printed" and outcome != "does not compile"}
    assert {number for number, form, *_ in CASES if form == "Right"} == runs


def test_the_page_leads_to_every_mistake():
    page = (ROOT / "docs/guide.md").read_text()
    links = set(re.findall(r"\[(\d+)\]\((errata\S+)\)", page))
    assert links == {(str(number), file.name) for number, file in PRINTED.items()}


def test_the_header_says_of_windows_what_the_page_says():
    header = (INCLUDE / "cuda.h").read_text()
    member = re.search(r"/\*\*((?:(?!\*/).)*)\*/\s*void \*win32HandleMetaData;", header, re.DOTALL)
    assert "POBJECT_ATTRIBUTES" in member[1]
