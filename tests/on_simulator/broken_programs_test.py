#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""What --explain says of the mistakes of a lesson, banner by banner, against the file that the page shows.

    broken_programs_test.py check VMMSIM PROGRAM     NN_name/PROGRAM_explained.txt says what a run says
    broken_programs_test.py record VMMSIM PROGRAM    writes it

Where one machine is not enough to show all mistakes, `explained_on` in lesson.json names another, and a banner has what
the first run says of it. Addresses, lines of PTX and line breaks may differ. Exit status 0, 1 if what is said differs,
or nobody says anything.
"""

import re
import subprocess
import sys
import textwrap

from scripts.run_lessons import source_of
from tests.on_simulator.sim_test import name_of, program_config

HEADER = "# What vmmsim --explain says, with long lines folded. Addresses and handles differ from run to run.\n"


def explained(command):
    """[(banner, what was said after it)]. Ends the test if the program fails; to skip later steps is no failure."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
    )
    if done.returncode not in (0, 77):
        sys.exit(f"FAIL: exit status {done.returncode} of {' '.join(command)}\n{done.stdout}")
    steps = []
    for line in done.stdout.splitlines():
        if re.match(r"\[\d+\] ", line):
            steps.append((line, []))
        elif line.startswith("vmmsim: ") and steps:
            steps[-1][1].append(line)
        elif line.startswith("vmmsim: "):
            sys.exit(f"FAIL: before the first banner: {line}")
    return steps


def text_of(commands):
    found = {}
    for command in commands:
        for banner, lines in explained(command):
            found[banner] = found.get(banner) or lines
    if not any(found.values()):
        sys.exit("FAIL: nothing is explained")
    text = HEADER
    for banner in sorted(found, key=lambda banner: int(re.search(r"\d+", banner).group())):
        text += banner + "\n"
        for line in found[banner]:
            line = re.sub(r',(?=["{])', ", ", line)  # structures are written without a space, and could not be folded
            text += (
                textwrap.fill(
                    line,
                    88,
                    initial_indent="    ",
                    subsequent_indent="      ",
                    break_long_words=False,
                    break_on_hyphens=False,
                )
                + "\n"
            )  # as wide as the page
    return text


def comparable(text):
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"`\S+ [^`]*` \((.*?)line \d+ of its PTX\)", r"`an instruction` (\1)", text)
    return re.sub(r"\b0x[0-9a-f]+", "0x", text)


def main(what, vmmsim, program):
    commands = [[vmmsim, "--strict", "--gpus", "2", "--explain", program]]
    machine = program_config(name_of(program)).get("explained_on")
    if machine:
        commands.append([vmmsim, "--machine", machine, "--gpus", "2", "--explain", program])
    text, path = text_of(commands), source_of(name_of(program)).with_name(f"{name_of(program)}_explained.txt")
    if what == "record":
        path.write_text(text)
    elif not path.exists() or comparable(path.read_text()) != comparable(text):
        sys.exit(
            f"FAIL: {path} says something else. This is said now (broken_programs_test.py record writes it):\n{text}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
