# SPDX-License-Identifier: MIT-0
"""A lab, and the verdict on a student's file."""

import dataclasses
import importlib.util
import re
import time
import traceback
import types

from labs.judge import compiler, diagnosis
from labs.judge.check import ENDED, GIVEN_BACK, CheckFailed, Run
from labs.judge.drawn import NAME, SEED
from labs.judge.memory_map import memory_map
from labs.judge.program import ROOT, CannotJudge, Ended, Program
from labs.judge.runner import Runner
from labs.judge.splice import whole
from vmmsim.trace import OF_LOADING

GLOSSARY = "docs/glossary.md"
GIVING_BACK = "01_vmm_basics/README.md#5-give-it-back"
OF_RUNS = "GPUS", "STRICT", "LATE_KERNELS", "ADVERSARIAL_TIMING"  # what a lab may say of all its runs
OF_END = "0 KiB are not given back\nOK\n"  # what lab::end prints
OF_ABSENCE = LookupError, StopIteration, ValueError  # of a check that relies on calls which were not reached
BUILT, PRINTED, REAL = "it is built", "it prints what it should", "the same on this machine's GPUs"


class Lab:
    def __init__(self, path):
        self.name, self.number, self.path = path.stem, path.stem[:3], path
        spec = importlib.util.spec_from_file_location(f"lab_{self.name}", path)
        self.about = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.about)
        self.title, self.minutes, self.page = self.about.TITLE, self.about.MINUTES, self.about.PAGE
        self.hints = self.about.HINTS
        self.mains = getattr(self.about, "MAINS", ({},))  # the constants of each main that is judged, and its "changes"
        its = {name.lower(): getattr(self.about, name) for name in OF_RUNS if hasattr(self.about, name)}
        self.options = {"gpus": 1, "main": 0} | its
        self.checks = [one for one in vars(self.about).values() if hasattr(one, "title") and callable(one)]
        names = vars(self.about) | {"GIVEN_BACK": types.SimpleNamespace(title=GIVEN_BACK)}
        # By title of a check the place of its hint
        self.hint_of = {names[name].title: number - 1 for name, number in getattr(self.about, "HINT_OF", {}).items()}
        for one in self.checks:
            one.page = self.page.partition("#")[0] + one.page if one.page else None
        self.starter = ROOT / "labs/starters" / f"{self.name}.cu"
        self.solution = ROOT / "labs/solutions" / f"{self.name}.cu"  # its parts
        self.others = self.solution.with_suffix(".txt")

    def whole_solution(self):
        """The starter with them."""
        return whole(self.starter.read_text(), self.solution.read_text())

    def output(self, main=0):
        """What the right program prints with this main."""
        return self.about.OUTPUT.format(**self.mains[main]) + OF_END

    def alternatives(self):
        """Other right answers, as changes of the solution: title -> lines."""
        paragraphs = self.others.read_text().split("\n\n")
        changes = [[f"{line:2}" for line in change.splitlines()] for change in paragraphs[1::2]]
        return dict(zip((words.partition(". ")[0] for words in paragraphs[::2]), changes, strict=True))

    def titles(self):
        """Of all that is looked at, in the order in which it is told."""
        return [BUILT, *(function.title for function in self.checks), ENDED, GIVEN_BACK, PRINTED]

    def weights(self):
        """The points for each, or what POINTS in the lab's file says. To be built is worth nothing."""
        own = {BUILT: 0} | {one.title: one.points for one in self.checks} | getattr(self.about, "POINTS", {})
        if unknown := set(own) - set(self.titles()):
            raise CannotJudge(f"POINTS of labs/checks/{self.name}.py names what is no check: {', '.join(unknown)}")
        return {title: own.get(title, 1) for title in (*self.titles(), REAL)}

    def holds_of_nothing(self, function):
        """Whether a check finds no fault with a program that has made no call."""
        runner = Runner(types.SimpleNamespace(mains=self.mains))
        runner.is_closed = True
        try:
            function(Run(runner, self.options | function.options, Ended(0, "", "", "", b"")))
        except Exception:  # it misses something, or another run
            return False
        return True

    def points(self, checks):
        """The points of each of these checks with their marks: what the starter has right, what holds in every lab, and
        what holds of a program that does nothing is to be kept, and counts once something else holds."""
        own = {one.title for one in self.checks if not one.kept and not self.holds_of_nothing(one)}
        has_begun = any(title in own and mark == "passed" for title, mark in checks)
        counts = {title for title, mark in checks if mark == "passed" and (has_begun or title == BUILT)}
        return {title: weight * (title in counts) for title, weight in self.weights().items()}


def all_labs():
    return [Lab(path) for path in sorted((ROOT / "labs/checks").glob("[0-9][0-9][a-z]_*.py"))]


@dataclasses.dataclass
class Verdict:
    """What is to be said of a file: the checks with "passed", "failed" or "not reached", each by itself, and words on
    the first that failed."""

    lab: Lab
    status: str = ""  # "passed", "failed", "not begun"
    checks: list = dataclasses.field(default_factory=list)
    words: str = ""
    seconds: float = 0.0
    failed: str = ""  # the title of the check
    page: str = ""  # where to read about it
    call: str = ""  # the name of the call that is told of
    stdout: str = ""  # of the first run
    remarks: str = ""  # what the compiler warns of, and why it did not run on real GPUs
    run: object = None  # that is told of; none if it was not built
    step: int = 0  # the call that is told of, as a view of this run numbers it; 0: none
    memory: list = dataclasses.field(default_factory=list)  # what there was then, as lines of memory_map


def judge(lab, source, real=False, limit=None, keep=None):
    """The verdict on a file. What `keep` does with it, it does while the program is there."""
    began = time.monotonic()
    options = {"architecture": getattr(lab.about, "ARCHITECTURE", 75)} | ({"limit": limit} if limit else {})
    with Program(source, lab.starter.read_text(), lab.mains, **options) as program:
        verdict = Judge(lab, program, real).verdict()
        if keep:
            keep(verdict)
    verdict.seconds = time.monotonic() - began
    return verdict


class Judge:
    def __init__(self, lab, program, real):
        self.lab, self.program, self.real = lab, program, real
        self.told = Verdict(lab)
        self.held = []  # titles, until something does not hold
        self.run = None  # the first
        self.wanted = set()  # what failed in it, in words

    def verdict(self):
        told = self.told
        told.failed, told.words = self.first_wrong()
        titles = self.lab.titles() + ([REAL] if self.real else [])
        held = dict.fromkeys(self.held, "passed")
        if told.failed and self.run:
            held = self.marks()
            if diagnosis.is_left(self.run):  # what main has right is not the student's
                held = {title: mark for title, mark in held.items() if mark == "failed" or title == BUILT}
        held |= {told.failed: "failed"}
        told.checks = [(one, held.get(one, "not reached")) for one in titles]
        told.status = "failed" if told.failed else "passed"
        pages = {GIVEN_BACK: GIVING_BACK} | {one.title: one.page for one in self.lab.checks if one.page}
        told.page = pages.get(told.failed, self.lab.page)
        return told

    def first_wrong(self):
        """(title of the check, words) of what is to be told, or ("", "")."""
        built, said = self.program.build()
        if not built:
            return BUILT, self.of_compiler(said, "error")
        self.told.remarks = self.of_compiler(said, "warning")
        self.told.remarks += self.program.spliced.remark if self.program.spliced else ""
        self.held.append(BUILT)
        self.told.run = self.run = run = Runner(self.program).run(self.lab.options)
        self.told.stdout = run.stdout
        late = [one for one in self.lab.checks if "prints" in self.lab.mains[one.options.get("main", 0)]]
        for function in (one for one in self.lab.checks if one not in late):
            if wrong := self.wrong_of(function, run, function.options):
                return wrong
            self.held.append(function.title)
        others = self.elsewhere()
        for options in others:
            for function in self.lab.checks:
                if not function.options and (wrong := self.wrong_of(function, run, options)):
                    return wrong
        last = (
            (ENDED, lambda: [one.must_end() for one in (run, *run.others)]),
            (GIVEN_BACK, lambda: [one.must_give_back() for one in (run, *run.others)]),
            (PRINTED, lambda: [self.must_print(one) for one in (run, *(run.again(**its) for its in others))]),
        )
        if self.real:
            last = *last, (REAL, lambda: self.must_be_real(run))
        for title, holds in last:
            try:
                holds()
            except CheckFailed as wrong:
                return title, self.words(wrong)
            self.held.append(title)
        for function in late:  # what holds of one buffer, for instance, has to hold of two
            if wrong := self.wrong_of(function, run, function.options):
                return wrong
            self.held.append(function.title)
        return "", ""

    def elsewhere(self):
        """The options of other runs in which the checks without options hold, too."""
        mains = [{"main": at} for at, main in enumerate(self.lab.mains) if at and "prints" not in main]
        return *getattr(self.lab.about, "ELSEWHERE", ()), *mains

    def marks(self):
        """What is to be seen of each check by itself: a leak, for instance, costs no other its mark.

        Where the first run was stopped, it is known what held before, and what fails all the same.
        """
        run, elsewhere = self.run, [{}, *self.elsewhere()]
        run.runner.takes_each_by_itself, run.runner.is_closed = True, bool(run.stopped())
        if run.stopped():
            its = {one.title: self.mark(one.title, one, [one.options]) for one in self.lab.checks}
            its = {title: it for title, it in its.items() if it == "failed"}
            return its | dict.fromkeys(self.held, "passed") | {ENDED: "failed"}
        its = [(one.title, one, [one.options] if one.options else elsewhere) for one in self.lab.checks]
        its += [(ENDED, Run.must_end, elsewhere), (PRINTED, self.must_print, elsewhere)]
        its += [(GIVEN_BACK, lambda run: run.stopped() or run.must_give_back(), elsewhere)]
        return {BUILT: "passed"} | {title: self.mark(title, holds, runs) for title, holds, runs in its}

    def mark(self, title, function, options):
        """What the runs with these options show of a check."""
        of_check = self.run
        try:
            for each in options:
                of_check = self.run.again(**each)
                function(of_check)
                if of_check.stopped():  # what came after that may not hold
                    return "not reached"
        except CheckFailed as wrong:
            stopped = (wrong.run or of_check).stopped()
            is_of_other = wrong.title not in ("", title) or stopped and stopped.moment < wrong.moment
            if of_check is self.run:
                self.wanted.add(wrong.wanted)
            elif wrong.wanted in self.wanted:  # a check above wants it of the first run, and misses it there
                is_of_other = True
            return "not reached" if is_of_other else "failed"
        except (OSError, CannotJudge):
            raise
        except Exception:  # it needs a run more, or relies on what does not hold
            return "not reached"
        return "passed"

    def wrong_of(self, function, run, options):
        """(title, words) of what a check has found in the run with these options; or None."""
        of_check = run
        try:
            of_check = run.again(**options)
            function(of_check)
            for other in run.others:
                if other is of_check and not function.options:
                    continue  # elsewhere: the other checks are to see it first
                other.must_end()
                other.must_give_back()
        except CheckFailed as wrong:
            return self.first_of(function.title, wrong, wrong.run or of_check)
        except (OSError, CannotJudge):
            raise
        except Exception as error:
            stopped = of_check.stopped() if isinstance(error, OF_ABSENCE) else None
            if not stopped:
                raise CannotJudge(format_mistake(error, function)) from error
            return ENDED, self.words(stopped)
        return None

    def first_of(self, title, wrong, run):
        """What is to be told of a check that fails: perhaps the reason why the program has stopped before.

        Where another run came to its end and leaks, and no call of it is to blame for something else, the leak is told.
        """
        wrong.run, stopped = run, run.stopped()
        if stopped and stopped.moment < wrong.moment:
            return ENDED, self.words(stopped)
        if run.options != self.lab.options and not wrong.call and not wrong.title and not stopped:
            wrong = diagnosis.leak(run) or wrong
        return wrong.title or title, self.words(wrong)

    def must_print(self, run):
        output, more = self.lab.output(run.options["main"]), run.stdout.splitlines()
        wanted = output.splitlines()
        printed = run.stdout
        if run.runner.takes_each_by_itself and diagnosis.leak(run):  # what is left has a check of its own
            printed = re.sub(r"(?m)^-?\d+ KiB are not given back$", OF_END.partition("\n")[0], printed)
        if printed == output:
            return
        happened = f"it printed\n{run.stdout}"
        if all(line in more for line in wanted):
            more = [line for line in more if line not in wanted]
            happened = "\n".join(["it printed more; let lines of your own go to stderr:", *(more or wanted)])
        raise CheckFailed(f"it prints\n{output}", happened, run=run)

    def must_be_real(self, run):
        ended = self.program.run_on_gpu()
        if ended.status == 77 and "SKIP: " in ended.stdout:
            self.real = False
            self.told.remarks += f"This machine's GPUs cannot run it, which says nothing against it:\n{ended.stdout}"
            return
        if ended.status or ended.why or ended.stdout != self.lab.output():
            happened = f"status {ended.status} {ended.why}\n{ended.stdout}{ended.stderr}"
            raise CheckFailed(f"status 0\n{self.lab.output()}", happened, run=run)

    def of_compiler(self, said, kind):
        return compiler.format_messages(said, self.program.name, self.program.text.splitlines(), kind)

    def words(self, wrong):
        text, call, run = "", wrong.call, wrong.run
        told = self.told
        told.run, told.step, told.memory = run, step_of(call), memory_map(wrong)
        told.call = call.name if call else ""
        if call and call.line:
            text = f"{self.program.name}:{call.line}\n    {self.program.line(call.line, call.in_part)}\n"
        if run.options != self.lab.options:
            text += f"{run.where()}:\n"
        text += in_columns("What was to happen:", wrong.wanted) + in_columns("What happened:", wrong.happened)
        if call and call.explanation and not run.is_injected(call) and not wrong.is_in_full:
            advice, in_full = advice_first(call)
            text += (in_columns("In words:", advice) if advice else "") + in_columns("The call in full:", in_full)
        if run.options != self.lab.options:
            text += in_columns("Drawn by:", f"{NAME}={SEED}, and so again")
        return self.program.shown(text)


def step_of(call):
    """The number of a call in a view, which leaves out what libraries ask for before they begin."""
    if not call or not call.traced:
        return 0
    return sum(other.name != OF_LOADING for other in call.run.all[: call.index + 1])


def format_mistake(error, function):
    """Of a check that has a mistake itself."""
    frames = traceback.extract_tb(error.__traceback__)
    its = next((at for at in frames if at.filename == function.func.__code__.co_filename), frames[-1])
    what = f"{type(error).__name__}: {error} ({its.filename}:{its.lineno})".replace(f"{ROOT}/", "")
    return f"the check {function.title!r} has a mistake, and says nothing of your file: {what}"


def advice_first(call):
    """What --explain says of a call: why it was refused and what to do; and the call, with the kernel that faulted."""
    in_full, answers, advice = call.explanation.partition(f" answers {call.result}: ")
    in_full += answers.removesuffix(": ")
    if call.fault:
        return call.fault["why"], f"{in_full}: {call.fault['where']}" if call.fault["where"] else in_full
    return advice, in_full


def in_columns(heading, text):
    first, *more = text.splitlines() or [""]
    return f"{heading:20}{first}\n" + "".join(f"{'':20}{line}\n" for line in more)
