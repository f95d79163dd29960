# SPDX-License-Identifier: MIT-0
"""The result files, docs/results/MACHINE/NAME.csv, and what a page shows of them.

docs/results/record.sh records them. A file is a table with one row for a measurement; a comment says for each run what
ran, on what and when. No figure is typed into a page: docs/tools/fill_pages.py puts it behind a comment, which neither
a code forge nor the book shows. In a sentence or in the cell of a table, but not at the beginning of a line:

    <!-- result: four_h200s/growth_cost_1_gpu_steps section=2 method=kept_chunks step_bytes=2MiB median_ms -->48.8
    <!-- result: ... method=cudaMalloc median_ms / method=kept_chunks -->13     a ratio, or with - a difference: the
                                                                                second part has what else the first has

A file, what the row holds (a _ stands for a space), and the column. Two columns follow from others: any in ms from the
one in us, and gb_per_s. Where `runs=8` is among the words, eight runs have measured it, and the value is the median of
theirs. A whole table:

    <!-- results: four_h200s/growth_cost_1_gpu_steps
    x: step_bytes
    y: median_ms
    alt: what the plot says, for those who do not see it

    kept chunks: section=2 method=kept_chunks by=steps
    fresh chunks: section=2 method=fresh_chunks by=steps
    -->
    ...
    <!-- /results -->

Its first line may name several files. Each line after the empty one is a column: its label, and which rows belong to
it. The book draws a plot above the table and closes the fold in which the table is. `linear: yes` is for an axis that
is not logarithmic, `also: one_h200` for a second table, of another machine.

    <!-- result files: four_h200s one_h200 -->   how all files of these machines were measured
"""

import csv
import functools
import os
import pathlib
import re
import statistics

from vmmsim.view import exact_size

DIRECTORY = pathlib.Path(__file__).resolve().parent.parent / "results"
RUN = re.compile(r"# (?P<command>\w+ .*), (?P<gpus>\d) NVIDIA .*, driver (?P<versions>\d.*, CUDA \d.*), (?P<date>\d.*)")
NUMBERS = {"1": "one", "2": "two", "4": "four", "8": "eight"}

FIGURE = re.compile(r"<!-- result: (.*?) -->(\d+(?:\.\d+)?)?")
FIRST = re.compile(r"^\s*(?:[-*>] *|\d+\. *)*<!-- result: ", re.MULTILINE)
BLOCK = re.compile(r"^<!-- results: (.*)\n([\s\S]*?)\n\n([\s\S]*?)^-->$", re.MULTILINE)
LIST = re.compile(r"^<!-- result files: (.*) -->$", re.MULTILINE)
END = "<!-- /results -->"
FILLED = re.compile(rf"({BLOCK.pattern}|{LIST.pattern})\n([\s\S]*?)^{END}$", re.MULTILINE)

# What the axes and the tables call a column.
LABELS = {
    "step_bytes": "step",
    "final_bytes": "final size",
    "bytes": "size",
    "open_to": "GPUs that may use it",
    "waited_ms": "ms after the release",
    "median_ms": "median time in ms (lower is better)",
    "median_us": "median time in µs (lower is better)",
    "gb_per_s": "GB/s, 10⁹ bytes a second (higher is better)",
}


class BadResults(ValueError):
    pass


def value(text):
    """A number, a size such as 64MiB in bytes, or words."""
    if size := re.fullmatch(r"(\d+)([KMG])iB", text):
        return int(size[1]) << 10 * ("KMG".index(size[2]) + 1)
    number = re.fullmatch(r"-?\d+(\.\d+)?", text)
    return (float(text) if number[1] else int(text)) if number else text.replace("_", " ")


@functools.cache
def load(path):
    """A file's runs, as RUN finds them, and its rows: {column: value} of the cells that are not empty."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise BadResults(f"{path}: {error.strerror}; docs/results/record.sh makes such files") from error
    runs = [RUN.fullmatch(line) for line in lines if line[:1] == "#"]
    rows = list(csv.DictReader(line for line in lines if line[:1] != "#"))
    if not runs or not all(runs):
        raise BadResults(f"{path}: a comment does not tell program, GPUs, driver, CUDA and date; record it on a GPU")
    if not rows or any(None in row or None in row.values() for row in rows):
        raise BadResults(f"{path}: there is no row, or one with too many or too few cells")
    return runs, [{key: value(text) for key, text in row.items() if text} for row in rows]


def runs_of(name):
    return load(DIRECTORY / f"{name}.csv")[0]


def asked(text):
    """The file, the conditions and the column that these words name: None for what they do not."""
    words = text.split()
    conditions = {key: value(wanted) for key, is_one, wanted in (word.partition("=") for word in words) if is_one}
    names, keys = ([word for word in words if "=" not in word and ("/" in word) == slash] for slash in (True, False))
    if len(names) > 1 or len(keys) > 1:
        raise BadResults(f"{text!r} names more than one file or column")
    return next(iter(names), None), conditions, next(iter(keys), None)


def points(names, conditions, x, y):
    """{x: y} of the rows of these files that meet the conditions."""

    def cell(row, key):
        if key == "gb_per_s":
            return row["bytes"] / row["median_us"] / 1e3
        return row[key] if key in row else row[re.sub("_ms$", "_us", key)] / 1000

    conditions, found = dict(conditions), {}
    runs = conditions.pop("runs", 1)
    for row in (row for name in names for row in load(DIRECTORY / f"{name}.csv")[1]):
        if conditions.items() <= row.items():
            try:
                found.setdefault(x and cell(row, x), []).append(cell(row, y))
            except (KeyError, TypeError) as error:
                raise BadResults(f"{' '.join(names)}: {conditions}: a row without {x} or {y}") from error
    counts = {len(values) for values in found.values()}
    if counts != {runs}:
        raise BadResults(f"{' '.join(names)}: {conditions}: {sorted(counts) or 'no'} rows for a value, not {runs}")
    return {place: statistics.median(values) for place, values in sorted(found.items())}


def figure(expression):
    """The text of "FILE condition... column", or of the ratio or the difference of two such."""
    first, sign, second = re.fullmatch(r"(.*?)(?: ([/-]) (.*))?", expression).groups()
    name, conditions, key = asked(first)
    _, others, other_key = asked(second or "")
    if not name or not key:
        raise BadResults(f"{first!r} does not name a file and a column")
    result = points([name], conditions, "", key)[""]
    if sign:
        other = points([name], conditions | others, "", other_key or key)[""]
        result = result / other if sign == "/" else result - other
    if sign == "/":
        return f"{result:.0f}" if result >= 10 else f"{result:.1f}" if result >= 2 else f"{result:.2f}"
    return text_of(key, result)


def text_of(key, number):
    """A value as the page shows it: sizes in their unit, all else with about three digits."""
    if key.endswith("bytes"):
        return exact_size(number)
    if isinstance(number, int):
        return str(number)
    if number < 0.1:
        return f"{number:.2g}"
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


class Block:
    """A comment that asks for a table: its files, options, and the columns that it asks for."""

    def __init__(self, match):
        self.names = match[1].split()
        self.options = dict(line.partition(": ")[::2] for line in match[2].splitlines())
        lines = [line.rpartition(": ")[::2] for line in match[3].splitlines()]
        self.conditions = {label: asked(words)[1] for label, words in lines}
        if not lines or not {"x", "y", "alt"} <= set(self.options) <= {*"xy", "alt", "linear", "also"}:
            raise BadResults(f"{match[1]}: a table needs x, y, alt and its columns, and knows linear and also")
        self.x, self.y = self.options["x"], self.options["y"]

    def columns(self, names):
        return {label: points(names, rows, self.x, self.y) for label, rows in self.conditions.items()}

    def filled(self, page):
        """The lines under the comment."""
        lines = self.fold(f"The figures: {LABELS[self.y]}", self.names, page, " open")  # a forge has no plot above it
        if machine := self.options.get("also"):
            others = [f"{machine}/{name.partition('/')[2]}" for name in self.names]
            lines += self.fold(f"The same on {machine_text(others[0])}", others, page)
        return lines

    def fold(self, summary, names, page, state=""):
        """A table in a fold."""
        columns = self.columns(names)
        table = [[LABELS.get(self.x, self.x), *columns], ["---:"] * (len(columns) + 1)]
        for row in sorted({place for values in columns.values() for place in values}):
            cells = (text_of(self.y, values[row]) if row in values else "" for values in columns.values())
            table.append([text_of(self.x, row).replace(" ", "&nbsp;"), *cells])
        machine, links = machine_text(names[0]), ", ".join(link(name, page) for name in names)
        repeats = re.search(r" --repeats (\d+)|$", runs_of(names[0])[0]["command"])[1]
        end = f"{machine[0].upper()}{machine[1:]}{f', {repeats} repeats' if repeats else ''}: {links}."
        rows = (f"| {' | '.join(line)} |" for line in table)
        return [f"<details{state}>", f"<summary>{summary}</summary>", "", *rows, "", end, "", "</details>"]


def machine_text(name):
    """ "one of four H200s": how many GPUs a program saw, of how many."""
    count, model = name.split("/")[0].split("_")
    seen = NUMBERS[runs_of(name)[0]["gpus"]]
    return f"{'' if seen == count else f'{seen} of '}{count} {model.replace('h', 'H')}"


def link(name, page, text=""):
    place = pathlib.Path(os.path.relpath(DIRECTORY, page.parent)).as_posix()
    return f"[{text or name.partition('/')[2] + '.csv'}]({place}/{name}.csv)"


def files(machines, page):
    """A table of all files of these machines, and how they were measured: those of one name in the same way."""
    rows = {}
    for name in (f"{machine}/{path.stem}" for machine in machines for path in sorted((DIRECTORY / machine).glob("*"))):
        # The commands of all runs, with what differs between them side by side.
        words = zip(*(run["command"].split() for run in runs_of(name)), strict=True)
        command = " ".join("\\|".join(dict.fromkeys(word)) for word in words)
        others = {(run["versions"].replace("CUDA ", ""), run["date"]) for run in runs_of(name)}
        if len(others) > 1:
            raise BadResults(f"{name}: runs of different drivers or dates in one file: {others}")
        rows.setdefault((f"`{command}`", *others.pop()), []).append(link(name, page, machine_text(name)))
    lines = ["| Command | Driver, CUDA | Date | Files |", "| --- | --- | --- | --- |"]
    return lines + [f"| {' | '.join(row)} | {', '.join(links)} |" for row, links in rows.items()]


def with_results(text, page):
    """The text of a page with all figures and tables as they should be."""

    def block(match):
        found = LIST.fullmatch(match[1])
        lines = files(found[1].split(), page) if found else Block(BLOCK.fullmatch(match[1])).filled(page)
        return "\n".join([match[1], *lines, END])

    if first := FIRST.search(text):
        number = text.count("\n", 0, first.end()) + 1
        raise BadResults(f"line {number}: a figure begins a line, which a forge then takes for HTML: move it")
    if len(FILLED.findall(text)) != len(re.findall("<!-- result(?:s| files): ", text)):
        raise BadResults(f"a comment that asks for a table is not of its form, or has no {END}")
    text = FILLED.sub(block, text)
    return FIGURE.sub(lambda match: f"<!-- result: {match[1]} -->{figure(match[1])}", text)
