# SPDX-License-Identifier: MIT-0
"""The built book in a real browser, opened as files.

Every page wide and light, and on a phone and dark: nothing overflows, no error on the console, nothing is fetched from
elsewhere, and axe-core finds no violation of WCAG 2.1 A and AA. A listing is copied as it stands in its file. All of it
can be reached by keyboard.
"""

import pathlib

import pytest

from docs.tools.fill_pages import listings
from vmmsim.built import BUILT
from vmmsim.testing.browser import BrowserTest, PlaywrightError, ViewTest
from vmmsim.trace import Recording

BOOK, SOURCE = pathlib.Path(BUILT["build"]) / "book", pathlib.Path(__file__).resolve().parents[2]
PAGES = [*sorted(path for path in BOOK.glob("*/**/*.html") if "_static" not in path.parts), BOOK / "search.html"]
INDEX, FIRST = BOOK / "docs" / "index.html", BOOK / "01_vmm_basics" / "README.html"
FOLDED = BOOK / "docs" / "performance.html"  # a page with what is folded
PAPER = {"light": "rgb(255, 255, 255)", "dark": "rgb(19, 20, 22)"}

# What axe measures contrast of: each look of a text once, and none that was seen on an earlier page. What is in a view,
# view_in_browser_test.py looks at.
MARK_NEW_LOOKS = """(seen) => {
  const looks = new Set(seen), fresh = [];
  for (const element of document.querySelectorAll("body *")) {
    if (![...element.childNodes].some((node) => node.nodeType == 3 && node.data.trim())) continue;
    if (element.closest(".vmm-steps, svg") || !element.checkVisibility()) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(element), look = [color, fontSize, fontWeight];
    for (let each = element; each && !/^rgb\\(/.test(look.at(-1)); each = each.parentElement) {
      const { opacity, backgroundColor } = getComputedStyle(each);
      if (opacity != 1 || each == element) look.push(opacity);
      if (backgroundColor != "rgba(0, 0, 0, 0)") look.push(backgroundColor);
    }
    if (looks.has(look.join())) continue;
    looks.add(look.join());
    fresh.push(look.join());
    element.setAttribute("data-new-look", "");
  }
  return fresh;
}"""

FOCUS_IS_SEEN = """() => {
  const element = document.activeElement;
  const ring = [element, element.closest(".sidebar-search-container, .vmm-timeline"),
    element.id == "__navigation" && document.querySelector(".nav-overlay-icon"),
    element.id == "__toc" && document.querySelector(".toc-header-icon")];
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.left >= 0 && box.bottom > 0 && box.top < innerHeight &&
    (getComputedStyle(element).opacity > 0 || element.matches(".sidebar-toggle, .vmm-timeline input")) &&
    ring.some((each) => each && getComputedStyle(each).outlineStyle == "solid");
}"""
UNFOLD = "document.querySelectorAll('details').forEach((it) => { it.open = true; })"


class TestBook(BrowserTest):
    def test_every_page_fits_and_is_accessible(self, subtests):
        assert len(PAGES) > 8
        seen = []
        for file in PAGES:
            with subtests.test(file.relative_to(BOOK)):
                self.open(file)
                for width, theme in ((1440, "light"), (390, "dark")):
                    self.look(width, theme)
                    paper = self.page.evaluate("getComputedStyle(document.body).backgroundColor")
                    assert paper == PAPER[theme]
                    self.expect_no_overflow()
                    self.expect_readable(seen)
                    if file == INDEX or width == 1440:
                        sides = [] if file == INDEX else [[".sidebar-drawer"], ["footer"]]  # the same on every page
                        self.expect_accessible(exclude=[[".vmm-steps"], *sides], without=["color-contrast"])
                    else:
                        self.expect_accessible(["scrollable-region-focusable"], least=0)
                assert self.problems == []
            self.problems.clear()
        assert len(seen) > 20, "looks of texts"

    def expect_readable(self, seen):
        """The contrast of texts whose look was not seen before."""
        fresh = self.page.evaluate(MARK_NEW_LOOKS, seen)
        if fresh:
            self.expect_accessible(include=[["[data-new-look]"]], rules=["color-contrast"], least=1)
            self.page.eval_on_selector_all(
                "[data-new-look]", "all => all.forEach((each) => each.removeAttribute('data-new-look'))"
            )
        seen += fresh

    def test_back_to_top_leaves_the_strip_of_a_view_free(self):
        for width in (1280, 390):
            self.open(FIRST, width)
            self.page.locator(".vmm-timeline").evaluate("(it) => it.scrollIntoView()")
            for step in (40, -40):  # the button comes when one scrolls up
                self.page.evaluate(
                    """async (step) => {
                      scrollBy(0, step);
                      for (let frame = 0; frame < 4; ++frame) await new Promise(requestAnimationFrame);
                    }""",
                    step,
                )
            self.page.locator(".back-to-top").wait_for()
            upper, timeline = (self.page.locator(each).bounding_box() for each in (".back-to-top", ".vmm-timeline"))
            assert -1 < timeline["y"] < 200, "the timeline is where the button was"
            assert timeline["y"] + timeline["height"] < upper["y"], width

    def test_pages_print_without_what_surrounds_them(self):
        self.open(FOLDED)
        self.page.emulate_media(media="print", color_scheme="dark")
        folded = self.page.locator("article details table").first
        assert folded.evaluate("(it) => it.checkVisibility()"), "what is folded is not printed"
        self.open(FIRST)
        self.page.emulate_media(media="print", color_scheme="dark")
        self.look(680, "dark")
        self.expect_no_overflow()
        for selector in (".sidebar-drawer", ".toc-drawer", ".copybtn", ".mobile-header", ".skip-to-content", ".vmm-to"):
            assert not self.page.locator(selector).first.is_visible(), selector
        assert self.page.evaluate("getComputedStyle(document.body).backgroundColor") == PAPER["light"]

    def test_listings_copy_as_they_stand_in_their_files(self):
        """Of one lesson; that all pages show them so, links_test.py holds."""
        self.open(FIRST)
        self.page.evaluate(UNFOLD)
        buttons, wanted = self.page.locator(".copybtn"), listings(SOURCE / "01_vmm_basics" / "README.md")
        copied = self.copies(buttons)
        assert self.copy(buttons.last) == copied[-1], "a click of the mouse"
        assert [text.rstrip("\n") for text in copied] == [text.rstrip("\n") for text in wanted]

    def expect_focus_is_seen(self):
        if self.page.evaluate(f"({FOCUS_IS_SEEN})()"):
            return
        try:
            self.page.wait_for_function(FOCUS_IS_SEEN, timeout=5000)
        except PlaywrightError:
            pytest.fail("the focus is not seen on " + self.focused("(element) => element.outerHTML.slice(0, 200)"))

    def come_to_the_box(self):
        """Until then it is a listing."""
        if (BOOK / "_static" / "try_it_machine.js").exists():
            self.page.locator(".try-it").scroll_into_view_if_needed()
            self.page.wait_for_selector(".try-it.is-ready .try-it-answers li")

    def stops(self, until="", limit=250):
        """Where Tab stops on the page, by class or tag, with the focus seen at each; up to one, or all."""
        found = []
        while len(found) < limit:
            self.page.keyboard.press("Tab")
            where = self.focused(
                "(element) => element == document.body ? '' : element.id.startsWith('__') ? element.id :"
                "element.className || element.tagName"
            )
            if not where:
                return found
            self.expect_focus_is_seen()
            found.append(where)
            if where == until:
                return found
        pytest.fail("Tab does not come to an end")

    def test_all_can_be_reached_by_keyboard(self):
        self.open(FOLDED)
        folded = self.page.locator("article details").first
        was_open = folded.evaluate("(it) => it.open")
        folded.locator("summary").focus()
        self.page.keyboard.press("Enter")
        assert folded.evaluate("(it) => it.open") != was_open, "Enter folds and unfolds nothing"
        self.open(FIRST)
        self.page.evaluate(UNFOLD)
        less = self.page.evaluate("getComputedStyle(document.documentElement).scrollBehavior")
        assert less == "auto", "with less motion"
        self.come_to_the_box()
        stops = self.stops()
        assert stops.count("SUMMARY") == self.page.locator("summary:visible").count()
        names = ["skip-to-content muted-link", "sidebar-search", "current reference internal", "theme-toggle"]
        order = [stops.index(name) for name in [*names, "copybtn o-tooltip--left", "next-page"]]
        assert order == sorted(order), stops
        assert stops.count("copybtn o-tooltip--left") == self.page.locator(".copybtn").count()

        self.open(FIRST)
        self.page.keyboard.press("Tab")
        self.page.keyboard.press("Enter")  # the skip link
        self.page.keyboard.press("Tab")
        assert self.focused("(element) => Boolean(element.closest('article'))"), "the skip link skips nothing"

    def test_listings_of_120_columns_fit(self):
        for width in (1440, 1439, 1366, 1313, 1280, 1200):
            self.open(BOOK / "docs" / "paste.html", width=width)
            all_and_wide = self.page.eval_on_selector_all(
                "pre", "all => [all.length, all.filter((pre) => pre.scrollWidth > pre.clientWidth).length]"
            )
            assert all_and_wide[0] > 20 and all_and_wide[1] == 0, f"{width}: {all_and_wide}"

    def test_a_view_fits_between_the_side_bars(self):
        self.open(FIRST)
        for width in (1440, 1439, 1366, 1320, 1313, 1312):
            self.look(width, "light")
            self.expect_no_overflow()

    def test_on_a_phone_each_error_leads_to_its_entries(self):
        self.open(BOOK / "docs" / "pitfalls.html", width=390)
        links = self.page.locator("#by-error td:last-child a")
        places = links.evaluate_all(
            "all => all.map((it) => [...it.getClientRects()].map((box) => [box.left, box.right]))"
        )
        assert len(places) > 50
        assert all(0 <= left < right <= 390 for place in places for left, right in place)
        assert all(places), "a link is not shown"

    def test_a_phone_with_a_keyboard_reaches_all(self):
        self.open(FIRST, width=390)
        assert self.page.locator(".mobile-header .brand").inner_text() == "01 VMM basics"
        self.come_to_the_box()
        stops = self.stops()
        assert stops[:3] == ["__navigation", "__toc", "skip-to-content muted-link"]
        assert "sidebar-search" not in stops, "the side bar is put away"
        wide = self.page.eval_on_selector_all(
            "pre:not(details:not([open]) pre)", "all => all.filter((pre) => pre.scrollWidth > pre.clientWidth).length"
        )
        assert wide > 3
        assert stops.count("PRE") == wide, "listings that scroll are stops, and no others"

        self.open(FIRST, width=390)
        self.page.keyboard.press("Tab")
        self.page.keyboard.press("Space")
        assert self.stops("sidebar-search")[-1] == "sidebar-search"
        self.page.keyboard.press("Escape")
        assert self.page.evaluate("document.querySelectorAll('.sidebar-toggle:checked').length") == 0

        self.page.locator("pre[tabindex]").first.focus()
        self.page.keyboard.press("ArrowRight")
        self.page.wait_for_function("document.activeElement.scrollLeft > 0")


class TestRecording(ViewTest):
    def test_a_fault_of_a_real_program_is_seen(self):
        """Nothing hides it, nothing is cut without a sign of that, and what is left out has its colour."""
        recorded = SOURCE / "docs" / "recordings" / "generate.jsonl.gz"
        file, _ = self.page_of(Recording.read(recorded), "generate")
        self.at("", file, width=1280)
        assert self.page.locator(".vmm-number").inner_text() == "step 2867 of 2868 at 1.0125 s, 148 ms after 2866"
        assert self.button("✖ errors (2)").is_visible(), "a refusal that is answered counts as an error"
        assert self.page.locator(".vmm-ran").inner_text().strip().startswith("query, *new = into(state)")
        functions = self.page.locator(".vmm-callers li b").all_inner_texts()
        assert (functions[1], functions[-1]) == ("cublasLtMatmul", "generate.py")
        rest = self.page.locator(".vmm-scroll rect:has(+ text:text('15 more'))")
        assert rest.get_attribute("class") == "vmm-box vmm-gpu0"
        cut = "(all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
        for width in 1280, 390:
            self.page.set_viewport_size({"width": width, "height": 900})
            wide = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
            assert self.page.evaluate(wide) == 0, "the page scrolls sideways"
            self.page.locator(".vmm-over").hover(position={"x": 90, "y": 20})
            for over in ".vmm-cursor", ".vmm-pointed":
                assert self.covered_by(over, ".vmm-axis i") == []
            assert self.covered_by(".vmm-timeline .vmm-tip", ".vmm-lane", ".vmm-axis", ".vmm-tools button") == []
            self.page.locator(".vmm-scroll [data-about]").first.hover(position={"x": 9, "y": 2})
            assert self.covered_by(".vmm-sight .vmm-tip", ".vmm-caption") == []
            assert self.page.locator("[role=option]").evaluate_all(cut) == [], f"{width} pixels"
            rects = (rest.evaluate(f"(it) => {it}.getBoundingClientRect().toJSON()") for it in ("it", "it.nextSibling"))
            box, words = rects
            assert box["x"] < words["x"] and words["x"] + words["width"] < box["x"] + box["width"], f"{width} pixels"
            names = self.page.locator(".vmm-launched .vmm-brief span:nth-child(2)")
            assert "mentwise_kernel<FillFunctor<Half>>" in names.all_inner_texts()
            assert names.evaluate_all(cut) == [], f"{width} pixels: the end of a kernel's name is cut"
            assert self.page.locator(".vmm-source").bounding_box()["height"] > 70
