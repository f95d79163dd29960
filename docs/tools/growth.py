# SPDX-License-Identifier: MIT-0
"""Pictures of a buffer that grows, from the calls of a program that reserves, grows twice, shrinks, and tears down.

    story = Story(lines)          of a trace
    Moving(story).svg(), .words   how it goes: an SVG that plays by itself
    Scale(story).svg(), .words    what the second growth takes, and beside it allocate, copy and free: a still one

The moving one has no script: each part that comes and goes has an id, and an animation of the same name. Where nothing
is to move, or nothing can, it is whole: it shows the buffer when it has grown.
"""

import dataclasses

from vmmsim.view import Canvas, attributes, file, size_text


class NotThisStory(Exception):
    pass


@dataclasses.dataclass
class Act:
    kind: str  # "reserve", "grow", "shrink" or "free"
    before: int  # so many chunks are mapped
    after: int
    calls: dict = dataclasses.field(default_factory=dict)  # those that changed something, in order


class Story:
    """Where the reservation starts, how large it and a chunk are, and what the program did: five acts."""

    kind_of = {
        "reserve": "reserve",
        "create": "grow",
        "map": "grow",
        "access": "grow",
        "unmap": "shrink",
        "free_reservation": "free",
    }

    def __init__(self, lines):
        self.base = self.reserved = self.chunk = None
        self.acts, call_before = [], ""
        for line in lines:
            is_new = line["call"] == "cuMemUnmap" or call_before == "cuMemSetAccess"
            for change in line["changes"]:
                kind = self.kind_of.get(change["kind"])
                if kind:
                    self.take(kind, line["call"], change, is_new)
                    call_before, is_new = line["call"], False
        kinds = [act.kind for act in self.acts]
        if kinds != ["reserve", "grow", "grow", "shrink", "free"] or self.acts[-1].after:
            raise NotThisStory(f"the program does not reserve, grow twice, shrink and free, but {', '.join(kinds)}")
        self.few, self.many = self.acts[1].after, self.acts[2].after

    def take(self, kind, call, change, is_new):
        last = self.acts[-1] if self.acts else Act("", 0, 0)
        if kind == "free" and last.kind == "shrink" and not last.after:
            last.kind, is_new = "free", False  # to unmap the last chunk and to free the addresses are one act
        if kind != last.kind or is_new:
            last = Act(kind, last.after, last.after)
            self.acts.append(last)
        last.calls[call] = True
        if kind == "reserve":
            self.base, self.reserved = int(change["address"], 16), change["size"]
        if change["kind"] == "map":
            self.chunk = self.chunk or change["size"]
            if (int(change["address"], 16), change["size"]) != (self.base + last.after * self.chunk, self.chunk):
                raise NotThisStory("a chunk is not mapped after the one before it, or is not as large")
            last.after += 1
        if change["kind"] == "unmap":  # of a chunk that a step without a picture has added, too
            last.after = min(last.after, (int(change["address"], 16) - self.base) // self.chunk)

    def size(self, chunks):
        return size_text(chunks * self.chunk) if chunks else "0 MiB"


class Drawing(Canvas):
    """A picture of this width and height."""

    def __init__(self, width, height, title):
        super().__init__(number="g")
        self.size, self.title = (width, height), title

    def line(self, path, kind="vmm-arrow"):
        self.path(path, kind)

    def file(self, words, **more):
        return file(self.elements, self.size, self.title, words, **more)


# --- The moving picture
RAMP = 0.25  # seconds in which something comes or goes
STAYS = {"reserve": 2, "grow": 1.8, "shrink": 2.2, "free": 1.5}  # seconds, when all that an act changes has changed
EACH = 0.17  # seconds from chunk to chunk
PAUSE = 0.3  # before it begins again
FIRST = 1.2  # the moving picture starts so long before the second growth
LEFT, PITCH = 12, 19  # where the chunks begin; from one to the next


class Moving(Drawing):
    """The calls, and below them addresses and memory. What comes and goes has times at which it is there. It plays from
    the end of the first growth on, goes round, and never begins with an empty page."""

    def __init__(self, story):
        super().__init__(400, 296, "A buffer that grows without moving")
        self.story, self.animated = story, {}  # by id: from when to when it is there
        few, many = story.size(story.few), story.size(story.many)
        self.words = (
            f"A buffer on the GPU grows from {few} to {many} and shrinks again, and its address p stays the same. "
            f"cuMemAddressReserve reserves {size_text(story.reserved)} of addresses once. cuMemCreate, cuMemMap and "
            f"cuMemSetAccess map chunks of memory there, one after another; cuMemUnmap gives memory back."
        )
        self.begin, now = [], PAUSE
        for act in story.acts:
            self.begin.append(now)
            now += STAYS[act.kind] + EACH * max(0, act.after - act.before)
        self.begin.append(now)
        self.seconds = round(now + RAMP, 2)
        self.first = self.begin[2] - FIRST  # what is seen first is a buffer with something in it

    def when(self, name, *times, still=True):
        """The attributes of what is there at these times; and in the picture that stands still, or not."""
        self.animated[name] = times
        return {"id": name, "opacity": "" if still else "0"}

    def group(self, name, *times, still=True):
        self.add(f"<g{attributes(self.when(name, *times, still=still))}>")

    def svg(self):
        self.text(8, 24, self.title, "vmm-title")
        top = self.calls(34) + 38
        self.addresses(top)
        self.memory(top)
        self.sentences(top + 140)
        return self.file(self.words, scale=1.6, style=self.style(), root_style="min-width: 0")

    def calls(self, y):
        """What the program does, and which of it now. Returns where it ends."""
        story, begin, rows = self.story, self.begin, {}
        for number, act in enumerate(story.acts):
            rows.setdefault(act.kind, (act.calls, []))[1].append(number)
        for kind, (calls, acts) in rows.items():
            lit = begin[acts[0]], begin[acts[-1] + 1]
            self.group(f"does-{kind}", lit, still=kind == "grow")
            self.rect(8, y, 384, 19, "vmm-panel")
            self.line(f"M8 {y} h4 v19 h-4 z", "vmm-now")
            self.add("</g>")
            self.text(18, y + 14, kind, "vmm-left vmm-bold")
            self.text(82, y + 14, " + ".join(calls), "vmm-calls")
            y += 19
        return y

    @property
    def right(self):
        """Where the chunks end."""
        return LEFT + PITCH * self.story.many

    def addresses(self, top):
        """Those that are reserved; p is the first."""
        story, begin = self.story, self.begin
        self.group("addresses", (begin[0], begin[4] + 0.6))  # the memory goes first
        self.text(8, top - 18, f"p = {story.base:#x}", "vmm-calls")
        self.line(f"M12 {top - 13} v6")
        self.line(f"M12 {top} l-4 -8 h8 z", "vmm-head")
        self.text(392, top - 8, f"{size_text(story.reserved)} of addresses", "vmm-left", style="text-anchor: end")
        self.rect(8, top, 384, 34, "vmm-box")
        self.text((self.right + 372) / 2, top + 15, "room", "vmm-small")
        self.text((self.right + 372) / 2, top + 28, "to grow", "vmm-small")
        self.line(f"M376 {top + 38} l5 -42 h5 l-5 42 z", "vmm-paper")
        self.line(f"M376 {top + 38} l5 -42 m5 0 l-5 42")
        self.add("</g>")

    def memory(self, top):
        """The chunks, in the addresses and below them in the GPU's memory."""
        story, begin, below = self.story, self.begin, top + 64
        self.rect(8, below, 384, 52, "vmm-panel")
        for index in range(story.many):
            grown = 1 if index < story.few else 2
            came = begin[grown] + EACH * (index - story.acts[grown].before)
            x = LEFT + PITCH * index
            self.group(f"chunk-{index}", (came, begin[5 - grown]))
            self.rect(x, top + 4, PITCH - 2, 26, "vmm-box vmm-gpu0")
            self.line(f"M{x + 8.5:g} {top + 30} V{below + 1}")
            self.line(f"M{x + 8.5:g} {below + 6} l-3 -6 h6 z", "vmm-head")
            self.rect(x, below + 6, PITCH - 2, 26, "vmm-box vmm-gpu0")
            self.add("</g>")
        self.text(LEFT, below + 46, f"GPU memory, in chunks of {size_text(story.chunk)}", "vmm-left vmm-small")
        self.text((self.right + 392) / 2, below + 46, "taken", "vmm-small")
        for count in range(story.many + 1):
            self.taken(count, (self.right + 392) / 2, below + 25)

    def sentences(self, y):
        story, begin = self.story, self.begin
        says = [
            f"reserve {size_text(story.reserved)} of addresses: no memory yet",
            f"grow to {story.few} chunks: memory backs the addresses",
            f"grow to {story.many} chunks: same p, nothing is copied",
            f"shrink to {story.few} chunks: {story.size(story.many - story.few)} given back, same p",
            "free it all: memory and addresses",
        ]
        for number, text in enumerate(says):
            times = begin[number], begin[number + 1]
            self.text(8, y, text, "vmm-left vmm-bold", **self.when(f"says-{number}", times, still=number == 2))

    def taken(self, count, x, y):
        """How much memory is taken, while so many chunks are mapped."""
        story, begin, times = self.story, self.begin, []
        if not count:
            times = [(0, begin[1]), (begin[4], self.seconds)]
        elif count == story.few:
            times = [(begin[1] + EACH * (count - 1), begin[2]), (begin[3], begin[4])]
        elif count == story.many:
            times = [(begin[2] + EACH * (count - 1 - story.few), begin[3])]
        else:
            grown = 1 if count < story.few else 2
            came = begin[grown] + EACH * (count - 1 - story.acts[grown].before)
            times = [(came, came + EACH)]
        about = self.when(f"taken-{count}", *times, still=count == story.many)
        self.text(x, y, story.size(count), "vmm-bold", **about)

    def style(self):
        """The motion, for whoever has nothing against it."""
        names = ", ".join(f"#{name}" for name in self.animated)
        rules = [
            "@media screen and (prefers-reduced-motion: no-preference) {",
            f"{names} {{ animation: {self.seconds}s linear -{self.first:.2f}s infinite }}",
            *(f"#{name} {{ animation-name: {name} }}" for name in self.animated),
            "}",
            *(f"@keyframes {name} {{ {self.frames(name, times)} }}" for name, times in self.animated.items()),
        ]
        return '<style id="motion">\n' + "\n".join(rules) + "\n</style>\n"

    def frames(self, name, times):
        ramp = 0.01 if name.startswith("taken") else RAMP  # two numbers at one place must not show together
        here, gone = set(), set()
        for begin, end in times:
            here |= {begin + ramp if begin else 0, end}
            gone |= ({begin} if begin else set()) | ({end + ramp} if end < self.seconds else set())
        (gone if times[0][0] else here).add(0)
        (gone if times[-1][1] < self.seconds else here).add(self.seconds)
        return " ".join(
            ", ".join(f"{100 * at / self.seconds:.4g}%" for at in sorted(times)) + f" {{ opacity: {value} }}"
            for times, value in ((gone, 0), (here, 1))
        )


# --- To scale
class Scale(Drawing):
    """The second growth of the story, once by a new block and once by VMM, and two pointers saved before it. One MiB is
    as wide in both."""

    left, unit = 12, 8  # where the blocks begin; how wide one MiB is

    def __init__(self, story):
        few, many, both = (story.size(count) for count in (story.few, story.many, story.few + story.many))
        super().__init__(400, 324, "Two saved pointers when a buffer grows")
        self.story = story
        self.words = (
            f"{self.title}, from {few} to {many}. Allocate, copy, free: the new block is at another address, and the "
            f"two pointers in the table still lead to where the old one was. While it copies, {both} are taken. VMM: "
            f"in one reservation of {size_text(story.reserved)}, {story.many - story.few} chunks of "
            f"{size_text(story.chunk)} are mapped after the {story.few} that are there. Both pointers lead to their "
            f"data as before, and {many} are taken."
        )

    def wide(self, chunks):
        return chunks * self.story.chunk / (1 << 20) * self.unit

    def block(self, x, y, chunks, text, kind):
        self.rect(x, y, self.wide(chunks), 32, f"vmm-box {kind}")
        self.text(x + self.wide(chunks) / 2, y + 21, text, "vmm-bold")

    def table(self, y, below, kind=""):
        """Two pointers in a table, and where they lead: into the old part."""
        for chunk in 0, 2:
            x = self.left + self.wide(chunk + 0.5)
            self.rect(x - 12, y, 24, 18, "vmm-box")
            self.line(f"M{x:g} {y + 9} V{below - 3}", f"vmm-arrow {kind}".strip())
            self.line(f"M{x:g} {below + 5} l-5 -10 h10 z", f"vmm-head {kind}".strip())

    def svg(self):
        story, left = self.story, self.left
        few, many = story.few, story.many
        end, new = left + self.wide(few), 392 - self.wide(many)
        self.text(8, 24, self.title, "vmm-title")

        self.text(8, 54, "Allocate, copy, free: both pointers dangle", "vmm-left vmm-bold")
        y = 112
        self.block(left, y, few, "freed", "vmm-gone")
        self.block(new, y, many, f"{story.size(many)}, at another address", "vmm-gpu0 vmm-new")
        self.text((end + new) / 2, y + 12, "copy", "vmm-small")
        self.line(f"M{end + 3:g} {y + 19} H{new - 11:g}")
        self.line(f"M{new - 2:g} {y + 19} l-10 -5 v10 z", "vmm-head")
        self.table(66, y, "vmm-gone")
        self.text(end + 12, 80, "pointers in a table, saved before the growth", "vmm-left vmm-small")
        self.text(8, y + 54, f"{story.size(few + many)} taken while it copies", "vmm-left vmm-small")

        self.text(8, 204, "VMM: more memory behind it, and both stay valid", "vmm-left vmm-bold")
        y = 262
        self.line(f"M392 {y - 4} H{left - 4} v40 H392")
        for index in range(many):
            kind = "vmm-box vmm-gpu0" + (" vmm-new" if index >= few else "")
            self.rect(left + self.wide(index) + 1, y, self.wide(1) - 2, 32, kind)
        self.text((left + self.wide(many) + 392) / 2, y + 13, "addresses", "vmm-small")
        self.text((left + self.wide(many) + 392) / 2, y + 27, f"for {size_text(story.reserved)}", "vmm-small")
        self.table(216, y)
        self.text(end + 12, 230, "the same pointers", "vmm-left vmm-small")
        self.text(8, y + 54, f"{story.size(many)} taken, and nothing is copied", "vmm-left vmm-small")
        return self.file(self.words, scale=1.4, root_style="min-width: 0")
