# SPDX-License-Identifier: MIT-0
"""Two runs, one above the other: the memory of each GPU in both, and below them the view of each.

    page_of_two(runs), of_two(runs)    [(recording, steps), (recording, steps)]: the text of a file, or what stands in a
                                       page of the book above or below the two views

The lanes have one scale. Side by side stands what was at the same time since the first call; or, where a recording has
no times, after the same share of the calls.
"""

import html

from vmmsim.view import overview as one
from vmmsim.view.page import command_of, filled, moments, name_of, view

OF_CALLS = "launch", "refused"  # are not drawn here
KEYS = "first-step", "second-step"  # of their views


def page_of_two(runs):
    names = dict.fromkeys(name_of(recording) for recording, _ in runs)
    views = [view(*run, key, moments(run[1])) for run, key in zip(runs, KEYS, strict=True)]
    return filled(f"Two runs of {' and '.join(names)}", of_two(runs, KEYS) + "".join(views), "vmm-two")


def of_two(runs, keys):
    """keys: of the views that steps lead to."""
    overviews = [steps.overview for _, steps in runs]
    lasts = [last_time(overview) for overview in overviews]
    by_time = all(lasts)
    top = max(overview.peak(device)[1].total for overview in overviews for device in overview.shown())
    parts = [
        part(recording, steps, key, top, max(lasts) if by_time else 0)
        for (recording, steps), key in zip(runs, keys, strict=True)
    ]
    kinds = dict.fromkeys(kind for overview in overviews for kind in one.legend_of(overview, overview.shown()))
    legend = "".join(f'<span class="vmm-{kind}">{words}</span>' for kind, words in kinds if words not in OF_CALLS)
    how = "time since the first call" if by_time else "share of the calls"
    return (
        f'<div class="vmm-overview vmm-both">\n{"".join(parts)}'
        f'<p class="vmm-legend" style="--vmm-fill:var(--vmm-gpu0)">{legend}'
        f"<span>both in one scale of memory, from left to right by {how}</span></p>\n</div>\n"
    )


def last_time(overview):
    """Microseconds of the run, or 0."""
    return overview.times[overview.count - 1] if overview.times else 0


def part(recording, steps, key, top, longest):
    overview = steps.overview
    lanes = "".join(
        one.lane(device, *(in_time(overview, changes, longest) if longest else (changes, overview.count)), top)
        for device, changes in overview.shown().items()
    )
    where, numbers = recording.about.get("where", ""), axis_in_time(longest) if longest else one.axis(overview)
    return (
        f'<p class="vmm-about"><code>{html.escape(command_of(recording))}</code>: '
        f'{html.escape(where + ", " if where else "")}{one.link(key, 1, "step through it")}</p>\n'
        f'{one.matters(overview, key)}<div class="vmm-strip">\n{lanes}'
        f'<div class="vmm-axis"><span></span><div>{numbers}</div></div>\n</div>\n'
    )


def in_time(overview, changes, longest):
    """(the same by the time at which it was, the end of the longer run)."""
    timed = [(1 + overview.times[max(step, 1) - 1], held) for step, held in changes]
    end = 1 + last_time(overview)
    return [*timed, (end + 1, one.Held())] if end < longest else timed, longest + 1


def axis_in_time(longest):
    labels = ((quarter / 4, one.seconds(longest * quarter / 4)) for quarter in range(5))
    return "".join(f'<i style="left:{at:.0%}">{text}</i>' for at, text in labels)
