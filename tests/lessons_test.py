# SPDX-License-Identifier: MIT-0
"""Programs of the lessons, started with wrong arguments, and each built alone by its own line.

On the toolkit's stub of a driver.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from vmmsim.built import BUILT

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = sorted(ROOT.glob("[0-9][0-9]_*/*.cu"))
TAKING = [source for source in SOURCES if "check::arguments(" in source.read_text()]


def name_of(source):
    """Its name among the tests: that of the lesson, and of a further program its own besides."""
    lesson = source.parent.name
    return lesson if source.stem == lesson[3:] else f"{lesson}.{source.stem}"


def start(*command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)


@pytest.fixture(autouse=True)
def without_driver(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", BUILT["stub_directory"])


@pytest.mark.parametrize("source", TAKING, ids=name_of)
def test_bad_arguments_are_refused_and_help_is_given(source):
    program = pathlib.Path(BUILT["build"], "bin", source.stem)
    done = start(program, "--help")
    usage = done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    assert usage.startswith(f"usage: {source.stem}")
    bad = [["--no-such-option"], ["surplus"], [""], ["-h"]]
    for option, argument in re.findall(r"^  (--[a-z-]+)( [A-Z]+)?", usage, re.MULTILINE):
        if argument == " FILE":
            bad += [[option], [option, ""]]
        elif argument:
            bad += [[option], [option, "x"], [option, "-1"], [option, "99999999999999999999"]]
        else:
            bad += [[option, "1"]]
    for words in bad:
        done = start(program, *words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert usage in done.stderr, words


def line_of(source):
    """What builds it alone: the same kind of line for all."""
    name = source.stem
    line = rf"nvcc -std=c\+\+17( -arch=sm_90)?( -lineinfo)? {name}\.cu -o {name} -lcuda"
    return re.search(rf"^// Build it alone: +({line})$", source.read_text(), re.MULTILINE)[1]


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_it_is_built_alone_by_its_line(source, tmp_path):
    """The line at the top builds it, in a copy of its directory. A main program then prints what was recorded, and the
    lines of the others beside it find what these include.
    """
    line, is_main = line_of(source), name_of(source) == source.parent.name
    copy = tmp_path / "with a space" / source.parent.name
    shutil.copytree(source.parent, copy)
    shutil.copytree(ROOT / "common", copy.parent / "common")
    environment = {**os.environ, "PATH": f"{os.path.dirname(BUILT['nvcc'])}:{os.environ['PATH']}"}
    done = start("sh", "-c", line, cwd=copy, env=environment)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stdout + done.stderr
    program = copy / source.stem
    if source in TAKING:
        done = start(program, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith("usage: ")
    if "vmmsim" in BUILT:
        words = "small", BUILT["vmmsim"], program
        if is_main:
            words = "simulated", source.with_name("expected_output.txt"), BUILT["vmmsim"], program, "2"
        done = start(sys.executable, "-B", "-m", "tests.run_program", *words, cwd=ROOT)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    for other in sorted(copy.glob("*.cu")) if is_main else ():
        words = line_of(other).partition(" -o ")[0]
        done = start("sh", "-c", f"{words} -M -o /dev/null", cwd=copy, env=environment)
        assert done.returncode == 0, f"{other.name} includes what is not beside it: {done.stderr}"
