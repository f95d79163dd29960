#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The commands of ./lab.sh, which has built the simulator. Needs the standard library only."""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from labs.judge import program as lab_program
from labs.judge.program import PR_SET_PDEATHSIG, ROOT, CannotJudge, prctl
from labs.judge.verdict import GLOSSARY, all_labs, judge
from vmmsim.hardware import count_gpus

CANNOT_JUDGE = 3  # exit status


def my_files():
    """The directory of the student's files."""
    return pathlib.Path(os.environ.get("LABS_MINE") or ROOT / "labs" / "mine").absolute()


def hints_shown(lab):
    """The file that says how many."""
    return my_files() / ".hints" / lab.number


def in_words(error):
    """What is wrong with a file; and what to do, if the checkout lacks it."""
    path = pathlib.Path(error.filename or "/")
    if isinstance(error, FileNotFoundError) and path.is_relative_to(ROOT):
        name = path.relative_to(ROOT)
        return f"{name} is missing; get it again: git checkout -- {name}"
    return str(error)


def end(status, text):
    print(f"lab: {text}", file=sys.stderr)
    sys.exit(status)


def shown(path):
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


# --- The student's files


def mine(lab):
    return my_files() / f"{lab.name}.cu"


@contextlib.contextmanager
def writing(what):
    try:
        yield
    except OSError as error:
        end(1, f"{shown(what)} cannot be written: {error.strerror}\nLABS_MINE names another directory for your files")


def put(text, path):
    """Writes a file whole or not at all, whoever else does so meanwhile."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)


def make_mine(lab):
    """Whether the student's copy was not there, and now is."""
    if mine(lab).exists():
        return False
    put(lab.starter.read_text(), mine(lab))
    return True


def is_begun(lab):
    return mine(lab).is_file() and mine(lab).read_bytes() != lab.starter.read_bytes()


# --- Commands


def show_one(lab, labs, given):
    """./lab.sh 02a"""
    if make_mine(lab):
        print(f"Your file is {shown(mine(lab))}: a copy of the starter, made just now. Edit it, and run this again.\n")
    verdict = judged(lab, given)
    if verdict.remarks:
        print(f"{verdict.remarks.rstrip()}\n")
    if verdict.status == "passed":
        print(f"{lab.number} {lab.title}: right\n" + "".join(f"  {title}\n" for title, _ in verdict.checks))
        after = labs[labs.index(lab) + 1 :]
        print(f"Compare yours with ./lab.sh solution {lab.number}")
        print(
            f"Next: {after[0].number} {after[0].title}, ./lab.sh {after[0].number}"
            if after
            else "This was the last lab."
        )
        return 0
    print(f"{lab.number} {lab.title}: not yet. This does not hold: {verdict.failed}\n\n{verdict.words}")
    rest = sum(status == "not reached" for _, status in verdict.checks)
    print(f"Not reached: {rest} of {len(verdict.checks)} checks.")
    print(f"Look at {verdict.page}; a term: {GLOSSARY}; a hint: ./lab.sh hint {lab.number}")
    return 1


def judged(lab, given):
    if not mine(lab).is_file():
        end(1, f"{shown(mine(lab))} is no file")
    return judge(lab, mine(lab), given.real, given.limit)


def show_all(labs, given):
    """./lab.sh: what there is, and how far one has come."""
    print("lab  minutes  title")
    passed, first = 0, None
    for lab, status, _ in judged_all(labs, given):
        words = {"passed": "right", "failed": "not yet", "not begun": ""}.get(status, status)
        print(f"{lab.number}  {lab.minutes:7}  {lab.title:36}  {words}".rstrip(), flush=True)
        passed += status == "passed"
        first = first or (lab if status != "passed" else None)
    print(f"\n{passed} of {len(labs)} are right.")
    print(f"Go on with ./lab.sh {first.number}: {first.title}" if first else "All are right.")
    return 0


def grade(labs, given):
    """./lab.sh --all"""
    results = list(judged_all(labs, given))
    for lab, status, about in results:
        print(f"{lab.number}  {lab.title:36}  {status:9}  {about['seconds']:5.1f} s  {about['failed']}".rstrip())
        if status == "not judged":
            print(about["words"])
    passed = sum(status == "passed" for _, status, _ in results)
    print(f"{passed} of {len(labs)} are right")
    if given.json:
        reports = [report for _, _, report in results]
        put(json.dumps({"passed": passed, "of": len(labs), "labs": reports}, indent=1) + "\n", given.json)
    if given.gradescope:
        put(json.dumps(for_gradescope(results), indent=1) + "\n", given.gradescope)
    return status_of(results)


def status_of(results):
    found = {status for _, status, _ in results}
    return CANNOT_JUDGE if "not judged" in found else 0 if found == {"passed"} else 1


def for_gradescope(results):
    tests = [
        {
            "name": f"{lab.number} {lab.title}",
            "score": int(status == "passed"),
            "max_score": 1,
            "status": "passed" if status == "passed" else "failed",
            "output": ""
            if status == "passed"
            else "\n".join(filter(None, [about["failed"] or status, about["words"]])),
            "visibility": "visible",
        }
        for lab, status, about in results
    ]
    return {"execution_time": round(sum(about["seconds"] for _, _, about in results)), "tests": tests}


def judged_all(labs, given):
    """(lab, status, all that is told) for each, in order. A process judges each, so that what it starts is its own."""
    words = ["--limit", str(given.limit)] + (["--real"] if given.real else [])
    parent, running = str(os.getpid()), []

    def work(lab):
        if not is_begun(lab):
            return report_of(lab, "not begun")
        where = ["-C", os.getcwd()]
        command = [sys.executable, "-B", "-m", "labs.judge", *where, lab.number, *words, "--reports-to", parent]
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        ) as process:
            running.append(process)
            output, _ = process.communicate()
        try:
            return json.loads(output)
        except ValueError:
            return report_of(
                lab, "failed", failed="it is judged to the end", words="what judged it was ended meanwhile"
            )

    with concurrent.futures.ThreadPoolExecutor(1 if given.real else os.cpu_count()) as pool:
        try:
            for lab, about in zip(labs, pool.map(work, labs), strict=True):
                yield lab, about["status"], about
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                if process.returncode is None:
                    process.terminate()


def report_of(lab, status, checks=(), words="", seconds=0.0, failed=""):
    return {
        "number": lab.number,
        "title": lab.title,
        "minutes": lab.minutes,
        "status": status,
        "failed": failed,
        "checks": [{"title": title, "status": of_check} for title, of_check in checks],
        "words": words,
        "seconds": round(seconds, 2),
    }


def judge_for_parent(lab, given):
    """What judged_all asks of another process: the verdict as JSON."""
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != given.reports_to:
        return 1
    try:
        verdict = judged(lab, given)
    except CannotJudge as error:
        print(json.dumps(report_of(lab, "not judged", words=str(error))))
        return CANNOT_JUDGE
    print(json.dumps(report_of(lab, verdict.status, verdict.checks, verdict.words, verdict.seconds, verdict.failed)))
    return 0


def hint(lab):
    """One more each time."""
    path = hints_shown(lab)
    try:
        count = int(path.read_text())
    except (OSError, ValueError):
        count = 0
    count = min(count + 1, len(lab.hints))
    for number, text in enumerate(lab.hints[:count], 1):
        print(f"{number}. {text}")
    left = len(lab.hints) - count
    print(f"\n{left} more: ./lab.sh hint {lab.number}" if left else f"\nThat was the last hint. The page: {lab.page}")
    put(f"{count}\n", path)
    return 0


def reset(lab):
    with contextlib.suppress(OSError):
        (hints_shown(lab)).unlink()
    if is_begun(lab):
        old = mine(lab).with_suffix(".cu.old")
        with writing(old):
            os.replace(mine(lab), old)
        print(f"What you had is {shown(old)}")
    put(lab.starter.read_text(), mine(lab))
    print(f"{shown(mine(lab))} is the starter again")
    return 0


def solution(lab, given):
    if not given.yes and not (is_begun(lab) and judged(lab, given).status == "passed"):
        end(1, f"yours is not right yet; ./lab.sh solution {lab.number} --yes shows the solution all the same")
    print(f"{shown(lab.solution)}:\n\n{lab.solution.read_text()}", end="")
    return 0


# --- Arguments


def arguments(labs):
    parser = argparse.ArgumentParser(
        prog="lab.sh",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        usage="./lab.sh [NN]                      the labs; or builds, runs and judges your file\n"
        "       ./lab.sh hint|reset NN             one more hint; the starter again, yours is kept as .old\n"
        "       ./lab.sh solution NN [--yes]       after it is right, or with --yes\n"
        "       ./lab.sh --all [--json FILE | --gradescope FILE]",
        description="Labs on CUDA's virtual memory management, on simulated GPUs. Your files are in labs/mine, or\n"
        "where LABS_MINE says.",
        epilog="labs:\n  " + "\n  ".join(f"{lab.number}  {lab.title}" for lab in labs) + "\n\n"
        "exit status: 0 right, 1 not yet, 2 bad arguments, 3 the judge could not tell, which says nothing of your file",
    )
    parser.add_argument(
        "words", nargs="*", metavar="NN", help="the lab's number, 02a for instance; hint, reset, solution"
    )
    parser.add_argument("--all", action="store_true", help="judge all of your files")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path, help="with --all: write the results to FILE")
    parser.add_argument("--gradescope", metavar="FILE", type=pathlib.Path, help="the same as Gradescope reads them")
    parser.add_argument("--real", action="store_true", help="run it on this machine's GPUs as well")
    parser.add_argument("--yes", action="store_true", help="with solution: show it, right or not")
    parser.add_argument("--limit", metavar="SECONDS", type=int, default=lab_program.SECONDS, help="for one run (20)")
    parser.add_argument(
        "-C", metavar="DIRECTORY", dest="directory", default=".", help=argparse.SUPPRESS
    )  # paths are from there
    parser.add_argument("--reports-to", type=int, help=argparse.SUPPRESS)  # for judged_all
    parser.add_argument("--parse", action="store_true", help=argparse.SUPPRESS)  # only look at the arguments
    given = parser.parse_args()
    os.chdir(given.directory)
    given.command = given.words.pop(0) if given.words and given.words[0] in ("hint", "reset", "solution") else ""
    if len(given.words) > 1:
        parser.error(f"one lab at a time, not {' '.join(given.words)}")
    if given.words and given.all:
        parser.error("--all takes no lab")
    if given.command and not given.words:
        parser.error(f"{given.command} needs the number of a lab")
    if (given.json or given.gradescope) and not given.all:
        parser.error("--json and --gradescope go with --all")
    if given.yes and given.command != "solution":
        parser.error("--yes goes with solution")
    if given.real and given.command:
        parser.error(f"--real does not go with {given.command}")
    if not 1 <= given.limit <= 3600:
        parser.error(f"--limit takes 1 to 3600 seconds, not {given.limit}")
    given.lab = None
    if given.words:
        given.lab = next((lab for lab in labs if given.words[0] in (lab.number, lab.name)), None)
        if not given.lab:
            parser.error(f"there is no lab {given.words[0]!r}; there are {', '.join(lab.number for lab in labs)}")
    return given


def main():
    sys.stdout.reconfigure(errors="replace")  # a program may print anything
    labs = all_labs()
    given = arguments(labs)
    if given.parse:
        return 0
    for number in (signal.SIGTERM, signal.SIGHUP):  # leave as on Ctrl-C, with nothing left behind
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    if not lab_program.VMMSIM.exists():
        end(1, "the simulator is not built: it needs Linux on 64-bit x86 or Arm")
    if given.real and not given.reports_to:
        number, why = count_gpus()
        if not number:
            end(1, f"--real needs a GPU: {why}")
    if given.command == "hint":
        return hint(given.lab)
    if given.command == "reset":
        return reset(given.lab)
    if given.command == "solution":
        return solution(given.lab, given)
    if given.reports_to:
        return judge_for_parent(given.lab, given)
    if given.lab:
        return show_one(given.lab, labs, given)
    return grade(labs, given) if given.all else show_all(labs, given)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            end(1, in_words(error))
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read our output has left
        sys.exit(128 + signal.SIGPIPE)
    except CannotJudge as error:
        end(CANNOT_JUDGE, str(error))
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        sys.exit(130)
