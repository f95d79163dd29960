# SPDX-License-Identifier: MIT-0
"""The page of the calls against the header and other pages.

docs.listings holds the lessons that call each function. What is newer than the header, the page says in its last table;
run it with the headers of a later toolkit too.
"""

import pathlib
import re

from vmmsim.built import BUILT

ROOT, INCLUDE = pathlib.Path(__file__).resolve().parents[2], pathlib.Path(BUILT["headers"])
PAGE = (ROOT / "docs/calls.md").read_text()
ENTRIES = dict(re.findall(r"^### (cu\w+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
HEADER = (INCLUDE / "cuda.h").read_text()
RUNTIME = (INCLUDE / "cuda_runtime_api.h").read_text()
VERSION = int(re.search(r"#define CUDA_VERSION (\d+)", HEADER)[1])
BESIDE = {"cuMemGetAddressRange", "cuMemGetHandleForAddressRange", "cuPointerGetAttribute"}  # of other groups


def number(version):
    major, minor = version.split(".")
    return int(major) * 1000 + int(minor) * 10


def table_below(heading):
    """The rows of the first table below a heading, without its own two: a list of cells each."""
    text = PAGE[PAGE.index(f"\n## {heading}\n") :]
    lines = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def calls_in(text):
    return re.findall(r"`(cu(?:Mem|Multicast|Pointer)\w+)`", text)


NEWER = {name: number(row[0]) for row in table_below("Since 13.1") for name in re.findall(r"`((?:CU|cu)\w+)", str(row))}
NEWER = {
    name: version for name, version in NEWER.items() if name != "CUDA_FABRIC_INIT_TIMEOUT_MS"
}  # of the environment


def group(name):
    section = re.search(rf"\\defgroup {name} .*?END {name}\b", HEADER, re.DOTALL)[0]
    return set(re.findall(r"^CUresult CUDAAPI (cu\w+)\(", section, re.MULTILINE))


def alike(declaration):
    """A declaration without what may be written otherwise."""
    return re.sub(r"\s*([*(),;])\s*", r"\1", re.sub(r"\s+", " ", declaration.replace(" CUDAAPI ", " "))).strip()


def declared(name):
    """As the header declares it first: what follows is for older programs."""
    found = re.search(rf"^CUresult CUDAAPI {name}\([^;]*;", HEADER, re.MULTILINE)
    return found and alike(found[0])


def declarations(entry):
    """{name: declaration} of an entry's listing."""
    listing = re.search(r"^```c\n(.*?)^```$", entry, re.MULTILINE | re.DOTALL)[1]
    return {name: alike(text) for text, name in re.findall(r"^(CUresult (\w+)\([^;]*;)", listing, re.MULTILINE)}


def rows(entry):
    lines = re.search(r"(?:^\|.*\n)+", entry, re.MULTILINE)[0].splitlines()
    return [line.strip("| ").split(" | ", 1) for line in lines]


def test_it_has_every_function_of_the_two_groups_and_links_each_at_its_top():
    functions = group("CUDA_VA") | group("CUDA_MULTICAST")
    told = {name for entry in ENTRIES.values() for name in declarations(entry)}
    assert {name for name in told - BESIDE if NEWER.get(name, 0) <= VERSION} == functions
    assert len(ENTRIES) == 20 + len(BESIDE)
    links = re.findall(r"\[`(\w+)`\]\(#(\w+)\)", PAGE[: PAGE.index("\n## ")])
    assert sorted(links) == sorted((name, name.lower()) for name in ENTRIES)


def test_signatures_are_as_in_the_header():
    for name, entry in ENTRIES.items():
        told = declarations(entry)
        assert next(iter(told)) == name
        for each, text in told.items():
            if VERSION < NEWER.get(each, 0):
                assert declared(each) is None, each
            else:
                assert text == declared(each)
            if each == f"{name}_v2":  # held without its header too
                old = told[name].replace(name, each).replace("mcHandle,", "mcHandle,CUdevice dev,")
                assert text == old


def test_entries_have_one_form():
    for name, entry in ENTRIES.items():
        head, _, *body = rows(entry)
        assert re.search(r"^CUDA \d+\.\d+ [ᴴˢᴾ]$", head[0]), name
        assert re.search(r"^Lessons: .+\. \[Reference\]\(\S+\)$", head[1]), name
        assert all(len(row) == 2 and row[1] for row in body), name
        kinds = "".join(
            "E" if re.fullmatch(r"`CUDA_ERROR_.*`", first) else "P" if first[0] == "`" else first[0]
            for first, _ in body
        )
        assert re.search(r"^P+L?W?E+S?$", kinds), f"{name}: parameters, what lives, what waits, errors, see"
        told = [word for row in body for word in re.findall(r"`(\w+)`", row[0])]
        assert len(told) == len(set(told)), name
        parameters = {
            each for text in declarations(entry).values() for each in re.findall(r"(\w+)[,)]", text) if each != name
        }
        assert {word for word in told if not word.startswith("CUDA_")} == parameters, name


def test_what_waits_is_told_twice_or_not_at_all():
    told = [row[0] for row in table_below("Who waits for what")]
    told = told[: next(i for i, row in enumerate(told) if row.startswith("for comparison"))]
    waits = {name for name, entry in ENTRIES.items() if "\n| Waits | " in entry}
    assert {name for row in told for name in calls_in(row)} == waits


def test_since_when_is_as_in_the_header_of_versions():
    versions = (INCLUDE / "cudaTypedefs.h").read_text()
    for name, entry in ENTRIES.items():
        first = min(int(v) for v in re.findall(rf"\bPFN_{name}_v(\d+)\b", versions))
        assert first == number(re.search(r"^\| CUDA (\S+) ", entry, re.MULTILINE)[1]), name
        for version, newer in re.findall(r"^// CUDA (\S+) or later\nCUresult (\w+)", entry, re.MULTILINE):
            assert NEWER[newer] == number(version), newer


def test_a_pitfall_that_has_the_function_in_its_heading_is_linked():
    text = (ROOT / "docs/pitfalls.md").read_text()
    pitfalls = re.findall(r'((?:^<a id="pit-[\w-]+"></a>\n)+)### (.*)', text, re.MULTILINE)
    assert pitfalls
    for name, entry in ENTRIES.items():
        linked = set(re.findall(r"#(pit-[\w-]+)\)", entry))
        for anchors, heading in pitfalls:
            if f"`{name}`" in heading:
                assert linked & set(re.findall(r"pit-[\w-]+", anchors)), f"{name}: {anchors}"


def test_it_names_only_what_the_header_has():
    names = set(re.findall(r"`((?:CU|cu)\w+)", PAGE)) - {"CUDA_FABRIC_INIT_TIMEOUT_MS"}
    attributes = re.findall(r"^\| `CU_POINTER_ATTRIBUTE_`.*\n(?:\|.*\n)+", PAGE, re.MULTILINE)[0]
    of_pointers = {f"CU_POINTER_ATTRIBUTE_{name}" for name in re.findall(r"`([A-Z_]+)`", attributes)}
    names = names - {"CU_POINTER_ATTRIBUTE_"} | of_pointers - {"CU_POINTER_ATTRIBUTE_CU_POINTER_ATTRIBUTE_"}
    for name in names:
        there = re.search(rf"\b{name}\b", HEADER + RUNTIME) is not None
        assert there == (NEWER.get(name, 0) <= VERSION), name


def test_structures_have_the_fields():
    structure = None
    for first, fields, *_ in table_below("Structures"):
        structure = first.strip("`") or structure
        body = re.search(rf"typedef struct {structure}_st \{{(.*?)^\}} ", HEADER, re.DOTALL | re.MULTILINE)
        for field in re.findall(r"`([\w.]+)`", fields):
            for part in field.split("."):
                assert re.search(rf"\b{part}\b", body[1]) is not None, f"{structure}.{field}"
