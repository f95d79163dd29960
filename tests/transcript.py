#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Holds a program's output against its expected_output.txt, and renews that file from a recorded run.

    transcript.py check EXPECTED OUTPUT      exit 0 if the output is as expected, 1 and the first difference otherwise
    transcript.py record EXPECTED OUTPUT "conditions of the run"

In the expected file, lines that begin with # are comments, and values that differ from run to run stand in braces with
the value that was recorded: {0x7f00} stands for an address, {12} for an integer, {1.5} for a decimal number, other text
for any text. A line with a {GPU 0} in it stands for one line or more, one for each GPU or pair. All else is literal.
"""
import re
import sys

KINDS = [  # what is recorded in the braces, what it stands for
    (r"0x[0-9a-f]+", r"0x[0-9a-f]+"),
    (r"-?\d+", r"-?\d+"),
    (r"-?\d+\.\d+", r"-?\d+(?:\.\d+)?"),
    (r"GPU \d+", r"GPU \d+"),
    (r".+", r".+"),
]
HEADER = "# Recorded: "


def pattern(line):
    """The regular expression that an expected line stands for: a group for each value in braces."""
    parts = re.split(r"\{([^{}]*)\}", line)
    for i in range(1, len(parts), 2):
        parts[i] = "(%s)" % next(stands for recorded, stands in KINDS if re.fullmatch(recorded, parts[i]))
    return "".join(part if i % 2 else re.escape(part) for i, part in enumerate(parts))


def expectations(text):
    """(line number, line, pattern, may repeat) of each expected line; neighbours with one repeating pattern are one."""
    result = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            continue
        regex, repeats = pattern(line), re.search(r"\{GPU \d+\}", line) is not None
        if not (repeats and result and result[-1][2] == regex):
            result.append((number, line, regex, repeats))
    return result


def pair(expected, output):
    """Pairs each output line with the expectation that it meets: {number: its lines}, and the first difference or None.

    The output of a program that skipped ends early: all before its SKIP line must be as expected.
    """
    lines, pairs, at = output.splitlines(), {}, 0
    skip = next((i for i, line in enumerate(lines) if line.startswith("SKIP: ")), None)
    lines = lines[:skip]
    for number, line, regex, repeats in expected:
        first = at
        while at < len(lines) and re.fullmatch(regex, lines[at]) and (repeats or at == first):
            pairs.setdefault(number, []).append(lines[at])
            at += 1
        if at == first:
            if skip is not None and at == len(lines):
                return pairs, None
            got = repr(lines[at]) if at < len(lines) else "the end of the output"
            return pairs, f"line {number} expects {line!r}, line {at + 1} of the output is {got}"
    return pairs, None if at == len(lines) else f"nothing is expected any more, line {at + 1} of the output is {lines[at]!r}"


def record(text, output, conditions):
    """The expected text with this output's values, and the first difference or None. What a skip left out stays."""
    expected = expectations(text)
    pairs, difference = pair(expected, output)
    result, numbers = [], {number for number, *_ in expected}
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            result.append(HEADER + conditions if line.startswith(HEADER) else line)
        for got in pairs.get(number, [line] if number in numbers else []):
            values = re.fullmatch(pattern(line), got)
            values = iter(values.groups() if values else re.findall(r"\{([^{}]*)\}", line))
            result.append(re.sub(r"\{[^{}]*\}", lambda _: "{%s}" % next(values), line))
    return "\n".join(result) + "\n", difference


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("check", "record") or len(sys.argv) != 4 + (sys.argv[1] == "record"):
        sys.exit(__doc__)
    text, output = open(sys.argv[2]).read(), open(sys.argv[3]).read()
    if sys.argv[1] == "record":
        renewed, difference = record(text, output, sys.argv[4])
        if not difference:
            open(sys.argv[2], "w").write(renewed)
    else:
        difference = pair(expectations(text), output)[1]
    if difference:
        sys.exit(f"{sys.argv[2]}: {difference}")


if __name__ == "__main__":
    main()
