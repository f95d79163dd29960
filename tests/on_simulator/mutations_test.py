# SPDX-License-Identifier: MIT-0
"""Mistakes put into a program are found on the simulator.

Each mistake is one replacement in the source of the program. The lesson.json beside it says what is wrong, what is
seen then, a regular expression, and which lines stand there and are put there. The program built from it must fail,
print something else than was recorded, or leave something that --leaks reports; and say what is named there.
Unchanged, it must do none of these.
"""

import functools
import json
import os
import re
import subprocess

import pytest

from scripts.lessons import program_config, short_args
from tests import changes
from tests.lessons_test import SOURCES, name_of
from tests.run_program import changed, difference
from vmmsim.built import BUILT

LIMIT = 60  # seconds


def mistakes_of(source):
    """(what is wrong, what is seen, what stands there, what is put there) of each, from the lesson's lesson.json."""
    about = json.loads(source.with_name("lesson.json").read_text())
    its = about if source.parent.name[3:] == source.stem else about["programs"][source.stem]
    for title, lines in its.get("mistakes", {}).items():
        what, seen = title.split(" => ")
        seen = seen.replace("FAULT", "cudaErrorIllegalAddress").replace("LEAK", "vmmsim: leak: ")
        [(old, new)] = changes.places(lines)
        yield what, seen, old, new


def run(program, mistake, expected):
    """Runs it with this mistake. Whether all is well, and all that it says."""
    command = [BUILT["vmmsim"], "--strict", "--gpus", "2", "--leaks", program, *short_args(program.name)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env={**os.environ, "MISTAKE": str(mistake)},
        )
    except subprocess.TimeoutExpired:
        return False, f"it had not ended after {LIMIT} s"
    wrong = difference(expected, done.stdout, command)
    well = not (done.returncode or done.stderr or wrong)
    return well, f"exit status {done.returncode}, {wrong}\n{done.stdout}{done.stderr}"


CASES = {
    source: [("unchanged", "", "", ""), *mistakes_of(source)]
    for source in SOURCES
    if not source.stem.endswith("_broken")
}
CASES = {source: cases for source, cases in CASES.items() if len(cases) > 1 or name_of(source) == source.parent.name}


@pytest.fixture(scope="module")
def program_of(tmp_path_factory):
    """The program of a source and all its mistakes, built when it is first asked for."""

    def built(source):
        text = source.read_text()
        texts = [text, *(text.replace(old, new) for _, _, old, new in CASES[source][1:])]
        architecture = "arch=compute_90,code=compute_90"  # one, and only its PTX: that is what the simulator runs
        return changes.build(texts, tmp_path_factory.mktemp("mistakes"), source, architecture)

    return functools.cache(built)


@pytest.mark.parametrize(
    ("source", "number"),
    [
        pytest.param(source, number, id=f"{name_of(source)}-{case[0]}")
        for source, cases in CASES.items()
        for number, case in enumerate(cases)
    ],
)
def test_each_mistake_is_seen(program_of, source, number):
    text, (_, seen, old, new) = source.read_text(), CASES[source][number]
    its = program_config(source.stem)
    expected = source.with_name("expected_output.txt")
    if name_of(source) != source.parent.name:
        expected = source.with_name(f"{source.stem}_expected_output.txt")
    expected = changed(expected, its.get("small_changes" if "small" in its else "changes", {}))
    if number:
        assert text.count(old) == 1
        assert old != new
    well, told = run(program_of(source), number, expected)
    assert well or number, told
    assert not (well and number), "nothing is seen of it"
    assert re.search(seen, told), told
