#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Makes the views of the lessons that the book shows: lesson_views.py BIN OUT [LESSON...]

Each lesson in the directory BIN runs on BIN/vmmsim, on the GPUs that its lesson.json says, and its calls become
OUT/PROGRAM.html, a part of a page; OUT/PROGRAM.json says at which call of the view each step of the lesson begins.
docs/extensions/views.py puts both there. Exit status 0, 1 if a view cannot be made.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from docs.tools.fill_pages import step_lines
from scripts.lessons import lessons, short_args
from vmmsim.trace import Broken, Recording, finish
from vmmsim.view import fragment, plural, steps

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Failed(Exception):
    pass


def recorded(lesson, directory, file):
    """Runs a lesson on simulated GPUs and writes what it asked of the driver into a file."""
    name = lesson[3:]
    gpus = json.loads((ROOT / lesson / "lesson.json").read_text()).get("gpus", 1)
    command = [directory / "vmmsim", "--gpus", str(gpus), "--trace", file, directory / name, *short_args(name)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise Failed(f"{name} ended with status {done.returncode}\n{done.stdout}{done.stderr}")
    wrong = finish(file, [str(directory / name), *short_args(name)], plural(gpus, "simulated GPU"), gpus, 0)
    if wrong:
        raise Failed("\n".join(wrong))


def steps_of_calls(lesson, recording, frames):
    """{step of the lesson: its calls, of these frames}.

    A call belongs to the step in which the innermost of its places stands.
    """
    own, found = f"{lesson[3:]}.cu", {}
    parts = step_lines(ROOT / lesson / own)
    for line, frame in zip(recording.lines, frames, strict=True):
        at = [number for file, number, _ in recording.places(line) if file == own]
        of_places = [step for place in at for step, lines in parts.items() if place in lines]
        for step in of_places[:1]:
            found.setdefault(step, []).append(frame)
    return dict(sorted(found.items()))


def begins(lesson, recording, frames):
    """{step of the lesson: the first call in it that changes something, or that is refused, or the first}."""
    ranks = {"changes": 0, "refused": 1, "asks": 2}
    of_steps = steps_of_calls(lesson, recording, frames).items()
    return {step: min(its, key=lambda frame: (ranks[frame.kind], frame.number)).number for step, its in of_steps}


def main():
    parser = argparse.ArgumentParser(description="Makes the views of the lessons that the book shows.")
    parser.add_argument("directory", type=pathlib.Path, metavar="BIN", help="where vmmsim and the lessons are")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="where the views are put")
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="these only, like 01_vmm_basics")
    arguments = parser.parse_args()
    for name in arguments.lessons:
        if name not in lessons():
            parser.error(f"no such lesson: {name}")
    directory = arguments.directory.resolve()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for lesson in arguments.lessons or lessons():
        began = time.monotonic()
        try:
            with tempfile.TemporaryDirectory() as scratch:
                file = pathlib.Path(scratch, "recording.jsonl")
                recorded(lesson, directory, file)
                recording = Recording.read(file)
            # As a reader runs it, and as it is in this checkout, wherever it was built.
            recording.about["command"][0] = f"build/bin/{lesson[3:]}"
            sources = [*(ROOT / lesson).glob("*.cu"), *(ROOT / "common").glob("*.h")]
            recording.about["sources"] = {file.name: file.read_text() for file in sources}
            frames = steps(recording)
            text = fragment(recording, frames, lesson[3:])
            (arguments.out / f"{lesson[3:]}.html").write_text(text)
            (arguments.out / f"{lesson[3:]}.json").write_text(json.dumps(begins(lesson, recording, frames)))
        except (Failed, Broken, AssertionError, OSError, subprocess.SubprocessError) as error:
            sys.exit(f"FAIL: {lesson}: {error}")
        seconds = time.monotonic() - began
        print(f"{lesson}: {len(frames)} calls, {len(text.encode()) / 1000:.0f} kB, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
