# SPDX-License-Identifier: MIT-0
"""`vmmsim view`, in directories whose names have spaces.

The programs are scripts that call the simulated driver through ctypes.
"""

import contextlib
import fcntl
import gzip
import json
import os
import pathlib
import pickle
import pty
import re
import signal
import subprocess
import sys
import tempfile
import termios
import time

import pytest

from vmmsim.built import BUILT
from vmmsim.testing import sample
from vmmsim.tool import Tool
from vmmsim.view import watch

VMMSIM, CXX = pathlib.Path(BUILT["vmmsim"]), BUILT["cxx"]
sys.dont_write_bytecode = True
BEGIN = f"""#!{sys.executable}
import ctypes, os, signal, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
address = ctypes.c_uint64()
def reserve(size):
    return cuda.cuMemAddressReserve(ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_size_t(0),
                                    ctypes.c_uint64(0), ctypes.c_uint64(0))
reserve(2 << 20)
"""
# With the parts of this build, and this instead of the recorder; and the same in a process of its own.
TOOL = Tool(launcher=VMMSIM, recorder=pathlib.Path("/bin/sh"))
VIEW = f"""
import pathlib, sys
from vmmsim.tool import Tool
from vmmsim.view import watch
sys.exit(watch.main(sys.argv[1:], Tool(launcher=pathlib.Path({str(VMMSIM)!r}))))
"""
COMMAND = [sys.executable, "-B", "-c", VIEW]


class TestView:
    @pytest.fixture(autouse=True)
    def place_of_its_own(self, capfd, monkeypatch):
        with tempfile.TemporaryDirectory(prefix="a place ") as place, contextlib.ExitStack() as self.ends:
            self.place, self.printed, self.patch = pathlib.Path(place), capfd, monkeypatch
            monkeypatch.chdir(place)
            yield
            monkeypatch.undo()

    def view(self, *words, status=0):
        """What `vmmsim view` prints, in this process: (out, err)."""
        self.printed.readouterr()
        try:
            ended = watch.main([str(word) for word in words], TOOL)
        except SystemExit as error:  # bad arguments
            ended = error.code
        printed = self.printed.readouterr()
        assert ended == status, printed
        return printed

    def script(self, body="", name="my program"):
        program = self.place / name
        program.write_text(BEGIN + body)
        program.chmod(0o755)
        return f"./{name}"

    def html(self, name="my program.html"):
        text = (self.place / name).read_text()
        assert re.search("(?s)^<!doctype html>.*</html>\\s*$", text)
        return text

    def files(self):
        return sorted(path.name for path in self.place.iterdir())

    def recorded(self, body=""):
        self.view("--record", "it.jsonl", self.script(body))
        return self.place / "it.jsonl"

    def test_options_choose_the_machine(self, subtests):
        body = "number = ctypes.c_int(); cuda.cuDeviceGetCount(ctypes.byref(number)); print(number.value)\n"
        program = self.script(body)
        machine = self.place / "mine.conf"
        machine.write_text((Tool.machines / "laptop.conf").read_text().replace("gpus = 1", "gpus = 3"))
        for words, number, where in (
            ([], 8, "8 simulated GPUs"),
            (["--gpus", "5", "--memory", "64MiB"], 5, "5 simulated GPUs"),
            (["--machine", "laptop"], 1, "1 simulated GPU (machine laptop)"),
            (["--machine", "./mine.conf"], 3, "3 simulated GPUs (machine mine)"),
        ):
            with subtests.test(words):
                assert self.view("--record", "it", *words, program).out == f"{number}\n"
                about = json.loads((self.place / "it").read_text().splitlines()[-1])["about"]
                assert (about["where"], about["gpus"], about["command"]) == (where, number, [program])

    def test_one_that_fails_is_shown(self, subtests):
        for body, status, words in (
            ("sys.exit(3)\n", 3, "my program ended with status 3"),
            ("os.kill(os.getpid(), signal.SIGSEGV)\n", 139, "my program was ended by SIGSEGV"),
        ):
            with subtests.test(body):
                done = self.view(self.script(body), status=status)
                assert f"view: {words}\nview: 2 calls of CUDA: open my program.html" in done.err
                self.html()
                (self.place / "my program.html").unlink()

    def test_one_that_calls_nothing_has_no_view(self):
        done = self.view(sys.executable, "-c", "print(1)", status=1)
        assert re.search("^view: python.* made no call of CUDA: there is nothing to show\n$", done.err)
        done = self.view("sh", "-c", "exit 7", status=7)
        assert "sh ended with status 7\nview: sh made no call of CUDA" in done.err
        assert self.files() == []

    # --- Its end

    def start(self, body):
        """A program under `vmmsim view` in a terminal of its own, when it has written that it is there."""
        master, theirs = pty.openpty()
        self.ends.callback(os.close, master)

        def take_the_terminal():
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

        process = self.ends.enter_context(subprocess.Popen(
            [*COMMAND, self.script(body + "time.sleep(1000)\n")],
            cwd=self.place, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, preexec_fn=take_the_terminal,
        ))  # fmt: skip
        os.close(theirs)
        self.ends.callback(self.kill, process.pid)
        return process, master, int(process.stdout.readline())

    def kill(self, group):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)

    def expect_end(self, process, pid, status, words):
        """With these words, a view, and nothing left of the program."""
        assert words in process.communicate(timeout=20)[1]
        assert process.returncode == status
        self.html()
        with pytest.raises(ProcessLookupError):
            for _ in range(100):
                os.kill(pid, 0)
                time.sleep(0.05)

    def test_an_interrupted_program_ends_by_itself_and_is_shown(self):
        body = """
heard, arrived = os.pipe()
os.set_blocking(arrived, False)
signal.set_wakeup_fd(arrived)
is_asked = []
signal.signal(signal.SIGINT, lambda *_: is_asked.append(True))
print(os.getpid(), flush=True)
while not is_asked:
    time.sleep(0.01)
time.sleep(0.3)
reserve(2 << 20)
sys.exit(f"{len(os.read(heard, 100))} times")
"""
        process, terminal, pid = self.start(body)
        os.write(terminal, b"\x03")
        words = "1 times\nview: my program ended with status 1\nview: 3 calls of CUDA: open"
        self.expect_end(process, pid, 1, words)

    def test_one_that_hangs_is_ended_and_shown(self):
        body = "for each in (signal.SIGINT, signal.SIGHUP):\n    signal.signal(each, signal.SIG_IGN)\n"
        body += "print(os.getpid(), flush=True)\n"
        process, terminal, pid = self.start(body)
        os.write(terminal, b"\x03")
        assert process.stderr.readline() == "view: if the program goes on, Ctrl-C again ends it\n"
        os.write(terminal, b"\x03")
        self.expect_end(process, pid, 130, "view: my program was ended by SIGINT\nview: 2 calls of CUDA: open")

    def test_one_that_is_ended_from_outside_is_shown(self, subtests):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            with subtests.test(number):
                process, _, pid = self.start(
                    "signal.signal(signal.SIGINT, signal.SIG_DFL)\nprint(os.getpid(), flush=True)\n"
                )
                process.send_signal(number)
                words = f"my program was ended by {number.name}\nview: 2 calls of CUDA: open"
                self.expect_end(process, pid, 128 + number, words)

    # --- Files

    def test_a_view_is_made_anew_and_other_files_are_kept(self, subtests):
        program = self.script()
        self.view(program)
        (self.place / "my program.html").chmod(0o640)
        self.view(program)
        self.html()
        for words, file in (
            ([], "my program.html"),
            (["--output", "notes"], "notes"),
            (["--record", "notes"], "notes"),
            (["--record", "notes.tar.gz"], "notes.tar.gz"),
        ):
            with subtests.test(words):
                mine = gzip.compress(b"mine\n") if file.endswith("gz") else b"mine\n"
                (self.place / file).write_bytes(mine)
                done = self.view(*words, program, status=1)
                assert re.search(f"^view: {file} is there and is no (view|recording): .* with --", done.err)
                assert (self.place / file).read_bytes() == mine
        done = self.view("--output", ".", program, status=1)
        assert "is no file: name another with --output" in done.err
        done = self.view("--record", "no/file", program, status=1)
        assert "view: there is no directory no\n" in done.err

    def test_no_room_is_told_and_nothing_left(self):
        limit = "ulimit -f 30; trap '' XFSZ; exec \"$@\""
        done = subprocess.run(
            ["sh", "-c", limit, "sh", *COMMAND, self.recorded()],
            cwd=self.place, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 1, done.stderr
        assert "view: it.html cannot be written: File too large\n" in done.stderr
        assert self.files() == ["it.jsonl", "my program"]

    def test_a_view_is_opened_in_the_browser(self):
        browser = self.place / "browser"
        browser.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$PLACE/opened"\nexit ${FAILS:-0}\n')
        browser.chmod(0o755)
        file, path = self.recorded(), self.place / "it.html"
        none = "view: --open: there is no browser, or BROWSER names none that works; open the f"
        for changes, words in (
            ({"BROWSER": f"'{browser}' %s", "PLACE": str(self.place)}, "open it.html in a browser"),
            ({"FAILS": "4"}, none),
            ({"BROWSER": "/no/such", "PATH": str(self.place)}, none),
        ):
            for key, value in changes.items():
                self.patch.setenv(key, value)
            # In a process of its own: which browsers there are is asked for once.
            command = [*COMMAND, "--open", file]
            assert words in subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr
            assert (self.place / "opened").read_text() == f"{path.as_uri()}\n"

    # --- Recordings

    def test_a_view_has_the_name_of_what_it_shows(self):
        """And a recording is one wherever it may be named, as jq -S leaves it, with spaces, compressed or cut off."""
        lines = self.recorded().read_text().splitlines(keepends=True)
        text = "".join(json.dumps(json.loads(line), sort_keys=True) + "\n" for line in lines)
        (self.place / "sorted.jsonl").write_text(text)
        (self.place / "spaced.jsonl").write_text(text.replace("{", "{ "))
        (self.place / "run.jsonl.gz").write_bytes(gzip.compress(text.encode()))
        (self.place / "cut.jsonl").write_text(lines[0] + lines[1][:50])
        (self.place / "below").mkdir()
        for words, name, said in (
            (["run.jsonl.gz"], "run.html", "2 calls of CUDA: open run.html"),
            (["sorted.jsonl", "spaced.jsonl"], "sorted_and_spaced.html", "2 calls of CUDA and 2 calls of CUDA: open"),
            ([sys.executable, self.script(name="train.py")], "train.html", "view: 2 calls of CUDA: open train.html"),
            (["--output", "its name.html", "it.jsonl"], "its name.html", "open its name.html in a browser"),
            (["-o", "below/x.html", "it.jsonl"], "below/x.html", "open below/x.html"),
            (["cut.jsonl"], "cut.html", "1 call of CUDA; the recording was cut off: open cut.html"),
        ):
            assert said in self.view(*words).err
            self.html(name)
        self.view("--record", "sorted.jsonl", self.script())

    def test_a_snapshot_of_pytorch_stands_beside_its_recording(self):
        """Or one line says what is wrong, and no view is made."""
        writer, content = sample.torch_run()
        file = writer.write(self.place / "train.jsonl")
        (self.place / "it.pickle").write_bytes(pickle.dumps(content))
        (self.place / "none.pickle").write_text("text\n")
        for name, words in ("none.pickle", "is no snapshot of PyTorch"), ("gone", "cannot be read: No such file"):
            errors = self.view("--snapshot", name, file, status=1).err
            assert errors.startswith(f"view: {name} {words}") and len(errors.splitlines()) == 1
            assert not (self.place / "train.html").exists()
        self.view("--snapshot", "it.pickle", file)
        assert len(sample.data_of(self.place / "train.html")["torch"]["blocks"]) == 4
        self.view("--svg", "--step", "13", "--snapshot", "it.pickle", file)
        assert "vmm-live" in (self.place / "train.svg").read_text()

    def test_a_step_becomes_a_picture(self):
        """The same drawing as in the view, and by default of the first refusal."""
        file = sample.short().write(self.place / "short.jsonl")
        for words, step in (["--step", "5"], 5), ([], 9):
            self.view("--svg", *words, file)
            text = (self.place / "short.svg").read_text()
            assert text.startswith("<svg ") and "SPDX" not in text, "a licence, which is for whoever made it to give"
            assert f"<title>Step {step}: " in text
            assert "read-write" in text
        for steps in "15", "5-3", "0-2", "5-15":
            assert "there are the steps 1 to 14" in self.view("--svg", "--step", steps, file, status=1).err
        assert "'5-x'" in self.view("--svg", "--step", "5-x", file, status=2).err
        for option in ["--step", "5"], ["--title", "It"], ["--width", "430"]:
            assert "give --svg too" in self.view(*option, file, status=2).err
        assert "of one recording" in self.view("--svg", file, file, status=1).err

    def test_a_picture_of_several_steps(self):
        """What all of them changed is marked, in the state after the last one; above it a title and the calls."""
        file = sample.short().write(self.place / "short.jsonl")
        self.view("--svg", "--step", "3-5", "--title", "This & that", "--width", "430", file)
        picture = (self.place / "short.svg").read_text()
        assert picture.count("This &amp; that</t") == 2 and 'width="430"' in picture
        assert re.search('class="vmm-calls".*>(.*)</text>', picture)[1] == "cuMemCreate, cuMemMap, cuMemSetAccess"
        assert all(f'class="{kind} vmm-new"' in picture for kind in ("vmm-box vmm-gpu0", "vmm-arrow", "vmm-read-write"))
        assert "data-about" not in picture, "what a view says of a part"
        self.view("--svg", "--step", "3-5", file)
        assert "<title>Steps 3 to 5</title>" in (picture := (self.place / "short.svg").read_text())
        assert "vmm-calls" not in picture and "cuMemCreate allocates 2 MiB" in picture
        self.view("--svg", "--step", "5", "--width", "1", file)
        assert "vmm-arrow vmm-new" not in (picture := (self.place / "short.svg").read_text())
        assert 'width="340"' in picture, "narrower than its words"

    def test_two_runs_become_one_page(self):
        """Their timelines above, their views below."""
        one, two = self.place / "one.jsonl", self.place / "two.jsonl"
        sample.timed(3, 1000).write(one)
        sample.timed(6, 1000).write(two)
        done = self.view(one.name, two.name)
        assert "view: 3 calls of CUDA and 6 calls of CUDA: open one_and_two.html" in done.err
        text = (self.place / "one_and_two.html").read_text()
        assert re.findall(r'class="vmm-view" data-key="(\S+)"', text) == ["first-step", "second-step"]
        timelines = re.findall(r'class="vmm-timeline" data-of="([^"]+)"', text.partition('class="vmm-view"')[0])
        assert timelines == ["first-step", "second-step"]
        peaks = "Peaks: GPU 0 2 MiB at step 2 of one and 6 MiB at step 6 of two."
        assert f"view: {peaks}\n" in done.err
        for words in ("<title>Two runs: one and two<", f">{peaks}<"):
            assert words in text, words

    def test_what_is_no_recording_is_told(self, subtests):
        for text, words in (
            ("", "view: it has no call of CUDA: there is nothing to show"),
            ('{"about": {}}\n', "view: it has no call of CUDA: there is nothing to show"),
            ("text\n", "view: it can neither be executed nor be drawn:\nview: it is no recording: line 1 is no JSON"),
            ('{"pid": 1}\n', "view: it is no recording: line 1 is no call; expected the members"),
            ('{"pid": 1, "thr', "view: it has no call of CUDA"),
        ):
            with subtests.test(text):
                (self.place / "it").write_text(text)
                assert words in self.view("it", status=1).err
                assert self.files() == ["it"]

    # --- Arguments

    def test_bad_arguments_are_refused(self, subtests):
        program, file = self.script(), self.recorded()
        (self.place / "plain").write_text("text\n")
        (self.place / "train.py").write_text("print(1)\n")
        (self.place / "it.pickle").write_bytes(pickle.dumps({}))
        kept = self.files()
        for words, said in (
            ([], "name a program, or a recording"),
            (["--"], "name a program, or a recording"),
            (
                ["--gpu", "1", program],
                "vmmsim view: there is no option --gpu; did you mean --gpus? (vmmsim view --help li",
            ),
            (["--zebra", program], "there is no option --zebra (vmmsim view --help lists the options)"),
            (["--machine", "labtop", program], "there is no machine 'labtop'; did you mean laptop?"),
            (["it.pickle"], "goes with a recording: vmmsim view --snapshot it.pickle RECORDING"),
            (["train.py", "--epochs", "3"], "put python3 before it, as in python3 train.py --epochs 3"),
            (["--gpus", "65", program], "--gpus: '65' is no number from 0 to 64"),
            (["--gpus", "", program], "'' is no number"),
            (["--gpus", "x", program], "--gpus: 'x' is no number"),
            (["--memory", "1MB", program], "'1MB' is no size"),
            (["--machine", "none", program], "there is no machine 'none'; there are "),
            (["--machine", "./none", program], "there is no file ./none"),
            (["--real", "--gpus", "1", program], "--gpus is of simulated GPUs"),
            (["--durations", program], "--durations are of real GPUs: give --real too"),
            (["--record", "x", "--output", "y", program], "--record only records"),
            (["--record", "x", "--open", program], "--record only records"),
            (["--record", "x", "--snapshot", "y", program], "--snapshot goes with a view"),
            (["--snapshot", "y", file.name, file.name], "--snapshot is of one run"),
            (["--record", "", program], "--record: name a file"),
            (["--output", "x/", program], "--output: name a file"),
            (["no-such-program"], "there is no program no-such-program on the PATH"),
            (["."], "there is no program ."),
            (["./plain", "1"], "./plain cannot be executed"),
            ([file.name, "-o", "x.html"], "options stand before the recording: vmmsim view -o x.html it.jsonl"),
            ([file.name, "1"], "it.jsonl is a recording, and takes no arguments"),
            (["--gpus", "1", file.name], "it.jsonl is a recording and no program"),
            (["--record", "x", file.name], "it.jsonl is a recording and no program"),
        ):
            with subtests.test(words):
                errors = self.view(*words, status=2).err
                assert re.fullmatch(r"vmmsim view: .* \(vmmsim view --help lists the options\)\n", errors), "one line"
                assert said in errors
                assert self.files() == kept

    # --- Real GPUs

    def driver(self, gpus):
        """From now on a driver of our own counts so many GPUs."""
        text = (
            "int cuInit(unsigned f) { return 0; } int cuDeviceGetCount(int* n) { return *n = GPUS, 0; }"
            'int cuDeviceGetName(char* to, int n, int d) { __builtin_strcpy(to, "NVIDIA H200"); return 0; }'
        ).replace("GPUS", str(gpus))
        command = [CXX, "-x", "c", "-", "-shared", "-fPIC", "-o", self.place / "libcuda.so.1"]
        subprocess.run(command, input=text, text=True, check=True)
        self.patch.setenv("LD_LIBRARY_PATH", str(self.place))

    def test_real_needs_a_gpu(self):
        self.driver(0)
        done = self.view("--real", self.script(), status=1)
        assert re.search(
            r"^view: no GPU here: .* Without --real the program runs on simulated GPUs; or record it on a ", done.err
        )
        assert len(done.err.splitlines()) == 1

    def test_real_leads_to_the_recorder(self):
        """With a program in the place of the recorder: what leads to it, and what comes of it."""
        recorded = "".join(self.recorded().read_text().splitlines(keepends=True)[:2])
        (self.place / "calls").write_text(recorded)
        # It goes elsewhere first, as a program may.
        script = 'cd / && test "$CUDA_INJECTION64_PATH" -ef /bin/sh && cat "$OLDPWD/calls" >> "$VMM_RECORD"; exit 5'
        self.driver(2)
        script = 'test "$VMM_RECORD_DURATIONS" = 1 && ' + script
        self.view("--real", "--durations", "--record", "real.jsonl", "sh", "-c", script, status=5)
        about = json.loads((self.place / "real.jsonl").read_text().splitlines()[-1])["about"]
        assert re.search(r"^2 NVIDIA H200(, driver [\d.]+)?$", about["where"])
        assert (about["gpus"], about["status"]) == (2, 5)
        script = 'test "$VMM_RECORD_DURATIONS" = 0 && cat calls >> "$VMM_RECORD"; kill -SEGV $$'
        done = self.view("--real", "sh", "-c", script, status=139)
        assert "view: sh was ended by SIGSEGV\nview: 2 calls of CUDA: open sh.html" in done.err
