# SPDX-License-Identifier: MIT-0
"""Mistakes put into a program are found on the simulator.

Each mistake is one replacement in the source of the program. The lesson.json beside it says what is wrong, what is
seen then, a regular expression, and which lines stand there and are put there. The program built from it must fail,
print something else than was recorded, or leave something that --leaks reports; and say what is named there.
Unchanged, it must do none of these. What the page invites to try is written in the same way, and need not fail. The
lesson and all that is made of it are one program, each in a namespace of its own: most of the time of a compiler goes
into the headers, which all of them share.
"""

import functools
import json
import os
import pathlib
import re
import subprocess

import pytest

from scripts.run_lessons import program_config, short_args
from tests import changes
from tests.lessons_test import ROOT, SOURCES, name_of
from tests.run_program import changed, difference
from vmmsim.built import BUILT

LIMIT = 60  # seconds


def changes_of(source, key):
    """(what is changed, what is seen, what stands there, what is put there) of each, from the lesson's lesson.json."""
    about = json.loads(source.with_name("lesson.json").read_text())
    its = about if source.parent.name[3:] == source.stem else about["programs"][source.stem]
    for title, lines in its.get(key, {}).items():
        what, seen = title.split(" => ")
        seen = seen.replace("FAULT", "cudaErrorIllegalAddress").replace("LEAK", "vmmsim: leak: ")
        [(old, new)] = changes.places(lines)
        yield what, seen, old, new


def build(texts, directory, source):
    """One program of all these texts. The environment's MISTAKE, 0 for the first, says which of them is to run."""
    copy = directory / "lesson" / source.name  # beside common, as in the checkout
    copy.parent.mkdir()
    include = re.compile(r"^(?:#include (?:<|.\.\./).*|#ifdef .*\n(?:#include .*\n)+#endif)\n", re.MULTILINE)
    with open(copy, "w") as file:
        file.writelines(include.findall(texts[0]))
        for number, text in enumerate(texts):
            body = include.sub("", text).replace('  std::puts("OK");\n}', '  std::puts("OK");\n  return 0;\n}')
            file.write(f"namespace mistake_{number} {{\n{body}}}\n")  # where main is a function like any other
        file.write("int main(int count, char** arguments) {\n  switch (std::atoi(std::getenv(\"MISTAKE\"))) {\n")
        given = "" if "\nint main() {" in texts[0] else "count, arguments"
        for number in range(len(texts)):
            file.write(f"    case {number}: return mistake_{number}::main({given});\n")
        file.write("  }\n}\n")
    (directory / "common").symlink_to(ROOT / "common")
    # One architecture, and only its PTX: that is what the simulator runs.
    # The compiler finds the libraries by itself in a toolkit that was installed, and not in one that came from PyPI.
    nvcc = BUILT["nvcc"], f"-L{pathlib.Path(BUILT['cudart_static']).parent}", BUILT["cuda_driver"]
    command = [*nvcc, "-std=c++17", "-gencode", "arch=compute_90,code=compute_90", "--no-compress", copy]
    done = subprocess.run([*command, "-o", directory / source.stem], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory / source.stem


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


def cases_of(source):
    """(what, what is seen, what stands there, what is put there, whether the program must fail) of each."""
    return [
        ("unchanged", "", "", "", False),
        *((*case, True) for case in changes_of(source, "mistakes")),
        *((*case, False) for case in changes_of(source, "try_it")),
    ]


CASES = {source: cases_of(source) for source in SOURCES if not source.stem.endswith("_broken")}
CASES = {source: cases for source, cases in CASES.items() if len(cases) > 1 or name_of(source) == source.parent.name}


@pytest.fixture(scope="module")
def program_of(tmp_path_factory):
    """The program of a source and all its mistakes, built when it is first asked for."""

    def built(source):
        text = source.read_text()
        texts = [text, *(text.replace(old, new) for _, _, old, new, _ in CASES[source][1:])]
        return build(texts, tmp_path_factory.mktemp("mistakes"), source)

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
    text, (_, seen, old, new, must_fail) = source.read_text(), CASES[source][number]
    its = program_config(source.stem)
    expected = source.with_name("expected_output.txt")
    if name_of(source) != source.parent.name:
        expected = source.with_name(f"{source.stem}_expected_output.txt")
    expected = changed(expected, its.get("small_changes" if "small" in its else "changes", {}))
    if number:
        assert text.count(old) == 1
        assert old != new
    well, told = run(program_of(source), number, expected)
    if number and not must_fail:
        assert f"\n{old}\n" in text, "a reader is to change whole lines"
    assert well or number, told
    assert not (well and must_fail), "nothing is seen of it"
    assert re.search(seen, told), told
