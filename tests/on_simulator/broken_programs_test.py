# SPDX-License-Identifier: MIT-0
"""What --explain says of the mistakes of a lesson, banner by banner, against the file that the page shows.

NN_name/PROGRAM_explained.txt says what a run says. `broken_programs_test.py record VMMSIM PROGRAM` writes it.

Where one machine is not enough to show all mistakes, `explained_on` in lesson.json names another, and a banner has what
the first run says of it. Addresses, lines of PTX and line breaks may differ.
"""

import os
import re
import subprocess
import sys
import textwrap

import pytest

from scripts.lessons import program_config, source_of
from tests.lessons_test import SOURCES, name_of
from vmmsim.built import BUILT

HEADER = "# What vmmsim --explain says, with long lines folded. Addresses and handles differ from run to run.\n"


def explained(command):
    """[(banner, what was said after it)]. To skip later steps is no failure."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
    )
    assert done.returncode in (0, 77), done.stdout
    steps = []
    for line in done.stdout.splitlines():
        if re.match(r"\[\d+\] ", line):
            steps.append((line, []))
        elif line.startswith("vmmsim: "):
            assert steps, f"before the first banner: {line}"
            steps[-1][1].append(line)
    return steps


def text_of(vmmsim, program, name):
    commands = [[vmmsim, "--strict", "--gpus", "2", "--explain", program]]
    machine = program_config(name).get("explained_on")
    if machine:
        commands.append([vmmsim, "--machine", machine, "--gpus", "2", "--explain", program])
    found = {}
    for command in commands:
        for banner, lines in explained(command):
            found[banner] = found.get(banner) or lines
    assert any(found.values()), "nothing is explained"
    text = HEADER
    for banner in sorted(found, key=lambda banner: int(re.search(r"\d+", banner).group())):
        text += banner + "\n"
        for line in found[banner]:
            line = re.sub(r',(?=["{])', ", ", line)  # structures are written without a space, and could not be folded
            # As wide as the page.
            options = {"break_long_words": False, "break_on_hyphens": False}
            text += textwrap.fill(line, 88, initial_indent="    ", subsequent_indent="      ", **options) + "\n"
    return text


def comparable(text):
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"`\S+ [^`]*` \((.*?)line \d+ of its PTX\)", r"`an instruction` (\1)", text)
    return re.sub(r"\b0x[0-9a-f]+", "0x", text)


def recorded(name):
    return source_of(name).with_name(f"{name}_explained.txt")


@pytest.mark.parametrize("source", [it for it in SOURCES if it.stem.endswith("_broken")], ids=name_of)
def test_mistakes_are_explained(source):
    text = text_of(BUILT["vmmsim"], f"{BUILT['build']}/bin/{source.stem}", source.stem)
    assert comparable(text) == comparable(recorded(source.stem).read_text()), f"record it if this is right:\n{text}"


def record(vmmsim, program):
    name = os.path.basename(program)
    recorded(name).write_text(text_of(vmmsim, program, name))


if __name__ == "__main__":
    word, *files = sys.argv[1:]
    {"record": record}[word](*files)
