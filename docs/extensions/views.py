# SPDX-License-Identifier: MIT-0
"""Puts views, by which one steps through the calls of a program, into the pages.

A page says where by a comment, which a code forge does not show:

    <!-- view: growable -->                     the program of a lesson: docs/tools/lesson_views.py has made it before
    <!-- view: recordings/pytorch.jsonl.gz -->  a recording, beside the page
    <!-- view: recordings/a.jsonl.gz recordings/b.jsonl.gz -->  two, one above the other: the page has both views, too

The views of lessons are made by running them on the simulator. Where that was not built a sentence says how to get one.
Below the first listing of a section about a step of the lesson stands a link to this step in the view. Nor does the
search take in what is in a view.
"""

import json
import pathlib
import re

from docutils import nodes
from sphinx.errors import SphinxError
from sphinx.transforms import SphinxTransform

from vmmsim.trace import Broken, Recording
from vmmsim.view import fragment, of_two, script, steps, style_of_pages

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMENT = re.compile(r"(?:<!--)?\s*view: (\S+(?: \S+\.\S+)?)\s*(?:-->)?\s*")
PLACE = re.compile(r"<!-- the view (\S+(?: \S+)?) -->")
LISTING = re.compile(r"(?:<!--)?\s*listing: (\w+)\.cu\b.*?(?:-->)?\s*")
STEP = re.compile(r"\[(\d+)\] ")
LINK = re.compile(r"<!-- the step (\w+) (\d+) -->")


class BadView(SphinxError):
    category = "View"


class Views(SphinxTransform):
    """A comment is left out of a page: what takes its place is a tag that the search does not see either."""

    default_priority = 200

    def apply(self, **kwargs):
        linked = set()
        for node in [*self.document.findall(nodes.comment), *self.document.findall(nodes.raw)]:
            if found := COMMENT.fullmatch(node.astext()):
                for name in found[1].split():
                    self.env.note_dependency(str(file_of(self.app, self.env.docname, name)))
                node.replace_self(nodes.raw("", f"<!-- the view {found[1]} -->", format="html"))
            elif found := LISTING.fullmatch(node.astext()):
                step = STEP.match(title_above(node))
                if step and step[1] not in linked:
                    linked.add(step[1])
                    below = node.parent.index(node) + 2
                    node.parent.insert(below, nodes.raw("", f"<!-- the step {found[1]} {step[1]} -->", format="html"))


def title_above(node):
    """That of the section in which it stands."""
    while node.parent and not isinstance(node.parent, nodes.section):
        node = node.parent
    return node.parent[0].astext() if node.parent else ""


def file_of(app, page, name):
    if "." in name:
        return (pathlib.Path(app.env.doc2path(page)).parent / name).resolve()
    return pathlib.Path(app.confdir, app.config.views).resolve() / f"{name}.html"


def id_of(file):
    return re.sub(r"\W+", "-", file.name.partition(".")[0])


def put(app, page, template, context, doctree):
    def run(file):
        try:
            recording = Recording.read(file)
        except Broken as error:
            raise BadView(f"{page}: {error}") from error
        return recording, steps(recording)

    def view(match):
        name, *others = match[1].split()
        file = file_of(app, page, name)
        if others:
            files = [file, *(file_of(app, page, other) for other in others)]
            return of_two([run(each) for each in files], [f"{id_of(each)}-step" for each in files])
        if "." in name:
            return fragment(*run(file), id_of(file))
        if file.exists():
            return file.read_text()
        return (
            '<p class="vmm-absent">This book was built without the simulator, so the view is not here. On Linux on '
            f'64-bit x86 or Arm <code>./run.sh --view build/bin/{name}</code> makes it.</p>'
        )

    def link(match):
        """To a view that is on this page: a second program has none."""
        name, step = match[1], match[2]
        file = file_of(app, page, name).with_suffix(".json")
        number = json.loads(file.read_text()).get(step) if name in views and file.exists() else None
        if not number:
            return ""
        return f'<p class="vmm-to"><a href="#{name}-step={number}">See it in the view</a></p>'

    if "body" in context:
        views = PLACE.findall(context["body"])
        context["body"] = LINK.sub(link, PLACE.sub(view, context["body"]))


def write_assets(app):
    static = pathlib.Path(app.outdir, "_static")
    static.mkdir(parents=True, exist_ok=True)
    (static / "view.js").write_text(script())
    (static / "pictures.css").write_text(style_of_pages() + "\n")


def setup(app):
    app.add_config_value("views", "../build/views", "env")  # where they are, from docs
    app.add_transform(Views)
    app.connect("builder-inited", write_assets)
    app.connect("html-page-context", put)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
