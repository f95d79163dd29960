# SPDX-License-Identifier: MIT-0
"""What the compiler says, at the student's line and in its own words: nothing expanded, no notes, the first few."""

import itertools
import re

MOST = 3  # that are told; what comes later often follows from these
SAID = re.compile(
    r"^(?P<file>[^\s:(][^:(\n]*)(?:\((?P<at>\d+)\)|:(?P<line>\d+)(?::\d+)?):"
    r" (?:(?:fatal |catastrophic )?(?P<kind>error|warning)(?: #[\w-]+)?: |(?=undefined reference))(?P<words>.*)$"
)
SYNTAX = re.compile(r"expected |unterminated |missing |unrecognized token|extra |stray |invalid suffix")


def format_messages(said, name, source, kind="error"):
    """`said` of a file `name` with these lines: its errors, or its warnings; as it stands if it has none."""
    lines, found = re.sub(r' \(aka "[^"\n]*"\)', "", said).splitlines(), []
    for at, line in enumerate(lines):
        told = SAID.match(line)
        if told and (told["kind"] or "error") == kind:
            number, words = int(told["at"] or told["line"]), [told["words"], *more(lines[at + 1 :])]
            found.append((told["file"], number, words))
    texts = list(dict.fromkeys(in_place(one, name, source, kind) for one in found))
    if not texts:
        return said
    left = len(texts) - MOST
    return "\n".join(texts[:MOST]) + (f"\n{left} more: mend what stands first\n" if left > 0 else "")


def more(lines):
    """What belongs to the words of an error, indented more than a line of the source is."""
    return [line.strip() for line in itertools.takewhile(lambda line: line.startswith(12 * " "), lines)]


def in_place(one, name, source, kind):
    file, line, words = one
    if not file.endswith(name.rpartition("/")[2]):  # in a header: the student's line may be in the words
        return f"{file}:{line}\n{heading(words[0], kind)}" + "\n".join(words) + "\n"
    if 'no instance of function template "check::' in words[0]:
        words = ["CHECK takes a call that returns an error code of CUDA, and this is none"]
    text = source[line - 1].strip() if 0 < line <= len(source) else ""
    return f"{name}:{line}\n    {text}\n{heading(words[0], kind)}" + f"\n{20 * ' '}".join(words) + "\n"


def heading(words, kind):
    return f"{'Warning:' if kind != 'error' else 'Syntax error:' if SYNTAX.match(words) else 'Compiler:':20}"
