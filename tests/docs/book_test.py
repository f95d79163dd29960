# SPDX-License-Identifier: MIT-0
"""The book builds without a warning, into the build tree, with the views of what is built."""

import pathlib
import shutil
import subprocess
import sys

import pytest

from vmmsim.built import BUILT

pytest.importorskip("sphinx", reason="Sphinx is not installed for this Python; ./test.sh gets it")

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(BUILT["build"])
BOOK, VIEWS, PROGRAMS = BUILD / "book", BUILD / "views", BUILD / "bin"


def run(*words):
    done = subprocess.run([sys.executable, "-B", "-m", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done


def test_it_is_built_without_a_warning():
    for old in BOOK, VIEWS:
        shutil.rmtree(old, ignore_errors=True)  # or a page that was taken out would stay
    built = [path.name for path in sorted(ROOT.glob("[0-9][0-9]_*")) if (PROGRAMS / path.name[3:]).exists()]
    if built and (PROGRAMS / "vmmsim").exists():
        run("docs.tools.lesson_views", PROGRAMS, VIEWS, *built)
        assert [file.name for file in VIEWS.iterdir() if file.stat().st_size > 500_000] == []
    options = *"-q -E -W --keep-going -c docs".split(), "-D", f"views={VIEWS}"
    assert run("sphinx", *options, ".", BOOK).stderr == ""
    assert (BOOK / "docs" / "index.html").exists()
    for file in VIEWS.glob("*.html"):
        (page,) = BOOK.glob(f"[0-9][0-9]_{file.stem}/README.html")
        assert file.read_text() in page.read_text(), f"{page} has no view"
