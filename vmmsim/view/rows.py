# SPDX-License-Identifier: MIT-0
"""A picture of many things, in rows and without arrows: RowPicture(crowd).draw().

What a mapping leads to is told by a number: allocation #7 is #7 among the addresses and in the memory.
"""

import collections

from vmmsim.view.contents import GONE
from vmmsim.view.crowd import MEASURES, WIDEST
from vmmsim.view.layout import (
    BADGE,
    FREE,
    GAP,
    GUTTER,
    INSET,
    LABEL,
    MARGIN,
    WIDTH,
    Strip,
    gpus_text,
    lanes_of,
    least_widths,
    lines_of,
    place_from_left,
    tag,
    width_of,
)
from vmmsim.view.picture import Picture, fill_of, text_kind
from vmmsim.view.prose import MARKS
from vmmsim.view.sizes import plural, size_text

BESIDE = 6  # between boxes


def in_rows(things, widths, room, gap):
    """As many side by side as there is room for."""
    rows, left = [], 0
    for thing, width in zip(things, widths, strict=True):
        if not rows or width > left:
            rows.append([])
            left = room
        rows[-1].append(thing)
        left -= width + gap
    return rows


class RowPicture(Picture):
    def draw(self):
        """The elements, and how high they are together."""
        y = MARGIN
        for section in self.contents.sections:
            if section.name:
                self.text(MARGIN, y + 14, section.name, "vmm-left vmm-bold")
                y += 20
            widths = [sum(least_widths(region, MEASURES)) + 2 * INSET for region in section.regions]
            for regions in in_rows(section.regions, widths, WIDEST, GAP):
                place_from_left(regions, MEASURES)
                strip = Strip(regions, MEASURES, lanes_of(regions, self.alike), y)
                self.strip(strip)
                y = strip.end + 8
            if section.more:
                unfold = "all" if section.more.startswith("…") else ""  # the script shows all of them
                self.canvas.text(GUTTER, y + 13, section.more, "vmm-left vmm-small", data_unfold=unfold)
                y += 20
        y = self.small_lines(self.contents.others, y)
        return self.end(self.memory(y + 6))

    def alike(self, runs):
        """GPUs that have the same rights to all of a row are one lane."""
        groups = collections.defaultdict(list)
        for device in self.contents.devices:
            groups[tuple(run[0].access[device] for run in runs)].append(device)
        for devices in groups.values():
            yield gpus_text(devices) + (" has" if len(devices) == 1 else ""), devices[0]

    def small_lines(self, texts, y):
        lines = lines_of(texts, "; ", WIDTH - 2 * MARGIN, 12)
        for line in lines:
            self.text(MARGIN, y + 13, line, "vmm-left vmm-small")
            y += 18
        return y + (4 if lines else 0)

    def memory(self, y):
        """All of it. Returns where it ends."""
        crowd, without, empty = self.contents, [], []
        for device in [*crowd.devices, -1]:
            boxes = crowd.boxes_of(device)
            count, size = crowd.index.totals[device]
            name = f"GPU {device}" if device >= 0 else "elsewhere"
            if boxes:
                y = self.panel(name, size_text(size), boxes, count, y) + 8
            elif count:
                without.append(f"{name} holds {size_text(size)} in {plural(count, 'allocation')}")
            elif device >= 0:
                empty.append(device)
        for has_ordinary, what in (True, "ordinary memory only"), (False, "no allocations"):
            if its := [device for device in empty if (device in self.ordinary) == has_ordinary]:
                without.append(f"{gpus_text(its, True)} {'holds' if len(its) == 1 else 'hold'} {what}")
        y = self.small_lines(without, y)
        for box in crowd.boxes.values():
            if box.memory.is_multicast:
                y = self.object(box, y) + 8
        hidden = crowd.hidden_objects()
        if hidden > 0:
            self.text(MARGIN + 10, y + 13, f"… and {hidden} more multicast objects", "vmm-left vmm-small")
            y += 20
        return y

    def panel(self, name, size, boxes, count, y):
        for box in boxes:
            badges = [width_of(badge.text, 12) + 14 for badge in self.badges_of(box)]
            box.width = max(56, width_of(box.label()) + 12, width_of(tag(box.memory, box.last), 12) + 12, *badges)
        rows = in_rows(boxes, [box.width for box in boxes], FREE - LABEL - BESIDE, BESIDE)
        heights = [42 + BADGE * max(len(self.badges_of(box)) for box in row) for row in rows]
        hidden = count - sum(box.count for box in boxes if box.status != GONE)
        height = max(44, 14 + sum(heights) + BESIDE * len(rows) + (18 if hidden > 0 else 0))
        self.rect(MARGIN, y, FREE, height, "vmm-panel")
        self.text(MARGIN + 8, y + 20, name, "vmm-left vmm-bold" if width_of(name) < LABEL - 8 else "vmm-left vmm-small")
        self.text(MARGIN + 8, y + 36, size, "vmm-left vmm-small")
        top = y + 10
        for row, high in zip(rows, heights, strict=True):
            x = MARGIN + LABEL
            for box in row:
                box.x, box.y, box.height = x, top, high
                self.box(box)
                x += box.width + BESIDE
            top += high + BESIDE
        if hidden > 0:
            more = f"… and {hidden} more"
            self.canvas.text(MARGIN + LABEL, top + 10, more, "vmm-left vmm-small", data_unfold="held")
        return y + height

    def badges_of(self, box):
        return self.contents.badges(box, terse=True)

    def box(self, box):
        self.rect(box.x, box.y, box.width, box.height, fill_of(box.device), box.status, *self.told(box))
        self.hatch(box.x, box.y, box.width, box.height, box.memory)
        middle = box.x + box.width / 2
        self.text(middle, box.y + 17, box.label(), text_kind(box.status))
        self.text(middle, box.y + 33, tag(box.memory, box.last), "vmm-small")
        self.badges(middle, box.y + 40, self.badges_of(box), box)

    def object(self, box, y):
        boxes, badges = self.contents.boxes, self.badges_of(box)
        team = gpus_text(box.team, True) or "no GPU yet"
        lines = [f"multicast object #{box.memory.nth}, {size_text(box.size)}, team of {team}"]
        bound = [f"#{boxes[number].memory.nth}{MARKS[status]}" for number, status in box.bound if number in boxes]
        if bound:
            shown = ", ".join(bound[:8]) + (f" and {len(bound) - 8} more" if len(bound) > 8 else "")
            lines.append(f"bound: {shown}")
        height = 12 + 17 * len(lines) + BADGE * len(badges)
        self.rect(MARGIN, y, FREE, height, "vmm-box", box.mark(), *self.told(box))
        for index, line in enumerate(lines):
            kind = "vmm-small" if index else text_kind(box.status)
            self.text(WIDTH / 2, y + 18 + 17 * index, line, kind)
        self.badges(WIDTH / 2, y + 8 + 17 * len(lines), badges, box)
        return y + height
