#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Program, output and page of each lesson speak of the same steps: pages_test.py SOURCE_DIRECTORY.

A banner stands four times: as a comment in the program, in what the program prints, in the expected output, and as a
section of the page, whose listing is cut out of the program from this banner to the next.
"""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
PROGRAMS = sorted(ROOT.glob("[0-9][0-9]_*/*.cu"))


def expected_output(program):
    """The file of its recorded output: a second program of a directory has its name in front."""
    main = program.parent.name[3:] == program.stem
    return program.with_name("expected_output.txt" if main else f"{program.stem}_expected_output.txt")


def banners(pattern, text):
    return re.findall(pattern, text, re.MULTILINE)


class Pages(unittest.TestCase):
    def test_there_are_seven_lessons(self):
        lessons = {p.parent.name for p in PROGRAMS if p.parent.name[3:] == p.stem}
        self.assertEqual(len(lessons), 7, lessons)

    def test_banners_are_numbered_from_one(self):
        for program in PROGRAMS:
            numbers = banners(r"^ *// \[(\d+)\] ", program.read_text())
            self.assertEqual(numbers, [str(i) for i in range(1, len(numbers) + 1)], program)
            self.assertTrue(numbers, program)

    def test_the_program_prints_its_banners(self):
        for program in PROGRAMS:
            text = program.read_text()
            self.assertEqual(banners(r"^ *// (\[\d+\] .*)$", text), banners(r'"(\[\d+\] [^"\\]*)\\n', text), program)

    def test_the_expected_output_has_the_banners(self):
        for program in PROGRAMS:
            expected = expected_output(program)
            self.assertEqual(banners(r"^ *// (\[\d+\] .*)$", program.read_text()),
                             banners(r"^(\[\d+\] .*)$", expected.read_text()), expected)

    def test_the_page_has_a_section_for_each_banner_with_its_listing(self):
        for program in PROGRAMS:
            page = program.with_name("README.md").read_text()
            titles = banners(r"^ *// (\[\d+\] .*)$", program.read_text())
            listings = re.findall(r"^#+ (\[\d+\] .*)$(?:(?!^#)[\s\S])*?```\{literalinclude\} " + program.name +
                                  r"\n:language: cuda\n:dedent:\n:start-at: \"// (\[\d+\])\"\n:end-before: \"(.*)\"\n```",
                                  page, re.MULTILINE)
            ends = [f"// {title.split()[0]}" for title in titles[1:]] + ["return 0;"]
            wanted = [(title, title.split()[0], end) for title, end in zip(titles, ends)]
            self.assertEqual(listings, wanted, f"{program}: sections and listings of {program.parent.name}/README.md")

    def test_the_page_includes_the_recorded_output(self):
        for program in PROGRAMS:
            name = expected_output(program).name
            self.assertIn("```{literalinclude} " + name + "\n", program.with_name("README.md").read_text(), program)

    def test_the_program_carries_the_line_that_builds_it(self):
        for program in PROGRAMS:
            lines = banners(r"^// Build it alone: +(nvcc .*)$", program.read_text())
            self.assertEqual(len(lines), 1, program)
            self.assertIn(program.name, lines[0])


if __name__ == "__main__":
    unittest.main()
