#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The built book in a real browser, opened as files: pages_in_browser_test.py BOOK_DIRECTORY SOURCE_DIRECTORY.

Every page at three widths, light and dark: nothing overflows, no error on the console, nothing is fetched from
elsewhere, and axe-core finds no violation of WCAG 2.1 A and AA. Listings are copied as they stand in their files. The
search finds. All of it can be reached by keyboard.
"""

import pathlib
import re
import sys
import unittest

from bs4 import BeautifulSoup

from vmmsim.tests.browser import BrowserTest, PlaywrightError

BOOK, SOURCE = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
PAGES = [*sorted(path for path in BOOK.glob("*/**/*.html") if "_static" not in path.parts), BOOK / "search.html"]
LESSONS = sorted(SOURCE.glob("[0-9][0-9]_*/README.md"))
INDEX = BOOK / "docs" / "index.html"
EVERY_LOOK = [(width, theme) for theme in ("light", "dark") for width in (1440, 820, 390)]
PAPER = {"light": "rgb(255, 255, 255)", "dark": "rgb(19, 20, 22)"}

FOCUS_IS_SEEN = """() => {
  const element = document.activeElement;
  const ring = [element, element.closest(".sidebar-search-container"),
    element.id == "__navigation" && document.querySelector(".nav-overlay-icon"),
    element.id == "__toc" && document.querySelector(".toc-header-icon")];
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.left >= 0 && box.bottom > 0 && box.top < innerHeight &&
    (getComputedStyle(element).opacity > 0 || element.classList.contains("sidebar-toggle")) &&
    ring.some((each) => each && getComputedStyle(each).outlineStyle == "solid");
}"""


def listings(page):
    """The text of each listing of a lesson's page, in order."""
    blocks = re.findall(r"^( *)`{3,}\w*\n(.*?)^ *`{3,}$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [re.sub(f"^{indent}", "", text, flags=re.MULTILINE) for indent, text in blocks]


def searched(page):
    """The text in which the search looks: what is in a view is no text of the page."""
    tree = BeautifulSoup(page.read_text(), "html.parser")
    for view in tree.select(".vmm-view"):
        view.decompose()
    return tree.get_text()


class Book(BrowserTest):
    def test_every_page_fits_and_is_accessible(self):
        self.assertGreater(len(PAGES), 8)
        for file in PAGES:
            with self.subTest(file.relative_to(BOOK)):
                self.open(file)
                for width, theme in EVERY_LOOK if file == INDEX else [(1440, "light"), (820, "light"), (390, "dark")]:
                    self.look(width, theme)
                    self.assertEqual(
                        self.page.evaluate("getComputedStyle(document.body).backgroundColor"), PAPER[theme]
                    )
                    self.expect_no_overflow()
                    if file == INDEX or width != 820:
                        self.expect_accessible(views=False)  # view_in_browser_test.py looks at these
                self.assertEqual(self.problems, [])
            self.problems.clear()

    def test_the_printable_page(self):
        self.open(BOOK / "printable.html")
        for width in (1440, 820, 390):
            self.look(width, "light")
            self.expect_no_overflow()
        # The chapters are the pages, which have been looked at: two of them stand for all.
        self.page.eval_on_selector_all(".chapter:nth-of-type(n + 3)", "all => all.forEach((each) => each.remove())")
        self.expect_accessible()
        self.open(BOOK / "printable.html")
        self.page.emulate_media(media="print")
        self.look(680, "light")  # the 180 mm between the margins of A4
        self.expect_no_overflow()
        columns = self.page.locator("pre").first.evaluate("""(pre) => {
          const style = getComputedStyle(pre), probe = document.createElement("span");
          probe.textContent = "0".repeat(100);
          pre.append(probe);
          const one = probe.getBoundingClientRect().width / 100;
          return (pre.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)) / one;
        }""")
        self.assertGreater(columns, 120, "columns of code on paper")
        breaks = self.page.eval_on_selector_all(
            ".chapter", "all => all.map((each) => getComputedStyle(each).breakBefore)"
        )
        self.assertEqual(set(breaks), {"page"})

    def test_pages_print_without_what_surrounds_them(self):
        self.open(BOOK / "01_vmm_basics" / "README.html")
        self.page.emulate_media(media="print", color_scheme="dark")
        self.look(680, "dark")
        self.expect_no_overflow()
        answer = self.page.locator("details .highlight").first
        self.assertTrue(answer.evaluate("(it) => it.checkVisibility()"), "an answer is not printed")
        for selector in (".sidebar-drawer", ".toc-drawer", ".copybtn", ".mobile-header", ".skip-to-content"):
            self.assertFalse(self.page.locator(selector).first.is_visible(), selector)
        self.assertEqual(self.page.evaluate("getComputedStyle(document.body).backgroundColor"), PAPER["light"])

    def test_listings_copy_as_they_stand_in_their_files(self):
        self.assertTrue(LESSONS)
        for lesson in LESSONS:
            self.open(BOOK / lesson.parent.name / "README.html")
            self.page.evaluate("document.querySelectorAll('details').forEach((it) => { it.open = true; })")
            buttons, wanted = self.page.locator(".copybtn"), listings(lesson)
            copied = self.copies(buttons)
            self.assertEqual(self.copy(buttons.last), copied[-1], "a click of the mouse")
            self.assertEqual(len(copied), len(wanted), lesson)
            for number, (text, meant) in enumerate(zip(copied, wanted, strict=True), 1):
                self.assertEqual(text.rstrip("\n"), meant.rstrip("\n"), f"{lesson}, listing {number}")

    def test_the_search_finds(self):
        word = "CUDA_ERROR_NOT_PERMITTED"
        self.open(INDEX)
        self.page.locator(".sidebar-search").click()
        self.page.keyboard.type(word)
        self.page.keyboard.press("Enter")
        self.page.wait_for_url("**/search.html?*")
        self.page.wait_for_function(
            "document.querySelector('.search-summary')?.textContent.match(/found|did not match/)"
        )
        found = self.page.eval_on_selector_all("ul.search li a", "all => all.map((link) => link.href.split(/[?#]/)[0])")
        told = {page.as_uri() for page in PAGES if word in searched(page)}
        self.assertTrue(told, f"no page speaks of {word}")
        self.assertEqual(set(found), told)
        self.expect_accessible()
        self.expect_no_overflow()
        self.page.locator("ul.search li a").first.click()
        self.page.wait_for_url(found[0])
        self.assertIn(word, self.page.locator("article").inner_text())

    def expect_focus_is_seen(self):
        try:
            self.page.wait_for_function(FOCUS_IS_SEEN, timeout=5000)
        except PlaywrightError:
            self.fail("the focus is not seen on " + self.focused("(element) => element.outerHTML.slice(0, 200)"))

    def stops(self, limit=200):
        """Where Tab stops on the page, by class or tag, with the focus seen at each."""
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
        self.fail("Tab does not come to an end")

    def test_all_can_be_reached_by_keyboard(self):
        self.open(BOOK / "01_vmm_basics" / "README.html")
        self.page.locator("summary").first.focus()
        self.page.keyboard.press("Enter")
        self.assertTrue(self.page.locator("details").first.evaluate("(it) => it.open"), "Enter opens no answer")
        self.open(BOOK / "01_vmm_basics" / "README.html")
        self.page.evaluate("document.querySelectorAll('details').forEach((it) => { it.open = true; })")
        self.assertEqual(
            self.page.evaluate("getComputedStyle(document.documentElement).scrollBehavior"), "auto", "with less motion"
        )
        stops = self.stops()
        self.assertEqual(stops.count("SUMMARY"), self.page.locator("summary").count())
        order = [
            stops.index(name)
            for name in (
                "skip-to-content muted-link",
                "sidebar-search",
                "current reference internal",
                "theme-toggle",
                "copybtn o-tooltip--left",
                "next-page",
            )
        ]
        self.assertEqual(order, sorted(order), stops)
        self.assertEqual(stops.count("copybtn o-tooltip--left"), self.page.locator(".copybtn").count())

        self.open(BOOK / "01_vmm_basics" / "README.html")
        self.page.keyboard.press("Tab")
        self.page.keyboard.press("Enter")  # the skip link
        self.page.keyboard.press("Tab")
        self.assertTrue(self.focused("(element) => Boolean(element.closest('article'))"), "the skip link skips nothing")

    def test_a_phone_with_a_keyboard(self):
        self.open(BOOK / "01_vmm_basics" / "README.html", width=390)
        stops = self.stops()
        self.assertEqual(stops[:3], ["__navigation", "__toc", "skip-to-content muted-link"])
        self.assertNotIn("sidebar-search", stops, "the side bar is put away")
        wide = self.page.eval_on_selector_all(
            "pre:not(details:not([open]) pre)", "all => all.filter((pre) => pre.scrollWidth > pre.clientWidth).length"
        )
        self.assertGreater(wide, 3)
        self.assertEqual(stops.count("PRE"), wide, "listings that scroll are stops, and no others")

        self.open(BOOK / "01_vmm_basics" / "README.html", width=390)
        self.page.keyboard.press("Tab")
        self.page.keyboard.press("Space")
        self.assertIn("sidebar-search", self.stops())
        self.page.keyboard.press("Escape")
        self.assertEqual(self.page.evaluate("document.querySelectorAll('.sidebar-toggle:checked').length"), 0)

        self.page.locator("pre[tabindex]").first.focus()
        self.page.keyboard.press("ArrowRight")
        self.page.wait_for_function("document.activeElement.scrollLeft > 0")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
