# SPDX-License-Identifier: MIT-0
"""What is said of programs that do not end as they should, or are not built."""

import os
import re
import subprocess
import sys

import pytest

from labs.judge.check import ENDED
from labs.judge.program import ROOT, Program
from labs.judge.verdict import Judge, all_labs
from vmmsim.processes import descendants

CASES = {  # what main does, and what is said of it
    "hang": ("for (;;) pause();", r"running after 3 seconds.*last call that came back is cuda\w+ in line \d+"),
    "kernel": ("spin<<<1, 1>>>();\n  CHECK(cudaDeviceSynchronize());", "running after 3 seconds"),
    "crash": ("*(volatile int*)8 = 1;", "ended by SIGSEGV; the last call"),
    "unknown": (
        "strange<<<1, 1>>>();\n  CHECK(cudaDeviceSynchronize());",
        r"status 125\n +not simulated: line .* kernel .*: alloca",
    ),
    "output": ('for (;;) std::puts("again");', r"printed without end.*\n +again\n"),
    "errors": ('for (;;) std::fputs("again ", stderr);', "printed without end"),
    "forks": ("for (;;)\n    if (fork() == 0) for (;;) pause();", "started processes without end"),
    "before main": ("", "ended before its first call of CUDA: does something end it before main"),
    "hides": (
        "if (fork() == 0) {\n    setsid();\n    if (fork()) _exit(0);\n    for (int i = 0; i < 9; ++i) close(i);\n"
        "    for (;;) pause();\n  }",
        "processes that it had started went on; they were ended",
    ),
    "kills": ("return kill(getppid(), 9);", "SIGKILL"),
    "member": ("It().member();", r":4\n +CHECK\(cuMemUnmap\(1, 1"),
    "constructor": ("It it(0);", r":7\n +It\(int\) \{ CHECK\(cuMemUnmap"),
    "template": ("[] { helper(1); }();", r":10\n +CHECK\(cuMemUnmap\(3, 3"),
}
SOURCE = """#include "../lab.h"
struct It {
  void member() {
    CHECK(cuMemUnmap(1, 1));
  }
  It() {}
  It(int) { CHECK(cuMemUnmap(2, 2)); }
};
template <class T> void helper(T) {
  CHECK(cuMemUnmap(3, 3));
}
#include <signal.h>
#include <unistd.h>
#include <cstdlib>
#include <string>
__global__ void spin() { for (volatile int i = 0;; i = 0) {} }
__global__ void strange() { asm volatile("{ .reg .u64 p; alloca.u64 p, 8; }"); }
const std::string what = std::getenv("LAB_MAIN");
struct Early { Early() { if (what == "before main") std::exit(0); } } early;
int main() {
  lab::begin();
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """One, of which the variable for the main that runs says what it does."""
    source = tmp_path_factory.mktemp("ends") / "ends.cu"
    parts = [f'  if (what == "{name}") {{\n  {body}\n  }}\n' for name, (body, _) in CASES.items()]
    source.write_text(SOURCE + "".join(parts) + "}\n")
    with Program(source, limit=3) as built:
        assert built.build()[0]
        built.build = lambda: (True, "")
        yield built


@pytest.mark.parametrize("name", CASES)
def test_it_is_said_how_it_ended(name, program, monkeypatch):
    monkeypatch.setattr(program, "run", lambda **options: Program.run(program, **options | {"main": name}))
    verdict = Judge(all_labs()[0], program, False).verdict()
    assert verdict.failed == ENDED
    assert re.search(CASES[name][1], verdict.words)
    assert descendants(os.getpid()) == [], "a process is left"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("int main() { wrong; }", r"^answer.cu\(1\): error:"),
        ("void missing();\nint main() { missing(); }", r"answer.cu:2: undefined reference to .missing\(\)"),
    ],
)
def test_what_does_not_compile_is_told(text, said, tmp_path):
    """Its paths are as short as they can be."""
    source = tmp_path / "answer.cu"
    source.write_text(text)
    with Program(source) as program:
        built, words = program.build()
    assert not built
    assert re.search(said, words.replace(f"{tmp_path}/", ""))
    assert not re.search(r"/lab-|\.py|tmpxft", words)


# Of a process that begins with few descriptors: a run with each number of them.
RUNS = """
import os
from labs.judge.program import OF_TRACE, run
for _ in range(12):
    before = os.listdir("/proc/self/fd")
    ended = run(["/bin/sh", "-c", f"echo here >&{OF_TRACE}"], 20, "/", {"PATH": os.defpath})
    assert (ended.status, ended.trace, ended.stderr) == (0, b"here\\n", ""), (before, ended)
    assert os.listdir("/proc/self/fd") == before, before
    os.open(os.devnull, os.O_RDONLY)
"""


def test_the_record_comes_whatever_descriptors_are_open():
    """The one that it goes to may have its number already, or that of another pipe; and a run leaves none open."""
    subprocess.run([sys.executable, "-B", "-c", RUNS], cwd=ROOT, check=True, timeout=60)
