# SPDX-License-Identifier: MIT-0
"""Views of what has really run: views_test.py DIRECTORY, where vmmsim and the lessons are.

Of the lessons, and of the recordings on the pages, each call has a frame and words without a contradiction.
"""

import pathlib
import sys
import tempfile
import unittest

from docs.tools.lesson_views import recorded
from scripts.run_lessons import lessons
from vmmsim.tests.sample import checked_steps
from vmmsim.trace import NO_CALLS, Recording

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(sys.argv.pop(1))


class Views(unittest.TestCase):
    def test_each_call_of_each_lesson_has_a_frame_and_words(self):
        for lesson in lessons():
            with self.subTest(lesson):
                with tempfile.TemporaryDirectory() as scratch:
                    file = pathlib.Path(scratch, "recording.jsonl")
                    recorded(lesson, BIN, file)
                    recording = Recording.read(file)
                found, lines = checked_steps(self, recording), recording.lines
                self.assertEqual(len(found), len(lines))
                self.assertTrue(any("vmm-arrow" in element for step in found for element in step.svg))
                for step, line in zip(found, lines, strict=True):
                    self.expect_told(step, line)

    def expect_told(self, step, line):
        self.assertNotIn("contradicts", step.words)
        if line["call"] not in NO_CALLS:
            self.assertIn(line["call"], step.words)
        else:
            self.assertRegex(step.words, "[Tt]he process|A kernel|A thread")
        is_refused = line["result"] not in ("CUDA_SUCCESS", "cudaSuccess", "")
        if is_refused and line["call"] != "cudaGetLastError":
            self.assertEqual((step.kind, step.explanation), ("refused", line["explanation"]))
            self.assertIn(line["result"], step.words)
        elif line["changes"]:
            self.assertEqual(step.kind, "changes")
        is_marked = any(mark in element for element in step.svg for mark in ("vmm-new", "vmm-gone"))
        self.assertEqual(step.kind == "changes", is_marked, step.words)

    def test_recordings_of_real_programs_have_no_contradiction(self):
        recordings = sorted((ROOT / "docs" / "recordings").glob("*.jsonl*"))
        self.assertTrue(recordings)
        for file in recordings:
            with self.subTest(file.name):
                found = checked_steps(self, Recording.read(file))
                self.assertEqual([step.words for step in found if "contradicts" in step.words], [])
                self.assertIn("changes", {step.kind for step in found})


if __name__ == "__main__":
    unittest.main()
