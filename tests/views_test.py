# SPDX-License-Identifier: MIT-0
"""Views of what has really run.

Of the lessons, and of the recordings on the pages, each call has a frame and words without a contradiction.
"""

import pathlib
import re
import tempfile

from docs.tools.lesson_views import recorded
from scripts.lessons import lessons
from vmmsim.built import BUILT
from vmmsim.testing.sample import checked_steps
from vmmsim.trace import NO_CALLS, Recording

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(BUILT["multicast"]).parent  # of the lessons' programs


def test_each_call_of_each_lesson_has_a_frame_and_words(subtests):
    for lesson in lessons():
        with subtests.test(lesson):
            with tempfile.TemporaryDirectory() as scratch:
                file = pathlib.Path(scratch, "recording.jsonl")
                recorded(lesson, BIN, file)
                recording = Recording.read(file)
            found, lines = checked_steps(recording), recording.lines
            assert len(found) == len(lines)
            assert any("vmm-arrow" in element for step in found for element in step.svg)
            for step, line in zip(found, lines, strict=True):
                expect_told(step, line)


def expect_told(step, line):
    assert "contradicts" not in step.words
    if line["call"] not in NO_CALLS:
        assert line["call"] in step.words
    else:
        assert re.search("[Tt]he process|A kernel|A thread", step.words)
    is_refused = line["result"] not in ("CUDA_SUCCESS", "cudaSuccess", "")
    if is_refused and line["call"] != "cudaGetLastError":
        assert (step.kind, step.explanation) == ("refused", line["explanation"])
        assert line["result"] in step.words
    elif line["changes"]:
        assert step.kind == "changes"
    is_marked = any(mark in element for element in step.svg for mark in ("vmm-new", "vmm-gone"))
    assert (step.kind == "changes") == is_marked, step.words


def test_recordings_of_real_programs_have_no_contradiction(subtests):
    recordings = sorted((ROOT / "docs" / "recordings").glob("*.jsonl*"))
    assert recordings
    for file in recordings:
        with subtests.test(file.name):
            found = checked_steps(Recording.read(file), most=60)
            assert [step.words for step in found if "contradicts" in step.words] == []
            assert "changes" in {step.kind for step in found}
