#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Each word of the glossary is linked where it says that it comes first: glossary_test.py SOURCE_DIRECTORY"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))


class Glossary(unittest.TestCase):
    def test_each_word_is_linked_from_its_first_page(self):
        page = ROOT / "docs/glossary.md"
        entries = re.findall(r"^## (.*)\n\n((?:(?!^## )[\s\S])*)", page.read_text(), re.MULTILINE)
        self.assertGreater(len(entries), 15)
        self.assertEqual([word for word, _ in entries], sorted((word for word, _ in entries), key=str.lower))
        for word, text in entries:
            first = re.search(r"First\s+in\s+\[.*?\]\((.*?)\)\.\s*$", text)
            self.assertIsNotNone(first, word)
            anchor = re.sub(r"[^\w\- ]", "", word.lower()).replace(" ", "-")
            target = (page.parent / first[1]).resolve()
            self.assertRegex(target.read_text(), rf"\((\.\./docs/)?glossary\.md#{anchor}\)", f"{word}: {first[1]}")


if __name__ == "__main__":
    unittest.main()
