# SPDX-License-Identifier: MIT-0
"""Where things stand in a picture: how wide they must be, and what fits beside what.

Widths are to scale where the texts then have room.
"""

import dataclasses
import itertools

from vmmsim.view.contents import GONE

WIDTH, GUTTER, MARGIN = 600, 84, 8
GAP, INSET = 12, 4  # between two reservations; between the edge of one and what is in it
LABEL = 70  # at the left of a GPU's memory: its name
LANE, BADGE = 25, 19  # heights
FREE = WIDTH - 2 * MARGIN
TALLEST = 600  # a picture in rows, so that it is seen whole beside the list; a view keeps that room, and nothing jumps


class TooWide(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Measures:
    """Of a row of reservations: how high a mapping is, and how far below the top texts stand."""

    part: int
    name: int
    label: int
    gap: tuple
    tag: int = 0  # none
    is_roomy: bool = True  # as wide as the widest fonts need it, or else not at all

    @property
    def region(self):
        return self.part + 2 * INSET


def width_of(text, size=13):  # generous: which font there is, nobody knows
    return len(text) * size * 0.56


def tag(first, last):
    """Names allocations by their numbers."""
    return f"#{first.nth}" if last in (None, first) else f"#{first.nth}–#{last.nth}"


def tag_of(part):
    return tag(part.first.memory, part.last.memory)


def gpus_text(devices, is_sentence=False):
    """GPU 0, GPU 0–3, GPU 0, 2."""
    parts = []
    for device in sorted(devices):
        if parts and parts[-1][1] == device - 1:
            parts[-1][1] = device
        else:
            parts.append([device, device])
    text = "GPU " + ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in parts) if parts else ""
    return text if is_sentence or width_of(text) < GUTTER - MARGIN else f"{len(devices)} GPUs"


def lines_of(texts, separator, width, size, end=""):
    """The texts, as many on a line as go there."""
    lines = []
    for text in texts:
        if lines and width_of(f"{lines[-1]}{separator}{text}", size) < width:
            lines[-1] += f"{separator}{text}"
        else:
            if lines:
                lines[-1] += end
            lines.append(text)
    return lines


def pack(things, left, right, gap):
    """Gives each its x: with its middle where it wants it, or as near as may be without leaving their order."""
    for thing in things:
        thing.x = left = max(left, thing.wanted - thing.width / 2)
        left += thing.width + gap
    for thing in reversed(things):
        thing.x = min(thing.x, right - thing.width)
        right = thing.x - gap


# --- Reservations side by side
def runs_of(region):
    """Mappings side by side with the same rights: their rights are written once."""
    runs = []
    for part in region.parts:
        last = runs[-1][-1] if runs else None
        if part.memory and last and last.memory and (last.access, last.status) == (part.access, part.status):
            runs[-1].append(part)
        else:
            runs.append([part])
    return [run for run in runs if run[0].memory]


def least_widths(region, measures, is_short=False):
    """Of its parts, so that all texts have room."""
    sharing = {id(part): len(run) for run in runs_of(region) for part in run}  # so many have one text for their rights
    widths = []
    for part in region.parts:
        label, gap = (width_of(part.label(), 15) + 8, 104) if measures.is_roomy else (width_of(part.label()) + 8, 76)
        widths.append(max(label, 68 / sharing[id(part)] if part.memory else gap))
    missing = max(0, width_of(region.label(is_short)) - sum(widths))
    widths = [width + missing / len(widths) for width in widths]
    if not measures.tag:
        return widths
    return [
        max(width, width_of(tag_of(part), 12) + 8) if part.memory else width
        for part, width in zip(region.parts, widths, strict=True)
    ]


def set_widths(regions, measures):
    """All to scale, if the texts then have room. Otherwise what they need, and what is left goes to where nothing is
    mapped. Returns what then is left on both sides."""
    space = WIDTH - GUTTER - MARGIN - GAP * (len(regions) - 1) - 2 * INSET * len(regions)
    parts = [part for region in regions for part in region.parts]
    gaps = [part for part in parts if not part.memory]
    for is_true, is_short in itertools.product([True, False], [False] if measures.is_roomy else [False, True]):
        widths = [width for region in regions for width in least_widths(region, measures, is_short)]
        if is_true:
            unit = max((width / part.size for width, part in zip(widths, parts, strict=True)), default=0)
            widths = [part.size * unit for part in parts]
        missing = sum(widths) - space
        if missing <= 0:
            break
    else:
        raise TooWide(f"the addresses are {missing:.0f} units too wide")
    stretch = space / sum(widths) if widths else 1
    if not (is_true and gaps):
        stretch = min(1.15, stretch)
    for part, width in zip(parts, widths, strict=True):
        part.width = width * stretch
    spare = space - sum(part.width for part in parts)
    for gap in gaps:
        gap.width += spare / len(gaps)
    for region in regions:
        region.caption = region.label(is_short)
        region.width = sum(part.width for part in region.parts) + 2 * INSET
    return 0 if gaps else spare


def place_parts(regions):
    for region in regions:
        x = region.x + INSET
        for part in region.parts:
            part.x, x = x, x + part.width


def place_from_left(regions, measures):
    set_widths(regions, measures)
    x = GUTTER
    for region in regions:
        region.x, x = x, x + region.width + GAP
    place_parts(regions)


def place_above(regions, measures, middle):
    """Each with its middle where middle(region) is, or without that in the middle of all."""
    x = GUTTER + set_widths(regions, measures) / 2
    for region in regions:
        region.wanted = middle(region) if middle else x + region.width / 2
        x += region.width + GAP
    pack(regions, GUTTER, WIDTH - MARGIN, GAP)
    place_parts(regions)


def x_of(region, offset):
    """Where an offset would be, to scale."""
    return region.x + INSET + offset / region.size * (region.width - 2 * INSET)


def is_to_scale(region):
    return all(
        abs(part.x - x_of(region, part.offset)) < 4 and abs(part.x + part.width - x_of(region, part.end)) < 4
        for part in region.parts
    )


def bar_of(region, ranges):
    """Where a thin bar has these ranges of offsets, to scale: [(x, end)], one pixel each at least."""
    parts = []
    for begin, end in ranges:
        x, to = x_of(region, begin), max(x_of(region, end), x_of(region, begin) + 1)
        last = parts[-1] if parts else (0, -1)
        if x - last[1] < 1 and (last[1] - last[0] < 4 or to - x < 4):  # too near to be told apart
            parts[-1] = last[0], max(to, last[1])
        else:
            parts.append((x, to - 1 if to - x > 4 else to))
    return parts


@dataclasses.dataclass
class Lane:
    """What GPUs may do: [(x, width, flags, whether that has changed)]."""

    name: str
    rights: list


@dataclasses.dataclass
class Strip:
    """Reservations side by side that have their places, and lanes of rights on the side of the memory."""

    regions: list
    measures: Measures
    lanes: list
    y: float
    is_above: bool = True  # of the memory
    owner: str = ""

    @property
    def region_height(self):
        """With room for a bar, if the width of something is not the true one."""
        return self.measures.region + (0 if all(map(is_to_scale, self.regions)) else 6)

    @property
    def height(self):
        return 18 + self.region_height + 4 + LANE * len(self.lanes)

    @property
    def top(self):
        return self.y + 18 if self.is_above else self.y + LANE * len(self.lanes) + 4

    @property
    def caption_y(self):
        return self.y + 12 if self.is_above else self.y + self.height - 2

    @property
    def lanes_y(self):
        return self.top + self.region_height + 4 if self.is_above else self.y

    @property
    def end(self):
        return self.y + self.height


def lanes_of(regions, groups_of):
    """A lane for each group of GPUs that groups_of(runs) gives: (name, devices)."""
    runs = [run for region in regions for run in runs_of(region) if run[0].status != GONE]
    if not runs:
        return []
    return [
        Lane(name, [(run[0].x + 2, run[-1].x + run[-1].width - run[0].x - 4, *run[0].access[device]) for run in runs])
        for name, device in groups_of(runs)
    ]
