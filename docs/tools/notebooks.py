#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Writes the lessons as notebooks into build/notebooks, from their pages and programs: notebooks.py [--help]

A section of a page becomes a text cell, its pictures inside. Each step begins with the cells that the lesson's
notebook.py has for it: questions, and calls in Python. After the last step stand the cell that writes the program in
C++ and those that compile and run it. What a page shows as a command on the simulator becomes a cell too.

In notebook.py `# %% [4]` begins a cell of step 4, and `# %% [4] refused` one in which the driver refuses something. The
comment at its head is its question, a text cell in Markdown; code that it shows stands there as a page's listing does.
A paragraph that begins with `Answer:` answers the question before, and is folded, as is what the cells show.

C++ stands in a text cell, and again in a folded cell, which writes it: applications know one language for all cells of
code, the kernel's, and highlight others in text alone.
"""

import argparse
import base64
import html
import json
import pathlib
import re
import shutil
import subprocess
import urllib.parse

from docs.tools.fill_pages import COMMENT, ROOT, listing, step

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}  # every application has it
HERE, MINE = "cuda_vmm_by_example", "mine"  # beside the notebook: the project, and the reader's programs
FOLDED = {"jupyter": {"source_hidden": True}, "cellView": "form"}  # for JupyterLab and for Colab
CODE = re.compile(r"^( *)```[\s\S]*?^\1```$", re.MULTILINE)
CPP = re.compile(r"```(?:cuda|cpp)$", re.MULTILINE)  # a page's names for what JupyterLab knows as c++ alone
COMMANDS = re.compile(r"^```sh\n((?:build/bin/.*\n)*build/bin/vmmsim .*\n)```$", re.MULTILINE)
WORDS = {  # that fit a page alone, and a notebook's in their place
    r"<!-- forge -->[\s\S]*?<!-- /forge -->\n": "",
    r"<!--[\s\S]*?-->\n?": "",
    r"\n\[Try it\]\(\.\./docs/try_it\.md[^)]*\)\.\n": "",
    r"On this page\b": "In this notebook",
    r"this page\b": "this notebook",
    r"```sh\n\./run\.sh \d\d.*\n```": "Cells of this notebook build the program and run it.",
    r"run\s+`\./run\.sh(?: --sim)?\s+\d\d`\s+again": "run its cell and the two after it again",
    r"`build/bin/(\w+_broken)`": r"`\1`",
    r"`\./run\.sh --view\s+build/bin/(\w+)`": rf"`{HERE}/run.sh --view {MINE}/\1`",
}
BEGIN = f"""
*[Lesson {{number}}]({{page}}) of CUDA VMM by Example, {{release}}, as a notebook. Run its cells from top to bottom, or
all at once; the first of them sets up. You make the calls one by one, in Python, and see after each what it has done;
the whole program, in C++, comes at the end. Before each cell is a question: guess, run the cell, and open its answer.
Commands in the text are for a terminal, in the directory `{HERE}` that the first cell makes beside the notebook.*
"""
SET_UP = f"""# Gets the project, {{release}}, and what is missing on this machine, and builds the simulator. That takes
# up to 3 minutes on 2 cores, and a second once it is done. The project is what the variable VMM_REPOSITORY names, an
# address or the directory of a checkout; or the checkout in which this notebook lies{{where}}.
import os
import pathlib
import site
import subprocess

here = pathlib.Path("{HERE}")
if not here.exists():
    around = [each for each in pathlib.Path.cwd().parents if (each / "scripts" / "notebook.sh").exists()]
    repository = os.environ.get("VMM_REPOSITORY") or (around or [{{address}}])[0]
    assert repository, "set VMM_REPOSITORY to the project's address, or to a directory that has it"
    if os.path.isdir(repository):
        here.symlink_to(repository)
    else:
        subprocess.run(["git", "clone", "--quiet", "--depth=1", "--branch={{release}}", repository, here], check=True)
subprocess.run([here / "scripts" / "notebook.sh"], check=True)
pathlib.Path("{MINE}").mkdir(exist_ok=True)

# From here on cells of Python run in a process on simulated GPUs, which begins anew each time this cell is run.
os.environ["VMMSIM_PYTHON"] = str(here.resolve() / ".venv" / "bin" / "python3")
packages = here.resolve() / "build" / "vmmsim" / "installed"
os.environ["PYTHONPATH"] = f"{{{{packages}}}}:{{{{here.resolve()}}}}/common"  # vmmsim, and by_hand.py
site.addsitedir(packages)
%reload_ext vmmsim
%vmm start
%vmm fold"""
BY_HAND = """## By hand

From here on the addresses and the memory are drawn for each cell that changes them. Open *What happened* below the cell
when you have guessed.

The calls are `cu.` and the name that they have in C. `ok` gives what a call returns, or ends the cell if the call is
refused. `use(0)` takes GPU 0 for kernels and copies, `memory_on(0)` and `access_for(0)` fill the structs of lesson 01,
and `read` copies integers to the host. You can read them all in [by_hand.py](../common/by_hand.py).

If you change a cell so that a kernel of the GPU faults, hardly a call works any more. Then run the first cell of the
notebook again, and those after it: it starts a new process. For this machine's GPUs write `%vmm start --real` there."""
ANSWER = """<details><summary>Answer</summary>

{}

</details>"""
PROGRAM = f"""## The whole program, in C++

Here is the program, and the cell below writes it into the directory `{MINE}` beside the notebook. To change the
program, open that cell and change it there. The steps above lead to their parts of it, by the lines of the file. It
runs on this machine's GPUs if they are enough for it, and otherwise on simulated ones."""
LAB = f"""### {{title}}

Your task is at the top. The cell below writes the program: open it, and change your parts, between `// >>>` and
`// <<<`. The cell after it judges the program by what it did on simulated GPUs. `{HERE}/lab.sh hint {{number}}` tells a
hint."""
LAB_OF_A_LIST = re.compile(r"^- [^\n]*\n(?:  [^\n]*\n)*", re.MULTILINE)  # cells stand for it


def read(path):
    return path.read_text(encoding="utf-8")


def address_of_clone():
    """Where this checkout was cloned from, as a browser has it; "" if that is not on the web."""
    address = ""
    if shutil.which("git"):
        told = subprocess.run(["git", "-C", ROOT, "remote", "get-url", "origin"], capture_output=True, text=True)
        address = re.sub(r"^(?:ssh://)?git@([^:/]+)[:/]", r"https://\1/", told.stdout.strip())
    address = re.sub(r"^(https?://)[^/]*@", r"\1", address).removesuffix(".git")  # no password
    return address if address.startswith("http") else ""


def cells_by_hand(file):
    """{step: [(question, code, whether it is refused), ...]} of a notebook.py; step 0 is what all of them need."""
    found, cell = {}, re.compile(r"^# %% \[(\d+)\]( refused)?\n([\s\S]*?)(?=^# %% |\Z)", re.MULTILINE)
    for step_of_it, refused, text in cell.findall(read(file)):
        question = re.match(r"(?:#(?: .*)?\n)*", text)[0]
        code = text.removeprefix(question).strip()
        found.setdefault(int(step_of_it), []).append(
            (re.sub("^# ?", "", question, flags=re.MULTILINE), code, bool(refused))
        )
    return found


class Notebook:
    def __init__(self, directory, address, release):
        self.directory, self.name, self.number = directory, directory.name[3:], directory.name[:2]
        self.address, self.release, self.cells = address, release, []
        self.base = f"{f'{address}/blob/{release}' if address.startswith('http') else HERE}/{directory.name}/"

    def add(self, kind, text, about=None):
        lines = text.strip("\n").splitlines(keepends=True)
        cell = {"cell_type": kind, "id": f"cell-{len(self.cells):02}", "metadata": about or {}, "source": lines}
        self.cells += [cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})] if lines else []

    def bash(self, *lines):
        self.add("code", "\n".join(["%%bash", "set -euo pipefail", f"cd {MINE}", *lines]))

    def file(self, path):
        """C++ to be read, and the cell that writes it."""
        self.add("markdown", f"```c++\n{read(path)}```")
        self.add("code", f"%%writefile {MINE}/{path.name}\n{read(path)}", FOLDED)

    def link(self, target):
        path, hash_sign, place = target.partition("#")
        return urllib.parse.urljoin(self.base, path or "README.md") + hash_sign + place

    def picture(self, alt, name):  # a form that JupyterLab and VS Code show; attached SVGs they do not
        data = base64.b64encode((self.directory / name).read_bytes()).decode()
        image = f'<img alt="{html.escape(alt)}" src="data:image/svg+xml;base64,{data}">'
        return f'<a href="{self.link(name)}">{image}</a>'

    def part(self, number):
        """A line that leads to the part of a step in the program."""
        lines = read(self.directory / f"{self.name}.cu").splitlines()
        part = "\n".join(step(lines, number)).rstrip().splitlines()
        first = lines.index(part[0]) + 1
        last = first + len(part) - 1
        return f"[Lines {first} to {last} of the program]({self.name}.cu#L{first}-L{last}):"

    def text(self, text):
        step_of_program = rf"<!-- listing: {self.name}\.cu \[(\d+)\].*? -->"
        text = re.sub(step_of_program, lambda found: f"{self.part(int(found[1]))}\n", text, count=1)
        for page, notebook in WORDS.items():
            text = re.sub(page, notebook, text)
        code = [CPP.sub("```c++", found[0], count=1) for found in CODE.finditer(text)]
        text = re.sub(r"!\[(.*?)\]\((.*?)\)", lambda found: self.picture(*found.groups()), CODE.sub("\0", text))
        text = re.sub(r"\]\((?!https?:)(.*?)\)", lambda found: f"]({self.link(found[1])})", text)
        self.add("markdown", re.sub("\0", lambda _: code.pop(0), text))

    def compile(self, name):
        """The line at the top of the program, for the nvcc of the set-up."""
        source = read(self.directory / f"{name}.cu")
        line = re.search(r"^// Build it alone: +nvcc (.*)$", source, re.MULTILINE)[1]
        if name != self.name:
            line = line.replace(f"{name}.cu", f"../{HERE}/{self.directory.name}/{name}.cu")
        return f"../{HERE}/scripts/nvcc {line} -I ../{HERE}/{self.directory.name}".replace(" -o", " \\\n  -o")

    def commands(self, lines):
        """On the simulator; what runs on a GPU alone stays out. A lesser machine may not do for all of a program."""
        runs = re.findall(r"^build/bin/vmmsim.*$", lines.replace(" build/bin/", " ./"), re.MULTILINE)
        runs = [f"../{HERE}/{line} 2>&1" + " || (($? == 77))  # it may skip" * ("--machine" in line) for line in runs]
        self.bash(self.compile(re.search(r" \./(\w+)", runs[0])[1]), *runs)

    def program(self):
        self.text(PROGRAM)
        self.file(self.directory / f"{self.name}.cu")
        self.bash(self.compile(self.name))
        run = f'.venv/bin/python3 -B -m scripts.run_lessons --programs "$programs" {self.number}'
        self.bash("programs=$PWD", f"cd ../{HERE}", run)

    def labs(self):
        starters = sorted((ROOT / "labs" / "starters").glob(f"{self.number}?_*.cu"))
        for starter in starters:
            title = re.search(r"^// (Lab .*)$", read(starter), re.MULTILINE)[1]
            self.text(LAB.format(title=title, number=starter.name[:3]))
            self.file(starter)
            self.bash(f"LABS_MINE=. ../{HERE}/lab.sh {starter.name[:3]} || (($? == 1))  # 1: not right yet")

    def section(self, text):
        at = 0
        for found in COMMANDS.finditer(text):
            self.text(text[at : found.start()])
            self.commands(found[1])
            at = found.end()
        self.text(text[at:])

    def question(self, text):
        """A page has the code below the comment that names it; here the comment is all there is."""

        def code(found):
            return "\n".join(["```cuda", *listing(self.directory / found[2], found[3]), "```"])

        text = re.sub(r"\AAnswer: (.*(?:\n.+)*)", lambda found: ANSWER.format(found[1]), text)
        self.text(re.sub(COMMENT.pattern, code, text, flags=re.MULTILINE))

    def step(self, number, text):
        """Its heading, what is to be done, and then the page's text."""
        heading, _, rest = text.partition("\n")
        self.text(heading)
        for question, code, _ in self.by_hand.pop(number, ()):
            self.question(question)
            self.add("code", code)
        self.section(rest)

    def begin(self, beginning):
        heading, _, beginning = beginning.partition("\n\n")
        self.text(heading + "\n" + BEGIN.format(number=self.number, page="README.md", release=self.release))
        where = f", or {self.address}" if self.address else ""
        self.add("code", SET_UP.format(release=self.release, address=json.dumps(self.address), where=where))
        self.text(beginning)

    def prepare(self):
        self.text(BY_HAND)
        ((_, code, _),) = self.by_hand.pop(0)
        self.add("code", code)

    def practise(self, section):
        """The labs, as cells, and then what else the page says there."""
        heading, _, rest = section.partition("\n")
        self.text(heading)
        self.labs()
        self.section(LAB_OF_A_LIST.sub(lambda found: "" if "](../labs/starters/" in found[0] else found[0], rest))

    def sections(self, sections):
        """The guesses come first; the program and how it runs after the last step."""
        numbers = [re.match(r"## \[(\d+)\] ", section) for section in sections]
        last = max(index for index, number in enumerate(numbers) if number)
        while sections[last + 1].startswith("### "):
            last += 1
        runs = next(index for index, section in enumerate(sections) if section.startswith("## Run it\n"))
        guesses, run = re.fullmatch(r"## Run it\n([\s\S]*^\d\. (?:.+\n)+)([\s\S]*)", sections[runs], re.M).groups()
        for index, section in enumerate(sections):
            if numbers[index]:
                self.step(int(numbers[index][1]), section)
            elif section.startswith("## Practise, and go on\n"):
                self.practise(section)
            elif index == runs:
                self.text(guesses)
                self.prepare()
            else:
                self.section(section)
            if index == last:
                self.program()
                self.section(f"## Run it\n{run}")

    def json(self):
        beginning, *sections = re.split(r"^(?=###? )", read(self.directory / "README.md"), flags=re.MULTILINE)
        self.by_hand = cells_by_hand(self.directory / "notebook.py")
        self.begin(beginning)
        self.sections(sections)
        if self.by_hand:
            raise ValueError(
                f"{self.directory.name}/notebook.py has cells for steps that the page lacks: {self.by_hand}"
            )
        about = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
        notebook = {"cells": self.cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
        return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main():
    version = re.search(r"^project\(.* VERSION (\S+)", read(ROOT / "CMakeLists.txt"), re.MULTILINE)[1]
    parser = argparse.ArgumentParser(description="Writes the lessons as notebooks, from their pages and programs.")
    parser.add_argument("--to", metavar="DIRECTORY", type=pathlib.Path, default=ROOT / "build" / "notebooks")
    parser.add_argument("--repository", metavar="ADDRESS", default=address_of_clone(), help="(%(default)s)")
    parser.add_argument(
        "--release", metavar="TAG", default=f"v{version}", help="what the first cell gets (%(default)s)"
    )
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    for page in sorted(ROOT.glob("[0-9][0-9]_*/README.md")):
        file = given.to / f"{page.parent.name}.ipynb"
        file.write_bytes(Notebook(page.parent, given.repository, given.release).json().encode())
    print(f"The notebooks are in {given.to}. Their first cell gets {given.release} from {given.repository or 'here'}")
    if not given.repository:
        print("They work within this checkout alone. For others: --repository ADDRESS, which git can clone")


if __name__ == "__main__":
    main()
