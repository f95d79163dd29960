#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Draws the pictures of the pages that show what a step of a lesson's program has done: draw_pictures.py [--write] BIN

    <!-- picture: vmm_basics [3] "The memory stays, its address changes" -->
    ![What it shows](../docs/pictures/move.svg)

The comment above such a picture names the program, its step, and the picture's title. The program in the directory BIN
runs on BIN/vmmsim, and `vmmsim view --svg` draws what the calls of the step have changed. The file's description is the
page's. Without --write each file must be as it would be drawn. Exit status 0, 1 if one is not.
"""

import argparse
import dataclasses
import html
import pathlib
import re
import subprocess
import sys
import tempfile

from docs.tools.fill_pages import ROOT, pages
from docs.tools.lesson_views import Failed, recorded, steps_of_calls
from scripts.lessons import lessons
from vmmsim.trace import Recording
from vmmsim.view import steps

LICENCE = "<!-- SPDX-License-Identifier: CC-BY-4.0 -->\n"
COMMENT = re.compile(r'^<!-- picture: (\w+) \[(\d+)\] "(.+)" -->\n!\[(.+)\]\((\S+\.svg)\)$', re.MULTILINE)
WIDTH = "430"  # so that its words can be read on a phone


@dataclasses.dataclass
class Picture:
    program: str
    step: int
    title: str
    words: str
    file: pathlib.Path


def wanted(page):
    text = page.read_text()
    found = COMMENT.findall(text)
    if len(found) != text.count("<!-- picture:"):
        raise Failed(f"{page}: a comment that asks for a picture is not as docs/tools/draw_pictures.py has it")
    for program, step, title, words, file in found:
        yield Picture(program, int(step), title, words, (page.parent / file).resolve())


def drawn(lesson, directory, pictures):
    """(picture, the text of its file), of the pictures of one lesson."""
    with tempfile.TemporaryDirectory() as scratch:
        recording, file = pathlib.Path(scratch, "recording.jsonl"), pathlib.Path(scratch, "picture.svg")
        recorded(lesson, directory, recording)
        read = Recording.read(recording)
        calls = steps_of_calls(lesson, read, steps(read))
        for picture in pictures:
            if picture.step not in calls:
                raise Failed(f"{picture.file.name}: {picture.program} makes no call in step {picture.step}")
            its = calls[picture.step]
            how = "--step", f"{its[0].number}-{its[-1].number}", "--title", picture.title, "--width", WIDTH
            command = [sys.executable, "-B", "-m", "vmmsim", "view", "--svg", *how, "--output", file, recording]
            subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True, cwd=ROOT)
            before, _, rest = file.read_text().partition("<desc>")
            words = html.escape(picture.words, False)
            yield picture, numbered(f"{LICENCE}{before}<desc>{words}{rest[rest.index('</desc>') :]}")


def numbered(text):
    """With own[0] and own[1] for R2 (own[gpu]) and R4 (own[gpu]): a lesson's loops go through the GPUs from 0 on."""
    found = sorted(set(re.findall(r"\bR(\d+) \((\w+)\[\w+\]\)", text)), key=lambda one: int(one[0]))
    for number, name in found:
        nth = [one for one in found if one[1] == name].index((number, name))
        text = re.sub(rf"\bR{number} \({name}\[\w+\]\)", f"{name}[{nth}]", text)
    return text


def wrong(directory, is_to_write):
    """What is wrong with the files, or nothing if they are to be written."""
    pictures = {lesson[3:]: [] for lesson in lessons()}
    for picture in (picture for page in pages() for picture in wanted(page)):
        if picture.program not in pictures:
            raise Failed(f"{picture.file.name}: {picture.program} is no lesson's main program")
        pictures[picture.program].append(picture)
    for lesson in lessons():
        its = pictures[lesson[3:]]
        for picture, text in drawn(lesson, directory, its) if its else ():
            if is_to_write:
                picture.file.write_text(text)
            elif not picture.file.exists() or picture.file.read_text() != text:
                again = f".venv/bin/python3 -m docs.tools.draw_pictures --write {directory}"
                file = picture.file.relative_to(ROOT)
                yield f"{file} is not what {lesson} does now: run {again}, and look at it and its words"


def main():
    parser = argparse.ArgumentParser(description="Draws the pictures of steps, or checks that those there are right.")
    parser.add_argument("--write", action="store_true", help="write the files, not only compare")
    parser.add_argument("directory", type=pathlib.Path, metavar="BIN", help="where vmmsim and the lessons are")
    arguments = parser.parse_args()
    try:
        found = list(wrong(arguments.directory.resolve(), arguments.write))
    except (Failed, OSError) as error:
        found = [error]
    except subprocess.CalledProcessError as error:
        found = [error.stderr.strip()]
    if found:
        sys.exit("".join(f"FAIL: {what}\n" for what in found))


if __name__ == "__main__":
    main()
