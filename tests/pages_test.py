# SPDX-License-Identifier: MIT-0
"""Program, output and page of each lesson speak of the same steps, and a page has its order.

The title of a step stands in the program, in the expected output, and, of a lesson's main program, above a section of
the page that shows some of it. docs/tools/fill_pages.py holds what stands in a listing.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest

from docs.tools import class_material, fill_pages
from tests import try_it
from vmmsim.tool import Tool

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = sorted(ROOT.glob("[0-9][0-9]_*/*.cu"))
LESSONS = sorted({program.parent for program in PROGRAMS})
BROKEN = [program for program in PROGRAMS if program.stem.endswith("_broken")]  # they make mistakes on purpose
LINES = {"01": 100, "02": 152, "04": 180, "05": 180, "06": 180}  # of a lesson's main program at most; of others:
MAIN, SECOND = 150, 330
SECOND_PAGE = 160  # lines of the page of a second program, at most


def expected_output(program):
    """The file of its recorded output: a second program of a directory has its name in front."""
    return program.with_name("expected_output.txt" if is_main(program) else f"{program.stem}_expected_output.txt")


def banners(program):
    """The titles of its steps, "[1] ...", by their numbers: in two functions they stand in another order."""
    return [f"[{number}] {title}" for _, number, title in sorted(fill_pages.banners(program), key=lambda one: one[1])]


def steps(output):
    """(banner, what follows it) of each step of an output."""
    return re.findall(r"^(\[\d+\] .*)\n((?:(?!^\[)[\s\S])*)", output, re.MULTILINE)


def is_main(program):
    return program.parent.name[3:] == program.stem


def page_file(program):
    """A second program has a page of its own; what breaks is on the lesson's."""
    second = not is_main(program) and program not in BROKEN
    return program.with_suffix(".md") if second else program.with_name("README.md")


def page_of(program):
    """The page without what stands in its blocks."""
    return re.sub(r"^(`{3,})\w*\n[\s\S]*?^\1\n", "", page_file(program).read_text(), flags=re.MULTILINE)


def section(page, title):
    """What stands under a heading, up to the next one of its level."""
    found = re.search(rf"^## {re.escape(title)}\n((?:(?!^## )[\s\S])*)", page, re.MULTILINE)
    return found[1] if found else ""


def listings(text):
    """What the comments above the listings name, in order: (file, part)."""
    return re.findall(r"^ *<!-- listing: (\S+)(?: (.*))? -->$", text, re.MULTILINE)


def test_readme_and_index_lead_to_each_lesson():
    assert LESSONS
    missing = []
    for name in (lesson.name for lesson in LESSONS):
        title = (ROOT / name / "README.md").read_text().split("\n# ")[1].splitlines()[0]
        for file, line in (
            ("README.md", f"| [{title}]({name}/README.md) |"),
            ("docs/index.md", f"](../{name}/README.md)"),
        ):
            if line not in (ROOT / file).read_text():
                missing.append(f"{file} does not lead to {name}: it needs {line.strip()!r}")
    if missing:
        pytest.fail("\n".join(missing))


def test_the_lesson_file_speaks_of_what_is_there():
    machines = {path.stem for path in Tool.machines.glob("*.conf")}
    known = "simulated changes small skips on_stderr explained_on calls_named_as dropped"
    known = {*known.split(), "small_changes", "mistakes"}
    for lesson in LESSONS:
        file = lesson / "lesson.json"
        about = json.loads(file.read_text())
        programs = about.get("programs", {})
        assert set(about) <= {"gpus", "skips", "programs", "calls", "mistakes", "try_it", "answers"}, file
        assert set(programs) <= {program.stem for program in PROGRAMS if program.parent == lesson}, file
        for its in (about, *programs.values()):
            assert set(its.get("skips", {})) <= machines, file
        for its in programs.values():
            assert set(its) <= known, file
        assert len(about.get("mistakes", {})) > 2, f"{file}: planted mistakes"


def test_the_version_is_the_last_of_the_changelog():
    version = re.search(r"^project\(.* VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
    releases = re.findall(
        r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert releases[:1] == [version], "the first release in CHANGELOG.md, and project() in CMakeLists.txt"


def test_steps_are_numbered_from_one():
    for program in PROGRAMS:
        numbers = sorted(number for _, number, _ in fill_pages.banners(program))
        assert numbers == list(range(1, len(numbers) + 1)), program
        assert numbers, program


def test_the_expected_output_has_the_steps():
    for program in PROGRAMS:
        expected = expected_output(program)
        titles = re.findall(r"^(\[\d+\] .*)$", expected.read_text(), re.MULTILINE)
        assert banners(program) == titles, expected


def test_the_page_has_a_section_for_each_step():
    for program in filter(is_main, PROGRAMS):
        page = page_of(program)
        assert re.findall(r"^## (\[\d+\] .*)$", page, re.MULTILINE) == banners(program), page_file(program)
        for title in banners(program):
            shown = [file for file, _ in listings(section(page, title))]
            assert program.name in shown, f"{page_file(program)}: no listing of {title}"


def test_the_index_has_a_result_of_each_lesson():
    """Its figures are those of the lesson's page, which shows recorded outputs."""

    def figures(text):
        return set(re.findall(r"\d[\d.,]*(?<=\d)", text.replace(",", "")))

    index = (ROOT / "docs/index.md").read_text()
    found = re.findall(r"^- \[[^]]*\]\(\.\./(\d\d_\w+)/README\.md\), (.*(?:\n  .*)*)", index, re.MULTILINE)
    assert [lesson for lesson, _ in found] == [lesson.name for lesson in LESSONS]
    for lesson, result in found:
        assert "**" in result and figures(result), lesson
        missing = figures(result) - figures((ROOT / lesson / "README.md").read_text())
        assert not missing, f"{lesson}: {missing} of docs/index.md"


def test_the_page_shows_the_recorded_output():
    for program in set(PROGRAMS) - set(BROKEN):
        page = page_of(program)
        if is_main(program):
            assert ("expected_output.txt", "") in listings(section(page, "Run it")), page_file(program)
        else:  # some of one of its recordings
            shown = [file for file, _ in listings(page)]
            assert [file for file in shown if re.match(rf"{program.stem}_.*output\.txt$", file)], program


def test_programs_and_second_pages_are_short():
    for program in PROGRAMS:
        most = LINES.get(program.parent.name[:2], MAIN) if is_main(program) else SECOND
        assert len(program.read_text().splitlines()) <= most, program
    for page in (page for lesson in LESSONS for page in lesson.glob("*.md") if page.name != "README.md"):
        assert len(page.read_text().splitlines()) <= SECOND_PAGE, page


def test_no_code_and_no_output_is_typed():
    for page in (page for lesson in LESSONS for page in lesson.glob("*.md")):
        typed = re.findall(r"^(?! *<!-- listing: ).*\n *```(?:cuda|cpp|console|ini|diff)\n.*", page.read_text(), re.M)
        assert typed == [], f"{page}: docs/tools/fill_pages.py says how to show these"


def test_the_parts_of_a_lesson_stand_in_their_order():
    order = ["Run it", "[1]", "What it costs", "When not to use it", "What to remember", "Practise, and go on"]
    for lesson in LESSONS:
        page = (lesson / "README.md").read_text()
        titles = [title.split(" ")[0] if title[0] == "[" else title for title in re.findall(r"^## (.*)$", page, re.M)]
        assert [title for title in titles if title in order] == order, lesson
        assert titles[-1] == order[-1], lesson
        assert "\n![" in page[: page.index("\n## Run it\n")], f"{lesson}: no picture of the idea"
        for program in (program for program in PROGRAMS if program.parent == lesson):
            second = not is_main(program) and program not in BROKEN
            file = page_file(program).name if second else program.stem
            assert f"]({file}" in page or f"build/bin/{file}" in page, f"{lesson}: {file} is not named"
        end = section(page, order[-1])
        assert f"\n\n<!-- view: {lesson.name[3:]} -->\n\n" in end, f"{lesson}: the view"
        for lab in sorted((ROOT / "labs/starters").glob(f"{lesson.name[:2]}?_*.cu")):
            assert f"](../labs/starters/{lab.name})" in end, lesson
        next_lesson = LESSONS[(LESSONS.index(lesson) + 1) % len(LESSONS)]
        last = end.strip().split("\n\n")[-1]
        assert f"](../{next_lesson.name}/README.md)" in last or lesson == LESSONS[-1], f"{lesson}: the way on"


def test_each_lab_is_in_the_table():
    for check in sorted((ROOT / "labs/checks").glob("*.py")):
        title, minutes = (
            re.search(rf"^{key} = \"?(.*?)\"?$", check.read_text(), re.M)[1] for key in ("TITLE", "MINUTES")
        )
        row = rf"^\| \[{check.stem[:3]} {re.escape(title)}\]\(starters/{check.stem}.cu\) \| .+ \| {minutes} \|$"
        assert re.search(re.compile(row, re.M), (ROOT / "labs/README.md").read_text())


def test_each_lesson_is_broken_on_purpose():
    mains = [p for p in PROGRAMS if is_main(p)]
    assert [f"{p.stem}_broken" for p in mains] == [p.stem for p in BROKEN]
    for program in BROKEN:
        titles = banners(program)
        assert len(titles) in range(3, 7), program
        for banner, text in steps(expected_output(program).read_text()):
            assert re.search(r"(?m)^    right: ", text), f"{program}: {banner} is not followed by the right form"
        explained = program.with_name(f"{program.stem}_explained.txt")
        assert [banner for banner, _ in steps(explained.read_text())] == titles, explained


def test_the_page_asks_before_it_answers():
    """The answers stand in the steps, and in short in lesson.json, for a class."""
    for lesson in LESSONS:
        asked = class_material.questions(lesson / "README.md")
        assert len(asked) in (2, 3), lesson
        assert all(question.endswith("?") for question in asked), lesson
        assert len(class_material.answers_of(lesson / "README.md")) == len(asked), lesson


def test_the_page_has_each_change_and_what_it_prints():
    for lesson in LESSONS:
        page, entries = (lesson / "README.md").read_text(), try_it.entries(lesson.name)
        changes = [fill_pages.TRY.match(part)[1] for file, part in listings(page) if file == "lesson.json"]
        printed = [fill_pages.TRY.match(part)[1] for file, part in listings(page) if file == "try_it_output.txt"]
        assert set(changes) | set(printed) == set(entries), lesson
        assert {title for title, (change, run) in entries.items() if change and run is None} <= set(changes), lesson
        for title, change in zip(entries, try_it.texts(lesson.name), strict=True):
            assert (change == try_it.source_of(lesson.name).read_text()) == (not entries[title][0]), title


def test_a_listing_out_of_step_is_told():
    with tempfile.TemporaryDirectory() as scratch:
        page = pathlib.Path(scratch, "page.md")
        pathlib.Path(scratch, "x.cu").write_text("int new_line;\n")
        page.write_text("<!-- listing: x.cu -->\n```cuda\nint old_line;\n```\n")
        command = [sys.executable, "-B", "-m", "docs.tools.fill_pages", page]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert (done.returncode, f"{page}:" in done.stderr) == (1, True), done
        subprocess.run([*command, "--write"], cwd=ROOT, check=True)
        assert "int new_line;" in page.read_text()
        subprocess.run(command, cwd=ROOT, check=True)


def test_a_listing_by_name_is_the_definition():
    program = "constexpr int n = 1;  // another meet()\nvoid meet(int);\n\nvoid meet(int a) {\n  use(a);\n}\n"
    assert fill_pages.definition(program.splitlines(), "meet") == program.splitlines()[3:]
