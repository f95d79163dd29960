# SPDX-License-Identifier: MIT-0
"""Lessons, snippets, labs and the tool, with another toolkit and other compilers, as a user may have them.

All compiles with -Wall -Wextra -Werror, with g++ and clang++ for the host; of the tool that is its sources' syntax. The
lessons built with the newest print what they print otherwise, on the simulated machine whose driver takes PTX of it.
PyPI has no nvcc of CUDA 12: for 12.9 that of 13.0 gets the headers of 12.9.

No option silences clang++: nvcc's stubs for kernels draw no warning of it, which is as it should stay. But it sees what
nvcc has preprocessed, in which macros of the system's headers stand expanded, and warns of these too.

Skipped without a package index (a failure where CI is true), or without a compiler that the toolkit takes.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import sys

import pytest

from labs.judge.verdict import Lab, all_labs
from scripts.lessons import lessons
from tests import toolkits
from tests.machines import ROOT, expect, run, scratch
from vmmsim.built import BUILT

RELEASES = "12.9", "13.0", "13.5"
FETCHED = pathlib.Path(BUILT["build"], "toolkits")  # which stay there
CMAKE = BUILT["cmake"], "-G", BUILT["generator"], f"-DCMAKE_MAKE_PROGRAM={BUILT['make_program']}"
COMPILERS = "g++", "clang++"
STRICT = "-Wall", "-Wextra", "-Werror"
MAIN = [ROOT / name / f"{name[3:]}.cu" for name in lessons()]


class Toolkit:
    def __init__(self, release, directory):
        of_nvcc = "13.0" if release.startswith("12.") else release
        if release != of_nvcc and f"release {of_nvcc}," in run(ROOT, BUILT["nvcc"], "--version").stdout:
            self.root = pathlib.Path(BUILT["nvcc"]).resolve().parents[1]
        else:
            self.root = toolkits.fetch(of_nvcc, FETCHED) / "cu13"
        self.release, self.nvcc, self.headers, self.directory = release, self.root / "bin" / "nvcc", [], directory
        if release.startswith("12."):  # before those of the toolkit that nvcc is of
            parts = toolkits.fetch(release, FETCHED)
            for name in "cuda_runtime", "cuda_cccl", "cuda_cupti":
                self.headers.append(parts / name / "include")

    def compile(self, compiler, source, *more):
        words = (
            "-std=c++17",
            "-arch=compute_90",
            "--no-compress",
            "-Werror=all-warnings",
            "-Xcompiler",
            ",".join(STRICT),
        )
        return run(ROOT, self.nvcc, *words, "-ccbin", compiler, *(f"-I{each}" for each in self.headers), source, *more)


def expect_taken(toolkit, compiler):
    """Skips where nvcc does not take this compiler; the headers are those of the release."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}; install it")
    probe = toolkit.directory / "probe.cu"
    number = 1000 * int(toolkit.release[:2]) + 10 * int(toolkit.release[3:])
    probe.write_text(f"#include <cuda.h>\nstatic_assert(CUDA_VERSION == {number} && CUDART_VERSION == {number});\n")
    done = toolkit.compile(compiler, probe, "-c", "-o", os.devnull)
    if "unsupported clang version" in done.stderr:
        pytest.skip(f"this {compiler} is newer than what this nvcc takes; install an older one")
    expect(done.returncode == 0, f"{toolkit.release}: not its headers", done)


def sources_of_labs(directory):
    """One source for all starters and one for all solutions: a lab is small, and the headers are most of the work."""
    for kind, text_of in ("starters", lambda lab: lab.starter.read_text()), ("solutions", Lab.whole_solution):
        texts = {lab.name: text_of(lab).replace('"../', f'"{ROOT}/labs/') for lab in all_labs()}
        lines = [*dict.fromkeys(line for text in texts.values() for line in re.findall(r"^#include .*", text, re.M))]
        lines += [f'namespace lab_{name} {{\n#line 1 "{name}.cu"\n{text}\n}}' for name, text in texts.items()]
        (directory / f"{kind}.cu").write_text("\n".join(lines) + "\n")
        yield directory / f"{kind}.cu"


def tool(toolkit):
    """The commands that compile its sources, those of a library at once, but for those that are made when it is built.
    Those that know little of CUDA's headers are compiled with the newest alone.
    """
    build = toolkit.directory / "tool"
    if not build.exists():
        words = "-S", ROOT / "vmmsim", "-B", build, "-DBUILD_TESTING=OFF", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
        words = *words, "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0"
        if toolkit.root.parent.name == "nvidia":
            place = f"-DCMAKE_PREFIX_PATH={toolkit.root.parents[1]}"
        else:
            place = f"-DCUDAToolkit_ROOT={toolkit.root}"
        done = run(ROOT, *CMAKE, *words, place)
        expect(done.returncode == 0 and "No CUPTI" not in done.stdout, f"{toolkit.release}: tool not configured", done)
        done = run(ROOT, BUILT["cmake"], "--build", build, "--target", "driver_leads")
        expect(done.returncode == 0, f"{toolkit.release}: no table of the driver's calls", done)
    commands = json.loads((build / "compile_commands.json").read_text())
    commands = [each for each in commands if not pathlib.Path(each["file"]).name.startswith("missing_")]
    commands = [each["command"] for each in commands if pathlib.Path(each["file"]).exists()]
    if toolkit.release != RELEASES[-1]:
        know_little = re.compile(r"/(simulator_gpu|simulator_ptx|vmmsim|hook|interposed)\.dir/")
        commands = [each for each in commands if not know_little.search(each)]
    return [shlex.split(each) for each in commands]


def syntax(toolkit, compiler, words):
    at = words.index("-o")
    headers = [f"-isystem{each}" for each in toolkit.headers]
    return run(ROOT, compiler, *headers, *words[1:at], *words[at + 2 :], "-fsyntax-only", "-Werror")


def on_newest_driver(directory):
    """A command as vmmsim, on the machine with the newest driver."""
    script = directory / "vmmsim"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(BUILT["vmmsim"])} --machine h200x8_cuda_13_5 "$@"\n')
    script.chmod(0o755)
    return script


def on_simulator(source, program, vmmsim):
    expected = source.parent / "expected_output.txt"
    words = "simulated", expected, vmmsim, program, "2"
    return run(ROOT, sys.executable, "-B", "-m", "tests.run_program", *words)


def expect_compiled(toolkit, compiler, programs):
    """What one compiler of the host makes of all."""
    expect_taken(toolkit, compiler)
    directory, work = toolkit.directory, {}
    runs = toolkit.release == RELEASES[-1] and compiler == COMPILERS[0]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source in programs:
            to = ["-c", "-o", os.devnull]
            if runs and source in MAIN:
                to = ["-o", directory / source.stem, f"-L{toolkit.root / 'lib'}", BUILT["cuda_driver"]]
            work[source] = pool.submit(toolkit.compile, compiler, source, *to)
        for words in tool(toolkit):
            work[words[-1]] = pool.submit(syntax, toolkit, compiler, words)
    done = {name: each.result() for name, each in work.items()}
    if runs and not any(done[source].returncode for source in MAIN):
        vmmsim = on_newest_driver(directory)
        for source in MAIN:  # each alone: its seconds are counted
            done[f"{source} on the simulator"] = on_simulator(source, directory / source.stem, vmmsim)
    wrong = {name: each for name, each in done.items() if each.returncode or "warning" in each.stderr}
    assert not wrong, "\n".join(f"{name}\n{each.stdout}{each.stderr}" for name, each in wrong.items())


@pytest.fixture(scope="module")
def toolkit(request):
    with scratch() as directory:
        yield Toolkit(request.param, directory)


@pytest.mark.parametrize("toolkit", RELEASES, indirect=True)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_all_compiles(toolkit, compiler):
    programs = [*sorted(ROOT.glob("[0-9][0-9]_*/*.cu")), *sorted((ROOT / "docs/paste").glob("*.cu"))]
    expect_compiled(toolkit, compiler, [*programs, *sources_of_labs(toolkit.directory)])


def test_too_old_a_toolkit_is_refused(tmp_path):
    """This compiler, which says that it is of CUDA 12.8."""
    header, nvcc = tmp_path / "older.h", tmp_path / "nvcc"
    numbers = ("MAJOR", 12), ("MINOR", 8)
    header.write_text(
        "".join(f"#undef __CUDACC_VER_{part}__\n#define __CUDACC_VER_{part}__ {n}\n" for part, n in numbers)
    )
    nvcc.write_text(f"#!/bin/sh\nexec '{BUILT['nvcc']}' -include '{header}' \"$@\"\n")
    nvcc.chmod(0o755)
    done = run(ROOT, *CMAKE, "-S", ROOT, "-B", tmp_path / "build", f"-DCMAKE_CUDA_COMPILER={nvcc}")
    assert done.returncode != 0
    assert "is too old: the lessons need 12.9 or later" in re.sub(r"\s+", " ", done.stderr)
