#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The page of the calls against the header and other pages: calls_test.py ROOT INCLUDE_DIRECTORY.

docs.listings holds the lessons that call each function. What is newer than the header, the page says in its last table;
run it with the headers of a later toolkit too.
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
VERSION = int(re.search(r"#define CUDA_VERSION (\d+)", HEADER)[1])
BESIDE = {"cuMemGetAddressRange", "cuMemGetHandleForAddressRange", "cuPointerGetAttribute"}  # of other groups


def number(version):
    major, minor = version.split(".")
    return int(major) * 1000 + int(minor) * 10


def table_below(heading):
    """The rows of the first table below a heading, without its own two: a list of cells each."""
    text = PAGE[PAGE.index(f"\n## {heading}\n") :]
    lines = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def calls_in(text):
    return re.findall(r"`(cu(?:Mem|Multicast|Pointer)\w+)`", text)


NEWER = {name: number(row[0]) for row in table_below("Since 13.1") for name in re.findall(r"`((?:CU|cu)\w+)", str(row))}
NEWER = {
    name: version for name, version in NEWER.items() if name != "CUDA_FABRIC_INIT_TIMEOUT_MS"
}  # of the environment


def group(name):
    section = re.search(rf"\\defgroup {name} .*?END {name}\b", HEADER, re.DOTALL)[0]
    return set(re.findall(r"^CUresult CUDAAPI (cu\w+)\(", section, re.MULTILINE))


def alike(declaration):
    """A declaration without what may be written otherwise."""
    return re.sub(r"\s*([*(),;])\s*", r"\1", re.sub(r"\s+", " ", declaration.replace(" CUDAAPI ", " "))).strip()


def declared(name):
    """As the header declares it first: what follows is for older programs."""
    found = re.search(rf"^CUresult CUDAAPI {name}\([^;]*;", HEADER, re.MULTILINE)
    return found and alike(found[0])


def declarations(entry):
    """{name: declaration} of an entry's listing."""
    listing = re.search(r"^```c\n(.*?)^```$", entry, re.MULTILINE | re.DOTALL)[1]
    return {name: alike(text) for text, name in re.findall(r"^(CUresult (\w+)\([^;]*;)", listing, re.MULTILINE)}


def rows(entry):
    lines = re.search(r"(?:^\|.*\n)+", entry, re.MULTILINE)[0].splitlines()
    return [line.strip("| ").split(" | ", 1) for line in lines]


class Calls(unittest.TestCase):
    def test_it_has_every_function_of_the_two_groups_and_links_each_at_its_top(self):
        functions = group("CUDA_VA") | group("CUDA_MULTICAST")
        told = {name for entry in ENTRIES.values() for name in declarations(entry)}
        self.assertEqual({name for name in told - BESIDE if NEWER.get(name, 0) <= VERSION}, functions)
        self.assertEqual(len(ENTRIES), 20 + len(BESIDE))
        links = re.findall(r"\[`(\w+)`\]\(#(\w+)\)", PAGE[: PAGE.index("\n## ")])
        self.assertEqual(sorted(links), sorted((name, name.lower()) for name in ENTRIES))

    def test_signatures_are_as_in_the_header(self):
        for name, entry in ENTRIES.items():
            told = declarations(entry)
            self.assertEqual(next(iter(told)), name)
            for each, text in told.items():
                if VERSION < NEWER.get(each, 0):
                    self.assertIsNone(declared(each), each)
                else:
                    self.assertEqual(text, declared(each))
                if each == f"{name}_v2":  # held without its header too
                    old = told[name].replace(name, each).replace("mcHandle,", "mcHandle,CUdevice dev,")
                    self.assertEqual(text, old)

    def test_entries_have_one_form(self):
        for name, entry in ENTRIES.items():
            head, _, *body = rows(entry)
            self.assertRegex(head[0], r"^CUDA \d+\.\d+ [ᴴˢᴾ]$", name)
            self.assertRegex(head[1], r"^Lessons: .+\. \[Reference\]\(\S+\)$", name)
            self.assertTrue(all(len(row) == 2 and row[1] for row in body), name)
            kinds = "".join(
                "E" if re.fullmatch(r"`CUDA_ERROR_.*`", first) else "P" if first[0] == "`" else first[0]
                for first, _ in body
            )
            self.assertRegex(kinds, r"^P+L?W?E+S?$", f"{name}: parameters, what lives, what waits, errors, see")
            told = [word for row in body for word in re.findall(r"`(\w+)`", row[0])]
            self.assertEqual(len(told), len(set(told)), name)
            parameters = {
                each for text in declarations(entry).values() for each in re.findall(r"(\w+)[,)]", text) if each != name
            }
            self.assertEqual({word for word in told if not word.startswith("CUDA_")}, parameters, name)

    def test_what_waits_is_told_twice_or_not_at_all(self):
        told = [row[0] for row in table_below("Who waits for what")]
        told = told[: next(i for i, row in enumerate(told) if row.startswith("for comparison"))]
        waits = {name for name, entry in ENTRIES.items() if "\n| Waits | " in entry}
        self.assertEqual({name for row in told for name in calls_in(row)}, waits)

    def test_since_when_is_as_in_the_header_of_versions(self):
        versions = (INCLUDE / "cudaTypedefs.h").read_text()
        for name, entry in ENTRIES.items():
            first = min(int(v) for v in re.findall(rf"\bPFN_{name}_v(\d+)\b", versions))
            self.assertEqual(first, number(re.search(r"^\| CUDA (\S+) ", entry, re.MULTILINE)[1]), name)
            for version, newer in re.findall(r"^// CUDA (\S+) or later\nCUresult (\w+)", entry, re.MULTILINE):
                self.assertEqual(NEWER[newer], number(version), newer)

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
        names = set(re.findall(r"`((?:CU|cu)\w+)", PAGE)) - {"CUDA_FABRIC_INIT_TIMEOUT_MS"}
        attributes = re.findall(r"^\| `CU_POINTER_ATTRIBUTE_`.*\n(?:\|.*\n)+", PAGE, re.MULTILINE)[0]
        of_pointers = {f"CU_POINTER_ATTRIBUTE_{name}" for name in re.findall(r"`([A-Z_]+)`", attributes)}
        names = names - {"CU_POINTER_ATTRIBUTE_"} | of_pointers - {"CU_POINTER_ATTRIBUTE_CU_POINTER_ATTRIBUTE_"}
        for name in names:
            there = re.search(rf"\b{name}\b", HEADER + RUNTIME) is not None
            self.assertEqual(there, NEWER.get(name, 0) <= VERSION, name)

    def test_structures_have_the_fields(self):
        structure = None
        for first, fields, *_ in table_below("Structures"):
            structure = first.strip("`") or structure
            body = re.search(rf"typedef struct {structure}_st \{{(.*?)^\}} ", HEADER, re.DOTALL | re.MULTILINE)
            for field in re.findall(r"`([\w.]+)`", fields):
                for part in field.split("."):
                    self.assertIsNotNone(re.search(rf"\b{part}\b", body[1]), f"{structure}.{field}")


if __name__ == "__main__":
    unittest.main()
