# SPDX-License-Identifier: MIT-0
"""The page of pitfalls can be looked up by error.

Each error that a lesson prints, or that the driver answered to a question about these calls, is in the page's table,
with the names, the number and the text that CUDA gives it. The table leads to each entry, and no link is left without
one, from this page or another.
"""

import json
import pathlib
import re
import subprocess
import sys

import pytest

from docs.tools import fill_pages
from vmmsim.built import BUILT

CUDA = pathlib.Path(BUILT["headers"])
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/pitfalls.md").read_text()
NAME = r"\b(?:CUDA_ERROR_[A-Z_]+|cudaError[A-Z]\w+)"
HEAD, ENTRIES = PAGE.split("\n## Growth", 1)
# The first row of each number: its anchor, its names, its text if it has one.
ROWS = re.findall(r'^\| <a id="(\d+)"></a>(\d+) \| ((?:`\w+`(?:, )?)+)(?:: (.*?)|, since .*?) \| ', HEAD, re.MULTILINE)
# What the header of 13.0 does not have, and the text that the runtime of 13.5 has for it.
LATER = {
    "CUDA_ERROR_MULTICAST_RESOURCE_FULL": 47,
    "CUDA_ERROR_FABRIC_NOT_READY": 919,
    "cudaErrorFabricNotReady": 919,
}
# An entry: one anchor or more, each alone on its line, and the heading.
ANCHORS = r'((?:^<a id="pit-[\w-]+"></a>$\n)+)### '
# A lesson's page, or that of another of its programs, by its name: [01], [growth_cost]. The places named behind it.
PAGES = dict(re.findall(r"^\[(\w+)\]: \.\./(\d\d_\w+/\w+)\.md$", ENTRIES, re.MULTILINE))
PLACE = r"\b((?:step|mistake)s?\s+\d+(?:\s+(?:and|to)\s+\d+)?)"
# Questions about VMM and nothing else: an error of theirs is one that a user of these calls can meet.
CONFORMANCE = ["vmm", "vmm_kernels", "vmm_peers", "address_hints", "granted_memory", "rights_peers", "processes"]


def errors_of_cuda():
    """Number of each error, by the driver's name and by the runtime's."""
    found = dict(LATER)
    for header in "cuda.h", "driver_types.h":
        pairs = re.findall(rf"^ *({NAME}) *= *(\d+)", (CUDA / header).read_text(), re.MULTILINE)
        found.update((name, int(number)) for name, number in pairs)
    return found


def texts_of_the_driver():
    """The text of each number, as the simulated driver has it, which has the real one's."""
    if "vmmsim" not in BUILT:
        pytest.skip("the simulator was not built")
    script = """import ctypes, json
cuda, text = ctypes.CDLL("libcuda.so.1"), ctypes.c_char_p()
print(json.dumps([[n, text.value.decode()] for n in range(1000) if not cuda.cuGetErrorString(n, ctypes.byref(text))]))
"""
    told = subprocess.run([BUILT["vmmsim"], sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return dict(json.loads(told.stdout))


def slug(heading):
    """What a forge, and the book, call a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower()).replace(" ", "-")


def test_each_recorded_error_is_in_the_table():
    outputs = sorted(ROOT.glob("[0-9][0-9]_*/*output.txt"))
    outputs += [ROOT / f"vmmsim/tests/conformance/{name}_expected_output.txt" for name in CONFORMANCE]
    recorded = {name for path in outputs for name in re.findall(NAME, path.read_text())}
    assert "CUDA_ERROR_NOT_PERMITTED" in recorded  # lesson 05 has it: the search finds what it has to
    missing = recorded - {name for row in ROWS for name in re.findall(NAME, row[2])}
    assert not missing, "recorded, and not in the table of docs/pitfalls.md"


def test_names_numbers_and_texts_are_those_of_cuda():
    numbers, texts = errors_of_cuda(), texts_of_the_driver()
    assert len(ROWS) == HEAD.count('<a id="')
    for anchor, number, names, text in ROWS:
        assert anchor == number
        for name in re.findall(r"\w+", names):
            assert numbers.get(name) == int(number), name
        if int(number) not in LATER.values():
            assert text == texts[int(number)], number
    elsewhere = set(re.findall(NAME, PAGE)) - {name for row in ROWS for name in re.findall(NAME, row[2])}
    assert not elsewhere, "on the page, and not in its table"


def test_the_table_is_in_the_order_of_the_numbers():
    numbers = [int(number) for number, *_ in ROWS]
    assert numbers == sorted(set(numbers))


def test_each_entry_is_found_from_the_top():
    linked = set(re.findall(r"\(#(pit-[\w-]+)\)", HEAD))
    entries = [re.findall(r"pit-[\w-]+", anchors) for anchors in re.findall(ANCHORS, ENTRIES, re.MULTILINE)]
    assert len(entries) == ENTRIES.count("\n### ")
    for anchors in entries:
        assert linked & set(anchors), anchors
    anchors = [anchor for entry in entries for anchor in entry]
    assert len(anchors) == len(set(anchors)), "an anchor stands twice"


def test_each_link_to_the_page_leads_somewhere():
    headings = re.findall(r"^##+ (.*)$", PAGE, re.MULTILINE)
    assert len(headings) == len(set(headings)), "a heading stands twice"
    there = {slug(heading) for heading in headings} | set(re.findall(r'<a id="([\w-]+)"></a>', PAGE))
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("[0-9][0-9]_*/*.md"), *ROOT.glob("labs/*.md")]
    links = {(page, name) for page in pages for name in re.findall(r"pitfalls\.md#([\w-]+)", page.read_text())}
    assert len(links) > 40
    links |= {(ROOT / "docs/pitfalls.md", name) for name in re.findall(r"\]\(#([\w-]+)\)", PAGE)}
    assert not {f"{page.relative_to(ROOT)}: {name}" for page, name in links if name not in there}


def test_each_entry_says_what_to_do_and_who_saw_it():
    for entry in re.split(r"^### ", ENTRIES, flags=re.MULTILINE)[1:]:
        text = re.split(r"^(?:## |<a id)", entry, maxsplit=1, flags=re.MULTILINE)[0]
        heading = text.splitlines()[0]
        assert len(text.splitlines()) <= 24, f"{heading}: too long to be looked up"
        if "https://github.com/" in text:
            assert "ᴾ" in text, f"{heading}: a report without its mark"


def test_no_words_of_the_search_lead_to_two_places():
    found = []
    for page in ROOT.glob("docs/*.md"):
        for words in re.findall(r"^<!-- search: (.*) -->$", page.read_text(), re.MULTILINE):
            found += words.lower().split(", ")
    assert len(found) > 200
    assert not {words for words in found if found.count(words) > 1}


def test_each_step_and_mistake_that_is_named_is_there():
    # step 1; steps 2 and 3; mistakes 1 to 4: behind the link to a page, and each a banner of its program.
    found = 0
    for page, places in re.findall(r"\[(\d\d|[a-z]\w+)\](?!:|\()([^\[]*)", ENTRIES):
        directory, name = PAGES[page].split("/")
        lesson = directory[3:]
        for place in re.findall(PLACE, places):
            found += 1
            program = lesson + "_broken" if place.startswith("mistake") else lesson if name == "README" else name
            banners = [str(number) for _, number, _ in fill_pages.banners(ROOT / directory / f"{program}.cu")]
            assert set(re.findall(r"\d+", place)) <= set(banners), f"{program}: {place}"
    assert found > 30
    assert found == len(re.findall(PLACE, ENTRIES)), "one is not behind the link to a page"
    assert not re.findall(r"\bsections?\s+\d+", ENTRIES), "a lesson has steps and mistakes"
