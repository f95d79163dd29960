# SPDX-License-Identifier: MIT-0
"""./lab.sh itself, in a copy of the checkout that has lab 01a alone."""

import contextlib
import csv
import itertools
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

import pytest

from labs.judge import sandbox
from labs.judge.arguments import arguments
from labs.judge.check import ENDED
from labs.judge.files import predicted
from labs.judge.grade import NOT_JUDGED, told_by
from labs.judge.program import ROOT, cached
from labs.judge.verdict import all_labs
from tests.machines import copy_vmmsim
from vmmsim.processes import descendants, living
from vmmsim.testing.sample import data_of

LAB = all_labs()[0]
NAME, TITLES = LAB.name, LAB.titles()
MOST = LAB.minutes  # points
CHECKS, FILE = f"labs/checks/{NAME}.py", f"{NAME}.cu"
SOLUTION, STARTER = LAB.whole_solution(), LAB.starter.read_text()
MARK = "  // >>> your part: make the memory\n"
# It ends its parent and what is above that, from the top.
ENDS_ITS_JUDGE = r"""
  if (std::system("p=$PPID; for i in 1 2 3; do"
                  "  p=$(cut -d' ' -f4 /proc/$p/stat); [ $p -gt 0 ] || break; a=\"$p $a\"; done;"
                  "kill -9 $a")) {}
"""
INCLUDES = "#include <unistd.h>\n#include <cstdlib>\n"
# Root as others are: what it may not write, it doesn't.
WITHOUT_ITS_POWER = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
HOLDS = sandbox.way() == "bubblewrap"


def with_part(text, of=STARTER):
    """The starter, or the solution, with this at the beginning of its first part."""
    return INCLUDES + of.replace(MARK, MARK + text)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def copy(old, new):
    new.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(old, new) if old.is_dir() else shutil.copy2(old, new)


@pytest.fixture(scope="module")
def checkout():
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="labs test "))  # a path with spaces, for all that follows
    scratch.chmod(0o755)
    its = scratch / "check out"
    parts = "lab.sh scripts common CMakeLists.txt labs/__init__.py labs/lab.h labs/judge"
    files = [ROOT / part for part in [*parts.split(), "labs/class", "labs/requirements.txt"]]
    files += [LAB.path, LAB.starter, LAB.solution, LAB.others]
    for file in files:
        copy(file, its / file.relative_to(ROOT))
    copy_vmmsim(its)
    (its / "build/CMakeCache.txt").write_text(
        f"CMAKE_HOME_DIRECTORY:INTERNAL={its}\nCMAKE_CUDA_COMPILER:FILEPATH={cached('CMAKE_CUDA_COMPILER')}\n"
    )
    (its / "build/simulator_is_ready").touch()
    (its / ".venv").symlink_to(ROOT / ".venv")  # in which ./test.sh has put what labs need
    yield its
    subprocess.run(["chmod", "-R", "u+w", scratch], check=True)
    shutil.rmtree(scratch)


class Student:
    """Somebody with a directory for files, and one for temporary files that must be empty afterwards."""

    def __init__(self, checkout):
        self.checkout = checkout
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="a test ", dir=checkout.parent))
        self.mine, self.temporary = self.directory / "my files", self.directory / "temporary"
        self.file = self.mine / FILE
        self.temporary.mkdir()
        for path in (self.directory, self.temporary):
            path.chmod(0o777)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("LABS_")}
        self.environment |= {"LABS_MINE": str(self.mine), "TMPDIR": str(self.temporary)}

    def start(self, *words, through=(), **options):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **options}
        return subprocess.Popen([*through, self.checkout / "lab.sh", *words], **pipes, text=True, env=self.environment)

    def lab(self, *words, status, typed=None, **options):
        """What ./lab.sh prints, which ends with this status."""
        process = self.start(*words, **{"stdin": subprocess.PIPE} if typed else {}, **options)
        output, _ = process.communicate(typed, timeout=120)
        assert process.returncode == status, output
        assert "Traceback" not in output
        return output


@pytest.fixture
def ann(checkout):
    its = Student(checkout)
    yield its
    assert os.listdir(its.temporary) == [], "files are left"


@pytest.fixture
def changed(checkout):
    """What writes a file of the checkout, which stands there again afterwards."""
    with contextlib.ExitStack() as stack:

        def write_anew(name, text):
            stack.callback((checkout / name).write_text, (checkout / name).read_text())
            (checkout / name).write_text(text)

        yield write_anew


# --- A student


def test_a_student_gets_from_the_list_to_a_right_answer(ann):
    assert re.search(r"01a +15  Replace cudaMalloc\n\n0 of 1 are right.\nGo on with ./lab.sh 01a", ann.lab(status=0))
    assert not ann.mine.exists(), "a list makes no files"
    assert "no run of 01a to show yet: ./lab.sh 01a makes one" in ann.lab("view", "01a", status=1)
    output = ann.lab("next", status=1)
    assert "made just now" in output
    assert "  ✓ it is built\n  ✗ no memory comes from cudaMalloc\n  ✗ the granularity is asked" in output
    assert "  - memory is created in whole granules, as few as hold 5 MiB and 1 byte\n" in output
    said = r"01a_replace_cudamalloc.cu:\d+\n +CHECK\(cudaMalloc[\s\S]*Memory then:\n0x[\s\S]* step (\d+)\n"
    step = re.search(said, output)[1]
    assert ann.file.read_text() == STARTER
    assert f"-I{ann.checkout}/labs/starters" in (ann.mine / ".clangd").read_text()
    ann.lab("view", "01a", status=0)
    columns = data_of(ann.file.with_suffix(".html"))["columns"]
    called, (file, *_) = (columns[name][int(step) - 1] for name in ("call", "place"))
    assert (called, file) == ("cudaMalloc", "01a_replace_cudamalloc.cu")
    assert "yours is not right yet" in ann.lab("solution", "01a", status=1)
    assert SOLUTION in ann.lab("solution", "01a", "--yes", status=0)
    ann.file.write_text(SOLUTION)
    assert SOLUTION in ann.lab("solution", "01a", status=0)
    for number, text in ((1, SOLUTION), (2, "another")):
        ann.file.write_text(text)
        ann.lab("reset", "01a", status=0)
        old = ann.file.with_name(f"{FILE}.old.{number}")
        assert (ann.file.read_text(), old.read_text()) == (STARTER, text)


def test_what_is_saved_is_judged(ann):
    """Also if the editor puts another file in its place."""
    write(ann.file, STARTER.replace("bytes));", "bytes))"))
    with ann.start("watch", "01a") as process:
        try:
            said = "".join(itertools.takewhile(lambda line: "Watching " not in line, process.stdout))
            assert re.search(r"✗ it is built\n\n.*\.cu:\d+\n.*\nSyntax error: +expected a \";\"\n\n", said)
            write(ann.mine / "of the editor", SOLUTION).replace(ann.file)
            said = process.stdout.read()
            assert said.count("✓") == len(TITLES)
            assert said.endswith("\nAll are right.\n"), "no other is left to watch"
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_a_prediction_is_asked_for_and_kept(ann):
    """It is asked for before the run, the call before anything is shown; and kept with what came, also in a class."""
    write(ann.file, STARTER)
    said = ann.lab("predict", "01a", status=1, typed="\ncudaMalloc\n\nseven\n99\n3\nno granularity\n")
    assert said.count("The call that it will name") == 2
    assert said.count("The number of the first that does not hold") == 4
    assert said.rindex("The call that it will name") < said.index(TITLES[1])
    assert said.index("What will happen there") < said.index("✗")
    for text in said, (ann.mine / "predictions.txt").read_text():
        assert f"You said: cudaMalloc: {TITLES[2]}\nIt was:   cudaMalloc: {TITLES[1]}\n" in text
    assert "Because:  no granularity\n" in text
    assert "no answer" in ann.lab("predict", "01a", status=1)
    assert predicted("01a", ann.mine) == (1, 0, 1)
    assert predicted("01b", ann.mine) == (0, 0, 0)


def test_one_more_hint_each_time(ann):
    assert [len(re.findall(r"(?m)^- ", ann.lab("hint", "01a", status=0))) for _ in range(2)] == [1, 2]
    write(ann.file, SOLUTION.replace("CHECK(cuMemSetAccess(", "if (0) CHECK(cuMemSetAccess("))
    output = ann.lab("01a", status=1)
    fitting = r"^(.*):\n- A mapping grants nobody access[\s\S]*\n\n- [\s\S]*\n- [\s\S]*\n2 more: "
    title = re.match(fitting, ann.lab("hint", "01a", status=0))[1]
    assert f"✗ {title}\n" in output, "the hint for the check that failed comes first"
    (ann.mine / ".hints/01a").write_text("0 1 2 3 4")
    assert "last hint" in ann.lab("hint", "01a", status=0)
    ann.lab("reset", "01a", status=0)
    assert "4 more" in ann.lab("hint", "01a", status=0)


# --- Arguments


@pytest.fixture
def parsed(monkeypatch, capsys):
    """What the arguments are, of the checkout with all labs; or what is said of them."""

    def of(*words):
        monkeypatch.setattr(sys, "argv", ["lab.sh", *words])
        try:
            return arguments(all_labs())
        except SystemExit as ended:
            assert ended.code == 2
            return capsys.readouterr().err

    return of


def test_labs_are_found_by_parts_of_their_names(parsed, ann):
    for word in ("01a", "1a", "1A", FILE, "01a_rep", "cudaMalloc", f"{LAB.starter}:16"):
        assert parsed(word).lab.number == "01a", word
    assert "'1' fits several labs: 01a Replace cudaMalloc, 01b Move without copying, 01c Repair" in parsed("1")
    assert [lab.number for lab in parsed("--all", "2b,1c", "06a").labs] == ["01c", "02b", "06a"]
    write(ann.file, STARTER)
    assert f"is not judged, but your file in labs/mine: LABS_MINE={ann.mine}" in parsed(str(ann.file))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["09z"], "there is no lab '09z'; there are 01a, 01b"),
        ([""], "there is no lab ''"),
        (["01a", "01a"], "one lab at a time"),
        (["next", "01a"], "next takes no lab"),
        (["hint"], "hint needs the number of a lab"),
        (["watch"], "watch needs the number"),
        (["solution", "12"], "there is no lab '12'"),
        (["--all", "hint", "01a"], "one of these at a time"),
        (["--json", "x"], "--json goes with --all"),
        (["--csv", "x"], "--csv goes with --class"),
        (["--class", "/nonexistent"], "there is no directory /nonexistent"),
        (["gradescope", "01a"], "gradescope needs labs and a file"),
        (["--all", "--gradescope"], "expected one argument"),
        (["01a", "--yes"], "--yes goes with solution"),
        (["hint", "01a", "--real"], "--real does not go with hint"),
        (["01a", "--limit", "0"], "--limit takes 1 to 3600"),
        (["--nonsense"], "unrecognized arguments"),
    ],
)
def test_bad_arguments_are_told(words, said, parsed):
    assert said in parsed(*words)


def test_usage_is_short(ann):
    assert ann.lab("09z", status=2).count("\n") == 2
    assert "usage: ./lab.sh  " in ann.lab("--help", status=0)
    assert not ann.mine.exists()


# --- Points


def test_results_have_the_form_that_is_documented(ann, changed):
    """As JSON, and as Gradescope documents them: tests, each with a name, score, max_score, status and output."""
    text = LAB.path.read_text()
    changed(CHECKS, f"{text}\nPOINTS = {{'it flies': 2}}\n")
    assert "names what is no check: it flies" in ann.lab("--all", status=3)
    changed(CHECKS, f"{text}\nPOINTS = {{'it is built': 0.5}}\n")
    write(ann.file, with_part("  (void)0;\n"))
    output = ann.lab("--all", "1a", "--json", "r.json", "--gradescope", "g.json", status=1, cwd=ann.mine)
    assert f"0 of 1 are right: 0.5 of {MOST + 0.5} points" in output
    told = json.loads((ann.mine / "r.json").read_text())
    assert [told[key] for key in ("passed", "of", "points", "of_points")] == [0, 1, 0.5, MOST + 0.5]
    keys = "number title minutes status failed points of_points checks words seconds code"
    assert (" ".join(told["labs"][0]), told["labs"][0]["status"]) == (keys, "failed")
    its = [check["status"] for check in told["labs"][0]["checks"]]
    assert re.search(r"^(passed )+failed( passed| failed| not reached)+$", " ".join(its))
    told = json.loads((ann.mine / "g.json").read_text())
    assert isinstance(told["execution_time"], int)
    most = [0.5, *(weight for title, weight in LAB.weights().items() if title in TITLES[1:])]
    assert [test["max_score"] for test in told["tests"]] == most
    assert [test["score"] for test in told["tests"]] == [0.5] + [0] * len(TITLES[1:])
    assert [test["status"] for test in told["tests"][:2]] == ["passed", "failed"]
    assert "cudaMalloc was called" in told["tests"][1]["output"]
    assert "failed; ./lab.sh tells more once this is right: no memory comes" in told["tests"][2]["output"]


needs_sandbox = pytest.mark.skipif(not HOLDS, reason="this machine allows no sandbox")


@needs_sandbox
def test_a_class_has_a_line_for_each_student(ann):
    """A line for each student, whatever one of them hands in: it ends nothing, and writes no results."""
    forges = r'std::system("rm -rf \"$PWD\" \"$TMPDIR\"; echo {} > \"$LABS_MINE/../../../grades.csv\"")'
    for who, text in {
        "ann": SOLUTION,
        "ben/labs/mine": with_part(f"  (void)!{forges};\n"),
        "cid": with_part(ENDS_ITS_JUDGE),
        "dot": STARTER,
    }.items():
        write(ann.mine / who / FILE, text)
    said = "You said: none: all holds\nIt was:   none: all holds\n"
    write(ann.mine / "ann/predictions.txt", f"2026-11-29 12:00  01a {LAB.title}\n{said}Because:  it is right\n\n")
    ann.lab("--class", ".", "--csv", "grades.csv", "--limit", "5", status=0, cwd=ann.mine)
    head, first, second, third, last = csv.reader((ann.mine / "grades.csv").read_text().splitlines())
    most = str(MOST)
    assert head == ["student", "points", "of_points", "01a", "01a fails at", "01a predicted"]
    assert first == ["ann", most, most, most, "", "1 calls, 1 checks of 1"]
    assert second == ["ben", "0", most, "0", "no memory comes from cudaMalloc", ""]
    assert third[0] == "cid"
    assert third[4] in ("no memory comes from cudaMalloc", ENDED, "not begun")
    assert last == ["dot", "0", most, "0", "not begun", ""]
    assert "one for each student" in ann.lab("--class", "ann", status=1, cwd=ann.mine)


def test_a_submission_that_never_ends_is_ended():
    """It has stopped its judge: the class goes on, and what it started is ended."""
    stopped = ["sh", "-c", "sleep 1000 & echo {}; kill -STOP $$"]
    with subprocess.Popen(stopped, stdout=subprocess.PIPE, text=True) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        started = descendants(process.pid)
        told = told_by(process, LAB, 0.1)
    assert (told["status"], told["points"], told["failed"]) == ("failed", 0, NOT_JUDGED)
    assert "not through after 0.1 seconds" in told["words"]
    assert started
    assert not set(started) & set(living())


def forgeries(checkout, results, secret):
    """Submissions that are right but for what they try: when they run, and when they are compiled."""
    tries = f"echo forged > '{results}'", f"echo '# forged' >> '{checkout / CHECKS}'", f"cat '{secret}'"
    runs = "".join(f'  if (std::system("{words}")) {{}}\n' for words in tries)
    read = f'asm(".pushsection .rodata\\n.incbin \\"{secret}\\"\\n.popsection");\n'
    return with_part(runs, SOLUTION), with_part(read, SOLUTION)


def succeeded(ann):
    """Which of the forgeries have, in a class."""
    grades, told = ann.mine / "grades.csv", ann.directory / "feedback"
    secret = write(ann.mine / "ann" / FILE, SOLUTION + "// secret\n")
    runs, compiler = forgeries(ann.checkout, ann.mine / "forged.csv", secret)
    write(ann.mine / "runs" / FILE, runs)
    write(ann.mine / "compiler" / FILE, compiler)
    (ann.mine / "link").mkdir()
    (ann.mine / "link" / FILE).symlink_to(secret)
    ann.lab("--class", str(ann.mine), "--csv", str(grades), "--feedback", str(told), "--limit", "10", status=0)
    rows = {row["student"]: row for row in csv.DictReader(grades.read_text().splitlines())}
    assert rows["ann"]["01a"] == rows["ann"]["of_points"]
    forged = {
        "results": (ann.mine / "forged.csv").exists(),
        "checks": "forged" in (ann.checkout / CHECKS).read_text(),
        "answers": "// secret" in (told / "runs.txt").read_text(),
        "compiler": "it is built" not in rows["compiler"]["01a fails at"],
        "link": rows["link"]["01a"] != "0",
    }
    shutil.rmtree(ann.mine)
    return [name for name, is_forged in forged.items() if is_forged]


def test_a_class_needs_a_boundary_between_students(ann, changed):
    """Where all would run as one user, even as another than the judge's, nothing is judged."""
    write(ann.mine / "ann" / FILE, SOLUTION)
    path = "labs/judge/sandbox.py"
    for way in "", "user":
        changed(path, f"{(ROOT / path).read_text()}\n\ndef way():\n    return {way!r}\n")
        output = ann.lab("--class", ".", "--csv", "grades.csv", status=1, cwd=ann.mine)
        assert "no sandbox between submissions" in output
        assert "install bubblewrap" in output
        assert not (ann.mine / "grades.csv").exists()


@needs_sandbox
def test_five_forgeries_fail(ann, changed):
    """None succeeds; without the boundary they do, but for what the compiler is to read: a part has no such asm."""
    assert succeeded(ann) == []
    for path, text in {
        CHECKS: "",
        "labs/judge/sandbox.py": "\n\ndef way():\n    return ''\n",
        "labs/judge/grade.py": "\n\ndef leads_out(*_):\n    return False\n",
        "labs/judge/files.py": "\n\ndef leads_out(*_):\n    return False\n",
    }.items():
        its = (ann.checkout / path).read_text().replace('sandbox.way() != "bubblewrap"', "False")
        changed(path, its + text)
    assert succeeded(ann) == ["results", "checks", "answers", "link"]


@pytest.fixture
def place():
    """Of an autograder: a path without spaces."""
    with tempfile.TemporaryDirectory(prefix="autograder") as its:
        os.chmod(its, 0o755)
        yield pathlib.Path(its)


def test_an_autograder_grades(ann, place):
    """Unpacked and set up as Gradescope does it, with what is built here; a forgery and an honest file then."""
    ann.mine.mkdir()
    packed = ann.mine / "it.zip"
    ann.lab("gradescope", "1a", str(packed), status=0)
    shutil.unpack_archive(packed, place / "source")
    # The scripts stand elsewhere here, fetch nothing, and the build is made this checkout's.
    made_over = 'sed -i "s#^CMAKE_HOME_DIRECTORY.*#CMAKE_HOME_DIRECTORY:INTERNAL=$PWD#" build/CMakeCache.txt'
    made_over = (
        f"cp -rP '{ann.checkout}/build' '{ann.checkout}/.venv' . && {made_over} && touch build/simulator_is_ready"
    )
    for name in ("setup.sh", "run_autograder"):
        text = (place / "source" / name).read_text().replace("/autograder", str(place))
        (place / name).write_text(text.replace("./lab.sh > /dev/null", made_over))
    with tarfile.open(place / "source/checkout.tar") as checkout:
        names = checkout.getnames()
    assert CHECKS in names
    unwanted = "labs/solutions", "labs/mine", "build"
    assert [name for name in names if name.startswith(unwanted)] == []
    subprocess.run(["bash", "-c", f"apt-get() {{ :; }}; export -f apt-get; bash {place}/setup.sh"], check=True)
    (place / "results").mkdir()
    results = place / "results/results.json"
    runs, _ = forgeries(ann.checkout, results, place / "source/labs")
    for text in runs.replace(MARK, MARK + ENDS_ITS_JUDGE), SOLUTION:
        write(place / "submission" / FILE, text)
        subprocess.run(["bash", place / "run_autograder"], check=True, stdout=subprocess.DEVNULL)
        points = sum(test["score"] for test in json.loads(results.read_text())["tests"])
    assert points == MOST


# --- What is not as it should be


def test_a_file_that_is_missing_is_told(ann, changed):
    changed(f"labs/starters/{FILE}", "")
    (ann.checkout / "labs/starters" / FILE).unlink()
    assert re.search(rf"No such file.*{FILE}'; git status shows", ann.lab("01a", status=1))


def test_a_file_that_is_none_is_told(ann):
    ann.file.mkdir(parents=True)
    assert "is no file" in ann.lab("01a", status=1)
    assert "not begun" in ann.lab("--all", status=1)


def test_real_needs_a_gpu(ann):
    ann.environment["CUDA_VISIBLE_DEVICES"] = ""  # where there are some
    assert "--real needs a GPU: " in ann.lab("01a", "--real", status=1)


def test_a_directory_that_cannot_be_written_is_told(ann):
    ann.mine.mkdir(mode=0o555)
    said = f"{FILE} cannot be written: Permission denied\nLABS_MINE names another directory"
    assert said in ann.lab("01a", status=1, through=WITHOUT_ITS_POWER)


@pytest.mark.parametrize(("word", "number", "status"), [("01a", signal.SIGINT, 130), ("--all", signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing(word, number, status, ann):
    """In the middle of a run the judge is ended, and nothing is left."""
    write(ann.file, with_part("  for (;;) usleep(1000);\n"))
    process = ann.start(word)
    while NAME[:15] not in [living().get(pid, [""])[0] for pid in descendants(process.pid)]:
        assert process.poll() is None
        time.sleep(0.02)
    started = descendants(process.pid)
    assert len(started) >= 2
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == status, output
    assert "Traceback" not in output
    deadline = time.monotonic() + 20
    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in started):
        assert time.monotonic() < deadline, "processes are left"
        time.sleep(0.02)
