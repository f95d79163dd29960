# SPDX-License-Identifier: MIT-0
"""Recordings, whole and broken, and the lines of a source."""

import fcntl
import gzip
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import unittest.mock

try:
    import jsonschema
except ModuleNotFoundError:
    jsonschema = None

import pytest

from vmmsim.built import BUILT
from vmmsim.trace import line as lines
from vmmsim.trace import model, places, recording
from vmmsim.trace.recording import Broken, Recording
from vmmsim.view.frames import steps

HERE = pathlib.Path(__file__).resolve().parent

VMMSIM, PROGRAM, CXX = BUILT["vmmsim"], BUILT["recorded"], BUILT["cxx"]
CALL = {
    "pid": 7,
    "thread": 7,
    "number": 1,
    "call": "cuInit",
    "nth": 1,
    "callers": ["program+0x10"],
    "device": -1,
    "arguments": {"Flags": 0},
    "result": "CUDA_SUCCESS",
    "outputs": {},
    "changes": [],
    "explanation": "",
}

PACKED = """def call(function, times):
    for _ in range(times):
        function(None)


def call_twice(function):
    call(function, 2)
"""
# ctypes lets go of Python's lock in each call, and other threads use Python meanwhile.
PYTHON = """import ctypes, pathlib, sys, threading

sys.path.append(str(pathlib.Path(__file__).parent / "site-packages"))
import packed

cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)


def ask(_): return cuda.cuDeviceGetCount(ctypes.byref(ctypes.c_int()))


ask(0)
packed.call_twice(cuda.cuDeviceGetCount)


def ask_often():
    for _ in range(1000):
        ask(0)


threads = [threading.Thread(target=ask_often) for _ in range(3)]
exec("cuda.cuDeviceGetCount(None)")
for thread in threads:
    thread.start()
"""


def changed(**members):
    return json.dumps(CALL | members) + "\n"


class TestRecording:
    @pytest.fixture(autouse=True)
    def recording(self, tmp_path):
        self.scratch = tmp_path
        self.file = tmp_path / "recording"

    def read(self, text):
        self.file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Recording.read(self.file)

    def trace(self, program=PROGRAM):
        subprocess.run([VMMSIM, "--trace", self.file, program], capture_output=True, check=True)
        return self.file.read_bytes()

    # --- Reading

    def test_a_trace_is_read_as_a_recording(self):
        its = Recording.read(self.trace() and self.file)
        assert its.lines[0]["call"] == "cuInit"
        assert (its.about, its.is_cut, its.place(its.lines[0])) == ({}, False, ("", 0, ""))

    def test_a_fault_names_the_launch_of_its_graph(self):
        self.trace(BUILT["recorded_graph"])
        found = steps(Recording.read(self.file))
        first, second = (step for step in found if step.call == "cudaGraphLaunch")
        assert (first.is_launch, second.words) == (
            True,
            "cudaGraphLaunch launches a graph with the kernel fill(int*); it succeeds.",
        )
        told = f"the kernel fill that cudaGraphLaunch launched in step {second.number} went wrong."
        assert found[second.number].words.endswith(told)

    def test_modules_and_unknown_calls_are_read(self):
        its = self.read('{"module": "libx.so", "path": "/x/libx.so"}\n' + changed(call="cuNew"))
        assert (its.modules, len(its.lines)) == ({"libx.so": "/x/libx.so"}, 1)

    def test_what_a_newer_trace_adds_is_passed_over_and_told(self):
        """What is not known is passed over, and said; members may stand in any order."""
        known = {"kind": "release", "order": 1, "handle": 5}
        new = {"kind": "teleport", "order": 2, "size": "far", "to": [1]}
        text = json.dumps(CALL | {"more": 1, "changes": [known, new]}, sort_keys=True) + "\n"
        its = self.read(text + changed())
        assert [line["changes"] for line in its.lines] == [[known], []]
        assert "more" not in its.lines[0]
        assert re.search("^A newer vmmsim .* does not know: more, teleport[.]$", its.missing()[0])
        assert self.read(json.dumps(CALL, sort_keys=True) + "\n").missing() == []
        with pytest.raises(Broken, match="expected changes that have an order"):
            self.read(changed(changes=[{"kind": "map"}, new]))

    def test_a_newer_member_of_a_change_is_passed_over_and_told(self, subtests):
        """Whatever it is: the change is what it was, and the rest is told."""
        known = {"kind": "create", "order": 1, "handle": "0x5", "size": 2, "device": 0, "record": 1, "multicast": False}
        for new in 3, "x", None, [1], -7:
            with subtests.test(new):
                its = self.read(changed(call="cuMemCreate", changes=[known | {"label": new}, {"kind": "teleport"}]))
                assert its.lines[0]["changes"] == [known]
                assert its.missing() == [
                    "A newer vmmsim has made the recording. Passed over is what this one does not know: "
                    "label of create, teleport."
                ]
                machine = model.Machine(strict=False)
                machine.line(its.lines[0])
                assert (machine.doubts, [memory.size for memory in machine.memory]) == ([], [2])

    def test_a_newer_version_is_shown_with_a_warning(self):
        """It is shown, with a warning; where it cannot be read, that is the reason."""
        new = changed(version=lines.VERSION + 1)
        says = f"it is a trace of version {lines.VERSION + 1}, and this vmmsim knows version {lines.VERSION}"
        assert self.read(new + changed()).missing()[0].startswith(f"What is shown may be wrong: {says}: ")
        with pytest.raises(Broken, match=f"line 2 is no call; expected nth as a number; {says}"):
            self.read(new + changed(nth="first"))
        with pytest.raises(Broken, match="expected nth as a number$"):
            self.read(changed(nth="first"))
        assert self.read(changed(version=lines.VERSION) + changed()).missing() == []
        with pytest.raises(Broken, match="expected the version as a number from 1"):
            self.read(changed(version="new"))

    def test_times_only_go_forward(self):
        """They only go forward, also where a line without one, as of an older recorder, is among the others."""
        timed = [json.dumps({key: (CALL | {"time": time})[key] for key in lines.KEYS}) for time in (2000, 2500, 2400)]
        text = "\n".join([*timed, changed() + timed[0].replace("2000", "3000")]) + "\n"
        assert self.read(text).times() == [0, 500, 500, 500, 1000]
        assert self.read(changed()).times() is None

    def test_half_a_letter_is_shown_as_its_byte(self):
        """As in an argument of a program that is no UTF-8: it could be written nowhere."""
        text = "a\udcf6b\ud800c\U0001f600\\"
        shown = "a\\xf6b?c\U0001f600\\"
        its = self.read(changed(explanation=text, callers=["\udcf6+0x1"], fault={"where": "", "why": ""}))
        assert (its.lines[0]["explanation"], its.exact) == (shown, {"\\xf6+0x1": "\udcf6+0x1"})
        assert (
            self.read(changed(explanation="a?b").encode().replace(b"?", b"\xf6")).lines[0]["explanation"] == "a\\xf6b"
        )

    def test_a_line_that_breaks_off_takes_no_other_along(self, subtests):
        """A writer was killed in the middle of a line, and another one goes on: nothing else is lost."""
        whole, other = changed(pid=1), changed(pid=2)
        for size in (1, 2, 4, 6, 7, 40, len(whole) - 2):
            with subtests.test(size):
                its = self.read(other + whole[:size] + other + whole)
                assert [line["pid"] for line in its.lines] == [2, 2, 1]
                assert (its.torn, its.is_cut) == ([2], False)
                assert re.search("^Line 2 of the recording breaks off: .* Its call is missing.$", its.missing()[0])
        its = self.read((whole[:40] + other) * 5 + whole[:30] + whole[:50] + other + whole[30:] + whole[:9])
        assert ([line["pid"] for line in its.lines], its.torn) == ([2] * 6, [1, 2, 3, 4, 5, 6, 7])
        assert "Lines 1, 2, 3 and 4 more of the recording break off" in its.missing()[0]
        assert "is cut off" in its.missing()[1]

    def test_the_rest_of_a_line_alone_is_refused(self):
        with pytest.raises(Broken, match="line 2 is no JSON"):
            self.read(changed() + changed()[40:])

    def test_an_empty_recording_is_read(self):
        its = self.read("")
        assert (its.lines, its.is_cut) == ([], False)

    def test_a_last_line_that_is_cut_is_told(self):
        its = self.read(changed() * 2 + changed()[:40])
        assert (len(its.lines), its.is_cut) == (2, True)

    def test_a_last_line_may_lack_its_end(self):
        its = self.read(changed() + changed()[:-1])
        assert (len(its.lines), its.is_cut) == (2, False)

    def test_a_compressed_recording_is_read(self):
        text = gzip.compress((changed() * 3000).encode())
        assert len(self.read(text).lines) == 3000
        its = self.read(text[: len(text) // 2])
        assert its.is_cut and 0 < len(its.lines) < 3000
        with pytest.raises(Broken, match="cannot be decompressed"):
            self.read(text[:200] + bytes(100) + text[300:])

    def test_what_is_no_recording_is_refused(self, subtests):
        for text, words in {
            "no JSON\n": "line 1 is no JSON; expected an object",
            "no JSON": "line 1 is no JSON",
            b"\x7fELF\x02\x01\x00\xff\n": "line 1 is no JSON",
            "[" * 100_000 + "\n": "line 1 is no JSON",
            changed() + "\n": "line 2 is no JSON",
            changed() + "[]\n": "line 2 is no object",
            changed() + "{}\n": "line 2 is no call; expected the members pid, .*; missing is pid, ",
            json.dumps({key: CALL[key] for key in CALL if key != "explanation"}) + "\n": "missing is explanation$",
            changed(pid="7"): "expected pid as a number",
            changed(pid=True): "expected pid as a number",
            changed(call=None): "expected call as a text",
            changed(arguments=[]): "expected arguments as an object",
            changed(callers=[1]): "expected texts as the callers",
            changed(changes=[1]): "expected changes that have a kind",
            changed(changes=[{"kind": "map"}]): "expected changes that have an order",
            changed(changes=[{"kind": "map", "order": 1, "size": -1}]): "expected size of a change as a number",
            changed(fault={"where": "", "address": "5", "why": ""}): "expected an address of a fault, or null",
            changed(changes=[{"kind": "map", "order": 1, "handle": "0xg"}]): "expected handle of a change as a number",
            changed(changes=[{"kind": "map", "order": 1, "address": []}]): "expected address of a change as a number",
            '{"module": "libx.so"}\n': "line 1 tells of a module; expected",
            '{"about": 1}\n': "line 1 says what the recording is about; expected an object",
            '{"about": {"gpus": "1"}}\n': "expected gpus as a number",
            '{"about": {"command": [1]}}\n': "expected words as the command",
            '{"about": {"sources": {"x.cu": 1}}}\n': "expected a text as the source x.cu",
            '{"about": {"places": {"x+0x1": [["x.cu", "1", ""]]}}}\n': "as the places of x",
            '{"about": {"gpus": 1}}\n' * 2: "line 2 is a second one",
        }.items():
            with subtests.test(text[:60]), pytest.raises(Broken, match=f"{self.file} is no recording: .*{words}"):
                self.read(text)

    def test_what_cannot_be_read_is_refused(self):
        with pytest.raises(Broken, match="cannot be read: No such file"):
            Recording.read(self.scratch / "none")
        with pytest.raises(Broken, match="cannot be read: Is a directory"):
            Recording.read(self.scratch)

    # --- After a run

    def test_its_end_says_what_was_run_and_has_the_source(self, subtests):
        text = self.trace()
        assert recording.finish(self.file, [PROGRAM], "8 simulated GPUs", 8, 3) == []
        assert self.file.read_bytes().startswith(text)
        its = Recording.read(self.file)
        about = its.about
        assert (about["command"], about["where"], about["gpus"]) == ([PROGRAM], "8 simulated GPUs", 8)
        assert (about["status"], its.is_cut) == (3, False)
        assert about["sources"] == {"recorded.cu": (HERE / "recorded.cu").read_text()}
        for line in its.lines[:-1]:  # the last is the exit; in the line that is told stands the call
            with subtests.test(line):
                file, number, function = its.place(line)
                assert function
                text = its.source(file).splitlines()[number - 1]
                assert ("<<<" if line["call"] == "cudaLaunchKernel" else line["call"].partition("_")[0]) in text

    def test_who_called_a_function_that_calls_is_told(self):
        self.file.write_text(changed(callers=["own+0x10", "own+0x20", "own+0x30"]))
        told = {
            "own+0x10": [["check.h", 3, "check"], ["own.cu", 7, "f"]],
            "own+0x20": [["own.cu", 9, "g"]],
            "own+0x30": [["", 0, "run"], ["own.cu", 11, "main"]],
        }
        line = json.dumps({"about": {"places": told, "sources": {"check.h": "it", "own.cu": "it"}}})
        recording.append(self.file, line + "\n", False)
        its = Recording.read(self.file)
        assert its.place(its.lines[0]) == ("check.h", 3, "check")
        assert its.led_there(its.lines[0]) == ["own.cu:7", "own.cu:9", "own.cu:11"]

    def test_long_names_of_functions_are_shortened(self, subtests):
        long = "c10::cuda::Native::(anonymous namespace)::ExpandableSegment::map"
        for name, shown in (
            ("f(int)", "f(int)"),
            (f"{long}(c10::SegmentRange<int (*)(int)>, std::shared_ptr<c10::Gathered", f"{long}(...)"),
            (f"{long}::operator()(int) const", f"{long}::operator()(...)"),
            (f"{long}", f"{long}"),
            (f"void {long}<int (*)(int), std::vector<int> >(std::vector<int>)", f"void {long}<...>(...)"),
            ("(" * 100, "((...)"),
        ):
            with subtests.test(name):
                assert recording.shortened(name) == shown

    def test_a_cut_one_is_ended(self, subtests):
        text = self.trace()
        for size, block in ((0, 1 << 20), (150, 64)):
            with subtests.test(size):
                self.file.write_bytes(text + changed()[:size].encode())
                longest, recording.LONGEST_LINE = recording.LONGEST_LINE, max(block, 20_000)
                recording.append(self.file, '{"about": {}}\n', bool(size))
                recording.LONGEST_LINE = longest
                assert self.file.read_bytes() == text + b'{"about": {}}\n'
        self.file.write_bytes(text + b'{"pid": 1')
        recording.finish(self.file, [PROGRAM], "", 1, 0)
        its = Recording.read(self.file)
        assert (len(its.lines), its.is_cut, its.about["status"]) == (text.count(b"\n"), True, 0)

    # --- Writing

    def simulated(self, script, trace, *words, **options):
        script = "import ctypes, os, resource, signal\ncuda = ctypes.CDLL('libcuda.so.1')\n" + script
        command = [VMMSIM, "--trace", trace, sys.executable, "-c", script, *words]
        done = subprocess.run(command, capture_output=True, timeout=60, **options)
        assert done.returncode == 0, done.stderr
        return done.stderr.decode()

    def test_a_full_disk_ends_the_trace_and_not_the_program(self):
        said = self.simulated("for _ in range(9): cuda.cuInit(0)", "/dev/full")
        why = "No space left on device"
        assert said == f"vmmsim: cannot write the trace: {why}: it ends here, and the program goes on\n"

    def test_a_file_that_may_not_grow_ends_the_trace_and_not_the_program(self):
        """The part of a line that had room is there, and the signal does not end the program."""
        script = "cuda.cuInit(0)\nsize = os.stat(os.sys.argv[1]).st_size + 100\n"
        script += (
            "resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
        )
        said = self.simulated(script + "for _ in range(9): cuda.cuDeviceGetCount(None)", self.file, self.file)
        assert said.count("\n") == 1, said
        assert "cannot write the trace: File too large" in said
        its = Recording.read(self.file)
        assert ([line["call"] for line in its.lines], its.is_cut) == (["cuInit"], True)

    def test_a_file_in_the_place_of_the_trace_gets_no_line(self):
        """The program's own file gets none of the lines."""
        own = self.scratch / "own"
        script = """
cuda.cuInit(0)
fd, = [fd for fd in range(3, 1024) if os.path.realpath(f"/proc/self/fd/{fd}") == os.sys.argv[1]]
os.close(fd)
assert os.open(os.sys.argv[2], os.O_WRONLY | os.O_CREAT) == fd
for _ in range(3): cuda.cuDeviceGetCount(None)
"""
        said = self.simulated(script, self.file, os.path.realpath(self.file), own)
        assert (said.count("\n"), "the program has closed its file" in said) == (1, True), said
        assert own.read_bytes() == b""

    def test_signals_tear_no_line(self):
        """What a handler interrupts goes on where it was: here in a pipe that has less room than a line."""
        os.mkfifo(self.file)
        text = []

        def read():
            with open(self.file, "rb") as pipe:
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
                text.append(pipe.read())

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        script = "signal.signal(signal.SIGALRM, lambda *_: None)\nsignal.setitimer(signal.ITIMER_REAL, 5e-4, 5e-4)\n"
        script += "for _ in range(300): cuda.cuModuleLoad(None, b'n' * 40_000)\nsignal.setitimer(signal.ITIMER_REAL, 0)"
        said = self.simulated(script, self.file)
        reader.join(timeout=60)
        self.file.unlink()
        lines = self.read(text[0]).lines
        assert (said, [line["number"] for line in lines]) == ("", list(range(1, len(lines) + 1)))
        assert len(lines) == 300

    def test_without_its_end_it_gets_one(self):
        self.file.write_text(changed()[:-1])
        recording.finish(self.file, ["no-such-program"], "", 1, 0)
        assert len(Recording.read(self.file).lines) == 1

    def test_without_room_the_trace_stays_as_it_was(self):
        text = self.trace()
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(text) + 100, before[1]))
        try:
            with pytest.raises(OSError):
                recording.finish(self.file, [PROGRAM], "", 1, 0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        assert self.file.read_bytes() == text

    # --- Lines of the source

    def build(self, text, *options):
        source, program = self.scratch / "own.cc", self.scratch / "own"
        source.write_text(text)
        subprocess.run([CXX, *options, source, "-o", program], check=True)
        return program

    def offsets(self, program):
        done = subprocess.run(["nm", "-C", program], capture_output=True, text=True, check=True)
        words = [line.split(" ", 2) for line in done.stdout.splitlines()]
        return {name: int(address, 16) for address, _, name in words if address}

    def test_a_program_at_a_fixed_address_has_lines(self):
        program = self.build("int f() {\n  return 3;\n}\nint main() { return f(); }\n", "-g", "-no-pie")
        done = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True)
        first = int(next(line.split()[2] for line in done.stdout.splitlines() if line.split()[:1] == ["LOAD"]), 16)
        assert first > 0
        at = self.offsets(program)["f()"] - first
        assert places.places(program, [at]) == {at: [(str(self.scratch / "own.cc"), 1, "f()")]}

    def test_without_debug_lines_functions_have_names(self):
        shown = '__attribute__((visibility("default"), noinline))'
        text = f"{shown} int first() {{ return 1; }}\nstatic __attribute__((noinline)) int hidden() {{ return 2; }}\n"
        text += f"{shown} int last() {{ return hidden(); }}\n"
        library = self.build(text, "-shared", "-fPIC")
        its = self.offsets(library)
        wanted = [its["first()"], its["hidden()"], its["last()"]]
        assert [it[0][2] for it in places.places(library, wanted).values()] == ["first()", "hidden()", "last()"]
        subprocess.run(["strip", library], check=True)  # a name of something else would be a guess
        found = places.places(library, wanted)
        assert found == {wanted[0]: [("", 0, "first()")], wanted[2]: [("", 0, "last()")]}

    def test_of_what_is_no_program_no_lines_are_told(self):
        for text in (b"#!/bin/sh\n", b"\x7fELF\x02\x01" + bytes(20), pathlib.Path(PROGRAM).read_bytes()[:5000]):
            self.file.write_bytes(text)
            with pytest.raises(ValueError):
                places.places(self.file, [1])
        self.file.write_text(changed(callers=["own+0x10", "gone+0x10", "unknown", "+0x1", "x+0y"]))
        own = self.scratch / "own"
        own.write_text("no program")
        own.chmod(0o700)
        assert re.search("^no lines of own can be told: ", recording.finish(self.file, [str(own)], "", 1, 0)[0])

    def test_a_module_that_is_gone_is_told(self):
        self.file.write_text('{"module": "libx.so", "path": "/no/libx.so"}\n' + changed(callers=["libx.so+0x10"]))
        wrong = recording.finish(self.file, ["true"], "", 1, 0)
        assert wrong == ["no lines of libx.so can be told: /no/libx.so is gone"]

    def test_missing_addr2line_is_told(self):
        program = self.build("int main() { return 0; }\n", "-g")
        self.file.write_text(changed(callers=[f"own+{self.offsets(program)['main'] + 1:#x}"]))
        with unittest.mock.patch.dict(os.environ, {"PATH": "/nonexistent"}):
            wrong = recording.finish(self.file, [str(program)], "", 1, 0)
        assert wrong == ["no lines of own can be told: addr2line is missing: install binutils"]

    def test_the_library_of_a_program_has_lines(self):
        directory = self.scratch / "a directory"
        directory.mkdir()
        (self.scratch / "part.cc").write_text("int part() {\n  return 1; }\n")
        library = directory / "libpart.so"
        subprocess.run([CXX, "-g", "-shared", "-fPIC", self.scratch / "part.cc", "-o", library], check=True)
        options = [library, f"-Wl,-rpath,{directory}"]
        program = self.scratch / "own"
        (self.scratch / "own.cc").write_text("int part();\nint main() { return part(); }\n")
        subprocess.run([CXX, self.scratch / "own.cc", *options, "-o", program], check=True)
        at = self.offsets(library)["part()"] + 1
        self.file.write_text(changed(callers=[f"libpart.so+{at:#x}"]))
        assert recording.finish(self.file, [str(program)], "", 1, 0) == []
        its = Recording.read(self.file)
        assert its.place(its.lines[0]) == ("part.cc", 1, "part()")

    def test_paths_that_are_odd_have_lines(self, subtests):
        """The lines of a program, whether its path is UTF-8 or not."""
        text = """#include <dlfcn.h>
int main() {
  return reinterpret_cast<int (*)(unsigned)>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit"))(0);
}
"""
        for name, shown in (("größe".encode(), "größe"), (b"gr\xf6\xdfe", r"gr\xf6\xdfe")):
            with subtests.test(shown):
                program = os.path.join(os.fsencode(self.scratch), name)
                with open(program + b".cc", "w") as source:
                    source.write(text)
                subprocess.run([CXX, "-g", program + b".cc", "-o", program], check=True)
                subprocess.run([VMMSIM, "--trace", self.file, b"./" + name], check=True, cwd=self.scratch)
                assert recording.finish(self.file, [os.fsdecode(program)], "", 8, 0) == []
                its = Recording.read(self.file)
                assert its.place(its.lines[0]) == (f"{shown}.cc", 3, "main")
                assert its.source(f"{shown}.cc") == text

    @pytest.mark.skipif(
        not (3, 10) <= sys.version_info < (3, 14), reason="of other releases of Python no lines are known"
    )
    def test_a_path_of_python_that_is_odd_has_lines(self):
        program = os.path.join(os.fsencode(self.scratch), b"pr\xfcgel.py")
        with open(program, "w") as source:
            source.write('import ctypes\nctypes.CDLL("libcuda.so.1").cuInit(0)\n')
        subprocess.run([VMMSIM, "--trace", self.file, sys.executable, "-B", program], check=True, timeout=60)
        recording.finish(self.file, [sys.executable, os.fsdecode(program)], "", 8, 0)
        its = Recording.read(self.file)
        assert its.place(its.lines[0]) == (r"pr\xfcgel.py", 2, "<module>")
        assert "cuInit(0)" in its.source(r"pr\xfcgel.py")

    @pytest.mark.skipif(
        not (3, 10) <= sys.version_info < (3, 14), reason="of other releases of Python no lines are known"
    )
    def test_lines_of_python_are_those_of_the_programs_files(self):
        """Those of the program's own files, also where a package called: of packages' only what called CUDA."""
        package = self.scratch / "site-packages"
        package.mkdir()
        (package / "packed.py").write_text(PACKED)
        program = self.scratch / "prügel.py"
        program.write_text(PYTHON)
        subprocess.run([VMMSIM, "--trace", self.file, sys.executable, "-B", program], check=True, timeout=60)
        recording.finish(self.file, [sys.executable, str(program)], "", 8, 0)
        its = Recording.read(self.file)
        calls = [line for line in its.lines if line["call"] == "cuDeviceGetCount"]
        lines, functions = ([place[at] for place in map(its.place, calls)] for at in (1, 2))
        assert lines == [10, 14, 14, 23, *[10] * 3000]
        assert functions[:4] == ["ask", "<module>", "<module>", "<module>"]
        assert [its.led_there(call) for call in calls[:2]] == [["prügel.py:13"], []]
        assert its.about["sources"] == {"prügel.py": PYTHON}
        assert [each for each in calls[1]["callers"] if "packed.py" in each] == [f"{package}/packed.py:3:call"]

    def test_a_source_that_was_changed_is_told(self):
        program = self.build("int f() {\n  return 3;\n}\nint main() { return f(); }\n", "-g")
        os.utime(self.scratch / "own.cc", (2e9, 2e9))
        self.file.write_text(changed(callers=[f"own+{self.offsets(program)['f()'] + 1:#x}"]))
        assert re.search("own.cc is newer than the program", recording.finish(self.file, [str(program)], "", 1, 0)[0])
        assert "own.cc" in Recording.read(self.file).about["sources"]

    def test_names_that_are_the_same_get_a_directory(self):
        paths = ["/a/b/x.cu", "/a/c/x.cu", "/a/y.cu", "x.cu"]
        assert recording.short_names(paths) == {
            "/a/b/x.cu": "b/x.cu",
            "/a/c/x.cu": "c/x.cu",
            "/a/y.cu": "y.cu",
            "x.cu": "x.cu",
        }

    def test_sources_are_bounded(self):
        large, small = self.scratch / "large.cu", self.scratch / "small.cu"
        large.write_bytes(bytes(recording.MOST_SOURCE + 1))
        small.write_text("it")
        its = recording.read_sources({str(large): "large.cu", str(small): "small.cu", "/no/file": "file"})
        assert its == {"small.cu": "it"}
        header = "/usr/include/stdio.h"
        assert recording.read_sources({header: "stdio.h"}) == {}


"""What reads a line, what writes it and the page that tells of it have the members and kinds of schema.json."""


@pytest.mark.skipif(not jsonschema, reason="there is no jsonschema")
def test_a_real_trace_is_as_the_schema_says(subtests):
    """It is as the schema says, with the version in its first line; and the schema refuses what is wrong."""
    validator = jsonschema.Draft202012Validator(lines.SCHEMA)
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([VMMSIM, "--trace", file.name, PROGRAM], capture_output=True, check=True)
        traced = [json.loads(line) for line in file]
    assert [error.message for line in traced for error in validator.iter_errors(line)] == []
    assert [line.get("version") for line in traced[:2]] == [lines.VERSION, None]
    assert len({change["kind"] for line in traced for change in line["changes"]}) > 5
    moved = {"kind": "map", "order": 1, "address": "0x10", "size": 1}
    for wrong in ({"nth": "1"}, {"changes": [moved]}, {"changes": [moved | {"kind": "move"}]}, {"version": 2}):
        with subtests.test(wrong):
            assert not validator.is_valid(CALL | wrong)
    assert validator.is_valid(CALL | {"changes": [moved | {"handle": 1}]})


def test_all_know_the_same_kinds():
    text = (HERE.parent / "trace/line.h").read_text()
    table = re.search(r"string_view kinds\[\] = \{(.*?)\};", text, re.DOTALL)[1]
    assert set(re.findall(r'"(\w+)"', table)) == set(lines.CHANGES)
    assert set(model.HANDLERS) == set(lines.CHANGES)


def test_all_know_the_same_members():
    text = (HERE.parent / "trace/line.cc").read_text()
    format = "".join(re.findall(r'R"\((.*?)\)"', text[text.index("std::snprintf") :], re.DOTALL))
    assert re.findall(r'"(\w+)":', format) == list(lines.KEYS)
    version = re.search(r'char version\[\] = "(\d+)";', (HERE.parent / "trace/line.h").read_text())[1]
    assert version == str(lines.VERSION)


def test_the_page_has_each_member_and_kind():
    """README.md has each member and each kind."""
    text = (HERE.parent / "trace/README.md").read_text()
    rows = set(re.findall(r"`(\w+)`", "".join(re.findall(r"(?m)^\|([^|]*)\|", text))))
    assert rows == {*lines.KEYS, *lines.CHANGES, *lines.NO_CALLS, *lines.EXTRA}
