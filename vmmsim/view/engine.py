# SPDX-License-Identifier: MIT-0
"""The drawing of js/draw.js where there is no browser: pictures(data, asked), of a recording's steps or of a machine.

It runs in QuickJS, the package quickjs-ng of PyPI, or else in Node.js.
"""

import functools
import json
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent / "js"
DRAWING = "parts lives scene layout drawing arrows aggregator rows sharing tooltips prose draw".split()
MAIN = """
function pictures(text) {
  const { data, asked } = JSON.parse(text), lives = new Lives(data);
  return JSON.stringify(asked.map((each) => draw(lives, each)));
}
"""
IN_NODE = 'process.stdout.write(pictures(require("fs").readFileSync(0, "utf8")));'


class NoEngine(Exception):
    """There is nothing here that runs JavaScript."""


def pictures(data, asked):
    """For each thing that is asked for, as draw() of js/draw.js takes it: {elements, height, width, words}."""
    return json.loads(engine()(json.dumps({"data": data, "asked": asked})))


@functools.cache
def engine():
    code = "".join((HERE / f"{name}.js").read_text() for name in DRAWING) + MAIN
    try:
        import quickjs
    except ImportError:
        return functools.partial(in_node, code)
    return quickjs.Function("pictures", code)


def in_node(code, text):
    node = shutil.which("node")
    if not node:
        raise NoEngine("to draw pictures install quickjs-ng (pip install quickjs-ng) or Node.js")
    done = subprocess.run([node, "-e", code + IN_NODE], input=text, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{node} ended with status {done.returncode}\n{done.stderr}")
    return done.stdout
