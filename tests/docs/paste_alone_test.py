# SPDX-License-Identifier: MIT-0
"""Each snippet of docs/paste, copied as docs/paste.md says, compiled alone and with all others, without a warning.

By g++ alone and by clang++: what has code for a GPU by nvcc with these, for a GPU with multimem instructions and for
one without; and by nvcc with clang++ only all in one file.
"""

import pathlib
import re
import shutil
import subprocess

import pytest

from vmmsim.built import BUILT

ROOT = pathlib.Path(__file__).resolve().parents[2]
SNIPPETS = sorted((ROOT / "docs/paste").glob("*.cu"))
FOR_GPUS = [path.name for path in SNIPPETS if re.search(r"__(?:device|global)__", path.read_text())]
BUFFER = "growable_buffer.cu"  # of lesson 02
NAMES = [*(path.name for path in SNIPPETS), BUFFER]
ALONE = [pytest.param(name, "g++", id=f"{name}{'_for_gpus' * (name in FOR_GPUS)}") for name in NAMES]
ALONE += [pytest.param(name, "clang++", id=f"{name} by clang++") for name in NAMES if name not in FOR_GPUS]
STRICT = ["-Wall", "-Wextra", "-Werror"]
USES = {  # of what is compiled only where it is used
    "multimem.cu": """
template <class T> __global__ void use(T* mc) {
  broadcast(mc, T(1)), add_to_all(mc, T(1));
  mc[0] = sum_of_all(mc);
}
template __global__ void use(int*);
template __global__ void use(unsigned*);
template __global__ void use(uint64_t*);
template __global__ void use(float*);
""",
}


def command(pattern):
    """The one line of this form within the page's blocks of shell commands."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/paste.md").read_text(), re.MULTILINE | re.DOTALL)
    (line,) = re.findall(pattern, "".join(blocks), re.MULTILINE)
    return line


def copy_of(name):
    """The commands that copy it, and what it includes, into an empty directory."""
    if name == BUFFER:
        return command(r"^.*02_growable/growable\.cu.*$")
    line, needed = command(r"^cp docs/paste/\w+\.cu \.$"), [name.removesuffix(".cu")]
    for each in needed:
        text = (ROOT / f"docs/paste/{each}.cu").read_text()
        needed += [it for it in re.findall(r'^#include "(\w+)\.cu"', text, re.MULTILINE) if it not in needed]
    return "\n".join(re.sub(r"paste/\w+", f"paste/{each}", line) for each in needed)


def compiled(name, for_gpus, compiler, directory):
    if for_gpus:
        options = ["-Werror", "all-warnings", "-Xcompiler", ",".join(STRICT), "-ccbin", compiler]
        options += [f"-gencode=arch=compute_{each},code=sm_{each}" for each in (75, 90)]
        words = [BUILT["nvcc"], "-std=c++17", *options]
    else:
        words = [compiler, "-x", "c++", "-std=c++17", *STRICT, f"-isystem{BUILT['headers']}"]
    words += ["-c", name, "-o", "snippet.o"]
    done = subprocess.run(words, cwd=directory, text=True, capture_output=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def directory_for(compiler, directory):
    """Where the page's commands work."""
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler}")
    for each in "docs", "02_growable":
        (directory / each).symlink_to(ROOT / each)


@pytest.mark.parametrize(("name", "compiler"), ALONE)
def test_it_is_compiled_alone(name, compiler, tmp_path):
    directory_for(compiler, tmp_path)
    subprocess.run(["bash", "-ec", copy_of(name)], cwd=tmp_path, check=True)
    with (tmp_path / name).open("a") as file:
        file.write(USES.get(name, ""))
    compiled(name, name in FOR_GPUS, compiler, tmp_path)


@pytest.mark.parametrize(("names", "compiler"), [(NAMES, "g++"), (NAMES[::-1], "clang++")], ids=["for_gpus"] * 2)
def test_all_go_into_one_file(names, compiler, tmp_path):
    """In both orders. Each compiles alone, so any two of them do together."""
    directory_for(compiler, tmp_path)
    for name in names:
        subprocess.run(["bash", "-ec", copy_of(name)], cwd=tmp_path, check=True)
    (tmp_path / "all.cu").write_text("".join((tmp_path / name).read_text() for name in names))
    compiled("all.cu", True, compiler, tmp_path)
