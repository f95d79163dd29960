# SPDX-License-Identifier: MIT-0
"""Draws a plot of measured results in the place of a comment, and closes the fold below it, in which the table is.

    <!-- plot: results/bandwidth.csv linear
    What the plot says, for those who do not see it.
    -->

The axis of the values is logarithmic without `linear`. A code forge shows the table alone.
"""

import html
import io
import logging
import os
import pathlib
import re

from docutils import nodes
from sphinx.errors import SphinxError
from sphinx.transforms import SphinxTransform

from docs.extensions.result_files import BadResults, load, number
from vmmsim.view import LIGHT

# A line of a plot differs from the others by marker and dash as well as by colour. The colours are stand-ins, each for
# a variable of the style sheet, so that a plot follows the page from light to dark and onto paper.
INK, FAINT = "#010203", "#070809"
COMMENT = re.compile(r"<!-- plot: (\S+\.csv)( linear)?\n(.*)\n-->")
FORMS, LINE = ("wide", "narrow"), 22  # the pixels of a line of text
LINES = [
    (f"#0a0b{i:02x}", marker, dash)
    for i, (marker, dash) in enumerate(
        zip("osD^vP", ("solid", (0, (6, 2)), (0, (2, 2)), (0, (6, 2, 2, 2)), (0, (1, 1)), (0, (10, 3))), strict=True)
    )
]
NAMES = {INK: "ink", FAINT: "faint"} | {colour: f"gpu{i}" for i, (colour, *_) in enumerate(LINES)}
VARIABLES = {colour: f"--vmm-{name}, {LIGHT[f'--vmm-{name}']}" for colour, name in NAMES.items()}


class BadPage(SphinxError):
    category = "Results"


class Plots(SphinxTransform):
    default_priority = 200

    def apply(self, **kwargs):
        is_fold = False  # the next piece of HTML opens the fold of a plot
        for node in list(self.document.findall(nodes.raw)):
            if found := COMMENT.fullmatch(node.astext().strip()):
                self.draw(node, *found.groups())
                is_fold = True
            elif is_fold:
                node.replace_self(nodes.raw("", node.astext().replace("<details open>", "<details>"), format="html"))
                is_fold = False

    def draw(self, node, name, linear, alt):
        file = (pathlib.Path(self.env.doc2path(self.env.docname)).parent / name).resolve()
        self.env.note_dependency(str(file))  # the page is built again when it changes
        os.environ.setdefault("MPLCONFIGDIR", str(self.env.doctreedir / "matplotlib"))  # its cache, not in a home
        frames = []
        try:
            for form in FORMS:
                prefix = f"plot-{self.env.docname.replace('/', '-')}-{self.env.new_serialno('results')}"
                svg = for_a_page(plot(*load(file), linear, prefix, form), prefix, alt)
                frames.append(f'<div class="results-plot results-{form}">{svg}</div>')
        except (BadResults, OSError) as error:
            raise BadPage(f"{self.env.docname}: {error}") from error
        node.replace_self(nodes.raw("", "".join(frames), format="html"))


def plot(x, y, columns, linear, salt, form):
    """An SVG of the columns over x. Where it is narrow, the names of the lines stand below it."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it warns where its first look at the fonts takes 5 s
    import matplotlib  # takes a while, and a page without plots has no need of it
    from matplotlib.figure import Figure

    inked = "text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"
    settings = {"svg.fonttype": "none", "svg.hashsalt": salt, "font.family": "DejaVu Sans", "font.size": 14}
    with matplotlib.rc_context(settings | dict.fromkeys(inked, INK)):
        if form == "wide":
            figure = Figure(figsize=(10, 5), dpi=72)  # in SVG a point is a pixel
            axes = figure.add_axes((0.09, 0.17, 0.55, 0.75))
        else:
            height, names = 360, LINE * len(columns)
            figure = Figure(figsize=(5, (height + names) / 72), dpi=72)
            axes = figure.add_axes((0.18, (70 + names) / (height + names), 0.79, (height - 100) / (height + names)))
        ends = []
        for (label, points), (colour, marker, dash) in zip(columns.items(), LINES, strict=False):
            look = {"color": colour, "marker": marker, "markersize": 8, "markeredgecolor": INK, "markeredgewidth": 0.8}
            places = [number(place) for place in points]
            axes.plot(places, list(points.values()), linestyle=dash, linewidth=2, zorder=3, **look)
            ends.append((label, look, list(points.values())[-1]))
        scale(axes, columns, linear)
        axes.set_xlabel(x)
        axes.set_title(y, loc="left", fontsize=14)
        axes.grid(color=FAINT, linewidth=1)
        axes.spines[["top", "right"]].set_visible(False)
        name_lines(figure, axes, ends, form)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return text.getvalue()


def scale(axes, columns, linear):
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    names = sorted({place for points in columns.values() for place in points}, key=number)
    rows = [number(name) for name in names]
    if names[0].endswith("iB"):
        axes.set_xscale("log", base=2)
    axes.set_xticks(rows, names)
    places = [axes.transData.transform((row, 1))[0] for row in rows]
    if any(right - left < 65 for left, right in zip(places, places[1:], strict=False)):
        for label in axes.get_xticklabels()[1::2]:  # every second one a line lower: they would touch
            label.set_y(-0.05)
    axes.xaxis.set_minor_locator(NullLocator())
    if linear:
        axes.set_ylim(bottom=0)
        return
    axes.set_yscale("log")
    values = [value for points in columns.values() for value in points.values()]
    few = max(values) < 1000 * min(values)  # then the powers of ten alone would be too few
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def name_lines(figure, axes, ends, form):
    """Each line's name, by their order at the lines' ends: from the top of the plot down beside it, or below it."""
    from matplotlib.lines import Line2D

    left, low = (0.675, axes.bbox.y1 - LINE * (len(ends) - 0.5)) if form == "wide" else (0.07, 0.6 * LINE)
    for row, (label, look, _) in enumerate(sorted(ends, key=lambda end: end[2])):
        height = (low + LINE * row) / figure.bbox.height
        figure.text(left + 14 / figure.bbox.width, height, label, va="center", color=INK)
        figure.add_artist(Line2D([left], [height], linestyle="none", **look))


def for_a_page(svg, prefix, alt):
    """The SVG inside a page: its ids are its own, its colours the page's; a style would reach all of the page."""
    svg = re.sub(r"<(style|metadata)\b[\s\S]*?</\1>", "", svg[svg.index("<svg") :])
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{prefix}-", svg)
    svg = re.sub("|".join(VARIABLES), lambda colour: f"var({VARIABLES[colour[0]]})", svg)
    svg = svg.replace("'DejaVu Sans'", "system-ui, sans-serif")
    svg = re.sub(r'width="([\d.]+)pt" height="[\d.]+pt"', r'role="img" style="--natural-width: \1px"', svg, count=1)
    return svg.replace(">", f"><title>{html.escape(alt)}</title>", 1)


def setup(app):
    app.add_transform(Plots)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
