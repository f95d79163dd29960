#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The judge of the labs: judge_test.py checks | ends | reach

checks: what labs/judge/check.py promises to whoever writes checks, with labs made here; and --real, on a GPU made here.
ends: what is said of programs that do not end as they should. reach: what a program can reach beside its own.
"""

import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

from labs.judge import sandbox
from labs.judge.check import ENDED, GIVEN_BACK, CheckFailed, check
from labs.judge.program import ROOT, CannotJudge, Ended, Program
from labs.judge.splice import NotWhole, spliced
from labs.judge.verdict import BUILT, PRINTED, REAL, Judge, Lab, judge
from vmmsim.processes import descendants

sys.dont_write_bytecode = True

CASES = sys.argv.pop(1)
NAME = "01a_replace_cudamalloc"
SOLUTION = (ROOT / f"labs/solutions/{NAME}.cu").read_text()
STARTER = (ROOT / f"labs/starters/{NAME}.cu").read_text()
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}

BEFORE = '#include <poll.h>\n#include <unistd.h>\n#include <thread>\n#include "../lab.h"\nint main() {\nlab::begin();\n'
FIRST = 7  # the line that is the first of a body
OUTPUT = "0 KiB are not given back\nOK\n"
# Memory of the four steps, on as many GPUs as there are; it gives all back, also if a call fails, and then returns 1.
RIGHT = """
CUmemAllocationProp properties = {};
properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
CUmemGenericAllocationHandle handle;
if (cuMemCreate(&handle, 2 << 20, &properties, 0)) return lab::end() + 1;
CUdeviceptr address;
if (cuMemAddressReserve(&address, 2 << 20, 0, 0, 0)) return cuMemRelease(handle) + lab::end() + 1;
CHECK(cuMemAddressFree(address, 2 << 20));
CHECK(cuMemRelease(handle));
return lab::end();
"""


class Checks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch, cls.built = pathlib.Path(scratch.name), {}

    def program(self, body):
        """Built once for all tests that have the same."""
        if body not in self.built:
            source = self.scratch / f"program_{len(self.built)}.cu"
            source.write_text(BEFORE + body + "\n}\n")
            self.built[body] = self.enterClassContext(Program(source)), source
            self.assertTrue(self.built[body][0].build()[0])
        program = self.built[body][0]
        program.build = lambda: (True, "")
        return program

    def verdict(self, body, *checks, real=None, **about):
        lab = Lab.__new__(Lab)
        lab.checks, lab.options = checks, {"gpus": 1, "main": 0}
        lab.about, lab.mains = types.SimpleNamespace(OUTPUT=OUTPUT, **about), ({},)
        lab.page = "lab.md"
        program = self.program(body)
        program.run_on_gpu = lambda: real
        return Judge(lab, program, bool(real)).verdict()

    def failed(self, body, *checks, real=None):
        verdict = self.verdict(body, *checks, real=real)
        return verdict.failed, verdict.words

    @classmethod
    def enterClassContext(cls, context):  # Python 3.11 has it
        cls.addClassCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def test_what_comes_first_is_told(self):
        """What stopped the program is to blame for a call that is missing, and not for one that came before."""
        body = "CUdeviceptr address;\nCHECK(cuMemAddressReserve(&address, 2 << 20, 0, 0, 0));\nCHECK(cuMemUnmap(1, 1));"

        @check("it is created")
        def created(run):
            raise CheckFailed("it is created", "it is not")

        @check("it is not reserved")
        def not_reserved(run):
            raise run.calls("cuMemAddressReserve")[0].wrong("nothing is reserved", "something was")

        @check("it is not unmapped")
        def not_unmapped(run):
            unmap = next(call for call in run.all if call.name == "cuMemUnmap")
            raise unmap.wrong("nothing is unmapped", "something was")

        failed, words = self.failed(body, created)
        self.assertEqual(failed, ENDED)
        self.assertRegex(
            words,
            r"CHECK\(cuMemUnmap\(1, 1\)\);\n.*\n.*cuMemUnmap was refused: (\w+)\n"
            r"In words: +ptr: nothing is reserved.*\n"
            r"The call in full: +cuMemUnmap\(.*\) answers \1\n$",
        )
        self.assertEqual(self.failed(body, not_reserved)[0], "it is not reserved")
        failed, words = self.failed(body, not_unmapped)
        self.assertEqual(failed, "it is not unmapped")
        self.assertIn("In words:", words)

    def test_the_list_keeps_its_order(self):
        """What held before something else was told has held, and what needs another run waits for the first one."""
        its = [check(title)(lambda run: run.calls("cuMemCreate")[0]) for title in ("one", "two")]

        @check("of what is missing")
        def missing(run):
            raise CheckFailed("something", "nothing")

        @check("on two", gpus=2)
        def on_two(run):
            raise CheckFailed("it is right on two", "it is not")

        titles = [BUILT, "one", "of what is missing", "two", ENDED, GIVEN_BACK, PRINTED]
        right, refused = RIGHT, RIGHT.replace("return lab::end()", "CHECK(cuMemRelease(handle));\nreturn lab::end()")
        for body, failed, status in (
            (right, "of what is missing", "passed passed failed holds holds holds holds"),
            (refused, ENDED, "passed passed, not reached, not reached failed" + 2 * ", not reached"),
        ):
            verdict = self.verdict(body, its[0], missing, its[1])
            self.assertEqual([title for title, _ in verdict.checks], titles)
            self.assertEqual(verdict.failed, failed)
            self.assertEqual([its for _, its in verdict.checks], re.findall("passed|failed|holds|not reached", status))
        leaking = RIGHT.replace("CHECK(cuMemRelease(handle));\n", "")
        verdict = self.verdict(leaking, its[0], on_two)
        self.assertEqual(verdict.checks[1:3], [("one", "passed"), ("on two", "not reached")])
        self.assertEqual((verdict.failed, verdict.checks[-2]), (GIVEN_BACK, (GIVEN_BACK, "failed")))
        self.assertNotIn("on 2 simulated GPUs", verdict.words)

    def test_what_comes_behind_a_failure(self):
        """The same run shows it: what holds, what fails, and what it cannot tell."""

        @check("first")
        def first(run):
            raise CheckFailed("something", "nothing")

        @check("needs another run")
        def needs_another(run):
            run.again(gpus=2)

        @check("fails too")
        def fails(run):
            raise run.calls("cuMemCreate")[0].wrong("something", "nothing")

        relies = check("relies on the first")(lambda run: run.calls("cudaMalloc").nothing)
        checks = first, needs_another, fails, relies, check("on two", gpus=2)(lambda run: None)
        verdict = self.verdict(RIGHT, *checks)
        statuses = "passed", "failed", "not reached", "fails", *2 * ["not reached"], *3 * ["holds"]
        self.assertEqual([its for _, its in verdict.checks], [*statuses])
        self.assertEqual(verdict.words.count("What happened:"), 1)
        refused = RIGHT.replace("return lab::end()", "CHECK(cuMemRelease(handle));\nreturn lab::end()")
        statuses = self.verdict(refused, *checks).checks
        self.assertNotIn(
            "holds", [its for _, its in statuses], "a run that was stopped shows nothing of what is behind"
        )

    def test_a_map_of_memory(self):
        """At the failure, in five lines; of a leak, what was there in the end."""
        body = """
            CUmemAllocationProp properties = {};
            properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
            properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
            CUmemGenericAllocationHandle handle;
            CUdeviceptr address;
            CHECK(cuMemAddressReserve(&address, 64 << 20, 0, 0, 0));
            for (CUdeviceptr at = address; at < address + (6 << 20); at += 2 << 20) {
              CHECK(cuMemCreate(&handle, 2 << 20, &properties, 0));
              CHECK(cuMemMap(at, 2 << 20, 0, handle, 0));
              if (at > address) CHECK(cuMemRelease(handle));
            }
            CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READ};
            CHECK(cuMemSetAccess(address, 2 << 20, &access, 1));
            CHECK(cuMemUnmap(address + 1, 2 << 20));
        """
        verdict = self.verdict(body)
        self.assertEqual(
            [re.sub("^0x[0-9a-f]+ ", "", line).strip() for line in verdict.memory],
            [
                "2 MiB  memory of GPU 0, #1; GPU 0 reads <- here",
                "4 MiB  memory of GPU 0, #2-3; nobody has access",
                "58 MiB  reserved; nothing is mapped",
            ],
        )
        many = body.replace("at += 2 << 20", "at += 4 << 20").replace("(6 << 20)", "(48 << 20)")
        lines = self.verdict(many.replace("cuMemUnmap(address + 1,", "cuMemUnmap(address + (40 << 20) + 1,")).memory
        self.assertEqual((len(lines), [line.endswith(" <- here") for line in lines].count(True)), (5, 1))
        self.assertIn("and 20 more", lines[-1])
        self.assertLessEqual(max(map(len, lines)), 100)
        leak = RIGHT.replace("CHECK(cuMemRelease(handle));", "")
        (line,) = self.verdict(leak).memory
        self.assertRegex(line, r"^no address +2 MiB  memory of GPU 0, #1; not mapped, a handle holds it$")

    def test_a_leak_of_another_run(self):
        """It is told rather than what follows from it, and not in place of a call that is to blame."""
        body = "int gpus = 0;\nCHECK(cudaGetDeviceCount(&gpus));\n"
        body += RIGHT.replace("CHECK(cuMemRelease(handle));", "if (gpus == 1) CHECK(cuMemRelease(handle));")

        @check("on two", gpus=2)
        def on_two(run):
            raise CheckFailed("it is right on two", "it is not")

        @check("on two", gpus=2)
        def a_call_on_two(run):
            raise run.calls("cuMemCreate")[0].wrong("it is right on two", "it is not")

        failed, words = self.failed(body, on_two)
        self.assertEqual(failed, GIVEN_BACK)
        self.assertRegex(words, "cuMemCreate.*\non 2 simulated GPUs:\n.*\n.*its handle is still held")
        self.assertEqual(self.failed(body, a_call_on_two)[0], "on two")

    def test_what_was_given_back_before(self):
        """The line is told where that happened, for the process that did so."""
        for twice, words in {
            "CHECK(cuMemRelease(handle));": "released this handle",
            "CHECK(cuMemAddressFree(address, 2 << 20));": "freed these addresses",
        }.items():
            body = RIGHT.replace(twice, twice + "\n" + twice)
            line = FIRST + body[: body.index(twice)].count("\n")
            self.assertIn(f"\n{20 * ' '}line {line} has {words} before\n", self.failed(body)[1])
        self.assertNotIn(
            "before", self.failed(RIGHT.replace("CHECK(cuMemRelease(handle))", "CHECK(cuMemRelease(1))"))[1]
        )

    def test_a_check_with_a_mistake(self):
        """It is told as that, and not as the student's; unless the program had stopped before."""

        @check("something")
        def mistaken(run):
            return [][0]

        with self.assertRaisesRegex(CannotJudge, r"'something' has a mistake.*: IndexError: .*judge_test.py:\d+\)$"):
            self.failed(RIGHT, mistaken)
        stops = "CHECK(cuMemRelease(1));"
        self.assertEqual(self.failed(stops, mistaken)[0], ENDED)
        with self.assertRaisesRegex(CannotJudge, "AttributeError"):
            self.failed(stops, check("something")(lambda run: run.nonsense()))

    def test_to_do_and_printed(self):
        failed, words = self.failed('TODO("reserve 1 GiB");')
        self.assertEqual(failed, ENDED)
        self.assertRegex(
            words,
            rf"program_\d+.cu:{FIRST}\n +TODO\(.reserve 1 GiB.\);\n.*\nWhat happened: +still to do: reserve 1 GiB",
        )
        failed, words = self.failed('std::puts("more");\nreturn lab::end();')
        self.assertEqual(failed, PRINTED)
        happened = "it printed more; let lines of your own go to stderr: more"
        self.assertEqual(words.split(), f"What was to happen: it prints {OUTPUT} What happened: {happened}".split())

    def test_what_is_left_of_streams_and_events(self):
        body = "cudaEvent_t event;\nCHECK(cudaEventCreate(&event));\nCHECK(cudaEventDestroy(event));\n"
        failed, words = self.failed(f"{body}cudaStream_t it;\nCHECK(cudaStreamCreate(&it));\nreturn lab::end();")
        self.assertEqual(failed, GIVEN_BACK)
        self.assertIn("cudaStreamCreate: it was never destroyed", words)

    def test_a_reset_gives_nothing_back(self):
        failed, words = self.failed("CHECK(cudaDeviceReset());\nreturn 0;")
        self.assertEqual(failed, GIVEN_BACK)
        self.assertRegex(words, rf"program_\d+.cu:{FIRST}\n.*\n.*\n.*cudaDeviceReset destroys all")

    def test_a_descriptor_is_closed_twice(self):
        failed, words = self.failed("const int fd = dup(0);\nclose(fd);\nclose(fd);\nreturn lab::end();")
        self.assertEqual(failed, ENDED)
        self.assertRegex(words, rf"program_\d+.cu:{FIRST + 2}\n.*\n.*\n.*close was refused: EBADF")

    def test_kernels_that_begin_late(self):
        """A kernel begins when the program waits for it, or after its time; what it was given is known."""
        body = """
            void* memory = nullptr;
            CHECK(cudaMalloc(&memory, 4096));
            lab::fill_kernel<int><<<1, 32>>>(static_cast<int*>(memory), 1024, 7);
            CHECK(cudaDeviceSynchronize());
            lab::fill_kernel<int><<<1, 32>>>(static_cast<int*>(memory), 1024, 7);
            while (cudaStreamQuery(nullptr) != cudaSuccess) continue;
            CHECK(cudaFree(memory));
            auto work = [] {  // lines of threads are put in the order of their changes
              CUdeviceptr address;
              CHECK(cudaSetDevice(0));
              for (int i = 0; i < 200; ++i) {
                CHECK(cuMemAddressReserve(&address, 2 << 20, 0, 0, 0));
                CHECK(cuMemAddressFree(address, 2 << 20));
              }
            };
            std::thread first(work), second(work);
            first.join();
            second.join();
            return lab::end();
        """
        seen = []

        @check("late")
        def late(run):
            address = int(run.calls("cudaMalloc")[0].outputs["devPtr"], 16)
            seen.extend(
                (kernel.range == (address, 4096), kernel.waiter and kernel.waiter.name) for kernel in run.kernels
            )

        self.assertEqual(self.failed(body, late), ("", ""))
        self.assertEqual(seen, [(True, "cudaDeviceSynchronize"), (True, None)])

    def test_what_stands_outside_the_marks(self):
        """It is the starter's, whatever the student's file has there; what is included is kept."""
        head = '#include "../lab.h"\n\nint main() {'
        for change, remark in (
            ((" bytes = ", "\n  bytes  =  // mine\n   "), "not judged"),
            (('#include "../lab.h"', '#include <atomic>\n#include "../lab.h"'), ""),
            ((head, "// mine: TODO cudaMalloc\n" + head), ""),
            (("bytes, 42)", "bytes, 43)"), "not judged"),
            (("  return lab::end();", ""), ""),
        ):
            with self.subTest(change):
                self.assertIn(change[0], SOLUTION)
                made = spliced(STARTER, SOLUTION.replace(*change, 1), "a.cu", ({}, {"changes": {"42": "44"}}))
                self.assertIn(remark, made.remark)
                self.assertEqual(bool(remark), bool(made.remark))
                for body, value in zip(made.bodies, ("42", "44"), strict=True):
                    self.assertIn(f"  ::lab::fill<char>(address, bytes, {value});", body)
                    self.assertIn("return ::lab::end();", body)
                self.assertEqual("<atomic>" in change[1], "#include <atomic>" in made.includes)

    def test_a_part_is_whole(self):
        """What could end the starter's code, hide it or give it another meaning is refused, and where."""
        mark = "// >>> your part: make the memory"
        first = SOLUTION[: SOLUTION.index(mark)].count("\n") + 2
        for lines, words in (
            ("}\nvoid mine() {", "'}' closes what was not opened"),
            ("if (true) {", "'{' has no end in this part"),
            ("/* what follows", "this comment has no end"),
            ('"what follows', "this text has no end"),
            ("#if 0\n#endif\n#if 1", "#if has no #endif"),
            ("#endif\n#if 1", "#endif without an #if"),
            ("{\n#if 1\n}\n#endif", "in one branch of #if alone"),
            ("/* its\n*/ #if 0", "begins its line"),
            ("#define OPEN {\n}", "has no end in this directive"),
            ("#define GLUE(a, b) a##b", "no ## here"),
            ("int a = 0; <% int b = 0; %>", "write it plainly"),
            ('auto text = R"x(\n)x";', "write it plainly"),
            ("int a = 0; ??/", "write it plainly"),
            ("#line 5000", "no #line here"),
            ("#li\\\nne 5000", "ends in a blank before its"),
            ("/\\\n* what follows", "ends in a blank before its"),
            ('_Pragma("push_macro(\\"CHECK\\")")', "no _Pragma here"),
            ('#pragma pop_macro("CHECK")', "no #pragma here"),
            ('#include "mine.h"', "is not looked at: write it here"),
            ('#include "/etc/passwd"', "is not looked at: write it here"),
            ("# \\\n include MINE", "is not looked at: write it here"),
            ("const int a = 1'000'000, b = '{'; const char* c = \"}\"; // }", ""),
            ("#define CHECK(call) (call)\n#include <chrono>  // mine", ""),
            ("#if 1\n{ }\n#else\n{ { } }\n#endif", ""),
            ("#if 0  // old\nif (true) {\n#else\n#define TEXT(x) \\\n  #x\n#endif", ""),
            ("std::vector<::CUdeviceptr> all;", ""),
        ):
            with self.subTest(lines):
                text = SOLUTION.replace(mark, f"{mark}\n{lines}")
                if not words:
                    spliced(STARTER, text, "a.cu", ({},))
                    continue
                with self.assertRaises(NotWhole) as refused:
                    spliced(STARTER, text, "a.cu", ({},))
                self.assertIn(words, refused.exception.words)
                self.assertLess(refused.exception.line - first, 1 + lines.count("\n"))
        for change, words in (
            (("// <<<", ""), "the marks are not those"),
            (("\n  // <<<", "\n  // the end \\\n  // <<<"), "must not go on behind the mark"),
        ):
            with self.assertRaisesRegex(NotWhole, words):
                spliced(STARTER, SOLUTION.replace(*change, 1), "a.cu", ({},))

    def test_a_macro_keeps_its_meaning_outside(self):
        text = SOLUTION.replace("// >>> your part: make the memory", "// >>> mine\n#define bytes 7\n#undef CHECK")
        body = spliced(STARTER, text, "a.cu", ({},)).bodies[0]
        for name in ("bytes", "CHECK"):
            self.assertLess(body.index(f'#pragma push_macro("{name}")'), body.index("#define bytes"))
            self.assertGreater(body.index(f'#pragma pop_macro("{name}")'), body.index("#undef CHECK"))

    def test_real(self):
        right = Ended(0, "", OUTPUT, "", b"")
        self.assertEqual(self.failed(RIGHT, real=right), ("", ""))
        self.assertEqual(self.verdict(RIGHT, real=right).checks[-1], (REAL, "passed"))
        for wrong in (Ended(1, "", OUTPUT, "", b""), Ended(0, "", "OK\n", "", b""), Ended(0, "time", OUTPUT, "", b"")):
            self.assertEqual(self.failed(RIGHT, real=wrong)[0], REAL)
        verdict = self.verdict(RIGHT, real=Ended(77, "", "SKIP: no GPU; get one\n", "", b""))
        self.assertEqual((verdict.status, verdict.checks[-1]), ("passed", (PRINTED, "passed")))
        self.assertIn("SKIP: no GPU", verdict.remarks)


class Ends(unittest.TestCase):
    """One program, of which the variable for the main that runs says what it does."""

    CASES = {
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
        "nonsense": ('write_to_all("nonsense\\n");', "wrote into the pipe that tells of its calls"),
        "list": ('write_to_all("[1]\\n");', "wrote into the pipe that tells of its calls"),
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
#include <sys/stat.h>
#include <unistd.h>
#include <cstdlib>
#include <string>
__global__ void spin() { for (volatile int i = 0;; i = 0) {} }
__global__ void strange() { asm volatile("{ .reg .u64 p; alloca.u64 p, 8; }"); }
void write_to_all(const std::string& text) {
  struct stat is;
  for (int i = 3; i < 64; ++i)
    if (fstat(i, &is) == 0 && S_ISFIFO(is.st_mode)) (void)!write(i, text.data(), text.size());
}
const std::string what = std::getenv("LAB_MAIN");
struct Early { Early() { if (what == "before main") std::exit(0); } } early;
int main() {
  lab::begin();
"""

    @staticmethod
    def case(name):
        """The variable for the main that runs says which case it is."""

        def run(program, of_any=Program.run, **options):
            return of_any(program, **options | {"main": name})

        return unittest.mock.patch.object(Program, "run", run)

    def test_what_is_said(self):
        lab = Lab(ROOT / f"labs/checks/{NAME}.py")
        lab.checks = []
        with tempfile.TemporaryDirectory() as scratch:
            source = pathlib.Path(scratch, "ends.cu")
            parts = [f'  if (what == "{name}") {{\n  {body}\n  }}\n' for name, (body, _) in self.CASES.items()]
            source.write_text(self.SOURCE + "".join(parts) + "}\n")
            with Program(source, limit=3) as program:
                self.assertTrue(program.build()[0])
                program.build = lambda: (True, "")
                for name, (_, said) in self.CASES.items():
                    with self.subTest(name), self.case(name):
                        verdict = Judge(lab, program, False).verdict()
                        self.assertEqual(verdict.failed, ENDED)
                        self.assertRegex(verdict.words, said)
                        self.assertEqual(descendants(os.getpid()), [], "a process is left")

    def test_what_does_not_compile(self):
        """Its paths are as short as they can be."""
        for text, said in {
            "int main() { wrong; }": r"^answer.cu\(1\): error:",
            "void missing();\nint main() { missing(); }": r"answer.cu:2: undefined reference to .missing\(\)",
        }.items():
            with tempfile.TemporaryDirectory() as scratch:
                source = pathlib.Path(scratch, "answer.cu")
                source.write_text(text)
                with Program(source) as program:
                    built, words = program.build()
            self.assertFalse(built)
            self.assertRegex(words.replace(f"{scratch}/", ""), said)
            self.assertNotRegex(words, r"/lab-|\.py|tmpxft")


class Reach(unittest.TestCase):
    """What a program, and the compiler with it, can reach: each way of a sandbox that this machine allows."""

    SOURCE = """#include "../lab.h"
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cstdlib>
#include <string>
extern char** environ;
void told(const char* what, bool can) { std::printf("%s: %s\\n", what, can ? "yes" : "no"); }
bool can_read(const std::string& path) { return std::fopen(path.c_str(), "r") != nullptr; }
bool can_write(const std::string& path) { return std::fopen(path.c_str(), "w") != nullptr; }
int main() {
  lab::begin();
  told("a solution", can_read(SOLUTION));
  told("a secret file", can_read(SECRET));
  told("the judge's results", can_write(RESULTS));
  told("its own program", can_write("/proc/self/exe") || can_write(SELF));
  told("a file of its own", can_write("mine"));
  bool has_secret = false;
  for (char** it = environ; *it; ++it) has_secret |= std::string(*it).find("SECRET") != std::string::npos;
  told("the judge's environment", has_secret);
  bool sees_judge = false;
  if (DIR* all = opendir("/proc"))
    while (const dirent* each = readdir(all)) sees_judge |= std::string(each->d_name) == JUDGE;
  told("the judge's process", sees_judge);
  bool has_more = false;
  for (int fd = 3; fd < 256; ++fd) {
    char to[256] = {};
    const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), to, sizeof to - 1);
    has_more |= size > 0 && std::string(to).find(SECRET) != std::string::npos;
  }
  told("the judge's descriptors", has_more);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(PORT);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int socket_ = socket(AF_INET, SOCK_STREAM, 0);
  told("the network", !connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to));
}
"""

    def ways(self):
        for name in ("bubblewrap", "unshare"):
            with unittest.mock.patch.object(sandbox, "way", lambda name=name: name):
                words = sandbox.inside(["/bin/true"], [], [], "/", "/mnt")
                environment = {"PATH": os.defpath}
                done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, env=environment)
                if done.returncode == 0:
                    yield name

    def test_a_program_reaches_nothing(self):
        with tempfile.TemporaryDirectory() as scratch, socket.create_server(("127.0.0.1", 0)) as server:
            secret, source = pathlib.Path(scratch, "secret"), pathlib.Path(scratch, "reach.cu")
            secret.write_text("secret")
            held = self.enterContext(open(secret))
            os.set_inheritable(held.fileno(), True)
            program = Program(source_with(source, self.SOURCE, secret, server.getsockname()[1]))
            tried = 0
            for _ in self.ways():
                with program, unittest.mock.patch.dict(os.environ, SECRET="SECRET"):
                    built, said = program.build()
                    self.assertTrue(built, said)
                    ended = program.run()
                self.assertEqual(
                    re.findall("^(.*): yes$", ended.stdout, re.MULTILINE), ["a file of its own"], ended.stderr
                )
                self.assertEqual(ended.stdout.count(": no\n"), 8)
                tried += 1
        if not tried:
            self.skipTest("this machine allows no sandbox")

    def test_a_solution_is_right_by_every_way(self):
        """Also as another user, and where there is no sandbox: nothing of the judge's is open in it then."""
        lab = Lab(ROOT / "labs/checks/04a_send_the_descriptor.py")
        readable = [*sandbox.as_nobody(), "test", "-r", sandbox.__file__]
        as_user = ["user"] if os.geteuid() == 0 and sandbox.runs(readable) else []
        for name in ("", *as_user, *self.ways()):
            with self.subTest(name), unittest.mock.patch.object(sandbox, "way", lambda name=name: name):
                self.assertEqual(judge(lab, lab.solution).words, "")

    def test_the_compiler_reads_nothing_for_it(self):
        with tempfile.TemporaryDirectory() as scratch:
            source = pathlib.Path(scratch, "reads.cu")
            path = ROOT / f"labs/solutions/{NAME}.cu"
            source.write_text(f'asm(".incbin \\"{path}\\"");\nint main() {{}}\n')
            for _ in self.ways():
                with Program(source) as program:
                    built, said = program.build()
                self.assertFalse(built)
                self.assertRegex(said, "No such file|not found")


def source_with(source, text, secret, port):
    """The program, told what it is to look for."""
    names = {
        "SOLUTION": ROOT / f"labs/solutions/{NAME}.cu",
        "SECRET": secret,
        "RESULTS": source.parent / "results.json",
        "SELF": "../labs/program/reach",
        "JUDGE": os.getpid(),
    }
    defines = [f'#define {name} "{value}"' for name, value in names.items()]
    source.write_text("\n".join([*defines, f"#define PORT {port}", text]))
    return source


def load_tests(loader, *_):
    return loader.loadTestsFromTestCase({"checks": Checks, "ends": Ends, "reach": Reach}[CASES])


if __name__ == "__main__":
    unittest.main()
