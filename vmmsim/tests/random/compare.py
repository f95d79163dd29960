# SPDX-License-Identifier: MIT-0
"""How far two outputs of random_calls are alike, by kind and by call.

    python3 -m tests.random.compare EXPECTED GOT [--calls] [--examples N] [--kind KIND...]

A file may be packed (.xz). Lines are paired by the number of the call.
"""

import argparse
import collections
import dataclasses
import lzma
import re
import sys

LINE = re.compile(r"(?P<kind>\w+) (?P<number>\d+) (?P<call>\w+)?(?P<rest>.*)")
END = re.compile(r"batch (?P<batch>\d+) ended: (?P<how>.*)")


@dataclasses.dataclass
class Output:
    lines: dict  # the number of a call: its kind, its name, its line
    ends: dict  # the number of a batch: how its process ended


def read(path):
    opened = lzma.open if path.endswith(".xz") else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        return parse(file)


def parse(lines):
    output = Output({}, {})
    for line in lines:
        line = line.rstrip("\n")
        if end := END.fullmatch(line):
            output.ends[int(end["batch"])] = end["how"]
        elif found := LINE.fullmatch(line):
            output.lines[int(found["number"])] = (found["kind"], found["call"] or "", line)
    return output


def result(line):
    """What the line says was answered: all that stands behind the first "): "."""
    return line.partition("): ")[2] or "no answer"


def is_answered(line):
    """Whether the driver came back from the call. Where it crashed, there is nothing to compare with."""
    return not line.endswith("): ") and not line.endswith("):")


def differences(expected, got, kinds=()):
    """The calls that differ: number, kind, call, expected line, line or None if it is not there."""
    for number, (kind, call, line) in expected.lines.items():
        if (kinds and kind not in kinds) or not is_answered(line):
            continue
        other = got.lines.get(number)
        if other is None or other[2] != line:
            yield number, kind, call, line, other and other[2]


def count(expected, got, kinds=()):
    """By kind and call: how many calls, how many of them differ."""
    calls, differ = collections.Counter(), collections.Counter()
    for kind, call, line in expected.lines.values():
        if (not kinds or kind in kinds) and is_answered(line):
            calls[kind, call] += 1
    for _, kind, call, _, _ in differences(expected, got, kinds):
        differ[kind, call] += 1
    return calls, differ


def report(name, differ, calls):
    print(f"{name:50} {calls - differ:6} of {calls:6} alike, {100 * (calls - differ) / calls:6.2f} %, {differ} differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("expected")
    parser.add_argument("got")
    parser.add_argument("--calls", action="store_true", help="count by call, too")
    parser.add_argument("--examples", type=int, default=0, help="show so many of each difference")
    parser.add_argument("--kind", action="append", default=[])
    options = parser.parse_args()
    expected, got = read(options.expected), read(options.got)
    calls, differ = count(expected, got, options.kind)
    for kind in sorted({kind for kind, _ in calls}):
        of_kind = [key for key in calls if key[0] == kind]
        report(kind, sum(differ[key] for key in of_kind), sum(calls[key] for key in of_kind))
        if options.calls:
            for key in sorted(of_kind, key=lambda key: -differ[key]):
                if differ[key]:
                    report(f"    {key[1]}", differ[key], calls[key])
    if options.examples:
        show(expected, got, options)
    for batch, how in expected.ends.items():
        if got.ends.get(batch) != "exit 0":
            print(f"batch {batch} ended: {how}; got: {got.ends.get(batch)}")
    report("all", differ.total(), calls.total())
    return 0 if not differ else 1


def show(expected, got, options):
    groups = collections.defaultdict(list)
    for _, kind, call, line, other in differences(expected, got, options.kind):
        groups[kind, call, result(line), result(other) if other else "nothing"].append((line, other))
    for (kind, call, wanted, answered), lines in sorted(groups.items(), key=lambda group: -len(group[1])):
        print(f"{len(lines):5}  {kind} {call}: {wanted}; got {answered}")
        for line, _ in lines[: options.examples]:
            print(f"           {line}")


if __name__ == "__main__":
    sys.exit(main())
