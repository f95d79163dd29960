# SPDX-License-Identifier: MIT-0
"""Writes SVG: the elements of a picture one after another, and the file that they make."""

import html

from vmmsim.view.style import styled


def attributes(values):
    """data_about="x" becomes data-about; what is empty is left out."""
    return "".join(
        f' {name.replace("_", "-")}="{html.escape(value)}"' for name, value in values.items() if value not in ("", None)
    )


class Canvas:
    """number: the format of coordinates."""

    def __init__(self, number=".0f"):
        self.elements, self.number = [], number
        self.kinds = set()  # the classes of all elements

    def add(self, element, kind=""):
        self.elements.append(element)
        self.kinds.update(kind.split())

    def text(self, x, y, text, kind="", **more):
        named = f' class="{kind}"' if kind else ""
        place = f'x="{x:{self.number}}" y="{y:{self.number}}"'
        self.add(f"<text{named} {place}{attributes(more)}>{html.escape(text, False)}</text>", kind)

    def rect(self, x, y, width, height, kind, **more):
        values = {"x": x, "y": y, "width": width, "height": height}
        place = " ".join(f'{name}="{value:{self.number}}"' for name, value in values.items())
        self.add(f'<rect class="{kind}" {place} rx="3"{attributes(more)}/>', kind)

    def path(self, path, kind):
        self.add(f'<path class="{kind}" d="{path}"/>', kind)


def file(elements, size, title, words, scale=1, style="", root_style=""):
    """The text of a picture's file. scale: how many times as large as it is drawn; style: an element of its own."""
    width, height = size
    shown = f'width="{width * scale:g}" height="{height * scale:g}"' + attributes({"style": root_style})
    return styled(
        '<!-- SPDX-License-'
        'Identifier: CC-BY-4.0 -->\n'  # in two, or the licence would be this file's
        f'<svg xmlns="http://www.w3.org/2000/svg" class="vmm-picture" role="img" viewBox="0 0 {width} {height}" '
        f'{shown}>\n'
        f"<title>{html.escape(title, False)}</title>\n<desc>{html.escape(words, False)}</desc>\n"
        f"<style></style>\n{style}"
        f'<rect class="vmm-paper" width="{width}" height="{height}" rx="6"/>\n' + "\n".join(elements) + "\n</svg>\n"
    )
