# SPDX-License-Identifier: MIT-0
"""What a page has for one of its two readers alone: a code forge, which knows plain Markdown, or the book.

    <!-- forge -->                 what follows is for a forge: the book leaves it out
    ...
    <!-- /forge -->

    <!-- book                      for the book: a forge takes it for a comment
    ...
    -->

An anchor, <a id="name"></a> alone on its line, is one for both: in the book it is a target of MyST's.
"""

import re

FORGE = re.compile(r"^<!-- forge -->$[\s\S]*?^<!-- /forge -->$", re.MULTILINE)
BOOK = re.compile(r"^<!-- book\n([\s\S]*?)^-->$", re.MULTILINE)
ANCHOR = re.compile(r'^<a id="([\w-]+)"></a>$', re.MULTILINE)


def for_the_book(app, page, source):
    source[0] = ANCHOR.sub(r"(\1)=", BOOK.sub(r"\1", FORGE.sub("", source[0])))


def setup(app):
    app.connect("source-read", for_the_book)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
