# SPDX-License-Identifier: MIT-0
"""The book's search in a real browser: sections, for the words in which people ask; as files, and from a server."""

import functools
import http.server
import pathlib
import re
import threading

from bs4 import BeautifulSoup

from vmmsim.built import BUILT
from vmmsim.testing.browser import BrowserTest

BOOK = pathlib.Path(BUILT["build"]) / "book"
INDEX, SEARCH = BOOK / "docs" / "index.html", BOOK / "search.html"
PIT = "docs/pitfalls.html#"
JUST_MAPPED = f"{PIT}a-kernel-faults-on-memory-that-was-just-mapped"
NO_CHANNEL = f"{PIT}cumemcreate-with-the-fabric-type-returns-cuda-error-not-permitted"
UNMAPPED = f"{PIT}a-kernel-faults-after-cumemunmap"
TAKEN = f"{PIT}memory-stays-taken-after-cumemunmap"
EXPORT = f"{PIT}cumemexporttoshareablehandle-returns-cuda-error-invalid-value-or-cuda-error-operating-system"
FULL = f"{PIT}cuda-error-out-of-memory-although-memory-is-free"
NOT_MY_CHILD = f"{PIT}share-with-a-process-that-is-not-my-child"
SLEEP = f"{PIT}free-the-memory-keep-its-addresses"
HOST = f"{PIT}cumemsetaccess-returns-cuda-error-not-supported-and-rights-have-changed"
UNMAP = f"{PIT}cumemunmap-cumemaddressfree-or-cudafree-returns-cuda-error-invalid-value"
CREATE = f"{PIT}cumemcreate-or-cumemaddressreserve-returns-cuda-error-invalid-value"

FIRST = {  # what readers may type, and where the first row leads
    "CUDA_ERROR_NOT_PERMITTED": NO_CHANNEL,
    "illegal memory access": JUST_MAPPED,
    "segfault": JUST_MAPPED,
    "memory not freed": TAKEN,
    "who holds it": "vmmsim/docs/view.html#what-you-see",
    "resize": "02_growable/README.html",
    "realloc": "01_vmm_basics/README.html",
    "cumemmap": "docs/calls.html#cumemmap",
    "700": JUST_MAPPED,
    "EBADF": f"{PIT}pidfd-getfd-fails-with-eperm-or-ebadf",
    "800": NO_CHANNEL,
    "operation not permitted": NO_CHANNEL,
    "cudaStreamSynchronize 719": f"{PIT}unspecified-launch-failure-719",
    "cuMemMap CUDA_ERROR_INVALID_VALUE": f"{PIT}cumemmap-returns-cuda-error-invalid-value-or-cuda-error-not-supported",
    "cuMemSetAccess CUDA_ERROR_OUT_OF_MEMORY": FULL,
    "13.5 driver 580": f"{PIT}the-toolkit-is-newer-than-the-driver-222",
    "unrelated process": NOT_MY_CHILD,
    "read on the CPU": HOST,
    "Python": "docs/paste.html#use-it-from-python",
    "multicast": "06_multicast/README.html",
    "expandable segments": "docs/should_i_use_vmm.html#i-use-pytorch",
    "undefined symbol: cuMemCreate": f"{PIT}undefined-symbol-cumemcreate",
}
SOON = {  # what a person with a problem may type, and where one of the first three rows leads
    "share with another process docker": NOT_MY_CHILD,
    "fragmentation": "docs/should_i_use_vmm.html#i-use-pytorch",
    "700": UNMAPPED,
    "GPUDirect RDMA": f"{PIT}the-flag-was-set-and-the-memory-is-not-what-was-asked-for",
    "711 peer": f"{PIT}the-ninth-peer-is-refused-711",
    "no descriptor left 304": EXPORT,
    "sleep": SLEEP,
    "wake": "docs/paste.html#sleep-and-wake",
    "SYNC_MEMOPS": f"{PIT}cu-pointer-attribute-sync-memops-is-refused-801",
    "CUDA_ERROR_INVALID_VALUE": f"{PIT}1",  # the row of the table
    "granularity": "docs/glossary.html#granularity",
    "unmap while kernel runs": UNMAPPED,
    "leak": TAKEN,
    "BAR1": f"{PIT}peer-access-fails-mapping-of-buffer-object-failed-205",
    "fabric IMEX": "05_fabric/README.html",
    "out of memory but nvidia-smi shows free": FULL,
    "pointer changes when I resize": "02_growable/README.html",
    "weights are garbage after wake up": SLEEP,
    "unmap only half of a mapping": UNMAP,
    "round up size": CREATE,
    "hangs when one rank dies": f"{PIT}cumulticastbindmem-or-cumemmap-of-the-object-never-returns",
    "memory still used after process was killed": TAKEN,
    "allocate cpu memory numa": "docs/paste.html#put-memory-of-the-host-into-a-reservation",
    "slower than cudaMalloc": f"{PIT}growth-is-slow",
    "test without gpu in CI": "vmmsim/docs/testing.html",
    "gpu memory not released after process exit": TAKEN,
    "same physical memory mapped at two addresses": "07_aliasing/README.html",
    "two gpus cannot access each other": f"{PIT}access-for-a-second-gpu-is-refused-101-or-217",
    "read gpu memory from cpu without copy": HOST,
    "does cuMemUnmap synchronize": UNMAPPED,
    "how big can a reservation be": FULL,
    "wsl2 expandable segments crash": f"{PIT}under-wsl-a-call-is-refused-although-the-attribute-says-yes",
}


def text_of(page):
    """What is in a view is no text of the page."""
    tree = BeautifulSoup(page.read_text(), "html.parser")
    for view in tree.select(".vmm-view"):
        view.decompose()
    return tree.get_text()


class TestSearch(BrowserTest):
    def rows(self, words):
        """Where the rows lead that are there as soon as this is typed on the page of the search."""
        self.page.locator(".search-box input").fill(words)
        told = self.page.eval_on_selector_all("ol.search a", "all => all.map((it) => it.href)")
        return [re.sub(r"\?[^#]*", "", where.removeprefix(f"{BOOK.as_uri()}/")) for where in told]

    def test_what_readers_type_leads_to_its_section(self, subtests):
        self.open(SEARCH)
        for words, where in FIRST.items():
            with subtests.test(words):
                assert self.rows(words)[:1] == [where]
        for words, where in SOON.items():
            with subtests.test(words):
                assert where in self.rows(words)[:3]
        assert set(self.rows("leak")[:2]) == {TAKEN, FIRST["who holds it"]}

    def test_a_row_says_what_it_leads_to(self):
        self.open(INDEX)
        self.page.locator(".sidebar-search").fill("no descriptor left 304")
        self.page.keyboard.press("Enter")
        self.page.wait_for_url("**/search.html?q=no+descriptor+left+304*")
        row = self.page.locator("ol.search li").first
        assert row.locator("a").inner_text().startswith("cuMemExportToShareableHandle returns ")
        assert row.locator(".search-where").inner_text() == "Pitfalls › Processes"
        line = row.locator(".search-line")
        assert line.inner_text().startswith("304, operating system: the process has no descriptor left")
        assert line.locator("mark").all_inner_texts()[:3] == ["304", "descriptor", "left"]
        for width, theme in ((1440, "light"), (390, "dark")):
            self.look(width, theme)
            self.expect_no_overflow()
            self.expect_accessible()
        row.locator("a").click()
        self.page.wait_for_url(f"**/{EXPORT}")
        self.page.wait_for_selector(f"[id='{EXPORT.partition('#')[2]}'] .highlighted >> text=descriptor")

    def test_a_name_finds_all_pages_that_have_it_and_a_row_of_a_table_by_itself(self):
        name = "CUDA_ERROR_NOT_PERMITTED"
        pages = [path for path in BOOK.glob("*/**/*.html") if "_static" not in path.parts and name in text_of(path)]
        self.open(SEARCH)
        assert {row.partition("#")[0] for row in self.rows(name)} == {str(page.relative_to(BOOK)) for page in pages}
        assert len(pages) > 3
        assert f"{PIT}919" in self.rows("FABRIC_NOT_READY")

    def test_what_is_not_there_is_said(self):
        self.open(SEARCH)
        summary = self.page.locator(".search-summary")
        assert summary.inner_text().startswith("Type a word")
        assert self.rows("qwertyuiop") == []
        assert summary.inner_text().startswith("Your search did not match any section.")

    def test_what_looks_like_html_is_text(self):
        self.open(SEARCH)
        self.rows("buffer needs sizes bytes thread safe")
        assert "It needs only <cuda.h>. Sizes are in bytes." in self.page.locator("ol.search").inner_text()

    def test_it_finds_the_same_from_a_server(self):
        self.open(SEARCH)
        wanted = self.rows("share with another process docker")
        handler = functools.partial(Quiet, directory=BOOK)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            page = self.page.context.new_page()
            try:
                root = f"http://127.0.0.1:{server.server_port}/"
                page.goto(f"{root}search.html?q=share+with+another+process+docker")
                page.wait_for_selector("ol.search li")
                told = page.eval_on_selector_all("ol.search a", "all => all.map((it) => it.href)")
                assert [re.sub(r"\?[^#]*", "", where.removeprefix(root)) for where in told] == wanted
            finally:
                page.close()
                server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass
