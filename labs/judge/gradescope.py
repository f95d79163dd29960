# SPDX-License-Identifier: MIT-0
"""The autograder for Gradescope: a zip with this checkout, its set-up, and what judges a submission."""

import contextlib
import io
import os
import pathlib
import subprocess
import tarfile
import zipfile

from labs.judge.files import writing
from labs.judge.program import ROOT

SCRIPTS = ROOT / "labs" / "class" / "gradescope"
NOT_SENT = "labs/solutions", "tests", "vmmsim/tests", ".github"
MADE_HERE = "build*", ".*", "__pycache__", "labs/mine"


def pack(labs, file):
    """./lab.sh gradescope 01a,01c FILE.zip"""
    checkout = archive()
    with writing(file), zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in ("setup.sh", "run_autograder"):
            packed.write(SCRIPTS / name, name)
        packed.writestr("labs", ",".join(lab.number for lab in labs) + "\n")
        packed.writestr("checkout.tar", checkout)
    print(f"{file}: {', '.join(lab.number for lab in labs)}. Upload it as the autograder of a programming assignment.")
    return 0


def archive():
    """The checkout's files, as they are now, as a tar; without those that tell what is right."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as packed:
        for name in files():
            if not any(pathlib.PurePath(name).is_relative_to(path) for path in NOT_SENT):
                packed.add(ROOT / name, name, recursive=False)
    return data.getvalue()


def files():
    """The names of those that git tracks; in a copy that is no clone, of all but what is made here."""
    with contextlib.suppress(OSError):  # there is no git
        words = ["git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "ls-files", "-z"]
        done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL)
        if done.returncode == 0 and done.stdout:
            return [name for name in os.fsdecode(done.stdout).split("\0") if name and os.path.lexists(ROOT / name)]
    found = []
    for path, directories, names in os.walk(ROOT):
        here = pathlib.Path(path).relative_to(ROOT)
        directories[:] = [it for it in directories if not any((here / it).match(made) for made in MADE_HERE)]
        found += [str(here / name) for name in names]
    return sorted(found)
