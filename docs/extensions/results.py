# SPDX-License-Identifier: MIT-0
"""Result files as plots, tables and figures in the text: nothing that was measured is typed into a page.

A directive draws a plot and the table of the same values, and names the conditions under them:

    ```{results} NAME
    :x: step_bytes
    :y: median_ms
    :alt: what the plot says, for those who do not see it

    first line: method=buffer by=steps
    second line: method=cudaMalloc by=doubling
    ```

Each line of the body is a line of the plot and a column of the table: its label, and which measurements belong to it
(a _ stands for a space). With `:run:` only the runs count that have this among their arguments; `:linear:` is for an
axis that is not logarithmic; `:table:` leaves the plot out. A role puts one
measured value, or the ratio of two, into a sentence:

    {result}`NAME method=buffer by=steps step_bytes=2MiB median_ms`
    {result}`NAME method=cudaMalloc bytes=1GiB median_us / NAME method=buffer bytes=1GiB median_us`

There `run=--mib_64` stands for the runs that have `--mib 64` among their arguments.
"""

import io
import json
import logging
import os
import pathlib
import re

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.errors import SphinxError
from sphinx.util.docutils import SphinxDirective, SphinxRole

from result_files import BadResults, load

DIRECTORY = pathlib.Path(__file__).resolve().parent.parent / "results"
SIZES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

# What the axes and the tables call a key.
LABELS = {
    "step_bytes": "step",
    "final_bytes": "final size",
    "chunk_bytes": "chunk",
    "bytes": "size",
    "open_to": "GPUs that may use it",
    "gpus_in_all": "GPUs that may use it",
    "waited_ms": "ms after the release",
    "blocks": "blocks",
    "median_ms": "median time, ms",
    "fastest_ms": "fastest time, ms",
    "median_us": "median time, µs",
    "gb_per_s": "GB/s (10⁹ bytes)",
    "peak_ratio": "most memory taken, in final sizes",
}

# A line of a plot differs from the others by marker and dash as well as by colour. The colours are stand-ins, each for
# a variable of the style sheet, so that a plot follows the page from light to dark and onto paper.
INK, PAPER, FAINT = "#010203", "#040506", "#070809"
LINES = [
    (f"#0a0b{i:02x}", marker, dash)
    for i, (marker, dash) in enumerate(
        zip("osD^vP", ("solid", (0, (6, 2)), (0, (2, 2)), (0, (6, 2, 2, 2)), (0, (1, 1)), (0, (10, 3))), strict=True)
    )
]
VARIABLES = {INK: "--vmm-ink, #14181d", PAPER: "--vmm-paper, #ffffff", FAINT: "--vmm-faint, #e4e8ec"} | {
    colour: f"--vmm-gpu{i}, {light}"
    for i, ((colour, *_), light) in enumerate(
        zip(LINES, ("#3f95d2", "#da7823", "#349c68", "#b676cb", "#a49217", "#279e9e"), strict=True)
    )
}


class BadPage(SphinxError):
    category = "Results"


# --- what a page asks for --------------------------------------------------------------------------------------------


def wanted(text):
    """{key: value} of "key=value key=value"; sizes are written like 64MiB, and a value may be another key."""
    result = {}
    for word in text.split():
        key, equals, value = word.partition("=")
        size = re.fullmatch(r"(\d+)([KMG]iB)", value)
        if not equals:
            raise BadPage(f"{word!r} is not of the form key=value")
        if size:
            result[key] = int(size[1]) * SIZES[size[2]]
        elif re.fullmatch(r"\d+|true|false", value):
            result[key] = json.loads(value)
        else:
            result[key] = value.replace("_", " ")
    return result


def select(runs, condition):
    """The measurements that meet the condition: each key has the value, or the value of the key that is named."""

    def meets(entry, key, value):
        other = value.replace(" ", "_") if isinstance(value, str) else None
        return key in entry and entry[key] == (entry[other] if other in entry else value)

    return [
        entry
        for _, entries in runs
        for entry in entries
        if all(meets(entry, key, value) for key, value in condition.items())
    ]


def size_text(count):
    for unit in ("GiB", "MiB", "KiB"):
        if count % SIZES[unit] == 0:
            return f"{count // SIZES[unit]}\u00a0{unit}"
    return f"{count} bytes"


def text_of(key, value):
    """A value as the page shows it: sizes in their unit, all else with three digits or more."""
    if key.endswith("bytes"):
        return size_text(value)
    if isinstance(value, int):
        return str(value)
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def conditions_text(runs):
    """Under what conditions the runs of a file were made, in one sentence for each program."""
    first = runs[0][0]
    for conditions, _ in runs:
        for key in ("program", "device", "driver", "cuda"):
            if conditions[key] != first[key]:
                raise BadPage(f"runs of different {key} in one file: {first[key]} and {conditions[key]}")
    dates = sorted({conditions["date"] for conditions, _ in runs})
    repeats = sorted({entry["repeats"] for _, entries in runs for entry in entries})
    # The arguments of all runs, with what differs between them side by side.
    words = zip(*(conditions["arguments"].split() for conditions, _ in runs), strict=True)
    arguments = " ".join("|".join(dict.fromkeys(word)) for word in words)
    return (
        f"{first['gpus']} {first['device']}, driver {first['driver']}, CUDA {first['cuda']}, "
        f"{' to '.join(dict.fromkeys([dates[0], dates[-1]]))}; {' or '.join(map(str, repeats))} repeats; "
        f"`{first['program']} {arguments}`"
    )


# --- the pages -------------------------------------------------------------------------------------------------------


def source(environment, name):
    """The runs of a result file that a page uses: the page is built again when the file changes."""
    path = DIRECTORY / f"{name}.jsonl"
    environment.note_dependency(str(path))
    try:
        return load(path)
    except BadResults as error:
        raise BadPage(str(error)) from error


class Results(SphinxDirective):
    required_arguments = 1
    has_content = True
    option_spec = {key: directives.unchanged_required for key in ("x", "y", "alt", "run")} | {
        "linear": directives.flag,
        "table": directives.flag,
    }

    def run(self):
        name, x, y = self.arguments[0], self.options["x"], self.options["y"]
        runs = [run for run in source(self.env, name) if self.options.get("run", "") in run[0]["arguments"]]
        if not runs:
            raise BadPage(f"{name}: no run with {self.options['run']}")
        columns = {}
        for line in self.content:
            label, _, condition = line.rpartition(": ")
            points = {}
            for entry in select(runs, wanted(condition)):
                if x not in entry or y not in entry:
                    raise BadPage(f"{name}: {line!r}: a measurement without {x} or {y}")
                if entry[x] in points:
                    raise BadPage(f"{name}: {line!r}: two measurements of {x} {entry[x]}")
                points[entry[x]] = entry[y]
            if not points:
                raise BadPage(f"{name}: no measurement for {line!r}")
            columns[label] = dict(sorted(points.items()))
        figure = []
        if "table" not in self.options:
            number = self.env.new_serialno("results")
            os.environ.setdefault("MPLCONFIGDIR", str(self.env.doctreedir / "matplotlib"))  # its cache, not in a home
            svg = plot(
                columns,
                x,
                y,
                "linear" in self.options,
                f"plot-{self.env.docname.replace('/', '-')}-{number}",
                self.options["alt"],
            )
            figure = [
                nodes.raw(
                    "",
                    f'<div class="picture results-plot" tabindex="0" role="group" aria-label="plot">{svg}</div>',
                    format="html",
                )
            ]
        caption = nodes.container(
            "", *self.parse_text_to_nodes(self.caption(name, runs, y)), classes=["results-conditions"]
        )
        return [*figure, *self.parse_text_to_nodes(self.table(columns, x, y)), caption]

    @staticmethod
    def table(columns, x, y):
        rows = sorted({value for points in columns.values() for value in points})
        lines = [[LABELS.get(x, x), *columns], ["---:"] * (len(columns) + 1)]
        for row in rows:
            cells = (text_of(y, points[row]) if row in points else "" for points in columns.values())
            lines.append([text_of(x, row), *cells])
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    @staticmethod
    def caption(name, runs, y):
        label = LABELS.get(y, y)
        return (
            f"{label[0].upper()}{label[1:]}. {conditions_text(runs)}; "
            f"{{download}}`{name}.jsonl <results/{name}.jsonl>`\n"
        )


class Result(SphinxRole):
    def run(self):
        values, key = [], ""
        for part in self.text.split(" / "):
            name, *words, key = part.split()
            condition = wanted(" ".join(words))
            argument = condition.pop("run", "")
            runs = [run for run in source(self.env, name) if argument in run[0]["arguments"]]
            found = select(runs, condition)
            if len(found) != 1 or key not in found[0]:
                raise BadPage(f"{part!r}: {len(found)} measurements{' without such a value' if found else ''}")
            values.append(found[0][key])
        if len(values) == 1:
            text = text_of(key, values[0])
        else:
            text = text_of("", values[0] / values[1])
        return [nodes.inline("", text, classes=["result"])], []


# --- the plots -------------------------------------------------------------------------------------------------------


def plot(columns, x, y, linear, identity, alt):
    """An SVG of the columns over x, for use inside a page."""
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    import matplotlib  # takes a while, and a page without plots has no need of it
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": identity,
        "font.family": "DejaVu Sans",
        "font.size": 14,
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    }
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(10, 5), dpi=72)  # in SVG a point is a pixel
        axes = figure.add_axes((0.09, 0.17, 0.55, 0.75))
        ends = []
        for (label, points), (colour, marker, dash) in zip(columns.items(), LINES, strict=False):
            axes.plot(
                list(points),
                list(points.values()),
                color=colour,
                marker=marker,
                linestyle=dash,
                linewidth=2,
                markersize=8,
                markeredgecolor=INK,
                markeredgewidth=0.8,
                label=label,
                zorder=3,
            )
            ends.append((label, colour, marker, *list(points.items())[-1]))
        rows = sorted({value for points in columns.values() for value in points})
        if x.endswith("bytes"):
            axes.set_xscale("log", base=2)
        axes.set_xticks(rows, [text_of(x, row) for row in rows])
        places = [axes.transData.transform((row, 1))[0] for row in rows]
        if any(right - left < 65 for left, right in zip(places, places[1:], strict=False)):
            for label in axes.get_xticklabels()[1::2]:  # every second one a line lower: they would touch
                label.set_y(-0.05)
        axes.xaxis.set_minor_locator(NullLocator())
        if linear:
            axes.set_ylim(bottom=0)
        else:
            axes.set_yscale("log")
            values = [value for points in columns.values() for value in points.values()]
            few = max(values) < 100 * min(values)  # then the powers of ten alone would be too few
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel(LABELS.get(x, x))
        axes.set_title(LABELS.get(y, y), loc="left", fontsize=14)
        axes.grid(color=FAINT, linewidth=1)
        axes.spines[["top", "right"]].set_visible(False)
        # Each line's name beside its end, moved up or down so that no two lie over one another.
        places = sorted(
            (
                (axes.transData.transform((at, value))[1], label, marker, colour)
                for label, colour, marker, at, value in ends
            ),
            key=lambda place: place[0],
        )
        bottoms = []
        for height, *_ in places:
            bottoms.append(max(height, bottoms[-1] + 19 if bottoms else height))
        excess = max(0, bottoms[-1] - figure.bbox.height + 25) if bottoms else 0
        for bottom, (_, label, marker, colour) in zip(bottoms, places, strict=True):
            height = (bottom - excess) / figure.bbox.height
            figure.text(0.695, height, label, va="center", color=INK)
            figure.add_artist(
                matplotlib.lines.Line2D(
                    [0.675],
                    [height],
                    color=colour,
                    marker=marker,
                    markersize=8,
                    markeredgecolor=INK,
                    markeredgewidth=0.8,
                    linestyle="none",
                )
            )
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # One page shows several of them: their ids must differ, and their styles must not reach each other.
    svg = re.sub(r'\bid="', f'id="{identity}-', svg)
    svg = re.sub(r'((?:xlink:)?href="#|url\(#)', rf"\g<1>{identity}-", svg)
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = svg.replace("'DejaVu Sans'", "system-ui, sans-serif")
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    size = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', svg)
    svg = svg.replace(size[0], f'style="--natural-width: {size[1]}px" role="img" aria-labelledby="{identity}-title"', 1)
    title = nodes.Text(alt).astext().replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"(<svg[^>]*>)", rf'\1<title id="{identity}-title">{title}</title>', svg, count=1)


def setup(app):
    app.add_directive("results", Results)
    app.add_role("result", Result())
    app.add_css_file("results.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
