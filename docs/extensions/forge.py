# SPDX-License-Identifier: MIT-0
"""What a page has for one of its two readers alone: a code forge, which knows plain Markdown, or the book.

    <!-- forge -->                 what follows is for a forge: the book leaves it out
    ...
    <!-- /forge -->

    <!-- book                      for the book: a forge takes it for a comment
    ...
    -->

A picture that is drawn light and dark is <picture> of a forge's, in a link; the book follows its own switch.

An anchor, <a id="name"></a> alone on its line, is one for both: in the book it is a target of MyST's, and a link to it,
page.md#name, one to that target.
"""

import pathlib
import re

FORGE = re.compile(r"^<!-- forge -->$[\s\S]*?^<!-- /forge -->$", re.MULTILINE)
BOOK = re.compile(r"^<!-- book\n([\s\S]*?)^-->$", re.MULTILINE)
ANCHOR = re.compile(r'^<a id="([\w-]+)"></a>$', re.MULTILINE)
PICTURE = re.compile(
    r'^<a href="(.+)"><picture>\n<source media="\(prefers-color-scheme: dark\)" srcset="(.+)">\n'
    r'<img src="(.+)" alt="(.+)">\n</picture></a>$',
    re.MULTILINE,
)
LINK = re.compile(r"\]\([\w./-]+\.md#([\w-]+)\)")


def for_the_book(app, page, source):
    text = PICTURE.sub(r"[![\4](\3){.only-light}![\4](\2){.only-dark}](\1)", source[0])
    text = ANCHOR.sub(r"(\1)=", BOOK.sub(r"\1", FORGE.sub("", text)))
    source[0] = LINK.sub(lambda link: f"](#{link[1]})" if link[1] in app.anchors else link[0], text)


def setup(app):
    pages = pathlib.Path(app.confdir).glob("*.md")
    app.anchors = {name for page in pages for name in ANCHOR.findall(page.read_text())}
    app.connect("source-read", for_the_book)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
