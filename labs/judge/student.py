# SPDX-License-Identifier: MIT-0
"""What the student asks for: a lab judged once or with each save, the list, a hint, the solution, a view."""

import contextlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

from labs.judge.files import PREDICTIONS, end, hints_shown, is_begun, last_run, make_mine, mine, my_files, put, shown
from labs.judge.grade import judged, judged_all
from labs.judge.verdict import BUILT, GLOSSARY
from vmmsim.trace import Recording, finish

MOST_KEPT = 8 << 20  # bytes of a recording
LOOKS = 0.2  # seconds between two looks at a file: it works on every file system


def mark(status):
    """✓ or ✗, in colour where somebody sees it; - where nothing is known."""
    if status == "not reached":
        return "-"
    sign, colour = ("✓", 32) if status == "passed" else ("✗", 31)
    is_seen = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\033[{colour}m{sign}\033[0m" if is_seen else sign


# --- One lab


def show_one(lab, labs, given):
    """./lab.sh 02a"""
    if make_mine(lab):
        print(f"Your file is {shown(mine(lab))}: a copy of the starter, made just now. Edit it, and run this again.\n")
    return show(judged(lab, given, lambda verdict: keep(lab, verdict)), labs)


def show(verdict, labs):
    lab = verdict.lab
    if verdict.remarks:
        print(f"{verdict.remarks.rstrip()}\n")
    is_right = verdict.status == "passed"
    print(f"{lab.number} {lab.title}: {'right' if is_right else 'not yet'}")
    for title, status in verdict.checks[: 1 if verdict.failed == BUILT else None]:
        print(f"  {mark(status)} {title}")
    if is_right:
        after = labs[labs.index(lab) + 1 :]
        print(f"\nCompare yours with ./lab.sh solution {lab.number}")
        print(f"Next: ./lab.sh {after[0].number}, {after[0].title}" if after else "This was the last lab.")
        return 0
    print(f"\n{verdict.words}")
    if verdict.memory:
        print("Memory then:\n" + "\n".join(verdict.memory) + "\n")
    if verdict.step:
        print(f"See it: ./lab.sh view {lab.number} shows this run; the call is its step {verdict.step}")
    print(f"Look at {verdict.page}; a term: {GLOSSARY}; a hint: ./lab.sh hint {lab.number}")
    return 1


def watch(lab, labs, given):
    """./lab.sh watch 02a: judged anew whenever the file has been saved; when it is right, the next one is watched."""
    while True:
        make_mine(lab)
        before = saved(lab)
        if not show_one(lab, labs, given):
            at = labs.index(lab)
            lab = first_to_do([*labs[at + 1 :], *labs[:at]], given)
            if not lab:
                print("\nAll are right.")
                return 0
            print(f"\n{40 * '-'} {lab.number} {lab.title}\n", flush=True)
            continue
        print(f"\nWatching {shown(mine(lab))}: save it, and it is judged again. Ctrl-C ends this.", flush=True)
        while saved(lab) in (before, None):
            time.sleep(LOOKS)
        print(f"\n{40 * '-'} {time.strftime('%H:%M:%S')}\n", flush=True)


def saved(lab):
    """What the file has; None while there is none or it is empty, as when an editor writes it."""
    with contextlib.suppress(OSError):
        return mine(lab).read_bytes() or None
    return None


def next_one(labs, given):
    """./lab.sh next: the first that is not right yet."""
    if lab := first_to_do(labs, given):
        return show_one(lab, labs, given)
    print("All are right.")
    return 0


def first_to_do(labs, given):
    """The first of these that is not right, or None."""
    with contextlib.closing(judged_all(labs, given)) as verdicts:
        return next((lab for lab, status, _ in verdicts if status != "passed"), None)


def predict(lab, labs, given):
    """./lab.sh predict 02a: asks what will be said of the file, says it, and keeps both. What may be wrong is shown
    after the first answer."""
    make_mine(lab)
    print(f"What will ./lab.sh {lab.number} say of {shown(mine(lab))}?")
    call = asked("The call that it will name, as cuMemCreate: it is refused, or the first that is not right; or none")
    titles = lab.titles()
    for number, title in enumerate(titles, 1):
        print(f"{number:4}  {title}")
    first = asked("The number of the first that does not hold; 0 if all do", range(len(titles) + 1))
    why = asked("What will happen there, and why")
    print()
    verdict = judged(lab, given, lambda verdict: keep(lab, verdict))
    status = show(verdict, labs)
    said = titles[int(first) - 1] if int(first) else "all holds"
    came = verdict.failed or "all holds"
    words = f"You said: {call}: {said}\nIt was:   {verdict.call or 'none'}: {came}\n"
    print(f"\n{words}Kept in {shown(predictions())}")
    old = predictions().read_text() if predictions().is_file() else ""
    put(f"{old}{time.strftime('%Y-%m-%d %H:%M')}  {lab.number} {lab.title}\n{words}Because:  {why}\n\n", predictions())
    return status


def predictions():
    return my_files() / PREDICTIONS


def asked(question, numbers=None):
    """What is typed: not nothing, and one of these numbers if there are some."""
    while True:
        print(f"{question}: ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            print()
            end(1, "no answer; ./lab.sh predict waits for what you type")
        if line.strip() and (numbers is None or line.strip().isdecimal() and int(line) in numbers):
            return line.strip()


def show_all(labs, given):
    """./lab.sh: what there is, and how far one has come."""
    print("lab  minutes  title")
    passed, first = 0, None
    for lab, status, _ in judged_all(labs, given):
        words = {"passed": f"{mark('passed')} right", "failed": f"{mark('failed')} not yet", "not begun": ""}
        print(f"{lab.number}  {lab.minutes:7}  {lab.title:36}  {words.get(status, status)}".rstrip(), flush=True)
        passed += status == "passed"
        first = first or (lab if status != "passed" else None)
    print(f"\n{passed} of {len(labs)} are right.")
    print(f"Go on with ./lab.sh {first.number}: {first.title}" if first else "All are right.")
    return 0


# --- The last run, to step through


def keep(lab, verdict):
    """Keeps the run that is told of. A judge that cannot write has told what it has to tell."""
    run = verdict.run
    if not run or not run.all or not os.access(my_files(), os.W_OK):
        return
    with tempfile.TemporaryDirectory(prefix="lab-") as scratch:
        file = pathlib.Path(scratch, "run.jsonl")
        file.write_bytes(run.ended.trace[:MOST_KEPT])
        finish(file, [run.program.file], run.where().removeprefix("on "), run.options["gpus"], run.ended.status)
        *lines, about = file.read_text(errors="surrogateescape").splitlines()
    about = json.loads(about)
    about["about"] |= {"command": [lab.name], "step": verdict.step, "failed": verdict.failed}
    put("\n".join([*lines, json.dumps(about), ""]), last_run(lab))


def view(lab):
    """./lab.sh view 02a"""
    from vmmsim.view import watch as viewer  # only this command needs it

    if not last_run(lab).is_file():
        end(1, f"there is no run of {lab.number} to show yet: ./lab.sh {lab.number} makes one, if your file is built")
    recording = Recording.read(last_run(lab))
    html = my_files() / f"{lab.name}.html"
    viewer.check_writable(html, viewer.is_view, "view", "LABS_MINE")
    viewer.draw([recording], html)
    step = recording.about.get("step")
    print(
        f"{shown(html)}: open it in a browser" + (f"; step {step} is the call that the judge told of" if step else "")
    )
    if os.environ.get("BROWSER") or sys.stdout.isatty() and shutil.which("xdg-open"):
        viewer.show(html.as_uri() + (f"#step={step}" if step else ""))
    return 0


# --- Help


def hint(lab):
    """One more each time: that of the check which failed last, if it has one, before the others."""
    path, seen = hints_shown(lab), []
    with contextlib.suppress(OSError, ValueError):
        seen = [number for number in map(int, path.read_text().split()) if number < len(lab.hints)]
    failed = failed_last(lab)
    first = [lab.hint_of[failed]] if failed in lab.hint_of else []
    new = next((number for number in [*first, *range(len(lab.hints))] if number not in seen), None)
    seen += [] if new is None else [new]
    if first:
        print(f"{failed}:\n- {lab.hints[first[0]]}\n")
    for number in sorted({*seen} - {*first}):
        print(f"- {lab.hints[number]}")
    left = len(lab.hints) - len(seen)
    print(f"\n{left} more: ./lab.sh hint {lab.number}" if left else f"\nThat was the last hint. The page: {lab.page}")
    put(" ".join(map(str, seen)) + "\n", path)
    return 0


def failed_last(lab):
    """The title of the check that failed when the lab was judged last, as far as a run of it was kept; or ""."""
    with contextlib.suppress(OSError, ValueError, IndexError, KeyError, TypeError):
        return json.loads(last_run(lab).read_text(errors="replace").splitlines()[-1])["about"]["failed"]
    return ""


def solution(lab, given):
    if not given.yes and not (is_begun(lab) and judged(lab, given).status == "passed"):
        end(1, f"yours is not right yet; ./lab.sh solution {lab.number} --yes shows the solution all the same")
    if not given.alternatives:
        print(f"{shown(lab.starter)} with the parts of labs/solutions:\n\n{lab.whole_solution()}", end="")
        print(f"\nOther right answers: ./lab.sh solution {lab.number} --alternatives", file=sys.stderr)
        return 0
    print(f"Other right answers to {lab.number}, as changes of {shown(lab.solution)}:\n")
    print(lab.others.read_text(), end="")
    return 0
