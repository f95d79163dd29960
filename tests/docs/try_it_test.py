# SPDX-License-Identifier: MIT-0
"""The boxes of the page Try it here and of lessons, in Chromium.

What they answer is held against what an H200 answered (vmmsim/tests/conformance), where it was asked the same.
"""

import pathlib
import shutil

from vmmsim.built import BUILT
from vmmsim.testing.browser import COPIED, NOTHING_COPIED, SETTLED, BrowserTest, skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFORMANCE = ROOT / "vmmsim" / "tests" / "conformance"
BOOK = pathlib.Path(BUILT["build"]) / "book"
PAGE = BOOK / "docs/try_it.html"

KERNELS = {"cudaSuccess": "no fault", "cudaErrorIllegalAddress": "CUDA_ERROR_ILLEGAL_ADDRESS"}

# The recorded line that a call of a box is held against, by its section and its label; none: it prepares others.
ASKED = """
reservations | reserve 0 bytes | cuMemAddressReserve(&a, 0, 0, 0, 0)
reservations | reserve 1 byte | cuMemAddressReserve(&a, 1, 0, 0, 0)
reservations | reserve 64 KiB | cuMemAddressReserve(&a, 64 KiB, 0, 0, 0)
reservations | reserve 2 MiB | cuMemAddressReserve(&a, 2 MiB, 0, 0, 0)
reservations | reserve 3 MiB | cuMemAddressReserve(&b, 3 MiB, 0, 0, 0)
reservations | reserve 1 TiB | cuMemAddressReserve(&b, 1 TiB, 0, 0, 0)
reservations | reserve 2^46 | cuMemAddressReserve(&b, 64 TiB, 0, 0, 0)
reservations | reserve 2^47 | cuMemAddressReserve(&c, 128 TiB, 0, 0, 0)
reservations | reserve 2 MiB, alignment 3 | cuMemAddressReserve(&c, 2 MiB, 3, 0, 0)
reservations | reserve 2 MiB, flags 1 | cuMemAddressReserve(&c, 2 MiB, 0, 0, 1)
reservations | reserve 2 MiB, hint 1 MiB past a granule | cuMemAddressReserve(&c, 2 MiB, 0, a + 1 MiB, 0)
reservations | reserve 2 MiB, hint 2^47 | cuMemAddressReserve(&c, 2 MiB, 0, 128 TiB, 0)
freeing reservations | | cuMemAddressReserve(&d, 4 MiB, 0, 0, 0)
freeing reservations | free with size 0 | cuMemAddressFree(d, 0)
freeing reservations | free the first half | cuMemAddressFree(d, 2 MiB)
freeing reservations | free from 2 MiB on, the whole size | cuMemAddressFree(d + 2 MiB, 4 MiB)
freeing reservations | free with 2 MiB too many | cuMemAddressFree(d, 6 MiB)
freeing reservations | free it | cuMemAddressFree(d, 4 MiB)
freeing reservations | free it again | cuMemAddressFree(d, 4 MiB)
freeing reservations | free address 0 | cuMemAddressFree(0, 4 MiB)
allocations | create 0 bytes | cuMemCreate(&m, 0, gpu(0), 0)
allocations | create 65536 bytes | cuMemCreate(&m, 64 KiB, gpu(0), 0)
allocations | create 3145728 bytes | cuMemCreate(&m, 3 MiB, gpu(0), 0)
allocations | create 1 PiB | cuMemCreate(&m, 1024 TiB, gpu(0), 0)
allocations | create flags 1 | cuMemCreate(&m, 2 MiB, gpu(0), 1)
allocations | create GPU 99 | cuMemCreate(&m, 2 MiB, gpu(99), 0)
allocations | create location host NUMA node 0 | cuMemCreate(&n, 2 MiB, host, 0)
allocations | granularity good, option 77 | cuMemGetAllocationGranularity(&g, gpu(0), 77)
mappings | | cuMemAddressReserve(&v, 8 MiB, 0, 0, 0)
mappings | | cuMemCreate(&m, 4 MiB, gpu(0), 0)
mappings | size 0 | cuMemMap(v, 0, 0, m, 0)
mappings | half the size | cuMemMap(v, 2 MiB, 0, m, 0)
mappings | twice the size | cuMemMap(v, 8 MiB, 0, m, 0)
mappings | offset 2 MiB, the rest | cuMemMap(v, 2 MiB, 2 MiB, m, 0)
mappings | flags 1 | cuMemMap(v, 4 MiB, 0, m, 1)
mappings | address 1 MiB in | cuMemMap(v + 1 MiB, 4 MiB, 0, m, 0)
mappings | address 0 | cuMemMap(0, 4 MiB, 0, m, 0)
mappings | map | cuMemMap(v, 4 MiB, 0, m, 0)
mappings | map again, same place | cuMemMap(v, 4 MiB, 0, m, 0)
mappings | map again, half over it | cuMemMap(v + 2 MiB, 4 MiB, 0, m, 0)
mappings | map again, right behind | cuMemMap(v + 4 MiB, 4 MiB, 0, m, 0)
access | set of GPU 99 | cuMemSetAccess(v, 4 MiB, gpu(99), READWRITE)
access | set of host NUMA node 0 | cuMemSetAccess(v, 4 MiB, host, READWRITE)
access | set flags 2 | cuMemSetAccess(v, 4 MiB, gpu(0), 2)
access | set size 0 | cuMemSetAccess(v, 0, gpu(0), READWRITE)
access | set the first half | cuMemSetAccess(v, 2 MiB, gpu(0), READWRITE)
access | access of GPU 99 | cuMemGetAccess(&r, gpu(99), v)
access | access of address 0 | cuMemGetAccess(&r, gpu(0), 0)
mappings | access of both neighbours in one call | cuMemSetAccess(v, 8 MiB, gpu(0), READWRITE)
mappings | release | cuMemRelease(m)
mappings | map after release, still mapped | cuMemMap(b, 4 MiB, 0, m, 0)
unmapping | the first half | cuMemUnmap(v, 2 MiB)
unmapping | one and a half | cuMemUnmap(v, 6 MiB)
unmapping | size 0 | cuMemUnmap(v, 0)
unmapping | address 0 | cuMemUnmap(0, 4 MiB)
unmapping | both neighbours | cuMemUnmap(v, 8 MiB)
unmapping | both again | cuMemUnmap(v, 8 MiB)
"""


# What a lesson's box asks its reader to do: a change of its text, the call that is asked about, and the recorded line.
# An empty change is none; what is put for an empty text comes at the end.
OPEN = "cuMemSetAccess({}, {}, gpu({}), {})\n"
READ_1, WRITE_1 = "read(gpu(1), table + 2 MiB, 2 MiB)", "write(gpu(1), table + 2 MiB, 2 MiB)"
SHARED = OPEN.format("table", "4 MiB", 1, "READ")
THIRD = "cuMemCreate(&third, 2 MiB, gpu(0), 0)\ncuMemMap(va + {} MiB, 2 MiB, 0, third, 0)"
ASKED_IN_LESSONS = {
    "01_vmm_basics": [
        ("", "", "cuMemMap(there,", "vmm", "mappings", "map again, another reservation"),
        ("", "", "read(", "vmm_kernels", "read only: load", "load"),
        ("cuMemUnmap(here, 2 MiB)\n", "", "cuMemMap(there,", "vmm", "mappings", "map again, another reservation"),
        (OPEN.format("there", "2 MiB", 0, "READ"), "", "read(", "vmm_kernels", "no access: load", "load"),
    ],
    "02_growable": [
        ("", "", "write(", "vmm_kernels", "open memory", "store"),
        ("", THIRD.format(6), "cuMemMap(va + 6 MiB", "vmm", "mappings", "map again, right behind"),
        ("", THIRD.format(8), "cuMemMap(va + 8 MiB", "vmm", "mappings", "no reservation"),
    ],
    "03_multi_gpu": [
        ("", "", READ_1, "vmm_peers", "peer access enabled before the memory is made", "load by GPU 1"),
        (READ_1, SHARED + READ_1, READ_1, "vmm_peers", "open to one, then to the other", "load by GPU 1"),
        (READ_1, SHARED + WRITE_1, WRITE_1, "vmm_peers", "open to one, then to the other", "store by GPU 1"),
    ],
    "07_aliasing": [
        ("", "", "cuMemMap(ring + 2 MiB", "vmm", "mappings", "map again, right behind"),
        ("", "", "cuMemSetAccess(", "vmm", "mappings", "access of both neighbours in one call"),
        ("ring, 4 MiB, gpu", "ring, 2 MiB, gpu", "write(", "vmm_kernels", "no access: store", "store"),
        ("ring, 2 MiB, 0, m", "ring, 4 MiB, 0, m", "cuMemMap(ring,", "vmm", "mappings", "twice the size"),
    ],
}


def recorded(name="vmm"):
    """What the H200 answered, by section and label; of a kernel's access what a box says of it."""
    found, section = {}, ""
    for line in (CONFORMANCE / f"{name}_expected_output.txt").read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif ": " in line:
            label, answer = line.rsplit(": ", 1)
            found.setdefault((section, label), KERNELS.get(answer, answer.partition(",")[0]))
    return found


class TestTryIt(BrowserTest):
    def setup_method(self):
        super().setup_method()
        if not shutil.which("em++"):
            skip("this book was built without em++; install emscripten (apt-get install emscripten)")
        self.open_boxes(PAGE)

    def open_boxes(self, page, fragment=""):
        self.page.goto(f"{page.as_uri()}{fragment}")
        self.page.evaluate(SETTLED)
        self.page.locator(".try-it").first.scroll_into_view_if_needed()
        self.page.wait_for_selector(".try-it.is-ready .try-it-answers li")

    def answers(self, text):
        """Those of the first box, once it has these calls: line, answer and why."""
        count = sum(bool(line.partition("//")[0].strip()) for line in text.splitlines())
        self.page.locator(".try-it textarea").first.fill(text)
        self.page.wait_for_function(
            """([text, count]) => {
              const box = document.querySelector(".try-it");
              return box.dataset.answered === text && box.querySelectorAll("li").length === count;
            }""",
            arg=[text, count],
        )
        return (
            self.page.locator(".try-it")
            .first.locator("li")
            .evaluate_all(
                "(lines) => lines.map((line) => [...line.querySelectorAll('code, span, p')].map((e) => e.textContent))"
            )
        )

    def drawn(self):
        """The texts of the first box's picture."""
        return self.page.locator(".try-it").first.locator("svg text").all_text_contents()

    def test_every_box_is_answered(self):
        refused = {1: "cuMemCreate(&memory, 3000000, gpu(0), 0)", 5: "cuMemUnmap(va, 2 MiB)", 6: READ_1}
        boxes = self.page.locator(".try-it.is-ready")
        self.page.wait_for_function("[...document.querySelectorAll('.try-it')].every((box) => box.dataset.answered)")
        sections = boxes.evaluate_all("(boxes) => boxes.map((box) => box.closest('section').id)")
        assert boxes.count() == len(set(sections)) == 8  # or links to boxes would lead to others
        for number in range(boxes.count()):
            bad = boxes.nth(number).locator("button:has(.try-it-bad) code").all_inner_texts()
            assert bad == ([refused[number]] if number in refused else [])
            assert boxes.nth(number).locator("svg rect").count() > (0 if number != 3 else -1)

    def test_a_lessons_box_answers_its_questions_as_an_h200_did(self, subtests):
        for lesson, asked in ASKED_IN_LESSONS.items():
            self.open_boxes(BOOK / lesson / "README.html")
            assert self.page.locator(".try-it").count() == 1
            text = self.page.locator(".try-it textarea").input_value()
            for old, new, call, *line in asked:
                with subtests.test(f"{lesson}: {call}, {new}"):
                    changed = text.replace(old, new) if old else f"{text}\n{new}".rstrip()
                    assert old in text and (changed == text) == (old == new)
                    (answer,) = {answer for shown, answer, *_ in self.answers(changed) if shown.startswith(call)}
                    assert answer.partition(":")[0] == recorded(line[0])[tuple(line[1:])]

    def test_the_answers_are_those_of_an_h200(self):
        lines = [[part.strip() for part in line.split("|")] for line in ASKED.strip().splitlines()]
        answers, wrong = recorded(), []
        found = self.answers("\n".join(line for _, _, line in lines))
        for (section, label, line), (shown, answer, *why) in zip(lines, found, strict=True):
            assert shown == line
            expected = answers[section, label] if label else "CUDA_SUCCESS"
            got = answer.partition(":")[0]
            if got != expected or (got != "CUDA_SUCCESS" and not why):
                wrong.append((line, got, expected, why))
        assert wrong == []

    def test_what_is_no_call_is_said(self, subtests):
        for line, word in (
            ("cuMemFree(va)", "there is no cuMemFree here"),
            ("cuMemUnmap(va, 2 MiB)", "nothing above is called “va”"),
            ("cuMemAddressReserve(va, 2 MiB, 0, 0, 0)", "the answer needs a name"),
            ("cuMemAddressReserve(&va, 2 MiB)", "has 5 arguments here"),
            ("cuMemRelease(2 ! 3)", "“!” is not understood"),
            ("cuMemRelease()", "has 1 arguments here"),
            ("cuMemRelease(1", "with both its parentheses"),
            ("cuMemRelease(99999999999999999999)", "“99999999999999999999” is too large: a number here has 64 bits"),
            ("cuMemRelease(1 - 2)", "“1 - 2” is negative, and CUDA takes no such number here"),
            ("cuMemAddressReserve(&va, -1, 0, 0, 0)", "“-1” is negative"),
            ("cuMemAddressReserve(&va, -4 MiB, 0, 0, 0)", "“-4 MiB” is negative"),
            ("cuMemAddressReserve(&va, 1.5 MiB, 0, 0, 0)", "“1.5” is no whole number: take a smaller unit"),
            ("cuMemAddressReserve(&va, 4 M, 0, 0, 0)", "“M” is no unit here: write MiB"),
            ("cuMemAddressReserve(&va, 1 PiB, 0, 0, 0)", "“PiB” is no unit here: write KiB, MiB, GiB, TiB"),
            ("cuMemAdressReserve(&va, 1, 0, 0, 0)", "is cuMemAddressReserve meant?"),
            ("cuMemCreate(&m, 2 MB, gpu(0), 0)", "write MiB"),
            ("cuMemCreate(&m, 2 MiB, GPU(0), 0)", "is gpu(0) meant?"),
            ("cuMemCreate(&m, 2 MiB, hosts, 0)", "is host meant?"),
            ("cuMemCreate(&m, 2 MiB, 0, 0)", "the third is a place, as gpu(0)"),
            ("cuMemCreate(&m, gpu(0), 2 MiB, 0)", "the second is a number, as 4 MiB"),
            ("cuMemCreate(&m, 2 MiB, gpu(4294967296), 0)", "there is no gpu(4294967296): this box has"),
            ("cuMemCreate(&m, 2 MiB, gpu(0 - 1), 0)", "there is no gpu(-1)"),
            ("cuMemCreate(&m, 2 MiB, gpu(gpu(0)), 0)", "gpu() has a number in it"),
            ("cuMemCreate(&m, READ << 2, gpu(0), 0)", "can't count right << number"),
            ("cuMemCreate(&m, 1 << 64, gpu(0), 0)", "<< takes 0 to 63"),
            ("cuMemSetAccess(4 MiB, 4 MiB, READ, gpu(1))", "the third is a place, as gpu(0)"),
            ("cuMemSetAccess(4 MiB, 4 MiB, gpu(1), host)", "the fourth is a right, as READ"),
            ("cuMemRelease(READ)", "the first is a handle"),
            ("read(host, 4 MiB, 4 MiB)", "the first is a GPU, as gpu(0)"),
            ("write(host, 4 MiB, 4 MiB)", "the first is a GPU, as gpu(0)"),
            ("toString(1)", "there is no toString here; there are"),
            ("<img src=x onerror=alert(1)>", "a line is one call"),
        ):
            with subtests.test(line):
                ((shown, answer, why),) = self.answers(f"{line}\n// a remark\n\n")
                assert (shown, answer) == (line, "not a call")
                assert word in why

    def test_what_is_counted_is_as_in_c(self):
        answers = self.answers(
            "cuMemAddressReserve(&a, 2 << 20, 0, 0, 0)\ncuMemCreate(&m, 1 + 1 << 20, gpu(2 - 1), 0)\n"
            "cuMemMap(a + (1 << 21) - 2 MiB, 2 * 1 MiB, a - a, m, 0)\ncuMemSetAccess(a, 2 MiB, gpu(0), 3)\n"
            "cuMemGetAccess(&right, gpu(0), a)\ncuMemSetAccess(a, 2 MiB, gpu(1), right)\n"
            "cuMemSetAccess(a, 2 MiB, gpu(2), READ)\nread(gpu(2), a, 2 MiB)"
        )
        assert [answer.partition(":")[0] for _, answer, *_ in answers] == [
            *["CUDA_SUCCESS"] * 6,
            *("CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_INVALID_DEVICE"),
        ]
        assert self.drawn().count("read-write") == 2  # for either GPU

    def test_a_size_is_said_as_it_was_typed(self):
        found = self.answers(
            "cuMemCreate(&m, 4 MiB, gpu(0), 0)\ncuMemAddressReserve(&a, 64 TiB, 0, 0, 0)\ncuMemMap(a, 2 MiB, 0, m, 0)\n"
            "cuMemCreate(&n, 3 MiB, gpu(0), 0)\ncuMemCreate(&n, 1024 TiB, gpu(0), 0)\ncuMemAddressFree(a, 4 MiB)\n"
            "cuMemMap(a, 4 MiB, 0, m, 0)\nread(gpu(0), a, 4 MiB)"
        )
        address = found[1][1].split()[-1]
        assert [why[0] if why else "" for _, _, *why in found] == [
            *("", ""),
            "the allocation has 4 MiB, and is mapped whole only: make offset 0, and size 4 MiB; what shall be mapped "
            "in pieces is created in pieces (cuMemCreate)",
            "size is 3 MiB: round it up to the granularity, 2 MiB",
            "GPU 0 has 142796 MiB left for all processes, and 1024 TiB are wanted",
            f"the reservation there has 64 TiB from {address} on: free all of it, as it was reserved",
            "",
            f"{address} lies in the mapping of 4 MiB from {address} on, memory of GPU 0, which is not open to GPU 0, "
            "although it holds the memory: call cuMemSetAccess with a descriptor for GPU 0",
        ]
        assert "a: 64 TiB reserved" in self.drawn()

    def test_a_link_shares_a_box(self):
        """By mouse and by keyboard. It can be read, and fills the box of its section, which is then in sight."""
        box = self.page.locator("#twice-in-a-row .try-it")
        editor = box.locator("textarea")
        mine = "// +1, 50% = a/b\ncuMemRelease(1+2,3)\n\ncuMemCreate(&m, 4 MiB, gpu(0), 0)  // “größer”; x<<1"
        code = (
            "twice-in-a-row=%2F%2F+%2B1,50%25+=+a%2Fb/cuMemRelease(1%2B2%2C3)//cuMemCreate(&m,4+MiB,gpu(0),0)"
            "++%2F%2F+%E2%80%9Cgr%C3%B6%C3%9Fer%E2%80%9D;+x%3C%3C1"
        )
        first = editor.input_value()
        editor.fill(mine)
        self.page.wait_for_url(f"**/try_it.html#{code}")
        assert self.copy(box.get_by_role("button", name="Copy link")) == f"{PAGE.as_uri()}#{code}"
        assert box.get_by_role("status").inner_text() == "The link is copied"
        self.page.evaluate(f"{NOTHING_COPIED}()")
        self.page.keyboard.press("Enter")  # the button has the focus
        assert self.page.evaluate(f"{COPIED}()") == f"{PAGE.as_uri()}#{code}"
        self.page.goto("about:blank")
        self.page.goto(f"{PAGE.as_uri()}#{code}")
        self.at_box(box, mine)
        other = self.page.locator("#who-may-use-it .try-it")
        for fragment, its, text in ("who-may-use-it=cuMemRelease(7)", other, "cuMemRelease(7)"), (code, box, mine):
            self.page.evaluate("(fragment) => { location.hash = fragment; }", fragment)  # the page is open already
            self.at_box(its, text)
        box.get_by_role("button", name="As it was").click()
        self.page.wait_for_url("**/try_it.html#twice-in-a-row")
        assert editor.input_value() == first

    def at_box(self, box, text):
        """It has been scrolled to, with this text answered."""
        box.wait_for()
        self.page.wait_for_function(
            """([box, text]) => box.dataset.answered === text && box.getBoundingClientRect().top >= 0 &&
              box.getBoundingClientRect().top < innerHeight / 2""",
            arg=[box.element_handle(), text],
        )

    def test_a_link_that_leads_nowhere_leaves_the_page_as_it_is(self):
        texts = "(boxes) => boxes.map((box) => box.value)"
        before = self.page.locator(".try-it textarea").evaluate_all(texts)
        for code in ("no-such-section=x", "who-may-use-it=%E2%80", "who-may-use-it="):
            self.page.goto("about:blank")
            self.open_boxes(PAGE, f"#{code}")
            assert self.page.locator(".try-it textarea").evaluate_all(texts) == before

    def test_where_no_clipboard_is_the_address_has_the_link(self):
        self.page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
        box = self.page.locator(".try-it").first
        box.locator("textarea").fill("cuMemRelease(1)")
        box.get_by_role("button", name="Copy link").click()
        assert box.get_by_role("status").inner_text() == "The link is in the address bar"
        assert self.page.url.endswith("#who-may-use-it=cuMemRelease(1)")

    def test_a_success_that_surprises_is_told(self):
        reserve = "cuMemAddressReserve(&a, 2 MiB, 0, 0, 0)\ncuMemCreate(&m, 2 MiB, gpu(0), 0)\n"
        found = self.answers(
            f"{reserve}cuMemMap(a, 2 MiB, 0, m, 0)\ncuMemRetainAllocationHandle(&again, a)\n"
            "cuMemUnmap(a, 2 MiB)\ncuMemUnmap(a, 2 MiB)"
        )
        assert [answer for _, answer, *_ in found][1:] == [
            *("CUDA_SUCCESS: m is a handle", "CUDA_SUCCESS", "CUDA_SUCCESS: again is a handle"),
            *["CUDA_SUCCESS"] * 2,
        ]
        assert [remark for _, _, *remark in found] == [
            *[[]] * 5,
            ["nothing was mapped there; the driver doesn't say so"],
        ]
        found = self.answers(f"{reserve}write(gpu(0), a, 2 MiB)\ncuMemRelease(m)\nread(gpu(0), a, 2 MiB)")
        assert "VMM's calls still succeed" in found[3][2]
        assert [len(line) for line in found] == [2, 2, 3, 3, 3]
        assert "nothing runs any more" in found[4][2]

    def test_a_box_goes_back_and_shows_each_line(self):
        first = self.page.locator(".try-it textarea").first.input_value()
        mine = first.replace("READWRITE", "CU_MEM_ACCESS_FLAGS_PROT_READ")
        self.answers(mine)
        box = self.page.locator(".try-it").first
        assert "After line 5, which failed" in box.inner_text()
        assert "read" in self.drawn()
        box.locator("li button").first.click()
        assert "nothing allocated" in self.drawn()
        for name, text in (("As it was", first), ("Yours again", mine)):
            box.get_by_role("button", name=name).click()
            self.page.wait_for_function(
                "(text) => document.querySelector('.try-it').dataset.answered === text", arg=text
            )
            assert "After line 1" in box.inner_text()  # it stays at the line that was clicked

    def test_what_is_typed_is_shown_by_the_editors_numbers(self):
        reserve = "// a remark\n\ncuMemAddressReserve(&a, 2 MiB, 0, 0, 0)"
        self.answers(reserve)
        box = self.page.locator(".try-it").first
        box.locator("li button").first.click()
        assert "After line 3" in box.inner_text()
        self.answers(f"{reserve}\n\ncuMemCreate(&m, 2 MiB, gpu(0), 0)")
        assert "After line 5" in box.inner_text()
        assert box.locator("li").evaluate_all("(lines) => lines.map((line) => line.value)") == [3, 5]

    def test_the_picture_is_that_of_a_view(self):
        """It has the names of the box, and shows what the line has changed."""
        lines = (
            "cuMemAddressReserve(&a, 2 MiB, 0, 0, 0)\ncuMemCreate(&m, 2 MiB, gpu(1), 0)\ncuMemMap(a, 2 MiB, 0, m, 0)"
        )
        self.answers(lines)
        svg = self.page.locator(".try-it").first.locator("svg")
        for text in ("After line 3", "a: 2 MiB reserved", "handle m", "nothing allocated", "no access"):
            assert text in self.drawn()
        assert svg.locator(".vmm-new").count() > 0 == svg.locator(".vmm-gone").count()
        self.answers(f"{lines}\ncuMemUnmap(a, 2 MiB)\ncuMemRelease(m)")
        assert "taken away in this step" in self.drawn()
        assert svg.locator(".vmm-gone").count() > 0

    def test_the_host_is_let_in_where_memory_is_its_own(self):
        lines = "cuMemAddressReserve(&a, 2 MiB, 0, 0, 0)\ncuMemCreate(&m, 2 MiB, {}, 0)\n"
        lines += "cuMemMap(a, 2 MiB, 0, m, 0)\ncuMemSetAccess(a, 2 MiB, host, READWRITE)"
        assert self.answers(lines.format("host"))[-1][1:] == ["CUDA_SUCCESS"]
        _, answer, why = self.answers(lines.format("gpu(0)"))[-1]
        assert (answer, "is not on the host" in why) == ("CUDA_ERROR_NOT_SUPPORTED", True)
        assert "no access" in self.drawn()

    def test_a_mapping_may_go_on_in_the_next_reservation(self):
        self.answers(
            "cuMemAddressReserve(&a, 2 MiB, 0, 0, 0)\ncuMemAddressReserve(&b, 2 MiB, 0, a + 2 MiB, 0)\n"
            "cuMemCreate(&m, 4 MiB, gpu(0), 0)\ncuMemMap(a, 4 MiB, 0, m, 0)"
        )
        assert self.drawn().count("2 MiB") == 2 and self.drawn().count("4 MiB") == 1

    def test_who_comes_by_keyboard_stays_in_the_box(self):
        self.open(BOOK / "01_vmm_basics/README.html", width=390)  # far above its box
        self.page.locator(".try-it pre[tabindex]").focus()
        self.page.wait_for_selector(".try-it.is-ready")
        assert self.focused("(element) => Boolean(element.closest('.try-it'))")

    def test_it_fits_and_is_accessible(self):
        for width, theme in ((1440, "light"), (390, "dark")):
            self.look(width, theme)
            self.expect_no_overflow()
        self.expect_accessible()
