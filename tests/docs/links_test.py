# SPDX-License-Identifier: MIT-0
"""The built book, read without a browser.

Every internal link leads to a file of the book, and to an id in it or a step of a view; no file of the book loads
anything from elsewhere.
"""

import base64
import functools
import json
import pathlib
import re
import tempfile
import urllib.parse
import zlib

import pytest

try:
    from bs4 import BeautifulSoup
except ImportError:
    pytest.skip("no beautifulsoup4 for this Python; ./test.sh gets it", allow_module_level=True)

from docs.tools import class_material
from docs.tools.fill_pages import listings, step_lines
from vmmsim.built import BUILT

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOOK = pathlib.Path(BUILT["build"]) / "book"
# The root's index.html leads to the first page, and is none.
PAGES = sorted(path for path in BOOK.glob("*/**/*.html") if "_static" not in path.parts)
PAGES += [BOOK / "search.html"]


@functools.cache
def soup(page):
    return BeautifulSoup(page.read_text(), "html.parser")


def calls(view):
    """Of each step of a view: (where it is called, what led there)."""
    columns = json.loads(zlib.decompress(base64.b64decode(view.script.string)))["columns"]
    return list(zip(columns["place"], columns["led_there"], strict=True))


@functools.cache
def ids(page):
    """What a link to a part of the page may name: an element, a step of a view, or what is held there."""
    names = {element["id"] for element in soup(page).find_all(id=True)}
    for view in soup(page).select(".vmm-view"):
        steps = [f"{view['data-key']}={number}" for number, _ in enumerate(calls(view), 1)]
        names |= {*steps, *(f"{step},held" for step in steps)}
    return names


def plain(text):
    """On one line, with the quotation marks that were typed: the book has others."""
    return " ".join(text.split()).translate(str.maketrans("’‘“”", "''\"\""))


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


def test_every_internal_link_leads_somewhere():
    dead, seen = [], 0
    for page in PAGES:
        for link in soup(page).find_all("a", href=True):
            address = urllib.parse.urlsplit(link["href"])
            if address.scheme or address.netloc:
                assert address.scheme in ("http", "https"), f"{page}: {link['href']}"
                continue
            target = (page.parent / urllib.parse.unquote(address.path)).resolve() if address.path else page
            fragment = urllib.parse.unquote(address.fragment)
            seen += 1
            if not target.is_file() or not target.is_relative_to(BOOK) or fragment and fragment not in ids(target):
                dead.append(f"{page.relative_to(BOOK)}: {link['href']}")
    assert dead == []
    assert seen > 100


def test_each_step_of_a_lesson_leads_to_its_place_in_the_view():
    """At a call of the lines that the page shows; a step that makes no call has no link."""
    views = [page for page in PAGES if re.match(r"\d\d_", page.parent.name) and soup(page).select(".vmm-view")]
    for page in views:
        name = page.parent.name[3:]
        parts = step_lines(ROOT / page.parent.name / f"{name}.cu")
        found = calls(soup(page).select_one(".vmm-view"))

        def step_of(step, name=name, parts=parts):
            place, led_there = step
            places = [place[:2], *(place.split(":") for place in led_there)]
            at = [int(line) for file, line in places if file == f"{name}.cu"]
            return next((number for line in at for number, lines in parts.items() if line in lines), None)

        linked = {}
        for heading in soup(page).find_all("h2"):
            for link in heading.parent.select(".vmm-to a"):
                title = heading.find(string=True)
                assert title not in linked, page
                linked[title] = step_of(found[int(link["href"].partition("=")[2]) - 1])
                assert f"[{linked[title]}]" == title.split()[0], page
        assert set(linked.values()) == set(map(step_of, found)) - {None}, page


def test_listings_stand_as_in_their_files():
    """What the copy buttons take; of a line that begins with a prompt they would take the rest."""
    for lesson in sorted(ROOT.glob("[0-9][0-9]_*/README.md")):
        blocks = soup(BOOK / lesson.parent.name / "README.html").select("article :not(.try-it) > .highlight > pre")
        assert [pre.get_text() for pre in blocks] == listings(lesson), lesson
        code = soup(BOOK / lesson.parent.name / "README.html").select("[class*=highlight-cuda] pre")
        assert len(code) > 5, lesson
        assert [pre.get_text() for pre in code if re.search(r"(?m)^\$ ", pre.get_text())] == [], lesson


def test_no_page_names_an_element_twice():
    for page in PAGES:
        names = [element["id"] for element in soup(page).find_all(id=True)]
        assert sorted({name for name in names if names.count(name) > 1}) == [], page


def test_nothing_is_loaded_from_elsewhere():
    for page in PAGES:
        for element, address in loaded(page):
            if address.startswith(("#", "data:")):
                continue
            parts = urllib.parse.urlsplit(address)
            assert not (parts.scheme or parts.netloc), f"{page}: <{element}> loads {address}"
            assert (page.parent / parts.path).is_file(), f"{page}: <{element}> wants {address}"
    for style in BOOK.rglob("*.css"):
        for address in fetched(style.read_text()):
            assert not urllib.parse.urlsplit(address).netloc, f"{style} loads {address}"


def test_what_is_for_a_class_needs_no_other_file():
    """Ten slides with a picture each, and what to say; every question of the lessons and no answer, and the answers
    by themselves; no file needs another."""
    with tempfile.TemporaryDirectory() as scratch:
        files = {file.stem: file for file in class_material.write_all(pathlib.Path(scratch))}
        for file in files.values():
            assert [address for _, address in loaded(file) if not address.startswith("data:")] == []
        slides = soup(files["slides"]).find_all("section")
        assert [len(slide.find_all("img")) for slide in slides] == 10 * [1]
        assert sum("./lab.sh" in slide.text for slide in slides) >= 9
        said = [line.text for line in soup(files["notes"]).find_all("p") if line.text.startswith("Say: ")]
        assert len(said) == 10
        for line in said:
            assert line.removeprefix("Say: ") not in soup(files["slides"]).text
        asked, answers = (" ".join(soup(files[name]).text.split()) for name in ("predictions", "answers"))
    lessons = [soup(BOOK / page.parent.name / "README.html") for page, _ in class_material.lessons()]
    assert len(lessons) == len(list(ROOT.glob("[0-9][0-9]_*/README.md")))
    for lesson in lessons:
        for question in lesson.select("section#run-it > ol")[0].select("li"):
            assert plain(question.text) in plain(asked)
    for page in sorted(ROOT.glob("[0-9][0-9]_*/README.md")):
        for question, answer in zip(class_material.questions(page), class_material.answers_of(page), strict=True):
            both = [
                plain(BeautifulSoup(class_material.markdown(text), "html.parser").text) for text in (question, answer)
            ]
            assert " ".join(both) in plain(answers), page
            assert both[1] not in plain(asked), page


def test_all_that_the_search_finds_is_there():
    """Each section, and each row of a table that has a name of its own."""
    index = (BOOK / "_static" / "search_index.js").read_text().removeprefix("const sectionsOfBook = ")
    found = json.loads(index.rstrip(";\n"))
    rows = 0
    for section in found:
        page, _, name = section["address"].partition("#")
        anchors = [line[1] for line in section["lines"] if len(line) > 1]
        rows += len(anchors)
        assert {*filter(None, [name]), *anchors} <= ids(BOOK / page), section["address"]
    assert len(found) > 300 and rows > 20
