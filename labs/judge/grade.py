# SPDX-License-Identifier: MIT-0
"""Several labs of one student, or of a class: what is right, the points, and the files that tell of it."""

import concurrent.futures
import contextlib
import csv
import hashlib
import io
import json
import os
import signal
import subprocess
import sys

from labs.judge import sandbox
from labs.judge.files import code_of, end, is_begun, leads_out, mine, my_files, predicted, put, shown
from labs.judge.program import COMPILER_SECONDS, PR_SET_PDEATHSIG, ROOT, CannotJudge, prctl
from labs.judge.verdict import judge
from vmmsim.processes import end_tree

CANNOT_JUDGE = 3  # exit status
NOT_JUDGED = "it is judged to the end"  # stands for a check


def judged(lab, given, keep=None):
    if leads_out(mine(lab)):
        end(1, f"{shown(mine(lab))} is a link out of its directory, and is not judged")
    if not mine(lab).is_file():
        end(1, f"{shown(mine(lab))} is no file")
    return judge(lab, mine(lab), given.real, given.limit, keep)


# --- Each by a process of its own, so that what it starts is its own


def judged_all(labs, given):
    """(lab, status, all that is told) for each of the student's, in order."""
    with contextlib.closing(reports([(lab, my_files()) for lab in labs], given)) as told:
        for lab, about in zip(labs, told, strict=True):
            yield lab, about["status"], about


def reports(tasks, given):
    """What is told of each (lab, directory), in order."""
    words = ["--limit", str(given.limit), "--reports-to", str(os.getpid())] + (["--real"] if given.real else [])
    running = []

    def work(task):
        lab, directory = task
        if not is_begun(lab, directory):
            return report_of(lab, "not begun")
        command = [sys.executable, "-B", "-m", "labs.judge", "-C", os.getcwd(), lab.number, *words]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
        environment = {**os.environ, "LABS_MINE": str(mine(lab, directory).parent)}
        with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) as process:
            running.append(process)
            # For a whole lab: a program that stops its judge must not stop the class.
            return told_by(process, lab, COMPILER_SECONDS + given.limit * (2 + 3 * len(lab.checks)))

    with concurrent.futures.ThreadPoolExecutor(1 if given.real else os.cpu_count()) as pool:
        try:
            yield from pool.map(work, tasks)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                if process.returncode is None:
                    process.terminate()


def told_by(process, lab, seconds):
    try:
        output, _ = process.communicate(timeout=seconds)
        about = json.loads(output)
        if about["number"] == lab.number and process.returncode in (0, CANNOT_JUDGE):
            return about
        why = f"what judged it ended with status {process.returncode}"
    except subprocess.TimeoutExpired:
        why = f"it was not through after {seconds} seconds"
        end_tree(process.pid)
        process.communicate()
    except (ValueError, TypeError, KeyError):
        why = "what judged it was ended meanwhile"
    return report_of(lab, "failed", failed=NOT_JUDGED, words=why)


def judge_for_parent(lab, given):
    """What `reports` asks of another process: the verdict as JSON."""
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != given.reports_to:
        return 1
    try:
        verdict = judged(lab, given)
    except CannotJudge as error:
        print(json.dumps(report_of(lab, "not judged", words=str(error))))
        return CANNOT_JUDGE
    told = report_of(lab, verdict.status, verdict.checks, verdict.words, verdict.seconds, verdict.failed)
    code = " ".join(code_of(mine(lab).read_text(errors="replace")))
    print(json.dumps(told | {"code": hashlib.sha256(code.encode()).hexdigest()}))
    return 0


# --- Points


def report_of(lab, status, checks=(), words="", seconds=0.0, failed=""):
    checks = checks or [(title, "not reached") for title in lab.titles()]
    points, weights = lab.points(checks), lab.weights()
    told = [
        {"title": title, "status": its, "points": points[title], "of_points": weights[title]} for title, its in checks
    ]
    return {
        "number": lab.number,
        "title": lab.title,
        "minutes": lab.minutes,
        "status": status,
        "failed": failed,
        "points": sum(check["points"] for check in told),
        "of_points": sum(check["of_points"] for check in told),
        "checks": told,
        "words": words,
        "seconds": round(seconds, 2),
    }


def sums(told):
    return {key: sum(about[key] for about in told) for key in ("points", "of_points")}


def format_points(points):
    return f"{points['points']:g} of {points['of_points']:g} points"


# --- One student


def grade(labs, given):
    """./lab.sh --all"""
    results = list(judged_all(labs, given))
    for lab, status, about in results:
        line = f"{lab.number}  {lab.title:36}  {status:9}  {about['points']:3g} of {about['of_points']:g}"
        print(f"{line}  {about['seconds']:5.1f} s  {about['failed']}".rstrip())
        if status == "not judged":
            print(about["words"])
    told = [about for _, _, about in results]
    passed = sum(about["status"] == "passed" for about in told)
    print(f"{passed} of {len(labs)} are right: {format_points(sums(told))}")
    if given.json:
        its = {"passed": passed, "of": len(labs), **sums(told), "labs": told}
        put(json.dumps(its, indent=1) + "\n", given.json)
    if given.gradescope:
        put(json.dumps(for_gradescope(told), indent=1) + "\n", given.gradescope)
    found = {about["status"] for about in told}
    return CANNOT_JUDGE if "not judged" in found else 0 if found <= {"passed"} else 1


def for_gradescope(told):
    """A test for each check. What was not reached says why."""
    tests = []
    for about in told:
        for number, check in enumerate(about["checks"], 1):
            is_told = check["title"] == about["failed"] or (number == 1 and about["status"] != "passed")
            words = about["words"] or "no file of this lab was handed in, or it is still the starter"
            output = words if is_told and check["status"] != "passed" else ""
            if check["status"] != "passed" and not output:
                output = (
                    f"{check['status']}; ./lab.sh tells more once this is right: {about['failed'] or about['status']}"
                )
            test = {"name": f"{about['number']}: {check['title']}", "number": f"{about['number']}.{number}"}
            test |= {"score": check["points"], "max_score": check["of_points"], "output": output}
            test |= {"visibility": "visible", "status": "passed" if check["status"] == "passed" else "failed"}
            tests.append(test)
    return {"execution_time": round(sum(about["seconds"] for about in told)), "tests": tests}


# --- A class


def grade_class(labs, given):
    """./lab.sh --class: the directories of a class, one for each student."""
    students = sorted(path for path in given.students.absolute().glob("[!.]*") if path.is_dir())
    if not students:
        end(1, f"{given.students} has no directories: it needs one for each student")
    if sandbox.way() != "bubblewrap":
        words = "between submissions, which could read, end and answer one another; install bubblewrap, or"
        end(1, f"--class: this machine allows no sandbox {words} judge each on a machine of its own by --all")
    all_told, rows = [], []
    with contextlib.closing(reports([(lab, who) for who in students for lab in labs], given)) as reported:
        for who in students:
            told = [next(reported) for _ in labs]
            all_told += [(who.name, about) for about in told]
            print(f"{who.name:30}  {format_points(sums(told))}", flush=True)
            for about in told:
                if about["status"] == "not judged":
                    print(f"{about['number']} of {who.name} was not judged: {about['words']}", file=sys.stderr)
            if given.feedback:
                put(feedback(who.name, told), given.feedback / f"{who.name}.txt")
            rows.append(row_of(who, told))
            if given.csv:  # what is known so far is there, whatever the next one does
                put(as_csv(rows), given.csv)
    for number, names in identical(all_told):
        print(f"{number}: the same code, but for blanks and comments: {', '.join(names)}")
    return CANNOT_JUDGE if any(about["status"] == "not judged" for _, about in all_told) else 0


def identical(all_told):
    """(lab, students) of each answer that several have handed in; right or wrong."""
    found = {}
    for name, about in all_told:
        if "code" in about:
            found.setdefault((about["number"], about["code"]), []).append(name)
    return sorted((number, names) for (number, _), names in found.items() if len(names) > 1)


def feedback(name, told):
    """What is handed back to a student."""
    lines = [f"{name}: {format_points(sums(told))}"]
    for about in told:
        lines += ["", f"{about['number']} {about['title']}: {about['status']}, {format_points(about)}"]
        lines += [f"  {check['status']:11}  {check['title']}" for check in about["checks"]]
        lines += ["", about["words"].rstrip()] if about["words"] else []
    return "\n".join(lines) + "\n"


def row_of(who, told):
    row = {"student": who.name, **sums(told)}
    for about in told:
        call, check, of = predicted(about["number"], who)
        row[about["number"]] = about["points"]
        row[f"{about['number']} fails at"] = about["failed"] or ("" if about["status"] == "passed" else about["status"])
        row[f"{about['number']} predicted"] = f"{call} calls, {check} checks of {of}" if of else ""
    return row


def as_csv(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    for row in rows:  # a table must not take a name for a formula
        writer.writerow({key: f"'{it}" if str(it).startswith(("=", "+", "-", "@")) else it for key, it in row.items()})
    return text.getvalue()
