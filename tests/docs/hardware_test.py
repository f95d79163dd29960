#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The page on hardware names the attributes that each program asks for: hardware_test.py SOURCE_DIRECTORY."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))


class Hardware(unittest.TestCase):
    def test_the_list_has_the_attributes_of_each_program(self):
        page = (ROOT / "docs/hardware.md").read_text()
        section = page[page.index("## What a lesson needs") : page.index("## What you have")]
        items = re.findall(r"^- (?:\[(\d\d)\]|`(\w+)`)(.*(?:\n  .*)*)", section, re.MULTILINE)
        named = {lesson + program: set(re.findall(r"`(\w+_SUPPORTED)`", text)) for lesson, program, text in items}
        asked = {}
        for source in sorted(ROOT.glob("[0-9][0-9]_*/*.cu")):
            program = source.stem if source.stem in named else source.parent.name[:2]  # a program may have its own line
            attributes = re.findall(r"CU_DEVICE_ATTRIBUTE_(\w+_SUPPORTED)", source.read_text())
            asked.setdefault(program, set()).update(attributes)
        self.assertEqual(named, asked, "docs/hardware.md, What a lesson needs")


if __name__ == "__main__":
    unittest.main(verbosity=2)
