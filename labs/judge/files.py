# SPDX-License-Identifier: MIT-0
"""The student's files: LABS_MINE, or labs/mine. What is not for the student to see has a dot before its name."""

import contextlib
import itertools
import os
import pathlib
import re
import sys
import tempfile

from labs.judge.program import ROOT, cached
from labs.judge.splice import parts

# How clangd reads a lab: CUDA's headers, those of its C++ library, and the labs' where starters look for them.
CLANGD = """\
# For editors: clangd reads this file. ./lab.sh wrote it, and does so again if it is gone.
CompileFlags:
  Add:
    [-xcuda, -std=c++17, --cuda-host-only, -nocudalib, -Wno-unknown-cuda-version, "--cuda-path={cuda}", \
"-isystem{cuda}/include/cccl", "-I{labs}", "-idirafter{last}"]
"""
PREDICTIONS = "predictions.txt"  # of ./lab.sh predict
ALWAYS_READ = "curand_mtgp32_kernel.h"  # by Clang, before any program; where the toolkit has no cuRAND, it may be empty


def end(status, text):
    print(f"lab: {text}", file=sys.stderr)
    sys.exit(status)


def shown(path):
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def my_files():
    return pathlib.Path(os.environ.get("LABS_MINE") or ROOT / "labs" / "mine").absolute()


def mine(lab, directory=None):
    """The file of a lab: of the student, or of another, whose directory may be a whole checkout."""
    directory = directory or my_files()
    file = directory / f"{lab.name}.cu"
    in_checkout = directory / "labs" / "mine" / file.name
    return in_checkout if in_checkout.is_file() and not file.exists() else file


def predicted(number, directory):
    """(the predictions of a lab that named the call, those that named the check, all) of a student, who wrote them."""
    files = [file for file in (directory / PREDICTIONS, directory / "labs" / "mine" / PREDICTIONS) if file.is_file()]
    text = "\n".join(file.read_text(errors="replace") for file in files if not leads_out(file, directory))
    found = re.findall(rf"^\S+ \S+  {number} .*\nYou said: (.*?): (.*)\nIt was:   (.*?): (.*)$", text, re.MULTILINE)
    return sum(said == was for said, _, was, _ in found), sum(one[1] == one[3] for one in found), len(found)


def leads_out(file, directory=None):
    """Whether it is a link to what is not the student's."""
    return not file.resolve().is_relative_to((directory or my_files()).resolve())


def hints_shown(lab):
    """The file that says how many."""
    return my_files() / ".hints" / lab.number


def last_run(lab):
    """The recording of it, which ./lab.sh view draws."""
    return my_files() / ".runs" / f"{lab.number}.jsonl"


@contextlib.contextmanager
def writing(what):
    try:
        yield
    except OSError as error:
        end(1, f"{shown(what)} cannot be written: {error.strerror}\nLABS_MINE names another directory for your files")


def put(text, path):
    """Writes a file whole or not at all, whoever else does so meanwhile."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)


def make_mine(lab):
    """Whether the student's copy was not there, and now is."""
    is_new = not mine(lab).exists()
    if is_new:
        put(lab.starter.read_text(), mine(lab))
    if os.access(my_files(), os.W_OK):
        tell_editors()
    return is_new


def is_begun(lab, directory=None):
    """Whether a part differs from the starter's in more than blanks and comments."""
    file = mine(lab, directory)
    if not file.is_file() or leads_out(file, directory):
        return False
    return code_of(file.read_text(errors="replace")) != code_of(lab.starter.read_text())


def code_of(text):
    """The code of the parts, for comparison; of a file without parts all of it."""
    lines, its = text.splitlines(), parts(text)
    inside = [line for first, last in its for line in lines[first : last - 1]] if its else lines
    return [word for line in inside for word in re.sub(r"(^|\s)//.*", "", line).split()]


def tell_editors():
    """Where CUDA's headers and the labs' are."""
    nvcc = cached("CMAKE_CUDA_COMPILER")
    file, last = my_files() / ".clangd", my_files() / ".headers"
    if nvcc and not file.exists():
        cuda = pathlib.Path(os.path.realpath(nvcc)).parent.parent
        put("", last / ALWAYS_READ)
        put(CLANGD.format(cuda=cuda, labs=ROOT / "labs/starters", last=last), file)


def reset(lab):
    """The starter again. Every version that was there stays, under a number of its own."""
    for path in (hints_shown(lab), last_run(lab)):
        path.unlink(missing_ok=True)
    if is_begun(lab):
        print(f"What you had is {shown(set_aside(mine(lab)))}")
    put(lab.starter.read_text(), mine(lab))
    print(f"{shown(mine(lab))} is the starter again")
    return 0


def set_aside(file):
    """Its new name: the first number that is free."""
    names = (file.with_name(f"{file.name}.old.{number}") for number in itertools.count(1))
    with writing(file):
        return file.rename(next(name for name in names if not name.exists()))
