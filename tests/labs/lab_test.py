#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""A lab holds what docs/contributing/labs.md promises: lab_test.py NAME [LabTest | AnswersTest]

The starter is built without a warning, is not right, and says what the lab's file in this directory tells; outside the
marks it is the solution. The solution is right, and so are other answers. Each wrong answer, a change of the solution,
fails at the check that is meant for it, in the words that the file has, and each check has one; at least one of them
prints what the solution prints.
"""

import os
import pathlib
import re
import sys
import tempfile
import unittest
import unittest.mock

from labs.judge.grade import report_of
from labs.judge.program import BUILD, ROOT, Program
from labs.judge.splice import program as program_of
from labs.judge.splice import spliced
from labs.judge.verdict import BUILT, Lab, judge
from tests.changes import places

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True


def read(path):
    """What the lab's file has: of each of its paragraphs the words, "name: words", and under "change" the change."""
    found = [{"change": []}]
    for line in path.read_text().splitlines():
        name, colon, words = line.partition(": ")
        if not line:
            found.append({"change": []})
        elif line[0] in "-+ .":
            found[-1]["change"].append(f"{line:2}")
        elif colon:
            found[-1][name] = words
        else:
            raise AssertionError(f"{path}: {line}")
    return found


NAME = sys.argv.pop(1)
LAB = Lab(ROOT / f"labs/checks/{NAME}.py")
ABOUT, *ANSWERS = read(HERE / f"{NAME}.txt")
RIGHT = {title: its["change"] for title, its in LAB.alternatives().items()}
RIGHT |= {its["right"]: its["change"] for its in ANSWERS if "right" in its}
WRONG = {its["wrong"]: its for its in ANSWERS if "wrong" in its}
LIMIT = 60  # seconds, for machines that have other work


def outside_marks(text):
    """What student and solution share. Two marks in a row would be a part without an end."""
    parts = re.split(r"^ *// (>>>.*|<<<)$", text, flags=re.MULTILINE)
    marks = parts[1::2]
    if not marks or len(marks) % 2 or any(mark[0] != "><"[i % 2] for i, mark in enumerate(marks)):
        raise AssertionError("parts of the student begin with // >>> and end with // <<<, in turn")
    return parts[::4] + marks


class Base(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)

    def judged(self, text, limit=LIMIT):
        source = pathlib.Path(self.scratch.name, f"{NAME}.cu")
        source.write_text(text)
        return judge(LAB, source, limit=limit)


class LabTest(Base):
    def test_what_the_student_reads(self):
        text = LAB.starter.read_text()
        head = re.match(r"// SPDX-License\S+ MIT-0\n((?://.*\n)+)", text)[1].splitlines()
        self.assertEqual(head[0], f"// Lab {LAB.number}: {LAB.title}")
        task = [line for line in head[1:] if line != "//"]
        self.assertIn(LAB.page, "\n".join(task), "the task leads to the lesson's section")
        for page in (LAB.page, *(it.page for it in LAB.checks if it.page)):
            file, _, anchor = page.partition("#")
            headings = re.findall(r"^#+ (.*)$", (ROOT / file).read_text(), re.MULTILINE)
            self.assertIn(anchor, [re.sub(r"[^\w\- ]", "", it.lower()).replace(" ", "-") for it in headings])
        self.assertEqual(outside_marks(text), outside_marks(LAB.solution.read_text()))

    def test_the_starter_is_built_without_a_warning_and_is_not_right(self):
        verdict = judge(LAB, LAB.starter, limit=LIMIT)
        self.assertEqual((verdict.status, verdict.remarks), ("failed", ""))
        self.assertNotEqual(verdict.failed, BUILT, verdict.words)
        self.assertRegex(verdict.words, ABOUT["starter"])
        self.assertEqual(report_of(LAB, verdict.status, verdict.checks)["points"], 0, "a starter earns nothing")

    def test_the_solution_is_right(self):
        verdict = judge(LAB, LAB.solution, limit=LIMIT)
        self.assertEqual((verdict.status, verdict.words, verdict.remarks), ("passed", "", ""))
        self.assertTrue(LAB.checks)

    def test_it_obeys_a_site_that_refuses_multicast(self):
        """What makes multicast objects has it in its name, and begins nothing under NCCL_NVLS_ENABLE=0."""
        for file in (LAB.starter, LAB.solution):
            self.assertEqual("multicast" in NAME, "cuMulticast" in file.read_text())
            if "multicast" not in NAME:
                continue
            # Outside the simulator, as --real runs it, but on the toolkit's stub of a driver.
            site = {"NCCL_NVLS_ENABLE": "0", "LD_LIBRARY_PATH": str(BUILD / "tests/stub")}
            with (
                Program(file, architecture=LAB.about.ARCHITECTURE) as program,
                unittest.mock.patch.dict(os.environ, site),
            ):
                self.assertTrue(program.build()[0])
                ended = program.run_on_gpu()
            self.assertEqual(ended.status, 77)
            self.assertIn("SKIP: NCCL_NVLS_ENABLE=0 refuses multicast", ended.stdout)


def changed(lines):
    """The solution with this change."""
    text = LAB.solution.read_text()
    for old, new in places(lines):
        if old not in text:
            raise AssertionError(f"the solution has no such line any more: {old}")
        text = text.replace(old, new, 1)
    return text


class AnswersTest(Base):
    """All answers are built as one program: for one alone the compiler takes nearly as long as for ten."""

    @classmethod
    def setUpClass(cls):
        answers = {**RIGHT, **{title: its["change"] for title, its in WRONG.items()}}
        cls.texts = {title: changed(lines) for title, lines in answers.items()}
        starter = LAB.starter.read_text()
        cls.spliced = [spliced(starter, text, f"{NAME}.cu", LAB.mains) for text in cls.texts.values()]
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        source = pathlib.Path(scratch.name, f"{NAME}.cu")
        source.write_text(program_of(cls.spliced))
        program = Program(source, architecture=getattr(LAB.about, "ARCHITECTURE", 75))
        program.__enter__()
        cls.addClassCleanup(program.__exit__)
        built, said = program.build()
        if not built:
            raise AssertionError(said)
        cls.built = program.file

    def judged_of(self, title, limit):
        number = list(self.texts).index(title)

        def build(program):
            os.link(self.built, program.file)
            program.spliced = self.spliced[number]
            return True, ""

        def run(program, main=0, of_any=Program.run, **options):
            return of_any(program, main=number * len(LAB.mains) + main, **options)

        with (
            unittest.mock.patch.object(Program, "build", build),
            unittest.mock.patch.object(Program, "run", run),
        ):
            return self.judged(self.texts[title], limit)

    def test_other_right_answers(self):
        self.assertEqual([bool(its["why"]) for its in LAB.alternatives().values()], [True, True])
        for title in RIGHT:
            with self.subTest(title):
                self.assertEqual(self.judged_of(title, LIMIT).words, "")

    def test_wrong_answers_fail_where_meant(self):
        self.assertGreaterEqual(len(WRONG), 4)
        self.assertLessEqual({check.title for check in LAB.checks}, {about["fails"] for about in WRONG.values()})
        prints_right = []
        for mistake, about in WRONG.items():
            with self.subTest(mistake):
                verdict = self.judged_of(mistake, LIMIT)
                self.assertEqual((verdict.status, verdict.failed), ("failed", about["fails"]), verdict.words)
                self.assertRegex(verdict.words, about["says"])
                self.assertNotRegex(verdict.words, r"Traceback|/lab-|\.py\b")
                prints_right += [mistake] * (verdict.stdout == LAB.output())
        self.assertTrue(prints_right, "no wrong answer prints the right result")


if __name__ == "__main__":
    unittest.main()
