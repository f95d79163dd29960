# SPDX-License-Identifier: MIT-0
"""./run.sh --view, in a copy of the checkout whose path has a space.

What it does beside `vmmsim view`, which vmmsim/tests/watch_test.py tests: it builds what is missing, and knows the
lessons' programs.
"""

import contextlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

from scripts.view import Checkout
from tests.machines import copy_vmmsim
from vmmsim.built import BUILT
from vmmsim.testing.sample import data_of
from vmmsim.view import watch

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(BUILT["build"])
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
CLOSED = [str(path) for path in [ROOT, *ROOT.parents] if not path.stat().st_mode & 0o001]
NEEDS_NOBODY = pytest.mark.skipif(bool(CLOSED), reason=f"no other user may enter {', '.join(CLOSED)} here")
PROGRAM = f"""#!{sys.executable}
import ctypes, os, sys
ctypes.CDLL("libcuda.so.1").cuInit(0)
print(sys.stdin.read() + repr(sys.argv[1:]) + os.getcwd())
print("error", file=sys.stderr)
"""


@pytest.fixture(autouse=True, scope="module")
def checkout():
    global CHECKOUT, SCRATCH
    SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="watch test "))
    SCRATCH.chmod(0o755)
    CHECKOUT = SCRATCH / "check out"
    ignored = shutil.ignore_patterns("__pycache__", "pictures", "tests")
    for part in ("scripts", "common", "01_vmm_basics"):
        shutil.copytree(ROOT / part, CHECKOUT / part, ignore=ignored)
    for part in ("run.sh", "CMakeLists.txt"):
        shutil.copy2(ROOT / part, CHECKOUT / part)
    (CHECKOUT / "build/bin").mkdir(parents=True)
    shutil.copy2(BUILD / "bin/vmm_basics", CHECKOUT / "build/bin")
    copy_vmmsim(CHECKOUT)
    compiler = re.search(r"^CMAKE_CUDA_COMPILER:\w+=.*$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)[0]
    (CHECKOUT / "build/CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={CHECKOUT}\n{compiler}\n")
    for file in CHECKOUT.glob("build/bin/*"):
        file.touch()
    (CHECKOUT / "build/simulator_is_ready").touch()
    for path in [CHECKOUT, *CHECKOUT.glob("**/")]:
        path.chmod(0o755)
    yield
    shutil.rmtree(SCRATCH)


def tree():
    return {path: path.lstat().st_mtime_ns for path in CHECKOUT.glob("**/*")}


class TestView:
    @pytest.fixture(autouse=True)
    def program(self, checkout):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="a place ", dir=SCRATCH))
        program = self.place / "my program"
        program.write_text(PROGRAM)
        program.chmod(0o755)

    def view(self, *words, status=0, **more):
        """What ./run.sh --view answers."""
        options = {"cwd": self.place, "stdin": subprocess.DEVNULL, "timeout": 60} | more
        command = [CHECKOUT / "run.sh", "--view", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, **options)
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    def expect_view(self, name):
        assert re.search("(?s)^<!doctype html>.*</html>\\s*$", (self.place / name).read_text())

    def test_a_lesson_runs_as_for_the_book(self):
        before = tree()
        done = self.view(CHECKOUT / "build/bin/vmm_basics")
        assert re.search(r"(?s)^\[1\].*\nOK\n$", done.stdout)
        wanted = r"^view: running it as for the book: --gpus 1 .*\nview: \d\d calls of CUDA: open "
        assert re.search(wanted + r"vmm_basics.html in a browser \([\d.]+ KiB\)\n$", done.stderr)
        self.expect_view("vmm_basics.html")
        assert "vmm_basics.cu" in data_of(self.place / "vmm_basics.html")["sources"]
        assert tree() == before

    def test_a_program_may_be_named_by_a_relative_path(self):
        self.view("--output", self.place / "x.html", "build/bin/vmm_basics", cwd=CHECKOUT)
        self.expect_view("x.html")

    def test_streams_and_arguments_are_the_programs(self):
        done = self.view("./my program", "--gpus", "", "a b", stdin=None, input="typed\n")
        assert done.stdout == f"typed\n['--gpus', '', 'a b']{self.place}\n"
        assert "error\n" in done.stderr
        self.expect_view("my program.html")

    @NEEDS_NOBODY
    def test_no_permission_is_told(self):
        self.place.chmod(0o555)
        done = self.view("./my program", status=1, **NOBODY)
        assert done.stderr == "view: no permission to write my program.html: name a file elsewhere with --output\n"
        done = self.view("--record", "x", "./my program", status=1, **NOBODY)
        assert "no permission to write x: name a file elsewhere with --record" in done.stderr

    @NEEDS_NOBODY
    def test_a_checkout_may_be_read_only(self):
        paths = [CHECKOUT, *CHECKOUT.glob("**/")]
        try:
            for path in paths:
                path.chmod(0o555)
            self.place.chmod(0o777)
            self.view(CHECKOUT / "build/bin/vmm_basics", **NOBODY)
            self.expect_view("vmm_basics.html")
            (CHECKOUT / "build/simulator_is_ready").touch()  # the user's own
            os.utime(CHECKOUT / "build/bin/vmm_basics", (1, 1))  # to be built again
            done = self.view(CHECKOUT / "build/bin/vmm_basics", status=1, **NOBODY)
            assert re.search("setup: no permission to write into .*\nview: the set-up did not succeed", done.stderr)
        finally:
            for path in paths:
                path.chmod(0o755)
            (CHECKOUT / "build/bin/vmm_basics").touch()

    def test_help_is_given_and_bad_arguments_refused(self):
        before = tree()
        done = self.view("--help")
        assert done.stdout.startswith("usage: ./run.sh --view [options] PROGRAM")
        assert "h200x2_no_peer" in done.stdout
        done = self.view("--gpus", "x", "./my program", status=2)
        assert "--gpus: 'x' is no number" in done.stderr
        assert (done.stdout, tree()) == ("", before)

    def test_a_lesson_that_is_not_where_it_is_named_is_found(self, monkeypatch):
        for word in ("vmm_basics", "build/bin/vmm_basics"):
            errors = io.StringIO()
            monkeypatch.chdir(self.place)
            with contextlib.redirect_stderr(errors), pytest.raises(SystemExit):
                watch.arguments([word], Checkout())
            assert f"; there is {ROOT}/build/bin/vmm_basics" in errors.getvalue()

    def test_real_asks_the_setup_for_a_recorder(self):
        """The set-up is asked for it; here it can make none."""
        text = "int cuInit(unsigned f) { return 0; } int cuDeviceGetCount(int* n) { return *n = 1, 0; }"
        command = ["cc", "-x", "c", "-", "-shared", "-fPIC", "-o", self.place / "libcuda.so.1"]
        subprocess.run(command, input=text, text=True, check=True)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self.place)}
        environment |= {"PIP_NO_INDEX": "1", "CMAKE_GENERATOR": "none"}
        done = self.view("--real", "./my program", status=1, env=environment)
        assert re.search("(?s)setup: .*view: the set-up did not succeed; its message is above\n$", done.stderr)
