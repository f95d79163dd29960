#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Each heading of the guide's section 4.16 has its place here: guide_map_test.py SOURCE_DIRECTORY BUILD_DIRECTORY

For each heading docs/guide_map.md has one row, in the guide's order: steps of lessons that exist, programs that are
built, and tests that CTest knows.
"""

import pathlib
import re
import sys
import unittest

ROOT, BUILD = (pathlib.Path(word) for word in sys.argv[1:3])
del sys.argv[1:]

HEADINGS = """
4.16. Virtual Memory Management
4.16.1. Preliminaries
4.16.1.1. Definitions
4.16.1.2. Query for Support
4.16.2. API Overview
4.16.3. Unicast Memory Sharing
4.16.3.1. Allocate and Export
4.16.3.2. Share and Import
4.16.3.3. Reserve and Map
4.16.3.4. Access Rights
4.16.3.5. Releasing the Memory
4.16.4. Multicast Memory Sharing
4.16.4.1. Allocating Multicast Objects
4.16.4.2. Add Devices to Multicast Objects
4.16.4.3. Bind Memory to Multicast Objects
4.16.4.4. Use Multicast Mappings
4.16.5. Advanced Configuration
4.16.5.1. Memory Type
4.16.5.2. Compressible Memory
4.16.5.3. Virtual Aliasing Support
4.16.5.4. OS-Specific Handle Details for IPC
""".strip().splitlines()


def slug(heading):
    """The anchor that a heading gets, here as on a code forge and in the guide."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


class GuideMap(unittest.TestCase):
    page = (ROOT / "docs/guide_map.md").read_text()
    rows = re.findall(r"^\| \[(4\.16\..*?)\]\((.*?)\) \| (.*?) \| (.*?) \| (.*?) \|$", page, re.MULTILINE)

    def test_each_heading_has_its_row_and_leads_to_the_guide(self):
        self.assertEqual([row[0] for row in self.rows], HEADINGS)
        for heading, link, *_ in self.rows[1:]:
            self.assertEqual(link.partition("#")[2], slug(heading.split(" ", 1)[1]))

    def test_what_is_taught_is_there(self):
        for heading, _, taught, *_ in self.rows:
            links = re.findall(r"\]\(([^)#]+)(?:#([^)]*))?\)", taught)
            self.assertTrue(any(re.match(r"\.\./\d\d_\w+/\w+\.md$", path) for path, _ in links), heading)
            for path, anchor in links:
                page = ROOT / "docs" / path
                self.assertTrue(page.is_file(), f"{heading}: {path}")
                anchors = [slug(h) for h in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)]
                self.assertIn(anchor, anchors + [""], f"{heading}: {path} has no such section")

    def test_what_is_run_is_built(self):
        for heading, _, _, run, _ in self.rows:
            for program in re.findall(r"`(.*?)`", run) or [""]:
                self.assertTrue((BUILD / "bin" / program).is_file(), f"{heading}: {program}")

    def test_what_is_tested_is_a_test(self):
        tests = set()  # from CTest's own files: asking ctest would begin its log anew while it runs this
        for file in [BUILD / "CTestTestfile.cmake", *(BUILD / "tests").rglob("CTestTestfile.cmake")]:
            tests.update(re.findall(r"^add_test\((?:\[=+\[)?([\w.]+)", file.read_text(), re.MULTILINE))
        with_simulator = (BUILD / "tests" / "on_simulator").is_dir()
        for heading, *_, tested in self.rows:
            for name in re.findall(r"`(.*?)`", tested) or [""]:
                if with_simulator or ".sim" not in name:
                    self.assertIn(name, tests, heading)


if __name__ == "__main__":
    unittest.main()
