# SPDX-License-Identifier: MIT-0
"""By what words readers look for a section, as entries for Sphinx's own search: its heading, and a comment below it.

    <!-- search: 700, illegal memory access -->

Each of them, typed whole, leads to the section first; of all else the search finds the pages that have it. A code forge
shows nothing of it. Pagefind would find by section too, and fetches its index, which no browser does for a book that is
opened as files.
"""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

COMMENT = re.compile(r"(?:<!--)?\s*search: ([\w,.' -]+?)\s*(?:-->)?\s*")


def entries(section, words):
    target = section["ids"][0] if isinstance(section.parent, nodes.section) else ""  # a page, or a section of it
    return addnodes.index("", entries=[("single", word, target, "main", None) for word in words])


class Entries(SphinxTransform):
    default_priority = 200

    def apply(self, **kwargs):
        for node in [*self.document.findall(nodes.comment), *self.document.findall(nodes.raw)]:
            if found := COMMENT.fullmatch(node.astext()):
                keywords = nodes.meta("", name="keywords", content=found[1])
                node.replace_self([keywords, entries(node.parent, re.split(r",\s*", found[1]))])
        for section in list(self.document.findall(nodes.section)):
            section.append(entries(section, [section[0].astext().replace(";", ",")]))


def setup(app):
    app.add_transform(Entries)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
