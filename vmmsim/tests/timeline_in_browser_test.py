# SPDX-License-Identifier: MIT-0
"""The timeline in a real browser: a part of it, calls and time as its axis, what is under the pointer."""

import re

import pytest

from vmmsim.testing import sample
from vmmsim.testing.browser import ViewTest
from vmmsim.testing.sample import MIB
from vmmsim.view.compare import page_of_two

CALLS = 40


def slow_start():
    """40 calls, the first ten of them in a tenth of the time; every second makes 2 MiB."""
    writer = sample.timed(60, 0)
    del writer.lines[CALLS:]
    for number, line in enumerate(writer.lines):
        line["time"] = 1000 + 10 * number if number < 10 else 1100 + 30 * (number - 10)
    return writer


class TestTimeline(ViewTest):
    @classmethod
    def setup_class(cls):
        super().setup_class()
        recordings = [slow_start().recording(), sample.timed(6, 1000).recording()]
        runs = [(recording, cls.page_of(recording, "timeline")[1]) for recording in reversed(recordings)]
        cls.file, cls.two = (cls.scratch / name for name in ("timeline.html", "two.html"))
        cls.two.write_text(page_of_two(runs[::-1]))

    def labels(self):
        return self.page.locator(".vmm-axis i").all_inner_texts()

    def drawn(self, kind="mapped"):
        """Of each column, MiB."""
        return [round(height * 2 * (CALLS // 2) / 1000) for height in self.columns(kind)]

    def place(self, share):
        box = self.page.locator(".vmm-over").bounding_box()
        return box["x"] + box["width"] * share, box["y"] + 20

    def cursor(self):
        box, cursor = (self.page.locator(f".vmm-{name}").bounding_box() for name in ("over", "cursor"))
        return (cursor["x"] + cursor["width"] / 2 - box["x"]) / box["width"]

    def test_a_part_of_the_calls_fills_the_strip(self):
        self.at("#step=20")
        whole = self.drawn()
        assert whole[:6] == [0, 0, 2, 2, 4, 4]
        assert self.button("Zoom out").is_disabled()
        self.button("Zoom in").click()
        assert self.drawn() == whole[10:30]
        assert abs(self.cursor() - 9.5 / 20) < 0.01
        self.page.wait_for_url("**#step=20,10-30")
        assert self.labels()[0] == "11 · 100 µs"
        self.page.mouse.click(*self.place(2.5 / 20))
        assert self.step() == 13
        self.button("Later").click()
        assert self.drawn() == whole[20:]
        self.page.keyboard.press("ArrowRight")  # what is stepped to is seen
        assert self.step() == 14
        assert 0 < self.cursor() < 1, "the step is not seen"
        self.page.mouse.move(*self.place(0.5))
        self.page.keyboard.down("Control")
        for _ in range(10):
            self.page.mouse.wheel(0, -100)
        self.page.keyboard.up("Control")
        self.page.wait_for_function("document.querySelector('.vmm-lane svg').viewBox.baseVal.width == 8")
        self.page.keyboard.press("0")
        assert self.drawn() == whole
        self.at("#step=12,held,5-25")
        assert self.drawn() == whole[5:25]
        assert self.page.locator(".vmm-held").is_visible()

    def test_the_strip_goes_by_time(self):
        self.at("#step=11")
        self.button("The axis: time").click()
        assert abs(self.cursor() - 100 / (971)) < 0.005
        assert self.labels()[2] == "486 µs"
        self.page.mouse.click(*self.place(115 / (971)))
        assert self.step() == 11, "it lasts until the next"
        self.page.wait_for_url("**#step=11,t")
        self.page.keyboard.press("w")
        self.page.wait_for_url("**#step=11,t50-536")
        self.page.keyboard.press("0")
        self.page.wait_for_url("**#step=11,t")
        for name in "Zoom out", "Earlier", "Later", "The whole":
            assert self.button(name).is_disabled(), name
        assert self.page.locator(".vmm-number").inner_text() == "step 11 of 40 at 100 µs, 10 µs after 10"
        tip = self.page.locator(".vmm-timeline .vmm-tip")
        self.page.evaluate("document.activeElement.blur()")
        for time, words in (115, "no call for 30 µs, then step 12; before, step 11 of 40"), (101, "step 11 of"):
            self.page.mouse.move(*self.place(time / 971))
            assert tip.inner_text().startswith(words)
        self.page.keyboard.press("t")
        assert self.labels()[0] == "step 1 · 0 µs"
        assert not tip.is_visible(), "the pointer is elsewhere on this axis"

    def test_the_strip_tells_of_each_step(self):
        self.at("#step=20")
        tip = self.page.locator(".vmm-timeline .vmm-tip")
        self.page.mouse.move(*self.place(5.5 / CALLS))
        assert tip.inner_text() == "step 6 of 40 at 50 µs: cuMemCreate; GPU 0: 4 MiB mapped, 2 MiB not mapped"
        assert "peak" in self.page.locator(".vmm-legend").inner_text()
        for width in 1280, 390:
            self.page.set_viewport_size({"width": width, "height": 900})
            self.page.mouse.move(*self.place(0.4))
            assert self.covered_by(".vmm-timeline .vmm-tip", ".vmm-lane", ".vmm-tools button") == [], f"{width} pixels"
        self.page.keyboard.press("Escape")
        self.page.mouse.move(5, 5)
        assert not tip.is_visible()
        self.page.get_by_role("slider", name="Step").focus()
        self.page.keyboard.press("ArrowRight")
        assert re.search(r"^step 21 of 40 at 400 µs: cuMem", tip.inner_text())
        self.page.keyboard.press("Escape")
        assert not tip.is_visible()

    def test_a_range(self):
        """The words say how its ends differ, whichever is dragged to, until one goes elsewhere."""
        writer = sample.Writer()
        for nth in range(4):
            writer.allocate(0x1000 * nth, (nth + 1) * MIB)
            writer.launch()
        handle, _ = writer.create(2 * MIB)
        writer.deallocate(0x3000)
        writer.release(handle)
        self.at("#step=1", self.page_of(writer.recording(), "range")[0])
        caption = self.page.locator(".vmm-caption")
        for one, other in (2.5, 9.9), (9.9, 2.5):
            self.page.mouse.move(*self.place(one / 11))
            self.page.mouse.down()
            self.page.mouse.move(*self.place(other / 11))
            self.page.mouse.up()
            assert caption.inner_text() == (
                "From step 3 to step 10: GPU 0 from 3 MiB to 8 MiB; allocated 9 MiB in 3, freed 4 MiB in 1, "
                "peak 12 MiB at step 9."
            )
            over, marked = (self.page.locator(f".vmm-{name}").bounding_box() for name in ("over", "range"))
            assert abs(marked["width"] / over["width"] - 7 / 11) < 0.01
        self.page.mouse.move(5, 5)
        self.page.keyboard.press("Escape")
        assert caption.inner_text().startswith("cudaMalloc allocates")
        self.page.keyboard.press("ArrowRight")
        assert self.page.locator(".vmm-range").bounding_box()["width"] < 1

    def test_a_range_by_keyboard_and_its_lines(self):
        """What each line has made, freed, mapped and unmapped; the picture marks all of it, and the address has it."""
        writer = sample.Writer(sources={"a.cu": "\n" * 20})
        writer.reserve(sample.BASE, 8 * MIB)
        handles = [writer.back(sample.BASE + 2 * nth * MIB, 2 * MIB) for nth in range(2)]  # steps 2 to 5
        writer.allocate(0x1000, MIB)
        writer.unmap(sample.BASE, 2 * MIB)
        writer.release(handles[0])
        lines = {2: 4, 3: 5, 4: 4, 5: 5}
        writer.called_at(lambda number: ("a.cu", lines.get(number, number), "main"))
        file = self.page_of(writer.recording(), "lines")[0]
        caption, lines = self.page.locator(".vmm-caption"), self.page.locator(".vmm-lines tr")
        for target in "document.body", "document.querySelector('.vmm-timeline input')":
            self.at("#step=2", file)
            self.page.evaluate(f"{target}.focus()")
            for key, wanted in ("ArrowRight", (2, 3)), ("End", (2, 8)), ("ArrowLeft", (2, 7)), ("Home", (1, 2)):
                self.page.keyboard.press(f"Shift+{key}")
                assert caption.inner_text().startswith("From step {} to step {}: ".format(*wanted))
            self.page.keyboard.press("ArrowRight")
            assert caption.inner_text().startswith("cuMemCreate allocates")
        self.at("#step=4", file)
        self.page.keyboard.press("Shift+End")
        assert "made or changed in these steps" in self.page.locator(".vmm-scroll").inner_text()
        assert self.page.locator(".vmm-scroll .vmm-gone").count() > 1
        self.button("What changed, by line").click()
        assert [row.inner_text().split("\t") for row in lines.all()] == [
            ["allocated", "freed", "mapped", "unmapped", "by"],
            ["–", "–", "2 MiB in 1", "–", "a.cu:5 in main"],
            ["–", "–", "–", "2 MiB in 1", "a.cu:7 in main"],
            ["–", "2 MiB in 1", "–", "–", "a.cu:8 in main"],
            ["1 MiB in 1", "–", "–", "–", "a.cu:6 in main"],
        ]
        self.expect_accessible()
        self.page.wait_for_url("**#step=8,held,from4")
        self.at("#step=8,held,from4", file)
        assert lines.count() == 5
        lines.get_by_role("link", name="1 MiB").click()
        assert self.step() == 6
        assert self.button("Who holds it").is_visible(), "it is a step again"

    def test_how_long_calls_took(self):
        """Of recordings that tell it, and no pause is taken for it: 8 calls of 10 µs, one of 300, 100 µs apart."""
        writer = sample.timed(10, 100)
        for number, line in enumerate(writer.lines):
            line["time"] += 300 * (number >= 5)
            line["began"] = line["time"] - (300 if number == 5 else 10)
        self.at("#step=6,t", self.page_of(writer.recording(), "took")[0])
        number, tip = self.page.locator(".vmm-number"), self.page.locator(".vmm-timeline .vmm-tip")
        assert number.inner_text() == "step 6 of 9 at 800 µs, took 300 µs, 400 µs after 5"
        self.page.mouse.move(*self.place(450 / 1101))
        assert tip.inner_text().startswith("no call for 100 µs, then step 6; before, step 5 of 9 at 400 µs, took 10 µs")
        self.page.mouse.move(*self.place(700 / 1101))
        assert tip.inner_text().startswith("within step 6, cuMemCreate; before, step 5")
        path = self.page.locator(".vmm-calls-made").get_attribute("d")
        widths = [int(width) for width in re.findall(r"h(\d+)v", path)]
        assert max(widths) == pytest.approx(1500 * 300 / 1101, abs=2)
        assert sorted(widths)[-2] < 20
        self.search().fill(">0.2ms")
        assert self.page.get_by_role("option").evaluate_all("(all) => all.map((one) => one.dataset.number)") == ["6"]
        waits = sample.Writer()
        waits.call("wait", {"call": "cudaMemcpy", "nth": 1}, result="", time=3_000_000, began=2_000_000)
        self.at("", self.page_of(waits.recording(), "waits")[0])
        assert number.inner_text() == "step 1 of 1 at 0 µs, had waited 1 s"

    def test_when_a_gpu_worked_is_seen(self):
        """Only of a recording that tells: here a kernel began 100 µs after its launch, and took 300."""
        writer = sample.timed(10, 100)
        writer.lines[2] |= {"call": "cudaLaunchKernel", "correlation": 9, "changes": []}
        begin = (writer.lines[2]["time"] + 100) * 1000
        writer.executed({"correlation": 9, "kind": "kernel", "device": 1, "start": begin, "end": begin + 300_000})
        row, caption = self.page.locator(".vmm-events").filter(has_text="busy"), self.page.locator(".vmm-caption")
        self.at("#step=3", self.page_of(writer.recording(), "busy")[0])
        assert caption.inner_text().endswith("On GPU 1 the kernel took 300 µs.")
        assert row.locator("> span").inner_text() == "GPU 1 busy"
        assert row.locator("path").get_attribute("d") == "M2 3h1v4h-1z", "the call that gave the work"
        self.page.keyboard.press("t")
        from_to = [1500 * time / 801 for time in (300, 600)]
        path = row.locator("path").get_attribute("d")
        assert path == "M{0} 3h{1}v4h-{1}z".format(int(from_to[0]), int(from_to[1]) - int(from_to[0]) + 1)
        self.page.mouse.move(*self.place(450 / 801))
        tip = self.page.locator(".vmm-timeline .vmm-tip").inner_text()
        assert "GPU 1 works for step 3, cudaLaunchKernel; " in tip
        self.at("#step=3", self.file)
        assert row.count() == 0

    def test_holes_are_seen_since_when(self):
        writer = sample.Writer()
        writer.reserve(sample.BASE, 64 * MIB)
        for at in 0, 2, 4, 10:
            writer.back(sample.BASE + at * MIB, 2 * MIB)
        writer.unmap(sample.BASE + 2 * MIB, 2 * MIB)
        self.at("#step=9", self.page_of(writer.recording(), "holes")[0])
        row = self.page.locator(".vmm-pieces")
        assert row.locator("> span").inner_text() == "holes\n4 MiB"
        for kind, path in ("scattered", "M0 1000H8V333H9V0H10V1000z"), ("largest", "M0 1000H8V333H10V1000z"):
            assert row.locator(f"path.vmm-{kind}").get_attribute("d") == path
        assert "the largest free piece" in self.page.locator(".vmm-legend").inner_text()
        self.page.keyboard.press("ArrowRight")
        assert row.locator("small").inner_text() == "6 MiB, largest 4 MiB"
        self.expect_accessible()

    def test_two_runs_have_one_scale(self):
        """One scale of memory and of calls, and the peaks one above the other; what is looked at is so in both."""
        self.at("", self.two)
        paths = self.page.locator(".vmm-both path.vmm-mapped")
        peaks = self.page.locator(".vmm-both .vmm-lane .vmm-peak")
        assert paths.nth(1).get_attribute("d") == "M0 1000H36V950H38V900H40V1000z"
        one, other = (each.bounding_box()["x"] for each in peaks.all())
        assert abs(one - other) < 1
        assert self.page.locator(".vmm-both .vmm-tools").count() == 1
        self.page.locator(".vmm-both .vmm-over").nth(1).click(position={"x": 1, "y": 20})
        assert re.search("^step 1 of 6", self.page.locator(".vmm-number").nth(1).inner_text())
        self.page.locator(".vmm-both").get_by_role("button", name="Zoom in", exact=True).click()
        widths = self.page.locator(".vmm-both .vmm-lane svg").evaluate_all(
            "(all) => all.map((one) => one.viewBox.baseVal.width)"
        )
        assert widths == [20, 20]
        one, other = (each.bounding_box()["x"] for each in peaks.all())
        assert abs(one - other) < 1
        self.expect_accessible()

    def test_threads_and_processes_have_names_everywhere(self):
        """In the words, the rows, what is said of ranges and of the timeline; and *Find* finds them by these."""
        writer = sample.Writer(sources={"a.cu": "\n" * 20})
        writer.reserve(sample.BASE, 4 * MIB)
        writer.back(sample.BASE, 4 * MIB, thread=7)
        writer.launch(thread=9)
        writer.launch(thread=7)
        writer.launch(pid=2)
        writer.called_at(lambda number: ("a.cu", number, "main"))
        self.at("#step=2", self.page_of(writer.recording(), "names")[0])
        assert self.page.locator(".vmm-caption").inner_text().startswith("Process 1, thread 2: cuMemCreate")
        assert self.page.locator(".vmm-list small").all_inner_texts() == [f"P1 T{nth}" for nth in (1, 2, 2, 3, 2)] + [
            "P2"
        ]
        where = self.page.locator(".vmm-where")
        assert where.inner_text() == "a.cu in main: ▶ line 2 makes this call, ▷ line 3 makes the next of this thread"
        self.page.keyboard.press("ArrowRight")
        assert where.inner_text().endswith("▷ line 5 makes the next of this thread"), "it crosses threads"
        about = self.page.locator(".vmm-scroll [data-pin='r0']").first.get_attribute("data-about")
        assert about.endswith("Reserved in step 1 by cuMemAddressReserve of process 1, thread 1, a.cu:1.")
        self.page.mouse.move(*self.place(3.5 / 6))
        tip = self.page.locator(".vmm-timeline .vmm-tip")
        assert tip.inner_text().startswith("step 4 of 6: process 1, thread 3: cudaLaunchKernel; GPU 0")
        row = self.page.locator(".vmm-list [data-number='4']")
        assert row.get_attribute("title").startswith("step 4: process 1, thread 3: cudaLaunchKernel")
        for words, found in (
            ("thread 2", [2, 3, 5]),
            ("T2 launch", [5]),
            ("Thread 1", [1, 6]),
            ("process 2", [6]),
            ("process 1, thread 3", [4]),
            ("P1 T1", [1]),
        ):
            self.search().fill(words)
            numbers = self.page.get_by_role("option").evaluate_all("(all) => all.map((one) => +one.dataset.number)")
            assert numbers == found, words

    def test_it_shows_threads_streams_and_the_launch_of_a_fault(self):
        writer = sample.Writer()
        for thread, stream in (1, None), (7, "0x5510"), (1, None):
            writer.launch(stream, thread=thread)
        writer.call("cudaDeviceSynchronize", result="cudaErrorIllegalAddress")
        self.at("#step=4", self.page_of(writer.recording(), "threads")[0])
        assert self.page.locator(".vmm-events > span").all_inner_texts() == ["thread 1", "thread 2"]
        assert self.page.locator(".vmm-stream").all_inner_texts() == ["S1"]
        self.search().fill("s1")
        assert self.page.get_by_role("option").count() == 1
        self.search().fill("")
        self.page.locator(".vmm-caption").get_by_role("link", name="step 3").click()
        assert self.step() == 3
