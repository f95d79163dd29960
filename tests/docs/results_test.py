#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The result files and the page that is drawn from them: results_test.py SOURCE_DIRECTORY."""

import html.parser
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(ROOT / "docs" / "extensions"))
from result_files import BadResults, load  # noqa: E402

if importlib.util.find_spec("sphinx") is None or importlib.util.find_spec("matplotlib") is None:
    print("SKIP: Sphinx or matplotlib is not installed for this Python; ./test.sh gets both")
    sys.exit(77)

FILES = sorted((ROOT / "docs" / "results").glob("*.jsonl"))
PAGE = (ROOT / "docs" / "performance.md").read_text()
RUN = (
    '{"program": "p", "arguments": "--n 1", "device": "NVIDIA H200", "gpus": 1, "driver": "1.2", "cuda": "13.0", '
    '"date": "d"}'
)
TIMES = '{"what": "w", "repeats": 3, "median_us": 2.0, "us": [3.0, 1.0, 2.0]}'
END = '{"what": "complete"}'


class Tables(html.parser.HTMLParser):
    """The text of the cells of each table of a page, row by row; the ids of all elements."""

    def __init__(self):
        super().__init__()
        self.tables, self.ids, self.open = [], [], False

    def handle_starttag(self, tag, attributes):
        self.ids += [value for key, value in attributes if key == "id"]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.open = True

    def handle_endtag(self, tag):
        self.open = self.open and tag not in ("td", "th")

    def handle_data(self, data):
        if self.open:
            self.tables[-1][-1][-1] += data.strip("\n")


def build(change=lambda docs: None):
    """Builds the page alone, in a copy with a change: (exit status, what Sphinx said, the page or None)."""
    with tempfile.TemporaryDirectory() as scratch:
        docs = pathlib.Path(scratch) / "docs"
        for name in ("extensions", "results"):
            shutil.copytree(ROOT / "docs" / name, docs / name)
        (docs / "index.md").write_text(re.sub(r"\]\(\.\./.*?\)", "]", PAGE))  # without links to pages that are not here
        (docs / "conf.py").write_text(
            "import sys\nsys.path.insert(0, 'extensions')\n"
            "extensions = ['myst_parser', 'results']\nhtml_theme = 'basic'\n"
        )
        change(docs)
        done = subprocess.run(
            [sys.executable, "-B", "-m", "sphinx", "-q", "-W", ".", "built"],
            cwd=docs,
            capture_output=True,
            text=True,
            check=False,
        )
        page = docs / "built" / "index.html"
        return done.returncode, done.stdout + done.stderr, page.read_text() if page.exists() else None


class Files(unittest.TestCase):
    def test_recorded_on_hardware_and_used(self):
        self.assertTrue(FILES)
        for path in FILES:
            for conditions, _ in load(path):
                self.assertIn("NVIDIA", conditions["device"], path)
                self.assertRegex(conditions["driver"], r"^\d+\.\d+", path)
                self.assertRegex(conditions["date"], r"^\d{4}-\d\d-\d\d$", path)
                self.assertRegex(path.stem, rf"^{conditions['program']}_{conditions['gpus']}_gpus?(_|$)")
            self.assertIn(path.stem, PAGE)

    def test_bad_files_are_refused(self):
        cases = {
            "not JSON": [RUN, TIMES[:-1], END],
            "not a JSON object": [RUN, "[1]", END],
            "without conditions": [TIMES],
            "do not tell 'driver'": [RUN.replace('"1.2"', '"unknown"'), TIMES, END],
            "do not tell 'gpus'": [RUN.replace('"gpus": 1, ', ""), TIMES, END],
            "the one before it has not ended": [RUN, TIMES, RUN, TIMES, END],
            "the last run is not complete": [RUN, TIMES],
            "a run without a measurement": [RUN, END],
            "the median of the times is not 2.5": [RUN, TIMES.replace('"median_us": 2.0', '"median_us": 2.5'), END],
            "4 repeats, 3 times": [RUN, TIMES.replace('"repeats": 3', '"repeats": 4'), END],
            "not a measurement": [RUN, '{"what": "w"}', END],
        }
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / "some.jsonl"
            path.write_text("\n".join([RUN, TIMES, END]))
            self.assertEqual(len(load(path)), 1)
            for message, lines in cases.items():
                path.write_text("\n".join(lines))
                with self.assertRaisesRegex(BadResults, "some.jsonl.*" + re.escape(message)):
                    load(path)
            with self.assertRaisesRegex(BadResults, "none.jsonl: No such file"):
                load(path.with_name("none.jsonl"))


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        status, said, cls.page = build()
        if status or said:
            raise AssertionError(f"the page does not build: {said}")
        cls.read = Tables()
        cls.read.feed(cls.page)

    def test_the_tables_are_what_the_files_hold(self):
        blocks = re.findall(r"^```\{results\} (\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
        tables = [table for table in self.read.tables if table[0][0] != "Question"]
        self.assertEqual(len(tables), len(blocks))
        for (name, text), (header, *rows) in zip(blocks, tables, strict=True):
            options = dict(re.findall(r"^:(\w+): *(.*)$", text, re.MULTILINE))
            lines = re.findall(r"^([^:\n].*): (\S+=.*)$", text, re.MULTILINE)
            self.assertEqual(header[1:], [label for label, _ in lines])
            run, entries = "", []
            for line in (ROOT / "docs" / "results" / f"{name}.jsonl").read_text().splitlines():
                run = json.loads(line).get("arguments", run)
                entries += [json.loads(line)] * (options.get("run", "") in run)
            shown = 0
            for at, (_, condition) in enumerate(lines, 1):
                for row in rows:
                    place = row[0].replace("\xa0", " ")
                    found = [
                        entry
                        for entry in entries
                        if "repeats" in entry
                        and self.meets(entry, condition)
                        and self.text(self.derived(entry, options["x"]), options["x"]) == place
                    ]
                    values = [self.text(self.derived(entry, options["y"]), options["y"]) for entry in found]
                    self.assertEqual(values, [row[at]] if row[at] else [], f"{name}: {condition}: {row}")
                    shown += len(values)
            self.assertGreaterEqual(shown, 2 * len(lines), name)

    @staticmethod
    def meets(entry, condition):
        return all(
            str(entry.get(key)).lower().replace(" ", "_")
            == re.sub(r"^(\d+)MiB$", lambda size: str(int(size[1]) << 20), value).lower()
            for key, value in (word.split("=") for word in condition.split())
        )

    @staticmethod
    def derived(entry, key):
        return {
            "gb_per_s": lambda: entry["bytes"] / entry["median_us"] / 1000,
            "peak_ratio": lambda: entry["peak_bytes"] / entry["final_bytes"],
            "gpus_in_all": lambda: entry["open_to"] if "open_to" in entry else entry["peers_enabled"] + 1,
        }.get(key, lambda: entry[key])()

    @staticmethod
    def text(value, key):
        if key.endswith("bytes"):
            power = next(power for power in (3, 2, 1) if value % 1024**power == 0)
            return f"{value // 1024**power} {' KMG'[power]}iB"
        if isinstance(value, int):
            return str(value)
        return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"

    def test_figures_in_the_text(self):
        asked = re.findall(r"\{result\}`", PAGE)
        shown = re.findall(r'<span class="result">([\d.]+)</span>', self.page)
        self.assertEqual(len(shown), len(asked))
        times = {
            (entry["method"], entry["by"]): entry["median_ms"]
            for _, entries in load(ROOT / "docs/results/growable_1_gpu_final_sizes.jsonl")
            for entry in entries
            if entry["final_bytes"] == 32 << 30 and entry["section"] == 6
        }
        self.assertEqual(shown[0], f"{times['cudaMalloc', 'steps'] / times['buffer', 'steps']:.1f}")

    def test_the_plots_can_stand_beside_one_another(self):
        plots = re.findall(r"<svg.*?</svg>", self.page, re.DOTALL)
        directives, without = (len(re.findall(what, PAGE, re.M)) for what in (r"^```\{results\}", "^:table:"))
        self.assertEqual(len(plots), directives - without)
        self.assertEqual(len(self.read.ids), len(set(self.read.ids)))
        for plot in plots:
            self.assertRegex(plot, r'<svg[^>]* role="img"[^>]*><title id="[^"]+">\w.*\.</title>')
            self.assertFalse(re.search(r"<style|<script|<metadata|DejaVu", plot))
            bare = re.sub(r"var\(--vmm-(ink|paper|faint|gpu\d), #\w{6}\)", "", plot)
            self.assertFalse(re.findall(r"#[0-9a-f]{6}\b", bare))  # every colour follows the style sheet
            self.assertEqual(set(re.findall(r"font-size: (\d+)px", plot)), {"14"})

    def test_what_is_wrong_ends_the_build(self):
        def edit(name, old, new):
            def change(docs):
                path = docs / name
                self.assertIn(old, path.read_text())
                path.write_text(path.read_text().replace(old, new, 1))

            return change

        steps = "results/growable_1_gpu_steps.jsonl"
        for change, message in (
            (edit(steps, '"repeats": 15', '"repeats": 14'), "growable_1_gpu_steps.jsonl:2: not a measurement"),
            (lambda docs: (docs / steps).unlink(), "growable_1_gpu_steps.jsonl: No such file"),
            (edit("index.md", "chunk_bytes=64MiB", "chunk_bytes=63MiB"), "no measurement for 'VMM, chunks of 64"),
            (edit("index.md", ":run: --kib 262144\n", ""), "two measurements of"),
            (edit("index.md", "active_gpus=1 bytes=1MiB", "bytes=1MiB"), "2 measurements"),
        ):
            status, said, _ = build(change)
            self.assertNotEqual(status, 0, message)
            self.assertIn(message, said.replace("\n", " "))


if __name__ == "__main__":
    unittest.main()
