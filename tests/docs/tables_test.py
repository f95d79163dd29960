#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Tables that speak of other files: tables_test.py SOURCE_DIRECTORY

The map of the guide's section 4.16: each heading has its row, in the guide's order, with the pages that teach it. The
glossary: each word is linked where it says that it comes first. The page on hardware: the attributes that each program
asks for.
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))

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


class Tables(unittest.TestCase):
    def test_the_map_of_the_guide(self):
        page = (ROOT / "docs/guide.md").read_text()
        rows = re.findall(r"^\| \[(4\.16\..*?)\]\((.*?)\) \| (.*?) \|", page, re.MULTILINE)
        self.assertEqual([heading for heading, _, _ in rows], HEADINGS)
        for heading, link, taught in rows:
            if heading != HEADINGS[0]:
                self.assertEqual(link.partition("#")[2], slug(heading.split(" ", 1)[1]))
            self.assertRegex(taught, r"\]\(\.\./\d\d_\w+/\w+\.md[#)]", heading)

    def test_each_word_is_linked_from_its_first_page(self):
        page = ROOT / "docs/glossary.md"
        entries = re.findall(r"^## (.*)\n\n((?:(?!^## )[\s\S])*)", page.read_text(), re.MULTILINE)
        self.assertGreater(len(entries), 15)
        self.assertEqual([word for word, _ in entries], sorted((word for word, _ in entries), key=str.lower))
        for word, text in entries:
            first = re.search(r"First\s+in\s+\[.*?\]\((.*?)\)\.\s*$", text)
            self.assertIsNotNone(first, word)
            target = (page.parent / first[1]).resolve()
            self.assertRegex(target.read_text(), rf"\((\.\./docs/)?glossary\.md#{slug(word)}\)", f"{word}: {first[1]}")

    def test_the_list_has_the_attributes_of_each_program(self):
        page = (ROOT / "docs/hardware.md").read_text()
        section = page[page.index("## What a lesson needs") : page.index("## What you have")]
        items = re.findall(r"^- (?:\[(\d\d)\]|`(\w+)`)(.*(?:\n  .*)*)", section, re.MULTILINE)
        named = {lesson + program: set(re.findall(r"`(\w+_SUPPORTED)`", text)) for lesson, program, text in items}
        asked = {}
        for source in sorted(ROOT.glob("[0-9][0-9]_*/*.cu")):
            program = source.stem if source.stem in named else source.parent.name[:2]  # a program may have its own line
            text = source.read_text()
            attributes = re.findall(r"CU_DEVICE_ATTRIBUTE_(\w+_SUPPORTED)", text)
            if re.search(r"require_gpus\([^,()]*\)|check::vmm|start_on_gpu_0", text):  # the gate asks
                attributes.append("VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED")
            if "require_multicast(" in text:
                attributes.append("MULTICAST_SUPPORTED")
            asked.setdefault(program, set()).update(attributes)
        self.assertEqual(named, asked, "docs/hardware.md, What a lesson needs")


if __name__ == "__main__":
    unittest.main()
