# SPDX-License-Identifier: MIT-0
"""How fast kernels are interpreted, kept for each release, and one against another.

    python3 -m tests.benchmark run build/tests/benchmark FILE   runs it four times, and writes FILE
    python3 -m tests.benchmark compare OLD NEW                         how the best times differ

tests/benchmarks has a file for each release. Times of two processors, or of a busy machine, tell nothing about
each other: make OLD anew from the older release, beside NEW. Exit status of compare: 1 if a kernel takes a quarter
longer, or gives another result.
"""

import pathlib
import re
import subprocess
import sys

RUNS = 4
SLOWER = 1.25
ROW = re.compile(r"(\w+) +([\d.]+) +([\d.]+) +([0-9a-f]{8})")


def parsed(output):
    """What the benchmark prints, as an object."""
    conditions, *rows = output.splitlines()
    found = [match.groups() for match in map(ROW.fullmatch, rows) if match]
    if not found:
        raise ValueError("this is no output of the benchmark")
    kernels = {name: {"best": float(best), "median": float(median), "result": r} for name, best, median, r in found}
    return {"conditions": conditions, "kernels": kernels}


def printed(run):
    """As the benchmark prints it."""
    lines = [run["conditions"], "nanoseconds of a core for each word", "kernel                 best   median   result"]
    lines += ["{0:18} {best:8.2f} {median:8.2f}   {result}".format(name, **its) for name, its in run["kernels"].items()]
    return "\n".join([*lines, ""])


def best_of(runs):
    """Of each kernel the run with the best time: other work on the machine makes it no faster."""
    first, *others = runs
    for name, kernel in first["kernels"].items():
        best = min([kernel, *(run["kernels"][name] for run in others)], key=lambda each: each["best"])
        first["kernels"][name] = best
    return first


def compared(old, new):
    """Lines that tell of each kernel of both, and whether NEW is as good."""
    lines, is_good = [], True
    if old["conditions"] != new["conditions"]:
        lines.append(f"not of the same conditions: {old['conditions']}; {new['conditions']}")
    for name in old["kernels"].keys() & new["kernels"].keys():
        before, after = old["kernels"][name], new["kernels"][name]
        ratio = after["best"] / before["best"]
        wrong = ["slower"] * (ratio > SLOWER) + ["another result"] * (before["result"] != after["result"])
        is_good &= not wrong
        lines.append(f"{name:18} {before['best']:8.2f} {after['best']:8.2f} {ratio:6.2f}  {', '.join(wrong)}".rstrip())
    return sorted(lines), is_good


def main(words):
    if len(words) == 3 and words[0] == "run":
        runs = [subprocess.run([words[1]], capture_output=True, text=True, check=True).stdout for _ in range(RUNS)]
        pathlib.Path(words[2]).write_text(printed(best_of(map(parsed, runs))))
        return 0
    if len(words) == 3 and words[0] == "compare":
        lines, is_good = compared(*(parsed(pathlib.Path(name).read_text()) for name in words[1:]))
        print(*lines, sep="\n")
        return 0 if is_good else 1
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
