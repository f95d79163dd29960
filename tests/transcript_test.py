#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The matcher itself: what it lets pass, and above all what it does not."""
import unittest

from transcript import expectations, pair, record

EXPECTED = """\
# Recorded: nowhere
[1] Ask
    {NVIDIA H200}: supported
    {GPU 0} to {GPU 1}: rank {0}
    1 GiB from 0x{302000000}
    at {0x302000000}, {2.5} ms, {12} of 12
OK
"""
OUTPUT = """\
[1] Ask
    NVIDIA A100: supported
    GPU 0 to GPU 1: rank 1
    GPU 1 to GPU 0: rank 1
    1 GiB from 0x7
    at 0x7f00, 31 ms, 9 of 12
OK
"""


def difference(output):
    return pair(expectations(EXPECTED), output)[1]


class Transcript(unittest.TestCase):
    def test_values_in_braces_may_differ(self):
        self.assertIsNone(difference(OUTPUT))

    def test_every_other_change_fails(self):
        for old, new in [("[1] Ask", "[2] Ask"), ("supported", "not supported"), ("OK\n", ""), ("OK\n", "OK\nmore\n"),
                         ("OK", "ok"), ("of 12", "of 13"), ("0x7f00", "none"), ("31 ms", "nan ms"), ("9 of", "1.5 of"),
                         ("    GPU 0 to GPU 1: rank 1\n    GPU 1 to GPU 0: rank 1\n", ""), ("rank 1", "rank x"),
                         ("[1] Ask\n", ""), ("    at", "  at"), ("NVIDIA A100", "")]:
            self.assertIn(old, OUTPUT)
            self.assertIsNotNone(difference(OUTPUT.replace(old, new)), (old, new))

    def test_only_a_line_of_a_gpu_may_repeat(self):
        line = "    NVIDIA A100: supported\n"
        self.assertIsNotNone(difference(OUTPUT.replace(line, line + line)))

    def test_a_skip_ends_the_output_early_and_nothing_else(self):
        self.assertIsNone(difference("[1] Ask\nSKIP: no; get one\n"))
        self.assertIsNone(difference("SKIP: no; get one\n"))
        self.assertIsNotNone(difference("[1] Tell\nSKIP: no; get one\n"))
        self.assertIsNotNone(difference("[1] Ask\n"))

    def test_a_recorded_file_holds_the_values_and_matches_again(self):
        renewed, _ = record(EXPECTED, OUTPUT, "here, today")
        self.assertIn("# Recorded: here, today\n", renewed)
        self.assertNotIn("nowhere", renewed)
        self.assertIn("    {GPU 0} to {GPU 1}: rank {1}\n    {GPU 1} to {GPU 0}: rank {1}\n", renewed)
        self.assertIn("at {0x7f00}, {31} ms, {9} of 12", renewed)
        self.assertIsNone(pair(expectations(renewed), OUTPUT)[1])

    def test_recording_a_skip_renews_what_was_printed_and_keeps_the_rest(self):
        expected = EXPECTED.replace("    1 GiB", "# Not run on hardware:\n    1 GiB")
        renewed, _ = record(expected, "[1] Ask\n    NVIDIA A100: supported\nSKIP: no; get one\n", "here")
        self.assertEqual(renewed, expected.replace("nowhere", "here").replace("H200", "A100"))

    def test_a_wrong_run_is_told(self):
        self.assertIn("OK", record(EXPECTED, OUTPUT.replace("OK", "KO"), "here")[1])


if __name__ == "__main__":
    unittest.main()
