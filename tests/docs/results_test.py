# SPDX-License-Identifier: MIT-0
"""The tables of measured results, and the plots that the book draws of them.

docs.listings holds the tables in the pages against the files.
"""

import importlib.util
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

from docs.extensions.result_files import BadResults, load, table

ROOT = pathlib.Path(__file__).resolve().parents[2]

if importlib.util.find_spec("sphinx") is None or importlib.util.find_spec("matplotlib") is None:
    pytest.skip("Sphinx or matplotlib is not installed for this Python; ./test.sh gets both", allow_module_level=True)

PAGE = ROOT / "docs" / "performance.md"
ASKED = re.findall(r"^<!-- plot: results/(\S+)( linear)?$", PAGE.read_text(), re.MULTILINE)
FILE = "# p --n 1, one NVIDIA H200, driver 1.2, CUDA 13.0, 2026-11-22\nsize,way,ms\n64 MiB,fast,2.514\n1 GiB,fast,21\n"


def test_each_is_on_a_page():
    pages = "".join(page.read_text() for page in (PAGE, ROOT / "03_multi_gpu/peer_cost.md"))
    for path in (ROOT / "docs" / "results").glob("*.csv"):
        assert f"results/{path.name})" in pages


def test_a_file_becomes_a_table():
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "some.csv"
        path.write_text(FILE)
        rows = ["| size | fast |", "| ---: | ---: |", "| 64&nbsp;MiB | 2.51 |", "| 1&nbsp;GiB | 21.0 |"]
        assert table(path) == rows
        for old, new in (("driver 1.2, ", ""), ("NVIDIA ", ""), ("# p", "p"), ("2026-", "")):
            path.write_text(FILE.replace(old, new))
            with pytest.raises(BadResults, match="some.csv: .*does not tell"):
                load(path)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of the figures, alone in a book."""
    docs = tmp_path_factory.mktemp("book") / "docs"
    shutil.copytree(ROOT / "docs" / "results", docs / "results")
    (docs / "index.md").write_text(re.sub(r"\]\(\.\./.*?\)", "]", PAGE.read_text()))  # pages that are not here
    (docs / "conf.py").write_text(
        "extensions = ['myst_parser', 'docs.extensions.results']\nmyst_heading_anchors = 3\nhtml_theme = 'basic'\n"
    )
    command = [sys.executable, "-B", "-m", "sphinx", "-q", "-W", docs, docs / "built"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode or done.stdout or done.stderr:
        raise AssertionError(f"the page does not build: {done.stdout}{done.stderr}")
    return (docs / "built" / "index.html").read_text()


def test_a_table_becomes_two_plots(page):
    """Two for each table; they can stand on one page, and their lines go through what was measured."""
    plots = re.findall(r'<div class="results-plot results-(wide|narrow)">(.*?</svg>)', page, re.DOTALL)
    forms = [(name, linear, form) for name, linear in ASKED for form in ("wide", "narrow")]
    assert [form for form, _ in plots] == [form for *_, form in forms]
    assert len(plots) > 10
    assert "<details open" not in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for (_, plot), (name, linear, _) in zip(plots, forms, strict=True):
        _, y, columns = load(ROOT / "docs" / "results" / name)
        for text in (y, *columns):
            assert f">{text}</text>" in plot
        assert re.search(r'<svg[^>]* role="img"[^>]*>\s*<title>\w.*\.</title>', plot)
        assert re.search("(lower|higher) is better", plot)
        rows = sorted(float(re.search(rf'y="([\d.]+)"[^>]*>{text}</text>', plot)[1]) for text in columns)
        gaps = [below - above for above, below in zip(rows, rows[1:], strict=False)]
        assert gaps == pytest.approx([22] * len(gaps), abs=0.01), "a name stands at the height of its data"
        assert not re.search(r"<style|<script|<metadata|DejaVu", plot)
        bare = re.sub(r"var\(--vmm-(ink|paper|faint|gpu\d), #\w{6}\)", "", plot)
        assert not re.search(r"#[0-9a-f]{6}\b", bare)  # every colour follows the style sheet
        drawn = re.findall(
            r'<path d="(M [^"]*)" clip-path="[^"]*" style="fill: none;[^"]* stroke: var\(--vmm-gpu', plot
        )
        places = [float(y) for line in drawn for y in re.findall(r"[ML] \S+ (\S+)", line)]
        values = [value if linear else math.log(value) for found in columns.values() for value in found.values()]
        low, high = values.index(min(values)), values.index(max(values))
        scale = (places[high] - places[low]) / (values[high] - values[low])
        for place, value in zip(places, values, strict=True):
            assert place == pytest.approx(places[low] + scale * (value - values[low]), abs=0.1), name
