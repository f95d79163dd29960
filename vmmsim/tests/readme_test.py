#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""simulator/README.md speaks of what there is: its files are there, and names in its code are names of the sources."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1] / "simulator"
PAGE = re.sub(r"^ *```[\s\S]*?^ *```$", "", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
CODE = re.findall(r"`([^`\n]+)`", PAGE)


class Readme(unittest.TestCase):
    def test_files(self):
        files = [code for code in CODE if re.fullmatch(r"[\w./*]*/[\w./*]*", code)]
        self.assertGreater(len(files), 30)
        for file in files:
            place = file.replace("NAME", "*")
            self.assertTrue((ROOT / file).exists() or any(ROOT.glob(place)), f"there is no {file}")

    def test_names(self):
        rooms = ("ptx", "gpu", "memory", "driver", "runtime")
        words = {
            word for room in rooms for path in (ROOT / room).iterdir() for word in re.findall(r"\w+", path.read_text())
        }
        names = [code for code in CODE if re.fullmatch(r"[A-Z]\w*|\w+(::\w+)+|\w+\(\)|\w+_\w+", code)]
        self.assertGreater(len(names), 20)
        missing = [name for name in names for part in re.findall(r"\w+", name) if part not in words]
        self.assertEqual(missing, ["simulator_ptx"], "names that the sources do not have; CMakeLists.txt has the last")


if __name__ == "__main__":
    unittest.main()
