#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The page of the calls against the header and other pages: calls_test.py ROOT INCLUDE_DIRECTORY.

docs.listings holds the lessons that call each function.
"""

import pathlib
import re
import sys
import unittest

ROOT, INCLUDE = (pathlib.Path(word) for word in sys.argv[1:3])
del sys.argv[1:]
PAGE = (ROOT / "docs/calls.md").read_text()
ENTRIES = dict(re.findall(r"^### (cu\w+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
HEADER = (INCLUDE / "cuda.h").read_text()
RUNTIME = (INCLUDE / "cuda_runtime_api.h").read_text()


def group(name):
    section = re.search(rf"\\defgroup {name} .*?END {name}\b", HEADER, re.DOTALL)[0]
    return set(re.findall(r"^CUresult CUDAAPI (cu\w+)\(", section, re.MULTILINE))


class Calls(unittest.TestCase):
    def test_it_has_every_function_of_the_two_groups(self):
        functions = group("CUDA_VA") | group("CUDA_MULTICAST")
        self.assertEqual(len(ENTRIES), 20)
        self.assertLessEqual(set(ENTRIES), functions)
        if int(re.search(r"#define CUDA_VERSION (\d+)", HEADER)[1]) <= 13000:  # a later header may have more
            self.assertEqual(set(ENTRIES), functions)

    def test_since_when_is_as_in_the_header_of_versions(self):
        versions = (INCLUDE / "cudaTypedefs.h").read_text()
        for name, entry in ENTRIES.items():
            major, minor = re.search(r"^CUDA (\d+)\.(\d+) or later", entry, re.MULTILINE).groups()
            first = min(int(v) for v in re.findall(rf"\bPFN_{name}_v(\d+)\b", versions))
            self.assertEqual(first, int(major) * 1000 + int(minor) * 10, name)

    def test_a_pitfall_that_has_the_function_in_its_heading_is_linked(self):
        text = (ROOT / "docs/pitfalls.md").read_text()
        pitfalls = re.findall(r'((?:^<a id="pit-[\w-]+"></a>\n)+)### (.*)', text, re.MULTILINE)
        self.assertTrue(pitfalls)
        for name, entry in ENTRIES.items():
            linked = set(re.findall(r"#(pit-[\w-]+)\)", entry))
            for anchors, heading in pitfalls:
                if f"`{name}`" in heading:
                    self.assertTrue(linked & set(re.findall(r"pit-[\w-]+", anchors)), f"{name}: {anchors}")

    def test_it_names_only_what_the_header_has(self):
        for name in set(re.findall(r"`((?:CU|cu)\w+)", PAGE)):
            self.assertIsNotNone(re.search(rf"\b{name}\b", HEADER + RUNTIME), name)

    def test_structures_have_the_fields(self):
        table = PAGE[PAGE.index("## Structures") :]
        structure = None
        for first, fields in re.findall(r"^\| (?:`(\w+)`)? ?\| (.*?) \|", table, re.MULTILINE):
            structure = first or structure
            body = re.search(rf"typedef struct {structure}_st \{{(.*?)^\}} ", HEADER, re.DOTALL | re.MULTILINE)
            for field in re.findall(r"`([\w.]+)`", fields):
                for part in field.split("."):
                    self.assertIsNotNone(re.search(rf"\b{part}\b", body[1]), f"{structure}.{field}")


if __name__ == "__main__":
    unittest.main()
