# SPDX-License-Identifier: MIT-0
"""What lessons there are, and which of them ./run.sh is asked for: all that is known before anything is set up."""

import argparse
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "build" / "bin"
SIMULATED_GPUS = 8


def lessons():
    return sorted(path.name for path in ROOT.glob("[0-9][0-9]_*") if path.is_dir())


def programs(lesson):
    """Its programs, the main one first."""
    names = sorted(path.stem for path in (ROOT / lesson).glob("*.cu"))
    return sorted(names, key=lambda name: name != lesson[3:])


def source_of(program):
    return next(ROOT.glob(f"[0-9][0-9]_*/{program}.cu"))


def program_config(program):
    """What the lesson.json of its directory says of this program. What skips the lesson, skips it too."""
    about = json.loads(source_of(program).with_name("lesson.json").read_text())
    own = about.get("programs", {}).get(program, {})
    return {**own, "skips": {**about.get("skips", {}), **own.get("skips", {})}}


def on_simulator(program):
    """The arguments for simulated GPUs, which are slow."""
    return program_config(program).get("simulated", "").split()


def short_args(program):
    """The arguments for a program that runs again and again, in tests: less memory, fewer repeats."""
    return program_config(program).get("small", "").split() or on_simulator(program)


def arguments():
    known = lessons()
    parser = argparse.ArgumentParser(
        prog="run.sh",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        usage="./run.sh [--help] [--sim | --gpu] [--all] [NN ...]\n       ./run.sh --docs | --notebooks | --setup\n"
        "       ./run.sh --view [options] PROGRAM [its arguments]",
        description="Sets up what is missing, builds, runs the lessons in order, and ends with a table of results.",
        epilog="lessons:\n  " + "\n  ".join(known) + "\n\n"
        "The lessons run on this machine's GPUs. What these cannot run, or all if there is no GPU, runs on\n"
        f"{SIMULATED_GPUS} simulated GPUs, with less to do where a lesson measures: they say nothing about speed. The\n"
        "table tells where each lesson ran.\n\n"
        "What is there is used. If g++ is missing it comes from the system's packages; CMake, Ninja and the CUDA\n"
        "compiler come from PyPI into .venv. CUDACXX names an nvcc that is not on the PATH. The programs are in\n"
        "build/bin/ afterwards; each takes --help, and so does build/bin/vmmsim, the simulator.\n\n"
        "--view runs any program, on simulated GPUs or with --real on real ones, and writes an HTML file in which one\n"
        "steps through its calls, the address spaces and the memory. It comes first: ./run.sh --view --help.\n\n"
        "exit status: 0 every lesson worked or was skipped, 1 one failed or could not be built, or there is no driver\n"
        "for --gpu, 2 bad arguments",
    )
    parser.add_argument("--programs", type=pathlib.Path, default=PROGRAMS, help=argparse.SUPPRESS)  # of a notebook
    parser.add_argument("--all", action="store_true", help="run the other programs of each lesson as well")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--sim", action="store_true", help="run on simulated GPUs only")
    where.add_argument("--gpu", action="store_true", help="run on this machine's GPUs only")
    where.add_argument("--docs", action="store_true", help="build the book instead, and say where to open it")
    where.add_argument(
        "--notebooks", action="store_true", help="write the lessons as notebooks, and get what runs them"
    )
    where.add_argument("--setup", action="store_true", help="only set up what is missing, and build the simulator")
    where.add_argument("--view", action="store_true", help="show what a program asks of CUDA (below)")
    parser.add_argument("lessons", metavar="NN", nargs="*", help="the lesson's number, 03 for instance; all if none")
    given = parser.parse_args()
    if given.view:
        parser.error("--view comes first: ./run.sh --view PROGRAM")
    for word in ("docs", "notebooks", "setup"):
        if getattr(given, word) and (given.lessons or given.all):
            parser.error(f"--{word} takes no lessons")
    chosen = set()
    for word in given.lessons:
        found = [name for name in known if word in (name, name[:2], name[:2].removeprefix("0"))]
        if not found:
            parser.error(f"there is no lesson {word!r}; there are {', '.join(name[:2] for name in known)}")
        chosen.update(found)
    given.lessons = sorted(chosen) or known
    return given
