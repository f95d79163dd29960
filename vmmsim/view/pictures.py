# SPDX-License-Identifier: MIT-0
"""Pictures of the steps of a recording, as js/draw.js draws them in a view.

of_steps(steps, numbers, ...)        of frames.Steps, as draw() of js/draw.js takes it
picture_of_steps(steps, first, last, ...)    the text of a file: the last one, with what all of them changed
file_of(picture, title, words)       the same, of what engine.pictures has drawn
"""

import html

from vmmsim.view.engine import pictures
from vmmsim.view.page import drawn
from vmmsim.view.style import styled


def of_steps(steps, numbers, **how):
    return pictures(drawn(steps), [{"to": number, **how} for number in numbers])


def picture_of_steps(steps, first, last, title="", **how):
    shown = steps[first - 1 : last]
    calls = [step.call for step in shown if step.kind == "changes" and not step.is_launch] if title else []
    how |= {"from": first - 1, "title": title, "calls": calls}
    name = title or (f"Step {last}: {shown[-1].call}" if first == last else f"Steps {first} to {last}")
    return file_of(of_steps(steps, [last], **how)[0], name, " ".join(step.words for step in shown))


def file_of(picture, title, words):
    """The text of a picture's file."""
    width, height = picture["width"], picture["height"]
    return styled(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="vmm-picture" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width:g}" height="{height:g}">\n'
        f"<title>{html.escape(title, False)}</title>\n<desc>{html.escape(words, False)}</desc>\n<style></style>\n"
        f'<rect class="vmm-paper" width="{width}" height="{height}" rx="6"/>\n'
        + "\n".join(picture["elements"])
        + "\n</svg>\n"
    )
