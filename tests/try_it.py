# SPDX-License-Identifier: MIT-0
"""The changes to a lesson's program that its page shows, and what the changed programs print.

    .venv/bin/python3 -B -m tests.try_it record LESSON    runs them on the simulator, and writes the file
    .venv/bin/python3 -B -m tests.try_it build LESSON FILE    builds them as one program, with code for sm_90
    .venv/bin/python3 -B -m tests.try_it run FILE    runs them there, on a GPU, and prints the outputs
    .venv/bin/python3 -B -m tests.try_it record LESSON OUTPUT "conditions"    writes the file from what a GPU printed

LESSON is a directory's name. Its lesson.json has the changes, under `try_it`: by title the lines of the change, or for
those that run on the simulator alone {"change": lines, "run": "options of vmmsim"}; without lines the program runs as
it is. LESSON/try_it_output.txt has the outputs, stdout and stderr as a terminal shows them, each below its title:

    == title
    [1] ...
    -- exit status 1

Values in braces may differ from run to run, as in expected_output.txt, and so may addresses in what vmmsim explains.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

from scripts.lessons import short_args
from scripts.transcript import HEADER, as_printed, expectations, pair, renewed
from tests.changes import build, places
from vmmsim.built import BUILT

ROOT = pathlib.Path(__file__).resolve().parents[1]
SECTION = re.compile(r"^== (.*)\n((?:(?!^== ).*\n)*)", re.MULTILINE)
COMMENT = "# What the program prints with each of the page's changes; simulated where the line below a title says so.\n"
LIMIT = 60  # seconds


def entries(lesson):
    """{title: (places of the change, options of vmmsim or None)} of a lesson."""
    found = {}
    for title, entry in json.loads((ROOT / lesson / "lesson.json").read_text()).get("try_it", {}).items():
        lines, options = (entry["change"], entry["run"]) if isinstance(entry, dict) else (entry, None)
        found[title] = (places(lines) if lines else [], options)
    return found


def source_of(lesson):
    return ROOT / lesson / f"{lesson[3:]}.cu"


def changed(text, change):
    """The program with this change: what it takes out are whole lines, which stand there once."""
    for old, new in change:
        lines = re.compile(rf"^{re.escape(old)}\n", re.MULTILINE)
        if len(lines.findall(text)) != 1:
            raise ValueError(f"these lines are not there once:\n{old}")
        text = lines.sub(lambda _, new=new: new and f"{new}\n", text)
    return text


def texts(lesson):
    text = source_of(lesson).read_text()
    return [changed(text, change) for change, _ in entries(lesson).values()]


def sections(lesson):
    """{title: what is recorded below it, without comments}"""
    file = ROOT / lesson / "try_it_output.txt"
    found = dict(SECTION.findall(file.read_text())) if file.exists() else {}
    return {title: re.sub(r"^#.*\n", "", text, flags=re.MULTILINE) for title, text in found.items()}


def on_simulator(vmmsim, lesson, program, number, options):
    gpus = json.loads((ROOT / lesson / "lesson.json").read_text()).get("gpus", 1)
    words = (options or "").split()
    command = [vmmsim, *([] if "--gpus" in words else ["--gpus", str(gpus)]), *words, program]
    return run([*command, *short_args(lesson[3:])], number)


def run(command, number):
    """What a terminal shows, what vmmsim explains folded as on a page, and the exit status."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        env={**os.environ, "MISTAKE": str(number)},
    )
    told = re.sub(r"\bmistake_\d+::", "", done.stdout)  # the namespace of a change in the program of all
    return "".join(map(folded, told.splitlines())) + f"-- exit status {done.returncode}\n"


def folded(line):
    if not line.startswith("vmmsim: "):
        return line + "\n"
    line = re.sub(r',(?=["{])', ", ", line)  # structures are written without a space, and could not be folded
    line = re.sub(r"(?<=\()\S+/(?=\w+\.cu:\d)", "", line)  # the directory's name, which is the checkout's
    options = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(line, 88, subsequent_indent="  ", **options) + "\n"


def difference(recorded, printed):
    """The first difference, or None. What vmmsim explains is compared without addresses and line breaks."""
    story, explained = parts(recorded)
    printed_story, printed_explained = parts(printed)
    if comparable(as_printed(explained)) != comparable(printed_explained):
        return f"vmmsim explains otherwise:\n{printed_explained}"
    return pair(expectations(story), printed_story)[1]


EXPLAINED = re.compile(r"^vmmsim: .*\n(?:  \S.*\n)*", re.MULTILINE)
ADDRESS = re.compile(r"\b0x[0-9a-f]{8,}\b")


def parts(text):
    """What the program prints, and what vmmsim explains."""
    return EXPLAINED.sub("", text), "".join(EXPLAINED.findall(text))


def comparable(text):
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"`\S+ [^`]*` \((.*?)line \d+ of its PTX\)", r"`an instruction` (\1)", text)
    text = re.sub(r"\bblock \(\d+, \d+, \d+\)", "a block", text)  # blocks run side by side: any may be the first
    return re.sub(r"\b0x[0-9a-f]+", "0x", text)


def renew(recorded, printed):
    """The recorded text with the values that were printed; if the lines differ, what was printed."""
    if not recorded or difference(recorded, printed):
        return ADDRESS.sub(r"{\g<0>}", printed.replace("{", "{{").replace("}", "}}"))
    lines = iter(parts(printed)[0].splitlines())
    story = [line for line in parts(recorded)[0].splitlines()]
    new = {line: renewed(line, got) for line, got in zip(story, lines, strict=True)}
    return "".join(f"{new.get(line, line)}\n" for line in recorded.splitlines())


def write(lesson, outputs, conditions):
    """The file, with these outputs by title; those that are not among them stay."""
    file, before = ROOT / lesson / "try_it_output.txt", sections(lesson)
    text = f"{COMMENT}{HEADER}{conditions}\n"
    for title, (_, options) in entries(lesson).items():
        text += f"== {title}\n"
        if options is not None:
            text += f"# Simulated: vmmsim {options}".rstrip() + "\n"
        printed = outputs.get(title)
        text += renew(before.get(title, ""), printed) if printed else before[title]
    file.write_text(text)


def record_simulated(lesson):
    with tempfile.TemporaryDirectory() as scratch:
        program = build(texts(lesson), pathlib.Path(scratch), source_of(lesson), "arch=compute_90,code=compute_90")
        outputs = {
            title: on_simulator(BUILT["vmmsim"], lesson, program, number, options)
            for number, (title, (_, options)) in enumerate(entries(lesson).items())
        }
    write(lesson, outputs, "on the simulator")


def run_all(program):
    """Each change that needs no option of vmmsim: the titles stand in a file beside the program."""
    for number, title in json.loads(pathlib.Path(f"{program}.json").read_text()):
        print(f"== {title}\n{run([program], number)}", end="", flush=True)


def main(word, *given):
    BUILT.update(json.loads((ROOT / "build/vmmsim_built.json").read_text()) if word in ("record", "build") else {})
    if word == "record" and len(given) == 1:
        record_simulated(*given)
    elif word == "record":
        lesson, output, conditions = given
        write(lesson, dict(SECTION.findall(pathlib.Path(output).read_text())), conditions)
    elif word == "build":
        lesson, file = given
        with tempfile.TemporaryDirectory() as scratch:
            made = build(texts(lesson), pathlib.Path(scratch), source_of(lesson), "arch=compute_90,code=sm_90")
            pathlib.Path(file).write_bytes(made.read_bytes())
        pathlib.Path(file).chmod(0o755)
        told = [(number, title) for number, (title, (_, run)) in enumerate(entries(lesson).items()) if run is None]
        pathlib.Path(f"{file}.json").write_text(json.dumps(told))
    elif word == "run":
        run_all(*given)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:] or [""])
