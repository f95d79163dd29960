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


def growth(get, method, by, size, section=6, file="final_sizes", key="median_ms"):
    return get(f"growable_1_gpu_{file}", f"section={section} method={method} by={by} {size}", key)


def final(get, method, by, gib, **more):
    return growth(get, method, by, f"final_bytes={int(gib * 1024)}MiB", **more)


def step(get, method, by, mib):
    return growth(get, method, by, f"step_bytes={mib}MiB", file="steps")


def chunks(get, method, by, chunk, gib):
    return growth(get, method, by, f"chunk_bytes={chunk} final_bytes={int(gib * 1024)}MiB", section=7)


def paused(get, method, gib, by="steps"):
    return get(
        "growth_cost_1_gpu_final_sizes",
        f"section=2 method={method} by={by} final_bytes={int(gib * 1024)}MiB",
        "median_ms",
    )


def paused_step(get, method, mib, by="steps"):
    return get("growth_cost_1_gpu_steps", f"section=2 method={method} by={by} step_bytes={mib}MiB", "median_ms")


def spread(get, method, by):
    return final(get, method, by, 32) / final(get, method, by, 32, key="fastest_ms")


def released(get, file, filled, waited, part):
    return get(file, f"what=after_release released={filled} waited_ms={waited} part={part}", "median_ms")


def to_32_gib(get, file, method, section):
    return get(file, f"section={section} method={method}", "median_ms")


def speed(get, way, gpus, mib, file="measure_4_gpus_sizes", key="median_us"):
    return get(file, f"way={way} active_gpus={gpus} bytes={mib}MiB", key)


def compressed(get, kernel, data, mib):
    """How many times as fast the kernel is in compressible memory."""
    plain, compressible = (
        get("compressible_1_gpu_sizes", f"kernel={kernel} data={data} memory={memory} bytes={mib}MiB", "median_us")
        for memory in ("plain", "compressible")
    )
    return plain / compressible


def handed(get, way, mib):
    return get("ipc_cost_1_gpu_sizes", f"way={way} part=export_to_open bytes={mib}MiB", "median_us")


def sharing(get, condition, file="measure_4_gpus_sizes"):
    return get(file, f"run=--kib_262144 {condition}", "median_us")


ONE, TWO = "growth_cost_1_gpu_32_gib", "growth_cost_1_gpu_of_2_32_gib"
SOME, RANDOM = "one_random_word_in_each_4_KiB", "random_words"
VMM = ("buffer", "steps")
STEPS = (2, 8, 32, 128, 512, 1024)  # MiB
# What sentences of this page and of lesson 02 compare without a figure, recomputed from the files. # is for a figure.
CLAIMS = {
    "as long as VMM at 8 GiB and # times as long at 32 GiB. The other two sizes lie between.": lambda get: all(
        final(get, "cudaMalloc", "steps", 8) / final(get, *VMM, 8)
        < final(get, "cudaMalloc", "steps", gib) / final(get, *VMM, gib)
        < final(get, "cudaMalloc", "steps", 32) / final(get, *VMM, 32)
        for gib in (0.5, 2)
    ),
    "is slower than VMM at 512 MiB and at 2 GiB. At 8 GiB and at 32 GiB **VMM loses**": lambda get: (
        [final(get, "cudaMalloc", "doubling", gib) > final(get, *VMM, gib) for gib in (0.5, 2, 8, 32)]
        == [True, True, False, False]
    ),
    "Kept chunks took less time than both at each of the three sizes.": lambda get: (
        [paused(get, "fresh_chunks", gib) < paused(get, "cudaMalloc", gib, "doubling") for gib in (0.5, 2, 8)]
        == [False, True, True]
        and all(
            paused(get, "kept_chunks", gib)
            < min(paused(get, "fresh_chunks", gib), paused(get, "cudaMalloc", gib, "doubling"))
            for gib in (0.5, 2, 8)
        )
    ),
    "There, new chunks of 2, 8 and 32 MiB lost, and larger ones did not.": lambda get: (
        [paused_step(get, "fresh_chunks", mib) > paused_step(get, "cudaMalloc", mib, "doubling") for mib in STEPS]
        == [True] * 3 + [False] * 3
    ),
    "With pauses the result at 32 GiB is the opposite": lambda get: all(
        to_32_gib(get, file, "cudaMalloc by=doubling", 2) > to_32_gib(get, file, "fresh_chunks by=steps", 2)
        for file in (ONE, TWO)
    ),
    "For the other ways it is less than 1.1.": lambda get: all(
        spread(get, *way) < 1.1
        for way in (("cudaMalloc", "steps"), ("cudaMalloc", "doubling"), ("cudaMallocAsync", "steps"))
    ),
    "With chunks of 8 MiB VMM still loses; with chunks of 32 MiB and more it takes less time.": lambda get: (
        [step(get, *VMM, mib) < step(get, "cudaMalloc", "doubling", mib) for mib in (2, 8, 32, 128, 512, 1024)]
        == [False] * 2 + [True] * 4
    ),
    "chunks of 64 MiB took less time than doubling with `cudaMalloc`; at 32 GiB they took more.": lambda get: (
        [chunks(get, *VMM, "64MiB", gib) < chunks(get, "cudaMalloc", "doubling", 0, gib) for gib in (0.5, 2, 8, 32)]
        == [True, True, True, False]
    ),
    "Doubling takes 1.5 times the final size and more, copying at each step about twice.": lambda get: all(
        1.5 <= final(get, method, "doubling", gib, key="peak_ratio") < 1.6
        and 1.95 < final(get, method, "steps", gib, key="peak_ratio") <= 2
        and final(get, *VMM, gib, key="peak_ratio") == 1
        for method in ("cudaMalloc", "cudaMallocAsync")
        for gib in (0.5, 2, 8, 32)
    ),
    "Most of the time goes into creating.": lambda get: all(
        released(get, file, filled, 100, "create")
        > released(get, file, filled, 100, "map") + released(get, file, filled, 100, "open")
        for file in (ONE, TWO)
        for filled in ("filled", "untouched")
    ),
    "On the machine with one it does not take longer.": lambda get: all(
        released(get, ONE, filled, 0, "open") < 1.05 * released(get, ONE, filled, 100, "open")
        for filled in ("filled", "untouched")
    ),
    "the second `cuMemSetAccess` is slow too, during the same tens of milliseconds": lambda get: all(
        released(get, TWO, filled, waited, "open_again") > 2 * released(get, TWO, filled, 100, "open_again")
        for filled in ("filled", "untouched")
        for waited in (0, 5, 25)
    ),
    "`cuMemCreate` and `cudaMalloc` are faster at once after a release than later.": lambda get: all(
        released(get, file, filled, 0, part) < released(get, file, filled, 100, part)
        for file in (ONE, TWO)
        for filled in ("filled", "untouched")
        for part in ("create", "cudaMalloc")
    ),
    "100 ms after the release, `cuMemCreate` took most of the time of a growth on both machines": lambda get: all(
        released(get, file, filled, 100, "create") > 2 * released(get, file, filled, 100, "open")
        for file in (ONE, TWO)
        for filled in ("filled", "untouched")
    ),
    "Up to 25 ms after the release, the kernel took longer than 100 ms after it, on both machines.": lambda get: all(
        released(get, file, filled, waited, "read") > 1.1 * released(get, file, filled, 100, "read")
        for file in (ONE, TWO)
        for filled in ("filled", "untouched")
        for waited in (0, 5, 25)
    ),
    "`cuMemSetAccess` took more than ten times as long on the second machine, and not on the first.": lambda get: all(
        released(get, TWO, filled, waited, "open") > 10 * released(get, TWO, filled, 100, "open")
        and released(get, ONE, filled, waited, "open") < 1.2 * released(get, ONE, filled, 100, "open")
        for filled in ("filled", "untouched")
        for waited in (0, 5, 25)
    ),
    "chunks of 64 MiB took longer than doubling with `cudaMalloc`; chunks of 1 GiB (cost 2) took less.": lambda get: (
        to_32_gib(get, ONE, "fresh_chunks by=steps chunk_bytes=64MiB", 3)
        > to_32_gib(get, ONE, "cudaMalloc by=doubling", 3)
        > to_32_gib(get, ONE, "fresh_chunks by=steps", 2)
    ),
    "chunks of 2 MiB took longer than copying by doubling, on both machines of the outputs.": lambda get: all(
        to_32_gib(get, file, "fresh_chunks by=steps chunk_bytes=2MiB", 3)
        > to_32_gib(get, file, "cudaMalloc by=doubling", 3)
        for file in (ONE, TWO)
    ),
    "Each further GPU adds most of a millisecond.": lambda get: all(
        500
        < sharing(get, f"what=cuMemSetAccess open_to={n + 1} more_is_shared=false")
        - sharing(get, f"what=cuMemSetAccess open_to={n} more_is_shared=false")
        < 1000
        for n in (1, 2, 3)
    ),
    "So the further GPUs add about as much to both calls.": lambda get: (
        0.8
        < (
            sharing(get, "what=cuMemSetAccess open_to=4 more_is_shared=true")
            - sharing(get, "what=cuMemSetAccess open_to=1 more_is_shared=true")
        )
        / (sharing(get, "what=cudaMalloc peers_enabled=3") - sharing(get, "what=cudaMalloc peers_enabled=0"))
        < 1.25
    ),
    "Up to 16 MiB a kernel that stores has the better median, and from 64 MiB on the copy engine.": lambda get: (
        [speed(get, "kernel_stores", 1, mib) < speed(get, "copy_engine", 1, mib) for mib in (1, 4, 16, 64, 256, 1024)]
        == [True] * 3 + [False] * 3
    ),
    "At 16 MiB the fastest copy here is as fast as the fastest kernel; only the medians differ.": lambda get: (
        speed(get, "copy_engine", 1, 16, key="fastest_us") <= speed(get, "kernel_stores", 1, 16, key="fastest_us")
    ),
    "If all GPUs send at once, store rather than load.": lambda get: all(
        speed(get, "kernel_stores", gpus, mib, file) < speed(get, "kernel_loads", gpus, mib, file)
        for gpus, file in ((4, "measure_4_gpus_sizes"), (2, "peer_cost_2_gpus_sizes"))
        for mib in (1, 4, 16, 64, 256, 1024)
    ),
    "`cudaIpcGetMemHandle` is faster at each size.": lambda get: all(
        handed(get, "cudaIpc", mib) < handed(get, "file_descriptor", mib) for mib in (2, 16, 64, 256, 1024)
    ),
    "At 2 MiB a copy through pageable host memory is faster too.": lambda get: (
        handed(get, "copy_through_host_memory", 2) < handed(get, "file_descriptor", 2)
    ),
    "export, import and mapping take more than a millisecond": lambda get: all(
        handed(get, "file_descriptor", mib) > 1000 for mib in (2, 16, 64, 256, 1024)
    ),
    "Reading data that compresses is faster at every size that was measured": lambda get: all(
        compressed(get, "read", SOME, 64 << n) > 1.1 for n in range(7)
    ),
    "Random data does not compress, and gains nothing. Up to 1 GiB updating it costs nothing either.": lambda get: (
        all(0.98 < compressed(get, "read", RANDOM, 64 << n) < 1.02 for n in range(7))
        and all(0.98 < compressed(get, "update", RANDOM, 64 << n) < 1.02 for n in range(5))
    ),
    "of the speed in plain memory. Up to 2 GiB they are faster.": lambda get: all(
        compressed(get, "update", SOME, 64 << n) > 1.1 for n in range(6)
    ),
}


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
            "extensions = ['myst_parser', 'results']\nmyst_heading_anchors = 3\nhtml_theme = 'basic'\n"
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
        tables = [table for table in self.read.tables if table[0][0] not in ("Question", "Section", "")]
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
            == re.sub(r"^(\d+)([MG])iB$", lambda size: str(int(size[1]) << (20 + 10 * (size[2] == "G"))), value).lower()
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
        asked = re.findall(r"\{result\}`([^`]*)`", PAGE)
        shown = re.findall(r'<span class="result">([\d.]+)</span>', self.page)
        self.assertEqual(len(shown), len(asked))
        for text, figure in zip(asked, shown, strict=True):
            parts = [part.split() for part in text.split(" / ")]
            values = [self.measured(name, " ".join(condition), key) for name, *condition, key in parts]
            quotient = values[0] / values[-1] if len(values) == 2 else values[0]
            self.assertEqual(figure, self.text(quotient, "" if len(values) == 2 else parts[0][-1]), text)

    def test_comparisons_are_of_like_with_like(self):
        """Medians with medians; the one other ratio is that of a measurement's median to its own fastest time."""
        for text in re.findall(r"\{result\}`([^`]* / [^`]*)`", PAGE):
            (*one, key), (*other, other_key) = (part.split() for part in text.split(" / "))
            self.assertTrue(key == other_key or (one == other and other_key.startswith("fastest_")), text)
            self.assertRegex(key, "^(median_|gb_per_s)", text)

    def test_sentences_say_what_the_files_hold(self):
        lesson = (ROOT / "02_growable" / "README.md").read_text()
        text = " ".join(re.sub(r"\{result\}`[^`]*`", "#", PAGE + lesson).split())
        for sentence, holds in CLAIMS.items():
            self.assertIn(sentence, text, "a sentence has changed: change what is recomputed for it too")
            self.assertTrue(holds(self.measured), f"the files do not say so: {sentence}")

    @classmethod
    def measured(cls, name, condition, key):
        """The one value, or the quotient with its own fastest time, that the condition leaves of a file."""
        words = dict(word.split("=") for word in condition.split())
        argument, found, in_run = words.pop("run", "").replace("_", " "), [], False
        for line in (ROOT / "docs" / "results" / f"{name}.jsonl").read_text().splitlines():
            entry = json.loads(line)
            if "arguments" in entry:
                in_run = argument in entry["arguments"]
            elif in_run and cls.meets(entry, " ".join(f"{word}={value}" for word, value in words.items())):
                found.append(entry)
        if len(found) != 1:
            raise AssertionError(f"{name} {condition}: {len(found)} measurements")
        if key.startswith("fastest_"):
            return min(found[0][key.removeprefix("fastest_")])
        return cls.derived(found[0], key)

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
