#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Lessons, snippets, labs and the tool, with another toolkit and other compilers, as a user may have them.

    toolkits_test.py RELEASE FETCHED VMMSIM STUB CMAKE [-G GENERATOR ...]

FETCHED is a directory for toolkits, which stay there. RELEASE is one of RELEASES; or `some`, for what finds most in a
minute: the headers of the oldest release, the lessons' main programs and the tool, with g++ alone.

All compiles with -Wall -Wextra -Werror, with g++ and clang++ for the host; of the tool that is its sources' syntax. The
lessons built with the newest print what they print otherwise, on the simulated machine whose driver takes PTX of it.
PyPI has no nvcc of CUDA 12: for 12.9 that of 13.0 gets the headers of 12.9.

No option silences clang++: nvcc's stubs for kernels draw no warning of it, which is as it should stay. But it sees what
nvcc has preprocessed, in which macros of the system's headers stand expanded, and warns of these too.

Exit status 0; 77 without a package index (a failure where CI is true), or where all else is right and there is no
clang++ that the toolkit takes; 1 otherwise.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import sys

from scripts import run_lessons
from tests import toolkits
from tests.machines import ROOT, Skip, expect, run, scratch

RELEASES = "12.9", "13.0", "13.5"
COMPILERS = "g++", "clang++"
STRICT = "-Wall", "-Wextra", "-Werror"
MAIN = [ROOT / name / f"{name[3:]}.cu" for name in run_lessons.lessons()]


class Toolkit:
    def __init__(self, release, fetched):
        of_nvcc = toolkits.fetch("13.0" if release.startswith("12.") else release, fetched) / "cu13"
        self.release, self.nvcc, self.site = release, of_nvcc / "bin" / "nvcc", of_nvcc.parent.parent
        self.libraries, self.headers = of_nvcc / "lib", []
        if release.startswith("12."):  # before those of the toolkit that nvcc is of
            parts = toolkits.fetch(release, fetched)
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


def taken(toolkit, compiler, probe):
    """Whether nvcc takes this compiler; the headers are those of the release."""
    number = 1000 * int(toolkit.release[:2]) + 10 * int(toolkit.release[3:])
    probe.write_text(f"#include <cuda.h>\nstatic_assert(CUDA_VERSION == {number} && CUDART_VERSION == {number});\n")
    done = toolkit.compile(compiler, probe, "-c", "-o", os.devnull)
    if "unsupported clang version" in done.stderr:
        return False
    expect(done.returncode == 0, f"{toolkit.release}: not its headers", done)
    return True


def all_labs(directory):
    """One source for each of labs/starters and labs/solutions: a lab is small, and the headers are most of the work."""
    for kind in "starters", "solutions":
        files = sorted((ROOT / "labs" / kind).glob("*.cu"))
        lines = dict.fromkeys(line for file in files for line in re.findall(r"^#include .*", file.read_text(), re.M))
        lines = [line.replace('"../', f'"{ROOT}/labs/') for line in lines]
        lines += [f'namespace lab_{file.stem} {{\n#include "{file}"\n}}' for file in files]
        (directory / f"{kind}.cu").write_text("\n".join(lines) + "\n")
        yield directory / f"{kind}.cu"


def tool(toolkit, directory, cmake):
    """The commands that compile its sources, but for those that are made when it is built. Those that know little of
    CUDA's headers are compiled with the newest alone.
    """
    build = directory / f"tool {toolkit.nvcc.parents[3].name}"
    if not build.exists():
        words = "-S", ROOT / "vmmsim", "-B", build, f"-DCMAKE_PREFIX_PATH={toolkit.site}", "-DBUILD_TESTING=OFF"
        done = run(ROOT, *cmake, *words, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
        expect(done.returncode == 0 and "No CUPTI" not in done.stdout, f"{toolkit.release}: tool not configured", done)
        done = run(ROOT, cmake[0], "--build", build, "--target", "driver_leads")
        expect(done.returncode == 0, f"{toolkit.release}: no table of the driver's calls", done)
    commands = json.loads((build / "compile_commands.json").read_text())
    commands = [each for each in commands if not pathlib.Path(each["file"]).name.startswith("missing_")]
    commands = [each["command"] for each in commands if pathlib.Path(each["file"]).exists()]
    if toolkit.release != RELEASES[-1]:
        commands = [each for each in commands if not re.search(r"/simulator_(gpu|ptx)\.dir/", each)]
    return [shlex.split(each) for each in commands]


def syntax(toolkit, compiler, words):
    at = words.index("-o")
    headers = [f"-isystem{each}" for each in toolkit.headers]
    return run(ROOT, compiler, *headers, *words[1:at], *words[at + 2 :], "-fsyntax-only", "-Werror")


def on_newest_driver(vmmsim, directory):
    """A command as vmmsim, on the machine with the newest driver."""
    script = directory / "vmmsim"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(vmmsim)} --machine h200x8_cuda_13_5 "$@"\n')
    script.chmod(0o755)
    return script


def on_simulator(source, program, vmmsim):
    expected = source.parent / "expected_output.txt"
    return run(
        ROOT, sys.executable, "-B", "-m", "tests.on_simulator.sim_test", "lesson", expected, vmmsim, program, "2"
    )


def cell(toolkit, compiler, programs, directory, vmmsim, stub, cmake):
    """What one compiler of the host makes of all: what is wrong."""
    runs = toolkit.release == RELEASES[-1] and compiler == COMPILERS[0]
    work = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source in programs:
            to = ["-c", "-o", os.devnull]
            if runs and source in MAIN:
                to = ["-o", directory / source.stem, f"-L{toolkit.libraries}", stub]
            work[source] = pool.submit(toolkit.compile, compiler, source, *to)
        for words in tool(toolkit, directory, cmake):
            work[words[-1]] = pool.submit(syntax, toolkit, compiler, words)
    done = {name: each.result() for name, each in work.items()}
    if runs and not any(done[source].returncode for source in MAIN):
        for source in MAIN:  # each alone: its seconds are counted
            done[f"{source} on the simulator"] = on_simulator(source, directory / source.stem, vmmsim)
    wrong = {name: each for name, each in done.items() if each.returncode or "warning" in each.stderr}
    print(f"CUDA {toolkit.release}, {compiler}: {len(work)} sources, {len(wrong)} wrong", flush=True)
    return "\n".join(f"{name}\n{each.stdout}{each.stderr}" for name, each in wrong.items())


def main(release, fetched, vmmsim, stub, *cmake):
    programs, compilers = MAIN, COMPILERS[:1]
    wrong, left_out = "", []
    with scratch() as directory:
        if release != "some":
            programs = [*sorted(ROOT.glob("[0-9][0-9]_*/*.cu")), *sorted((ROOT / "docs/paste").glob("*.cu"))]
            programs += all_labs(directory)
            compilers = COMPILERS
        toolkit = Toolkit(RELEASES[0] if release == "some" else release, fetched)
        for compiler in compilers:
            if shutil.which(compiler) and taken(toolkit, compiler, directory / "probe.cu"):
                vmmsim = on_newest_driver(vmmsim, directory)
                wrong += cell(toolkit, compiler, programs, directory, vmmsim, stub, cmake)
            else:
                left_out.append(compiler)
    expect(not wrong, wrong)
    if left_out:
        raise Skip(f"{'; '.join(left_out)}: no such compiler, or none that this nvcc takes; install clang")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Skip as skip:
        print(f"SKIP: {skip}")
        sys.exit(77)
    except AssertionError as error:
        sys.exit(f"FAIL: {error}")
