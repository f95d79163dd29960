# SPDX-License-Identifier: MIT-0
"""The arguments of ./lab.sh."""

import argparse
import os
import pathlib
import re

from labs.judge.files import end, my_files, shown
from labs.judge.program import ROOT, SECONDS

OF_ONE = "watch", "predict", "view", "hint", "reset", "solution"  # commands that take one lab
GOES_WITH = {"json": "--all", "gradescope": "--all", "csv": "--class", "feedback": "--class"}
GOES_WITH |= {"yes": "solution", "alternatives": "solution"}

USAGE = """./lab.sh                        the labs, and which of yours are right
       ./lab.sh NN                     builds, runs and judges your file; NN is 01a for instance
       ./lab.sh next                   the first that is not right yet
       ./lab.sh watch NN               judged anew whenever you save it; then the next one
       ./lab.sh predict NN             asks what the answer will be, and gives it
       ./lab.sh view NN                its last run, to step through
       ./lab.sh hint|reset NN          one more hint; the starter again, yours is kept
       ./lab.sh solution NN [--yes] [--alternatives]    after it is right, or with --yes
       ./lab.sh --all [NN,NN] [--json FILE] [--gradescope FILE]    all, or these, and their points
       ./lab.sh --class DIRECTORY [NN,NN] [--csv FILE] [--feedback DIRECTORY]    the same for each directory in it
       ./lab.sh gradescope NN,NN FILE.zip    an autograder for Gradescope"""


def arguments(labs):
    parser = parser_of(labs)
    parser.error = lambda text: end(2, f"{text}\n./lab.sh --help tells what there is")
    given = parser.parse_args()
    if not os.path.isdir(given.directory):
        parser.error(f"there is no directory {given.directory}")
    os.chdir(given.directory)
    words = given.words
    given.command = words.pop(0) if words and words[0] in (*OF_ONE, "next", "gradescope") else ""
    takes_several = given.all or given.students or given.command == "gradescope"
    given.zip = pathlib.Path(words.pop()).absolute() if given.command == "gradescope" and len(words) > 1 else None
    if wrong := does_not_go_together(given, takes_several):
        parser.error(wrong)
    try:
        if takes_several:
            words = [part for word in words for part in word.split(",") if part]
        chosen = [named(word, labs) for word in words]
    except ValueError as error:
        parser.error(str(error))
    given.labs = [lab for lab in labs if lab in chosen or not chosen]
    given.lab = chosen[0] if chosen and not takes_several else None
    return given


def parser_of(labs):
    parser = argparse.ArgumentParser(
        prog="lab.sh",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        usage=USAGE,
        description="Labs on CUDA's virtual memory management, on simulated GPUs. Your files are in labs/mine, or\n"
        "where LABS_MINE says.",
        epilog="labs:\n  " + "\n  ".join(f"{lab.number}  {lab.title}" for lab in labs) + "\n\n"
        "exit status: 0 right, 1 not yet, 2 bad arguments, 3 the judge could not tell, which says nothing of your file",
    )
    yes = {"action": "store_true"}
    file, directory = ({"metavar": name, "type": pathlib.Path} for name in ("FILE", "DIRECTORY"))
    parser.add_argument("words", nargs="*", metavar="NN", help="a lab: its number, its name or your file")
    parser.add_argument("--all", **yes, help="judge all of your files, or these")
    parser.add_argument("--json", **file, help="with --all: write the results to FILE")
    parser.add_argument("--gradescope", **file, help="the same as Gradescope reads them")
    parser.add_argument("--class", **directory, dest="students", help="judge those of a class")
    parser.add_argument("--feedback", **directory, help="with --class: a text for each student")
    parser.add_argument("--csv", **file, help="with --class: a line for each student")
    parser.add_argument("--real", **yes, help="run it on this machine's GPUs as well")
    parser.add_argument("--yes", **yes, help="with solution: show it, right or not")
    parser.add_argument("--alternatives", **yes, help="with solution: other answers that are right")
    parser.add_argument("--limit", metavar="SECONDS", type=int, default=SECONDS, help="for one run (20)")
    of_lab_sh = {"help": argparse.SUPPRESS}
    parser.add_argument("-C", metavar="DIRECTORY", dest="directory", default=".", **of_lab_sh)  # paths are from there
    parser.add_argument("--reports-to", type=int, **of_lab_sh)  # for grade.reports
    parser.add_argument("--parse", action="store_true", **of_lab_sh)  # only look at the arguments
    return parser


def does_not_go_together(given, takes_several):
    """In words, what of the arguments does not; or ""."""
    command, words = given.command, given.words
    there = {"--all": given.all, "--class": given.students, "solution": command == "solution"}
    alone = [option for option, whose in GOES_WITH.items() if getattr(given, option) and not there[whose]]
    is_real = command in ("", "watch", "next", "predict") and not given.students
    wrong = {
        "one of these at a time: --all, --class, or a command": given.all + bool(given.students) + bool(command) > 1,
        f"{command} needs the number of a lab": command in OF_ONE and not words,
        "next takes no lab: it finds one": command == "next" and words,
        "gradescope needs labs and a file: ./lab.sh gradescope 01a,01c FILE.zip": command == "gradescope"
        and not (given.zip and given.zip.suffix == ".zip"),
        f"--class: there is no directory {given.students}": given.students and not given.students.is_dir(),
        **{f"--{option} goes with {GOES_WITH[option]}": True for option in alone},
        f"--real does not go with {command or '--class'}": given.real and not is_real,
        f"--limit takes 1 to 3600 seconds, not {given.limit}": not 1 <= given.limit <= 3600,
        f"one lab at a time, not {' '.join(words)}; --all takes several, as 01a,01c": not takes_several and words[1:],
    }
    return next((text for text, is_wrong in wrong.items() if is_wrong), "")


def named(word, labs):
    """The lab of this name: 01a, 1A, 01a_replace_cudamalloc.cu, labs/mine/01a_replace_cudamalloc.cu:16, "ring"."""
    text = re.sub(r"(:\d+)+$", "", word)
    path = pathlib.Path(text)
    name = re.sub(r"\.(cu|py|json|html)$", "", path.name).lower()
    if re.fullmatch(r"\d[a-z]?", name):
        name = f"0{name}"
    found = [lab for lab in labs if name and lab.name.startswith(name)]
    found = found or [lab for lab in labs if len(name) > 2 and re.sub(r"\W", "_", name) in lab.name]
    if len(found) > 1:
        raise ValueError(f"{word!r} fits several labs: " + ", ".join(f"{lab.number} {lab.title}" for lab in found))
    if not found:
        raise ValueError(f"there is no lab {word!r}; there are {', '.join(lab.number for lab in labs)}")
    ours = my_files(), ROOT / "labs/starters", ROOT / "labs/solutions", ROOT / "labs/checks"
    if "/" in text and path.exists() and path.resolve().parent not in [one.resolve() for one in ours]:
        where = shown(my_files())
        raise ValueError(f"{text} is not judged, but your file in {where}: LABS_MINE={path.parent} names another place")
    return found[0]
