# SPDX-License-Identifier: MIT-0
"""Puts SVG pictures inline into the HTML, so that they follow the theme that the reader chose for the page.

A page shows a picture by plain Markdown, ![alt text](pictures/x.svg). On a code forge that is an image file, which
knows only what the system prefers. Inline, the variables --vmm-* of pictures.css reach it, and the alt text is its
title; the style that the file of a picture of address spaces carries is left out, since all of them have pictures.css,
which is written from vmmsim/view/style.py. What one of them has for itself, such as its motion, stands in a style
element with an id, and stays.
"""

import pathlib
import re
import xml.etree.ElementTree as ElementTree

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from docs.extensions.svg import SVG, identity, prepare
from vmmsim.view import style_of_book

KEYFRAMES = re.compile(r"(@keyframes\s+([\w-]+)\s*\{(?:[^{}]*\{[^{}]*\})*\s*\})")
ANIMATION = re.compile(r"\banimation(?:-name)?\s*:[^;}]*")


def inline(file, alt, prefix):
    """The file as an element of HTML. Its ids and animations get the prefix, and its style holds for it only."""
    root = ElementTree.parse(file).getroot()
    width = root.get("width") or root.get("viewBox", "0 0 600").replace(",", " ").split()[2]
    has_style = root.get("class") == "vmm-picture"
    for element in root.findall(f"{{{SVG}}}style"):
        if has_style and not element.get("id"):
            root.remove(element)
    prepare(root, alt, prefix)
    for element in root.iter(f"{{{SVG}}}style"):
        element.text = style_of(element.text.replace(":root", "svg"), prefix)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<div class="picture" id="{prefix}" style="--natural-width: {width.removesuffix("px")}px">{text}</div>'


def style_of(rules, prefix):
    """The rules for this picture only. Animations belong to the whole page, so their names get the prefix."""
    frames = KEYFRAMES.findall(rules)
    names = "|".join(re.escape(name) for _, name in frames) or "(?!)"
    named = re.compile(rf"(?<![\w#-])({names})(?![\w-])")
    rules = ANIMATION.sub(lambda found: named.sub(rf"{prefix}-\1", found[0]), KEYFRAMES.sub("", rules))
    return "\n".join([f"#{prefix} {{ {rules} }}", *(named.sub(rf"{prefix}-\1", text, count=1) for text, _ in frames)])


class InlineSvg(SphinxPostTransform):
    default_priority = 200
    formats = ("html",)

    def run(self, **kwargs):
        for number, image in enumerate(self.document.findall(nodes.image)):
            file = pathlib.Path(self.app.srcdir, image["uri"])
            if file.suffix != ".svg" or not file.is_file():  # one that is missing has been warned of
                continue
            if not image.get("alt"):
                logging.getLogger(__name__).warning("%s has no alt text", image["uri"], location=image)
            prefix = identity("picture", self.env.docname, number + 1)
            image.replace_self(nodes.raw("", inline(file, image.get("alt", ""), prefix), format="html"))


def write_style(app):
    static = pathlib.Path(app.outdir, "_static")
    static.mkdir(parents=True, exist_ok=True)
    (static / "pictures.css").write_text(style_of_book() + "\n")


def setup(app):
    app.add_post_transform(InlineSvg)
    app.connect("builder-inited", write_style)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
