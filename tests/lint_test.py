#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""What the text of the checkout is held against: lint_test.py CHECK

    clang_format   C++ and CUDA look as .clang-format says
    ruff           Python looks as ruff.toml says, and ruff finds nothing wrong with it
    shellcheck     it finds nothing wrong with the shell scripts
    editorconfig   every file obeys .editorconfig: ends of lines and of the file, tabs, columns, UTF-8

They run in a copy that has what a clone would have. clang-tidy is lesson_test.py's.
"""

import fnmatch
import pathlib
import re
import subprocess
import sys
import tempfile

from tests.lesson_test import fail, skip
from tests.machines import copy_checkout


def tool(name):
    """The one of tests/requirements.txt: another version would want other things."""
    path = pathlib.Path(sys.executable).with_name(name)
    if not path.exists():
        skip(f"no {name} beside this Python; ./test.sh gets it")
    return path


def files(root):
    return sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())


def findings(root, name, *words):
    """What the tool finds, run with these arguments: its output, or nothing."""
    done = subprocess.run([tool(name), *words], cwd=root, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def clang_format(root):
    sources = [name for name in files(root) if name.suffix in (".cc", ".cpp", ".cu", ".h")]
    return findings(root, "clang-format", "--dry-run", "-Werror", *sources)


def ruff(root):
    return findings(root, "ruff", "format", "--diff", "--no-cache") + findings(root, "ruff", "check", "--no-cache")


def shellcheck(root):
    def is_script(name):
        return name.suffix == ".sh" or (root / name).read_bytes().startswith((b"#!/usr/bin/env bash", b"#!/bin/sh"))

    return findings(root, "shellcheck", "--external-sources", *filter(is_script, files(root)))


def editorconfig(root):
    sections = re.findall(r"^\[(.+)\]\n((?:[^\[\n].*\n|\n)*)", (root / ".editorconfig").read_text(), re.MULTILINE)
    return "".join(line for name in files(root) for line in against(sections, name, (root / name).read_bytes()))


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
        yield f"{name}: is not UTF-8\n"
        return
    if rules["insert_final_newline"] == "true" and text and not text.endswith("\n"):
        yield f"{name}: has no newline at its end\n"
    width = int(rules["max_line_length"]) if rules["max_line_length"].isdigit() else None
    for number, line in enumerate(text.split("\n"), 1):
        if rules["end_of_line"] == "lf" and "\r" in line:
            yield f"{name}:{number}: a carriage return\n"
        if rules["trim_trailing_whitespace"] == "true" and line != line.rstrip(" \t"):
            yield f"{name}:{number}: white space at the end\n"
        if rules["indent_style"] == "space" and re.match(" *\t", line):
            yield f"{name}:{number}: a tab\n"
        if width and len(line) > width:
            yield f"{name}:{number}: {len(line)} columns, more than {width}\n"


def main(name):
    checks = {check.__name__: check for check in (clang_format, ruff, shellcheck, editorconfig)}
    with tempfile.TemporaryDirectory() as scratch:
        found = checks[name](copy_checkout(pathlib.Path(scratch)))
    print(found, end="")
    if found:
        fail(f"{name} has something to say; CONTRIBUTING.md, Form, says how it is mended")


if __name__ == "__main__":
    main(*sys.argv[1:])
