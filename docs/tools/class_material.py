# SPDX-License-Identifier: MIT-0
"""What a teacher shows, says and hands out, in build/class: slides, notes, a page, a sheet to predict on, its answers,
a rubric.

Each is one HTML file that needs no other, and a PDF where there is a Chromium. The sources are in labs/class; the
questions of the sheet are those of the lessons' pages, and the answers are in their lesson.json.
"""

import base64
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from markdown_it import MarkdownIt

from vmmsim.view import PAGE

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURE = re.compile(r'src="([^":]+\.svg)"')
SECONDS = 60  # for one PDF
SAID = re.compile(r"^> .*$", re.MULTILINE)  # of a slide, and not shown
LIGHT = '<meta name="color-scheme" content="light">'


def markdown(text):
    """HTML, with the pictures in it: their paths are from the top of the checkout."""
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    return PICTURE.sub(lambda found: f'src="{data_of(ROOT / found[1])}"', rendered)


def data_of(picture):
    return "data:image/svg+xml;base64," + base64.b64encode(picture.read_bytes()).decode()


def slides(text):
    parts = re.split(r"^---$", SAID.sub("", text), flags=re.MULTILINE)
    return "\n".join(f"<section>\n{markdown(part)}</section>" for part in parts)


def notes(text):
    """Of each slide its title, the lab to do now, and what is to be said."""
    found = re.findall(r"^# (.*)$|^\*\*(.*)\*\*$|^> (.*)$", text, re.MULTILINE)
    lines = [f"## {title}" if title else now or f"*Say:* {said}" for title, now, said in found]
    return "\n\n".join(["# What to say", *lines])


def predictions():
    """What the pages ask before they run, with room for an answer."""
    text = ["# Predict, then run", "Name: ............................................................"]
    for page, title in lessons():
        text += [f"## {title}", *(f"{question}\n\n<p class=answer></p>\n" for question in questions(page))]
    return "\n\n".join(text)


def answers():
    """What the pages ask before they run, and the answers."""
    text = ["# Predict, then run: the answers"]
    for page, title in lessons():
        text += [f"## {title}"]
        for question, answer in zip(questions(page), answers_of(page), strict=True):
            text += [f"{question}\n\n*{answer}*"]
    return "\n\n".join(text)


def lessons():
    pages = sorted(ROOT.glob("[0-9][0-9]_*/README.md"))
    return [(page, re.search(r"^# (.*)$", page.read_text(), re.MULTILINE)[1]) for page in pages]


def answers_of(page):
    """Those of a lesson, from its lesson.json."""
    return json.loads(page.with_name("lesson.json").read_text())["answers"]


def questions(page):
    """What a lesson asks before it runs: ["**1.** ...?", ...]."""
    section = re.search(r"^## Run it\n([\s\S]*?)^<!-- listing: ", page.read_text(), re.MULTILINE)
    found = re.findall(r"^(\d+)\. ([\s\S]*?)(?=^\d+\. |\n\n)", section[1], re.MULTILINE) if section else []
    if not found:
        sys.exit(f"class_material: {page.relative_to(ROOT)} asks no questions under *Run it*")
    return [f"**{number}.** {' '.join(question.split())}" for number, question in found]


def write_all(out):
    source, style = ROOT / "labs/class", (ROOT / "labs/class/class.css").read_text()
    texts = {name: (source / f"{name}.md").read_text() for name in ("slides", "handout", "rubric")}
    bodies = {"slides": slides(texts["slides"]), "notes": markdown(notes(texts["slides"]))}
    bodies |= {"predictions": markdown(predictions()), "answers": markdown(answers())}
    bodies |= {name: markdown(texts[name]) for name in ("handout", "rubric")}
    out.mkdir(parents=True, exist_ok=True)
    for name, body in bodies.items():
        title = html.escape(f"CUDA VMM by Example: {name}")
        (out / f"{name}.html").write_text(PAGE.format(meta=LIGHT, title=title, style=style, kind=name, body=body))
    return [out / f"{name}.html" for name in bodies]


def print_all(files):
    """PDFs beside them. A browser that is not there or does not work is no failure: a reader prints from their own."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        print("There is no Chromium here to make PDFs: print them from a browser.")
        return
    with tempfile.TemporaryDirectory(prefix="class-") as profile:
        words = [browser, "--headless", "--disable-gpu", f"--user-data-dir={profile}", "--no-pdf-header-footer"]
        words += ["--no-sandbox"] if os.geteuid() == 0 else []
        for file in files:
            pdf = file.with_suffix(".pdf")
            pdf.unlink(missing_ok=True)
            try:
                command = [*words, f"--print-to-pdf={pdf}", file.as_uri()]
                done = subprocess.run(
                    command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
                )
                said = done.stderr.strip()[-400:]
            except subprocess.TimeoutExpired:
                said = f"it was not through after {SECONDS} seconds"
            if not pdf.is_file():
                print(f"{browser} made no {pdf.name}: {said}", file=sys.stderr)


if __name__ == "__main__":
    written = write_all(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/class"))
    print_all(written)
    print(f"For a class: {', '.join(file.stem for file in written)}, in {written[0].parent}.")
