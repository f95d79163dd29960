#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Makes docs/pictures/view.png and view_dark.png: the view of the recorded PyTorch program at its peak, in Chromium."""

import io
import pathlib
import shutil
import subprocess
import sys
import tempfile

from PIL import Image, PngImagePlugin
from playwright.sync_api import sync_playwright

from docs.tools.fill_pages import ROOT

RECORDING = ROOT / "docs" / "recordings" / "pytorch_expandable_segments.jsonl.gz"
SIZE = {"width": 1102, "height": 714}


def draw(directory):
    """Both into this directory, each with the text that it shows, by which a test knows an old one."""
    program = shutil.which("chromium")
    if not program:
        sys.exit("there is no chromium on the PATH: install it (apt-get install chromium)")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        page = pathlib.Path(scratch) / "view.html"
        subprocess.run(
            [sys.executable, "-B", "-m", "vmmsim", "view", "--output", page, RECORDING], check=True, cwd=ROOT
        )
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for theme, name in ("light", "view"), ("dark", "view_dark"):
            tab = browser.new_page(viewport=SIZE, color_scheme=theme)
            tab.goto(page.as_uri())
            tab.get_by_role("link", name="at step", exact=False).first.click()  # the peak
            tab.get_by_role("button", name="Who holds it").click()
            told = PngImagePlugin.PngInfo()
            told.add_itxt("Description", tab.inner_text("body"), zip=True)
            with Image.open(io.BytesIO(tab.screenshot())) as picture:
                picture.save(directory / f"{name}.png", pnginfo=told, optimize=True)
            tab.close()
        browser.close()


if __name__ == "__main__":
    draw(ROOT / "docs" / "pictures")
