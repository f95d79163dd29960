#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The commands of ./lab.sh, which has built the simulator. What judges needs labs/requirements.txt, too."""

import os
import signal
import sys

from labs.judge import gradescope, student
from labs.judge.arguments import arguments
from labs.judge.files import end, reset
from labs.judge.grade import CANNOT_JUDGE, grade, grade_class, judge_for_parent
from labs.judge.program import VMMSIM, CannotJudge
from labs.judge.verdict import all_labs
from vmmsim.hardware import count_gpus


def main():
    sys.stdout.reconfigure(errors="replace")  # a program may print anything
    labs = all_labs()
    given = arguments(labs)
    if given.parse:
        return 0
    for number in (signal.SIGTERM, signal.SIGHUP):  # leave as on Ctrl-C, with nothing left behind
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    if not VMMSIM.exists():
        end(1, "the simulator is not built: it needs Linux on 64-bit x86 or Arm")
    if given.real and given.reports_to is None:
        number, why = count_gpus()
        if not number:
            end(1, f"--real needs a GPU: {why}")
    commands = {
        "watch": lambda: student.watch(given.lab, labs, given),
        "predict": lambda: student.predict(given.lab, labs, given),
        "next": lambda: student.next_one(labs, given),
        "view": lambda: student.view(given.lab),
        "hint": lambda: student.hint(given.lab),
        "reset": lambda: reset(given.lab),
        "solution": lambda: student.solution(given.lab, given),
        "gradescope": lambda: gradescope.pack(given.labs, given.zip),
    }
    if given.command:
        return commands[given.command]()
    if given.reports_to is not None:
        return judge_for_parent(given.lab, given)
    if given.lab:
        return student.show_one(given.lab, labs, given)
    if given.students:
        return grade_class(given.labs, given)
    return grade(given.labs, given) if given.all else student.show_all(labs, given)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            end(1, f"{error}; git status shows what this checkout lacks")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read our output has left
        sys.exit(128 + signal.SIGPIPE)
    except CannotJudge as error:
        end(CANNOT_JUDGE, str(error))
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        sys.exit(130)
