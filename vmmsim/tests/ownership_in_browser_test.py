# SPDX-License-Identifier: MIT-0
"""Who holds memory, as a browser shows it: by the lines that lead to a call, by descriptors, and after an end."""

import inspect
import pickle
import re

from playwright.sync_api import expect

from vmmsim.testing.browser import ViewTest
from vmmsim.testing.sample import BASE, MIB, Writer, torch_run
from vmmsim.view.compare import page_of_two
from vmmsim.view.snapshot import Snapshot

BEST_PRACTICES = ["heading-order", "landmark-unique", "landmark-no-duplicate-main", "page-has-heading-one"]


def pool():
    """An allocator of one line, called by two functions, one of them from two places; then it is killed."""
    writer = Writer(sources={"pool.cu": "\n" * 30, "main.cu": "\n" * 90}, places={})
    for nth, callers in enumerate(([40, 80], [40, 81], [50], [40, 80])):
        writer.create((2 << nth) * MIB, callers=[f"pool+{line:#x}" for line in (7, *callers)])
    writer.about["places"] = {"pool+0x7": [["pool.cu", 7, "grow"]]}
    for line in 40, 50, 80, 81:
        writer.about["places"][f"pool+{line:#x}"] = [["main.cu", line, "main"]]
    writer.export("0x4", 1, identity="0x101", followed=True)
    writer.release("0x4")
    writer.launch()
    writer.call("vanished", {"signal": 9}, result="")
    return writer


class TestOwnership(ViewTest):
    @classmethod
    def setup_class(cls):
        super().setup_class()
        recording = pool().recording()
        cls.file, found = cls.page_of(recording, "one")
        cls.two = cls.scratch / "two.html"
        cls.two.write_text(page_of_two([(recording, found)] * 2))

    def rows(self, kind):
        return [
            [text.strip() for text in row.locator("td").all_inner_texts()]
            for row in self.page.locator(f".vmm-held details[data-kind='{kind}'] tr").all()
        ]

    def held(self):
        return re.sub("\n+", "\n", self.page.locator(".vmm-held").inner_text().replace("\t", " "))

    def open_row(self, words):
        self.page.get_by_role("button", name=f"Open {words}", exact=True).first.click()

    def test_a_line_opens_into_what_called_it(self):
        """The allocator's line, the only one, is open: those that called it, which open into theirs, the last into
        allocations."""
        self.at("#step=7,held")
        whole = ["30 MiB", "4 ×", "GPU 0", "▸ pool.cu:7 in grow cuMemCreate, steps 1 to 4, mapped nowhere"]
        called = [
            ["22 MiB", "3 ×", "GPU 0", "▸ main.cu:40 cuMemCreate, steps 1 to 4, mapped nowhere"],
            ["8 MiB", "1 ×", "GPU 0", "main.cu:50 #3, cuMemCreate, step 3, mapped nowhere"],
        ]
        opened = [*whole[:3], whole[3].replace("▸", "▾")]
        assert self.rows("memory") == [opened, *called]
        self.open_row("main.cu:40")
        self.open_row("main.cu:80")
        single = [
            ["16 MiB", "1 ×", "GPU 0", "#4 cuMemCreate, step 4, mapped nowhere"],
            ["2 MiB", "1 ×", "GPU 0", "#1 cuMemCreate, step 1, mapped nowhere"],
        ]
        assert self.rows("memory")[3:5] == single
        self.expect_accessible()
        self.open_row("pool.cu:7 in grow")
        assert self.rows("memory") == [whole]
        self.button("Picture").click()
        self.page.locator(".vmm-scroll [data-pin^='m1']").first.click(position={"x": 4, "y": 4})
        created = "step 1 created cuMemCreate, pool.cu:7, called by main.cu:40 ← main.cu:80"
        assert self.page.locator(".vmm-life li").first.inner_text() == created

    def test_those_that_are_alike(self):
        """Of one line, those of one size that are mapped alike are a row, which opens."""
        writer = Writer(sources={})
        writer.reserve(BASE, 64 * MIB)
        for nth in range(12):
            handle, _ = writer.create(2 * MIB)
            if nth in (3, 7):
                writer.map(BASE + nth * MIB, 2 * MIB, handle)
        writer.create(4 * MIB)
        writer.called_at(lambda number: ("a.cu", 7, "main"))
        self.at("#step=16,held", self.page_of(writer.recording(), "alike")[0])
        self.open_row("a.cu:7 in main")
        assert self.rows("memory")[1:] == [
            ["20 MiB", "10 ×", "GPU 0", "▸ 10 × 2 MiB cuMemCreate, steps 2 to 15, mapped nowhere"],
            ["4 MiB", "2 ×", "GPU 0", "▸ 2 × 2 MiB cuMemCreate, steps 5 to 10"],
            ["4 MiB", "1 ×", "GPU 0", "#13 cuMemCreate, step 16, mapped nowhere"],
        ]
        self.open_row("2 × 2 MiB")
        words = [row[3].partition(",")[0] for row in self.rows("memory")[2:5]]
        assert words == ["▾ 2 × 2 MiB cuMemCreate", "#4 cuMemCreate", "#8 cuMemCreate"]

    def test_blocks_of_pytorch_lie_in_its_memory(self):
        """Of a snapshot: by the line that allocated, in the picture, and what is free in the timeline."""
        writer, content = torch_run()
        (self.scratch / "snapshot.pickle").write_bytes(pickle.dumps(content))
        snapshot = Snapshot.read(self.scratch / "snapshot.pickle")
        file, _ = self.page_of(writer.recording(), "torch", snapshot)
        self.at("#step=13,held", file)
        assert self.rows("torch") == [
            ["20 MiB", "2 ×", "GPU 0", "▸ train.py:22 in train steps 7 to 11"],
            ["8 MiB", "1 ×", "GPU 0", "train.py:20 in train 0x700100000000, step 4, awaiting free"],
        ]
        said = self.held()
        assert "PyTorch's blocks, by the line that allocated: 28 MiB in 3, 8 MiB of it awaiting free" in said
        assert "Cached and free in PyTorch's memory: 12 MiB on GPU 0, the largest piece 8 MiB." in said
        since = "PyTorch's free memory is fragmented since step 11: 12 MiB, the largest piece 8 MiB;"
        assert since in self.page.locator(".vmm-matters").inner_text()
        self.button("Picture").click()
        mapped = self.page.locator(".vmm-scroll [data-pin='r0:0:20971520']").first
        words = "Of it PyTorch has 8 MiB live in 1 block, 8 MiB awaiting free, 4 MiB cached."
        assert mapped.get_attribute("data-about").endswith(words)
        other = self.page.locator(".vmm-scroll [data-pin='r0:20971520:20971520']").first.get_attribute("data-about")
        assert other.endswith("Of it PyTorch has 12 MiB live in 1 block, 8 MiB cached.")
        assert "PyTorch's blocks" in self.page.locator(".vmm-scroll").inner_text()
        mapped.click(position={"x": 4, "y": 4})
        blocks = self.page.locator(".vmm-life ol").nth(1).locator("li").all_inner_texts()
        assert blocks == [
            "8 MiB at 0x700100000000, awaiting free since step 4 train.py:20, in train",
            "8 MiB at 0x700100c00000 since step 7 train.py:22, in train",
        ]
        self.expect_accessible()
        self.at("#step=3,held", file)
        assert "PyTorch's snapshot tells of steps 4 to 14." in self.held()
        self.at("#step=12,held,from6", file)
        assert self.page.locator(".vmm-lines").nth(1).inner_text().splitlines() == [
            "PyTorch's blocks, by the line that allocated",
            "allocated\tfreed\tby",
            "20 MiB in 2\t–\ttrain.py:22 in train",
            "–\t4 MiB in 1\ttrain.py:21 in train",
        ]

    def test_threads_of_a_library_are_one_row(self):
        """What several threads made for one line of the program is one row, and opens into the library's functions."""
        writer = Writer(places={"pool+0x7": [["main.cu", 7, "train"]]}, sources={"main.cu": "\n" * 99})
        for nth, function in enumerate(("createRing", "createTree", "createTree")):
            caller = f"libring.so+{nth:#x}"
            writer.about["places"][caller] = [["" if nth else "ring.cc", 4, function]]
            if not nth:
                writer.call("cudaSetDevice", {"device": 0}, callers=["pool+0x7"])
            writer.create(2 * MIB, callers=[caller], thread=2 + nth)
        for _ in range(2):  # in a library's function that has no name, in the main thread
            writer.create(64 * MIB, callers=["libcudart.so.13+0x8", "libblas.so.3+0x9", "pool+0x7"])
        writer.allocate(0x10000, 3 * MIB, callers=["libblas.so.3+0x9", "pool+0x7"])
        file, _ = self.page_of(writer.recording(), "threads")
        self.at("#step=6,held", file)
        self.open_row("main.cu:7 in train, in other threads")
        words = [row[3].partition(" cuMemCreate")[0] for row in self.rows("memory")]
        assert words.pop(0) == "▸ main.cu:7 in train in libblas.so.3, 2 × 64 MiB,"
        assert words == [
            "▾ main.cu:7 in train, in other threads in libring.so, 3 × 2 MiB,",
            "▸ createTree, libring.so 2 × 2 MiB,",
            "createRing, ring.cc:4 #1,",
        ]
        assert self.page.get_by_text("By library: libblas.so.3 128 MiB, libring.so 6 MiB.").is_visible()
        where = self.page.locator(".vmm-where")
        self.at("#step=7,held", file)
        words = "By library: libblas.so.3 3 MiB. What a library allocates by cudaMalloc it usually keeps until the"
        assert self.page.get_by_text(words).is_visible()
        self.at("#step=5,held", file)
        assert "▶ line 7 makes this call and the next" in where.inner_text()
        self.at("#step=2,held", file)
        words = where.inner_text()  # whose text is not in the recording
        assert words.startswith("Called by ring.cc:4 in createRing, in another thread. ▷ The main thread had")
        self.at("#step=4,held", file)
        assert self.page.locator(".vmm-source .vmm-next").get_attribute("data-line") == "7"
        listed = self.page.locator(".vmm-list [data-number='4']")
        assert "main.cu:7 in train (createTree)" in listed.text_content()
        expect(self.page.locator(".vmm-source .vmm-next")).to_be_in_viewport(ratio=1)
        assert "createTree in another thread, main thread last at main.cu:7" in listed.get_attribute("title")
        self.search().fill("cuMemCreate main.cu:7 createTree")  # as its row says
        expect(self.button("All (2)")).to_be_visible()

    def test_descriptors_are_listed_and_what_is_left_at_the_end(self):
        self.at("#step=7,held")
        self.page.get_by_text("Open descriptors: 1").click()
        self.page.locator("[data-kind='descriptors'] tr").wait_for()
        assert re.search(r" 9, of #4, cuMemExportToShareableHandle, step 5$", self.rows("descriptors")[0][3])
        self.page.goto(self.file.as_uri() + "#step=8,held")
        self.page.get_by_text("Nothing.").wait_for()
        assert self.page.locator(".vmm-held :is(h2, h3)").all_inner_texts() == ["Left at the end, step 8"]

    def test_it_is_listed_who_holds_what(self):
        """By line of the program, at the peak and at the end, and what a process left that ended before."""
        writer = Writer(places={}, sources={})
        for _ in range(2):
            writer.create(2 * MIB)
        writer.allocate(0x10000, 3 * MIB)
        writer.create(4 * MIB, 1, pid=2, device=1)
        writer.allocate(0x10000, 7 * MIB, 1, pid=2, device=1)
        writer.call("exit", {"status": 0}, result="", pid=2)
        writer.create(5 * MIB, thread=9, callers=["pool.so+0x5"])
        writer.deallocate(0x10000)
        writer.called_at(lambda number: ("a.cu", 10 + number, "main"))
        writer.about["places"]["pool.so+0x5"] = [["", 0, "grow()"]]
        self.at("#step=1", self.page_of(writer.recording(), "who")[0])
        self.page.locator(".vmm-matters a", has_text="MiB at step").first.click()
        assert self.step() == 7
        memory = """
        By the line that requested it of CUDA. An allocator, such as PyTorch's, may keep it or have passed it on to \
other lines: that is not recorded.
        VMM memory: 9 MiB in 3, mapped nowhere
        By library: pool.so 5 MiB, the program itself 4 MiB.
        5 MiB 1 × GPU 0 process 1: a.cu:13 in main, in other threads in pool.so, #4, cuMemCreate, step 7, mapped nowhere
        2 MiB 1 × GPU 0 process 1: a.cu:11 in main #1, cuMemCreate, step 1, mapped nowhere
        2 MiB 1 × GPU 0 process 1: a.cu:12 in main #2, cuMemCreate, step 2, mapped nowhere"""
        ordinary = """
        By cudaMalloc and the like: 3 MiB in 1
        3 MiB 1 × GPU 0 process 1: a.cu:13 in main cudaMalloc, step 3"""
        of_the_second = """
        Handles not released: 3
        Left by process 2, which ended in step 6
        VMM memory: 4 MiB in 1, mapped nowhere
        4 MiB 1 × GPU 1 process 2: a.cu:14 in main #3, cuMemCreate, step 4, mapped nowhere
        By cudaMalloc and the like: 7 MiB in 1
        7 MiB 1 × GPU 1 process 2: a.cu:15 in main cudaMalloc, step 5
        Handles not released: 1"""
        held = self.page.locator(".vmm-held")
        assert self.held() == inspect.cleandoc(f"Held in step 7{memory}{ordinary}{of_the_second}")
        self.expect_accessible()
        end = self.page.locator(".vmm-matters a").last
        assert end.inner_text() == "9 MiB of GPU 0, 4 MiB of GPU 1, 7 MiB of GPU 1 by cudaMalloc"
        end.click()
        left = inspect.cleandoc(f"Left at the end, step 8{memory}{of_the_second}")
        assert self.held() == left
        self.page.wait_for_url("**#step=8,held")
        held.locator("a").first.click()
        assert self.step() == 7
        assert not held.is_visible(), "a link to a step does not show its picture"
        self.page.go_back()
        assert (self.step(), self.held()) == (8, left)

    def test_who_is_gone_holds_nothing(self):
        """What another process holds is that one's, whoever made it."""
        writer = Writer(places={}, sources={})
        handle, record = writer.create(2 * MIB)
        for pid in 2, 3:
            taken = writer.give(handle, record, 1, pid, identity="0x101")
            writer.reserve(BASE, 2 * MIB, pid=pid)
            writer.map(BASE, 2 * MIB, taken, pid=pid)
            writer.access([(BASE, 2 * MIB)], pid=pid)
        writer.call("vanished", {"signal": 9}, result="", pid=1)
        writer.release(taken, pid=3)
        writer.unmap(BASE, 2 * MIB, pid=3)
        writer.create(4 * MIB, pid=3)
        writer.called_at(lambda number: ("a.cu", 10, "main"))
        file, _ = self.page_of(writer.recording(), "gone")
        for step, words in (
            (1, "process 1: a.cu:10 in main #1, cuMemCreate, step 1, mapped nowhere"),
            (11, "process 1: a.cu:10 in main held by processes 1, 2, 3, #1, cuMemCreate, step 1"),
            (12, "process 1, which is gone: a.cu:10 in main held by processes 2, 3, #1, cuMemCreate, step 1"),
            (14, "process 1, which is gone: a.cu:10 in main held by process 2, #1, cuMemCreate, step 1"),
        ):
            self.at(f"#step={step},held", file)
            assert [row[3] for row in self.rows("memory")] == [words]
        self.at("#step=15,held", file)
        assert self.rows("memory")[0][3].startswith("process 3: a.cu:10 in main #2, cuMemCreate, step 15")
        self.button("Picture").click()
        self.page.get_by_text("Across processes: process 2 may use 2 MiB of process 1, which is gone").wait_for()

    def test_what_is_no_memory_of_a_gpu_is_apart(self):
        """What is managed, what another process has opened by IPC, and what the host has."""
        writer = Writer()
        writer.allocate(0x1000, 8 * MIB)
        writer.allocate(0x2000, 8 * MIB, call="cudaIpcOpenMemHandle", pid=2)
        writer.allocate(0x3000, 3 * MIB, gpu=-1, call="cudaMallocManaged")
        writer.allocate(0x4000, MIB, gpu=-1, call="cudaMallocHost")
        file, found = self.page_of(writer.recording(), "kinds")
        assert found.overview.peak(0).held.total == 8 * MIB
        assert found.lives.left()[0] == {("ordinary", 0): 8 * MIB, ("managed", -1): 3 * MIB, ("ordinary", -1): MIB}
        self.at("#step=4", file)
        for text in (
            "By cudaMalloc on GPU 0: 8 MiB in 1 allocation",
            "Another process's by cudaMalloc: 8 MiB in 1 allocation",
            "Managed: 3 MiB in 1 allocation",
            "Page-locked on the host: 1 MiB in 1 allocation",
        ):
            expect(self.page.locator(".vmm-scroll").get_by_text(text)).to_be_visible()
        label = self.page.locator(".vmm-lane > span").inner_text()
        assert re.sub(r"\s+", " ", label) == "GPU 0 peak 8 MiB now 8 MiB"
        assert (
            "not counted: contexts, what pools keep free, managed mem" in self.page.locator(".vmm-legend").inner_text()
        )
        left = self.page.locator(".vmm-matters a").last
        assert left.inner_text() == "8 MiB by cudaMalloc, 1 MiB of the host, 3 MiB managed"
        left.click()
        assert self.page.locator(".vmm-held summary").all_inner_texts() == [
            "By cudaMalloc and the like: 9 MiB in 2 (GPU 0 8 MiB, host 1 MiB)",
            "Managed memory: 3 MiB in 1",
            "Another process's by cudaMalloc, opened here: 8 MiB in 1",
        ]

    def test_headings_and_regions_are_accessible(self):
        self.at("#step=7,held")
        self.expect_accessible(BEST_PRACTICES, least=2)
        self.page.goto(self.two.as_uri())
        self.page.locator(".vmm-live").nth(1).wait_for()
        self.expect_accessible(BEST_PRACTICES, least=2)
