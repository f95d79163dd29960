# SPDX-License-Identifier: MIT-0
"""What the text of the checkout is held against. CONTRIBUTING.md, Form, says how what is found is mended.

The tools run in a copy that has what a clone would have.
"""

import ast
import fnmatch
import pathlib
import re
import subprocess
import sys

import pytest

from labs.judge.verdict import all_labs
from tests.lessons_test import ROOT, SOURCES
from tests.machines import copy_checkout
from vmmsim.built import BUILT


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return copy_checkout(tmp_path_factory.mktemp("checkout"))


def files(root):
    return sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())


def expect_nothing_from(name, *words, cwd):
    """Of the tool of tests/requirements.txt: another version would want other things."""
    path = pathlib.Path(sys.executable).with_name(name)
    if not path.exists():
        pytest.skip(f"no {name} beside this Python; ./test.sh gets it")
    done = subprocess.run([path, *words], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done


def test_clang_format(checkout):
    sources = [name for name in files(checkout) if name.suffix in (".cc", ".cpp", ".cu", ".h")]
    for lab in all_labs():  # of a solution there are the parts
        sources.append(f"labs/{lab.name}_solution.cu")
        (checkout / sources[-1]).write_text(lab.whole_solution())
    expect_nothing_from("clang-format", "--dry-run", "-Werror", *sources, cwd=checkout)


def test_ruff(checkout):
    expect_nothing_from("ruff", "format", "--diff", "--no-cache", cwd=checkout)
    expect_nothing_from("ruff", "check", "--no-cache", cwd=checkout)


def test_shellcheck(checkout):
    def is_script(name):
        shebangs = b"#!/usr/bin/env bash", b"#!/bin/sh"
        return name.suffix == ".sh" or (checkout / name).read_bytes().startswith(shebangs)

    expect_nothing_from("shellcheck", "--external-sources", *filter(is_script, files(checkout)), cwd=checkout)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_clang_tidy(source, tmp_path):
    # Clang reads this header of cuRAND before any program. Where the toolkit has no cuRAND, it may be empty.
    (tmp_path / "curand_mtgp32_kernel.h").touch()
    how = f"-x cuda -std=c++17 --cuda-host-only -nocudalib -idirafter {tmp_path}".split()
    how += [f"--cuda-path={BUILT['toolkit']}", "-isystem", f"{BUILT['toolkit']}/include/cccl"]
    how += ["-Xclang", "-analyzer-config", "-Xclang", "max-nodes=30000"]  # else twice as long, and nothing more
    how += ["-Wno-ignored-attributes"]  # Clang does not know __managed__ here, and nothing depends on it
    words = "--quiet", f"--config-file={ROOT}/.clang-tidy", source, "--", *how
    done = expect_nothing_from("clang-tidy", *words, cwd=ROOT)
    assert not re.search("warning:|error:", done.stdout), done.stdout


def test_editorconfig(checkout):
    """Ends of lines and of files, tabs, columns, UTF-8."""
    sections = re.findall(r"^\[(.+)\]\n((?:[^\[\n].*\n|\n)*)", (checkout / ".editorconfig").read_text(), re.MULTILINE)
    names = files(checkout)
    found = [line for name in names for line in against(sections, name, (checkout / name).read_bytes())]
    assert not found, "\n".join(found)


def test_lengths(checkout):
    """A file of code has at most 700 lines, and names its licence; a function of Python has at most 60."""
    code = ".py", ".cc", ".cpp", ".cu", ".h", ".js", ".css", ".cmake", ".sh"
    found = []
    for name in (name for name in files(checkout) if name.suffix in code):
        lines = (checkout / name).read_text().splitlines()
        if len(lines) > 700:
            found.append(f"{name}: {len(lines)} lines")
        if not any("SPDX-License-Identifier: " in line for line in lines[:3]):
            found.append(f"{name}: no licence in its head")
        for node in ast.walk(ast.parse("\n".join(lines))) if name.suffix == ".py" else ():
            if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 60:
                found.append(f"{name}:{node.lineno}: {node.name} has {node.end_lineno - node.lineno + 1} lines")
    assert found == []


def against(sections, name, data):
    """What a file has that the last section that speaks of it does not allow, one line for each."""
    rules = {}
    for pattern, body in sections:
        braces = re.fullmatch(r"(.*)\{(.*)\}(.*)", pattern)
        choices = [f"{braces[1]}{word}{braces[3]}" for word in braces[2].split(",")] if braces else [pattern]
        if any(fnmatch.fnmatch(name if "/" in choice else name.name, choice) for choice in choices):
            rules |= dict(re.findall(r"^(\w+) = (\S+)$", body, re.MULTILINE))
    if rules["charset"] == "unset":
        return
    try:
        text = data.decode()
    except UnicodeDecodeError:
        yield f"{name}: is not UTF-8"
        return
    if rules["insert_final_newline"] == "true" and text and not text.endswith("\n"):
        yield f"{name}: has no newline at its end"
    width = int(rules["max_line_length"]) if rules["max_line_length"].isdigit() else None
    for number, line in enumerate(text.split("\n"), 1):
        if rules["end_of_line"] == "lf" and "\r" in line:
            yield f"{name}:{number}: a carriage return"
        if rules["trim_trailing_whitespace"] == "true" and line != line.rstrip(" \t"):
            yield f"{name}:{number}: white space at the end"
        if rules["indent_style"] == "space" and re.match(" *\t", line):
            yield f"{name}:{number}: a tab"
        if width and len(line) > width:
            yield f"{name}:{number}: {len(line)} columns, more than {width}\n"
