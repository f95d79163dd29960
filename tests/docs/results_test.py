#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The result files, and the pages that show figures of them: results_test.py SOURCE_DIRECTORY.

docs.listings holds each figure against its comment, by the code that puts it there; here is what this code must do.
"""

import importlib.util
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from docs.extensions.result_files import BLOCK, BadResults, Block, asked, figure, load, points, with_results

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()

if importlib.util.find_spec("sphinx") is None or importlib.util.find_spec("matplotlib") is None:
    print("SKIP: Sphinx or matplotlib is not installed for this Python; ./test.sh gets both")
    sys.exit(77)

PAGE = ROOT / "docs" / "performance.md"
BLOCKS = [Block(match) for match in BLOCK.finditer(PAGE.read_text())]
FILE = "# p --n 1, 1 NVIDIA H200, driver 1.2, CUDA 13.0, 2026-11-22\nwhat,bytes,median_us\nw,64,2.5\n"

IPC, PEERS = "one_h200/ipc_cost_1_gpu_sizes way=file_descriptor", "four_h200s/peer_cost_4_gpus_sizes runs=8"
FIGURES = {  # counted by hand
    f"{IPC} part=export bytes=2MiB median_us": "600",
    f"{IPC} part=export bytes=2MiB median_us - part=send": "570",
    f"{IPC} part=export bytes=2MiB median_us / part=send": "20",
    f"{IPC} part=send bytes=2MiB max_ms": "0.20",
    f"{PEERS} what=cuMemSetAccess more_is_shared=false open_to=2 median_us": "892",  # the median of eight medians
    "one_h200/compressible_1_gpu_sizes kernel=read data=random_words memory=plain bytes=256MiB gb_per_s": "3988",
    "one_h200/growth_cost_1_gpu_32_gib section=2 method=cudaMalloc by=doubling peak_bytes / final_bytes": "1.50",
    "one_h200/mappings refused=cuMemSetAccess mappings": "524090",
}

MACHINES = {"1": "one_h200", "2": "two_h200s", "4": "four_h200s", "H": "two_h100s"}
CLAIM = r"([124H ]+) \| (\w+) \| (.*) \| (.*) ([<>]) (?:(.*) \* )?(.*)\n"
KEPT, NEW = "method=kept_chunks by=steps", "method=fresh_chunks by=steps"
GROWTH, DOUBLING, FD = "growth_cost_1_gpu", "method=cudaMalloc by=doubling", "way=file_descriptor"
STORES, READ = "way=kernel_stores blocks=132", "kernel=read data=random_words"
QUIET = "released=filled waited_ms=40"
CLAIMS = f"""
1 4 | {GROWTH}_steps | section=2 step_bytes=8MiB median_ms | {KEPT} > {DOUBLING}
1 4 | {GROWTH}_steps | section=2 step_bytes=32MiB median_ms | {KEPT} < {DOUBLING}
1 4 | {GROWTH}_steps | section=2 step_bytes=32MiB median_ms | {NEW} > {DOUBLING}
1 4 | {GROWTH}_steps | section=2 step_bytes=128MiB median_ms | {NEW} < {DOUBLING}
1 4 | {GROWTH}_steps | section=2 step_bytes=2MiB method=fresh_chunks median_ms | by=doubling > .9 * by=steps
1 4 | {GROWTH}_steps | {QUIET} chunk_bytes=2MiB median_us | part=open > 2 * part=create
1 4 | {GROWTH}_steps | {QUIET} chunk_bytes=1GiB median_us | part=create > 2 * part=open
1 4 | {GROWTH}_final_sizes | section=2 final_bytes=512MiB median_ms | {NEW} > {DOUBLING}
1 4 | {GROWTH}_final_sizes | section=2 final_bytes=2GiB median_ms | {NEW} < {DOUBLING}
1 | {GROWTH}_32_gib | released=filled part=open median_ms | waited_ms=0 < waited_ms=100
2 4 | {GROWTH}_32_gib | released=filled part=open median_ms | waited_ms=25 > 10 * waited_ms=100
1 2 4 | {GROWTH}_32_gib | released=filled part=create median_ms | waited_ms=0 < waited_ms=100
1 4 | ipc_cost_1_gpu_sizes | part=export_to_open bytes=1GiB median_us | way=cudaIpc < {FD}
1 4 | ipc_cost_1_gpu_sizes | part=export_to_open bytes=2MiB median_us | way=copy_through_host_memory < {FD}
2 4 | peer_cost_2_gpus_sizes | active_gpus=1 bytes=16MiB gb_per_s | {STORES} > way=copy_engine
2 4 H | peer_cost_2_gpus_sizes | active_gpus=1 bytes=1MiB gb_per_s | {STORES} > way=copy_engine
2 4 H | peer_cost_2_gpus_sizes | active_gpus=1 bytes=64MiB gb_per_s | {STORES} < way=copy_engine
1 | calls_by_threads | cycles_per_s | threads=2 < threads=1
1 | calls_by_threads | cycles_per_s | threads=16 < threads=8
1 | calls_by_threads | set_access_us | threads=8 < 1.1 * threads=1
1 4 | compressible_1_gpu_sizes | {READ} bytes=256MiB gb_per_s | memory=plain > .99 * memory=cudaMalloc
"""


class Files(unittest.TestCase):
    def test_used(self):
        files = sorted((ROOT / "docs" / "results").glob("*/*"))
        self.assertGreater(len(files), 10)
        for path in files:
            self.assertIn(f"(results/{path.parent.name}/{path.name})", PAGE.read_text())
            for run in load(path)[0]:
                program, count = run["command"].split()[0], run["gpus"]
                if program != "vmm_limits":
                    self.assertRegex(path.stem, rf"^{program}_{count}_gpus?(_|$)")

    def test_bad_files_are_refused(self):
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / "some.csv"
            path.write_text(FILE)
            self.assertEqual(load(path)[1], [{"what": "w", "bytes": 64, "median_us": 2.5}])
            for old, new, message in (
                ("1.2", "unknown", "does not tell"),
                ("1 NVIDIA", "NVIDIA", "does not tell"),
                ("# p", "p", "does not tell"),
                ("w,64,2.5\n", "", "there is no row"),
                (",2.5", "", "too few"),
                ("2.5", "2.5,1", "too many"),
            ):
                load.cache_clear()
                path.write_text(FILE.replace(old, new))
                with self.assertRaisesRegex(BadResults, f"some.csv: .*{message}"):
                    load(path)
            with self.assertRaisesRegex(BadResults, "none.csv: No such file"):
                load(path.with_name("none.csv"))


class Text(unittest.TestCase):
    def test_figures(self):
        self.assertEqual({asked: figure(asked) for asked in FIGURES}, FIGURES)

    def test_what_is_wrong_is_refused(self):
        good = "A <!-- result: one_h200/ipc_cost_1_gpu_sizes way=cudaIpc part=export bytes=1GiB median_us -->8.12 µs.\n"
        self.assertEqual(with_results(good, PAGE), good)
        self.assertEqual(with_results(good.replace("8.12", "9.12"), PAGE), good)
        for old, new, message in (
            ("one_h200/ipc", "one_h200/cpi", "cpi_cost_1_gpu_sizes.csv: No such file"),
            ("bytes=1GiB", "bytes=3GiB", "no rows for a value"),
            ("bytes=1GiB ", "", "5. rows for a value, not 1"),
            ("median_us", "median_hours", "a row without"),
            ("way=cudaIpc", "cudaIpc", "more than one file or column"),
            ("A <", "<", "a figure begins a line"),
            ("result:", "results:", "not of its form"),
        ):
            with self.assertRaisesRegex(BadResults, message):
                with_results(good.replace(old, new), PAGE)
        text = PAGE.read_text()
        for what in (r"(<!-- result: .*? -->)(\d)", r"^(\| [^|]*MiB \| )(\d)"):  # a figure, a cell
            self.assertEqual(with_results(re.sub(what, r"\g<1>1\2", text, count=1, flags=re.MULTILINE), PAGE), text)
        with self.assertRaisesRegex(BadResults, "has no <!-- /results -->"):
            with_results(text.replace("<!-- /results -->", "", 1), PAGE)

    def test_key_claims(self):
        """What the pages compare without a figure."""
        claims = re.findall(CLAIM, CLAIMS)
        self.assertEqual(len(claims), CLAIMS.strip().count("\n") + 1)
        for machines, file, condition, first, sign, factor, second in claims:
            for machine in machines.split():
                name = f"{MACHINES[machine]}/{file}"
                _, rows, key = asked(condition)
                one, other = (points([name], rows | asked(part)[1], "", key)[""] for part in (first, second))
                other *= float(factor or 1)
                self.assertTrue(one < other if sign == "<" else one > other, f"{machine} {file} {condition} {first}")


class Book(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as scratch:
            docs = pathlib.Path(scratch) / "docs"
            shutil.copytree(ROOT / "docs" / "results", docs / "results")
            (docs / "index.md").write_text(re.sub(r"\]\(\.\./.*?\)", "]", PAGE.read_text()))  # pages that are not here
            (docs / "conf.py").write_text(
                "extensions = ['myst_parser', 'docs.extensions.results']\n"
                "myst_heading_anchors = 3\nhtml_theme = 'basic'\n"
            )
            command = [sys.executable, "-B", "-m", "sphinx", "-q", "-W", docs, docs / "built"]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            if done.returncode or done.stdout or done.stderr:
                raise AssertionError(f"the page does not build: {done.stdout}{done.stderr}")
            cls.page = (docs / "built" / "index.html").read_text()

    def test_plots(self):
        """Two for each table; they can stand on one page, and their lines go through what was measured."""
        plots = re.findall(r'<div class="picture results-plot results-(wide|narrow)">(.*?</svg>)', self.page, re.DOTALL)
        forms = [(block, form) for block in BLOCKS for form in ("wide", "narrow")]
        self.assertEqual([form for form, _ in plots], [form for _, form in forms])
        ids = re.findall(r'\bid="([^"]+)"', self.page)
        self.assertEqual(len(ids), len(set(ids)))
        for (_, plot), (block, _) in zip(plots, forms, strict=True):
            for label in block.conditions:
                self.assertIn(f">{label}</text>", plot)
            self.assertRegex(plot, r'<svg[^>]* role="img"[^>]*>\s*<title>\w.*\.</title>')
            self.assertRegex(plot, "(lower|higher) is better")
            self.assertNotRegex(plot, r"<style|<script|<metadata|DejaVu")
            bare = re.sub(r"var\(--vmm-(ink|paper|faint|gpu\d), #\w{6}\)", "", plot)
            self.assertNotRegex(bare, r"#[0-9a-f]{6}\b")  # every colour follows the style sheet
            drawn = re.findall(
                r'<path d="(M [^"]*)" clip-path="[^"]*" style="fill: none;[^"]* stroke: var\(--vmm-gpu', plot
            )
            places = [float(y) for line in drawn for y in re.findall(r"[ML] \S+ (\S+)", line)]
            values = []
            for found in block.columns(block.names).values():
                values += [found[place] if "linear" in block.options else math.log(found[place]) for place in found]
            low, high = values.index(min(values)), values.index(max(values))
            scale = (places[high] - places[low]) / (values[high] - values[low])
            for place, value in zip(places, values, strict=True):
                self.assertAlmostEqual(place, places[low] + scale * (value - values[low]), delta=0.1, msg=block.names)


if __name__ == "__main__":
    unittest.main()
