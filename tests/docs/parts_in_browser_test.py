# SPDX-License-Identifier: MIT-0
"""What a page can hold, on the page of sample/, built as the book is.

Pictures take the colours of the theme that the page shows, and are named by their alt text. Of a console
session the commands are copied. Tabs are changed by keyboard, and paper shows them all.
"""

import io
import pathlib
import shutil
import subprocess
import sys

from PIL import Image, ImageChops, ImageStat

from docs.tools import draw_view
from vmmsim.testing import sample
from vmmsim.testing.browser import BrowserTest, skip

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SAMPLE = pathlib.Path(__file__).resolve().parent / "sample"
FIRST, OTHER, AGAIN = "A range, half of it mapped to GPU 0", "Another, mapped to GPU 1", "The first once more"

FIRST_OF_VMM = 2  # of the sample: a reservation

PAGE_OF_VIEWS = """---
orphan: true
---
# Two programs

Here they are.

<!-- view: one.jsonl -->

## The other

<!-- view: two.jsonl -->

## Both

<!-- view: one.jsonl two.jsonl -->

## One that was not made

<!-- view: no_such_program -->
"""


def build(source, to):
    return subprocess.run(
        [sys.executable, "-B", "-m", "sphinx", "-q", "-W", "--keep-going", "-c", SOURCE / "docs", source, to],
        capture_output=True,
        text=True,
    )


def test_the_readmes_pictures_of_the_view_are_todays(tmp_path):
    """They have the words, and from afar the look; letters differ between machines."""
    if not shutil.which("chromium"):
        skip("there is no chromium; install it (apt-get install chromium)")
    draw_view.draw(tmp_path)
    for name in ("view.png", "view_dark.png"):
        drawn, kept = (Image.open(place / name) for place in (tmp_path, SOURCE / "docs/pictures"))
        again = f"{name} is old: .venv/bin/python3 -m docs.tools.draw_view"
        assert drawn.text["Description"] == kept.text["Description"], again
        assert drawn.size == kept.size, again
        from_afar = [each.convert("RGB").resize((58, 38)) for each in (drawn, kept)]
        assert max(ImageStat.Stat(ImageChops.difference(*from_afar)).mean) < 4, again


class TestParts(BrowserTest):
    @classmethod
    def setup_class(cls):
        super().setup_class()
        cls.scratch = cls.scratch_directory()
        source = shutil.copytree(SAMPLE, cls.scratch / "source")
        for name in ("one", "two"):
            sample.short().write(source / "docs" / f"{name}.jsonl")
        (source / "docs" / "views.md").write_text(PAGE_OF_VIEWS)
        done = build(source, cls.scratch / "book")
        assert done.returncode == 0 and not done.stderr, done.stderr

    def setup_method(self):
        super().setup_method()
        self.open(self.scratch / "book" / "docs" / "index.html")

    def colours(self):
        """Of the middle of the memory in each picture."""
        found = []
        for name in (FIRST, OTHER, AGAIN):
            shot = io.BytesIO(self.page.get_by_role("img", name=name, exact=True).screenshot())
            found.append(Image.open(shot).convert("RGB").getpixel((100, 15)))
        return found

    def test_pictures_follow_the_theme(self):
        light, dark = [(63, 149, 210), (218, 120, 35), (63, 149, 210)], [(38, 109, 161), (159, 88, 26), (38, 109, 161)]
        assert self.colours() == light
        self.page.emulate_media(color_scheme="dark")
        assert self.colours() == dark
        self.page.emulate_media(color_scheme="light")
        for _ in range(3):  # the button goes through automatic, dark and light
            if self.page.evaluate("document.body.dataset.theme") != "dark":
                self.page.locator(".theme-toggle:visible").click()
        assert self.colours() == dark
        self.page.emulate_media(media="print")
        assert self.colours() == light
        self.page.evaluate("localStorage.clear()")

    def test_a_table_of_two_columns_is_a_list_on_a_phone(self):
        cells = [self.page.locator("table").last.locator("td").nth(number) for number in (0, 1)]
        for width, is_below in ((1440, False), (390, True)):
            self.look(width, "light")
            first, second = (cell.bounding_box() for cell in cells)
            assert (second["y"] >= first["y"] + first["height"]) == is_below, width

    def test_pictures_fit_a_phone_and_are_no_larger_than_they_were_drawn(self):
        widths = "all => all.map((each) => Math.round(each.getBoundingClientRect().width))"
        drawn = self.page.eval_on_selector_all("article img", widths)
        self.look(390, "light")
        self.expect_no_overflow()
        room = self.page.locator("article p").first.evaluate("(it) => it.clientWidth")
        fitting = self.page.eval_on_selector_all("article img", widths)
        assert fitting == [min(width, room) for width in drawn]
        assert len(set(fitting)) > 1
        self.expect_accessible()
        self.look(390, "dark")
        self.expect_accessible()

    def test_of_a_console_session_the_commands_are_copied(self):
        assert self.copy(self.page.locator(".copybtn").first) == "./run.sh 01 \\\n    --sim\nls"

    def test_two_views_on_a_page_work(self):
        book = self.scratch / "book"
        self.page.goto((book / "docs" / "views.html").as_uri() + "#two-step=9")
        self.page.wait_for_function("document.querySelectorAll('.vmm-live').length == 2")
        self.expect_steps(FIRST_OF_VMM, 9)
        assert self.page.locator(".vmm-list:visible").count() == 0, "the lists are folded"
        self.page.locator(".vmm-calls summary").first.click()
        beside, calls = (self.page.locator(name).first.bounding_box() for name in (".vmm-columns", ".vmm-list"))
        assert calls["y"] + calls["height"] <= beside["y"] + beside["height"], "the list hides the page"
        chosen = self.page.locator(".vmm-list [aria-selected=true]").first
        assert chosen.get_attribute("data-number") == str(FIRST_OF_VMM)
        self.page.locator(".vmm-list").first.press("ArrowRight")
        self.page.wait_for_url(f"**#one-step={FIRST_OF_VMM + 1}")
        self.expect_steps(FIRST_OF_VMM + 1, 9)
        self.page.locator(".vmm-both .vmm-about a").nth(1).click()
        self.expect_steps(FIRST_OF_VMM + 1, 1)
        assert "./run.sh --view build/bin/no_such_program" in self.page.locator(".vmm-absent").inner_text()
        assert self.page.evaluate("window.hacked ?? null") is None, "what was recorded has run"
        for width, theme, ink in ((1440, "light", "rgb(20, 24, 29)"), (390, "dark", "rgb(243, 245, 247)")):
            self.look(width, theme)
            self.expect_no_overflow()
            fill = self.page.locator(".vmm-scroll text").first.evaluate("(text) => getComputedStyle(text).fill")
            assert fill == ink, "the theme does not reach the picture"
        self.expect_accessible()
        self.page.emulate_media(media="print")
        assert self.page.locator(".vmm-scroll svg").first.is_visible()
        assert self.page.locator(".vmm-side:visible").count() == 0
        # What is found and printed is the text.
        assert "cumemaddressreserv" not in (book / "_static" / "search_index.js").read_text().lower()

    def expect_steps(self, *numbers):
        """A view follows its link when the browser says that it was followed, which may be after a click."""
        wanted = [f"step {number} of {len(sample.short().lines)}" for number in numbers]
        shown = "[...document.querySelectorAll('.vmm-number')].map((each) => each.innerText).join()"
        self.page.wait_for_function(f"(wanted) => {shown} == wanted", arg=",".join(wanted))
