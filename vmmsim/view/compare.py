# SPDX-License-Identifier: MIT-0
"""Two runs, one above the other: how they differ, the memory of each GPU in both, and below them the view of each.

    page_of_two(runs), of_two(runs)    [(recording, steps), (recording, steps)]: the text of a file, or what stands in a
                                       page of the book above or below the two views
    differences(runs)                  sentences

The timelines of both have one scale of memory and one of calls or time, and their peaks stand one above the other.
"""

import collections
import html
import itertools
import pathlib
import re

from vmmsim.trace.recording import Recording
from vmmsim.view.frames import Steps
from vmmsim.view.overview import link
from vmmsim.view.page import about, filled, view
from vmmsim.view.sizes import size_text, sizes_text

KEYS = "first-step", "second-step"  # of their views
MOST = 3  # things of a kind that are named


def name_of_file(path):
    return re.sub(r"(\.jsonl?)?(\.gz)?$", "", pathlib.Path(path).name)


def names_of(runs):
    """As their files are named: the two programs may have one name."""
    names = [name_of_file(recording.path) for recording, _ in runs]
    return names if names[0] != names[1] else ["the first", "the second"]


def page_of_two(runs):
    opens = [f' data-opens="{steps.overview.opens()}"' for _, steps in runs]
    views = [view(*run, key, mark) for run, key, mark in zip(runs, KEYS, opens, strict=True)]
    return filled(f"Two runs: {' and '.join(names_of(runs))}", of_two(runs, KEYS) + "".join(views), "vmm-two")


def of_two(runs: list[tuple[Recording, Steps]], keys: list[str]) -> str:
    """keys: of the views that steps lead to."""
    content = "".join(f'<p class="vmm-matters">{html.escape(sentence)}</p>\n' for sentence in differences(runs))
    for (recording, _), name, key in zip(runs, names_of(runs), keys, strict=True):
        text = f"<b>{html.escape(name)}</b>: {about(recording)} {link(key, 1, 'Step through it')}"
        content += f'<p class="vmm-about">{text}</p>\n<div class="vmm-timeline" data-of="{html.escape(key)}"></div>\n'
    return f'<div class="vmm-overview vmm-both">\n{content}</div>\n'


# --- Their difference in words
def differences(runs):
    """Sentences, eight at most, of what is not the same in both."""
    names, (one, other) = names_of(runs), (steps for _, steps in runs)
    sentences = [apart(one, other, names), peaks(one, other, names)]
    for noun, some_of in ("Left at the end", left_of), ("Refused", refused_of):
        of_first, of_second = some_of(one), some_of(other)
        sentences += [only(noun, names[0], of_first, of_second), only(noun, names[1], of_second, of_first)]
    sentences.append(calls_of(one, other, names))
    ends = [steps.overview.ending or "it is not recorded how it ended" for steps in (one, other)]
    sentences.append(f"{names[0]}: {ends[0]}; {names[1]}: {ends[1]}." if ends[0] != ends[1] else "")
    return list(filter(None, sentences)) or ["No difference in what they hold, call, are refused and leave."]


def devices_of(one, other):
    return dict.fromkeys([*one.overview.shown(), *other.overview.shown()])


def apart(one, other, names):
    """The first step from which they differ in what they hold: calls that change nothing do not count."""
    found = []
    for device in devices_of(one, other):
        pairs = itertools.zip_longest(one.overview.lane(device), other.overview.lane(device))
        if pair := next(((a, b) for a, b in pairs if not a or not b or a.held != b.held), None):
            found.append((min(change.step for change in pair if change), device, pair))
    if not found:
        return ""
    _, device, pair = min(found)
    ends = [f"the end of {name}, which changes no more" for name in names]
    places = [
        f"step {change.step} of {name}, {held_text(change.held)}" if change else end
        for change, name, end in zip(pair, names, ends, strict=True)
    ]
    return f"They differ in what they hold of GPU {device} from {'; and from '.join(places)}."


def held_text(held):
    part = f"{size_text(held.idle)} of it " if held.idle != held.total else ""
    return size_text(held.total) + f", {part}mapped nowhere" * bool(held.idle)


def peaks(one, other, names):
    sentences = []
    for device in devices_of(one, other):
        both = [run.overview.peak(device) for run in (one, other)]
        if both[0].held.total != both[1].held.total:
            pairs = zip(both, names, strict=True)
            sizes = (f"{size_text(peak.held.total)} at step {peak.step} of {name}" for peak, name in pairs)
            sentences.append(f"GPU {device} {' and '.join(sizes)}")
    return f"Peaks: {listed(sentences)}." if sentences else ""


def left_of(steps):
    """How many there are of each: (its size, in words with the line of the program)."""
    return collections.Counter(
        (size, f"{sizes_text(collections.Counter({(kind, device): size}))} ({steps[born - 1].owner})")
        for size, device, kind, born in steps.lives.left_memory()
    )


def refused_of(steps):
    wrong = (steps[number - 1] for number in [*steps.overview.faults, *steps.overview.unanswered])
    return collections.Counter((1, f"{step.call}, {step.brief}") for step in wrong)


def only(noun, name, counts, others):
    most_first = sorted((counts - others).items(), key=lambda item: -item[0][0] * item[1])
    sentences = [f"{count} × {words}" if count > 1 else words for (_, words), count in most_first]
    return f"{noun} only in {name}: {listed(sentences)}." if sentences else ""


def calls_of(one, other, names):
    first, second = (collections.Counter(step.call for step in steps) for steps in (one, other))
    apart = [(call, first[call], second[call]) for call in first | second if first[call] != second[call]]
    apart.sort(key=lambda counts: -abs(counts[1] - counts[2]))
    sentences = [f"{call} {count:,} and {others:,}" for call, count, others in apart]
    return f"Calls of {' and of '.join(names)}: {listed(sentences)}." if sentences else ""


def listed(sentences):
    return "; ".join(sentences[:MOST]) + (f"; and {len(sentences) - MOST} more" if sentences[MOST:] else "")
