# SPDX-License-Identifier: MIT-0
"""libvmm_recorder.so writes what the simulator traces of the same calls.

recorder_calls.cu makes each call on simulated GPUs, and tells the recorder of it as CUPTI would. The lines of both must
be the same, to the letter, but for what a recorder cannot know.
"""

import collections
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest

from vmmsim.built import BUILT
from vmmsim.testing.recorded_names import recorded_names
from vmmsim.trace import captures
from vmmsim.trace.line import EXTRA, KEYS
from vmmsim.trace.recording import Recording
from vmmsim.view.frames import steps

VMMSIM, PROGRAM = BUILT["vmmsim"], BUILT["recorder_calls"]
SAME = "pid", "thread", "call", "nth", "device", "arguments", "result", "outputs", "changes"
# The simulator has no such call, or tells of it when the runtime makes it.
NEVER_COMPARED = {"cuMemMapArrayAsync", "cuMemAllocManaged", "cudaMallocManaged"}


def run(what, recording, *arguments, trace=os.devnull, program=PROGRAM, ends=(0, "done\n")):
    """What was said on stderr, line by line."""
    command = [VMMSIM, "--gpus", "2", "--trace", str(trace), program, what, *map(str, arguments)]
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 60}
    done = subprocess.run(command, env=os.environ | {"VMM_RECORD": str(recording)}, **options)
    if done.returncode == 77:
        pytest.skip(done.stdout)
    assert (done.returncode, done.stdout) == ends, done.stderr
    return done.stderr.splitlines()


def lines_of(path):
    text = path.read_text()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def calls_of(path):
    return [line for line in lines_of(path) if "call" in line]


def known(line):
    """What both know: not the kernels of a graph, whose memory another process's is, where a pool is, when it gives
    memory back, when exported memory is gone."""
    changes, unknown = [], ("order", "record", "identity", "followed")
    for change in (change for change in line["changes"] if change["kind"] != "gone"):
        its = {key: value for key, value in change.items() if key not in unknown}
        if change["kind"] == "open_pool":
            del its["address"]
        if "cuIpcOpenMemHandle" in line["call"] or "cudaIpcOpenMemHandle" in line["call"]:
            del its["size"], its["device"]
        is_late = change["kind"] == "free" and not line["call"].startswith(
            ("cudaFree", "cuMemFree", "cudaIpc", "cuIpc")
        )
        if not is_late and not line["call"].endswith("FreeAsync"):
            changes.append(its)
    arguments = {key: value for key, value in line["arguments"].items() if key != "kernels"}
    result = {key: line[key] for key in SAME} | {"arguments": arguments, "changes": changes}
    if line["call"] == "cuMulticastBindAddr":
        for change in changes:
            del change["device"]
            change.pop("memory", None), change.pop("memory_offset", None), change.pop("address", None)
    return result


@pytest.mark.parametrize("what", ["calls", "multicast"])
def test_the_lines_are_those_of_the_simulator(what, tmp_path):
    recording, trace = tmp_path / "recording", tmp_path / "trace"
    assert run(what, recording, trace=trace) == []
    lines, names = calls_of(recording), recorded_names(always=False)
    # Of the program's own process, without what it asks for beside these calls.
    pids = {line["pid"] for line in lines}
    traced = [json.loads(line) for line in trace.read_text().splitlines()]
    traced = [line for line in traced if line["call"] in names and line["pid"] in pids]
    expected = iter(traced)
    for line in lines:
        assert [key for key in line if key not in EXTRA] == list(KEYS)
        assert line["time"] - 1e6 < line["began"] <= line["time"]
        this = next((it for it in expected if it["call"] == line["call"]), None)
        assert this, f"the simulator traces no such call here: {line}"
        nth = {"nth": 0} if what == "calls" and line["call"] in ("cudaMalloc", "cudaFree") else {}
        assert known(line) | nth == known(this) | nth
        assert line["callers"][0].startswith("recorder_calls+")
        assert line["explanation"] == ""
    assert [line["number"] for line in lines] == list(range(1, len(lines) + 1))
    for times in ([line["time"] for line in these] for these in (lines, traced)):
        assert times == sorted(times)
        assert 0 < times[-1] - times[0] < 60e6
    if what == "calls":  # of four launches in streams three are captured, and one comes after that
        captured, launch = captures.captured(lines), re.compile("cudaLaunchKernel(ExC)?")
        streams = [number in captured for number, line in enumerate(lines, 1) if launch.fullmatch(line["call"])]
        assert streams[-4:] == [True, True, True, False]
        assert "cudaEventRecord" not in {line["call"] for line in lines[: min(captured) - 1]}
    orders = [change["order"] for line in lines for change in line["changes"]]
    assert orders == sorted(set(orders))
    expect_imports_of_exports(lines)
    expect_imports_of_exports(traced)
    module = lines_of(recording)[0]
    assert module["module"] == os.path.basename(PROGRAM)
    assert os.path.samefile(module["path"], PROGRAM)
    wanted = {name for name in names if name.startswith("cuMulticast") == (what == "multicast")}
    assert wanted - {line["call"] for line in lines} - NEVER_COMPARED == set(), "never called"


def expect_imports_of_exports(lines):
    """Each has the identity of an export of the same record, and no other record has it."""
    made, exported, imports = {}, {}, 0
    for change in (change for line in lines for change in line["changes"]):
        if change["kind"] in ("create", "multicast_create"):
            made[change["handle"]] = change["record"]
        elif change["kind"] == "export":
            exported.setdefault(change["identity"], set()).add(made[change["handle"]])
        elif change["kind"] == "import":
            imports += 1
            assert exported.get(change["identity"]) == {change["record"]}
    assert imports or not exported, "what is exported is imported"


def test_a_call_that_never_ends_is_told_before_its_end(tmp_path):
    """Whatever ends the process. One that has come back is not told to wait."""
    recording = tmp_path / "hang"
    command = [VMMSIM, "--gpus", "2", PROGRAM, "hang"]
    with subprocess.Popen(command, env=os.environ | {"VMM_RECORD": str(recording)}) as process:
        deadline = time.monotonic() + 60
        while not (recording.exists() and '"call":"wait"' in recording.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
    recording = Recording.read(recording)
    assert [line["call"] for line in recording.lines] == ["cudaDeviceSynchronize", "wait"]
    wait = recording.lines[-1]
    assert wait["arguments"] == {"call": "cudaDeviceSynchronize", "nth": 2}
    assert (wait["thread"], wait["number"]) == (wait["pid"], 2)
    assert wait["callers"][0].startswith("recorder_calls+")
    assert wait["time"] - wait["began"] >= 1e6
    found = steps(recording)
    assert found.overview.opens_at() == 2
    assert "cudaDeviceSynchronize waits for work of a GPU and has not ended" in found[-1].words


def test_a_full_disk_ends_the_recording_and_not_the_program():
    (said,) = run("full", "/dev/full")
    wanted = "libvmm_recorder: cannot write /dev/full: No space left on device: the recording ends here"
    assert said.startswith(wanted)


def test_a_file_that_cannot_be_made_is_told(tmp_path):
    (said,) = run("full", tmp_path / "none/file", ends=(1, ""))
    assert "No such file or directory; nothing is recorded" in said


def test_a_program_that_closes_the_file_keeps_its_own(tmp_path):
    (said,) = run("closed", tmp_path / "closed", tmp_path / "own")
    assert "the program has closed" in said
    assert (tmp_path / "own").read_bytes() == b""
    assert [line["call"] for line in calls_of(tmp_path / "closed")] == ["cudaMalloc", "cudaFree"]


def test_the_next_program_of_a_process_has_a_recorder_and_a_descriptor_of_its_own(tmp_path):
    (said,) = run("exec", tmp_path / "exec", tmp_path / "own of the next")
    assert "the program has closed" in said
    assert [line["number"] for line in calls_of(tmp_path / "exec")] == [*range(1, 7), 1, 2]


def test_who_reads_a_recording_meanwhile_may_leave(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    leaves = threading.Thread(target=lambda: open(pipe).close(), daemon=True)
    leaves.start()
    (said,) = run("long", pipe)  # more than the pipe holds
    assert said.startswith(f"libvmm_recorder: cannot write {pipe}: Broken pipe: the recording ends here")


def test_threads_and_forks_tear_no_line(tmp_path):
    assert run("threads", tmp_path / "threads") == []
    lines = calls_of(tmp_path / "threads")
    threads = collections.Counter(pid for pid, _ in {(line["pid"], line["thread"]) for line in lines})
    parent = threads.most_common(1)[0][0]
    own = [line for line in lines if line["pid"] == parent]
    assert len({line["thread"] for line in own}) == 4
    assert [line["number"] for line in own] == list(range(1, 401))
    # In the order of the changes no memory is given twice.
    taken = set()
    for change in sorted((it for line in own for it in line["changes"]), key=lambda it: it["order"]):
        if change["kind"] == "allocate":
            assert change["address"] not in taken
            taken.add(change["address"])
        else:
            taken.remove(change["address"])
    assert not taken
    children = {}
    for line in lines:
        if line["pid"] != parent:
            children.setdefault(line["pid"], []).append((line["call"], line["result"], line["number"], line["changes"]))
    assert len(children) == 20
    assert all(its[0] == ("cudaMalloc", "cudaErrorInitializationError", 1, []) for its in children.values())


def test_two_processes_give_each_other_memory_without_a_doubt(tmp_path):
    """Of each import the other one's export is told, and nothing is in doubt."""
    assert run("shared", tmp_path / "shared") == []
    found = steps(Recording.read(tmp_path / "shared"))
    told = [step.words for step in found if step.call == "cuMemImportFromShareableHandle"]
    assert len(told) == 2
    for process, other in ((1, 2), (2, 1)):
        wanted = f"Process {process}: .* which process {other} exported"
        assert any(re.match(wanted, words) for words in told), told
    assert not any("contradicts" in step.words for step in found)


def test_a_kernels_name_is_whole_however_long(tmp_path):
    run("long", tmp_path / "long")
    launches = [line for line in calls_of(tmp_path / "long") if "launch" in line["call"].lower()]
    names = {line["arguments"].get("func", line["arguments"].get("f")) for line in launches}
    assert len(launches) == 7
    assert names == {"k" * 100000 + '"\\\n'}


@pytest.mark.parametrize("name", ["größe".encode(), b"gr\xf6\xdfe"], ids=["utf8", "latin1"])
def test_a_programs_path_comes_back_byte_for_byte(name, tmp_path):
    program = os.path.join(os.fsencode(tmp_path), name)
    shutil.copy(PROGRAM, program)
    run("few", tmp_path / "recording", program=program)
    module = lines_of(tmp_path / "recording")[0]
    assert os.fsencode(module["path"]) == program
    assert os.fsencode(module["module"]) == name


# Its driver is the simulator's, and tells of activities as NVIDIA's does.
LAUNCHES = """
import ctypes, os, sys
cuda = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
FILL = b'''.version 7.0
.target sm_70
.address_size 64
.visible .entry fill(.param .u64 to) {
  .reg .b64 %to;
  ld.param.u64 %to, [to];
  st.global.u32 [%to], 7;
  ret;
}'''
context, module, fill, to = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
assert not cuda.cuCtxSetCurrent(context) and not cuda.cuMemAlloc_v2(ctypes.byref(to), ctypes.c_size_t(1 << 20))
assert not cuda.cuModuleLoadData(ctypes.byref(module), FILL)
assert not cuda.cuModuleGetFunction(ctypes.byref(fill), module, b"fill")
parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(to), ctypes.c_void_p))
assert not cuda.cuMemsetD8_v2(to, 1, ctypes.c_size_t(1 << 20))
assert not cuda.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)
if not os.fork():
    sys.exit()  # a child has no work of its own to tell of
os.wait()
"""


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, ""),
        ({"VMM_RECORD_DURATIONS": "0"}, ""),
        ({"VMM_RECORD_DURATIONS": "1"}, ""),
        ({"VMM_RECORD_DURATIONS": "1", "CUPTI_VERSION": "140000"}, "CUPTI's version 140000 is not known: how long"),
        ({"VMM_RECORD_DURATIONS": "1", "CUPTI_REFUSES": "1"}, "CUPTI does not tell how long kernels and copies took: "),
    ],
    ids=["unasked", "off", "on", "unknown version", "refused"],
)
def test_how_long_gpus_worked_is_told_if_it_is_asked_for(environment, told, tmp_path):
    file = tmp_path / "recording"
    environment |= {"CUDA_INJECTION64_PATH": BUILT["recorder"], "VMM_RECORD": str(file)}
    command = [VMMSIM, "--gpus", "1", sys.executable, "-c", LAUNCHES, BUILT["recorded_driver"]]
    options = {"capture_output": True, "text": True, "timeout": 60}
    done = subprocess.run(command, env=os.environ | environment, **options)
    assert (done.returncode, told in done.stderr) == (0, True), done.stderr
    raw, recording = calls_of(file), Recording.read(file)
    work = [work for line in raw if line["call"] == "executed" for work in line["arguments"]["work"]]
    assert all(line["correlation"] > 0 for line in recording.lines)
    words = [step.words.partition("On GPU")[2] for step in steps(recording)]
    if "1" not in environment.get("VMM_RECORD_DURATIONS", "") or told:
        assert (work, words) == ([], ["", ""])
        return
    assert words == [" 0 the memset took 1 µs, 1049 GB/s.", " 0 the kernel took 12.3 µs."]
    assert len(work) == 2, "a child tells of the same work"
    times = {its["kind"]: its for its in work}
    for line, kind in zip(recording.lines, ("memset", "kernel"), strict=True):
        assert line["began"] <= times[kind]["end"] / 1000 < line["time"] + 1e6, "another clock"
