# SPDX-License-Identifier: MIT-0
"""What the book's search looks in: every section by itself, and the words by which readers look for it.

    <!-- search: 700, illegal memory access -->

Such a comment below a heading is about that section. Each of them, typed whole, leads there first. A code forge shows
nothing of it.

What is written here a page loads as a script, for _static/search_sections.js. A book that is opened as files can fetch
nothing: there Pagefind does not work. Sphinx's own search knows pages alone. Of lunr.js PyPI has what writes its index,
and not what reads it in a browser.
"""

import json
import pathlib
import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

COMMENT = re.compile(r"(?:<!--)?\s*search: ([\w,.' -]+?)\s*(?:-->)?\s*")
ANCHOR = re.compile(r'<a id="([\w-]+)">')


class Words(SphinxTransform):
    default_priority = 200

    def apply(self, **kwargs):
        for node in [*self.document.findall(nodes.comment), *self.document.findall(nodes.raw)]:
            if found := COMMENT.fullmatch(node.astext()):
                node.parent["search"] = [*node.parent.get("search", []), *re.split(r",\s*", found[1])]
                node.parent.remove(node)


def text_of(node):
    """As a reader sees it: what is raw is an anchor."""
    return "".join(text for text in node.findall(nodes.Text) if not isinstance(text.parent, nodes.raw))


def lines(children):
    """A paragraph, a row of a table or a line of a listing; with its anchor, if a row has one of its own."""
    for child in children:
        if isinstance(child, nodes.row):
            text = " · ".join(filter(None, map(text_of, child)))
            anchors = ANCHOR.findall("".join(raw.astext() for raw in child.findall(nodes.raw)))
            yield [text, *anchors[:1]]
        elif isinstance(child, nodes.literal_block):
            yield from ([line.strip()] for line in text_of(child).splitlines())
        elif isinstance(child, nodes.TextElement):
            yield [text_of(child).replace("\n", " ")]
        elif not isinstance(child, (nodes.section, nodes.Text)):
            yield from lines(child.children)


def sections(parent, page, above=()):
    """Those of the page at this address, each with the titles of the sections in which it stands."""
    for section in filter(lambda child: isinstance(child, nodes.section), parent.children):
        title = text_of(section[0])
        yield {
            "address": f"{page}#{section['ids'][0]}" if above else page,
            "title": title,
            "above": above,
            "words": section.get("search", []),
            "lines": [line for line in lines(section[1:]) if line[0]],
        }
        yield from sections(section, page, [*above, title])


def write_index(app, error):
    if error or app.builder.name != "html":
        return
    pages = [(app.env.get_doctree(name), app.builder.get_target_uri(name)) for name in sorted(app.env.found_docs)]
    index = json.dumps([each for document, page in pages for each in sections(document, page)], ensure_ascii=False)
    pathlib.Path(app.outdir, "_static", "search_index.js").write_text(f"const sectionsOfBook = {index};\n")


def setup(app):
    app.add_transform(Words)
    app.connect("build-finished", write_index)
    return {"env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}
