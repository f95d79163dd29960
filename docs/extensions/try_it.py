# SPDX-License-Identifier: MIT-0
"""Makes a listing that a reader can change: its calls are answered in the browser, with a picture of what there is.

    <!-- try it -->
    ```c
    cuMemAddressReserve(&va, 4 MiB, 0, 0, 0)
    ```

_static/try_it.js does it, on the simulator's memory compiled for browsers (vmmsim/web), which the page loads when a
reader comes to a box. Where that was not built, as on a code forge, it stays a listing.

In a lesson, `<!-- try it: grow-where-you-are -->` stands for this section of docs/try_it.md. A forge shows none of it.
"""

import pathlib
import re
import shutil

from docutils import nodes
from sphinx.errors import SphinxError
from sphinx.transforms import SphinxTransform

from vmmsim.tool import PACKAGE
from vmmsim.view import script_of_drawing

COMMENT = re.compile(r"(?:<!--)?\s*try it\s*(?:-->)?\s*")
SECTION = re.compile(r"^<!-- try it: ([\w-]+) -->$", re.MULTILINE)
MACHINE, DRAWING = "try_it_machine.js", "try_it_drawing.js"
ABSENT = """<p class="vmm-absent">This book was built without what answers in its boxes, which needs
<code>em++</code>, of Debian's package emscripten. So the boxes below are listings, which cannot be changed.</p>
<p>"""


class BadPage(SphinxError):
    category = "Try it"


def bring_sections(app, page, source):
    def section(comment):
        boxes = pathlib.Path(app.confdir, "try_it.md")
        app.env.note_dependency(str(boxes))  # the page is built again when it changes
        for title, text in re.findall(r"^## (.*)\n\n([\s\S]*?)(?=^## |\Z)", boxes.read_text(), re.MULTILINE):
            if re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) == comment[1]:
                return f"**Try it.** {text.rstrip()}"
        raise BadPage(f"{page}: {boxes} has no section {comment[1]}")

    source[0] = SECTION.sub(section, source[0])


class TryIt(SphinxTransform):
    default_priority = 200

    def apply(self, **kwargs):
        for comment in [*self.document.findall(nodes.comment), *self.document.findall(nodes.raw)]:
            if not COMMENT.fullmatch(comment.astext()):
                continue
            listing = comment.parent[comment.parent.index(comment) + 1]
            listing["classes"].append("try-it")
            comment.parent.remove(comment)


def built(app):
    return pathlib.Path(app.confdir, app.config.web).resolve() / MACHINE


def put(app, page, template, context, doctree):
    if doctree is None or not any("try-it" in each["classes"] for each in doctree.findall(nodes.literal_block)):
        return
    if built(app).exists():
        app.add_js_file(DRAWING)
        app.add_js_file("try_it.js")
        app.add_js_file(None, body=f'const machineOfBoxes = "{context["pathto"]("_static/" + MACHINE, 1)}";')
    else:
        context["body"] = context["body"].replace("<p>", ABSENT, 1) if page.endswith("/try_it") else context["body"]


def copy_machine(app):
    if built(app).exists():
        static = pathlib.Path(app.outdir, "_static")
        static.mkdir(parents=True, exist_ok=True)
        shutil.copy(built(app), static / MACHINE)
        (static / DRAWING).write_text(script_of_drawing("drawOfViews"))


def setup(app):
    app.add_config_value("web", str(PACKAGE / "web"), "env")  # where the machine is, as from docs
    app.add_transform(TryIt)
    app.connect("builder-inited", copy_machine)
    app.connect("source-read", bring_sections)
    app.connect("html-page-context", put)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
