# SPDX-License-Identifier: MIT-0
"""Toolkits beside the one that builds, from PyPI, for tests: the sections of requirements-toolkits.txt."""

import fcntl
import pathlib
import re
import shlex
import shutil
import sys

from tests.machines import ROOT, expect, need_index, run

PINNED = ROOT / "tests" / "requirements-toolkits.txt"


def fetch(release, beside):
    """Where the packages of this release lie, nvidia/..., in a directory of its own beside the others'.

    They stay there until the section changes. Two tests may ask at once. Raises Skip without a package index.
    """
    section = re.search(rf"^# \[{re.escape(release)}\].*\n((?:[^#].*\n)+)", PINNED.read_text(), re.MULTILINE)[1]
    wanted = section + "".join((ROOT / name).read_text() for name in re.findall(r"-r (\S+)", section))
    place, stamp = pathlib.Path(beside) / release, pathlib.Path(beside) / f"{release}.installed"
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place.parent / f"{release}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            need_index()
            stamp.unlink(missing_ok=True)
            shutil.rmtree(place, ignore_errors=True)
            options = "--quiet --no-deps --only-binary=:all: --disable-pip-version-check --root-user-action=ignore"
            words = *shlex.split(options), f"--target={place}", *shlex.split(section)
            done = run(ROOT, sys.executable, "-m", "pip", "install", *words)
            expect(done.returncode == 0, f"CUDA {release} is not to be had", done)
            stamp.write_text(wanted)
    return place / "nvidia"


def include(release, beside):
    """The directory of its cuda.h."""
    (header,) = fetch(release, beside).glob("cu*/include/cuda.h")
    return header.parent
