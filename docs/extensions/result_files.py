# SPDX-License-Identifier: MIT-0
"""The tables of measured results, docs/results/*.csv.

A comment in the first line has the command, the GPUs, driver, CUDA and date. Then there is a row for each value: the
place on the axis, the label of the line, the value, and of the single measurements the least and the most.
"""

import csv
import re

UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class BadResults(ValueError):
    pass


def load(path):
    """The names of the axes, and {label: {place: value}}. A place is text, such as 64 MiB."""
    head, *lines = path.read_text().splitlines()
    if not re.fullmatch(r"# \w+ .*, .* NVIDIA \w.*, driver \d.*, CUDA \d.*, \d{4}-\d\d-\d\d(: .*)?", head):
        raise BadResults(f"{path}: its first line does not tell command, GPUs, driver, CUDA and date")
    (x, _, y, *_), *rows = csv.reader(lines)
    columns = {}
    for place, label, value, *_ in rows:
        columns.setdefault(label, {})[place] = float(value)
    return x, y, columns


def number(place):
    count, _, unit = place.partition(" ")
    return int(count) * UNITS[unit]


def rounded(value):
    """About three digits."""
    if value < 0.1:
        return f"{value:.2g}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(path):
    """The lines of a table in Markdown."""
    x, _, columns = load(path)
    places = dict.fromkeys(place for values in columns.values() for place in values)
    rows = [
        [place.replace(" ", "&nbsp;"), *(rounded(values[place]) for values in columns.values())] for place in places
    ]
    return [f"| {' | '.join(row)} |" for row in ([x, *columns], ["---:"] * (len(columns) + 1), *rows)]
