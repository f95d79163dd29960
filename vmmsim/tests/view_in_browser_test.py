#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Views in a real browser: view_in_browser_test.py

By itself from a file, and in a page of a small book: every control, the keys, links to steps, the list of calls, what
is said of a range; two widths, light and dark, without scripts and on paper; a recording that tries to become tags; and
one of 10,000 calls, with its size and its times.
"""

import html
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

from vmmsim.tests.browser import BrowserTest
from vmmsim.trace.recording import Recording
from vmmsim.view import frames
from vmmsim.view import page as view

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True

MiB = 1 << 20
CHUNK = 2 * MiB
# What would do something if it became a tag or a handler.
EVIL = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\" onfocus=\"hacked = 1"
SOURCE = "".join(f"  line_{number}();  // {EVIL if number == 3 else ''}\n" for number in range(1, 61))
SLOWNESS = 3  # by how much a machine may be slower than what is promised


class Program:
    """Writes the trace of a program of our own, which was never run."""

    def __init__(self, pid=100):
        self.pid, self.lines, self.order = pid, [], 0

    def call(self, name, arguments, outputs=None, changes=(), result="CUDA_SUCCESS", explanation=""):
        self.order += 1
        number = len(self.lines) + 1
        self.lines.append(
            {
                "pid": self.pid,
                "thread": self.pid,
                "number": number,
                "call": name,
                "nth": sum(line["call"] == name for line in self.lines[-50:]) + 1,
                "callers": [f"program+{16 * number:#x}"],
                "device": 0,
                "arguments": arguments,
                "result": result,
                "outputs": outputs or {},
                "changes": [{"order": self.order, **change} for change in changes],
                "explanation": explanation,
            }
        )

    def reserve(self, address, size):
        self.call(
            "cuMemAddressReserve",
            {"ptr": "0x7ffe0000", "size": size, "alignment": 0, "addr": "0x0", "flags": 0},
            {"ptr": hex(address)},
            [{"kind": "reserve", "address": hex(address), "size": size}],
        )

    def create(self, handle):
        self.call(
            "cuMemCreate",
            {"handle": "0x7ffe0008", "size": CHUNK, "prop": {"type": "CU_MEM_ALLOCATION_TYPE_PINNED"}, "flags": 0},
            {"handle": hex(handle)},
            [
                {
                    "kind": "create",
                    "handle": hex(handle),
                    "size": CHUNK,
                    "device": 0,
                    "record": handle,
                    "multicast": False,
                }
            ],
        )

    def map(self, address, handle):
        self.call(
            "cuMemMap",
            {"ptr": hex(address), "size": CHUNK, "offset": 0, "handle": hex(handle), "flags": 0},
            changes=[{"kind": "map", "address": hex(address), "size": CHUNK, "handle": hex(handle)}],
        )

    def access(self, address, flags=3):
        self.call(
            "cuMemSetAccess",
            {"ptr": hex(address), "size": CHUNK, "desc": [], "count": 1},
            changes=[{"kind": "access", "address": hex(address), "size": CHUNK, "device": 0, "flags": flags}],
        )

    def unmap(self, address):
        self.call(
            "cuMemUnmap",
            {"ptr": hex(address), "size": CHUNK},
            changes=[{"kind": "unmap", "address": hex(address), "size": CHUNK}],
        )

    def release(self, handle):
        self.call("cuMemRelease", {"handle": hex(handle)}, changes=[{"kind": "release", "handle": hex(handle)}])

    def write(self, file, **about):
        places = {line["callers"][0]: [["program.cu", line["number"] % 60 + 1, "main"]] for line in self.lines}
        places["program+0x40"] = [["", 0, "a_library_function"]]  # of the fourth call
        about = {
            "command": ["./program", EVIL],
            "where": "1 simulated GPU",
            "gpus": 1,
            "status": 0,
            "places": places,
            "sources": {"program.cu": SOURCE},
        } | about
        file.write_text("".join(json.dumps(line) + "\n" for line in [*self.lines, {"about": about}]))
        return file


BASE = 0x420000000


def short():
    """A dozen calls, the ninth of them refused."""
    program = Program()
    program.call("cuInit", {"Flags": 0})
    program.reserve(BASE, 64 * MiB)
    for i in range(2):
        program.create(0x10 + i)
        program.map(BASE + i * CHUNK, 0x10 + i)
        program.access(BASE + i * CHUNK)
    program.call(
        "cuMemAddressFree",
        {"ptr": hex(BASE), "size": 64 * MiB},
        result="CUDA_ERROR_INVALID_VALUE",
        explanation=f"Something is mapped there. {EVIL}",
    )
    for i in range(2):
        program.unmap(BASE + i * CHUNK)
        program.release(0x10 + i)
    program.call("cuMemGetInfo", {}, {"free": 1, "total": 2})
    return program


def long(calls=10_000):
    """Segments that grow by chunks and shrink again, as an allocator's do, and kernels between."""
    program, mapped, handle = Program(), [], 1
    for segment in range(8):
        program.reserve(BASE + (segment << 32), 1 << 30)
    while len(program.lines) < calls - 10:
        segment = handle * 7 % 8
        at = BASE + (segment << 32) + sum(its == segment for its, _ in mapped) * CHUNK
        program.create(handle)
        program.map(at, handle)
        program.access(at)
        program.release(handle)
        mapped.append((segment, at))
        handle += 1
        if len(mapped) == 100:
            for _ in range(50):
                program.unmap(mapped.pop()[1])
        for _ in range(20):
            program.call("cudaLaunchKernel", {"func": "kernel"}, result="cudaSuccess")
    while len(program.lines) < calls:
        program.call("cuMemGetInfo", {}, {"free": 1, "total": 2})
    program.lines = program.lines[:calls]
    return program


class Views(BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        scratch = tempfile.TemporaryDirectory(prefix="a view ")
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        cls.file = cls.page_of(short(), "short")
        cls.last = len(short().lines)

    @classmethod
    def page_of(cls, program, name):
        recording = Recording.read(program.write(cls.scratch / f"{name}.jsonl"))
        file = cls.scratch / f"{name}.html"
        file.write_text(view.page(recording, frames.steps(recording)))
        return file

    def open(self, file=None, fragment="", width=1440):
        self.page.goto("about:blank")  # or a new fragment alone would open nothing
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.goto((file or self.file).as_uri() + fragment)
        self.page.wait_for_selector(".vmm-live")

    def step(self):
        return self.page.locator(".vmm-number").first.inner_text()

    def expect_step(self, number):
        self.assertEqual(self.step(), f"step {number} of {self.last}")

    def button(self, name):
        return self.page.get_by_role("button", name=name, exact=True)

    def expect_drawn(self, step):
        """The picture has the texts of this frame, and its other elements."""
        self.expect_step(step.number)
        texts = self.page.eval_on_selector_all(".vmm-scroll svg text", "all => all.map((it) => it.textContent)")
        wanted = [html.unescape(re.sub("<[^>]*>", "", each)) for each in step.svg if each.startswith("<text")]
        self.assertEqual(texts, wanted)
        self.assertEqual(self.page.locator(".vmm-scroll svg > *").count(), len(step.svg))

    def expect_nothing_ran(self):
        self.assertIsNone(self.page.evaluate("window.hacked ?? null"), "what was recorded has run")
        self.assertEqual(self.page.locator("img").count(), 0, "what was recorded became an element")

    # --- Stepping

    def test_every_control(self):
        self.open()
        ends = {name: self.button(name) for name in ("First", "Back", "Forward", "Last")}

        def disabled():
            return [name for name, button in ends.items() if button.is_disabled()]

        self.expect_step(1)
        self.assertEqual(disabled(), ["First", "Back"])
        ends["Forward"].click()
        self.expect_step(2)
        self.assertEqual(disabled(), [])
        ends["Last"].click()
        self.expect_step(self.last)
        self.assertEqual(disabled(), ["Forward", "Last"])
        self.assertTrue(self.focused("(it) => Boolean(it.closest('.vmm-view'))"), "the focus is lost at the end")
        ends["Back"].click()
        self.expect_step(self.last - 1)
        ends["First"].click()
        self.expect_step(1)
        slider = self.page.get_by_role("slider", name="Step")
        slider.fill("5")
        self.expect_step(5)
        slider.press("ArrowRight")
        self.expect_step(6)
        self.assertEqual(slider.get_attribute("aria-valuetext"), f"step 6 of {self.last}: cuMemCreate")

    def test_keys_only_while_the_view_has_the_focus(self):
        self.open()
        for key in ("ArrowRight", "End"):
            self.page.keyboard.press(key)
        self.expect_step(1)
        self.page.get_by_role("region", name="Source").focus()
        for key, wanted in (("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("End", self.last), ("Home", 1)):
            self.page.keyboard.press(key)
            self.expect_step(wanted)
        self.page.keyboard.press("Shift+ArrowRight")
        self.expect_step(1)

    def test_what_a_step_shows(self):
        self.open(fragment="#step=3")
        caption = self.page.locator(".vmm-caption")
        self.assertEqual(caption.get_attribute("aria-live"), "polite")
        self.assertIn("cuMemCreate", caption.inner_text())
        self.assertEqual(self.page.locator(".vmm-ran").get_attribute("data-line"), "4")
        self.assertIn("▶ line 4 has just run", self.page.locator(".vmm-where").inner_text())
        self.assertEqual(self.page.locator(".vmm-next").count(), 0, "the next call has no line")
        self.assertIn("handle", self.page.locator(".vmm-scroll svg").text_content())
        self.assertGreater(self.page.locator(".vmm-scroll .vmm-new").count(), 0, "what is new has no mark")
        self.button("Forward").click()
        self.assertIn("a_library_function", self.page.locator(".vmm-where").inner_text())
        self.assertFalse(self.page.locator(".vmm-source").is_visible())
        self.button("Forward").click()
        self.assertEqual(self.page.locator(".vmm-ran").inner_text().strip(), "line_6();  //")
        self.assertEqual(self.page.locator(".vmm-next").get_attribute("data-line"), "7")
        self.assertFalse(self.page.locator(".vmm-refused-words").is_visible())
        self.page.locator(".vmm-source").press("End")
        self.page.locator(".vmm-list .vmm-refused").click()
        self.expect_step(9)
        self.assertIn("Something is mapped there", self.page.locator(".vmm-refused-words").inner_text())

    def test_links_to_steps(self):
        for fragment, wanted in (
            ("#step=4", 4),
            ("#step=0", 1),
            ("#step=-3", 1),
            ("#step=99999", self.last),
            ("#step=abc", 1),
            ("#step=", 1),
            ("#other", 1),
        ):
            with self.subTest(fragment):
                self.open(fragment=fragment)
                self.expect_step(wanted)
        self.open()
        self.button("Forward").click()
        self.page.wait_for_url("**#step=2")
        self.button("Forward").click()
        self.button("Back").click()
        self.button("Forward").click()
        self.page.locator(".vmm-list [data-number='7']").click()  # before the step is in the address
        self.page.wait_for_url("**#step=7")
        self.assertEqual(self.page.locator(".vmm-link").get_attribute("href"), "#step=7")
        self.page.go_back()
        self.expect_step(3)
        self.page.go_forward()
        self.expect_step(7)
        self.page.evaluate("location.hash = '#step=5'")
        self.page.wait_for_function("document.querySelector('.vmm-number').textContent.startsWith('step 5 ')")

    def test_inside_another_page(self):
        """As in a notebook: there is no address to write a step into."""
        text = html.escape(self.file.read_text())
        self.page.set_content(f'<html lang="en"><iframe srcdoc="{text}" width="1200" height="900"></iframe>')
        frame = self.page.frame_locator("iframe")
        frame.get_by_role("button", name="Forward", exact=True).click()
        for number in (7, 2):
            frame.locator(f".vmm-list [data-number='{number}']").click()
            frame.get_by_text(f"step {number} of {self.last}").wait_for()
        self.assertFalse(frame.locator(".vmm-link").is_visible(), "a link that leads out of the view")

    def test_the_list_of_calls(self):
        self.open()
        listed, entries = self.page.get_by_role("listbox"), self.page.get_by_role("option")

        def expect_listed(numbers):
            self.assertEqual(entries.evaluate_all("(all) => all.map((it) => Number(it.dataset.number))"), numbers)

        lines = short().lines
        changing = [line["number"] for line in lines if line["changes"]]
        expect_listed([line["number"] for line in lines])
        self.assertEqual(entries.nth(3).inner_text(), "    4 cuMemMap  in a_library_function")
        self.assertEqual(entries.nth(8).inner_text(), "    9 cuMemAddressFree was refused  program.cu:10")
        self.button(f"Those that change something ✚ ({len(changing)})").click()
        expect_listed(changing)
        listed.focus()
        for number in changing[:8]:
            self.page.keyboard.press("ArrowDown")
            self.expect_step(number)
        self.page.keyboard.press("ArrowUp")
        self.expect_step(changing[6])
        selected = self.page.locator(".vmm-list [aria-selected=true]")
        self.assertEqual(selected.get_attribute("id"), listed.get_attribute("aria-activedescendant"))
        self.assertEqual(selected.get_attribute("data-number"), str(changing[6]))
        self.button("Those refused ✖ (1)").click()
        expect_listed([9])
        self.button(f"All calls ({self.last})").click()
        expect_listed([line["number"] for line in lines])
        self.assertEqual(self.button(f"All calls ({self.last})").get_attribute("aria-pressed"), "true")

    def test_what_is_said_of_a_range(self):
        self.open(fragment="#step=5")
        tip, ranges = self.page.locator(".vmm-tip"), self.page.locator(".vmm-scroll [data-about]")
        self.assertFalse(tip.is_visible())
        ranges.first.hover(position={"x": 4, "y": 4})
        self.assertEqual(tip.inner_text(), ranges.first.get_attribute("data-about"))
        self.assertRegex(tip.inner_text(), r"MiB[\s\S]*0x42")
        self.page.keyboard.press("Escape")  # the focus is nowhere
        self.assertFalse(tip.is_visible())
        ranges.last.hover(position={"x": 4, "y": 4})
        self.assertEqual(tip.inner_text(), ranges.last.get_attribute("data-about"))
        self.page.mouse.move(2, 2)
        self.assertFalse(tip.is_visible())
        self.page.locator(".vmm-scroll").focus()
        for number in range(min(3, ranges.count())):
            self.page.keyboard.press("ArrowDown")
            self.assertEqual(tip.inner_text(), ranges.nth(number).get_attribute("data-about"))
            self.assertEqual(
                self.focused("(it) => it.getAttribute('aria-label')"), ranges.nth(number).get_attribute("data-about")
            )
        self.page.keyboard.press("Escape")
        self.assertFalse(tip.is_visible())
        self.page.keyboard.press("ArrowRight")
        self.expect_step(6)
        self.assertTrue(self.focused("(it) => Boolean(it.closest('.vmm-scroll'))"), "a step takes the focus away")

    # --- How it looks

    def test_every_look(self):
        self.open(fragment="#step=9")
        for width in (1440, 390):
            for theme, paper in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(19, 20, 22)")):
                with self.subTest(f"{width} pixels, {theme}"):
                    self.page.set_viewport_size({"width": width, "height": 900})
                    self.page.emulate_media(color_scheme=theme)
                    self.assertEqual(self.page.evaluate("getComputedStyle(document.body).backgroundColor"), paper)
                    overflow = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
                    self.assertEqual(self.page.evaluate(overflow), 0, "the page scrolls sideways")
                    self.expect_accessible()
        source, picture = (self.page.locator(name) for name in (".vmm-program", ".vmm-frame"))
        self.assertGreater(
            picture.bounding_box()["y"], source.bounding_box()["y"] + 100, "on a phone one below the other"
        )
        self.page.set_viewport_size({"width": 1440, "height": 900})
        self.assertGreater(picture.bounding_box()["x"], source.bounding_box()["x"] + 300, "else side by side")

    def expect_still(self, page, figures):
        """Moments and all calls, and nothing to press."""
        self.assertTrue(page.locator(".vmm-still").is_visible())
        self.assertEqual(page.locator(".vmm-still figure:visible").count(), figures)
        self.assertEqual(page.locator("button:visible").count(), 0)
        listed = page.locator(".vmm-still pre").inner_text().strip().splitlines()
        self.assertEqual([int(line.split()[0]) for line in listed], list(range(1, self.last + 1)))
        self.assertIn("cuMemAddressFree was refused  program.cu:10", listed[8])

    def test_on_paper(self):
        self.open(fragment="#step=5")
        self.button("Those refused ✖ (1)").click()
        self.page.emulate_media(media="print", color_scheme="dark")
        self.page.wait_for_selector(".vmm-still")
        self.expect_still(self.page, 4)
        self.assertEqual(
            self.page.locator(".vmm-still .vmm-paper, .vmm-still .vmm-box").first.evaluate(
                "(it) => getComputedStyle(it).fill"
            ),
            "rgb(255, 255, 255)",
        )
        self.page.emulate_media(media="screen")
        self.assertFalse(self.page.locator(".vmm-still").is_visible())

    def test_without_scripts(self):
        context = self.page.context.browser.new_context(java_script_enabled=False)
        self.addCleanup(context.close)
        page = context.new_page()
        page.goto(self.file.as_uri())
        self.expect_still(page, 4)
        self.assertIn("Without scripts", page.locator(".vmm-still").inner_text())

    def test_a_browser_that_cannot_unpack(self):
        context = self.page.context.browser.new_context()
        self.addCleanup(context.close)
        page = context.new_page()
        page.add_init_script("delete window.DecompressionStream")
        page.goto(self.file.as_uri())
        page.wait_for_selector(".vmm-still")
        self.expect_still(page, 4)
        self.assertIn("A newer one can", page.locator(".vmm-view").inner_text())

    def test_a_view_of_a_lesson_has_the_pictures_of_the_page(self):
        recording = Recording.read(short().write(self.scratch / "lesson.jsonl"))
        text = view.fragment(recording, frames.steps(recording), "lesson", has_pictures=True)
        self.assertIn("the pictures on this page", text)
        self.assertNotIn("<figure>", text)

    # --- What is in it

    def test_a_recording_stays_text(self):
        self.open()
        for _ in range(self.last):
            self.page.locator(".vmm-source, .vmm-list").last.press("ArrowRight")
            self.expect_nothing_ran()
        self.assertIn(EVIL, self.page.locator(".vmm-about").inner_text())
        self.open(fragment="#step=9")
        self.assertIn(EVIL, self.page.locator(".vmm-refused-words").inner_text())
        self.assertIn(EVIL, self.page.locator(".vmm-source div").nth(2).inner_text())
        self.assertEqual(self.page.locator("script").count(), 2, "the steps, and what shows them")

    def test_a_recording_of_nothing(self):
        file = self.scratch / "nothing.html"
        recording = Recording.read(Program().write(self.scratch / "nothing.jsonl"))
        file.write_text(view.page(recording, []))
        self.page.goto(file.as_uri())
        self.assertIn("0 calls", self.page.locator(".vmm-about").inner_text())
        self.assertEqual(self.page.locator(".vmm-notes").inner_text(), "The recording has no calls.")
        self.assertEqual(self.page.locator("button").count(), 0)

    def test_ten_thousand_calls(self):
        recording = Recording.read(long().write(self.scratch / "long.jsonl"))
        began = time.process_time()
        its = frames.steps(recording)
        text = view.page(recording, its)
        took = time.process_time() - began
        file = self.scratch / "long.html"
        file.write_text(text)
        began = time.monotonic()
        self.open(file)
        opened = time.monotonic() - began
        self.last = 10_000
        self.page.evaluate("location.hash = '#step=7777'")
        selected = self.page.locator(".vmm-list [data-number='7777']")
        selected.wait_for()
        self.assertLess(self.page.locator(".vmm-list > *").count(), 60, "the whole list is drawn")
        above, height = self.page.evaluate("""() => {
          const list = document.querySelector(".vmm-list"), its = document.querySelector("[data-number='7777']");
          return [its.getBoundingClientRect().top - list.getBoundingClientRect().top, list.clientHeight];
        }""")
        self.assertTrue(0 <= above < height, "the step is not seen in the list")
        changing = [step for step in its if step.kind == "changes"]
        for step in [*changing[-8:], *changing[700:720:3], its[50], its[49]]:
            self.page.get_by_role("slider").fill(str(step.number))
            self.expect_drawn(step)
        stepping = """async (steps) => {
          const slider = document.querySelector(".vmm-controls input"), times = [];
          for (const step of steps) {
            const began = performance.now();
            slider.value = step;
            slider.dispatchEvent(new Event("input"));
            document.body.offsetHeight;
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            times.push(performance.now() - began);
          }
          return times.sort((one, other) => one - other);
        }"""
        steps = [*range(5000, 5020), *range(37, 10_000, 711), 9999, 50, 49]
        times = self.page.evaluate(stepping, steps)
        self.expect_step(49)
        median, slowest = times[len(times) // 2], times[-1]
        print(
            f"10,000 calls: {len(text.encode()) / 1e6:.1f} MB, made in {took:.1f} s, opened in {opened:.1f} s, "
            f"a step in {median:.0f} ms, {slowest:.0f} ms at most"
        )
        self.assertLess(len(text.encode()), 10e6)
        self.assertLess(took, 30 * SLOWNESS)
        self.assertLess(opened, 3 * SLOWNESS)
        self.assertLess(median, 100)
        self.assertLess(slowest, 100 * SLOWNESS)

    # --- In the book

    def test_two_views_on_a_page_of_the_book(self):
        source, book = self.scratch / "source", self.scratch / "book"
        (source / "docs").mkdir(parents=True)
        for name in ("one", "two"):
            short().write(source / "docs" / f"{name}.jsonl")
        (source / "docs" / "index.md").write_text(
            "# Two programs\n\nHere they are.\n\n<!-- view: one.jsonl -->\n\n"
            "## The other\n\n<!-- view: two.jsonl -->\n\n"
            "## One that was not made\n\n<!-- view: no_such_program -->\n"
        )
        command = [sys.executable, "-B", "-m", "sphinx", "-q", "-W", "-c", ROOT / "docs", source, book]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        page = book / "docs" / "index.html"
        self.open(page, "#two-step=9")
        numbers = self.page.locator(".vmm-number")
        self.page.wait_for_function("document.querySelectorAll('.vmm-live').length == 2")
        self.assertEqual(numbers.all_inner_texts(), [f"step {number} of {self.last}" for number in (1, 9)])
        self.page.locator(".vmm-list").first.press("ArrowRight")
        self.page.wait_for_url("**#one-step=2")
        self.assertEqual(numbers.all_inner_texts(), [f"step {number} of {self.last}" for number in (2, 9)])
        self.assertIn("./run.sh --view build/bin/no_such_program", self.page.locator(".vmm-absent").inner_text())
        self.expect_nothing_ran()
        for width, theme, ink in ((1440, "light", "rgb(20, 24, 29)"), (390, "dark", "rgb(243, 245, 247)")):
            self.look(width, theme)
            self.expect_no_overflow()
            fill = self.page.locator(".vmm-scroll text").first.evaluate("(it) => getComputedStyle(it).fill")
            self.assertEqual(fill, ink, "the theme does not reach the picture")
        self.expect_accessible()
        self.page.emulate_media(media="print")
        self.page.wait_for_selector(".vmm-still")
        self.assertEqual(self.page.locator(".vmm-still").first.locator("figure:visible").count(), 4)
        self.assertEqual(self.page.locator(".vmm-steps:visible").count(), 0)
        # What is found and printed is the text.
        self.assertNotIn("cumemaddressreserv", (book / "searchindex.js").read_text().lower())
        printed = (book / "printable.html").read_text()
        self.assertNotRegex(printed, r'<div class="vmm-view|class="vmm-absent|<script')
        self.assertIn("Here they are", printed)


if __name__ == "__main__":
    unittest.main()
