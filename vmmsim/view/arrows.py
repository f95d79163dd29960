# SPDX-License-Identifier: MIT-0
"""A picture of few things: who may touch which addresses, and arrows to the memory that is behind them.

    ArrowPicture(scene).draw()         a contents.Scene: the elements, and how high they are; or TooWide
    picture_file(scene, title, calls)  the text of a file that is a picture

From top to bottom: a process's reservations with the mappings in them; what each GPU may do there; arrows to physical
memory, a panel for each GPU. A second process, or a multicast object with its addresses, comes from below, so that no
arrows need to cross. Where widths are not to scale, a thin bar in a reservation shows what is mapped, to scale.
"""

import dataclasses

from vmmsim.view import svg
from vmmsim.view.layout import (
    BADGE,
    FREE,
    GAP,
    LABEL,
    MARGIN,
    WIDTH,
    Measures,
    Strip,
    TooWide,
    lanes_of,
    lines_of,
    pack,
    place_above,
    width_of,
)
from vmmsim.view.picture import Picture, fill_of, marked, text_kind
from vmmsim.view.prose import team_text, words_of
from vmmsim.view.sizes import size_text

IN_VIEWS = Measures(part=30, name=23, label=24, gap=(17, 31))
IN_PAGES = dataclasses.replace(IN_VIEWS, is_roomy=False)
BESIDE = 6  # between boxes


@dataclasses.dataclass
class Panel:
    """The memory of a GPU, with its boxes from left to right."""

    device: int
    boxes: list
    need: float  # of width, for the boxes
    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0


class Layout:
    """Where all of a scene stands. `above` and `below` are strips, the latter or None."""

    def __init__(self, scene, measures, y):
        self.scene, self.measures, self.count = scene, measures, len(scene.devices)
        self.is_terse = False
        self.objects = [box for box in scene.boxes.values() if box.device < 0]
        above, below = self.sides()
        for regions in above, below:
            place_above(regions, measures, self.above_memory if self.count > 1 else None)
        self.above, self.below = self.strip(above, y, 0, True), None
        self.panels = self.placed_panels(self.above.end + self.room_for_arrows(above), [*above, *below])
        self.end = self.memory_ends = self.panels[0].y + self.panels[0].height
        if self.objects:
            self.end = self.place_objects(self.end + 44)
            if below:
                self.below = self.strip(below, self.end + 40, 0, False)
        elif len(scene.spaces) > 1:
            self.below = self.strip(below, self.end + self.room_for_arrows(below), 1, False)
        if self.below:
            self.end = self.below.end

    def sides(self):
        """The reservations above the memory, and those below."""
        spaces = self.scene.spaces
        above, below = list(spaces[0]), list(spaces[1]) if len(spaces) > 1 else []
        if self.objects:  # what leads to an object comes from below
            numbers = {box.memory.number for box in self.objects}
            below = [region for region in above if any(part.memory in numbers for part in region.parts)]
            above = [region for region in above if region not in below]
        return above, sorted(below, key=self.above_memory)

    def above_memory(self, region):
        devices = [self.scene.boxes[part.memory].device for part in region.parts if part.memory]
        if not devices or min(devices) < 0:
            return WIDTH / 2
        panel = (FREE + GAP) / self.count
        return MARGIN + panel * (sum(devices) / len(devices) + 0.5) + (LABEL - GAP - 6) / 2

    def strip(self, regions, y, rank, is_above):
        devices = self.scene.devices
        lanes = lanes_of(regions, lambda runs: [(f"GPU {device} has", device) for device in devices])
        return Strip(regions, self.measures, lanes, y, is_above, self.scene.processes[rank])

    @staticmethod
    def room_for_arrows(regions):
        return 40 if any(part.memory for region in regions for part in region.parts) else 14

    def badges(self, box):
        return self.scene.badges(box, self.is_terse)

    def placed_panels(self, y, regions):
        boxes = [box for box in self.scene.boxes.values() if box.device >= 0]
        space = FREE - GAP * (self.count - 1)
        for is_terse in False, True:
            self.is_terse = is_terse
            panels = [self.panel(device, boxes, regions) for device in self.scene.devices]
            spare = space - sum(panel.need for panel in panels) - LABEL * self.count
            if spare >= 0:
                break
        else:
            raise TooWide(f"the memory is {-spare:.0f} units too wide")
        badges = max((len(self.badges(box)) for box in boxes), default=0)
        height = 28 + BADGE * badges + (8 if badges else 0)
        are_equal = max(panel.need for panel in panels) + LABEL <= space / self.count
        x = MARGIN
        for panel in panels:
            panel.x, panel.y, panel.height = x, y, height + 20
            panel.width = space / self.count if are_equal else LABEL + panel.need + spare / self.count
            for box in panel.boxes:
                box.width *= min(1.25, (panel.width - LABEL) / panel.need)
                box.y, box.height = y + 10, height
            pack(panel.boxes, x + LABEL, x + panel.width - BESIDE, BESIDE)
            x += panel.width + GAP
        return panels

    def panel(self, device, boxes, regions):
        """Each box stands below the middle of the mappings that lead to it."""
        mine = [box for box in boxes if box.device == device]
        parts = [part for region in regions for part in region.parts]
        for box in mine:
            middles = [part.middle for part in parts if part.memory == box.memory.number]
            middles = middles or [WIDTH * (device + 0.5) / self.count]
            box.wanted = sum(middles) / len(middles)
            badges = [width_of(badge.text, 12) + 18 for badge in self.badges(box)]
            box.width = max(48, width_of(box.label()) + 10, *badges)
        mine.sort(key=lambda box: (box.wanted, box.memory.number))
        return Panel(device, mine, sum(box.width + BESIDE for box in mine) + BESIDE if mine else 110)

    def place_objects(self, y):
        """Below the memory that is bound to them. Returns where they end."""
        for box in self.objects:
            box.width = width_of(object_text(box), 14) + 24
            box.x, box.y, box.height = (WIDTH - box.width) / 2, y, 28 + BADGE * len(self.badges(box)) + 6
            y += box.height
        return y


def object_text(box):
    return f"multicast object, {size_text(box.size)}, team of {team_text(box)}"


class ArrowPicture(Picture):
    def __init__(self, scene, measures=IN_VIEWS, title="", calls=(), **more):
        super().__init__(scene, **more)
        self.measures, self.title, self.calls = measures, title, calls

    def draw(self):
        """The elements, and how high they are together."""
        layout = Layout(self.contents, self.measures, self.head())
        self.strip(layout.above)
        for panel in layout.panels:
            self.panel(panel, layout)
        self.arrows(layout.above, layout.above.end)
        for box in layout.objects:
            self.object(box, layout)
        if layout.below:
            self.strip(layout.below)
            self.arrows(layout.below, layout.below.y)
        return self.end(layout.end)

    def head(self):
        """Title and calls. Returns where the addresses begin."""
        y = MARGIN - 14
        if self.title:
            y = MARGIN + 16
            self.text(MARGIN, y, self.title, "vmm-title")
        counts = {call: self.calls.count(call) for call in self.calls}
        calls = [call if count == 1 else f"{call} ×{count}" for call, count in counts.items()]
        for line in lines_of(calls, ", ", FREE, 13, ","):
            y += 18
            self.text(MARGIN, y, line, "vmm-calls")
        return y + 14

    def panel(self, panel, layout):
        x, y, width, height = panel.x, panel.y, panel.width, panel.height - 20
        self.rect(x, y, width, panel.height, "vmm-panel")
        self.text(x + 10, y + height / 2 + 7, f"GPU {panel.device}", "vmm-left vmm-bold")
        self.text(x + 10, y + height / 2 + 23, "memory", "vmm-left")
        if not panel.boxes:
            what = "ordinary memory only" if panel.device in self.ordinary else "nothing allocated"
            self.text(x + LABEL + (width - LABEL) / 2, y + height / 2 + 15, what)
        for box in panel.boxes:
            self.box(box, layout.badges(box))

    def box(self, box, badges):
        """An allocation with its handles: those of the first process at the top, of the second at the bottom."""
        self.rect(box.x, box.y, box.width, box.height, fill_of(box.device), box.status, *self.told(box))
        upper = [badge for badge in badges if badge.rank == 0 and len(self.contents.processes) > 1]
        lower = [badge for badge in badges if badge not in upper]
        middle, y = box.x + box.width / 2, box.y + 6 + BADGE * len(upper)
        spare = (box.height - 26 - BADGE * len(badges)) / 2 if not badges else 0
        self.text(middle, y + 14 + spare, box.label(), text_kind(box.status))
        self.badges(middle, box.y + 6, upper, box)
        self.badges(middle, y + 22, lower, box)

    def object(self, box, layout):
        self.rect(box.x, box.y, box.width, box.height, "vmm-box", box.mark(), *self.told(box))
        self.text(WIDTH / 2, box.y + 19, object_text(box), text_kind(box.status))
        self.badges(WIDTH / 2, box.y + 27, layout.badges(box), box)
        for number, status in box.bound:
            target = self.contents.boxes[number]
            to = target.x + target.width / 2
            x = min(max(to, box.x + 20), box.x + box.width - 20)
            self.arrow(x, box.y, to, layout.memory_ends - 10, status)
            self.text((x + to) / 2 + (30 if to > WIDTH / 2 else -30), box.y - 16, "bound", "vmm-small")

    def arrows(self, strip, y):
        """From each mapping to its memory."""
        boxes = self.contents.boxes
        pairs = [(part, boxes[part.memory]) for region in strip.regions for part in region.parts if part.memory]
        for part, box in pairs:
            sources = [other for other, target in pairs if target is box]
            spread = min(26, box.width / (len(sources) + 1))
            x = box.x + box.width / 2 + (sources.index(part) - (len(sources) - 1) / 2) * spread
            self.arrow(part.middle, y, x, box.y if strip.is_above else box.y + box.height, part.status)

    def arrow(self, x, y, to_x, to_y, status):
        way = 1 if to_y > y else -1
        end = to_y - 9 * way
        bend = (y + end) / 2
        path = f"M{x:.0f} {y:.0f} C{x:.0f} {bend:.0f} {to_x:.0f} {bend:.0f} {to_x:.0f} {end:.0f}"
        self.canvas.path(path, marked("vmm-arrow", status))
        self.canvas.path(f"M{to_x:.0f} {to_y:.0f} l-5 {-10 * way} h10 z", marked("vmm-head", status))


def picture_file(scene, title, calls):
    elements, height = ArrowPicture(scene, IN_PAGES, title, calls).draw()
    return svg.file(elements, (WIDTH, height), title, words_of(scene, title))
