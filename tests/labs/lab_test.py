# SPDX-License-Identifier: MIT-0
"""A lab holds what docs/contributing/labs.md promises.

The starter is built without a warning, is not right, and says what the lab's file in this directory tells. The
solution is right, and so are other answers. Each wrong answer, a change of the solution, fails at the check that is
meant for it, in the words that the file has, and each check has one; at least one of them prints what the solution
prints.
"""

import contextlib
import dataclasses
import functools
import os
import pathlib
import re
import unittest.mock

import pytest

os.environ["LABS_SEED"] = "2"  # what a lab draws is the same in each run of its tests

from labs.judge.check import Run
from labs.judge.grade import report_of
from labs.judge.program import BUILD, ROOT, Program
from labs.judge.splice import program as program_of
from labs.judge.splice import spliced
from labs.judge.verdict import Judge, all_labs, judge
from tests.changes import places

LIMIT = 60  # seconds, for machines that have other work
# Of the answers that are wrong by the same check the first is judged, and of the right ones the solution alone with
# each call failing. All is the matrix's.
ALL = os.environ.get("LABS_ALL") == "1"
LABS = all_labs()
STARTER, ENDS_AT_ONCE = -2, -1  # among the texts of AllAnswers


@dataclasses.dataclass(eq=False)
class Answer:
    """A change of the solution; a right one without the check at which it fails, and the words."""

    lab: object
    title: str
    change: list
    fails: str = ""
    says: str = ""


def read(lab):
    """(what is said of the starter, answers) as the lab's file and labs/solutions have them."""
    about, *paragraphs = (pathlib.Path(__file__).parent / f"{lab.name}.txt").read_text().split("\n\n")
    answers, fails = [Answer(lab, "the solution", [])], ""
    answers += [Answer(lab, title, change) for title, change in lab.alternatives().items()]
    for paragraph in paragraphs:
        change = [f"{line:2}" for line in paragraph.splitlines() if line[0] in "-+ ."]
        its = dict(line.split(": ", 1) for line in paragraph.splitlines() if line[0] not in "-+ .")
        if "right" in its:
            answers.append(Answer(lab, its["right"], change))
        else:
            fails = its.get("fails", fails)
            answers.append(Answer(lab, its["wrong"], change, fails, its["says"]))
    return about.removeprefix("starter: "), answers


ABOUT = {lab: read(lab) for lab in LABS}
ANSWERS = [answer for _, answers in ABOUT.values() for answer in answers]
WRONG = {answer if ALL else (answer.lab, answer.fails): answer for answer in reversed(ANSWERS) if answer.fails}
each_lab = pytest.mark.parametrize("lab", LABS, ids=[lab.name for lab in LABS])


def each(answers):
    return pytest.mark.parametrize("answer", answers, ids=[f"{its.lab.name}, {its.title}" for its in answers])


def marks(text):
    """Two of a kind in a row would be a part without an end."""
    found = re.findall(r"^ *// (>>>.*|<<<)$", text, re.MULTILINE)
    assert found and [mark[0] for mark in found] == [*"><"] * (len(found) // 2), "// >>> and // <<< in turn"
    return found


@each_lab
def test_the_starter_tells_its_task(lab):
    text = lab.starter.read_text()
    head, *task = re.match(r"// SPDX-License\S+ MIT-0\n((?://.*\n)+)", text)[1].splitlines()
    assert head == f"// Lab {lab.number}: {lab.title}"
    assert lab.page in "\n".join(task), "the task leads to the lesson's section"
    for page in (lab.page, *(it.page for it in lab.checks if it.page)):
        file, _, anchor = page.partition("#")
        headings = re.findall(r"^#+ (.*)$", (ROOT / file).read_text(), re.MULTILINE)
        assert anchor in [re.sub(r"[^\w\- ]", "", it.lower()).replace(" ", "-") for it in headings]
    assert marks(text) == marks(lab.solution.read_text())
    assert {*lab.hint_of.values()} <= {*range(len(lab.hints))}


@each_lab
def test_the_starter_is_not_right(lab, all_answers):
    verdict = all_answers(lab).judged(STARTER)
    assert verdict.status == "failed"
    assert re.search(ABOUT[lab][0], verdict.words)
    told = report_of(lab, verdict.status, verdict.checks)
    assert told["points"] == 0, "a starter earns nothing"
    assert told["of_points"] == lab.minutes, "points follow effort"


@each_lab
def test_it_obeys_a_site_that_refuses_multicast(lab, all_answers, monkeypatch):
    """What makes multicast objects has it in its name, and begins nothing under NCCL_NVLS_ENABLE=0."""
    for text in (lab.starter.read_text(), lab.whole_solution()):
        assert ("multicast" in lab.name) == ("cuMulticast" in text)
    if "multicast" not in lab.name:
        return
    # Outside the simulator, as --real runs it, but on the toolkit's stub of a driver. Its first main is the solution's,
    # and what asks is outside the marks.
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(BUILD / "tests/stub"))
    ended = all_answers(lab).program.run_on_gpu()
    assert ended.status == 77
    assert "SKIP: NCCL_NVLS_ENABLE=0 refuses multicast" in ended.stdout


class AllAnswers:
    """Those of a lab, and behind them its starter and one that ends at once, built as one program: for one alone the
    compiler takes nearly as long as for ten.

    The first is the solution. That no line of it or the starter draws a warning is looked at in toolkits_test.
    """

    def __init__(self, lab, stack, scratch):
        self.lab, self.answers, self.source = lab, ABOUT[lab][1], scratch / f"{lab.name}.cu"
        self.texts = [self.changed(answer.change) for answer in self.answers]
        self.texts += [lab.starter.read_text(), ends_at_once(lab.whole_solution())]
        starter = lab.starter.read_text()
        self.spliced = [spliced(starter, text, self.source.name, lab.mains) for text in self.texts]
        self.source.write_text(program_of(self.spliced))
        self.program = Program(self.source, architecture=getattr(lab.about, "ARCHITECTURE", 75))
        stack.enter_context(self.program)
        built, said = self.program.build()
        assert built, said

    def changed(self, lines):
        """The solution with this change."""
        text = self.lab.whole_solution()
        for old, new in places(lines):
            assert old in text, "the solution has no such line any more"
            text = text.replace(old, new, 1)
        return text

    def verdict(self, answer):
        return self.judged(self.answers.index(answer), answer.fails, marks=lambda self: {})

    def judged(self, number, fails="", marks=Judge.marks):
        number %= len(self.texts)
        self.source.write_text(self.texts[number])

        def build(program):
            os.link(self.program.file, program.file)
            program.spliced = self.spliced[number]
            return True, ""

        def run(program, main=0, of_any=Program.run, **options):
            return of_any(program, main=number * len(self.lab.mains) + main, **options)

        # What each check by itself would say after the first that fails is looked at with the starter, and takes as
        # long as all the rest. So does each call of each answer that fails in turn: that is the matrix's, but of the
        # solution and of answers that are wrong by it.
        checks = self.lab.checks
        of_calls = [check for check in checks if check.func is Run.must_look_at_answers]
        if 0 < number < len(self.answers) and not ALL and fails not in [check.title for check in of_calls]:
            checks = [check for check in checks if check not in of_calls]
        with (
            unittest.mock.patch.multiple(Program, build=build, run=run),
            unittest.mock.patch.object(Judge, "marks", marks),
            unittest.mock.patch.object(self.lab, "checks", checks),
        ):
            return judge(self.lab, self.source, limit=LIMIT)


def ends_at_once(text):
    """A program each of whose parts, or the first function there, does nothing but end it."""
    lines, depth, is_begun, head = text.splitlines(), 0, False, ""
    for at, line in enumerate(lines):
        is_begun = is_begun or line.strip().startswith("// >>>")
        head = head if depth else line
        depth += line.count("{") - line.count("}")
        if is_begun and depth and not head.startswith("struct"):
            lines[at] += "\n  return;" if re.match("__(global|device)__", head) else "\n  std::exit(3);"
            is_begun = False
    return "\n".join(lines)


@pytest.fixture(scope="module")
def all_answers(tmp_path_factory):
    """What gives those of a lab, built once."""
    with contextlib.ExitStack() as stack:
        yield functools.cache(lambda lab: AllAnswers(lab, stack, tmp_path_factory.mktemp("answers")))


@pytest.fixture(scope="module")
def verdict_on(all_answers):
    """What gives the verdict on an answer; each is judged once."""
    return functools.cache(lambda answer: all_answers(answer.lab).verdict(answer))


@each([answer for answer in ANSWERS if not answer.fails])
def test_a_right_answer_passes(answer, verdict_on):
    verdict = verdict_on(answer)
    assert (verdict.status, verdict.words, verdict.remarks) == ("passed", "", ""), verdict.words


@each([*reversed(WRONG.values())])
def test_a_wrong_answer_fails(answer, verdict_on):
    verdict = verdict_on(answer)
    assert (verdict.status, verdict.failed) == ("failed", answer.fails), verdict.words
    assert re.search(answer.says, verdict.words)
    assert not re.search(r"Traceback|/lab-|\.py\b", verdict.words)


@each_lab
def test_a_part_that_does_nothing_earns_nothing(lab, all_answers):
    verdict = all_answers(lab).judged(ENDS_AT_ONCE)
    assert report_of(lab, verdict.status, verdict.checks)["points"] == 0, verdict.checks


@each_lab
def test_each_check_fails_once(lab, verdict_on):
    """Each check fails once; and one of those that are wrong prints the right result."""
    assert len(lab.alternatives()) >= 2
    wrong = [answer for answer in ABOUT[lab][1] if answer.fails]
    assert len(wrong) >= 4
    assert {check.title for check in lab.checks} <= {answer.fails for answer in wrong}
    assert any(verdict_on(answer).stdout == lab.output() for answer in wrong)
