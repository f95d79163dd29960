#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Mistakes put into a program are found on the simulator: mutations_test.py VMMSIM PROGRAM EXPECTED NVCC [FLAGS...]

Each mistake is one replacement in the source of the program. The lesson.json beside it says what is wrong, what is
seen then, a regular expression, and which lines stand there and are put there. The program built from it must fail,
print something else than was recorded, or leave something that --leaks reports; and say what is named there.
Unchanged, it must do none of these. What the page invites to try is written in the same way, and need not fail. The
lesson and all that is made of it are one program, each in a namespace of its own: most of the time of a compiler goes
into the headers, which all of them share.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from tests import changes
from tests.on_simulator.sim_test import HERE, changed, difference, program_config, short_args

ROOT = HERE.parent.parent
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


def build(texts, directory, source, nvcc):
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
    command = [*nvcc, "-std=c++17", "-gencode", "arch=compute_90,code=compute_90", "--no-compress", copy]
    done = subprocess.run([*command, "-o", directory / source.stem], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"FAIL: it does not build:\n{done.stdout}{done.stderr}")
    return directory / source.stem


def run(vmmsim, program, mistake, expected):
    """Runs it with this mistake. Whether all is well, and all that it says."""
    command = [vmmsim, "--strict", "--gpus", "2", "--leaks", program, *short_args(program.name)]
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


def main(vmmsim, lesson, expected_file, *nvcc):
    source = ROOT / lesson
    its = program_config(source.stem)
    text = source.read_text()
    expected = changed(expected_file, its.get("small_changes" if "small" in its else "changes", {}))
    mistakes, tried = list(changes_of(source, "mistakes")), list(changes_of(source, "try_it"))
    cases = [("unchanged", "", "", ""), *mistakes, *tried]
    for what, _, old, new in cases[1:]:
        if text.count(old) != 1 or old == new:
            sys.exit(f"FAIL: {what}: {text.count(old)} places in {source} have {old!r}")
    for what, _, old, _ in tried:
        if f"\n{old}\n" not in text:
            sys.exit(f"FAIL: {what}: a reader is to change whole lines, not {old!r}")

    def check(numbered):
        number, (what, seen, _, _) = numbered
        well, told = run(vmmsim, program, number, expected)
        wrong = "" if well else told
        if number > 0:
            found = re.search(seen, told) and (number > len(mistakes) or not well)
            wrong = "" if found else f"expected {seen!r}, seen:\n{told}"
        return f"{'FAIL' if wrong else 'ok'}: {what}{wrong and ': ' + wrong}"

    bad = 0
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = [text, *(text.replace(old, new) for _, _, old, new in cases[1:])]
        program = build(texts, pathlib.Path(scratch), source, nvcc)
        for line in pool.map(check, enumerate(cases)):
            print(line, flush=True)
            bad += line.startswith("FAIL")
    if bad:
        sys.exit(f"FAIL: {bad} of {len(cases)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
