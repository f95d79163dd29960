# SPDX-License-Identifier: MIT-0
"""What the pictures with arrows and those with rows draw alike: reservations, rights, badges, what stands below."""

from vmmsim.view.contents import GONE, KEPT, NEW, NO_HANDLE, RIGHTS
from vmmsim.view.layout import BADGE, FREE, GUTTER, LANE, MARGIN, WIDTH, bar_of, is_to_scale, tag_of, width_of, x_of
from vmmsim.view.svg import Canvas

UNKNOWN = "imported, source not known"


class Silent:
    """In the place of a words.Teller: nothing is said of any part."""

    def about_any(self, *_):
        return ""

    reservation = gap = part = memory = pin = pin_of_box = about_any


def marked(kind, status):
    return kind if status == KEPT else f"{kind} vmm-{status}"


def text_kind(status, kind="vmm-bold"):
    return "vmm-was" if status == GONE else kind


def fill_of(device):
    return f"vmm-box vmm-gpu{device % 8}" if device >= 0 else "vmm-box"


def diagonals(x, y, width, height, step=9):
    """The parts of diagonal lines that lie in a rectangle."""
    for at in range(step, int(width + height), step):
        left, low = max(0, at - height), min(at, height)
        right, high = min(at, width), max(0, at - width)
        yield f"M{x + left:.0f} {y + low:.0f} L{x + right:.0f} {y + high:.0f}"


class Picture:
    """extras: what stands below the memory, (text, status, about) each; ordinary: the GPUs that hold such memory;
    fault: (process, address) of what a kernel must not touch."""

    def __init__(self, contents, teller=None, extras=(), ordinary=(), fault=None):
        self.contents, self.teller, self.extras, self.fault = contents, teller or Silent(), extras, fault
        self.ordinary = ordinary
        self.canvas = Canvas()

    def rect(self, x, y, width, height, kind, status=KEPT, about="", pin=""):
        self.canvas.rect(x, y, width, height, marked(kind, status), data_about=about, data_pin=pin)

    def hatch(self, x, y, width, height, memory):
        """Over the box of an import, if nobody knows of which export it is."""
        if memory.source_unknown:
            self.canvas.path(" ".join(diagonals(x, y, width, height)), "vmm-hatch")

    def text(self, x, y, text, kind="", about=""):
        self.canvas.text(x, y, text, kind, data_about=about)

    def told(self, box):
        """What is said of memory, and how it is pinned."""
        return self.teller.memory(box), self.teller.pin_of_box(box)

    def strip(self, strip):
        top, canvas = strip.top, self.canvas
        if strip.owner:
            canvas.text(MARGIN, top + 15, strip.owner, "vmm-left vmm-bold")
        canvas.text(MARGIN, top + (31 if strip.owner else strip.measures.name), "addresses", "vmm-left")
        if not strip.regions:
            self.rect(GUTTER, top, WIDTH - GUTTER - MARGIN, 38, "vmm-none")
            self.text((GUTTER + WIDTH - MARGIN) / 2, top + 23, "nothing reserved")
        for region in strip.regions:
            self.region(region, strip)
        for index, lane in enumerate(strip.lanes):
            y = strip.lanes_y + LANE * index
            canvas.text(MARGIN, y + 15, lane.name, "vmm-left")
            for x, width, flags, has_changed in lane.rights:
                self.rights(x, y, width, flags, NEW if has_changed else KEPT)

    def region(self, region, strip):
        top, height = strip.top, strip.region_height
        about = self.teller.reservation(region)
        self.rect(region.x, top, region.width, height, "vmm-box", region.status, about, self.teller.pin(region))
        if not is_to_scale(region):
            self.bar("vmm-track", top + height - 6, [(x_of(region, 0), x_of(region, region.size))])
            self.bar("vmm-true", top + height - 6, bar_of(region, region.mapped))
            self.bar("vmm-true vmm-gone", top + height - 6, bar_of(region, region.unmapped))
        self.text(region.x + region.width / 2, strip.caption_y, region.caption, text_kind(region.status, ""))
        for part in region.parts:
            if part.memory:
                self.part(part, region, top, strip.measures)
            elif region.status != GONE:
                label_y, note_y = strip.measures.gap
                about = self.teller.gap(part, region)
                pin = self.teller.pin(region) if about else ""
                self.canvas.text(part.middle, top + label_y, part.label(), "vmm-small", data_about=about, data_pin=pin)
                self.text(part.middle, top + note_y, part.note(), "vmm-small")

        if self.fault:
            self.mark_fault(region, top, height)

    def mark_fault(self, region, top, height):
        """What of a reservation a kernel must not touch, and where."""
        pid, address = self.fault
        reservation = region.reservation
        offset = address - reservation.base
        for part in region.parts:
            if reservation.pid == pid and part.offset <= offset < part.end and region.status != GONE:
                self.canvas.rect(part.x + 1, top + 2, part.width - 2, height - 4, "vmm-fault")
                x = part.x + 6 + (part.width - 12) * (offset - part.offset) / part.size
                self.canvas.path(f"M{x:.0f} {top + 4:.0f} l-6 -11 h12 z", "vmm-fault-at")
                self.canvas.kinds.add("vmm-fault")

    def part(self, part, region, top, measures):
        kind = fill_of(self.contents.boxes[part.memory].device)
        about = self.teller.part(part, region)
        pin = self.teller.pin(region, part)
        self.rect(part.x + 2, top + 4, part.width - 4, measures.part, kind, part.status, about, pin)
        self.hatch(part.x + 2, top + 4, part.width - 4, measures.part, part.first.memory)
        self.text(part.middle, top + measures.label, part.label(), text_kind(part.status))
        if measures.tag:
            self.text(part.middle, top + measures.tag, tag_of(part), "vmm-small")

    def rights(self, x, y, width, flags, status):
        """What a GPU may do there. Flags that nobody knows stand as they are."""
        right = RIGHTS.get(flags, str(flags))
        kind = "none" if right == "no access" else right if flags in RIGHTS else "box"
        self.rect(x, y, width, 21, f"vmm-{kind}", status)
        self.text(x + width / 2, y + 15, right, "vmm-small")

    def bar(self, kind, y, parts):
        if parts:
            self.canvas.path(" ".join(f"M{x:.1f} {y:.0f} H{to:.1f}" for x, to in parts), kind)

    def badges(self, middle, y, badges, box):
        for index, badge in enumerate(badges):
            self.badge(middle, y + BADGE * index, badge, box.status)

    def badge(self, middle, y, badge, status_of_box):
        if badge.text == NO_HANDLE:
            self.text(middle, y + 12, badge.text, "vmm-small")
            return
        width = width_of(badge.text, 12) + 8
        status = KEPT if badge.status == status_of_box == NEW else badge.status
        self.rect(middle - width / 2, y, width, 17, "vmm-pill", status)
        self.text(middle, y + 13, badge.text, "vmm-small vmm-was" if badge.status == GONE else "vmm-small")

    def end(self, y):
        """What stands below the memory, and what the marks mean. Returns the elements, and how high they are."""
        if self.extras:
            y += 10
        x = MARGIN
        for text, status, about in self.extras:
            width = min(width_of(text, 12) + 16, FREE)
            if x > MARGIN and x + width > MARGIN + FREE:
                x, y = MARGIN, y + 23
            if status != KEPT:
                self.rect(x, y, width, 20, "vmm-pill", status)
            self.text(x + 8, y + 14, text, "vmm-left vmm-small", about)
            x += width + 8
        y += 23 if self.extras else 0
        y = self.legend(y + 12)
        return self.canvas.elements, round(y + MARGIN)

    def legend(self, y):
        """What the marks mean, if there are any. Returns where it ends."""
        x, kinds = MARGIN, set(self.canvas.kinds)
        for mark, text in (NEW, "made or changed in this step"), (GONE, "taken away in this step"):
            if f"vmm-{mark}" in kinds:
                self.rect(x + 2, y + 2, 22, 14, "vmm-box", mark)
                self.text(x + 32, y + 14, text, "vmm-left vmm-small")
                x += 62 + width_of(text, 12)
        if "vmm-fault" in kinds:
            self.canvas.path(f"M{x + 13:.0f} {y + 16:.0f} l-6 -11 h12 z", "vmm-fault-at")
            self.text(x + 32, y + 14, "the access that is a fault", "vmm-left vmm-small")
            x += 62 + width_of("the access that is a fault", 12)
        if "vmm-hatch" in kinds:
            if x > WIDTH / 2:
                x, y = MARGIN, y + 20
            self.rect(x + 2, y + 2, 22, 14, "vmm-box")
            self.canvas.path(" ".join(diagonals(x + 2, y + 2, 22, 14)), "vmm-hatch")
            self.text(x + 32, y + 14, UNKNOWN, "vmm-left vmm-small")
            x += 62 + width_of(UNKNOWN, 12)
        if "vmm-track" in kinds:
            self.bar("vmm-track", y + 9, [(x + 2, x + 24)])
            self.bar("vmm-true", y + 9, [(x + 2, x + 9)])
            text = "mapped, to scale" if x + 32 + width_of("mapped, to scale", 12) < WIDTH else "to scale"
            self.text(x + 32, y + 14, text, "vmm-left vmm-small")
            x += 1
        return y + 18 if x > MARGIN else y - 12
