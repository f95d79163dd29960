#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""libvmm_recorder.so writes what the simulator traces of the same calls.

    recorder_test.py VMMSIM PROGRAM calls|multicast

PROGRAM (recorder_calls.cu) makes each call on simulated GPUs, and tells the recorder of it as CUPTI would. The lines of
both must be the same, to the letter, but for what a recorder cannot know.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

from vmmsim.tests.recorded_names import recorded_names
from vmmsim.trace.line import KEYS
from vmmsim.trace.recording import Recording
from vmmsim.view.frames import steps

VMMSIM, PROGRAM = sys.argv[1:3]
SAME = "pid", "thread", "call", "nth", "device", "arguments", "result", "outputs", "changes"
# The simulator has no such call, or tells of it when the runtime makes it.
NEVER_COMPARED = {"cuMemMapArrayAsync", "cuMemAllocManaged", "cudaMallocManaged"}
CUT = '"explanation":""}\n'
failures = 0


def check(right, what):
    global failures
    if not right:
        failures += 1
        print(f"FAIL: {what}")


def run(what, recording, *arguments, trace=os.devnull, program=PROGRAM):
    command = [VMMSIM, "--gpus", "2", "--trace", str(trace), program, what, *map(str, arguments)]
    environment = os.environ | {"VMM_RECORD": str(recording)}
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    if done.returncode == 77:
        print(done.stdout)
        sys.exit(77)
    check(done.returncode == 0 and done.stdout == "done\n", f"{what}: {done.returncode}, {done.stdout}{done.stderr}")
    return done.stderr


def lines_of(path):
    text = path.read_text()
    check(text.endswith("\n"), "the last line is whole")
    return [json.loads(line) for line in text.splitlines()]


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


def compare(what, directory):
    recording, trace = directory / "recording", directory / "trace"
    said = run(what, recording, trace=trace)
    check(not said, f"{what}: nothing is said, but {said}")
    lines = [line for line in lines_of(recording) if "call" in line]
    names = recorded_names()
    # Of the program's own process, without what it asks for beside these calls.
    pids = {line["pid"] for line in lines}
    traced = [json.loads(line) for line in trace.read_text().splitlines()]
    traced = [line for line in traced if line["call"] in names and line["pid"] in pids]
    told = {line["call"] for line in lines}
    expected = iter(traced)
    compared = 0
    for line in lines:
        check([key for key in line if key != "version"] == list(KEYS), f"the keys of {line}")
        this = next((it for it in expected if it["call"] == line["call"]), None)
        if not this:
            check(False, f"the simulator traces no {line['call']} here: {line}")
            return
        nth = {"nth": 0} if what == "calls" and line["call"] in ("cudaMalloc", "cudaFree") else {}
        check(known(line) | nth == known(this) | nth, f"not the same:\n  {known(line)}\n  {known(this)}")
        check(line["callers"][0].startswith("recorder_calls+"), f"who called: {line['callers']}")
        check(line["explanation"] == "", "no explanation")
        compared += 1
    check([line["number"] for line in lines] == list(range(1, len(lines) + 1)), "lines are numbered")
    for times in ([line["time"] for line in these] for these in (lines, traced)):
        check(times == sorted(times) and 0 < times[-1] - times[0] < 60e6, f"times only go forward: {times}")
    orders = [change["order"] for line in lines for change in line["changes"]]
    check(orders == sorted(orders) and len(set(orders)) == len(orders), "changes come in order")
    compare_imports(lines)
    compare_imports(traced)
    module = lines_of(recording)[0]
    check(os.path.basename(PROGRAM) == module.get("module") and os.path.samefile(module["path"], PROGRAM), "the module")
    wanted = {name for name in names if name.startswith("cuMulticast") == (what == "multicast")}
    if what == "multicast":
        wanted = {name for name in names if name.startswith("cuMulticast")}
    check(not wanted - told - NEVER_COMPARED, f"never called: {wanted - told - NEVER_COMPARED}")
    print(f"{what}: {compared} lines compared, {len(told)} calls")


def compare_imports(lines):
    """Each has the identity of an export of the same record, and no other record has it."""
    made, exported, imports = {}, {}, 0
    for change in (change for line in lines for change in line["changes"]):
        if change["kind"] in ("create", "multicast_create"):
            made[change["handle"]] = change["record"]
        elif change["kind"] == "export":
            exported.setdefault(change["identity"], set()).add(made[change["handle"]])
        elif change["kind"] == "import":
            imports += 1
            check(
                exported.get(change["identity"]) == {change["record"]}, f"of which export it is: {change}, {exported}"
            )
    check(imports or not exported, "what is exported is imported")


def full_disk():
    said = run("full", "/dev/full").splitlines()
    wanted = "libvmm_recorder: cannot write /dev/full: No space left on device: the recording ends here"
    check(len(said) == 1 and said[0].startswith(wanted), f"a full disk: {said}")


def closed_file(directory):
    recording, own = directory / "closed", directory / "own"
    said = run("closed", recording, own).splitlines()
    check(len(said) == 1 and "the program has closed" in said[0], f"a closed file: {said}")
    check(own.read_bytes() == b"", "nothing is written into the program's own file")
    check(
        [line["call"] for line in lines_of(recording) if "call" in line] == ["cudaMalloc", "cudaFree"],
        "what came before",
    )


def another_program(directory):
    """exec: what the process did before stays, and the next program has a recorder and a descriptor of its own."""
    recording, own = directory / "exec", directory / "own of the next"
    said = run("exec", recording, own).splitlines()
    check(len(said) == 1 and "the program has closed" in said[0], f"after exec: {said}")
    numbers = [line["number"] for line in lines_of(recording) if "call" in line]
    check(numbers == [*range(1, 7), 1, 2], f"before and after exec: {numbers}")


def closed_pipe(directory):
    """Whoever reads a recording meanwhile may leave, and ends no program with it."""
    pipe = directory / "pipe"
    os.mkfifo(pipe)
    leaves = threading.Thread(target=lambda: open(pipe).close(), daemon=True)
    leaves.start()
    said = run("long", pipe).splitlines()  # more than the pipe holds
    wanted = f"libvmm_recorder: cannot write {pipe}: Broken pipe: the recording ends here"
    check(len(said) == 1 and said[0].startswith(wanted), f"a closed pipe: {said}")


def threads_and_forks(directory):
    recording = directory / "threads"
    said = run("threads", recording)
    check(not said, f"threads: {said}")
    lines = [line for line in lines_of(recording) if "call" in line]
    threads = collections.Counter(pid for pid, _ in {(line["pid"], line["thread"]) for line in lines})
    parent = threads.most_common(1)[0][0]
    own = [line for line in lines if line["pid"] == parent]
    check(len(own) == 400 and len({line["thread"] for line in own}) == 4, f"four threads: {len(own)} lines")
    check([line["number"] for line in own] == list(range(1, 401)), "numbered")
    # In the order of the changes no memory is given twice.
    taken = set()
    for change in sorted((it for line in own for it in line["changes"]), key=lambda it: it["order"]):
        if change["kind"] == "allocate":
            check(change["address"] not in taken, "memory is given once")
            taken.add(change["address"])
        else:
            check(change["address"] in taken, "what is freed was given")
            taken.discard(change["address"])
    check(not taken, "all is given back")
    children = {}
    for line in lines:
        if line["pid"] != parent:
            children.setdefault(line["pid"], []).append((line["call"], line["result"], line["number"], line["changes"]))
    refused = [("cudaMalloc", "cudaErrorInitializationError", 1, [])]
    check(len(children) == 20 and all(its[:1] == refused for its in children.values()), "forked children")


def shared_memory(directory):
    """Two processes that give each other memory: of each import the other one's is told, and nothing is in doubt."""
    recording = directory / "shared"
    said = run("shared", recording)
    check(not said, f"shared: {said}")
    found = steps(Recording.read(recording))
    told = [step.words for step in found if step.call == "cuMemImportFromShareableHandle"]
    for process, other in ((1, 2), (2, 1)):
        wanted = f"Process {process}: .* which process {other} exported"
        check(len(told) == 2 and any(re.match(wanted, words) for words in told), f"whose memory is imported: {told}")
    check(not any("contradicts" in step.words for step in found), "nothing is contradicted")


def long_names(directory):
    recording = directory / "long"
    run("long", recording)
    launches = [line for line in lines_of(recording) if line.get("call", "").lower().find("launch") >= 0]
    names = {line["arguments"].get("func", line["arguments"].get("f")) for line in launches}
    check(len(launches) == 7 and names == {"k" * 100000 + '"\\\n'}, "a kernel's name, however long")


def odd_paths(directory):
    """A program's path comes back byte for byte, whether it is UTF-8 or not."""
    for name in ("größe".encode(), b"gr\xf6\xdfe"):
        program, recording = os.path.join(os.fsencode(directory), name), directory / "odd"
        shutil.copy(PROGRAM, program)
        recording.unlink(missing_ok=True)
        run("few", recording, program=program)
        module = lines_of(recording)[0]
        check(os.fsencode(module["path"]) == program, f"the path of {name}: {ascii(module)}")
        check(os.fsencode(module["module"]) == name, f"the name of {name}: {ascii(module)}")


def main():
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary)
        compare(sys.argv[3], directory)
        if sys.argv[3] == "calls":
            full_disk()
            closed_file(directory)
            another_program(directory)
            closed_pipe(directory)
            threads_and_forks(directory)
            shared_memory(directory)
            long_names(directory)
            odd_paths(directory)
            said = run_unwritable(directory)
            check("No such file or directory; nothing is recorded" in said, f"a file that cannot be made: {said}")
    sys.exit(bool(failures))


def run_unwritable(directory):
    environment = os.environ | {"VMM_RECORD": str(directory / "none" / "file")}
    done = subprocess.run([VMMSIM, PROGRAM, "full"], env=environment, capture_output=True, text=True, timeout=60)
    return done.stderr


if __name__ == "__main__":
    main()
