# SPDX-License-Identifier: MIT-0
"""What is for everybody: all that is named is there and has types, and pages lead to what ships with them."""

import importlib
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

from vmmsim.tool import PACKAGE

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAMES = {name: importlib.import_module(name).__all__ for name in ("vmmsim.trace", "vmmsim.view")}
# What else Machine has applies the changes of a line.
METHODS = {"Machine": ("__init__", "line", "since", "forget_since", "end")}


def functions_of(thing):
    """(name, function) of a function, or of what a class has for everybody."""
    if inspect.isfunction(thing):
        yield thing.__name__, thing
    for name, function in vars(thing).items() if inspect.isclass(thing) else ():
        is_public = name in METHODS.get(thing.__name__, [name]) and (name == "__init__" or not name.startswith("_"))
        if is_public and (function := inspect.unwrap(getattr(thing, name))) and inspect.isroutine(function):
            yield f"{thing.__name__}.{name}", function


def untyped(function):
    signature = inspect.signature(function)
    types = [its.annotation for name, its in signature.parameters.items() if name not in ("self", "cls")]
    return inspect.Signature.empty in [*types, signature.return_annotation]


def test_all_that_is_named_is_there_and_has_types():
    things = []
    for package, names in NAMES.items():
        for name in names:
            exec(f"from {package} import {name}", space := {})  # a module as well
            things.append(space[name])
    functions = [each for thing in things for each in functions_of(thing)]
    assert len(functions) > 25
    assert [name for name, function in functions if untyped(function)] == []


def test_mypy(tmp_path):
    program = pathlib.Path(sys.executable).with_name("mypy")
    if not program.exists():
        pytest.skip("no mypy beside this Python; ./test.sh gets it")
    words = "--cache-dir", tmp_path, "--ignore-missing-imports", "-p", "vmmsim.trace", "-p", "vmmsim.view"
    done = subprocess.run([program, *words], cwd=PACKAGE.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_pages_lead_to_what_is_here():
    pages = [page for page in ROOT.rglob("*.md") if not page.relative_to(ROOT).parts[0].startswith(("build", "."))]
    assert len(pages) > 10
    for page in pages:
        for target in re.findall(r"\]\((?!\w+:|#)([^)#]+)", page.read_text()):
            there = (page.parent / target).resolve()
            assert there.is_relative_to(ROOT) and there.exists(), f"{page}: {target}"
