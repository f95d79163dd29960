#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Program, output and page of each lesson speak of the same steps: pages_test.py SOURCE_DIRECTORY.

A banner stands four times: as a comment in the program, in what the program prints, in the expected output, and as a
section of the page, whose listing is cut out of the program from this banner to the next. scripts/fill_pages.py holds
what stands in a listing.
"""

import json
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
PROGRAMS = sorted(ROOT.glob("[0-9][0-9]_*/*.cu"))
LESSONS = sorted({program.parent for program in PROGRAMS})
BROKEN = [program for program in PROGRAMS if program.stem.endswith("_broken")]  # they make mistakes on purpose


def expected_output(program):
    """The file of its recorded output: a second program of a directory has its name in front."""
    main = program.parent.name[3:] == program.stem
    return program.with_name("expected_output.txt" if main else f"{program.stem}_expected_output.txt")


def banners(pattern, text):
    return re.findall(pattern, text, re.MULTILINE)


def steps(output):
    """(banner, what follows it) of each step of an output."""
    return re.findall(r"^(\[\d+\] .*)\n((?:(?!^\[)[\s\S])*)", output, re.MULTILINE)


def page_of(program):
    """The page without what stands in its blocks."""
    return re.sub(r"^(`{3,})\w*\n[\s\S]*?^\1\n", "", program.with_name("README.md").read_text(), flags=re.MULTILINE)


def listings(text):
    """What the comments above the listings name, in order: (file, part)."""
    return re.findall(r"^<!-- listing: (\S+)(?: (.*))? -->$", text, re.MULTILINE)


class Pages(unittest.TestCase):
    def test_readme_and_index_lead_to_each_lesson(self):
        self.assertTrue(LESSONS)
        missing = []
        for name in (lesson.name for lesson in LESSONS):
            title = (ROOT / name / "README.md").read_text().split("\n# ")[1].splitlines()[0]
            for file, line, where in (
                ("README.md", f"| [{title}]({name}/README.md) |", "table *The lessons*"),
                ("docs/index.md", f"| [{title}](../{name}/README.md) |", "table *Which lesson*"),
                ("docs/index.md", f"\n../{name}/README\n", "toctree *Lessons*"),
            ):
                if line not in (ROOT / file).read_text():
                    missing.append(f"{file} does not lead to {name}: the {where} needs {line.strip()!r}")
        if missing:
            self.fail("\n".join(missing))

    def test_the_lesson_file_speaks_of_what_is_there(self):
        machines = {path.stem for path in (ROOT / "simulator/machines").glob("*.conf")}
        known = {
            "simulated",
            "changes",
            "small",
            "smaller",
            "skips",
            "on_stderr",
            "explained_on",
            "calls_named_as",
            "dropped",
            "small_changes",
            "mistakes",
            "wrong_outputs",
        }
        for lesson in LESSONS:
            file = lesson / "lesson.json"
            about = json.loads(file.read_text())
            programs = about.get("programs", {})
            self.assertLessEqual(
                set(about), {"skips", "programs", "pictures", "calls", "mistakes", "try_it", "wrong_outputs"}, file
            )
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

    def test_the_program_prints_its_banners(self):
        for program in PROGRAMS:
            text = program.read_text()
            self.assertEqual(banners(r"^ *// (\[\d+\] .*)$", text), banners(r'"(\[\d+\] [^"\\]*)\\n', text), program)

    def test_the_expected_output_has_the_banners(self):
        for program in PROGRAMS:
            expected = expected_output(program)
            self.assertEqual(
                banners(r"^ *// (\[\d+\] .*)$", program.read_text()),
                banners(r"^(\[\d+\] .*)$", expected.read_text()),
                expected,
            )

    def test_the_page_has_a_section_for_each_banner_with_its_listing(self):
        for program in PROGRAMS:
            page = page_of(program)
            titles = banners(r"^ *// (\[\d+\] .*)$", program.read_text())
            shown = [
                (title, part)
                for title, text in re.findall(r"^#+ (\[\d+\] .*)\n((?:(?!^#)[\s\S])*)", page, re.MULTILINE)
                for file, part in listings(text)
                if file == program.name and part.startswith("[")
            ]
            wanted = [(title, title.split()[0]) for title in titles]
            self.assertEqual(shown, wanted, f"{program}: sections and listings of {program.parent.name}/README.md")

    def test_the_page_shows_the_recorded_output(self):
        for program in PROGRAMS:
            name = expected_output(program).name
            self.assertIn(name, dict(listings(page_of(program))), program)

    def test_no_code_and_no_output_is_typed(self):
        for lesson in LESSONS:
            page = (lesson / "README.md").read_text()
            typed = re.findall(r"^(?!<!-- listing: ).*\n```(?:cuda|cpp|console|ini)\n.*", page, re.MULTILINE)
            self.assertEqual(typed, [], f"{lesson.name}/README.md: scripts/fill_pages.py says how to show these")

    def test_each_lesson_can_be_stepped_through(self):
        for lesson in LESSONS:
            section = (lesson / "README.md").read_text().partition("\n## Step through it\n")[2].partition("\n## ")[0]
            for what in (f"`./run.sh --view build/bin/{lesson.name[3:]}`", f"\n<!-- view: {lesson.name[3:]} -->\n"):
                self.assertIn(what, section, f"{lesson.name}/README.md, section *Step through it*")

    def test_each_lesson_is_broken_on_purpose(self):
        mains = [p for p in PROGRAMS if p.parent.name[3:] == p.stem]
        self.assertEqual([f"{p.stem}_broken" for p in mains], [p.stem for p in BROKEN])
        for program in BROKEN:
            titles = banners(r"^ *// (\[\d+\] .*)$", program.read_text())
            self.assertIn(len(titles), range(3, 7), program)
            for banner, text in steps(expected_output(program).read_text()):
                self.assertRegex(text, r"(?m)^    right: ", f"{program}: {banner} is not followed by the right form")
            explained = program.with_name(f"{program.stem}_explained.txt")
            self.assertEqual([banner for banner, _ in steps(explained.read_text())], titles, explained)

    def test_the_page_shows_each_mistake_its_answer_and_its_explanation(self):
        for program in BROKEN:
            page = page_of(program)
            sections = re.findall(r"^## (.*)\n((?:(?!^## )[\s\S])*)", page, re.MULTILINE)
            names = [name for name, _ in sections]
            self.assertLess(
                names.index("Recorded output" if "Recorded output" in names else "Expected output"),
                names.index("Break it on purpose"),
                program,
            )
            self.assertIn(
                names[names.index("Break it on purpose") + 1 :],
                (["Key points", "Try it"], ["What the guide gets wrong here", "Key points", "Try it"]),
                program,
            )
            parts = re.split(r"^### (.*)\n", dict(sections)["Break it on purpose"], flags=re.MULTILINE)
            shown = dict(zip(parts[1::2], parts[2::2], strict=True))
            titles = banners(r"^ *// (\[\d+\] .*)$", program.read_text())
            self.assertEqual(list(shown), titles + ["Symptom, cause, fix"], program)
            explained = dict(steps(program.with_name(f"{program.stem}_explained.txt").read_text()))
            for title in titles:
                output, words = expected_output(program).name, f"{program.stem}_explained.txt"
                start = title.split()[0]
                wanted = [(program.name, start), (output, start)]
                if explained[title]:  # of what no call refuses there is nothing to explain
                    wanted.append((words, start))
                self.assertEqual(listings(shown[title]), wanted, f"{program}: {title}")
                why = shown[title].partition("<!--")[0]
                self.assertGreater(len(why.split()), 8, f"{program}: {title} is not told why")
            rows = [
                [cell.strip() for cell in line.strip("|").split("|")]
                for line in shown["Symptom, cause, fix"].strip().splitlines()
            ]
            self.assertEqual(rows[0], ["Symptom", "Cause", "Fix"], program)
            self.assertTrue(len(rows) > 4 and all(len(row) == 3 and all(row) for row in rows), program)

    def test_a_main_program_includes_the_checking_header_alone(self):
        for program in PROGRAMS:
            main = program.parent.name[3:] == program.stem
            allowed = {"check.h"} if main else {"check.h", "in_a_process.h" if program in BROKEN else "measure.h"}
            included = banners(r'^ *# *include "(.*)"$', program.read_text())
            self.assertTrue(included, program)
            self.assertLessEqual(set(included), {f"../common/{header}" for header in allowed}, program)

    def test_the_page_asks_before_it_answers(self):
        for lesson in LESSONS:
            page = (lesson / "README.md").read_text()
            section = re.search(r"^## Before you run it\n((?:(?!^## )[\s\S])*)", page, re.MULTILINE)
            self.assertTrue(section, f"{lesson}: no section of questions")
            self.assertLess(section.start(), page.index("\n## [1] "), lesson)
            blocks = re.findall(
                r"^<details>\n<summary>(.*)</summary>\n\n([\s\S]*?)\n</details>$", section[1], re.MULTILINE
            )
            self.assertEqual(section[1].count("<details>"), len(blocks), f"{lesson}: a question that is not whole")
            self.assertIn(len(blocks), (3, 4), lesson)
            for number, (question, answer) in enumerate(blocks, 1):
                self.assertRegex(question, rf"^{number}\. .*\?$", lesson)
                proof = [file for file, part in listings(answer) if part.startswith("line ")]
                self.assertTrue(proof, f"{lesson}: no line proves the answer to {question}")
                self.assertRegex(proof[0], r"output\.txt$", lesson)
                self.assertGreater(len(answer.partition("<!--")[0].split()), 3, f"{lesson}: {question}")

    def test_the_page_ends_with_changes_to_try(self):
        for lesson in LESSONS:
            page = (lesson / "README.md").read_text()
            self.assertTrue("\n## Try it\n" in page, lesson)
            end = page.rpartition("\n## Try it\n")[2]
            tried = [title.partition(" => ")[0] for title in json.loads((lesson / "lesson.json").read_text())["try_it"]]
            shown = re.findall(r'^ *<!-- listing: lesson\.json try "(.*)" -->$', end, re.MULTILINE)
            self.assertEqual(shown, tried, lesson)
            self.assertIn(len(tried), (3, 4), lesson)

    def test_the_program_carries_the_line_that_builds_it(self):
        for program in PROGRAMS:
            lines = banners(r"^// Build it alone: +(nvcc .*)$", program.read_text())
            self.assertEqual(len(lines), 1, program)
            self.assertIn(program.name, lines[0])


if __name__ == "__main__":
    unittest.main()
