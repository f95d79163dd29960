#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Program, output and page of each lesson speak of the same steps: pages_test.py SOURCE_DIRECTORY.

A banner stands four times: as a comment in the program, in what the program prints, in the expected output, and as a
section of the page, whose listing is cut out of the program from this banner to the next. docs/tools/fill_pages.py
holds what stands in a listing.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
PROGRAMS = sorted(ROOT.glob("[0-9][0-9]_*/*.cu"))
LESSONS = sorted({program.parent for program in PROGRAMS})
BROKEN = [program for program in PROGRAMS if program.stem.endswith("_broken")]  # they make mistakes on purpose


def expected_output(program):
    """The file of its recorded output: a second program of a directory has its name in front."""
    return program.with_name("expected_output.txt" if is_main(program) else f"{program.stem}_expected_output.txt")


def banners(pattern, text):
    return re.findall(pattern, text, re.MULTILINE)


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


def folds(text):
    """(what is shown, what is folded) of each <details>."""
    return re.findall(r"^<details>\n<summary>(.*)</summary>\n\n([\s\S]*?)\n</details>$", text, re.MULTILINE)


def listings(text):
    """What the comments above the listings name, in order: (file, part)."""
    return re.findall(r"^ *<!-- listing: (\S+)(?: (.*))? -->$", text, re.MULTILINE)


class Pages(unittest.TestCase):
    def test_readme_and_index_lead_to_each_lesson(self):
        self.assertTrue(LESSONS)
        missing = []
        for name in (lesson.name for lesson in LESSONS):
            title = (ROOT / name / "README.md").read_text().split("\n# ")[1].splitlines()[0]
            for file, line, where in (
                ("README.md", f"| [{title}]({name}/README.md) |", "table *The lessons*"),
                ("docs/index.md", f"| [{title}](../{name}/README.md) |", "table *Which lesson*"),
            ):
                if line not in (ROOT / file).read_text():
                    missing.append(f"{file} does not lead to {name}: the {where} needs {line.strip()!r}")
        if missing:
            self.fail("\n".join(missing))

    def test_the_lesson_file_speaks_of_what_is_there(self):
        machines = {path.stem for path in (ROOT / "vmmsim/simulator/machines").glob("*.conf")}
        known = "alone simulated changes small smaller skips on_stderr explained_on calls_named_as dropped"
        known = {*known.split(), "small_changes", "mistakes"}
        for lesson in LESSONS:
            file = lesson / "lesson.json"
            about = json.loads(file.read_text())
            programs = about.get("programs", {})
            self.assertLessEqual(set(about), {"skips", "programs", "pictures", "calls", "mistakes", "try_it"}, file)
            self.assertLessEqual(
                set(programs), {program.stem for program in PROGRAMS if program.parent == lesson}, file
            )
            for its in (about, *programs.values()):
                self.assertLessEqual(set(its.get("skips", {})), machines, file)
            for its in programs.values():
                self.assertLessEqual(set(its), known, file)
            self.assertGreater(len(about.get("mistakes", {})), 2, f"{file}: planted mistakes")

    def test_the_version_is_the_last_of_the_changelog(self):
        version = re.search(r"^project\(.* VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
        releases = re.findall(
            r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
        )
        self.assertEqual(releases[:1], [version], "the first release in CHANGELOG.md, and project() in CMakeLists.txt")

    def test_banners_are_numbered_from_one(self):
        for program in PROGRAMS:
            numbers = banners(r"^ *// \[(\d+)\] ", program.read_text())
            self.assertEqual(numbers, [str(i) for i in range(1, len(numbers) + 1)], program)
            self.assertTrue(numbers, program)

    def test_the_expected_output_has_the_banners(self):
        for program in PROGRAMS:
            expected = expected_output(program)
            self.assertEqual(
                banners(r"^ *// (\[\d+\] .*)$", program.read_text()),
                banners(r"^(\[\d+\] .*)$", expected.read_text()),
                expected,
            )

    def test_the_page_has_a_section_for_each_banner(self):
        for program in PROGRAMS:
            if program in BROKEN:
                continue
            page, titles = page_of(program), banners(r"^ *// (\[\d+\] .*)$", program.read_text())
            self.assertEqual(re.findall(r"^## (\[\d+\] .*)$", page, re.MULTILINE), titles, page_file(program))
            if is_main(program):
                for title in titles:
                    own = [part for file, part in listings(section(page, title)) if file == program.name]
                    self.assertEqual(own.count(title.split()[0]), 1, f"{page_file(program)}: the listing of {title}")

    def test_the_page_shows_the_recorded_output_once_and_folded(self):
        for program in set(PROGRAMS) - set(BROKEN):
            name, page = expected_output(program).name, page_of(program)
            whole = [(name, "")]
            self.assertEqual([each for each in listings(page) if each == whole[0]], whole, page_file(program))
            self.assertTrue([1 for _, text in folds(page) if whole[0] in listings(text)], page_file(program))

    def test_no_code_and_no_output_is_typed(self):
        for page in ROOT.glob("[0-9][0-9]_*/*.md"):
            typed = re.findall(
                r"^(?! *<!-- listing: ).*\n *```(?:cuda|cpp|console|ini|diff)\n.*", page.read_text(), re.M
            )
            self.assertEqual(typed, [], f"{page}: docs/tools/fill_pages.py says how to show these")

    def test_the_parts_of_a_lesson_stand_in_their_order(self):
        order = ["Step through it", "Run it", "Before you run it", "[1]", "Try it", "Break it on purpose"]
        order += ["What to remember", "Practise it", "Next"]
        for lesson in LESSONS:
            page = (lesson / "README.md").read_text()
            titles = [
                title.split(" ")[0] if title[0] == "[" else title for title in re.findall(r"^## (.*)$", page, re.M)
            ]
            self.assertEqual([title for title in titles if title in order], order, lesson)
            idea, picture = page.index("\n\n"), page.find("\n![")
            self.assertIn(picture, range(idea, page.index("\n## Step through it\n")), f"{lesson}: no picture of it")
            seconds = {program.stem for program in PROGRAMS if program.parent == lesson} - {lesson.name[3:]}
            for name in seconds - {program.stem for program in BROKEN}:
                self.assertIn(f"]({name}.md", page, f"{lesson}: the page of {name}")
            box = page[: page.index("\n## ")]
            self.assertIn(f"| Program | [{lesson.name[3:]}.cu]({lesson.name[3:]}.cu), ", box, lesson)
            for lab in sorted((ROOT / "labs/starters").glob(f"{lesson.name[:2]}?_*.cu")):
                for where in (section(page, "Practise it"), re.search(r"^\| Labs \| .*$", box, re.M)[0]):
                    self.assertIn(f"](../labs/starters/{lab.name})", where, lesson)

    def test_each_lab_is_in_the_table(self):
        for check in sorted((ROOT / "labs/checks").glob("*.py")):
            title, minutes = (
                re.search(rf"^{key} = \"?(.*?)\"?$", check.read_text(), re.M)[1] for key in ("TITLE", "MINUTES")
            )
            row = rf"^\| \[{check.stem[:3]} {re.escape(title)}\]\(starters/{check.stem}.cu\) \| .+ \| {minutes} \|$"
            self.assertRegex((ROOT / "labs/README.md").read_text(), re.compile(row, re.M))

    def test_each_lesson_is_broken_on_purpose(self):
        mains = [p for p in PROGRAMS if is_main(p)]
        self.assertEqual([f"{p.stem}_broken" for p in mains], [p.stem for p in BROKEN])
        for program in BROKEN:
            titles = banners(r"^ *// (\[\d+\] .*)$", program.read_text())
            self.assertIn(len(titles), range(3, 7), program)
            for banner, text in steps(expected_output(program).read_text()):
                self.assertRegex(text, r"(?m)^    right: ", f"{program}: {banner} is not followed by the right form")
            explained = program.with_name(f"{program.stem}_explained.txt")
            self.assertEqual([banner for banner, _ in steps(explained.read_text())], titles, explained)
            entries = folds(section(page_of(program), "Break it on purpose"))
            shown = [re.sub(r"^(\d+)\. ", r"[\1] ", summary) for summary, _ in entries]
            self.assertEqual(len(shown), len(titles), f"{program}: mistakes on the page")
            for title, summary, (_, text) in zip(titles, shown, entries, strict=True):
                self.assertTrue(summary.startswith(title + ":"), f"{program}: {title} is told as {summary}")
                for file in (program, expected_output(program)):
                    self.assertIn((file.name, title.split()[0]), listings(text), f"{program}: {title}")

    def test_the_page_asks_before_it_answers(self):
        for lesson in LESSONS:
            blocks = folds(section((lesson / "README.md").read_text(), "Before you run it"))
            self.assertIn(len(blocks), (2, 3), lesson)
            for number, (question, answer) in enumerate(blocks, 1):
                self.assertRegex(question, rf"^{number}\. .*\?$", lesson)
                proof = [file for file, part in listings(answer) if part.startswith("line ")]
                self.assertTrue(proof, f"{lesson}: no line proves the answer to {question}")
                self.assertRegex(proof[0], r"output\.txt$", lesson)

    def test_the_page_has_the_changes_to_try(self):
        for lesson in LESSONS:
            entries = folds(section((lesson / "README.md").read_text(), "Try it"))
            tried = [title.partition(" => ")[0] for title in json.loads((lesson / "lesson.json").read_text())["try_it"]]
            shown = [part for _, text in entries for file, part in listings(text) if file == "lesson.json"]
            self.assertEqual(shown, [f'try "{title}"' for title in tried], lesson)
            self.assertIn(len(tried), (2, 3, 4), lesson)

    def test_a_listing_out_of_step_is_told(self):
        with tempfile.TemporaryDirectory() as scratch:
            page = pathlib.Path(scratch, "page.md")
            pathlib.Path(scratch, "x.cu").write_text("int new_line;\n")
            page.write_text("<!-- listing: x.cu -->\n```cuda\nint old_line;\n```\n")
            command = [sys.executable, "-B", "-m", "docs.tools.fill_pages", page]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            self.assertEqual((done.returncode, f"{page}:" in done.stderr), (1, True), done)
            subprocess.run([*command, "--write"], cwd=ROOT, check=True)
            self.assertIn("int new_line;", page.read_text())
            subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    unittest.main()
