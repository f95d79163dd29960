#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Each test has a label that says what it is about, and CONTRIBUTING.md tells of each: labels_test.py SOURCE BUILD

Read from CTest's own files: to ask ctest would begin its log anew while it runs this.
"""

import pathlib
import re
import sys

from tests.lesson_test import fail

SUBJECTS = {"lessons", "labs", "simulator", "docs", "setup", "viewer"}


def labels_of_tests(build):
    """The labels of each test."""
    found = {}
    directories = [build / "tests", build / "simulator" / "tests"]
    files = [file for directory in directories for file in directory.glob("**/CTestTestfile.cmake")]
    for file in [*files, *(build / "tests").glob("*_cases.cmake")]:
        text = file.read_text()
        quoted = r'\[=*\[(.*?)\]=*\]|"(.*?)"|([\w.-]+)'
        for *name, _ in re.findall(rf"^add_test\((?:{quoted})(\s|\))", text, re.MULTILINE):
            found.setdefault("".join(name), set())
        for *name, properties in re.findall(
            rf"^set_tests_properties\((?:{quoted})\s+PROPERTIES([\s\S]*?)\)$", text, re.MULTILINE
        ):
            for one, other in re.findall(r'LABELS (?:"(.*?)"|(\w+))', properties):
                found["".join(name)] |= set((one or other).split(";"))
    return found


def main(source, build):
    found = labels_of_tests(pathlib.Path(build))
    if len(found) < 100:
        fail(f"only {len(found)} tests were found below {build}")
    without = sorted(name for name, labels in found.items() if not labels & SUBJECTS and not name.endswith("NOT_BUILT"))
    if without:
        fail(f"these have none of the labels {', '.join(sorted(SUBJECTS))}: {' '.join(without)}")
    table = pathlib.Path(source, "CONTRIBUTING.md").read_text().partition("| Label | Finds |")[2].partition("\n\n")[0]
    told = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    missing = set.union(*found.values()) - told
    if missing:
        fail(f"CONTRIBUTING.md has no row for the label {', '.join(sorted(missing))}")
    for label in sorted(SUBJECTS):
        print(f"{label}: {sum(label in labels for labels in found.values())} tests")


if __name__ == "__main__":
    main(*sys.argv[1:])
