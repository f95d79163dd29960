#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Puts listings and outputs into the pages, or checks that those there are in step: fill_pages.py [--write] [PAGE...].

A page shows code and output as text, so that it can be read wherever Markdown is shown. No such block is typed: a
comment that no reader sees stands above it and says which part of which file it is.

    <!-- listing: vmm_basics.cu [3] -->                 what stands under the banner [3], up to the next one
    <!-- listing: vmm_basics.cu fill, sum -->           functions or structures by name, with the comments above them
    <!-- listing: grow.cu from "#include" -->           from the first line with this text to the end
    <!-- listing: page.h from "const" before "// A" --> up to the line before the first one after it with that text
    <!-- listing: page.h from "const" to "return" -->   up to and with the first one from there on with that text
    <!-- listing: grow.cu line "cuMemMap" "cuMemSet" --> each line with one of these texts, in the order of the file
    <!-- listing: grow.cu [3] line "cuMemMap" -->       the same within a part: [3], a name, names
    <!-- listing: expected_output.txt -->               all of it
    <!-- listing: lesson.json try "1 TiB" -->           a change to the program: the lines of this name in `try_it`
    <!-- listing: try_it_output.txt try "1 TiB" -->     what it then prints, or a part of that, as above
    <!-- listing: results/bandwidth.csv -->             a table of measured results

The page of the calls names, behind "Lessons:", those that make the call. A picture has the rules of
vmmsim/view/style.py for its parts.

The file is relative to the page. Code and single lines are moved to the left margin. Of a recorded output the
page shows the values that were recorded, without the braces that say how they may vary.
"""

import argparse
import itertools
import json
import pathlib
import re
import sys
import textwrap

from docs.extensions.result_files import BadResults, table
from scripts.transcript import VALUE

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMENT = re.compile(r"^( *)<!-- listing: (\S+)(?: (.*?))? -->$")  # in a list it is indented, and so is the block
CALL = re.compile(r"^(### (cu\w+)\n(?:(?!^#).*\n)*?.*Lessons: ).*?(?=\. \[Reference)", re.MULTILINE)
FENCE = re.compile(r"^ *(`{3,})(\w*)$")
LANGUAGES = {
    ".cu": "cuda",
    ".cpp": "cpp",
    ".h": "cpp",
    ".conf": "ini",
    ".txt": "console",
    ".json": "diff",
    ".py": "python",
}
STEP = r"(?:// |(?:if \(.*\) )?step\(\")"  # what stands before a banner in a program
BANNER = re.compile(rf"\s*{STEP}?\[(\d+)\] ")
LAST = re.compile(r'  return 0;|  std::(?:puts|printf)\("OK.*|OK|return 0;')  # what ends the last step


class ListingError(Exception):
    pass


def pages():
    folders = "[0-9][0-9]_*", "docs", "vmmsim/docs"
    return [ROOT / "README.md", *sorted(page for folder in folders for page in ROOT.glob(f"{folder}/*.md"))]


def pictures():
    return [*ROOT.glob("[0-9][0-9]_*/pictures/*.svg"), *ROOT.glob("docs/pictures/*.svg")]


def banners(program):
    """(line, number, title) of each step of a program, in the order of the file."""
    lines = enumerate(program.read_text().splitlines(), 1)
    found = ((at, re.match(rf' *{STEP}\[(\d+)\] (.*?)(?:"\);)?$', line)) for at, line in lines)
    return [(at, int(match[1]), match[2]) for at, match in found if match]


def step_lines(program):
    """{step of a program: its lines}: to the next banner, or to the end of the function."""
    found = banners(program)
    ends = [at for at, line in enumerate(program.read_text().splitlines(), 1) if line.startswith("}")]
    stops = sorted([*ends, *(at for at, *_ in found)])
    return {number: range(at, next(stop for stop in stops if stop > at)) for at, number, _ in found}


def step(lines, number):
    """From the banner with this number to the next one, the end of its function, or the end of the last step."""
    banners = [(i, int(match[1])) for i, line in enumerate(lines) if (match := BANNER.match(line))]
    begin = next((i for i, n in banners if n == number), None)
    if begin is None:
        raise ListingError(f"there is no banner [{number}]")
    ends = [i for i, _ in banners if i > begin]
    if not ends:
        ends = [i for i, line in enumerate(lines) if i > begin and LAST.fullmatch(line)]
    if lines[begin][:1] == " ":  # in a function
        ends += [i for i, line in enumerate(lines) if i > begin and line == "}"]
    return lines[begin : min(ends, default=len(lines))]


def definition(lines, name):
    """A function or structure at the left margin, with the comment above it."""
    head = re.compile(rf"[A-Za-z_](?:(?!//).)*\b{name}\b[^;]*[{{(](?!.*\);$)")  # no comment, and no declaration
    begin = next((i for i, line in enumerate(lines) if head.match(line)), None)
    if begin is None:
        raise ListingError(f"nothing of the name {name} is defined at the left margin")
    end = next((i for i in range(begin, len(lines)) if lines[i].rstrip().endswith("}") or lines[i][:1] == "}"), None)
    if "{" not in lines[begin] or lines[begin].count("{") != lines[begin].count("}"):  # a head may take two lines
        end = next(i for i in range(begin + 1, len(lines)) if lines[i][:1] == "}")
    while begin and re.match("//|template", lines[begin - 1]):
        begin -= 1
    return lines[begin : end + 1]


def index(lines, text, begin=0):
    for i in range(begin, len(lines)):
        if text in lines[i]:
            return i
    raise ListingError(f"no line has {text!r}" + (" after the first" if begin else ""))


def recorded(line):
    """A line of a recorded output as the program printed it. Of several values that may be, the first was recorded."""
    if line.startswith("#"):
        return line
    return VALUE.sub(lambda match: match[2].partition("|")[0], line).replace("{{", "{").replace("}}", "}")


TEXT = r'"((?:[^"\\]|\\.)*)"'  # a quote in it is written \\"


def part(lines, wanted):
    """The lines of [3], of names, or all; of these from a text on, or those with one of some texts."""
    match = re.fullmatch(r'(?:\[(\d+)\]|(\w+(?:, \w+)*?))?\s*(?:(from|line) (".*"(?: (?:before|to) ".*")?))?', wanted)
    if not match:
        raise ListingError(f"{wanted!r} names no part of a file")
    number, names, how, texts = match.groups()
    if number:
        lines = step(lines, int(number))
    elif names:
        lines = [line for name in names.split(", ") for line in [*definition(lines, name), ""]]
    if how == "line":
        texts = [text.replace('\\"', '"') for text in re.findall(TEXT, texts)]
        for text in texts:
            index(lines, text)
        return [line for line in lines if any(text in line for text in texts)]
    if how == "from":
        first, kind, last = re.fullmatch(rf"{TEXT}(?: (before|to) {TEXT})?", texts).groups()
        begin = index(lines, first.replace('\\"', '"'))
        if not kind:
            return lines[begin:]
        end = index(lines, last.replace('\\"', '"'), begin + (kind == "before"))
        return lines[begin : end + (kind == "to")]
    return lines


TRY = re.compile(r'try "((?:[^"\\]|\\.)*)"(?: (.*))?')


def change(file, wanted):
    """The lines of a change that a reader is to try, as a diff, moved to the left margin."""
    changes = json.loads(file.read_text()).get("try_it", {})
    match = TRY.fullmatch(wanted or "")
    if not match or match[1] not in changes or match[2]:
        raise ListingError(f"{wanted!r} names nothing in try_it, which has {', '.join(changes) or 'nothing'}")
    lines = changes[match[1]]
    lines = lines["change"] if isinstance(lines, dict) else lines
    margin = min(len(line) - 2 - len(line[2:].lstrip()) for line in lines if line[2:].strip() and line != "...")
    return [line if line == "..." else (line[:2] + line[2 + margin :]).rstrip() for line in lines]


def tried(lines, wanted):
    """What a changed program prints, and which part of it is wanted."""
    match = TRY.fullmatch(wanted)
    title = f"== {match[1]}" if match else None
    if title not in lines:
        raise ListingError(f"{wanted!r} names no change of which there is an output")
    begin = lines.index(title) + 1
    section = itertools.takewhile(lambda line: not line.startswith("== "), lines[begin:])
    return [line for line in section if not line.startswith(("# ", "-- exit status "))], match[2] or ""


def listing(file, wanted):
    """The lines of a block: those of its part, at the left margin."""
    if file.suffix == ".json":
        return change(file, wanted)
    lines = file.read_text().splitlines()
    if file.name.endswith("_output.txt"):
        lines = [recorded(line) for line in lines]
    if file.name == "try_it_output.txt":
        lines, wanted = tried(lines, wanted or "")
    text = "\n".join(part(lines, wanted or ""))
    if file.suffix != ".txt" or file.name.endswith("_explained.txt"):  # an output stands as it was printed
        text = textwrap.dedent(text)
    return text.strip("\n").splitlines()


def listings(page):
    """The text of each listing of a page of Markdown, in order."""
    blocks = re.findall(r"^( *)`{3,}\w*\n(.*?)^ *`{3,}$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [re.sub(f"^{indent}", "", text, flags=re.MULTILINE) for indent, text in blocks]


def lessons_that_call(name):
    """Links for the page of the calls. Where a call fails on purpose does not count."""
    programs = [program for program in ROOT.glob("[0-9][0-9]_*/*.cu") if not program.stem.endswith("_broken")]
    lessons = {program.parent.name for program in programs if re.search(rf"\b{name}\b", program.read_text())}
    if lessons == {program.parent.name for program in programs}:
        return "all"
    return ", ".join(f"[{lesson[:2]}](../{lesson}/README.md)" for lesson in sorted(lessons)) or "none"


def styled_picture(text):
    from vmmsim.view import NoRule, styled  # notebooks, which take listings from here, are written without

    try:
        return styled(text)
    except NoRule as error:
        raise ListingError(error) from None


def filled(page):
    """The page with each block as it should be, or the picture with its style."""
    if page.suffix == ".svg":
        return styled_picture(page.read_text())
    result = []
    lines = page.read_text().splitlines()
    i = 0
    while i < len(lines):
        result.append(lines[i])
        match = COMMENT.match(lines[i])
        i += 1
        if not match:
            if "<!-- listing" in result[-1]:
                raise ListingError(f"line {i}: a comment that names a listing stands alone on its line: {result[-1]}")
            continue
        indent, name, wanted = match.groups()
        file = page.parent / name
        try:
            if file.suffix == ".csv":
                result += table(file)
                while i < len(lines) and lines[i].startswith("|"):  # what stands there now
                    i += 1
                continue
            block = listing(file, wanted)
            language = LANGUAGES[file.suffix]
        except KeyError:
            raise ListingError(f"line {i}: {file.suffix} is no kind of file that a page shows") from None
        except OSError as error:
            raise ListingError(f"line {i}: {name}: {error.strerror}") from None
        except (ListingError, BadResults) as error:
            raise ListingError(f"line {i}: {name}: {error}") from None
        if i < len(lines) and (fence := FENCE.match(lines[i])):  # what stands there now
            try:
                i = lines.index(indent + fence[1], i + 1) + 1
            except ValueError:
                raise ListingError(f"line {i + 1}: this block has no end") from None
        ticks = "```" if not any(line.startswith("```") for line in block) else "````"
        result += [(indent + line).rstrip() for line in (ticks + language, *block, ticks)]
    return CALL.sub(lambda found: found[1] + lessons_that_call(found[2]), "\n".join(result) + "\n")


def main():
    parser = argparse.ArgumentParser(description="Puts listings and outputs into the pages, or checks those there.")
    parser.add_argument("--write", action="store_true", help="write the pages, not only compare")
    parser.add_argument("pages", nargs="*", type=pathlib.Path, metavar="PAGE", help="these only")
    arguments = parser.parse_args()
    wrong = []
    for page in arguments.pages or [*pages(), *pictures()]:
        try:
            right = filled(page)
        except (OSError, ListingError) as error:
            wrong.append(f"{page}: {error}")
            continue
        if right == page.read_text():
            continue
        if arguments.write:
            page.write_text(right)
            continue
        pairs = zip(page.read_text().splitlines(), right.splitlines(), strict=False)
        number = next((n for n, (old, new) in enumerate(pairs, 1) if old != new), "the end")
        wrong.append(f"{page}:{number}: is not what the file has now; run docs.tools.fill_pages --write, and read it")
    if wrong:
        sys.exit("".join(f"FAIL: {what}\n" for what in wrong))


if __name__ == "__main__":
    main()
