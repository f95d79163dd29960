# SPDX-License-Identifier: MIT-0
"""The marks in a student's file, `// >>> ...` and `// <<<`, and what was changed outside them."""

import re

from labs.judge.program import ROOT

BEGIN, END = "// >>>", "// <<<"
SHARED = "labs/lab.h", "common/check.h"  # a name of these means in the student's parts what it means there


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
        for at in range(first, last):
            found = re.match(r"\s*#\s*(?:define|undef)\s+(\w+)", lines[at])
            if found and found[1] in known:
                return at + 1, f"{found[1]} gets another meaning, also outside"
    return 0, ""
