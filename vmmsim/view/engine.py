# SPDX-License-Identifier: MIT-0
"""The drawing of js/draw.js where there is no browser: pictures(data, asked), of a recording's steps or of a machine.

It runs in QuickJS, the package quickjs-ng of PyPI.
"""

import functools
import json
import pathlib

from vmmsim.view.records import SHAPES

HERE = pathlib.Path(__file__).resolve().parent / "js"
LICENSE = "// SPDX-License-Identifier: MIT-0\n"  # which a page says once
DRAWING = "parts records torch lifetimes scene layout drawing arrows aggregator rows sharing tooltips draw".split()
MAIN = """
function pictures(text) {
  const { data, asked } = JSON.parse(text), lives = new Lifetimes(data);
  return JSON.stringify(asked.map((options) => drawn(lives, options)));
}
"""


class NoEngine(Exception):
    """There is nothing here that runs JavaScript."""


def pictures(data, asked, drawn="const drawn = draw;"):
    """For each thing that is asked for, as draw() of js/draw.js takes it: {elements, height, width}; or what another
    function of JavaScript of that name makes of it."""
    return json.loads(engine(drawn)(json.dumps({"data": data, "asked": asked})))


def script_of_drawing(name: str) -> str:
    """For a page of one's own: a function of this name draws data as draw() does; nothing else of it is seen there."""
    function = "return (data, options) => draw(new Lifetimes(data), options);"
    return f'const {name} = (() => {{\n"use strict";\n{code_of_drawing()}{function}\n}})();\n'


def code_of_drawing():
    shapes = json.dumps(SHAPES, separators=(",", ":")).replace('"', "")  # as JavaScript, where names need none
    return f"{LICENSE}const shapes = {shapes};\n{code_of(DRAWING)}"


def code_of(names):
    return "".join((HERE / f"{name}.js").read_text().removeprefix(LICENSE) for name in names)


@functools.cache
def engine(drawn):
    code = code_of_drawing() + drawn + MAIN
    try:
        import quickjs
    except ImportError:
        raise NoEngine("to draw pictures install quickjs-ng (pip install quickjs-ng)") from None
    return quickjs.Function("pictures", code)
