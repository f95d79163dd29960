#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The built book, read without a browser: links_test.py BOOK_DIRECTORY.

Every internal link leads to a file of the book, and to an id in it; no file of the book loads anything from elsewhere;
printable.html needs no other file.
"""

import functools
import pathlib
import re
import sys
import tempfile
import unittest
import urllib.parse

try:
    from bs4 import BeautifulSoup
except ImportError:
    print("SKIP: no beautifulsoup4 for this Python; ./test.sh gets it")
    sys.exit(77)

from docs.tools import class_material

BOOK = pathlib.Path(sys.argv.pop(1)).resolve()
# The root's index.html leads to the first page, and is none.
PAGES = sorted(path for path in BOOK.glob("*/**/*.html") if "_static" not in path.parts)
PAGES += [BOOK / "search.html", BOOK / "printable.html"]


@functools.cache
def soup(page):
    return BeautifulSoup(page.read_text(), "html.parser")


@functools.cache
def ids(page):
    return {element["id"] for element in soup(page).find_all(id=True)}


def fetched(style):
    """The addresses in a style sheet."""
    return re.findall(r"(?:@import\s+|url\(\s*)['\"]?([^'\")\s;]+)", style)


def loaded(page):
    """What a browser fetches to show the page: (element, address)."""
    for element in soup(page).find_all(True):
        for name in ("src", "srcset", "poster", "data", "action"):
            if element.get(name):
                yield element.name, element[name]
        if element.name == "link" or element.name in ("image", "use", "feimage"):  # the latter are SVG's
            address = element.get("href") or element.get("xlink:href")
            if address and not {"next", "prev", "search", "index"} & set(element.get("rel", [])):
                yield element.name, address
        for address in fetched(element.get("style", "")):
            yield element.name, address


class Links(unittest.TestCase):
    def test_there_are_pages(self):
        self.assertGreater(len(PAGES), 8)
        for name in ("docs/index.html", "search.html", "printable.html"):
            self.assertIn(BOOK / name, PAGES)

    def test_every_internal_link_leads_somewhere(self):
        dead, seen = [], 0
        for page in PAGES:
            for link in soup(page).find_all("a", href=True):
                address = urllib.parse.urlsplit(link["href"])
                if address.scheme or address.netloc:
                    self.assertIn(address.scheme, ("http", "https"), f"{page}: {link['href']}")
                    continue
                target = (page.parent / urllib.parse.unquote(address.path)).resolve() if address.path else page
                fragment = urllib.parse.unquote(address.fragment)
                seen += 1
                if not target.is_file() or not target.is_relative_to(BOOK) or fragment and fragment not in ids(target):
                    dead.append(f"{page.relative_to(BOOK)}: {link['href']}")
        self.assertEqual(dead, [])
        self.assertGreater(seen, 100)

    def test_no_page_names_an_element_twice(self):
        for page in PAGES:
            names = [element["id"] for element in soup(page).find_all(id=True)]
            self.assertEqual(sorted({name for name in names if names.count(name) > 1}), [], page)

    def test_nothing_is_loaded_from_elsewhere(self):
        for page in PAGES:
            for element, address in loaded(page):
                if address.startswith(("#", "data:")):
                    continue
                parts = urllib.parse.urlsplit(address)
                self.assertFalse(parts.scheme or parts.netloc, f"{page}: <{element}> loads {address}")
                self.assertTrue((page.parent / parts.path).is_file(), f"{page}: <{element}> wants {address}")
        for style in BOOK.rglob("*.css"):
            for address in fetched(style.read_text()):
                self.assertFalse(urllib.parse.urlsplit(address).netloc, f"{style} loads {address}")

    def test_the_printable_page_needs_no_other(self):
        page = BOOK / "printable.html"
        self.assertEqual([address for _, address in loaded(page) if not address.startswith(("#", "data:"))], [])
        self.assertEqual(soup(page).find_all("script"), [])
        for style in soup(page).find_all("style"):
            self.assertEqual([address for address in fetched(style.text) if not address.startswith(("#", "data:"))], [])
        for link in soup(page).find_all("a", href=True):
            self.assertRegex(link["href"], r"^(#|https?://)", "a link out of the page that is handed out alone")

    def test_what_is_for_a_class(self):
        """Ten slides with a picture each; every question of the lessons and no answer; no file needs another."""
        with tempfile.TemporaryDirectory() as scratch:
            files = {file.stem: file for file in class_material.write_all(pathlib.Path(scratch))}
            for file in files.values():
                self.assertEqual([address for _, address in loaded(file) if not address.startswith("data:")], [])
            slides = soup(files["slides"]).find_all("section")
            self.assertEqual([len(slide.find_all("img")) for slide in slides], 10 * [1])
            asked = " ".join(soup(files["predictions"]).text.split())
        folds = [fold for page in PAGES for fold in soup(page).find_all("details") if fold.find_parent("section")]
        before = [fold for fold in folds if fold.find_parent("section").get("id") == "before-you-run-it"]
        self.assertGreaterEqual(len(before), 14)
        for fold in before:
            question = fold.summary
            self.assertIn(" ".join(question.text.split()), asked)
            self.assertNotIn(" ".join(fold.find("p").text.split()), asked)

    def test_the_printable_page_has_every_page(self):
        text = soup(BOOK / "printable.html").text
        for page in PAGES:
            title = soup(page).find("h1")
            if page.name not in ("search.html", "printable.html"):
                self.assertIn(title.find(string=True), text, page)

    def test_the_pages_lead_to_the_printable_one(self):
        for page in PAGES:
            if page.name != "printable.html":
                links = [link["href"] for link in soup(page).find_all("a", href=True)]
                self.assertTrue(
                    [link for link in links if (page.parent / link).resolve() == BOOK / "printable.html"], page
                )


if __name__ == "__main__":
    unittest.main()
