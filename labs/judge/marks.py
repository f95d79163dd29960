# SPDX-License-Identifier: MIT-0
"""The marks in a student's file, `// >>> ...` and `// <<<`, and what was changed outside them."""

import re

from labs.judge.program import ROOT

BEGIN, END = "// >>>", "// <<<"
SHARED = "labs/lab.h", "common/check.h"  # a name of these means in the student's parts what it means there
HEADERS = {f"../{file.name}" for file in (ROOT / "labs").glob("*.h")}


def parts(text):
    """(line of the mark before, line of the mark behind) of each part."""
    found, begin = [], 0
    for at, line in enumerate(text.splitlines(), 1):
        if line.strip().startswith(BEGIN):
            begin = at
        elif line.strip() == END and begin:
            found.append((begin, at))
            begin = 0
    return found


def fixed(text):
    """The code outside the parts without blanks, comments and includes: [(character, its line)], a part is a "\\0"."""
    inside = {at: first for first, last in parts(text) for at in range(first, last + 1)}
    found = []
    for at, line in enumerate(text.splitlines(), 1):
        if at in inside:
            found += [("\0", at)] * (inside[at] == at)
        elif not line.lstrip().startswith("#include"):
            found += [(character, at) for character in re.sub(r"(^|\s)//.*", "", line) if not character.isspace()]
    return found


def changed_outside(starter, text):
    """(line, in words) of the first thing outside the parts that is not as in the starter; (0, "") if there is none."""
    if len(parts(text)) != len(parts(starter)):
        return 1, f"the marks are not those of the starter: {BEGIN} and {END}; ./lab.sh reset gives you a new one"
    was, now = fixed(starter), fixed(text)
    for (old, at), (new, here) in zip(was, now, strict=False):
        if old != new:
            return here, f"it was: {starter.splitlines()[at - 1].strip()}"
    if len(was) != len(now):
        return (now[len(was)][1], "it was added") if len(now) > len(was) else (now[-1][1], "what followed is gone")
    lines = text.splitlines()
    outside = [line for at, line in enumerate(lines, 1) if not any(first < at < last for first, last in parts(text))]
    known = set(re.findall(r"\w+", "\n".join([*outside, *((ROOT / file).read_text() for file in SHARED)])))
    for first, last in parts(text):
        for at, directive in directives(lines, first, last):
            if words := forbidden(directive, known):
                return at, words
    return 0, ""


def directives(lines, first, last):
    """(line, its words) of each directive between two marks, as the compiler reads them."""
    at = first
    while at < last - 1:
        here, whole = at + 1, lines[at].rstrip()
        while whole.endswith("\\") and (at := at + 1) < last - 1:
            whole = whole[:-1] + lines[at].rstrip()
        at += 1
        whole = re.sub(r"/\*.*?\*/|^.*?\*/", " ", whole)
        if found := re.match(r"\s*(?:#|%:)\s*(.*)", whole):
            yield here, found[1]


def forbidden(directive, known):
    """In words, why a directive may not stand between the marks, or ""."""
    words = re.findall(r"\w+", directive) + ["", ""]
    if words[0] in ("define", "undef") and words[1] in known:
        return f"{words[1]} gets another meaning, also outside"
    if words[0] == "line" or words[0].isdigit():
        return "a line keeps its number, by which ./lab.sh tells yours from the others: no #line"
    if words[0] == "include":
        file = directive.removeprefix("include").strip()
        if not file.startswith("<") and file.partition("//")[0].strip().strip('"') not in HEADERS:
            return "what a file of your own says is not looked at: write it here"
    return ""
