#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The page of pitfalls can be looked up by error: pitfalls_test.py SOURCE_DIRECTORY CUDA_INCLUDE_DIRECTORY.

Each error that a lesson prints, or that the driver answered to a question about these calls, is in the page's list,
with the names and the number that CUDA's headers give it, and the list leads to each entry.
"""

import pathlib
import re
import sys
import unittest

from docs.tools import fill_pages

CUDA = pathlib.Path(sys.argv.pop(2))
ROOT = pathlib.Path(sys.argv.pop(1))
PAGE = (ROOT / "docs/pitfalls.md").read_text()
NAME = r"\b(?:CUDA_ERROR_[A-Z_]+|cudaError[A-Z]\w+)"
HEAD, ENTRIES = PAGE.split("\n## Growth", 1)
# Each line of the table of errors: names in back quotes, the number, links.
INDEX = re.findall(rf"^\| ((?:`{NAME}`(?:, )?)+) \| (\d+) \| \[", HEAD, re.MULTILINE)
# An entry: one anchor or more, each alone on its line, and the heading.
ANCHORS = r'((?:^<a id="pit-[\w-]+"></a>$\n)+)### '
# A lesson's page, or that of another of its programs, by its name: [01], [growth_cost]. The places named behind it.
PAGES = dict(re.findall(r"^\[(\w+)\]: \.\./(\d\d_\w+/\w+)\.md$", ENTRIES, re.MULTILINE))
PLACE = r"\b((?:step|mistake)s?\s+\d+(?:\s+(?:and|to)\s+\d+)?)"
# Questions about VMM and nothing else: an error of theirs is one that a user of these calls can meet.
FACTS = ["vmm", "vmm_kernels", "vmm_peers", "address_hints", "granted_memory", "rights_peers", "processes"]


def errors_of_cuda():
    """Number of each error, by the driver's name and by the runtime's."""
    found = {}
    for header in "cuda.h", "driver_types.h":
        pairs = re.findall(rf"^ *({NAME}) *= *(\d+)", (CUDA / header).read_text(), re.MULTILINE)
        found.update((name, int(number)) for name, number in pairs)
    return found


class Pitfalls(unittest.TestCase):
    def test_each_recorded_error_is_in_the_list(self):
        outputs = sorted(ROOT.glob("[0-9][0-9]_*/*output.txt"))
        outputs += [ROOT / f"vmmsim/tests/facts/{fact}_expected_output.txt" for fact in FACTS]
        recorded = {name for path in outputs for name in re.findall(NAME, path.read_text())}
        self.assertIn("CUDA_ERROR_NOT_PERMITTED", recorded)  # lesson 05 has it: the search finds what it has to
        missing = recorded - {name for names, _ in INDEX for name in re.findall(NAME, names)}
        self.assertFalse(missing, "recorded, and not in the list of docs/pitfalls.md")

    def test_names_and_numbers_are_those_of_the_headers(self):
        numbers = errors_of_cuda()
        for names, number in INDEX:
            for name in re.findall(NAME, names):
                self.assertEqual(numbers.get(name), int(number), name)
        elsewhere = set(re.findall(NAME, PAGE)) - {name for names, _ in INDEX for name in re.findall(NAME, names)}
        self.assertFalse(elsewhere, "on the page, and not in its list")

    def test_the_list_is_in_the_order_of_the_numbers(self):
        numbers = [int(number) for _, number in INDEX]
        self.assertEqual(numbers, sorted(set(numbers)))

    def test_each_entry_is_found_from_the_top(self):
        linked = set(re.findall(r"\(#(pit-[\w-]+)\)", HEAD))
        entries = [set(re.findall(r"pit-[\w-]+", anchors)) for anchors in re.findall(ANCHORS, ENTRIES, re.MULTILINE)]
        self.assertEqual(len(entries), ENTRIES.count("\n### "))
        for anchors in entries:
            self.assertTrue(linked & anchors, anchors)
        named = re.findall(r"\(#(pit-[\w-]+)\)", PAGE)
        self.assertFalse(set(named) - set().union(*entries), "a link to an entry that is not there")

    def test_each_entry_has_cause_fix_and_where_it_was_met(self):
        entries = re.split(r"^### ", ENTRIES, flags=re.MULTILINE)[1:]
        self.assertEqual(len(entries), len(set(entry.splitlines()[0] for entry in entries)), "a heading stands twice")
        for entry in entries:
            self.assertRegex(entry, r"\n\n- \*\*Cause\*\*: [\s\S]*\n- \*\*Fix\*\*: [\s\S]*\n- \*\*(Seen|Reported)\b")
            if "**Reported**" in entry or "Reported: " in entry:
                self.assertRegex(entry, r"\(https://github\.com/", "a report without its thread")

    def test_each_step_and_mistake_that_is_named_is_there(self):
        # step 1; steps 2 and 3; mistakes 1 to 4: behind the link to a page, and each a banner of its program.
        found = 0
        for page, places in re.findall(r"\[(\d\d|[a-z]\w+)\](?!:|\()([^\[]*)", ENTRIES):
            directory, name = PAGES[page].split("/")
            lesson = directory[3:]
            for place in re.findall(PLACE, places):
                found += 1
                program = lesson + "_broken" if place.startswith("mistake") else lesson if name == "README" else name
                banners = [str(number) for _, number, _ in fill_pages.banners(ROOT / directory / f"{program}.cu")]
                self.assertLessEqual(set(re.findall(r"\d+", place)), set(banners), f"{program}: {place}")
        self.assertEqual(found, len(re.findall(PLACE, ENTRIES)), "one is not behind the link to a page")
        self.assertFalse(re.findall(r"\bsections?\s+\d+", ENTRIES), "a lesson has steps and mistakes")


if __name__ == "__main__":
    unittest.main(verbosity=2)
