# SPDX-License-Identifier: MIT-0
"""How long GPUs took for what a call gave them, where the recorder was told: in words, and for the timeline."""

import collections

from vmmsim.trace.recording import short
from vmmsim.view.records import Execution, GpuWork
from vmmsim.view.sizes import plural

NOUNS = {"kernel": ("kernel", "kernels"), "copy": ("copy", "copies"), "memset": ("memset", "memsets")}
MOST_NAMES = 3  # of kernels


def digits_text(value):
    """12.3, or 1234: three digits, and all before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def duration_text(nanoseconds):
    for unit, factor in ("s", 10**9), ("ms", 10**6), ("µs", 10**3):
        if nanoseconds >= factor:
            return f"{digits_text(nanoseconds / factor)} {unit}"
    return f"{nanoseconds} ns"


def on_gpus(line):
    """{GPU: what it did for this call, in the order in which it began}"""
    found = collections.defaultdict(list)
    for work in sorted(line.get("work", ()), key=lambda work: work["start"]):
        found[work["device"]].append(work)
    return found


def span(works):
    """(when the first began, when the last ended), in nanoseconds."""
    return works[0]["start"], max(work["end"] for work in works)


def in_words(line):
    """Sentences; "" is not known."""
    return " ".join(f"On GPU {device} {sentence(works)}." for device, works in sorted(on_gpus(line).items()))


def sentence(works):
    begin, end = span(works)
    if not works[1:]:
        (work,) = works
        rate = f", {digits_text(work['bytes'] / max(end - begin, 1))} GB/s" if work.get("bytes") else ""
        return f"the {NOUNS[work['kind']][0]} took {duration_text(end - begin)}{rate}"
    counts = collections.Counter(work["kind"] for work in works)
    *kinds, last = (f"{counts[kind]:,} {nouns[counts[kind] > 1]}" for kind, nouns in NOUNS.items() if counts[kind])
    kinds = " and ".join(filter(None, [", ".join(kinds), last]))
    return f"{kinds} took {duration_text(end - begin)} from the first to the last{longest(works)}"


def longest(works):
    """The kernels that took most together, of a graph, whose launch does not name them."""
    times, counts = collections.Counter(), collections.Counter()
    for work in works:
        if name := work.get("name"):
            times[name] += work["end"] - work["start"]
            counts[name] += 1
    named = [
        f"{short(name)[:60]} {duration_text(time)}" + f" ({counts[name]} ×)" * (counts[name] > 1)
        for name, time in times.most_common(MOST_NAMES)
    ]
    others = f" and {plural(len(times) - len(named), 'other')}" * (len(times) > len(named))
    return f": {', '.join(named)}{others}" if named else ""


def of_gpus(recording):
    """[GpuWork...]: when each GPU worked for which step, in microseconds of the recording's times."""
    found, first = collections.defaultdict(list), recording.first_time()
    for step, line in enumerate(recording.lines, 1):
        for device, works in on_gpus(line).items():
            begin, end = (time // 1000 - first for time in span(works))
            found[device].append(Execution(step, begin, end))
    return [GpuWork(device, executions) for device, executions in sorted(found.items())]
