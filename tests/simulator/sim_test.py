#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The lessons, unchanged, on the simulator.

    sim_test.py run EXPECTED [OLD=NEW...] -- COMMAND    it works, says nothing on stderr, and prints what was recorded
                                                        on hardware, or that with each OLD, a regular expression, put
                                                        as NEW
    sim_test.py facts EXPECTED -- COMMAND               it prints what was recorded; on stderr it may say what it likes
    sim_test.py small VMMSIM PROGRAM                    it works, with little work to do, and says nothing on stderr
    sim_test.py json VMMSIM PROGRAM...                  each program with --json: the lines are as a page wants them,
                                                        and a file that cannot be written ends it with status 2
    sim_test.py skips VMMSIM MACHINE PROGRAM...         each program on this machine: it skips for the right reason, or
                                                        works, as the table below has it

Exit status 0, 1 on a failure.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = str(HERE.parent), str(HERE.parent.parent / "docs" / "extensions")
from lesson_test import classify, fail, outcome, start  # noqa: E402
from result_files import load  # noqa: E402
from transcript import expectations, pair  # noqa: E402

# Arguments that make each program quick: less memory, fewer repeats.
SMALL = {
    "vmm_basics": [],
    "growable": ["--final-mib", "4", "--step-mib", "2", "--repeats", "1"],
    "multi_gpu": ["--granules", "1"],
    "measure": ["--mib", "1", "--repeats", "1", "--blocks", "4", "--threads", "64"],
    "ipc_fd": ["--timeout", "5"],
    "ipc_cost": ["--mib", "2", "--repeats", "1"],
    "fabric": ["--timeout", "5"],
    "multicast": [],
    "aliasing": [],
    "compressible": ["--mib", "2", "--repeats", "1"],
}
SMALL.update({f"{name}_broken": [] for name in SMALL if name not in ("measure", "compressible")})
# How that changes what a program is expected to print: see `changed`.
SMALL_CHANGES = {
    "growable": ["64 MiB=2 MiB", "512 MiB=4 MiB", "of 45=of 5", "of 9=of 1", "moves [738]=moves 1",
                 r"peak 1\.88=peak 1.50", r"(Async.*)1\.50=\g<1>8.00", r"(of 8 granules.*)1\.00=\g<1>4.00",
                 r"(of 32 granules.*)1\.00=\g<1>16.00"],
}
TALKS = "multicast_broken"  # where it works, for the simulator says that a call waits for ever

# For each machine: which program skips there, and why. All others work. Of eight GPUs that lack something two suffice.
ALL = "|".join(SMALL)
MACHINES = {
    "h200x8": {},
    "two_nodes": {},
    "one_gpu": {"multi_gpu|measure|multicast|multi_gpu_broken|multicast_broken": "needs 2 GPUs, sees 1"},
    "laptop": {
        "multi_gpu|measure|multicast|multi_gpu_broken|multicast_broken": "needs 2 GPUs, sees 1",
        "fabric|fabric_broken": "has no fabric handles",
    },
    "no_gpu": {ALL: "the driver sees no GPU"},
    "old_driver": {ALL: "the driver is for CUDA 12.4, this program for"},
    "no_vmm": {
        "vmm_basics|growable|ipc_fd|ipc_cost|aliasing|compressible": "no virtual memory management",
        "vmm_basics_broken|growable_broken|ipc_fd_broken|aliasing_broken": "no virtual memory management",
        "multi_gpu|measure|multicast|multi_gpu_broken|multicast_broken": "needs 2 GPUs, sees 1",
        "fabric|fabric_broken": "has no fabric handles",
    },
    "h200x2_no_peer": {
        "multi_gpu|measure|multi_gpu_broken": "GPU 0 cannot reach the memory of GPU 1",
        "ipc_fd": "GPU 1 cannot reach GPU 0",
        "multicast": "multicast takes two GPUs that support it and reach each other, 0 of 2 do",
        "multicast_broken": "multicast takes two GPUs that support it and reach each other",
        "fabric|fabric_broken": "has no fabric handles",
    },
    "no_multicast": {
        "multicast": "multicast takes two GPUs that support it and reach each other, 0 of 2 do",
        "multicast_broken": "multicast takes two GPUs that support it and reach each other",
    },
    "no_fabric": {"fabric|fabric_broken": "has no fabric handles"},
    "no_channel": {
        "fabric": "no channel file in /dev/nvidia-caps-imex-channels, and cuMemCreate answers "
        "CUDA_ERROR_NOT_PERMITTED",
        "fabric_broken": "fabric memory is refused",
    },
    "no_fd_handles": {"ipc_fd|ipc_cost|ipc_fd_broken|fabric_broken": "exports no memory as a file descriptor"},
    "no_compression": {"compressible": "has no compressible memory"},
}
TWO_SUFFICE = "no_multicast", "no_fabric", "no_channel", "no_fd_handles", "no_compression"


def name_of(program):
    return os.path.basename(program).removesuffix("_small")


def difference(expected, output, command):
    gpus = int(command[command.index("--gpus") + 1]) if "--gpus" in command else None
    return pair(expectations(expected), output, gpus)[1]


def changed(file, changes):
    """What the file expects, for other arguments: with each OLD=NEW, a regular expression and what is put there."""
    expected = pathlib.Path(file).read_text()
    for change in changes:
        expected, times = re.subn(*change.split("="), expected)
        if not times:
            fail(f"{file} has nothing to change for {change!r}")
    return expected


def run(file, *words, quiet=True):
    at = words.index("--")
    expected, command = changed(file, words[:at]), words[at + 1:]
    done = start(*command)
    if outcome(done):
        fail("it skipped")
    if done.stderr and quiet:
        fail("it says something on stderr")
    wrong = difference(expected, done.stdout, command)
    if wrong:
        fail(f"{file}: {wrong}")


def facts(file, *words):
    run(file, *words, quiet=False)


def small(vmmsim, program):
    done = start(vmmsim, "--strict", "--gpus", "2", program, *SMALL[name_of(program)])
    if outcome(done) or done.stderr:
        fail("it skipped, or says something on stderr")


def json(vmmsim, *programs):
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "measured.jsonl"
        for program in programs:
            command = vmmsim, "--gpus", "2", program, *SMALL[name_of(program)], "--json"
            if outcome(start(*command, str(path))):
                fail("it skipped")
            text = path.read_text()
            path.write_text(text.replace('"driver": "unknown"', '"driver": "1.0"'))  # here may be no driver to ask
            (conditions, entries), = load(path)
            if conditions["program"] != name_of(program) or conditions["gpus"] != 2 or len(entries) < 8:
                fail(f"{program} wrote\n{text}")
            done = start(*command, f"{scratch}/none/measured.jsonl")
            if done.returncode != 2 or f"cannot write {scratch}/none/measured.jsonl: No such file" not in done.stderr:
                fail(f"{program} does not say that it cannot write, status {done.returncode}")
            path.unlink()


def skips(vmmsim, machine, *programs):
    if machine not in MACHINES:
        fail(f"nobody has said what skips on {machine}: add it to MACHINES")

    def check(program):
        name = name_of(program)
        fewer = ["--gpus", "2"] if machine in TWO_SUFFICE else []
        command = [vmmsim, "--strict", "--machine", machine, *fewer, program, *SMALL[name]]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        reason = next((why for names, why in MACHINES[machine].items() if name in names.split("|")), None)
        result, told = classify(done.returncode, done.stdout, done.stderr)
        quiet = not done.stderr or (name == TALKS and not reason)
        right = result == ("SKIP" if reason else "OK") and (not reason or reason in told) and quiet
        return f"{'ok' if right else 'FAIL'}: {name}: {result} {told}", right, done

    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for line, right, done in pool.map(check, programs):
            print(line if right else f"{line}\n{done.stdout}{done.stderr}", flush=True)
            bad += not right
    if bad:
        fail(f"{bad} of {len(programs)} programs")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
