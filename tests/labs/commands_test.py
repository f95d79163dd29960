#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""./lab.sh itself, in a copy of the checkout that has lab 01a alone."""

import contextlib
import csv
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock

from labs.judge import sandbox, student
from labs.judge.arguments import arguments
from labs.judge.check import ENDED
from labs.judge.grade import NOT_JUDGED, told_by
from labs.judge.gradescope import NOT_SENT
from labs.judge.program import BUILD, ROOT, cached
from labs.judge.verdict import Lab, all_labs
from vmmsim.processes import descendants, living

sys.dont_write_bytecode = True

NAME = "01a_replace_cudamalloc"
TITLES = Lab(ROOT / f"labs/checks/{NAME}.py").titles()
SOLUTION = (ROOT / f"labs/solutions/{NAME}.cu").read_text()
STARTER = (ROOT / f"labs/starters/{NAME}.cu").read_text()
MARK = "  // >>> your part: make the memory\n"
ENDS_ITS_JUDGE = r"""
  auto parent_of = [](pid_t pid) {
    pid_t parent = 0;
    std::FILE* stat = std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "r");
    return stat && std::fscanf(stat, "%*d (%*[^)]) %*c %d", &parent) == 1 ? parent : 0;
  };
  const pid_t launcher = getppid(), judge = parent_of(launcher), of_the_class = judge ? parent_of(judge) : 0;
  for (pid_t pid : {of_the_class, judge, launcher})
    if (pid > 0) kill(pid, SIGKILL);
"""
INCLUDES = "#include <signal.h>\n#include <unistd.h>\n#include <cstdlib>\n#include <string>\n"


def with_part(text):
    """The starter with this at the beginning of its first part."""
    return INCLUDES + STARTER.replace(MARK, MARK + text)


NOBODY = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


def make_checkout():
    global CHECKOUT, SCRATCH
    SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="labs test "))  # a path with spaces, for all that follows
    SCRATCH.chmod(0o755)
    CHECKOUT = SCRATCH / "check out"
    parts = "lab.sh scripts common CMakeLists.txt vmmsim/trace vmmsim/view labs/lab.h labs/judge labs/class"
    for part in parts.split():
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


def remove_checkout():
    subprocess.run(["chmod", "-R", "u+w", SCRATCH], check=True)
    shutil.rmtree(SCRATCH)


class Commands(unittest.TestCase):
    """Each test has a directory for its student's files, and one for temporary files that must be empty afterwards."""

    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(remove_checkout)
        make_checkout()

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
            **{"stdin": subprocess.DEVNULL, **options},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
        )

    def lab(self, *words, status, input=None, **options):
        """What ./lab.sh prints, which ends with this status."""
        options |= {"stdin": subprocess.PIPE} if input else {}
        process = self.start(*words, **options)
        output, _ = process.communicate(input, timeout=120)
        self.assertEqual(process.returncode, status, output)
        self.assertNotIn("Traceback", output)
        return output

    def write(self, text):
        self.mine.mkdir(exist_ok=True)
        self.file.write_text(text)

    def test_the_way_of_a_student(self):
        self.assertRegex(
            self.lab(status=0), r"01a +15  Replace cudaMalloc\n\n0 of 1 are right.\nGo on with ./lab.sh 01a"
        )
        self.assertFalse(self.mine.exists(), "a list makes no files")
        self.assertRegex(self.lab("view", "01a", status=1), "no run of 01a to show yet: ./lab.sh 01a makes one")
        output = self.lab("next", status=1)
        self.assertIn("made just now", output)
        self.assertIn("  ✓ it is built\n  ✗ no memory comes from cudaMalloc\n  ✗ the granularity is asked", output)
        self.assertIn("  - memory is created in whole granules, as few as hold 5 MiB and 1 byte\n", output)
        said = r"01a_replace_cudamalloc.cu:\d+\n +CHECK\(cudaMalloc[\s\S]*Memory then:\n0x[\s\S]* step (\d+)\n"
        self.assertRegex(output, said)
        self.assertEqual(self.file.read_text(), STARTER)
        self.assertIn(f"-I{CHECKOUT}/labs/starters", (self.mine / ".clangd").read_text())
        self.lab("view", "01a", status=0)
        view, step = self.file.with_suffix(".html").read_text(), re.search(said, output)[1]
        self.assertRegex(view, rf"(?m)^ +{step} cudaMalloc  01a_replace_cudamalloc.cu:\d+$")
        self.assertRegex(self.lab("solution", "01a", status=1), "yours is not right yet")
        self.assertIn(SOLUTION, self.lab("solution", "01a", "--yes", status=0))
        self.saved_while_watched()
        self.assertIn(SOLUTION, self.lab("solution", "01a", status=0))
        for number, text in ((1, SOLUTION), (2, "another")):
            self.write(text)
            self.lab("reset", "01a", status=0)
            old = self.file.with_name(f"{self.file.name}.old.{number}")
            self.assertEqual((self.file.read_text(), old.read_text()), (STARTER, text))

    def saved_while_watched(self):
        """What is saved is judged, also if the editor puts another file in its place."""
        self.write(STARTER.replace("bytes));", "bytes))"))
        process = self.start("watch", "01a")
        self.addCleanup(process.kill)

        def until(words):
            lines = []
            for line in process.stdout:
                lines.append(line)
                if words in line:
                    return "".join(lines)
            raise AssertionError("".join(lines))

        self.assertRegex(until("Watching "), r"✗ it is built\n\n.*\.cu:\d+\n.*\nSyntax error: +expected a \";\"\n\n")
        new = self.mine / "of the editor"
        new.write_text(SOLUTION)
        new.replace(self.file)
        self.assertEqual(until("Compare yours").count("✓"), len(TITLES))
        self.assertEqual(process.wait(60), 0)
        process.stdout.close()

    def test_the_next_one_is_watched(self):
        """When one is right the next that is not is watched, those before it too."""
        labs, right = all_labs()[:3], {"01b"}
        told, begun = [], []

        def show_one(lab, *_):
            told.append(lab.number)
            right.add(lab.number)
            return 0

        def judged_all(its, _):
            yield from ((lab, "passed" if lab.number in right else "not begun", {}) for lab in its)

        its = {"show_one": show_one, "judged_all": judged_all, "make_mine": begun.append, "saved": lambda lab: b""}
        with unittest.mock.patch.multiple(student, **its), contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(student.watch(labs[2], labs, None), 0)
        self.assertEqual((told, [lab.number for lab in begun]), (["01c", "01a"], ["01c", "01a"]))
        self.assertIn("All are right.", said.getvalue())

    def test_a_prediction(self):
        """It is asked for before the run, and kept with what came."""
        self.write(STARTER)
        said = self.lab("predict", "01a", status=1, input="\nseven\n99\n3\nno granularity\n")
        self.assertEqual(said.count("The number of the first that does not hold"), 4)
        self.assertLess(said.index("What will happen there"), said.index("✗"))
        for text in said, (self.mine / "predictions.txt").read_text():
            self.assertIn(f"You said: {TITLES[2]}\nIt was:   {TITLES[1]}\n", text)
        self.assertIn("Because:  no granularity\n", text)
        self.assertIn("no answer", self.lab("predict", "01a", status=1))

    def test_one_more_hint_each_time(self):
        for number in (1, 2):
            self.assertEqual(len(re.findall(r"^\d+\. ", self.lab("hint", "01a", status=0), re.M)), number)
        (self.mine / ".hints/01a").write_text("5")
        self.assertIn("last hint", self.lab("hint", "01a", status=0))
        self.lab("reset", "01a", status=0)
        self.assertIn("4 more", self.lab("hint", "01a", status=0))

    def parsed(self, *words):
        """What the arguments are, of the checkout with all labs; or what is said of them."""
        said = io.StringIO()
        with unittest.mock.patch.object(sys, "argv", ["lab.sh", *words]), contextlib.redirect_stderr(said):
            try:
                return arguments(all_labs())
            except SystemExit as ended:
                self.assertEqual(ended.code, 2)
                return said.getvalue()

    def test_names_of_labs(self):
        for word in ("01a", "1a", "1A", f"{NAME}.cu", "01a_rep", "cudaMalloc", f"{ROOT}/labs/starters/{NAME}.cu:16"):
            self.assertEqual(self.parsed(word).lab.number, "01a", word)
        several = "'1' fits several labs: 01a Replace cudaMalloc, 01b Move without copying, 01c Repair"
        self.assertIn(several, self.parsed("1"))
        self.assertEqual([lab.number for lab in self.parsed("--all", "2b,1c", "06a").labs], ["01c", "02b", "06a"])
        self.write(STARTER)
        self.assertIn(f"is not judged, but your file in labs/mine: LABS_MINE={self.mine}", self.parsed(str(self.file)))

    def test_bad_arguments(self):
        for words, said in {
            ("09z",): "there is no lab '09z'; there are 01a, 01b",
            ("",): "there is no lab ''",
            ("01a", "01a"): "one lab at a time",
            ("next", "01a"): "next takes no lab",
            ("hint",): "hint needs the number of a lab",
            ("watch",): "watch needs the number",
            ("solution", "12"): "there is no lab '12'",
            ("--all", "hint", "01a"): "one of these at a time",
            ("--json", "x"): "--json goes with --all",
            ("--csv", "x"): "--csv goes with --class",
            ("--class", "/nonexistent"): "there is no directory /nonexistent",
            ("gradescope", "01a"): "gradescope needs labs and a file",
            ("--all", "--gradescope"): "expected one argument",
            ("01a", "--yes"): "--yes goes with solution",
            ("hint", "01a", "--real"): "--real does not go with hint",
            ("01a", "--limit", "0"): "--limit takes 1 to 3600",
            ("--nonsense",): "unrecognized arguments",
        }.items():
            with self.subTest(words):
                self.assertIn(said, self.parsed(*words))
        self.assertEqual(self.lab("09z", status=2).count("\n"), 2)
        self.assertIn("usage: ./lab.sh  ", self.lab("--help", status=0))
        self.assertFalse(self.mine.exists())

    def test_results(self):
        """As JSON, and as Gradescope documents them: tests, each with a name, score, max_score, status and output."""
        file = CHECKOUT / f"labs/checks/{NAME}.py"
        text = file.read_text()
        self.addCleanup(file.write_text, text)
        file.write_text(f"{text}\nPOINTS = {{'it flies': 2}}\n")
        self.assertIn("names what is no check: it flies", self.lab("--all", status=3))
        file.write_text(f"{text}\nPOINTS = {{'it is built': 0.5}}\n")
        self.write(with_part("  (void)0;\n"))
        output = self.lab("--all", "1a", "--json", "r.json", "--gradescope", "g.json", status=1, cwd=self.mine)
        self.assertIn(f"0 of 1 are right: 0.5 of {len(TITLES) - 0.5} points", output)
        told = json.loads((self.mine / "r.json").read_text())
        self.assertEqual([told[key] for key in ("passed", "of", "points", "of_points")], [0, 1, 0.5, len(TITLES) - 0.5])
        keys = "number title minutes status failed points of_points checks words seconds code"
        self.assertEqual((" ".join(told["labs"][0]), told["labs"][0]["status"]), (keys, "failed"))
        its = [check["status"] for check in told["labs"][0]["checks"]]
        self.assertRegex(" ".join(its), r"^(passed )+failed( fails| holds| not reached)+$")
        told = json.loads((self.mine / "g.json").read_text())
        self.assertIsInstance(told["execution_time"], int)
        self.assertEqual(
            [(test["score"], test["max_score"]) for test in told["tests"]], [(0.5, 0.5)] + [(0, 1)] * (len(TITLES) - 1)
        )
        self.assertEqual([test["status"] for test in told["tests"][:2]], ["passed", "failed"])
        self.assertIn("cudaMalloc was called", told["tests"][1]["output"])
        self.assertIn("fails; counts once this is right: no memory comes", told["tests"][2]["output"])

    def test_a_class(self):
        """A line for each student, whatever one of them hands in: it ends nothing, and writes no results."""
        forges = r'std::system("rm -rf \"$PWD\" \"$TMPDIR\"; echo {} > \"$LABS_MINE/../../../grades.csv\"")'
        for who, text in {
            "ann": SOLUTION,
            "ben/labs/mine": with_part(f"  if ({forges}) return 3;\n"),
            "cid": with_part(ENDS_ITS_JUDGE),
            "dot": STARTER,
        }.items():
            (self.mine / who).mkdir(parents=True)
            (self.mine / who / self.file.name).write_text(text)
        if sandbox.way() not in ("bubblewrap", "unshare"):
            (self.mine / "cid" / self.file.name).write_text(STARTER)  # nothing here holds it
        self.lab("--class", ".", "--csv", "grades.csv", "--limit", "5", status=0, cwd=self.mine)
        rows = list(csv.reader((self.mine / "grades.csv").read_text().splitlines()))
        self.assertEqual(rows[0], ["student", "points", "of_points", "01a", "01a fails at"])
        self.assertEqual([row[0] for row in rows[1:]], ["ann", "ben", "cid", "dot"])
        most = str(len(TITLES) - 1)
        self.assertEqual(rows[1][1:], [most, most, most, ""])
        self.assertEqual(rows[2][1:], ["0", most, "0", "no memory comes from cudaMalloc"])
        self.assertIn(rows[3][4], ("no memory comes from cudaMalloc", ENDED, "not begun"))
        self.assertEqual(rows[4][1:], ["0", most, "0", "not begun"])
        self.assertIn("one for each student", self.lab("--class", "ann", status=1, cwd=self.mine))

    def test_a_submission_that_never_ends(self):
        """It has stopped its judge: the class goes on, and what it started is ended."""
        lab = Lab(ROOT / f"labs/checks/{NAME}.py")
        stopped = ["sh", "-c", "sleep 1000 & echo {}; kill -STOP $$"]
        with subprocess.Popen(stopped, stdout=subprocess.PIPE, text=True) as process:
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            started = descendants(process.pid)
            told = told_by(process, lab, 0.1)
        self.assertEqual((told["status"], told["points"], told["failed"]), ("failed", 0, NOT_JUDGED))
        self.assertIn("not through after 0.1 seconds", told["words"])
        self.assertEqual(set(started) & set(living()), set())
        self.assertTrue(started)

    def forgeries(self, results, secret):
        """Submissions that are right but for what they try: when they run, and when they are compiled."""
        checks = CHECKOUT / f"labs/checks/{NAME}.py"
        tries = {
            "results": f"echo forged > \\\"{results}\\\"",
            "checks": f"echo '# forged' >> \\\"{checks}\\\"",
            "answers": f"cat \\\"{secret}\\\"",
        }
        runs = "".join(f'  if (std::system("{words}")) {{}}\n' for words in tries.values())
        read = f'asm(".pushsection .rodata\\n.incbin \\"{secret}\\"\\n.popsection");\n'
        return {
            name: INCLUDES + SOLUTION.replace(MARK, MARK + its) for name, its in (("runs", runs), ("compiler", read))
        }

    def hand_in(self, who, text):
        file = self.mine / who / self.file.name
        file.parent.mkdir(parents=True)
        file.write_text(text)
        return file

    def succeeded(self):
        """Which of the forgeries have, in a class."""
        csv_file, told = self.mine / "grades.csv", self.mine.parent / "feedback"
        secret = self.hand_in("ann", SOLUTION + "// secret\n")
        for who, text in self.forgeries(csv_file.with_name("forged.csv"), secret).items():
            self.hand_in(who, text)
        link = self.mine / "link" / self.file.name
        link.parent.mkdir()
        link.symlink_to(secret)
        words = "--csv", str(csv_file), "--feedback", str(told), "--limit", "10"
        self.lab("--class", str(self.mine), *words, status=0)
        rows = {row["student"]: row for row in csv.DictReader(csv_file.read_text().splitlines())}
        self.assertEqual(rows["ann"]["01a"], rows["ann"]["of_points"])
        checks = CHECKOUT / f"labs/checks/{NAME}.py"
        forged = {
            "results": csv_file.with_name("forged.csv").exists(),
            "checks": "forged" in checks.read_text(),
            "answers": "// secret" in (told / "runs.txt").read_text(),
            "compiler": "it is built" not in rows["compiler"]["01a fails at"],
            "link": rows["link"]["01a"] != "0",
        }
        shutil.rmtree(self.mine)
        return [name for name, is_forged in forged.items() if is_forged]

    def test_five_forgeries(self):
        """None succeeds; without the boundary they do, but for the link, which the judge itself does not follow."""
        if sandbox.way() not in ("bubblewrap", "unshare"):
            self.skipTest("this machine allows no sandbox")
        self.assertEqual(self.succeeded(), [])
        for path, text in {
            f"labs/checks/{NAME}.py": "",
            "labs/judge/sandbox.py": "\n\ndef way():\n    return ''\n",
            "labs/judge/grade.py": "\n\ndef leads_out(*_):\n    return False\n",
            "labs/judge/files.py": "\n\ndef leads_out(*_):\n    return False\n",
        }.items():
            file = CHECKOUT / path
            self.addCleanup(file.write_text, file.read_text())
            file.write_text(file.read_text() + text)
        self.assertEqual(self.succeeded(), ["results", "checks", "answers", "compiler", "link"])

    def test_an_autograder(self):
        """Unpacked and set up as Gradescope does it, with what is built here; a forgery and an honest file then."""
        self.mine.mkdir()
        packed, place = self.mine / "it.zip", pathlib.Path(tempfile.mkdtemp(prefix="autograder"))
        self.addCleanup(shutil.rmtree, place)
        place.chmod(0o755)
        self.lab("gradescope", "1a", str(packed), status=0)
        shutil.unpack_archive(packed, place / "source")
        for name in ("setup.sh", "run_autograder"):  # they stand elsewhere here, and fetch nothing
            text = (place / "source" / name).read_text().replace("/autograder", str(place))
            (place / name).write_text(
                text.replace("./run.sh --setup", f"cp -r '{CHECKOUT}/build' . && {self.MADE_OVER}")
            )
        with tarfile.open(place / "source/checkout.tar") as checkout:
            names = checkout.getnames()
        self.assertIn(f"labs/checks/{NAME}.py", names)
        self.assertEqual([name for name in names if name.startswith((*NOT_SENT, "labs/mine", "build"))], [])
        subprocess.run(["bash", "-c", f"apt-get() {{ :; }}; export -f apt-get; bash {place}/setup.sh"], check=True)
        (place / "results").mkdir()
        results = place / "results/results.json"
        forges = self.forgeries(results, place / "source/labs")["runs"].replace(MARK, MARK + ENDS_ITS_JUDGE)
        for text in forges, SOLUTION:
            (place / "submission").mkdir(exist_ok=True)
            (place / "submission" / self.file.name).write_text(text)
            subprocess.run(["bash", place / "run_autograder"], check=True, stdout=subprocess.DEVNULL)
            points = sum(test["score"] for test in json.loads(results.read_text())["tests"])
        self.assertEqual(points, len(TITLES) - 1)

    # What makes a build that stands elsewhere this checkout's.
    MADE_OVER = 'sed -i "s#^CMAKE_HOME_DIRECTORY.*#CMAKE_HOME_DIRECTORY:INTERNAL=$PWD#" build/CMakeCache.txt'
    MADE_OVER += " && touch build/simulator_is_ready"

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

    @unittest.skipUnless(os.stat("/").st_mode & 0o001, "no other user may enter / here")
    def test_a_checkout_that_is_read_only_through_a_link(self):
        """Where files of the user's own can be written, it works; and what is set up is set up for the real path."""
        link, ready = SCRATCH / "a link", CHECKOUT / "build/simulator_is_ready"
        link.symlink_to(CHECKOUT)
        self.addCleanup(link.unlink)
        subprocess.run(["chmod", "-R", "a-w,a+rX", CHECKOUT], check=True)
        self.addCleanup(ready.touch)
        self.addCleanup(subprocess.run, ["chmod", "-R", "u+w", CHECKOUT], check=True)
        del self.environment["LABS_MINE"]

        def told():
            options = {"cwd": link, "env": self.environment | {"PWD": str(link)}, **NOBODY}
            done = subprocess.run([link / "lab.sh", "01a"], capture_output=True, text=True, **options)
            self.assertEqual(done.returncode, 1)
            self.assertNotIn(str(link), done.stdout + done.stderr)
            return done.stdout + done.stderr

        cannot = "labs/mine/01a_replace_cudamalloc.cu cannot be written: Permission denied\nLABS_MINE names"
        self.assertIn(cannot, told())
        (CHECKOUT / "labs").chmod(0o755)
        (CHECKOUT / "labs/mine").mkdir()
        self.addCleanup(shutil.rmtree, CHECKOUT / "labs/mine")
        (CHECKOUT / "labs/mine").chmod(0o777)
        self.assertRegex(told(), r"\nlabs/mine/01a_replace_cudamalloc.cu:\d+\n +CHECK")
        (CHECKOUT / "build").chmod(0o755)
        ready.unlink()
        (CHECKOUT / "build").chmod(0o555)
        self.assertIn(f"no permission to write into {CHECKOUT}: ", told())

    def test_interrupted_and_run_again(self):
        """In the middle of a run the judge is ended, and nothing is left; the next one works."""
        for words, number, status in ((("01a",), signal.SIGINT, 130), (("--all",), signal.SIGTERM, 143)):
            with self.subTest(words=words, signal=number):
                self.write(with_part("  for (;;) pause();\n"))
                process = self.start(*words)
                while NAME[:15] not in [living().get(pid, [""])[0] for pid in descendants(process.pid)]:
                    self.assertIsNone(process.poll())
                    time.sleep(0.02)
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


if __name__ == "__main__":
    unittest.main()
