#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Holds a program's output against its expected_output.txt, and renews that file from a recorded run.

    transcript.py check EXPECTED OUTPUT      exit 0 if the output is as expected, 1 and the first difference otherwise
    transcript.py record EXPECTED OUTPUT "conditions of the run"

In the expected file lines that begin with # are comments, and what differs from run to run stands in braces with the
value that was recorded. All else is literal.

    {12} {1.50} {NVIDIA H200}   any integer, any number with as many decimals, any text
    {CUDA_SUCCESS}              any name of the kind
    {yes|no}                    one of these; the first was recorded
    {granule=2048}              an integer with a name: whatever it is, it is the same wherever the name stands
    {16*granule=32768}          what follows from integers that have been named before
    {0x7f00}                    an address, its own name: the same wherever it is the same here, another where it is not
    {{GPU 0}}                   {GPU 0}, literally
    {GPU 0}                     its line stands for one line for each GPU, 0 to gpus - 1; with two of them for one line
                                for each ordered pair. On such a line the name gpu is the number of the first

The name gpus is the number of GPUs. Whoever runs the program may know it; otherwise the first of these lines tell.
"""

import re
import sys
from typing import NamedTuple

# In braces: perhaps a name, or what it follows from; and the value.
VALUE = re.compile(r"(?<!\{)\{(?:([^{}=]+)=)?([^{}]+)\}(?!\})")
KINDS = [  # what is recorded in the braces, what it stands for
    (r"0x[0-9a-f]+", lambda _: r"0x[1-9a-f][0-9a-f]*"),
    (r"\d+", lambda _: r"\d+"),
    (r"\d+\.\d+", lambda value: rf"\d+\.\d{{{len(value.partition('.')[2])}}}"),
    (r"GPU \d+", lambda _: r"GPU \d+"),
    (r"[^|]+(\|[^|]+)+", lambda value: "|".join(map(re.escape, sorted(value.split("|"))))),
    (r"(cuda|CUDA_)\w+", lambda _: r"(?:cuda|CUDA_)\w+"),
    (r".+", lambda _: r".+"),
]
HEADER = "# Recorded: "


class Expectation(NamedTuple):
    """An expected line, or neighbours that differ in nothing but the values of one line for each GPU or pair."""

    numbers: list  # of the lines in the expected file
    line: str  # the first of them
    pattern: str  # the regular expression that it stands for: a group for each value in braces
    values: list  # (name or "", what was recorded) for each group
    gpus: int  # how many {GPU 0} are in it: the line repeats if there are any


class Wrong(Exception):
    """What an output line has to do with other lines of the output, and has not."""


def pattern(line):
    parts = VALUE.split(line)  # text, name, value, text, name, value, ..., text
    parts[::3] = [text.replace("{{", "{").replace("}}", "}") for text in parts[::3]]
    result = re.escape(parts[0])
    for value, text in zip(parts[2::3], parts[3::3], strict=True):
        stands_for = next(stands_for for recorded, stands_for in KINDS if re.fullmatch(recorded, value))
        result += f"({stands_for(value)}){re.escape(text)}"
    return result


def expectations(text):
    result = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            continue
        values = VALUE.findall(line)
        gpus = sum(value.startswith("GPU ") for _, value in values)
        one = Expectation([number], line, pattern(line), values, gpus)
        last = result[-1] if result else None
        names = [name for name, _ in values]
        if gpus and last and (last.pattern, [name for name, _ in last.values]) == (one.pattern, names):
            last.numbers.append(number)
        else:
            result.append(one)
    return result


def worth(expression, names):
    try:
        return eval(expression, {"__builtins__": {}}, names)  # the files are our own
    except (ArithmeticError, NameError, SyntaxError) as error:
        raise Wrong(f"{expression} has no value: {error}") from None


def hold(expectation, values, known, addresses):
    """Holds the values of an output line against those before, and notes new ones. Returns the numbers of its GPUs."""
    pairs = list(zip(values, expectation.values, strict=True))
    gpus = [int(value[4:]) for value, (_, recorded) in pairs if recorded.startswith("GPU ")]
    names = {**known, "gpu": gpus[0]} if gpus else known
    for value, (name, recorded) in pairs:
        if recorded.startswith("0x"):
            if addresses.setdefault(recorded, value) != value:
                raise Wrong(f"{value} was {addresses[recorded]} before")
            if list(addresses.values()).count(value) > 1:
                raise Wrong(f"{value} is the address of something else")
        elif name.isidentifier() and name not in names:
            known[name] = int(value)
        elif name and worth(name, names) != int(value):
            raise Wrong(f"{name} is {worth(name, names):g}, not {value}")
    return gpus


def hold_repeats(lines_gpus, known):
    """Holds the lines that stood for one expectation against the number of GPUs: each GPU or ordered pair once."""
    count = known.setdefault("gpus", 1 + max(max(gpus) for gpus in lines_gpus))
    every = [[gpu] for gpu in range(count)]
    if len(lines_gpus[0]) == 2:
        every = [[one, other] for one in range(count) for other in range(count) if one != other]
    if sorted(lines_gpus) != every:
        raise Wrong(f"there is not one line for each of {count} GPUs{' with each other' * (len(lines_gpus[0]) - 1)}")


def pair(expected, output, gpus=None):
    """Pairs each output line with the expectation that it meets: {first number: its lines}, and the first difference or
    None. gpus is their number, if it is known.

    The output of a program that skipped ends early: all before its SKIP line must be as expected.
    """
    lines, pairs, at = output.splitlines(), {}, 0
    skip = next((i for i, line in enumerate(lines) if line.startswith("SKIP: ")), None)
    lines = lines[:skip]
    known, addresses = {"gpus": gpus} if gpus else {}, {}
    for expectation in expected:
        first, lines_gpus = at, []
        place = f"line {expectation.numbers[0]} expects {expectation.line!r}"
        try:
            while at < len(lines) and (expectation.gpus or at == first):
                match = re.fullmatch(expectation.pattern, lines[at])
                if not match:
                    break
                lines_gpus.append(hold(expectation, match.groups(), known, addresses))
                pairs.setdefault(expectation.numbers[0], []).append(lines[at])
                at += 1
            if skip is not None and at == len(lines):
                return pairs, None
            if at == first:
                got = repr(lines[at]) if at < len(lines) else "the end of the output"
                return pairs, f"{place}, line {at + 1} of the output is {got}"
            if expectation.gpus:
                hold_repeats(lines_gpus, known)
        except Wrong as wrong:
            return pairs, f"{place}, line {at + 1} of the output: {wrong}"
    if at < len(lines):
        return pairs, f"nothing is expected any more, line {at + 1} of the output is {lines[at]!r}"
    return pairs, None


def renewed(line, got):
    """The expected line with the values of an output line."""
    values = iter(re.fullmatch(pattern(line), got).groups())

    def renew(match):
        name, recorded = match.groups()
        value = next(values)
        others = [each for each in recorded.split("|") if each != value] if "|" in recorded else []
        return "{" + (f"{name}=" if name else "") + "|".join([value, *others]) + "}"

    return VALUE.sub(renew, line)


def record(text, output, conditions):
    """The expected text with this output's values, and the first difference or None. What a skip left out stays."""
    expected = expectations(text)
    pairs, difference = pair(expected, output)
    leaders = {number: expectation.numbers[0] for expectation in expected for number in expectation.numbers}
    result = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            result.append(HEADER + conditions if line.startswith(HEADER) else line)
        elif leaders[number] not in pairs:
            result.append(line)
        elif leaders[number] == number:
            result += [renewed(line, got) for got in pairs[number]]
    return "\n".join(result) + "\n", difference


def as_printed(text):
    """What the program printed when the expected text was recorded."""
    lines = [line + "\n" for line in text.splitlines() if not line.startswith("#")]
    return VALUE.sub(lambda match: match[2].partition("|")[0], "".join(lines)).replace("{{", "{").replace("}}", "}")


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("check", "record") or len(sys.argv) != 4 + (sys.argv[1] == "record"):
        sys.exit(__doc__)
    text, output = open(sys.argv[2]).read(), open(sys.argv[3]).read()
    if sys.argv[1] == "record":
        new_text, difference = record(text, output, sys.argv[4])
        if not difference:
            open(sys.argv[2], "w").write(new_text)
    else:
        difference = pair(expectations(text), output)[1]
    if difference:
        sys.exit(f"{sys.argv[2]}: {difference}")


if __name__ == "__main__":
    main()
