#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""What labs/judge/check.py promises to whoever writes checks, with labs made here; and --real, on a GPU made here."""

import pathlib
import re
import sys
import tempfile
import types
import unittest
import unittest.mock

from labs.judge.check import BUILT, ENDED, GIVEN_BACK, PRINTED, REAL, Judge, Lab, Wrong, check, judge
from labs.judge.program import ROOT, Ended, Program, SlowImporter

sys.dont_write_bytecode = True

BEFORE = '#include <poll.h>\n#include <unistd.h>\n#include "../lab.h"\nint main() {\nlab::begin();\n'
FIRST = 6  # the line that is the first of a body
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


class JudgeTest(unittest.TestCase):
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

    def verdict(self, body, *checks, real=None):
        lab = Lab.__new__(Lab)
        lab.checks, lab.output, lab.options, lab.about = checks, OUTPUT, {"gpus": 1}, types.SimpleNamespace()
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

    def test_other_runs(self):
        seen = []

        @check("on two", gpus=2)
        def on_two(run):
            seen.append((run.options["gpus"], run.where(), run.again(gpus=2) is run))

        @check("with a failure")
        def with_a_failure(run):
            for call in ("cuMemCreate", "cuMemAddressReserve"):
                other = run.again(fail=f"{call}:1=CUDA_ERROR_OUT_OF_MEMORY", status=1)
                seen.append((len(other.calls("cuMemRelease")), other.all[-1].succeeded))

        verdict = self.verdict(RIGHT, on_two, with_a_failure)
        self.assertEqual((verdict.failed, verdict.words), ("", ""))
        self.assertEqual(seen, [(2, "on 2 simulated GPUs", True), (0, True), (1, True)])
        self.assertEqual([status for _, status in verdict.checks], ["passed"] * 6)

    def test_another_run_must_end_as_told(self):
        @check("with a failure")
        def with_a_failure(run):
            run.again(fail="cuMemCreate:1=CUDA_ERROR_OUT_OF_MEMORY")

        failed, words = self.failed(RIGHT, with_a_failure)
        self.assertEqual(failed, ENDED)
        self.assertRegex(words, "with --fail cuMemCreate:1=CUDA_ERROR_OUT_OF_MEMORY:\n.*\n.*ended with status 1")

    def test_another_run_must_give_back(self):
        @check("with a failure")
        def with_a_failure(run):
            run.again(fail="cuMemAddressReserve:1=CUDA_ERROR_OUT_OF_MEMORY", status=1)

        failed, words = self.failed(RIGHT.replace("return cuMemRelease(handle) + ", "return "), with_a_failure)
        self.assertEqual(failed, GIVEN_BACK)
        self.assertRegex(words, "program_.*\n.*cuMemCreate.*\non 1 simulated.*\n.*\n.*its handle is still held")

    def test_a_skip_and_calls_that_may_be_refused(self):
        body = "if (cuMemCreate(nullptr, 0, nullptr, 0) == CUDA_ERROR_INVALID_VALUE) return 77;\nreturn 1;"

        @check("it skips", gpus=2, status=77, refusals=("cuMemCreate",))
        def skips(run):
            raise AssertionError("not reached")

        self.assertEqual(self.failed(body, skips)[0], ENDED)  # the first run is not to skip

        body = "int gpus = 0;\nCHECK(cudaGetDeviceCount(&gpus));\nif (gpus == 1) return lab::end();\n" + body
        self.assertEqual(self.failed(body, check("it skips", gpus=2, status=77)(lambda run: None))[0], ENDED)
        right = check("it skips", gpus=2, status=77, refusals=("cuMemCreate",))(lambda run: None)
        self.assertEqual(self.failed(body, right), ("", ""))

    def test_what_comes_first_is_told(self):
        """What stopped the program is to blame for a call that is missing, and not for one that came before."""
        body = "CUdeviceptr address;\nCHECK(cuMemAddressReserve(&address, 2 << 20, 0, 0, 0));\nCHECK(cuMemUnmap(1, 1));"

        @check("it is created")
        def created(run):
            raise Wrong("it is created", "it is not")

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
            raise Wrong("something", "nothing")

        @check("on two", gpus=2)
        def on_two(run):
            raise Wrong("it is right on two", "it is not")

        titles = [BUILT, "one", "of what is missing", "two", ENDED, GIVEN_BACK, PRINTED]
        right, refused = RIGHT, RIGHT.replace("return lab::end()", "CHECK(cuMemRelease(handle));\nreturn lab::end()")
        for body, failed, status in (
            (right, "of what is missing", "passed passed failed" + 4 * ", not reached"),
            (refused, ENDED, "passed passed, not reached, not reached failed, not reached, not reached"),
        ):
            verdict = self.verdict(body, its[0], missing, its[1])
            self.assertEqual([title for title, _ in verdict.checks], titles)
            self.assertEqual(verdict.failed, failed)
            self.assertEqual([its for _, its in verdict.checks], re.findall("passed|failed|not reached", status))
        leaking = RIGHT.replace("CHECK(cuMemRelease(handle));\n", "")
        verdict = self.verdict(leaking, its[0], on_two)
        self.assertEqual(verdict.checks[1:3], [("one", "passed"), ("on two", "not reached")])
        self.assertEqual((verdict.failed, verdict.checks[-2]), (GIVEN_BACK, (GIVEN_BACK, "failed")))
        self.assertNotIn("on 2 simulated GPUs", verdict.words)

    def test_a_leak_of_another_run(self):
        """It is told rather than what follows from it, and not in place of a call that is to blame."""
        body = "int gpus = 0;\nCHECK(cudaGetDeviceCount(&gpus));\n"
        body += RIGHT.replace("CHECK(cuMemRelease(handle));", "if (gpus == 1) CHECK(cuMemRelease(handle));")

        @check("on two", gpus=2)
        def on_two(run):
            raise Wrong("it is right on two", "it is not")

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

    def test_a_slow_importer(self):
        """It answers late, however long the exporter sleeps; but whoever waits for it gets its answer."""
        start = (
            "int to[2], from[2];\n"
            "char byte = 0;\n"
            'EXPECT(!pipe(to) && !pipe(from), "no pipe");\n'
            "if (!fork()) _exit(read(to[0], &byte, 1) != 1 || write(from[1], &byte, 1) != 1);\n"
        )
        export = (
            "int fd = -1;\n"
            "usleep(50000);\n"
            "CHECK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));\n"
            "close(fd);\n"
            'EXPECT(write(to[1], &byte, 1) == 1, "nobody reads");\n'
            "WAIT;\n"
            "pollfd answer = {from[0], POLLIN, 0};\n"
            'std::printf("%d\\n", poll(&answer, 1, 0));\n'
        )
        handle = "CUmemGenericAllocationHandle"
        asked = f"properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;\n{handle}"
        right = start + RIGHT.replace(handle, asked).replace("CHECK(cuMemRelease", export + "CHECK(cuMemRelease")
        said = []

        @check("something")
        def looks(run):
            said.append((run.stdout[0], run.again(slow_importer=True).stdout[0]))

        for wait in ("sleep(1)", "pollfd its = {from[0], POLLIN, 0};\npoll(&its, 1, -1)"):
            self.assertEqual(self.failed(right.replace("WAIT", wait), looks)[0], PRINTED)
        self.assertEqual(said, [("1", "0"), ("1", "1")])

    def test_an_importer_that_was_not_slow(self):
        """It has imported before it was stopped, as on a busy machine: this run does not count."""
        look, runs = SlowImporter.look, []

        def late(slow, trace):
            if slow not in runs:
                runs.append(slow)
            if len(runs) > 1 or b"cuMemImportFromShareableHandle" in trace:
                look(slow, trace)

        lab = Lab(ROOT / "labs/checks/04b_outlive_the_exporter.py")
        with unittest.mock.patch.object(SlowImporter, "look", late):
            self.assertEqual(judge(lab, lab.solution, limit=60).words, "")
        self.assertEqual([run.was_too_fast for run in runs], [True, False])

    def test_a_check_with_a_mistake(self):
        @check("something")
        def mistaken(run):
            return [][0]

        self.assertRegex(self.failed(RIGHT, mistaken)[1], "What happened: +it cannot: IndexError in mistaken")

    def test_the_page_is_that_of_the_check(self):
        def fails(run):
            raise Wrong("it holds", "it does not")

        self.assertEqual(
            self.verdict(RIGHT, check("something", page="its_own.md#section")(fails)).page, "its_own.md#section"
        )
        self.assertEqual(self.verdict(RIGHT, check("something")(fails)).page, "lab.md")

    def test_to_do_and_printed(self):
        failed, words = self.failed('TODO("reserve 1 GiB");')
        self.assertEqual(failed, ENDED)
        self.assertRegex(
            words,
            rf"program_\d+.cu:{FIRST}\n +TODO\(.reserve 1 GiB.\);\n.*\nWhat happened: +still to do: reserve 1 GiB",
        )
        failed, words = self.failed('std::puts("more");\nreturn lab::end();')
        self.assertEqual(failed, PRINTED)
        self.assertEqual(
            words.split(), f"What was to happen: it prints {OUTPUT} What happened: it printed more {OUTPUT}".split()
        )

    def test_real(self):
        right = Ended(0, "", OUTPUT, "", b"")
        self.assertEqual(self.failed(RIGHT, real=right), ("", ""))
        self.assertEqual(self.verdict(RIGHT, real=right).checks[-1], (REAL, "passed"))
        for wrong in (Ended(1, "", OUTPUT, "", b""), Ended(0, "", "OK\n", "", b""), Ended(0, "time", OUTPUT, "", b"")):
            self.assertEqual(self.failed(RIGHT, real=wrong)[0], REAL)
        verdict = self.verdict(RIGHT, real=Ended(77, "", "SKIP: no GPU; get one\n", "", b""))
        self.assertEqual((verdict.status, verdict.checks[-1]), ("passed", (PRINTED, "passed")))
        self.assertIn("SKIP: no GPU", verdict.remarks)

    def test_no_compiler(self):
        with Program(self.scratch / "missing.cu") as program:
            built, said = program.build()
        self.assertFalse(built)
        self.assertIn("missing.cu", said)
        self.assertTrue(BUILT)


if __name__ == "__main__":
    unittest.main()
