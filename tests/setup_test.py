# SPDX-License-Identifier: MIT-0
"""Tests of ./run.sh: the set-up on machines that lack things, and the running of the lessons.

One lets ./run.sh fetch what is missing in a root directory made for it, where nothing is but git and python3; it
needs root, mmdebstrap, the system's packages and PyPI. The others need no network.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from scripts import lessons, run_lessons
from tests.machines import (
    DEVCONTAINER,
    OFFLINE,
    ROOT,
    Root,
    Skip,
    copy_checkout,
    expect,
    expect_gone,
    hiding,
    need_index,
    need_root,
    run,
    scratch,
    wait_for,
)
from vmmsim.hardware import lacks_driver
from vmmsim.tool import PACKAGE

COMPILER = {"nvcc", "cicc", "ptxas", "fatbinary", "cudafe++", "nvlink", "bin2c", "__nvcc_device_query"}
HOST_COMPILER = {"g++", "gcc", "c++", "cc"}
NOBODY = 65534


# --- the arguments ---------------------------------------------------------------------------------------------------


def test_arguments_are_taken_or_refused():
    done = run("/", ROOT / "run.sh", "--help")
    expect(
        done.returncode == 0 and done.stdout.startswith("usage: ./run.sh [--help] [--sim | --gpu] [--all] [NN ...]"),
        "--help",
        done,
    )
    expect("./run.sh --docs | --notebooks | --setup\n" in done.stdout, "--help does not tell of the book", done)
    expect("./run.sh --view [options] PROGRAM" in done.stdout, "--help does not tell of views", done)
    expect(lessons.lessons()[-1] in done.stdout and not done.stderr, "--help does not name the lessons", done)
    for words in (
        ["9"],
        ["00"],
        ["03", "x"],
        ["--no-such-option"],
        [""],
        ["-1"],
        ["--sim", "--gpu"],
        ["--sim=1"],
        ["--docs", "01"],
        ["--docs", "--sim"],
        ["--setup", "01"],
        ["--notebooks", "--all"],
        ["--all", "--view", "true"],
    ):
        done = run("/", ROOT / "run.sh", *words)
        expect(done.returncode == 2 and "usage: " in done.stderr and not done.stdout, f"bad arguments {words}", done)
    done = run("/", ROOT / "test.sh", "--help")
    expect(done.returncode == 0 and done.stdout.startswith("usage: ./test.sh"), "--help of test.sh", done)


# --- what the end of a program means ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "result", "reason"),
    [
        ("echo 'SKIP: not meant; so'", "OK", ""),
        ("exit 2", "FAIL", "exit status 2"),
        ("kill -SEGV $$", "FAIL", "ended by SIGSEGV"),
        ("echo story; echo 'SKIP: needs 2 GPUs, sees 1; use more'; exit 77", "SKIP", "needs 2 GPUs, sees 1; use more"),
        ("echo 'SKIP: no remedy'; exit 77", "FAIL", "exit status 77 without .*"),
        ("echo 'SKIP: status; of a failure'; exit 1", "FAIL", "exit status 1"),
        ("echo 'x: libcuda.so.1: cannot open shared object file' >&2; exit 127", "SKIP", "no NVIDIA driver .*"),
        ("echo 'x: symbol lookup error: x: undefined symbol: cuMemCreate' >&2; exit 127", "SKIP", ".* too old .*"),
        ("echo 'x: symbol lookup error: x: undefined symbol: curl_init' >&2; exit 127", "FAIL", "exit status 127"),
    ],
)
def test_outcomes_are_told_apart(script, result, reason):
    """A SKIP is one that says what is missing and what lifts it; all else that is not 0 is a failure."""
    got = run_lessons.run(["sh", "-c", script])
    assert got[0] == result
    assert re.fullmatch(reason, got[1])


def test_outcomes_of_no_program_are_failures():
    result, reason, _ = run_lessons.run(["/there/is/no/such/program"])
    assert result == "FAIL"
    assert "program cannot be started: No such file" in reason


# --- the running of the lessons, with scripts in the place of programs -----------------------------------------------


@contextlib.contextmanager
def checkout_of(**scripts):
    with scratch() as directory:
        shutil.copytree(ROOT / "scripts", directory / "scripts")
        (directory / "build" / "bin").mkdir(parents=True)
        for number, (name, script) in enumerate(scripts.items(), 1):
            lesson = directory / f"{number:02}_{name}"
            lesson.mkdir()
            (lesson / f"{name}.cu").touch()
            (lesson / "lesson.json").write_text("{}")
            program = directory / "build" / "bin" / name
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
        yield directory


def start_scripts(directory, how=("-m", "scripts.run_lessons"), **streams):
    return subprocess.Popen([sys.executable, "-B", *how], cwd=directory, text=True, **streams)


def run_scripts(directory, *words, environment=None):
    return run(directory, sys.executable, "-B", "-m", "scripts.run_lessons", *words, environment=environment, limit=60)


def driver(directory, init, count):
    """The environment in which a driver of our own answers cuInit so, and counts so many GPUs."""
    if not shutil.which("g++"):
        raise Skip("no g++ on the PATH; install it, or run ./run.sh")
    library = (
        f"int cuInit(unsigned flags) {{ return {init}; }} int cuDeviceGetCount(int* n) {{ return *n = {count}, 0; }}"
    )
    subprocess.run(
        ["g++", "-x", "c", "-", "-o", directory / "libcuda.so.1", "-shared", "-fPIC"],
        input=library,
        text=True,
        check=True,
    )
    return {**os.environ, "LD_LIBRARY_PATH": str(directory)}


VMMSIM = 'test "$1 $2" = "--strict --gpus" && SIMULATED=$3 && export SIMULATED && shift 3 && exec "$@"'
NEEDS_TWO = 'test "$SIMULATED" = 8 && echo OK && exit; echo "SKIP: needs 2 GPUs, sees 1; buy one"; exit 77'
GOOD = 'echo "one ${SIMULATED:-real}"; echo OK'


def test_table_has_each_lesson():
    """On GPUs, and on the simulator what was skipped there; with --all the second programs too."""
    with checkout_of(good=GOOD, two=NEEDS_TWO) as directory:
        (directory / "02_two" / "another.cu").touch()
        (directory / "02_two" / "lesson.json").write_text('{"programs": {"another": {"simulated": "--less"}}}')
        for name, script in (("vmmsim", VMMSIM), ("another", 'echo "another $1"; exit 1')):
            program = directory / "build" / "bin" / name
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
        one_gpu = driver(directory, 0, 1)
        done = run_scripts(directory, environment=one_gpu)
        expect(done.returncode == 0, "the status", done)
        wanted = (
            r"\n01_good +1 GPU +OK .*\n02_two +1 GPU +SKIP .* needs 2 GPUs, sees 1\n +to lift it: buy one\n"
            r"02_two +8 simulated GPUs +OK .*\n\nThere are other programs, which --all runs too: 02 another\.\n"
            r"\nNext, .*: +01_good/README\.md\n.*: +\./run\.sh --view build/bin/good\n$"
        )
        expect(re.search(wanted, done.stdout), "the table", done)
        done = run_scripts(directory, "--gpu", environment=one_gpu)
        expect("SKIP" in done.stdout and "imulat" not in done.stdout, "--gpu", done)
        done = run_scripts(directory, "--sim", "02_two", "01", "1", environment=one_gpu)
        expect(re.findall("== (.*), .* ==", done.stdout) == ["01_good", "02_two"], "the order", done)
        expect("1 GPU" not in done.stdout, "--sim", done)
        done = run_scripts(directory, "--sim", "2", environment=one_gpu)
        expect(done.stdout.endswith(" ./run.sh --view build/bin/two\n"), "the next step of lesson 02", done)
        done = run_scripts(directory, "--sim", "--all", "2")
        expect(done.returncode == 1 and "\nanother --less\n" in done.stdout, "the other did not run", done)
        expect(re.search(r"\n02_two another +8 sim.* FAIL .* exit status 1\n\nNext", done.stdout), "a failure", done)
    with checkout_of(bad="exit 1", good=GOOD) as directory:
        done = run_scripts(directory, "--gpu", environment=driver(directory, 0, 1))
        expect(done.returncode == 1 and "\n02_good " in done.stdout, "the status, where the last one worked", done)
        expect(done.stdout.endswith(" 02_good/README.md\n"), "the next step, without a simulator", done)
        done = run_scripts(directory, "--gpu", "1", environment=driver(directory, 0, 1))
        expect(done.stdout.endswith(" exit status 1\n"), "a next step, and none has worked", done)


def test_no_gpu_leaves_all_to_the_simulator():
    """Without a GPU the simulator takes all lessons, and the first line says so and why."""
    with checkout_of(good=GOOD, two=NEEDS_TWO) as directory:
        vmmsim = directory / "build" / "bin" / "vmmsim"
        vmmsim.write_text(f"#!/bin/sh\n{VMMSIM}\n")
        vmmsim.chmod(0o755)
        for init, count, why in (
            (34, 1, "there is only the toolkit's stub of a driver"),
            (100, 1, "the NVIDIA driver sees no GPU"),
            (0, 0, "the NVIDIA driver counts no GPU"),
            (999, 1, r"the NVIDIA driver does not start \(error 999\)"),
            ("*(int*)0", 1, r"the NVIDIA driver does not start \(error -11\)"),
        ):
            environment = driver(directory, init, count)
            done = run_scripts(directory, environment=environment)
            first = rf"No GPU here: {why}\. The lessons run on 8 simulated GPUs \(--gpu leaves the simulator out\)\.\n"
            expect(re.match(first, done.stdout) and done.returncode == 0, f"no word of the simulator: {first}", done)
            wanted = r"\n01_good  8 simulated GPUs  OK .*\n02_two   8 simulated GPUs  OK .*\n\nNext"
            expect(re.search(wanted, done.stdout), "the table", done)
        done = run_scripts(directory, "--gpu", "1", environment=environment)
        expect(re.search(r"\n01_good  no GPU  OK", done.stdout) and "imulat" not in done.stdout, "--gpu", done)
        if lacks_driver():
            done = run_scripts(directory, "--gpu")
            why = r"\./run\.sh --gpu: there is no NVIDIA driver .* leave --gpu out.*\n"
            expect((done.returncode, done.stdout) == (1, "") and re.fullmatch(why, done.stderr), "no driver", done)
        simulator = PACKAGE / "simulator"  # what it answers is never taken for a GPU
        if (simulator / "libcuda.so.1").exists():
            environment = {**os.environ, "LD_LIBRARY_PATH": str(simulator), "VMMSIM": "1:1"}
            done = run_scripts(directory, environment=environment)
            expect(
                done.stdout.startswith("No GPU here: the NVIDIA driver does not start"), "the simulator is a GPU", done
            )


def test_live_output_is_shown():
    """Output shows as it is written, not when the program ends."""
    program = f"env -u PYTHONUNBUFFERED {sys.executable} -c 'import time; print(\"early\"); time.sleep(60)'"
    with checkout_of(slow=program) as directory:
        process = start_scripts(directory, stdout=subprocess.PIPE)
        try:
            began = time.monotonic()
            while "early" not in process.stdout.readline():
                expect(process.poll() is None, "it ended")
            expect(time.monotonic() - began < 30, "the output came late")
        finally:
            process.terminate()
            process.wait(30)
            process.stdout.close()


def test_time_limit_ends_a_lesson():
    with scratch() as directory:
        began = time.monotonic()
        script = f"sleep 600 & echo $! > '{directory}/pid'; wait"
        result, reason, seconds = run_lessons.run(["sh", "-c", script], limit=1)
        expect((result, reason) == ("FAIL", "not done after 1 seconds"), f"{result}, {reason}")
        expect(1 <= seconds < 20 and time.monotonic() - began < 20, f"it took {seconds} seconds")
        expect_gone([int((directory / "pid").read_text())])


# On a busy machine a program runs long before its parent knows that it has started.
STARTS_LATE = """
import subprocess, time
from scripts import run_lessons
start = subprocess.Popen.__init__
subprocess.Popen.__init__ = lambda *words, **more: (start(*words, **more), time.sleep(1))[0]
run_lessons.end_with(lambda: run_lessons.run_all(run_lessons.arguments()))
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("how", [("-m", "scripts.run_lessons"), ("-c", STARTS_LATE)], ids=["usual", "late"])
def test_interrupt_ends_all(number, status, how):
    script = "trap '' INT TERM; sleep 600 & echo $! $$ > pids.new; mv pids.new pids; wait"
    with checkout_of(endless=script) as directory:
        process = start_scripts(directory, how, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        wait_for((directory / "pids").exists, "the lesson did not start")
        process.send_signal(number)
        errors = process.communicate(timeout=30)[1]
        assert process.returncode == status
        assert "Traceback" not in errors
        expect_gone([int(pid) for pid in (directory / "pids").read_text().split()])


# --- machines that lack things, with no network ----------------------------------------------------------------------


def as_nobody(directory, environment):
    """What makes root another user, whose the directory then is."""
    if os.getuid():
        return []
    if not shutil.which("setpriv"):
        raise Skip("no setpriv to give up root with; install util-linux")
    if not os.stat("/").st_mode & 0o001:
        raise Skip("no other user may enter / here; chmod 755 /")
    environment["PATH"] = ":".join(part for part in environment["PATH"].split(":") if not part.startswith("/root"))
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", directory], check=True)
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def test_no_compiler_is_told():
    """Without g++ and without root: the line to run. With a g++ that cannot link: the same."""
    with scratch() as directory:
        checkout = copy_checkout(directory / "check out")
        hidden = hiding(directory, HOST_COMPILER | {"sudo"}, HOME="/nonexistent")
        prefix = as_nobody(checkout, hidden)

        def refused():
            done = run(checkout, *prefix, "./run.sh", environment=hidden)
            expect(done.returncode == 1 and "a g++ that works" in done.stderr, "no g++", done)
            if shutil.which("apt-get"):
                line = r"^    apt-get update && apt-get install -y g\+\+ libc6-dev"
                expect(re.search(line, done.stderr, re.MULTILINE), "not the line to run", done)

        refused()
        broken = directory / "broken"
        broken.mkdir()
        (broken / "g++").write_text("#!/bin/sh\necho 'fatal error: cstdio: No such file' >&2\nexit 1\n")
        (broken / "g++").chmod(0o755)
        hidden["PATH"] = f"{broken}:{hidden['PATH']}"
        refused()
        expect(not (checkout / ".venv").exists() and not (checkout / "build").exists(), "something was made")


def test_old_compiler_is_named_and_not_used():
    """An nvcc that is too old is named and not used; and without a package index the message says so."""
    with scratch() as directory:
        checkout = copy_checkout(directory / "check out")
        old = directory / "old" / "nvcc"
        old.parent.mkdir()
        old.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.131'\n")
        old.chmod(0o755)
        hidden = hiding(directory, COMPILER, **OFFLINE)
        in_path = {**hidden, "PATH": f"{old.parent}:{hidden['PATH']}"}
        for environment in (in_path, {**hidden, "CUDACXX": str(old)}):
            done = run(checkout, "./run.sh", environment=environment)
            expect(done.returncode == 1, "it went on", done)
            expect(f"{old} is CUDA 12.4, older than the 12.9" in done.stderr, "the old nvcc is not named", done)
            expect(") could not be fetched: no Python package index" in done.stderr, "what could not be fetched", done)
        expect((checkout / ".venv" / ".unfinished").exists(), "an unfinished .venv does not say so")
        done = run(checkout, "./run.sh", environment={**hidden, "CUDACXX": "/nonexistent/nvcc"})
        expect(done.returncode == 1 and "CUDACXX names /nonexistent/nvcc, which is not" in done.stderr, "CUDACXX", done)
        shutil.rmtree(checkout / ".venv")
        (checkout / ".venv" / "mine").mkdir(parents=True)
        done = run(checkout, "./run.sh", environment=in_path)
        expect(done.returncode == 1 and "was not made by this set-up" in done.stderr, "a .venv of the user's", done)
        expect((checkout / ".venv" / "mine").exists(), "the user's .venv was removed")


# book of setup.sh, with what it calls put away but for a line each on stdout; and where apt-get installs, an em++.
BOOK = """
set -euo pipefail
source '{root}/scripts/setup.sh'
for each in setup lock check_venv get_packages fetch env python3; do eval "$each() {{ :; }}"; done
can_compile() {{ true; }}
build() {{ echo build "$@"; [[ $* != *{fails}* ]] || exit 1; }}
may_install() {{ {may_install}; }}
apt_install() {{ echo install "$@"; ln -s /bin/true em++; }}
book
"""
NONE, LISTINGS = "nothing", "the boxes of Try it here are listings"
VIEWS, WEB, INSTALL = "build views", "build web", "install emscripten"
need_apt = pytest.mark.skipif(not shutil.which("apt-get"), reason="nothing of Debian's can be installed here")


@contextlib.contextmanager
def book_alone(is_there=False, may_install="true", fails=NONE, **variables):
    """The command, and where and in what environment: of this one's variables none that chooses."""
    with scratch() as directory:
        (directory / ".venv" / "bin").mkdir(parents=True)
        for name in [".venv/bin/python3"] + ["em++"] * is_there:
            (directory / name).symlink_to("/bin/true")
        for part in "scripts", "vmmsim":
            (directory / part).mkdir()
            shutil.copy(ROOT / part / "setup.sh", directory / part)
        environment = {**hiding(directory, {"em++"}), "CI": "", "VMM_BOXES": "", **variables}
        environment["PATH"] = f"{directory}:{environment['PATH']}"
        yield ["bash", "-c", BOOK.format(root=directory, may_install=may_install, fails=fails)], directory, environment


@need_apt
@pytest.mark.parametrize(
    ("machine", "done", "told"),
    [
        ({"is_there": True}, [VIEWS, WEB], ""),
        ({"is_there": True, "fails": "web"}, [VIEWS, WEB], LISTINGS),
        ({"is_there": True, "VMM_BOXES": "no"}, [VIEWS], ""),
        ({}, [VIEWS], f"{LISTINGS}: they need emscripten (1 GB), and VMM_BOXES=yes ./run.sh --docs installs it"),
        ({"CI": "true"}, [VIEWS, INSTALL, WEB], "lacks emscripten, for the book (1 GB): installing"),
        ({"CI": "true", "VMM_BOXES": "no"}, [VIEWS], ""),
        ({"VMM_BOXES": "yes"}, [VIEWS, INSTALL, WEB], "lacks emscripten, for the book (1 GB): installing"),
        ({"VMM_BOXES": "yes", "may_install": "false"}, [VIEWS], f"lacks emscripten: {LISTINGS}, unless you install it"),
    ],
    ids=["em++", "fails", "em++_and_no", "none", "in_ci", "in_ci_and_no", "yes", "yes_refused"],
)
def test_boxes_are_built(machine, done, told):
    """./run.sh --docs builds what answers in the book's boxes, with an em++ that it brings where it is told to."""
    with book_alone(**machine) as (command, directory, environment):
        ran = run(directory, *command, environment=environment)
        *lines, end = ran.stdout.splitlines()
        expect(ran.returncode == 0 and lines == done and end.startswith("The book is built"), "the book", ran)
        expect(told in ran.stderr and bool(told) == bool(ran.stderr), "what is told of boxes", ran)


@need_apt
def test_boxes_are_built_for_a_user_who_may_become_root():
    with book_alone(VMM_BOXES="yes") as (command, directory, environment):
        ran = run(directory, *as_nobody(directory, environment), *command, environment=environment)
        expect(ran.stdout.splitlines()[:-1] == [VIEWS, INSTALL, WEB], "the book", ran)


@need_apt
@pytest.mark.parametrize(
    ("answer", "done"),
    [("y\n", [VIEWS, INSTALL, WEB]), ("\n", [VIEWS]), ("no\n", [VIEWS]), ("\x04", [VIEWS])],
    ids=["yes", "return", "no", "end"],
)
def test_who_sits_at_a_terminal_is_asked_for_boxes(answer, done):
    with book_alone() as (command, directory, environment):
        ours, theirs = os.openpty()
        process = subprocess.Popen(
            command, cwd=directory, env=environment, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True
        )
        os.close(theirs)
        asked = ""
        while "[y/N] " not in asked:
            asked += os.read(ours, 1000).decode()
        os.write(ours, answer.encode())
        *lines, end = process.communicate(timeout=60)[0].splitlines()
        os.close(ours)
        assert asked.startswith("setup: install emscripten, 1 GB, ")
        assert lines == done
        assert end.startswith("The book is built")


def test_what_vmm_boxes_may_say():
    with book_alone(VMM_BOXES="maybe") as (command, directory, environment):
        ran = run(directory, *command, environment=environment)
        expect(ran.returncode == 1 and "VMM_BOXES is maybe: it may be yes or no" in ran.stderr, "the value", ran)
        expect(not ran.stdout, "something was done all the same", ran)


def test_book_without_new_views():
    """Where they were not built; where no package can be fetched, the book needs some too, and that was told."""
    with book_alone(fails="views", is_there=True) as (command, directory, environment):
        ran = run(directory, *command, environment=environment)
        expect(ran.returncode == 0 and "the book is built without new views" in ran.stderr, "no views", ran)
        (directory / ".venv" / ".installed").mkdir()
        (directory / ".venv" / ".installed" / "pip.log").write_text("Temporary failure in name resolution\n")
        ran = run(directory, *command, environment=environment)
        expect(ran.returncode == 1 and not ran.stderr and "The book" not in ran.stdout, "no index", ran)


def test_an_index_that_does_not_answer_is_asked_twice():
    """pip would ask six times, for 20 seconds."""
    with scratch() as directory, socket.create_server(("127.0.0.1", 0)) as server:
        asked = []

        def refuse():
            with contextlib.suppress(OSError):
                while True:
                    server.accept()[0].close()
                    asked.append(1)

        threading.Thread(target=refuse, daemon=True).start()
        (directory / "wanted.txt").write_text("# The header\n# Something\nvmm-by-example-has-none==1\n")
        gone = {name: None for name in os.environ if name.startswith("PIP_") or name.lower().endswith("_proxy")}
        index = f"http://127.0.0.1:{server.getsockname()[1]}/simple"
        environment = {**os.environ, **gone, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index}
        environment = {name: value for name, value in environment.items() if value is not None}
        script = f"set -euo pipefail; source '{ROOT}/vmmsim/setup.sh'; fetch wanted.txt"
        done = run(directory, "bash", "-c", script, environment=environment)
        server.shutdown(socket.SHUT_RDWR)
        expect(done.returncode == 1 and len(asked) == 2, f"asked {len(asked)} times", done)
        expect("Something could not be fetched: no Python package index can be reached" in done.stderr, "why", done)


# --- in a bare root --------------------------------------------------------------------------------------------------


def check_run(done):
    """Every lesson worked."""
    expect(done.returncode in (0, 1), "the set-up failed", done)
    names = lessons.lessons()
    end = done.stdout[done.stdout.rindex("\nlesson ") :]
    rows = re.findall(
        r"^(\d\d_\w+) +\d+ (?:simulated )?GPUs? +(OK|SKIP|FAIL) +[\d.]+(?:  (.+)\n +to lift it: (.+))?",
        end,
        re.MULTILINE,
    )
    for name, result, reason, remedy in rows:
        expect(result == "OK" or result == "SKIP" and reason and remedy, f"{name} is {result}", done)
    expect(
        [row[0] for row in rows if row[1] == "OK"] == names, "not every lesson worked, here or on the simulator", done
    )
    expect(done.returncode == 0, "the status", done)


def check_fetched(checkout):
    """The runtime is inside lesson 01, from the fetched toolkit, whose stub of a driver has what programs call."""
    linked = run("/", "ldd", checkout / "build" / "bin" / "vmm_basics").stdout
    expect("libcudart" not in linked, f"the runtime is not inside: {linked}")
    (cuda,) = (checkout / ".venv" / "lib").glob("python3.*/site-packages/nvidia/cu13")
    symbols = run("/", "nm", "-D", "--defined-only", cuda / "lib" / "stubs" / "libcuda.so").stdout.split()
    names = "cuMemCreate cuMulticastBindMem cuMemGetInfo_v2 cuMemcpyDtoH_v2 cuLaunchKernel_ptsz cuLinkCreate_v2"
    for name in names.split():
        expect(name in symbols, f"the stub of libcuda has no {name}")


# Of each kind of test that needs something of the machine, one; and what is built for these.
TESTS_IN_ROOT = (
    "^(check_header|standalone.01_vmm_basics|lint.01_vmm_basics/vmm_basics.cu|build.old_toolkit"
    "|docs.notebook.01_vmm_basics)$"
)
BUILT_IN_ROOT = "vmm_basics check_test"


def book(root):
    """./run.sh --docs where there is no compiler: with no network, with it, and with a page that is wrong."""
    none = root.run("./run.sh --docs", **OFFLINE)
    expect(none.returncode == 1 and "no Python package index can be reached" in none.stderr, "no index", none)
    done = root.run("./run.sh --docs")
    index = f"/root/{root.checkout.name}/build/book/docs/index.html"
    expect(done.returncode == 0 and f"Open {index} in a browser" in done.stdout, "the book", done)
    expect((root.path / index[1:]).exists(), "the book is not where it says", done)
    built = sorted(os.listdir(root.checkout / "build"))
    expect(built == ["book", "class", "notebooks", "vmmsim"], "more than the book was built", done)
    page = root.checkout / "docs" / "index.md"
    right = page.read_text()
    page.write_text(right + "\n[nowhere](no_such_page.md)\n")
    wrong = root.run("./run.sh --docs", **OFFLINE)
    expect(wrong.returncode == 1 and "no_such_page" in wrong.stderr, "a dead link", wrong)
    expect("Open" not in wrong.stdout and "fetching" not in wrong.stderr, "all was done again", wrong)
    page.write_text(right)


# The notebooks' cells in a shell of IPython, which has nothing but what the set-up has brought.
EXECUTE = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        shell.run_cell("".join(cell["source"]), store_history=True).raise_error()
"""


def execute_notebook(root, lesson, **environment):
    """Each of its pictures is drawn: where one can't be, its words say so."""
    command = f"cd build/notebooks && ../../.venv/bin/python3 -c '{EXECUTE}' {lesson}.ipynb"
    done = root.run(command, **environment)
    expect(done.returncode == 0 and done.stdout.count("Reservation ") > 5, f"the notebook {lesson}", done)
    expect("There is no picture" not in done.stdout, f"the notebook {lesson} lacks its pictures", done)


def kill_amid_setup(root, environment):
    """./run.sh is killed while it fetches the toolkit."""
    (root.path / "killed").mkdir()  # for what pip leaves there when it is killed
    first = subprocess.Popen(
        [str(word) for word in root.command("./run.sh", TMPDIR="/killed", **environment)],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:

        def amid():
            return first.poll() is not None or any(root.checkout.glob(".venv/lib/python3.*/site-packages/nvidia"))

        wait_for(amid, "the set-up fetches nothing", 900)
        expect(first.poll() is None, "the set-up ended before it could be killed")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(first.pid, signal.SIGKILL)
        first.wait()


def test_bare_root_is_enough():
    """The book; a set-up that is killed in the middle; run.sh, again with no network, a lab, elsewhere; tests."""
    need_root()
    need_index()
    with scratch() as directory:
        root = Root(directory)
        book(root)
        # Less work for the compilers: one architecture, and a simulator that is not optimised.
        few = {"CUDAARCHS": "90", "CXX": "/quick"}
        (root.path / "quick").write_text('#!/bin/sh\nexec g++ "$@" -O0\n')
        (root.path / "quick").chmod(0o755)
        kill_amid_setup(root, few)
        done = root.run(DEVCONTAINER["postCreateCommand"], **few)  # ./run.sh, and then the notebooks
        expect("the last set-up did not come to its end" in done.stderr, "it did not see that it was interrupted", done)
        for what in ("the CUDA 13.0 compiler (105 MB)", "CMake", "Ninja"):
            expect(f"fetching {what}" in done.stderr, f"{what} was not fetched", done)
        check_run(done)
        notebooks = [f"{name}.ipynb" for name in lessons.lessons()]
        expect(sorted(os.listdir(root.checkout / "build" / "notebooks")) == notebooks, "the notebooks", done)
        execute_notebook(root, notebooks[0].removesuffix(".ipynb"), **few, **OFFLINE)
        again = root.run("./run.sh --sim 01", **few, **OFFLINE)
        expect("fetching" not in again.stderr and "Building" not in again.stdout, "the work was done again", again)
        expect("\n01_vmm_basics  8 simulated GPUs  OK" in again.stdout, "lesson 01, again", again)
        check_fetched(root.checkout)
        first = root.run("./lab.sh", **few)
        expect("fetching libclang" in first.stderr and "Building" not in first.stdout, "the set-up of labs", first)
        lab = root.run("./lab.sh 01a", **few, **OFFLINE)
        expect(lab.returncode == 1 and "cudaMalloc was called" in lab.stdout, "the starter of a lab", lab)
        expect("Building" not in lab.stdout and "fetching" not in lab.stderr, "the work was done again for a lab", lab)
        root.move("moved")
        builds_lesson = "source scripts/setup.sh && prepare 01_vmm_basics"  # not the simulator, which takes long
        moved = root.run(builds_lesson, **few, **OFFLINE)
        expect("configuring it anew" in moved.stderr and moved.returncode == 0, "a moved checkout", moved)
        root.move("check out")  # what was built here is right again
        venv = (root.checkout / ".venv").rename(root.checkout / "venv")
        gone = root.run(builds_lesson, **few, **OFFLINE)
        expect(gone.returncode == 1 and "which is not there: configuring it anew" in gone.stderr, "nvcc is gone", gone)
        shutil.rmtree(root.checkout / ".venv")
        venv.rename(root.checkout / ".venv")

        line = (
            "check_machine && setup {docs,labs,tests}/requirements.txt vmmsim/requirements-{notebooks,tests}.txt && "
            f'build {BUILT_IN_ROOT} -DPython3_EXECUTABLE="$PWD/.venv/bin/python3" && '
            f"ctest --preset all -R '{TESTS_IN_ROOT}'"
        )
        tests = root.run(f"source scripts/setup.sh && {line}", **few)
        names = re.findall(r" Test +#\d+: (\S+) \.+ +Passed", tests.stdout)
        # And docs.notebook.environment, which the notebook's needs.
        expect(tests.returncode == 0 and len(names) == TESTS_IN_ROOT.count("|") + 2, "the tests in the root", tests)
