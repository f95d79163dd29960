#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Each mistake of the guide, proven.

    errata_test.py SOURCE_DIRECTORY NVCC INCLUDE_DIRECTORY STUB_DIRECTORY VMMSIM [MPIEXEC]

Each file in docs/errata holds the guide's form (under AS_PRINTED) and ours, and says what has to come of the two:
    // Printed: does not compile: a regular expression that the compiler's message has
    // Right: compiles
or how each is run, and what it prints. Exit status 77 if all else is right and what needs MPI was left out.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT, NVCC, INCLUDE, STUB, VMMSIM = (pathlib.Path(word) for word in sys.argv[1:6])
MPIEXEC = pathlib.Path(sys.argv[6]) if len(sys.argv) > 6 else None
FILES = sorted((ROOT / "docs/errata").glob("[0-9]*"))
FORM = r"^// {}: (does not compile|compiles|runs(?: on a GPU| under MPI)?)(?:: |, and prints: |$)(.*)$"


def command(file, printed, program):
    options = ["-std=c++17", f"-I{INCLUDE}"] + (["-DAS_PRINTED"] if printed else [])
    if MPIEXEC:
        options.append(f"-I{MPIEXEC.parent.parent / 'include'}")
    if file.suffix == ".cu":
        return [NVCC, "-arch=sm_90", "-c", *options, file, "-o", program]
    if not program:
        return ["g++", "-Wall", "-Wextra", "-fsyntax-only", *options, file]
    libraries = [STUB / "libcuda.so.1"]
    if "<mpi.h>" in file.read_text():
        directory = MPIEXEC.parent.parent / "lib"
        libraries += [f"-L{directory}", f"-Wl,-rpath,{directory}", "-lmpi"]
    return ["g++", "-Wall", "-Wextra", *options, file, *libraries, "-o", program]


def done(words):
    environment = {**os.environ, "LC_ALL": "C"}  # the compiler's messages in English, with plain quotes
    options = {"text": True, "capture_output": True, "timeout": 120, "stdin": subprocess.DEVNULL}
    return subprocess.run([str(word) for word in words], env=environment, **options)


def fault(file, printed, directory):
    """What is wrong with one form of a file, or None."""
    form = "Printed" if printed else "Right"
    claim = re.search(FORM.format(form), file.read_text(), re.MULTILINE)
    if not claim:
        return f"no line '// {form}: ...'"
    outcome, text = claim.groups()
    runs = outcome.startswith("runs")
    program = directory / f"{file.stem}_{form}" if runs or file.suffix == ".cu" else None
    compiled = done(command(file, printed, program))
    if outcome == "does not compile":
        if compiled.returncode == 0:
            return f"{form}: compiles, though it should not"
        if not re.search(text, compiled.stderr):
            return f"{form}: not the error {text!r} but\n{compiled.stderr}"
        return None
    if compiled.returncode or compiled.stderr:
        return f"{form}: does not compile without a word\n{compiled.stderr}"
    if runs:
        before = {"runs": [], "runs on a GPU": [VMMSIM, "--gpus", "1"], "runs under MPI": [MPIEXEC, "-n", "2"]}[outcome]
        ran = done([*before, program])
        if ran.returncode or ran.stdout.strip() != text:
            return f"{form}: status {ran.returncode}, prints {ran.stdout!r} and not {text!r}\n{ran.stderr}"
    return None


def page_faults():
    """The page leads to every file, by its number; and the header says of Windows what the page says."""
    page = (ROOT / "docs/guide.md").read_text()
    linked = {f"[{int(name[:2])}](errata/{name})" for name in (file.name for file in FILES)}
    if found := linked ^ set(re.findall(r"\[\d+\]\(errata/\S+\)", page)):
        yield f"docs/guide.md and docs/errata differ in {sorted(found)}"
    member = re.search(
        r"/\*\*((?:(?!\*/).)*)\*/\s*void \*win32HandleMetaData;", (INCLUDE / "cuda.h").read_text(), re.DOTALL
    )
    if not member or "POBJECT_ATTRIBUTES" not in member[1]:
        yield "cuda.h no longer asks for POBJECT_ATTRIBUTES in win32HandleMetaData"


def main():
    left_out = [file for file in FILES if not MPIEXEC and "<mpi.h>" in file.read_text()]
    faults = list(page_faults())
    if not FILES:
        faults.append("no files in docs/errata")
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        cases = [(file, printed) for file in FILES if file not in left_out for printed in (True, False)]
        results = pool.map(lambda case: fault(*case, pathlib.Path(name)), cases)
        for case, found in zip(cases, results, strict=True):
            if found:
                faults.append(f"{case[0].name}: {found}")
    print(*faults, sep="\n")
    if left_out and not faults:
        print("SKIP: no MPI beside this Python for", *(file.name for file in left_out))
    return 1 if faults else 77 if left_out else 0


sys.exit(main())
