# SPDX-License-Identifier: MIT-0
"""Pictures of the steps of a recording, as js/draw.js draws them in a view.

of_steps(steps, numbers)             of frames.Steps
picture_of_step(steps, number)       the text of a file
file_of(picture, title, words)       the same, of what engine.pictures has drawn
"""

import html

from vmmsim.view.engine import pictures
from vmmsim.view.page import drawn
from vmmsim.view.style import styled


def of_steps(steps, numbers):
    rows = [{"process": step.process, "call": step.call, "place": list(step.place)} for step in steps]
    return pictures({**drawn(steps), "steps": rows}, [{"to": number} for number in numbers])


def picture_of_step(steps, number):
    it, step = of_steps(steps, [number])[0], steps[number - 1]
    return file_of(it, f"Step {number}: {step.call}", step.words)


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
