# SPDX-License-Identifier: MIT-0
"""The examples of docs/new_since_13.md: each compiles with the CUDA that its row names, and not with the one before.

A .cpp needs headers alone, and says in `// New: name` what those before lack. A .cu says which PTX it needs:
`// New: PTX 9.1, sm_90`; ptxas of the newest toolkit knows when each instruction came. Skipped without a package index
(a failure where CI is true), or without a clang++ that warns.
"""

import pathlib
import re
import shutil

import pytest

from tests import toolkits
from tests.machines import ROOT, run
from vmmsim.built import BUILT

PAGE = (ROOT / "docs/new_since_13.md").read_text()
FILES = sorted((ROOT / "docs/since_13").iterdir())
NEWEST = "13.5"
FETCHED = pathlib.Path(BUILT["build"], "toolkits")  # which stay there
OPTIONS = "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"
BRACED = """#include <cuda.h>
CUmemAccessDesc use(int gpu) { return {{CU_MEM_LOCATION_TYPE_DEVICE, gpu}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}; }
"""


def release_of(file):
    return "13." + file.name[3]  # its name begins with 13_5, or the like


def test_each_example_is_in_a_row_of_its_release():
    found = []
    for release, row in re.findall(r"^\| (13\.\d) (\|.*)$", PAGE, re.MULTILINE):
        names = re.findall(r"\(since_13/(\S+?)\)", row)
        assert all(name.startswith(release.replace(".", "_")) for name in names)
        found += names
    assert sorted(found) == [file.name for file in FILES]


def before(release):
    return f"13.{int(release[3:]) - 1}"


def compiled(file, release, compiler="g++"):
    return run(ROOT, compiler, *OPTIONS, f"-isystem{toolkits.include(release, FETCHED)}", file)


@pytest.mark.parametrize("file", [file for file in FILES if file.suffix != ".cu"], ids=lambda file: file.name)
def test_host_code_needs_its_release(file):
    new = re.search(r"^// New: (\w+)$", file.read_text(), re.MULTILINE)[1]
    release = release_of(file)
    done = compiled(file, release)
    assert done.returncode == 0, done.stderr
    done = compiled(file, before(release))
    assert done.returncode != 0
    assert new in done.stderr


@pytest.mark.parametrize("file", [file for file in FILES if file.suffix == ".cu"], ids=lambda file: file.name)
def test_a_kernel_needs_its_release(file, tmp_path):
    ptx, target = re.search(r"^// New: PTX (\d\.\d), (sm_\d+)$", file.read_text(), re.MULTILINE).groups()
    tools = toolkits.fetch(NEWEST, FETCHED) / "cu13" / "bin"
    made, cut = tmp_path / "made.ptx", tmp_path / "cut.ptx"
    words = "-std=c++17", f"-arch={target}", "-Werror=all-warnings", "-ptx", file, "-o", made
    done = run(ROOT, tools / "nvcc", *words)
    assert done.returncode == 0, done.stderr
    for version, refused in (ptx, False), (f"{ptx[:2]}{int(ptx[2:]) - 1}", True):
        cut.write_text(re.sub(r"^\.version .*", f".version {version}", made.read_text(), flags=re.MULTILINE))
        done = run(ROOT, tools / "ptxas", f"-arch={target}", cut, "-o", tmp_path / "code")
        says = f"requires PTX ISA .version {ptx} or later" in done.stdout + done.stderr
        assert (done.returncode != 0, says) == (refused, refused), f"as PTX {version}: {done}"


@pytest.mark.parametrize(("release", "warns"), [("13.1", False), ("13.2", True)])
def test_braces_are_warned_of_since_a_release(release, warns, tmp_path):
    if not shutil.which("clang++"):
        pytest.skip("no clang++, which warns of braces since 13.2; install clang")
    (tmp_path / "braced.cpp").write_text(BRACED)
    done = compiled(tmp_path / "braced.cpp", release, "clang++")
    assert ("-Wmissing-braces" in done.stderr) == warns
