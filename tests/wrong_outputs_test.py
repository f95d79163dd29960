#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""What a reader would call wrong is not what the recordings expect: wrong_outputs_test.py SOURCE_DIRECTORY.

Each recorded output is changed in one place at a time and held against its own expected_output.txt.
"""

import json
import pathlib
import re
import sys
import unittest

from vmmsim.trace.transcript import VALUE, as_printed, expectations, pair, record

ROOT = pathlib.Path(sys.argv.pop(1))
RECORDINGS = sorted(ROOT.glob("[0-9][0-9]_*/*expected_output.txt"))


def mistakes(path):
    """(a line or a part of one, what stands there instead) of each in this recording. "|" is the end of a line."""
    about = json.loads(path.with_name("lesson.json").read_text())
    program = path.name.removesuffix("expected_output.txt").removesuffix("_")  # none: the main program
    for line in (about.get("programs", {}).get(program, {}) if program else about).get("wrong_outputs", []):
        old, _, new = line.partition(" =>")
        yield old.replace("|", "\n"), new.removeprefix(" ").replace("|", "\n")


class WrongOutputs(unittest.TestCase):
    def refused(self, path, output, change):
        self.assertIsNotNone(pair(expectations(path.read_text()), output)[1], f"{path}: {change} is not noticed")

    def test_each_recording_expects_what_was_printed_then(self):
        self.assertGreater(len(RECORDINGS), 16)
        for path in RECORDINGS:
            text = path.read_text()
            self.assertIsNone(pair(expectations(text), as_printed(text))[1], path)
            conditions = re.search("^# Recorded: (.*)$", text, re.MULTILINE)[1]
            self.assertEqual(record(text, as_printed(text), conditions), (text, None), path)

    def test_a_line_missing_twice_or_elsewhere(self):
        for path in RECORDINGS:
            lines = as_printed(path.read_text()).splitlines(keepends=True)
            for i, line in enumerate(lines):
                without = lines[:i] + lines[i + 1 :]
                self.refused(path, "".join(without), f"without {line!r}")
                self.refused(path, "".join(lines[:i] + [line] + lines[i:]), f"{line!r} twice")
                if re.sub(r"\d+", "", lines[i - 1]) != re.sub(r"\d+", "", line):  # neighbours may be for two GPUs
                    self.refused(path, "".join(without[: i - 1] + [line] + without[i - 1 :]), f"{line!r} too early")

    def test_a_value_that_is_not_what_it_was_elsewhere(self):
        changed = 0
        for path in RECORDINGS:
            text = path.read_text()
            names = re.findall(r"[a-z]+", " ".join(match[1] or "" for match in VALUE.finditer(text)))
            for match in VALUE.finditer(text):
                if match[2].startswith("0x"):
                    held, other = text.count(match[0]) > 1, hex(int(match[2], 16) + 1)
                else:
                    held, other = any(names.count(name) > 1 for name in re.findall(r"[a-z]+", match[1] or "")), "7"
                if held:
                    output = as_printed(text[: match.start()] + other + text[match.end() :])
                    self.refused(path, output, f"{other} in place of {match[0]}")
                    changed += 1
        self.assertGreater(changed, 50)

    def test_what_a_reader_would_call_wrong(self):
        for path in RECORDINGS:
            text, changes = as_printed(path.read_text()), list(mistakes(path))
            if changes or path.name == "expected_output.txt":
                self.assertGreaterEqual(len(set(changes)), 20, f"{path}: wrong_outputs")
            for old, new in changes:
                self.assertNotEqual(old, new, path)
                place = re.search(re.escape(old).replace("…", "(.*)"), text)  # … stands for any text of a line
                self.assertTrue(place, f"{path}: there is no {old!r} to change")
                wrong = new
                for value in place.groups():
                    wrong = wrong.replace("…", value, 1)
                self.refused(path, text[: place.start()] + wrong + text[place.end() :], (old, new))

    def test_one_gpu_fewer_everywhere_than_there_are(self):
        path = ROOT / "03_multi_gpu" / "peer_cost_expected_output.txt"
        text = re.sub(r".*up to GPU 1: .*\n", "", as_printed(path.read_text()))
        self.assertIsNone(pair(expectations(path.read_text()), text, 1)[1])
        self.assertIsNotNone(pair(expectations(path.read_text()), text, 2)[1])


if __name__ == "__main__":
    unittest.main()
