# SPDX-License-Identifier: MIT-0
"""What ./run.sh --view does: `vmmsim view`, of a checkout that builds what is missing, with the lessons' programs."""

import dataclasses
import json
import os
import pathlib
import shlex
import subprocess
import sys

from scripts.lessons import PROGRAMS, ROOT, short_args, source_of
from scripts.run import set_up
from vmmsim.tool import Failed, Tool
from vmmsim.view import watch

TOOL = ROOT / "vmmsim"


@dataclasses.dataclass
class Checkout(Tool):
    name: str = "./run.sh --view"
    example: str = "  ./run.sh --view build/bin/vmm_basics              a lesson, on simulated GPUs\n"
    pages: str = "docs/watch.md"

    def will_build(self, word):
        return bool(lesson_programs([word]))

    def programs_like(self, word):
        return [file for file in (ROOT / word, PROGRAMS / word) if lesson_programs([file])]

    def prepare(self, given):
        """Builds what is missing. Needs nothing, and writes nothing, if all is there."""
        targets = [name for name in lesson_programs(given.command) if is_old(PROGRAMS / name, sources_of(name))]
        if given.real and is_old(self.recorder, sources_of_recorder()):
            targets.append("vmm_recorder")
        if not given.real:
            targets.append("simulator")
        if targets and build(targets):
            raise Failed("the set-up did not succeed; its message is above")
        if not given.real and not self.launcher.exists():
            raise Failed("the simulator is not built here: it needs Linux on 64-bit x86 or Arm. --real uses a GPU")
        if given.real and not self.recorder.exists():
            raise Failed(
                "the recorder was not built, for want of CUPTI: install it (the package cuda-cupti of the toolkit, or "
                f"nvidia-cuda-cupti of PyPI into {ROOT}/.venv), and run this again"
            )
        as_in_the_book(given)


def lesson_programs(words):
    """Those of these words that name a program of a lesson, built or not: [name, ...]."""
    found = []
    for word in words:
        path = pathlib.Path(os.path.abspath(word))
        if path.parent == PROGRAMS and any(ROOT.glob(f"[0-9][0-9]_*/{path.name}.cu")):
            found.append(path.name)
    return found


def build(targets):
    """The exit status of the set-up."""
    return set_up("prepare", *targets, stdin=subprocess.DEVNULL, stdout=sys.stderr)


def sources_of(program):
    return [source_of(program), *(ROOT / "common").glob("*.h")]


def sources_of_recorder():
    return [*(TOOL / "recorder").glob("*.*"), *(TOOL / "trace").glob("*.h"), *(TOOL / "trace").glob("*.cc")]


def is_old(file, sources):
    return not file.exists() or any(source.stat().st_mtime > file.stat().st_mtime for source in sources)


def as_in_the_book(given):
    """The program of a lesson runs as on its page where nothing else is asked for: its default may be too much."""
    names = lesson_programs(given.command[:1])
    if not names or given.real:
        return
    lesson = source_of(names[0]).parent
    machine = []
    if given.gpus is None and given.machine is None:
        given.gpus = str(json.loads((lesson / "lesson.json").read_text()).get("gpus", 1))
        machine = ["--gpus", given.gpus]
    its_arguments = short_args(names[0]) if len(given.command) == 1 else []
    given.command += its_arguments
    if machine or its_arguments:
        watch.say(f"running it as for the book: {shlex.join([*machine, *given.command])}")


# --- The run


if __name__ == "__main__":
    sys.exit(watch.main(sys.argv[1:], Checkout()))
