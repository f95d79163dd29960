#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The examples of docs/new_since_13.md: each compiles with the CUDA that its row names, and not with the one before.

    since_13_test.py FETCHED

FETCHED is a directory for toolkits, which stay there. A .cpp needs headers alone, and says in `// New: name` what those
before lack. A .cu says which PTX it needs: `// New: PTX 9.1, sm_90`; ptxas of the newest toolkit knows when each
instruction came. Exit status 0; 77 without a package index (a failure where CI is true), or where all else is right and
there is no clang++; 1 otherwise.
"""

import re
import shutil
import sys

from tests import toolkits
from tests.machines import ROOT, Skip, expect, run, scratch

PAGE = (ROOT / "docs/new_since_13.md").read_text()
FILES = sorted((ROOT / "docs/since_13").iterdir())
NEWEST = "13.5"
OPTIONS = "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"
BRACED = """#include <cuda.h>
CUmemAccessDesc use(int gpu) { return {{CU_MEM_LOCATION_TYPE_DEVICE, gpu}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}; }
"""


def rows():
    """Each example and the release of its row: that in the example's name. Every file is in one row."""
    found = {}
    for release, row in re.findall(r"^\| (13\.\d) (\|.*)$", PAGE, re.MULTILINE):
        for name in re.findall(r"\(since_13/(\S+?)\)", row):
            expect(name not in found and name.startswith(release.replace(".", "_")), f"{name} in a row of {release}")
            found[name] = release
    expect(sorted(found) == [file.name for file in FILES], f"the page and docs/since_13 differ: {sorted(found)}")
    return found


def before(release):
    return f"13.{int(release[3:]) - 1}"


def compiled(file, release, fetched, compiler="g++"):
    return run(ROOT, compiler, *OPTIONS, f"-isystem{toolkits.include(release, fetched)}", file)


def host_code(file, release, fetched):
    new = re.search(r"^// New: (\w+)$", file.read_text(), re.MULTILINE)[1]
    done = compiled(file, release, fetched)
    expect(done.returncode == 0, f"{file.name} with {release}", done)
    done = compiled(file, before(release), fetched)
    expect(done.returncode != 0 and new in done.stderr, f"{file.name}: {before(release)} has {new}", done)


def kernel(file, fetched, directory):
    ptx, target = re.search(r"^// New: PTX (\d\.\d), (sm_\d+)$", file.read_text(), re.MULTILINE).groups()
    tools = toolkits.fetch(NEWEST, fetched) / "cu13" / "bin"
    made, cut = directory / "made.ptx", directory / "cut.ptx"
    words = "-std=c++17", f"-arch={target}", "-Werror=all-warnings", "-ptx", file, "-o", made
    done = run(ROOT, tools / "nvcc", *words)
    expect(done.returncode == 0, f"{file.name} with {NEWEST}", done)
    for version, refused in (ptx, False), (f"{ptx[:2]}{int(ptx[2:]) - 1}", True):
        cut.write_text(re.sub(r"^\.version .*", f".version {version}", made.read_text(), flags=re.MULTILINE))
        done = run(ROOT, tools / "ptxas", f"-arch={target}", cut, "-o", directory / "code")
        says = f"requires PTX ISA .version {ptx} or later" in done.stdout + done.stderr
        expect((done.returncode != 0, says) == (refused, refused), f"{file.name} as PTX {version}", done)


def main(fetched):
    with scratch() as directory:
        for name, release in rows().items():
            file = ROOT / "docs/since_13" / name
            if file.suffix == ".cu":
                kernel(file, fetched, directory)
            else:
                host_code(file, release, fetched)
        braced = directory / "braced.cpp"
        braced.write_text(BRACED)
        if not shutil.which("clang++"):
            raise Skip("no clang++, which warns of braces since 13.2; install clang")
        for release, warns in ("13.1", False), ("13.2", True):
            done = compiled(braced, release, fetched, "clang++")
            expect(("-Wmissing-braces" in done.stderr) == warns, f"a braced CUmemAccessDesc with {release}", done)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Skip as skip:
        print(f"SKIP: {skip}")
        sys.exit(77)
    except AssertionError as error:
        sys.exit(f"FAIL: {error}")
