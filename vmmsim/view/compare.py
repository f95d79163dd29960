# SPDX-License-Identifier: MIT-0
"""Two runs, one above the other: the memory of each GPU in both, and below them the view of each.

    page_of_two(runs), of_two(runs)    [(recording, steps), (recording, steps)]: the text of a file, or what stands in a
                                       page of the book above or below the two views

The lanes have one scale of memory. One above the other stands what was after the same share of the calls: by time a
program that spends seconds in its start shows nothing else.
"""

import html

from vmmsim.view import overview as one
from vmmsim.view.page import calls, command_of, filled, name_of, view

OF_CALLS = "launch", "refused"  # are not drawn here
KEYS = "first-step", "second-step"  # of their views


def page_of_two(runs):
    names = dict.fromkeys(name_of(recording) for recording, _ in runs)
    views = [view(*run, key, calls(run[1])) for run, key in zip(runs, KEYS, strict=True)]
    return filled(f"Two runs of {' and '.join(names)}", of_two(runs, KEYS) + "".join(views), "vmm-two")


def of_two(runs, keys):
    """keys: of the views that steps lead to."""
    overviews = [steps.overview for _, steps in runs]
    top = max(overview.peak(device)[1].total for overview in overviews for device in overview.shown())
    parts = [part(*run, key, top) for run, key in zip(runs, keys, strict=True)]
    kinds = dict.fromkeys(kind for overview in overviews for kind in one.legend_of(overview, overview.shown()))
    legend = "".join(f'<span class="vmm-{kind}">{words}</span>' for kind, words in kinds if words not in OF_CALLS)
    return (
        f'<div class="vmm-overview vmm-both">\n{"".join(parts)}'
        f'<p class="vmm-legend" style="--vmm-fill:var(--vmm-gpu0)">{legend}'
        "<span>both in one scale of memory, from left to right by share of the calls</span></p>\n</div>\n"
    )


def part(recording, steps, key, top):
    overview = steps.overview
    lanes = "".join(one.lane(device, changes, overview.count, top) for device, changes in overview.shown().items())
    where = recording.about.get("where", "")
    return (
        f'<p class="vmm-about"><code>{html.escape(command_of(recording))}</code>: '
        f'{html.escape(where + ", " if where else "")}{one.link(key, 1, "step through it")}</p>\n'
        f'{one.matters(overview, key)}<div class="vmm-strip">\n{lanes}'
        f'<div class="vmm-axis"><span></span><div>{one.axis(overview)}</div></div>\n</div>\n'
    )
