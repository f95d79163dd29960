# SPDX-License-Identifier: MIT-0
"""Two runs, one above the other: the memory of each GPU in both, and below them the view of each.

    page_of_two(runs), of_two(runs)    [(recording, steps), (recording, steps)]: the text of a file, or what stands in a
                                       page of the book above or below the two views

The strips of both have one scale of memory and one of calls or time, and their peaks stand one above the other.
"""

import html
import pathlib
import re

from vmmsim.view.overview import link
from vmmsim.view.page import calls, command_of, filled, view
from vmmsim.view.sizes import size_text

KEYS = "first-step", "second-step"  # of their views


def name_of(recording):
    """As its file is named: the two programs may have one name."""
    return re.sub(r"(\.jsonl?)?(\.gz)?$", "", pathlib.Path(recording.path).name)


def page_of_two(runs):
    names = [name_of(recording) for recording, _ in runs]
    opens = [f' data-opens="{steps.overview.opens()}"' for _, steps in runs]
    views = [view(*run, key, calls(run[1]), mark) for run, key, mark in zip(runs, KEYS, opens, strict=True)]
    return filled(f"Two runs of {' and '.join(names)}", of_two(runs, KEYS) + "".join(views), "vmm-two")


def of_two(runs, keys):
    """keys: of the views that steps lead to."""
    parts = [part(*run, key) for run, key in zip(runs, keys, strict=True)]
    words = f'<p class="vmm-matters">{html.escape("; ".join(differences(runs)))}.</p>\n'
    return f'<div class="vmm-overview vmm-both">\n{words}{"".join(parts)}</div>\n'


def differences(runs):
    """In words: of each GPU, which run has the higher peak."""
    (first, one_run), (second, other_run) = ((name_of(recording), steps.overview) for recording, steps in runs)
    devices = dict.fromkeys([*one_run.shown(), *other_run.shown()])
    for device in devices:
        peaks = [run.peak(device)[1].total if device in run.lanes else 0 for run in (one_run, other_run)]
        of = f"GPU {device}: " if len(devices) > 1 else ""
        if peaks[0] == peaks[1]:
            yield f"{of}both have a peak of {size_text(peaks[0])}"
        else:
            more = "more" if peaks[1] > peaks[0] else "less"
            yield f"{of}the peak of {second} is {size_text(abs(peaks[1] - peaks[0]))} {more} than that of {first}"


def part(recording, steps, key):
    where = recording.about.get("where", "")
    return (
        f'<p class="vmm-about"><b>{html.escape(name_of(recording))}</b>: '
        f"<code>{html.escape(command_of(recording))}</code>, "
        f'{html.escape(where + ", " if where else "")}{link(key, 1, "step through it")}</p>\n'
        f'<div class="vmm-strip" data-of="{html.escape(key)}"></div>\n'
    )
