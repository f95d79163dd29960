# SPDX-License-Identifier: MIT-0
"""SVG inside a page of HTML. The ids of all that stands in one page, or in the book that is one page, must differ."""

import re
import xml.etree.ElementTree as ElementTree

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
ElementTree.register_namespace("", SVG)
ElementTree.register_namespace("xlink", XLINK)


def identity(kind, page, number):
    """What the ids of a picture begin with. The page is in it: the book is one page too."""
    return re.sub(r"\W+", "-", f"{kind}-{page}-{number}")


def prepare(root, alt, prefix):
    """Gives the picture its title, and its ids and the references to them the prefix."""
    for tag in ("title", "metadata"):
        for element in root.findall(f"{{{SVG}}}{tag}"):
            root.remove(element)
    title = ElementTree.Element(f"{{{SVG}}}title")
    title.text = alt
    root.insert(0, title)
    root.set("role", "img")
    ids = sorted((element.get("id") for element in root.iter() if element.get("id")), key=len, reverse=True)
    reference = re.compile(rf"#({'|'.join(map(re.escape, ids)) or '(?!)'})(?![\w-])")
    for element in root.iter():
        for name, value in element.attrib.items():
            element.set(name, f"{prefix}-{value}" if name == "id" else reference.sub(rf"#{prefix}-\1", value))
        if element.tag == f"{{{SVG}}}style":
            element.text = reference.sub(rf"#{prefix}-\1", element.text or "")
