# SPDX-License-Identifier: MIT-0
"""One headless Chromium for the tests of the book, and what they ask of every page."""

import contextlib
import os
import pathlib
import re
import shutil
import tempfile

import pytest

from vmmsim.view.frames import steps
from vmmsim.view.page import page

BROWSERS = ("chromium", "google-chrome")
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]

# Under load what a page writes on the clipboard may arrive later than promised: wait until it is there.
NOTHING_COPIED = """(async () => {
  await navigator.clipboard.writeText("nothing was copied");
  while ((await navigator.clipboard.readText()) != "nothing was copied") await new Promise(requestAnimationFrame);
})"""
COPIED = """(async () => {
  for (let frame = 0; frame < 100; frame++) {
    const text = await navigator.clipboard.readText();
    if (text != "nothing was copied") return text;
    await new Promise(requestAnimationFrame);
  }
  return "nothing was copied";
})"""
# What makes the page scroll sideways, and what sticks out of the text's column: by more than a heading's background,
# which furo lets stand 8 pixels out. What scrolls inside itself may.
OVERFLOWING = """() => {
  const found = [document.scrollingElement, ...document.querySelectorAll(".content")]
    .filter((element) => element.scrollWidth > element.clientWidth);
  const { left, right } = document.querySelector("article").getBoundingClientRect();
  // What is folded still has the place that it had in another width.
  const folded = [...document.querySelectorAll("article details:not([open])")].filter((it) => !it.closest(".vmm-view"));
  for (const each of folded) each.open = true;
  for (const element of document.querySelectorAll("article *")) {
    const box = element.getBoundingClientRect();
    if (box.width && (box.right > right + 9 || box.left < left - 9) &&
        !element.parentElement.closest("pre, .table-wrapper, .picture, .vmm-scroll")) found.push(element);
  }
  for (const each of folded) each.open = false;
  return found.map((element) => element.outerHTML.slice(0, 120));
}"""

# Until nothing moves any more, every listing has its copy button, and what the window's size changes has been done.
SETTLED = """async () => {
  const listings = document.querySelectorAll(":not(.try-it) > .highlight > pre");
  while (document.scripts.length && document.querySelectorAll(".copybtn").length < listings.length)
    await new Promise(requestAnimationFrame);
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  await Promise.all(document.getAnimations().map((animation) => animation.finished.catch(() => {})));
}"""

# Each colour of the code stays once; the rest of it becomes plain text, which spares axe most of its work.
EACH_COLOUR_ONCE = """() => {
  const seen = new Set();
  for (const span of document.querySelectorAll(".highlight pre span")) {
    const kind = `${span.parentElement.className}/${span.className}`;
    if (seen.has(kind) && !span.firstElementChild) span.replaceWith(span.textContent);
    seen.add(kind);
  }
  for (const pre of document.querySelectorAll(".highlight pre")) pre.normalize();
}"""


RUN_AXE = """async ([context, options]) => {
  const { passes, violations } = await axe.run(Object.keys(context).length ? context : document, options);
  return { passes: passes.length, violations };
}"""


def skip(reason):
    """Where CI is true, what is missing is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)


try:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import Error as PlaywrightError  # noqa: F401 (for tests that import this module)
    from playwright.sync_api import sync_playwright
except ImportError as missing:
    skip(f"{missing.name} is not installed for this Python; ./test.sh gets it")


class BrowserTest:
    """Tests that share a browser and a page, which notes what goes wrong in it."""

    @classmethod
    def setup_class(cls):
        program = next(filter(None, map(shutil.which, BROWSERS)), None)
        if not program:
            skip("no Chromium on the PATH; install it (apt-get install chromium)")
        cls.ends = contextlib.ExitStack()
        playwright = sync_playwright().start()
        cls.ends.callback(playwright.stop)
        browser = playwright.chromium.launch(executable_path=program)
        cls.ends.callback(browser.close)
        print(f"Chromium {browser.version}")
        context = browser.new_context()
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        context.set_default_timeout(20000)
        cls.page, cls.axe, cls.problems = context.new_page(), Axe(), []
        cls.page.on("console", lambda message: cls.note(message.type in ("error", "warning"), message.text))
        cls.page.on("pageerror", lambda error: cls.note(True, error))
        cls.page.on(  # what the next page cuts off is no failure; a file that is missing is one
            "requestfailed", lambda it: cls.note(it.failure != "net::ERR_ABORTED", f"{it.url} failed: {it.failure}")
        )
        cls.page.on(
            "request",
            lambda request: cls.note(not request.url.startswith(("file:", "data:")), f"{request.url} is loaded"),
        )

    @classmethod
    def teardown_class(cls):
        cls.ends.close()

    @classmethod
    def scratch_directory(cls):
        return pathlib.Path(cls.ends.enter_context(tempfile.TemporaryDirectory(prefix="in a browser ")))

    @classmethod
    def note(cls, bad, what):
        if bad:
            cls.problems.append(str(what))

    def setup_method(self):
        self.problems.clear()
        # Smooth scrolling may end elsewhere when the focus moves on meanwhile.
        self.page.emulate_media(media="screen", color_scheme="light", reduced_motion="reduce")
        self.page.set_viewport_size({"width": 1440, "height": 900})

    def teardown_method(self):
        assert self.problems == []

    def open(self, file, width=1440):
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.goto(file.as_uri())
        self.page.evaluate(SETTLED)

    def look(self, width, theme):
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=theme)
        self.page.evaluate(SETTLED)

    def expect_no_overflow(self):
        assert self.page.evaluate(OVERFLOWING) == [], f"{self.page.url} at {self.page.viewport_size['width']} pixels"

    def expect_accessible(self, rules=None, without=(), least=6, **context):
        """By all rules of WCAG, or these, or all but some; of the page, or of what it is to include or to exclude."""
        self.page.evaluate(EACH_COLOUR_ONCE)
        off = {"rules": {rule: {"enabled": False} for rule in without}}
        options = {"runOnly": rules or WCAG, "resultTypes": ["violations"], "preload": False} | (off if without else {})
        if not self.page.evaluate("'axe' in window"):  # its script is half a megabyte
            self.page.evaluate(self.axe.axe_script)
        found = self.page.evaluate(RUN_AXE, [context, options])
        assert found["passes"] >= least, "axe has hardly looked"
        assert [
            f"{each['id']} ({each['help']}): {node['html'][:200]} {node['failureSummary']}"
            for each in found["violations"]
            for node in each["nodes"][:3]
        ] == [], self.page.url

    def copy(self, button):
        """What a click on the copy button puts on the clipboard."""
        self.page.evaluate(f"{NOTHING_COPIED}()")
        button.click()
        return self.page.evaluate(f"{COPIED}()")

    def copies(self, buttons):
        """What each of the buttons, pressed by a script, puts on the clipboard: far sooner than the mouse does."""
        return buttons.evaluate_all(f"""async (buttons) => {{
          const copied = [];
          for (const button of buttons) {{
            await {NOTHING_COPIED}();
            button.click();
            copied.push(await {COPIED}());
          }}
          return copied;
        }}""")

    def focused(self, script):
        """The script's value for the element that has the focus."""
        return self.page.evaluate(f"(({script}))(document.activeElement)")


class ViewTest(BrowserTest):
    """Tests of views, whose pages they write."""

    @classmethod
    def setup_class(cls):
        super().setup_class()
        cls.scratch = cls.scratch_directory()

    @classmethod
    def page_of(cls, recording, name, snapshot=None):
        """The file, and the steps in it."""
        file, found = cls.scratch / f"{name}.html", steps(recording, snapshot)
        file.write_text(page(recording, found))
        return file, found

    def at(self, fragment="#step=1", file=None, width=1440):
        self.page.goto("about:blank")  # or a new fragment alone would open nothing
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.goto((file or self.file).as_uri() + fragment)
        self.page.wait_for_function("!document.querySelector('.vmm-view:not(.vmm-live)')")

    def step(self):
        return int(re.match(r"step (\d+)", self.page.locator(".vmm-number").first.inner_text())[1])

    def button(self, name):
        return self.page.get_by_role("button", name=name, exact=True)

    def search(self):
        return self.page.get_by_role("searchbox", name="Find")

    def covered_by(self, selector, *others):
        """Those of the others that it covers, in part at least."""
        return self.page.locator(selector).first.evaluate(
            """(one, others) => others.filter((name) => [...document.querySelectorAll(name)].some((other) => {
              const [a, b] = [one, other].map((each) => each.getBoundingClientRect());
              return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
            }))""",
            others,
        )

    def columns(self, kind):
        """How high each column of the timeline is, in thousandths of the lane."""
        path = self.page.locator(f".vmm-lane path.vmm-{kind}").get_attribute("d")
        found, at = [], 1000
        for right, then in re.findall(r"H(\d+)V(\d+)", path):
            found += [1000 - at] * (int(right) - len(found))
            at = int(then)
        return found
