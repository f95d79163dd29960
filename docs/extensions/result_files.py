# SPDX-License-Identifier: MIT-0
"""The result files, docs/results/MACHINE/NAME.jsonl, and what a page shows of them.

The lessons' programs measured and wrote them with --json. A file holds runs one after the other, each a line of
conditions, a line for each measurement, and a last line that says that the run is complete. What is not so is refused,
with the name of the file and the number of the line.

No figure is typed into a page: docs/tools/fill_pages.py puts it behind a comment, which neither a code forge nor the
book shows. In a sentence or in the cell of a table, but not at the beginning of a line:

    <!-- result: four_h200s/growth_cost_1_gpu_steps section=2 method=kept_chunks step_bytes=2MiB median_ms -->48.8
    <!-- result: ... method=cudaMalloc median_ms / method=kept_chunks -->13     a ratio, or with - a difference: the
                                                                                second part has what else the first has

A file, what the measurement has (a _ stands for a space), and the value. Where `runs=8` is among them, eight runs have
measured it, and the value is the median of theirs. A whole table:

    <!-- results: four_h200s/growth_cost_1_gpu_steps
    x: step_bytes
    y: median_ms
    alt: what the plot says, for those who do not see it

    kept chunks: section=2 method=kept_chunks by=steps
    fresh chunks: section=2 method=fresh_chunks by=steps
    -->
    ...
    <!-- /results -->

Its first line may name several files. Each line after the empty one is a column: its label, and which measurements
belong to it. The book draws a plot above the table and closes the fold in which the table is. `linear: yes` is for an
axis that is not logarithmic, `also: one_h200` for a second table, of another machine.

    <!-- result files: four_h200s one_h200 -->   how all files of these machines were measured
"""

import functools
import json
import os
import pathlib
import re
import statistics

from vmmsim.view.sizes import exact_size

CONDITIONS = {"program": str, "arguments": str, "device": str, "gpus": int, "driver": str, "cuda": str, "date": str}
DIRECTORY = pathlib.Path(__file__).resolve().parent.parent / "results"
SIZES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
NUMBERS = {1: "one", 2: "two", 4: "four", 8: "eight"}

FIGURE = re.compile(r"<!-- result: (.*?) -->(\d+(?:\.\d+)?)?")
FIRST = re.compile(r"^\s*(?:[-*>] *|\d+\. *)*<!-- result: ", re.MULTILINE)
BLOCK = re.compile(r"^<!-- results: (.*)\n([\s\S]*?)\n\n([\s\S]*?)^-->$", re.MULTILINE)
LIST = re.compile(r"^<!-- result files: (.*) -->$", re.MULTILINE)
END = "<!-- /results -->"
FILLED = re.compile(rf"({BLOCK.pattern}|{LIST.pattern})\n([\s\S]*?)^{END}$", re.MULTILINE)

# What the axes and the tables call a key.
LABELS = {
    "step_bytes": "step",
    "final_bytes": "final size",
    "chunk_bytes": "chunk",
    "bytes": "size",
    "gpus_in_all": "GPUs that may use it",
    "waited_ms": "ms after the release",
    "blocks": "blocks",
    "median_ms": "median time in ms (lower is better)",
    "median_us": "median time in µs (lower is better)",
    "gb_per_s": "GB/s, 10⁹ bytes a second (higher is better)",
}


class BadResults(ValueError):
    pass


# --- the files -------------------------------------------------------------------------------------------------------


def load(path):
    """The runs of a result file: [(conditions, measurements)]. Raises BadResults, which names the line."""
    runs, complete = [], True
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise BadResults(f"{path}: {error.strerror}; docs/results/record.sh makes such files") from error
    for number, line in enumerate(lines, 1):

        def bad(what, number=number):
            return BadResults(f"{path}:{number}: {what}")

        try:
            entry = json.loads(line)
        except ValueError as error:
            raise bad(f"not JSON: {error}") from error
        if not isinstance(entry, dict):
            raise bad("not a JSON object")
        if "program" in entry:
            if not complete:
                raise bad("a run begins, and the one before it has not ended")
            for key, kind in CONDITIONS.items():
                if not isinstance(entry.get(key), kind) or entry[key] in ("", "unknown"):
                    raise bad(f"the conditions do not tell {key!r}; record the file on a GPU")
            runs.append((entry, []))
            complete = False
        elif complete:
            raise bad("a measurement without conditions before it")
        elif entry.get("what") == "complete":
            complete = True
            if not runs[-1][1]:
                raise bad("a run without a measurement")
        else:
            try:
                runs[-1][1].append(with_derived(entry))
            except (KeyError, TypeError, ValueError) as error:
                raise bad(f"not a measurement: {error}") from error
    if not runs or not complete:
        raise BadResults(f"{path}: the last run is not complete; record the file again")
    return runs


def with_derived(entry):
    """A measurement with what follows from it. Its times, their number and their median must agree."""
    unit = "ms" if "ms" in entry else "us"
    times, median = sorted(entry[unit]), entry[f"median_{unit}"]
    half = 0.00051  # the last digit is rounded
    if not times or len(times) != entry["repeats"]:
        raise ValueError(f"{entry['repeats']} repeats, {len(times)} times")
    if not times[0] > 0 or not times[(len(times) - 1) // 2] - half <= median <= times[len(times) // 2] + half:
        raise ValueError(f"the median of the times is not {median}")
    entry["median_us"] = us = median * (1000 if unit == "ms" else 1)
    entry["median_ms"] = us / 1000
    entry["fastest_ms"], entry["slowest_ms"] = (time * (1 if unit == "ms" else 1e-3) for time in (times[0], times[-1]))
    if "bytes" in entry:
        entry["gb_per_s"] = entry["bytes"] / us / 1e3
    if "part" in entry and "chunk_bytes" in entry:
        entry["us_a_chunk"] = us * entry["chunk_bytes"] / entry["bytes"]
    if "peak_bytes" in entry:
        entry["peak_ratio"] = entry["peak_bytes"] / entry["final_bytes"]
    if "peers_enabled" in entry:
        entry["gpus_in_all"] = entry["peers_enabled"] + 1
    if "open_to" in entry:
        entry["gpus_in_all"] = entry["open_to"]
    return entry


# --- what a page asks for --------------------------------------------------------------------------------------------


def wanted(words):
    """{key: value} of ["key=value", ...]; sizes are written like 64MiB."""
    result = {}
    for word in words:
        key, equals, value = word.partition("=")
        size = re.fullmatch(r"(\d+)([KMG]iB)", value)
        if not equals:
            raise BadResults(f"{word!r} is not of the form key=value")
        if size:
            result[key] = int(size[1]) * SIZES[size[2]]
        elif re.fullmatch(r"\d+|true|false", value):
            result[key] = json.loads(value)
        else:
            result[key] = value.replace("_", " ")
    return result


@functools.cache
def runs_of(path):
    return load(path)


def runs_of_name(name):
    return runs_of(DIRECTORY / f"{name}.jsonl")


def points(names, condition, x, y):
    """{x: y} of the measurements of these files that meet the condition."""
    condition = dict(condition)
    runs, found = condition.pop("runs", 1), {}
    for name in names:
        for _, entries in runs_of_name(name):
            for entry in entries:
                if all(key in entry and entry[key] == value for key, value in condition.items()):
                    if y not in entry or x and x not in entry:
                        raise BadResults(f"{' '.join(names)}: {condition}: a measurement without {x} or {y}")
                    found.setdefault(entry.get(x), []).append(entry[y])
    for place, values in found.items():
        if len(values) != runs:
            what = f"{len(values)} measurements, not {runs}"
            raise BadResults(f"{' '.join(names)}: {condition}: {what}{f' of {x} {place}' if x else ''}")
    if not found:
        raise BadResults(f"{' '.join(names)}: no measurement for {condition}")
    return {place: statistics.median(values) for place, values in sorted(found.items(), key=lambda one: one[0] or 0)}


def figure(expression):
    """The text of "FILE condition... key", or of the ratio or the difference of two such."""
    name, key, conditions, values = None, None, {}, []
    first, sign, second = re.fullmatch(r"(.*?)(?: ([/-]) (.*))?", expression).groups()
    for part in [first, second] if second else [first]:
        words = part.split()
        name = next((word for word in words if "/" in word and "=" not in word), name)
        key = next((word for word in words if "/" not in word and "=" not in word), key)
        conditions |= wanted(word for word in words if "=" in word)
        if not name or not key:
            raise BadResults(f"{part!r} does not name a file and a value")
        values.append(points([name], conditions, "", key)[None])
    if sign == "/":
        ratio = values[0] / values[1]
        return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 2 else f"{ratio:.2f}"
    return text_of(key, values[0] - values[1] if sign else values[0])


def text_of(key, value):
    """A value as the page shows it: sizes in their unit, all else with about three digits."""
    if key.endswith("bytes"):
        return exact_size(value)
    if isinstance(value, int):
        return str(value)
    if value < 0.1:
        return f"{value:.2g}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


class Block:
    """A comment that asks for a table: its files, options, and the columns that it asks for."""

    def __init__(self, match):
        self.names = match[1].split()
        self.options = dict(line.partition(": ")[::2] for line in match[2].splitlines())
        lines = [line.rpartition(": ")[::2] for line in match[3].splitlines()]
        self.conditions = {label: wanted(condition.split()) for label, condition in lines}
        if not self.conditions or not {"x", "y", "alt"} <= set(self.options) <= {*"xy", "alt", "linear", "also"}:
            raise BadResults(f"{match[1]}: a table needs x, y, alt and its columns, and knows linear and also")
        self.x, self.y = self.options["x"], self.options["y"]

    def columns(self, names):
        return {label: points(names, condition, self.x, self.y) for label, condition in self.conditions.items()}

    def table(self, names):
        columns = self.columns(names)
        rows = sorted({place for values in columns.values() for place in values})
        lines = [[LABELS.get(self.x, self.x), *columns], ["---:"] * (len(columns) + 1)]
        for row in rows:
            cells = (text_of(self.y, values[row]) if row in values else "" for values in columns.values())
            lines.append([text_of(self.x, row).replace(" ", "&nbsp;"), *cells])
        return [f"| {' | '.join(line)} |" for line in lines]

    def filled(self, page):
        """The lines under the comment."""
        lines = fold(f"The figures: {LABELS[self.y]}", self.names, self, page, " open")
        if machine := self.options.get("also"):
            others = [f"{machine}/{name.partition('/')[2]}" for name in self.names]
            lines += fold(f"The same on {machine_text(others[0])}", others, self, page)
        return lines


def fold(summary, names, block, page, state=""):
    """A table in a fold. A forge opens the first one of a block, for it has no plot above."""
    start = [f"<details{state}>", f"<summary>{summary}</summary>", ""]
    machine, links = machine_text(names[0]), ", ".join(link(name, page) for name in names)
    end = f"{machine[0].upper()}{machine[1:]}, {repeats(names)} repeats: {links}."
    return [*start, *block.table(names), "", end, "", "</details>"]


def machine_text(name):
    """ "one of four H200s": how many GPUs a program saw, of how many."""
    machine, file = name.split("/")
    count, model = machine.split("_")
    seen = NUMBERS[runs_of_name(name)[0][0]["gpus"]]
    return f"{'' if seen == count else f'{seen} of '}{count} {model.replace('h', 'H')}"


def link(name, page, text=""):
    place = pathlib.Path(os.path.relpath(DIRECTORY, page.parent)).as_posix()
    return f"[{text or name.partition('/')[2] + '.jsonl'}]({place}/{name}.jsonl)"


def repeats(names):
    counts = {entry["repeats"] for name in names for _, run in runs_of_name(name) for entry in run}
    return " or ".join(map(str, sorted(counts)))


def files(machines, page):
    """A table of all files of these machines, and how they were measured: those of one name in the same way."""
    rows = {}
    for machine in machines:
        for path in sorted((DIRECTORY / machine).glob("*.jsonl")):
            name, runs = f"{machine}/{path.stem}", load(path)
            common = {key: {conditions[key] for conditions, _ in runs} for key in ("program", "driver", "cuda", "date")}
            if any(len(values) > 1 for values in common.values()):
                raise BadResults(f"{path}: runs of different programs, drivers or dates in one file: {common}")
            program, driver, cuda, date = (values.pop() for values in common.values())
            # The arguments of all runs, with what differs between them side by side.
            words = zip(*(conditions["arguments"].split() for conditions, _ in runs), strict=True)
            arguments = " ".join("\\|".join(dict.fromkeys(word)) for word in words)
            row = f"`{program} {arguments}`", repeats([name]), f"{driver}, {cuda}", date
            rows.setdefault(row, []).append(link(name, page, machine_text(name)))
    lines = ["| Command | Repeats | Driver, CUDA | Date | Files |", "| --- | --- | --- | --- | --- |"]
    return lines + [f"| {' | '.join(row)} | {', '.join(links)} |" for row, links in rows.items()]


def with_results(text, page):
    """The text of a page with all figures and tables as they should be."""

    def block(match):
        asked = match[1]
        if found := LIST.fullmatch(asked):
            lines = files(found[1].split(), page)
        else:
            lines = Block(BLOCK.fullmatch(asked)).filled(page)
        return "\n".join([asked, *lines, END])

    if first := FIRST.search(text):
        number = text.count("\n", 0, first.end()) + 1
        raise BadResults(f"line {number}: a figure begins a line, which a forge then takes for HTML: move it")
    if len(FILLED.findall(text)) != len(re.findall("<!-- result(?:s| files): ", text)):
        raise BadResults(f"a comment that asks for a table is not of its form, or has no {END}")
    text = FILLED.sub(block, text)
    return FIGURE.sub(lambda match: f"<!-- result: {match[1]} -->{figure(match[1])}", text)
