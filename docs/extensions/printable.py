# SPDX-License-Identifier: MIT-0
"""Writes printable.html beside the pages: all of them in one file, in the order of the contents, to print or hand out.

The file needs no other: the styles are in it, and it has no script. It is put together from the pages as they were
built. The ids of each page get the page's name, so that links lead to the right one of two equal sections.
"""

import base64
import html
import pathlib
import posixpath

from bs4 import BeautifulSoup

from docs.extensions.svg import slug

HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{title}, all pages</title>
<style>
{styles}
</style>
</head>
<body data-theme="light">
<div class="content">
"""


def in_order(environment, name):
    yield name
    for child in environment.toctree_includes.get(name, []):
        yield from in_order(environment, child)


def styles_of(page):
    """The styles of a page as it was built, in their order."""
    for element in BeautifulSoup(page.read_text(), "html.parser").select("link[rel=stylesheet], style"):
        yield (page.parent / element["href"].partition("?")[0]).read_text() if element.name == "link" else element.text


def write(app, exception):
    if exception or app.builder.name != "html":
        return
    out = pathlib.Path(app.outdir)
    names = list(dict.fromkeys(in_order(app.env, app.config.root_doc)))

    def anchor(name, fragment=""):
        return slug(name) + (f".{fragment}" if fragment else "")

    chapters = []
    for name in names:
        page = app.builder.get_outfilename(name)
        article = BeautifulSoup(pathlib.Path(page).read_text(), "html.parser").find("article")
        without = ".headerlink, .vmm-view, .vmm-both, .vmm-to, .vmm-absent"  # to step through needs scripts
        for element in article.select(without):
            element.decompose()
        for element in article.select(".table-wrapper, .picture"):  # it may scroll: for the keyboard
            element["tabindex"] = "0"
            element["role"] = "group"
        for element in article.find_all(id=True):
            if not element.find_parent("svg") and "picture" not in element.get("class", []):  # these have it already
                element["id"] = anchor(name, element["id"])
        for answer in article.find_all("details"):
            answer["open"] = ""
        for image in article.select("img[src$='.png']"):  # the file that is handed out needs no other
            data = (pathlib.Path(page).parent / image["src"]).read_bytes()
            image["src"] = "data:image/png;base64," + base64.b64encode(data).decode()
        for element in article.select("a[href^='#']"):
            element["href"] = f"#{anchor(name, element['href'][1:])}"
        for link in article.select("a.internal[href]:not([href^='#'])"):
            path, _, fragment = link["href"].partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)).removesuffix(".html")
            if target in names:
                link["href"] = f"#{anchor(target, fragment)}"
            else:  # a file to download
                link.unwrap()
        chapters.append(f'<section class="chapter" id="{anchor(name)}">\n{article.decode_contents()}\n</section>\n')

    contents = "".join(
        f'<li><a href="#{anchor(name)}">{html.escape(app.env.titles[name].astext())}</a></li>\n' for name in names
    )
    title = html.escape(app.config.project)
    root = pathlib.Path(app.builder.get_outfilename(app.config.root_doc))
    styles = "\n".join([*styles_of(root), (out / "_static" / "printable.css").read_text()])
    (out / "printable.html").write_text(
        HEAD.format(title=title, styles=styles)
        + f'<nav aria-label="Contents"><h2>Contents</h2>\n<ol>\n{contents}</ol></nav>\n'
        + f'<article role="main">\n{"".join(chapters)}</article>\n</div>\n</body>\n</html>\n'
    )


def setup(app):
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
