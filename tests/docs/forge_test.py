# SPDX-License-Identifier: MIT-0
"""The pages that are read on a code forge, as one shows them.

Each is rendered by plain CommonMark with tables. No directive and no role is left over, all links and pictures lead to
something, headings included.
"""

import functools
import pathlib
import re
import urllib.parse

import pytest

BeautifulSoup = pytest.importorskip("bs4", reason="beautifulsoup4 is not installed; ./test.sh gets it").BeautifulSoup
MarkdownIt = pytest.importorskip("markdown_it", reason="markdown-it-py is not installed; ./test.sh gets it").MarkdownIt

ROOT = pathlib.Path(__file__).resolve().parents[2]
LESSONS = sorted(ROOT.glob("[0-9][0-9]_*/README.md"))
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "vmmsim/README.md")]
PAGES += [ROOT / "vmmsim" / part / "README.md" for part in ("simulator", "trace")]
FOLDERS = "[0-9][0-9]_*", "docs", "docs/contributing", "labs", "vmmsim/docs", "vmmsim/docs/decisions"
PAGES += [page for folder in FOLDERS for page in sorted(ROOT.glob(f"{folder}/*.md"))]


@functools.cache
def rendered(page):
    return BeautifulSoup(MarkdownIt("commonmark").enable("table").render(page.read_text()), "html.parser")


@functools.cache
def anchors(page):
    """The names by which a forge leads to the headings of a page."""
    names = []
    for heading in rendered(page).find_all(re.compile("^h[1-6]$")):
        name = re.sub(r"[^\w\- ]", "", heading.get_text().lower()).replace(" ", "-")
        names.append(f"{name}-{names.count(name)}" if name in names else name)
    return names + [element["id"] for element in rendered(page).find_all("a", id=True)]


def test_nothing_is_left_that_only_the_book_knows():
    assert len(LESSONS) > 6
    for page in PAGES:
        soup = rendered(page)
        for block in soup.find_all("pre"):
            language = " ".join(block.code.get("class", []))
            assert re.search(r"^(language-\w+)?$", language), f"{page}: a directive: {block.get_text()[:80]}"
            assert block.get_text().strip(), f"{page}: an empty block"
        for code in soup.find_all("code"):
            code.decompose()
        text = soup.get_text()
        assert not re.search(r"\{[\w:-]+\}|^:[\w-]+:|^\([\w-]+\)=|^:::", text), f"{page}: a directive or a role"
        rendered.cache_clear()


def test_links_and_pictures_lead_somewhere():
    count = 0
    for page in PAGES:
        for element in rendered(page).find_all(["a", "img"]):
            address = urllib.parse.urlparse(element.get("href") or element.get("src") or "")
            if address.scheme:
                continue
            target = (page.parent / urllib.parse.unquote(address.path)).resolve() if address.path else page
            assert target.exists(), f"{page}: {element}"
            assert ROOT in [target, *target.parents], f"{page}: {element} leads out of the checkout"
            if address.fragment and target.suffix == ".md":
                assert address.fragment in anchors(target), f"{page}: {element}"
            count += 1
            if element.name == "img":
                assert len(element.get("alt", "")) > 20, f"{page}: {element}"
    assert count > 100
