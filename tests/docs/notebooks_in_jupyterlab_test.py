# SPDX-License-Identifier: MIT-0
"""The lessons' notebooks in JupyterLab, in Chromium: *Run All Cells*, and then what a reader sees.

What the cells have shown is read from the file that JupyterLab saves, and held as in notebooks_test.py.
"""

import contextlib
import json
import re
import subprocess
import sys
import threading
import urllib.request

import nbformat
import pytest

from scripts.lessons import lessons
from tests.docs.notebooks_test import check_executed, place_of
from tests.machines import wait_for
from vmmsim.testing.browser import BrowserTest, skip

try:
    import jupyterlab  # noqa: F401
except ImportError:
    skip("this Python has no jupyterlab; ./test.sh --all gets it (tests/requirements-jupyterlab.txt)")

MINUTES = 60_000  # of Playwright's milliseconds
# Cells that are not in sight are in the page, too, so that all can be asked about.
SETTINGS = {
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
# Each cell of code was executed; none of them waits or is at work. A folded one has no prompt.
DONE = """() => {
  const prompts = [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].map((prompt) => prompt.textContent);
  return prompts.some((text) => text) && prompts.every((text) => /^(\\[\\d+\\]:)?$/.test(text));
}"""
ANSWERS = ".jp-OutputArea-output details"
HIGHLIGHTED = """() => [...document.querySelectorAll(".jp-RenderedMarkdown pre code[class='language-c++']")]
  .map((code) => code.querySelectorAll("span[class]").length)"""


def answers(address):
    try:
        return urllib.request.urlopen(f"{address}api").status == 200
    except OSError:
        return False


@contextlib.contextmanager
def jupyterlab_in(directory, settings):
    """The address of a server whose files are there."""
    for plugin, values in SETTINGS.items():
        file = settings / f"{plugin}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    options = ["--no-browser", "--port=0", "--allow-root", "--IdentityProvider.token=x"]
    places = [f"--ServerApp.root_dir={directory}", f"--LabApp.user_settings_dir={settings}"]
    words = [sys.executable, "-m", "jupyterlab", *options, *places]
    server = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=directory)
    try:
        found = (re.search(r"http://127\.0\.0\.1:\d+/", line) for line in server.stderr)
        address = next(address[0] for address in found if address)
        log = threading.Thread(target=server.stderr.read)  # a pipe that is full would stop it
        log.start()
        wait_for(lambda: answers(address), f"nothing answers at {address}")  # it is told before it is so
        yield address
    finally:
        server.terminate()
        server.wait()
        log.join()
        server.stderr.close()


class TestInJupyterLab(BrowserTest):
    @pytest.mark.parametrize("lesson", lessons())
    def test_run_all_cells(self, lesson, monkeypatch):
        with place_of(lesson, monkeypatch) as (notebook, work):
            file = work / f"{lesson}.ipynb"
            nbformat.write(notebook, file)
            with jupyterlab_in(work, work.parent / "lab settings") as address:
                self.page.goto(f"{address}lab/tree/{file.name}?token=x")
                self.run_all()
                self.look_at_answers()
                counts = self.page.evaluate(HIGHLIGHTED)
                assert counts
                assert min(counts) > 0
                assert self.page.locator(".jp-CodeCell .cm-line", has_text="%%writefile").count() == 0  # folded
                self.save()
            check_executed(lesson, nbformat.read(file, as_version=4), work)
        self.problems.clear()  # JupyterLab's own; and all it loads is from its server

    def run_all(self):
        self.page.get_by_text("Python 3", exact=False).first.wait_for(timeout=2 * MINUTES)
        self.page.locator(".jp-CodeCell").first.wait_for()
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        self.page.wait_for_function(DONE, timeout=8 * MINUTES)

    def look_at_answers(self):
        """None is open; each opens by a click, and what it has can then be seen."""
        answers = self.page.locator(ANSWERS)
        assert answers.count()
        assert self.page.locator(f"{ANSWERS} img:visible").count() == 0
        first = answers.filter(has=self.page.locator("img")).first
        first.locator("summary").click()
        first.locator("img").wait_for(state="visible")
        assert first.locator("img").evaluate("(it) => it.decode().then(() => it.naturalWidth)") > 100

    def save(self):
        self.page.keyboard.press("Control+s")
        self.page.locator(".jp-mod-current:not(.jp-mod-dirty)").first.wait_for()
