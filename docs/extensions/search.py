# SPDX-License-Identifier: MIT-0
"""Sphinx's own search, by section: what is found is a section of a page, with the line of its text that has the words.

The index of Sphinx is of pages. Here each section becomes an entry of its own, and its lines go into the index with it,
so that a book that is opened as files needs to fetch nothing; search.js tells Sphinx's script how to show and to order
them. A page says what else a section is called by, in words that it does not have, in a comment below the heading:

    <!-- search: realloc, resize -->

Sphinx's engine, for it comes with the book. Pagefind fetches its index, which no browser does for file://, and the lunr
of PyPI has no part for the browser.
"""

import html
import io
import pathlib
import re

import sphinx.search
from docutils import nodes
from sphinx.transforms import SphinxTransform

COMMENT = re.compile(r"(?:<!--)?\s*search: ([\w, ]+?)\s*(?:-->)?\s*")


class Synonyms(SphinxTransform):
    default_priority = 200

    def apply(self, **kwargs):
        for node in [*self.document.findall(nodes.comment), *self.document.findall(nodes.raw)]:
            if found := COMMENT.fullmatch(node.astext()):
                node.replace_self(nodes.meta("", name="keywords", content=found[1]))


def lines(node):
    """The text of a part of a page, as it is found and shown."""
    if isinstance(node, nodes.raw) and "<summary>" in node.astext():
        yield html.unescape(re.sub(r"<.*?>", "", node.astext())).strip()
    elif isinstance(node, nodes.literal_block):
        yield from filter(None, map(str.strip, node.astext().splitlines()))
    elif isinstance(node, nodes.row):
        yield " | ".join(entry.astext().replace("\n", " ") for entry in node)
    elif isinstance(node, nodes.paragraph):
        yield node.astext().replace("\n", " ")
    elif not isinstance(node, (nodes.section, nodes.title)):
        for child in node.children:
            yield from lines(child)


def page_of(name):
    return name.partition("#")[0]


class BySection(sphinx.search.IndexBuilder):
    """An entry is named page#section, page# for what stands before the first section, and page for all of the page:
    there words are found that no single section has."""

    texts = {}

    def load(self, stream, format):
        text = stream.read()
        frozen = format.load(io.StringIO(text))
        if "texts" not in frozen:
            raise ValueError("an index of pages")  # as Sphinx itself refuses an old one
        super().load(io.StringIO(text), format)
        self.texts = dict(zip(frozen["docnames"], frozen["texts"], strict=True))

    def prune(self, docnames):
        super().prune([name for name in self._titles if page_of(name) in docnames])

    def feed(self, docname, filename, title, doctree):
        names = set()
        for section in doctree.findall(nodes.section):
            own = nodes.section("", *(each.deepcopy() for each in section if not isinstance(each, nodes.section)))
            is_first = not names
            name = f"{docname}#{'' if is_first else section['ids'][0]}"
            heading = title if is_first else f"{title} › {html.escape(section.next_node(nodes.title).astext())}"
            super().feed(name, filename, heading, own)
            self.texts = self.texts | {name: "\n".join(each for child in own for each in lines(child))}
            names.add(name)
        self._titles[docname], self._filenames[docname] = title, filename
        self._all_titles[docname], self._index_entries[docname] = [], []
        for word, where in [*self._mapping.items(), *self._title_mapping.items()]:
            if where & names:
                self._mapping.setdefault(word, set()).add(docname)

    def freeze(self):
        frozen = super().freeze()
        return frozen | {"texts": [self.texts.get(name, "") for name in frozen["docnames"]]}


def setup(app):
    app.add_transform(Synonyms)
    sphinx.search.IndexBuilder = BySection  # the builder of HTML takes it from there
    app.config.html_search_scorer = str(pathlib.Path(__file__).with_suffix(".js"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
