#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""./lab.sh itself, in a copy of the checkout that has lab 01a alone: runner_test.py CASES

commands: every command, every bad argument, the results as JSON. programs: what a student's program may do to the
judge. places: read-only checkouts, paths with spaces, two students at once, an end before its time.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from labs.judge.program import BUILD, cached, descendants

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True

CASES = sys.argv.pop(1)
NAME = "01a_replace_cudamalloc"
SOLUTION = (ROOT / f"labs/solutions/{NAME}.cu").read_text()
STARTER = (ROOT / f"labs/starters/{NAME}.cu").read_text()
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


def setUpModule():
    global CHECKOUT, SCRATCH
    SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="labs test "))  # a path with spaces, for all that follows
    SCRATCH.chmod(0o755)
    CHECKOUT = SCRATCH / "check out"
    for part in ("lab.sh", "scripts", "common", "labs/lab.h", "CMakeLists.txt", "vmmsim/trace", "labs/judge"):
        copy(ROOT / part, CHECKOUT / part)
    for part in ("starters", "solutions", "checks"):
        for file in (ROOT / "labs" / part).glob(f"{NAME}.*"):
            copy(file, CHECKOUT / "labs" / part / file.name)
    copy(BUILD / "bin/vmmsim", CHECKOUT / "build/bin/vmmsim")
    for file in (BUILD / "simulator").glob("lib*"):
        copy(file, CHECKOUT / "build/simulator" / file.name)
    copy(BUILD / "simulator/machines", CHECKOUT / "build/simulator/machines")
    for file in [*(ROOT / "vmmsim").glob("*.py"), ROOT / "labs/__init__.py"]:
        copy(file, CHECKOUT / file.relative_to(ROOT))
    (CHECKOUT / "build/CMakeCache.txt").write_text(
        f"CMAKE_HOME_DIRECTORY:INTERNAL={CHECKOUT}\nCMAKE_CUDA_COMPILER:FILEPATH={cached('CMAKE_CUDA_COMPILER')}\n"
    )
    (CHECKOUT / "build/simulator_is_ready").touch()


def copy(old, new):
    new.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(old, new) if old.is_dir() else shutil.copy2(old, new)


def tearDownModule():
    subprocess.run(["chmod", "-R", "u+w", SCRATCH], check=True)
    shutil.rmtree(SCRATCH)


class Runner(unittest.TestCase):
    """Each test has a directory for its student's files, and one for temporary files that must be empty afterwards."""

    def setUp(self):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="a test ", dir=SCRATCH))
        self.mine, self.temporary = directory / "my files", directory / "temporary"
        self.temporary.mkdir()
        self.file = self.mine / f"{NAME}.cu"
        for path in (directory, self.temporary):
            path.chmod(0o777)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("LABS_")}
        self.environment |= {"LABS_MINE": str(self.mine), "TMPDIR": str(self.temporary)}

    def tearDown(self):
        self.assertEqual(os.listdir(self.temporary), [], "files are left")

    def start(self, *words, **options):
        return subprocess.Popen(
            [CHECKOUT / "lab.sh", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            **options,
        )

    def lab(self, *words, status, **options):
        """What ./lab.sh prints, which ends with this status."""
        process = self.start(*words, **options)
        output, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, status, output)
        self.assertNotIn("Traceback", output)
        return output

    def write(self, text):
        self.mine.mkdir(exist_ok=True)
        self.file.write_text(text)

    def judged(self, body, *words, before=""):
        """What is said of a program with this main()."""
        self.write(f'#include "../lab.h"\n#include <unistd.h>\n{before}\nint main() {{\n{body}\n}}\n')
        return self.lab("01a", "--limit", "3", *words, status=1)


class Commands(Runner):
    def test_the_way_of_a_student(self):
        self.assertRegex(
            self.lab(status=0), r"01a +15  Replace cudaMalloc\n\n0 of 1 are right.\nGo on with ./lab.sh 01a"
        )
        self.assertFalse(self.mine.exists(), "a list makes no files")
        output = self.lab("01a", status=1)
        self.assertIn("made just now", output)
        self.assertRegex(
            output, r"01a_replace_cudamalloc.cu:\d+\n +CHECK\(cudaMalloc[\s\S]*Not reached: \d of \d+ checks"
        )
        self.assertEqual(self.file.read_text(), STARTER)
        self.assertRegex(self.lab("solution", "01a", status=1), "yours is not right yet")
        self.assertIn(SOLUTION, self.lab("solution", "01a", "--yes", status=0))
        self.write(SOLUTION)
        self.assertRegex(self.lab("01a", status=0), r"01a Replace cudaMalloc: right\n(  .*\n){10}\nCompare yours")
        self.assertIn(SOLUTION, self.lab("solution", "01a", status=0))
        self.assertIn("1 of 1 are right", self.lab(status=0))
        self.lab("reset", "01a", status=0)
        self.assertEqual((self.file.read_text(), self.file.with_suffix(".cu.old").read_text()), (STARTER, SOLUTION))

    def test_one_more_hint_each_time(self):
        counts = [len(re.findall(r"^\d+\. ", self.lab("hint", "01a", status=0), re.MULTILINE)) for _ in range(6)]
        self.assertEqual(counts, [1, 2, 3, 4, 5, 5])
        self.assertIn("last hint", self.lab("hint", "01a", status=0))
        self.lab("reset", "01a", status=0)
        self.assertIn("4 more", self.lab("hint", "01a", status=0))

    def test_bad_arguments(self):
        for words, said in {
            ("09z",): "there is no lab '09z'; there are 01a",
            ("01a", "01a"): "one lab at a time",
            ("hint",): "hint needs the number of a lab",
            ("reset",): "reset needs the number",
            ("solution", "02"): "there is no lab '02'",
            ("--all", "01a"): "--all takes no lab",
            ("--json", "x"): "go with --all",
            ("--all", "--gradescope"): "expected one argument",
            ("01a", "--yes"): "--yes goes with solution",
            ("hint", "01a", "--real"): "--real does not go with hint",
            ("01a", "--limit", "0"): "--limit takes 1 to 3600",
            ("--nonsense",): "unrecognized arguments",
        }.items():
            with self.subTest(words):
                self.assertIn(said, self.lab(*words, status=2))
        self.assertIn("usage: ./lab.sh [NN]", self.lab("--help", status=0))
        self.assertFalse(self.mine.exists())

    def test_results_as_json(self):
        keys = {"number", "title", "minutes", "status", "failed", "checks", "words", "seconds"}
        for text, status in ((STARTER, "not begun"), (STARTER + "// begun\n", "failed"), (SOLUTION, "passed")):
            self.write(text)
            output = self.lab("--all", "--json", "r.json", status=int(status != "passed"), cwd=self.mine)
            self.assertIn(status, output)
            told = json.loads((self.mine / "r.json").read_text())
            self.assertEqual((told["passed"], told["of"]), (int(status == "passed"), 1))
            self.assertEqual((told["labs"][0].keys(), told["labs"][0]["status"]), (keys, status))
            if status == "failed":
                its = [check["status"] for check in told["labs"][0]["checks"]]
                self.assertRegex(" ".join(its), r"^(passed )+failed( not reached)+$")

    def test_results_for_gradescope(self):
        """As it documents them: tests, each with a name, score, max_score, status, output and visibility."""
        for text, score, status in ((STARTER + "// begun\n", 0, "failed"), (SOLUTION, 1, "passed")):
            self.write(text)
            self.lab("--all", "--gradescope", str(self.mine / "g.json"), status=1 - score)
            told = json.loads((self.mine / "g.json").read_text())
            (test,) = told["tests"]
            self.assertIsInstance(told["execution_time"], int)
            self.assertEqual((test["score"], test["max_score"], test["status"]), (score, 1, status))
            self.assertEqual((test["name"], test["visibility"]), ("01a Replace cudaMalloc", "visible"))
            self.assertEqual("cudaMalloc was called" in test["output"], not score)

    def test_results_that_cannot_be_written(self):
        self.assertRegex(self.lab("--all", "--json", "/proc/r.json", status=1), "/proc/r.json cannot be written")


class Programs(Runner):
    def test_a_compile_error_has_short_paths(self):
        output = self.judged("  this is wrong;")
        self.assertRegex(output, r"my files/01a_replace_cudamalloc.cu\(5\): error:")
        self.assertNotRegex(output, r"/lab-|\.py|tmpxft")
        output = self.judged("  missing();", before="void missing();")
        self.assertRegex(output, r"01a_replace_cudamalloc.cu:5: undefined reference to .missing\(\)")
        self.assertNotRegex(output, r"/lab-|\.py|tmpxft")

    def test_a_hang(self):
        output = self.judged("  lab::begin();\n  for (;;) pause();")
        self.assertRegex(output, r"still running after 3 seconds.*last call that came back is cuda\w+ in line 5")

    def test_a_kernel_that_hangs(self):
        output = self.judged(
            "  lab::begin();\n  spin<<<1, 1>>>();\n  CHECK(cudaDeviceSynchronize());",
            before="__global__ void spin() { for (volatile int i = 0;; i = 0) {} }",
        )
        self.assertRegex(output, "still running after 3 seconds")

    def test_a_crash(self):
        self.assertRegex(self.judged("  lab::begin();\n  *(volatile int*)8 = 1;"), "ended by SIGSEGV; the last call")

    def test_lines_of_members_and_helpers(self):
        """A call's line is that in which it stands, wherever that is in the student's file."""
        text = (
            '#include "../lab.h"\n'
            "struct It {\n"
            "  void member() {\n"
            "    CHECK(cuMemUnmap(1, 1));\n"
            "  }\n"
            "  It() {}\n"
            "  It(int) { CHECK(cuMemUnmap(2, 2)); }\n"
            "};\n"
            "template <class T> void helper(T) {\n"
            "  CHECK(cuMemUnmap(3, 3));\n"
            "}\n"
            "int main() { lab::begin(); WORK; }\n"
        )
        for work, line in (("It().member()", 4), ("It it(0)", 7), ("helper(0)", 10), ("[] { helper(1); }()", 10)):
            with self.subTest(work):
                self.write(text.replace("WORK", work))
                output = self.lab("01a", status=1)
                self.assertRegex(output, rf"01a_replace_cudamalloc.cu:{line}\n.*CHECK\(cuMemUnmap")

    def test_what_is_not_simulated(self):
        output = self.judged(
            "  lab::begin();\n  k<<<1, 1>>>();", before='__global__ void k() { asm volatile("pmevent 1;"); }'
        )
        self.assertRegex(output, r"status 125\n +not simulated: line .* kernel .*: pmevent 1")

    def test_endless_output(self):
        self.assertRegex(self.judged('  for (;;) std::puts("again");'), r"printed without end.*\n +again\n")

    def test_endless_errors(self):
        self.assertRegex(self.judged('  for (;;) std::fputs("again ", stderr);'), r"printed without end")

    def test_processes_without_end(self):
        output = self.judged("  for (;;)\n    if (fork() == 0) for (;;) pause();")
        self.assertRegex(output, "started processes without end")

    def test_processes_that_hide(self):
        """In sessions of their own, with their output closed."""
        body = "if (fork() == 0) {\n setsid();\n if (fork()) _exit(0);\n"
        body += f' std::FILE* file = std::fopen("{self.temporary.parent}/pid", "w");\n'
        body += ' std::fprintf(file, "%d", getpid());\n std::fclose(file);\n for (int i = 0; i < 9; ++i) close(i);\n'
        output = self.judged(body + " for (;;) pause();\n }\n lab::begin();")
        self.assertRegex(output, "processes that it had started went on; they were ended")
        pid = (self.temporary.parent / "pid").read_text()
        if pathlib.Path("/proc", pid).exists():
            os.kill(int(pid), signal.SIGKILL)
            self.fail("a process is left")

    def test_an_end_before_main(self):
        output = self.judged("", before='struct It { It() { std::puts("OK"); std::exit(0); } } it;')
        self.assertRegex(output, "ended before its first call of CUDA: does something end it before main")

    def test_a_directory_deleted_and_results_forged(self):
        forged = 'std::system("rm -rf \\"$PWD\\"; rm -rf \\"$TMPDIR\\"; echo {} > \\"$LABS_MINE/r.json\\"");'
        self.write(STARTER.replace("  lab::begin();", f"  if ({forged[:-1]}) return 3;\n  lab::begin();"))
        self.lab("--all", "--json", str(self.mine / "r.json"), status=1)
        self.assertEqual(
            json.loads((self.mine / "r.json").read_text())["labs"][0]["failed"], "no memory comes from cudaMalloc"
        )

    def test_the_judge_attacked(self):
        """Whoever kills the simulator or writes nonsense into the trace is not right."""
        self.assertRegex(
            self.judged("  lab::begin();\n  return kill(getppid(), 9);", before="#include <signal.h>"), "SIGKILL"
        )
        nonsense = "  lab::begin();\n  struct stat is;\n  for (int i = 3; i < 64; ++i)\n"
        nonsense += "    if (fstat(i, &is) == 0 && S_ISFIFO(is.st_mode)) (void)!write(i, TEXT, sizeof TEXT - 1);"
        for text in ('"nonsense\\n"', '"{}\\n"', '"[1]\\n"'):
            output = self.judged(nonsense, before=f"#include <sys/stat.h>\n#define TEXT {text}")
            self.assertRegex(output, "wrote into the pipe that tells of its calls")

    def test_a_file_that_is_missing(self):
        starter = CHECKOUT / f"labs/starters/{NAME}.cu"
        aside = starter.rename(starter.with_suffix(".aside"))
        self.addCleanup(aside.rename, starter)
        says = rf"^lab: labs/starters/{NAME}.cu is missing; get it again: git checkout -- labs/starters/{NAME}.cu\n$"
        self.assertRegex(self.lab("01a", status=1), says)

    def test_a_file_that_is_none(self):
        self.file.mkdir(parents=True)
        self.assertRegex(self.lab("01a", status=1), "is no file")
        self.assertIn("not begun", self.lab("--all", status=1))

    def test_no_gpu_for_real(self):
        hidden = {"CUDA_VISIBLE_DEVICES": ""}  # where there are some
        self.environment |= hidden
        self.assertRegex(self.lab("01a", "--real", status=1), "--real needs a GPU: ")


class Places(Runner):
    @unittest.skipUnless(os.stat("/").st_mode & 0o001, "no other user may enter / here")
    def test_a_checkout_that_is_read_only(self):
        subprocess.run(["chmod", "-R", "a-w,a+rX", CHECKOUT], check=True)
        self.addCleanup(subprocess.run, ["chmod", "-R", "u+w", CHECKOUT], check=True)
        del self.environment["LABS_MINE"]
        self.assertRegex(
            self.lab("01a", status=1, **NOBODY),
            "labs/mine/01a_replace_cudamalloc.cu cannot be written: Permission denied\nLABS_MINE names",
        )
        self.environment["LABS_MINE"] = str(self.mine)
        self.assertRegex(self.lab("01a", status=1, **NOBODY), "cudaMalloc was called")
        self.assertIn("0 of 1", self.lab(status=0, **NOBODY))

    def test_in_labs_mine(self):
        del self.environment["LABS_MINE"]
        self.addCleanup(shutil.rmtree, CHECKOUT / "labs/mine")
        self.assertRegex(self.lab("01a", status=1, cwd="/"), r"labs/mine/01a_replace_cudamalloc.cu:\d+\n +CHECK")
        (CHECKOUT / f"labs/mine/{NAME}.cu").write_text(SOLUTION)
        self.lab("01a", status=0)

    @unittest.skipUnless(os.stat("/").st_mode & 0o001, "no other user may enter / here")
    def test_through_a_link(self):
        """It is the same checkout, and what is set up is set up for the path that it really has."""
        link = SCRATCH / "a link"
        link.symlink_to(CHECKOUT)
        self.addCleanup(link.unlink)
        for path in (link, CHECKOUT):
            command, options = [path / "lab.sh", "01a"], {"cwd": path, "env": self.environment | {"PWD": str(path)}}
            done = subprocess.run(command, capture_output=True, text=True, **options)
            self.assertIn("cudaMalloc was called", done.stdout, done)
            self.assertNotIn(str(path), done.stdout + done.stderr)
        ready = CHECKOUT / "build/simulator_is_ready"
        ready.unlink()
        self.addCleanup(ready.touch)
        subprocess.run(["chmod", "-R", "a-w,a+rX", CHECKOUT], check=True)
        self.addCleanup(subprocess.run, ["chmod", "-R", "u+w", CHECKOUT], check=True)
        done = subprocess.run([link / "lab.sh", "01a"], capture_output=True, text=True, env=self.environment, **NOBODY)
        self.assertIn(f"no permission to write into {CHECKOUT}: ", done.stderr)

    def test_two_at_once(self):
        self.write(SOLUTION)
        both = [self.start("01a"), self.start("01a")]
        for process in both:
            output, _ = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, output)

    def test_interrupted_and_run_again(self):
        """In the middle of a run the judge is ended, and nothing is left; the next one works."""
        began = self.temporary.parent / "began"
        hang = f'  lab::begin();\n  std::fclose(std::fopen("{began}", "w"));\n  for (;;) pause();\n'
        for words in (("01a",), ("--all",)):
            for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
                with self.subTest(words=words, signal=number):
                    self.write(f'#include "../lab.h"\n#include <unistd.h>\nint main() {{\n{hang}}}\n')
                    process = self.start(*words)
                    while not began.exists():
                        self.assertIsNone(process.poll())
                        time.sleep(0.02)
                    began.unlink()
                    started = descendants(process.pid)
                    self.assertGreaterEqual(len(started), 2)
                    process.send_signal(number)
                    output, _ = process.communicate(timeout=60)
                    self.assertEqual(process.returncode, status, output)
                    self.assertNotIn("Traceback", output)
                    deadline = time.monotonic() + 20
                    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in started):
                        self.assertLess(time.monotonic(), deadline, "processes are left")
                        time.sleep(0.02)
                    self.assertEqual(os.listdir(self.temporary), [])
        self.write(SOLUTION)
        self.lab("01a", status=0)


def load_tests(loader, *_):
    return loader.loadTestsFromTestCase({"commands": Commands, "programs": Programs, "places": Places}[CASES])


if __name__ == "__main__":
    unittest.main()
