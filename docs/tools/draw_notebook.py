#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Makes docs/pictures/notebook.png: two cells of lesson 01's notebook.py, as they come out: draw_notebook.py

The cells are executed by the kernel of `vmmsim notebook install`, on simulated GPUs, and looked at in Chromium. What
stands around the cells' output is plain HTML, and no notebook application's.
"""

import html
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import nbformat
from nbclient import NotebookClient
from playwright.sync_api import sync_playwright

from docs.tools.fill_pages import ROOT
from docs.tools.notebooks import LOAD, cells_by_hand

PICTURE, STEP, CELLS, WIDTH = ROOT / "docs" / "pictures" / "notebook.png", 4, 2, 760
STYLE = """
body { margin: 0; padding: 16px 20px; font: 14px sans-serif; background: #fff; width: 720px }
pre { font: 13px/1.4 monospace; margin: 0 }
.code { background: #f5f5f5; border: 1px solid #ddd; padding: 6px 8px; margin: 8px 0 }
.out { padding: 0 8px; margin-bottom: 18px }
"""


def executed():
    """[(question, code, outputs)] of the cells that are shown."""
    by_hand = cells_by_hand(ROOT / "01_vmm_basics" / "notebook.py")
    before = [code for step in range(STEP) for _, code, _ in by_hand[step]]
    shown = by_hand[STEP][:CELLS]
    load = LOAD.replace('"cuda_vmm_by_example', f'"{ROOT}')
    cells = [nbformat.v4.new_code_cell(code) for code in (load, *before, *(code for _, code, _ in shown))]
    notebook = nbformat.v4.new_notebook(cells=cells)
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["JUPYTER_DATA_DIR"] = scratch
        subprocess.run([sys.executable, "-B", "-m", "vmmsim", "notebook", "install"], check=True, cwd=ROOT)
        NotebookClient(notebook, kernel_name="vmmsim").execute()
    return [(text, code, cell.outputs) for (text, code, _), cell in zip(shown, cells[-CELLS:], strict=True)]


def page(cells):
    parts = [f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>"]
    for question, code, outputs in cells:
        text = re.sub("`(.*?)`", r"<code>\1</code>", html.escape(question))
        parts.append(f'<p>{text}</p><div class="code"><pre>{html.escape(code)}</pre></div><div class="out">')
        for output in outputs:
            data = output.get("data", {})
            parts.append(data.get("text/html") or f"<pre>{html.escape(data.get('text/plain', ''))}</pre>")
        parts.append("</div>")
    return "\n".join(parts)


def main():
    program = shutil.which("chromium")
    if not program:
        sys.exit("there is no chromium on the PATH: install it (apt-get install chromium)")
    text = page(executed())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": 100}, device_scale_factor=2)
        tab.set_content(text)
        tab.screenshot(path=PICTURE, full_page=True)
        browser.close()
    print(f"{PICTURE.relative_to(pathlib.Path.cwd())}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
