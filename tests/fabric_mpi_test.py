# SPDX-License-Identifier: MIT-0
"""Lesson 05 built with MPI, on a machine without a driver.

Both ranks are the program, or one of them is this file, which loads the program's own MPI library and misbehaves.
On VMMSIM, the simulator, the lesson goes on to the end.
"""

import ctypes
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from scripts.transcript import expectations, pair
from vmmsim.built import BUILT

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM, MPIEXEC, VMMSIM = BUILT.get("fabric_mpi"), BUILT.get("mpiexec"), BUILT.get("vmmsim")
STUB = "SKIP: only the toolkit's stub of a driver; install the NVIDIA driver\n"
OPEN_MPI = {  # lets Open MPI run in a container, where all is root, and on fewer cores than ranks
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}


def library():
    """The MPI library of the program."""
    linked = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
    return re.search(r"libmpi\S* => (\S+)", linked).group(1)


def in_order_of(expected, outputs):
    """The lines of several outputs as one text, in the order that is expected, and each output's in its own."""
    lines, left = [], [list(output) for output in outputs]
    for expectation in expected:
        for output in left:
            if output and re.fullmatch(expectation.pattern, output[0]):
                lines.append(output.pop(0))
                break
    return "".join(f"{line}\n" for line in [*lines, *sum(left, [])])


def misbehave(how, library):
    """What a rank of the job does instead of the lesson."""
    signal.alarm(50)  # whatever happens, it does not stay
    mpi = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    mpi.MPI_Init(None, None)
    if how == "silent":
        time.sleep(45)
    os.kill(os.getpid(), signal.SIGKILL)


class TestMpi:
    def run_job(self, *command, by=(), **variables):
        """Runs mpiexec with this, and expects it to end soon, and every process of it too."""
        environment = {**os.environ, **OPEN_MPI, "FABRIC_TEST_JOB": str(time.time_ns()), **variables}
        before, start = files_of_mpich(), time.monotonic()
        done = subprocess.run([*by, MPIEXEC, *command], capture_output=True, text=True, timeout=60, env=environment)
        self.seconds = time.monotonic() - start
        mark = ("FABRIC_TEST_JOB=" + environment["FABRIC_TEST_JOB"]).encode()
        for _ in range(50):  # killed processes take a moment to go
            left = [pid for pid in pids() if mark in contents(pid, "environ")]
            if not left:
                break
            time.sleep(0.1)
        assert left == [], "processes left behind"
        if not any(is_mpiexec(pid) for pid in pids()):  # or they may be another job's
            for path in files_of_mpich() - before:
                path.unlink()
        return done

    def with_a_bad_rank(self, rank, how, by=()):
        good, bad = [PROGRAM], [sys.executable, "-B", "-m", "tests.fabric_mpi_test", "--misbehave", how, library()]
        first, second = (good, bad) if rank == 1 else (bad, good)
        done = self.run_job("-n", "1", *first, ":", "-n", "1", *second, by=[*by, VMMSIM, "--gpus", "2"])
        assert done.returncode not in (0, 77), done
        assert not re.search("SKIP|OK", done.stdout)
        return done

    def test_without_a_driver_one_reason_is_told(self):
        done = self.run_job("-n", "2", PROGRAM)
        assert (done.returncode, done.stdout) == (77, STUB), done
        assert self.seconds < 15

    @pytest.mark.skipif(not BUILT.get("vmmsim"), reason="no simulator was given")
    @pytest.mark.parametrize("where", ["--gpus", "--nodes"])
    def test_both_ranks_tell_what_is_recorded(self, where, tmp_path):
        """Each into a file of its own: mpiexec forwards what two ranks print in no order."""
        files = [tmp_path / "rank 0", tmp_path / "rank 1"]
        ranks = [["sh", "-c", 'exec "$0" > "$1"', PROGRAM, file] for file in files]
        done = self.run_job("-n", "1", *ranks[0], ":", "-n", "1", *ranks[1], by=[VMMSIM, where, "2"])
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
        told = [file.read_text().splitlines() for file in files]
        assert all(told), "a rank told nothing"
        expected = expectations((ROOT / "05_fabric" / "expected_output.txt").read_text())
        assert pair(expected, in_order_of(expected, told), 2)[1] is None, told

    def with_no_driver_for(self, rank, error):
        """The one rank meets this error when it starts the driver. Each has a simulated machine of its own."""
        ranks = [[VMMSIM, *(["--fail", f"cuInit:1={error}"] if rank == i else []), PROGRAM] for i in (0, 1)]
        return self.run_job("-n", "1", *ranks[0], ":", "-n", "1", *ranks[1])

    @pytest.mark.skipif(not BUILT.get("vmmsim"), reason="no simulator was given")
    def test_only_one_rank_has_to_stop(self):
        for rank in 0, 1:
            done = self.with_no_driver_for(rank, "CUDA_ERROR_NO_DEVICE")
            assert (done.returncode, done.stdout.count("SKIP")) == (77, 1), done
            assert "SKIP: the driver sees no GPU; " in done.stdout
            assert self.seconds < 15

    @pytest.mark.skipif(not BUILT.get("vmmsim"), reason="no simulator was given")
    def test_a_rank_that_fails_ends_the_other(self):
        for rank in 0, 1:
            done = self.with_no_driver_for(rank, "CUDA_ERROR_UNKNOWN")
            assert done.returncode not in (0, 77), done  # MPICH adds that of the rank that it ends
            assert "failed cuInit(0)\n  CUDA_ERROR_UNKNOWN" in done.stderr
            assert self.seconds < 15

    def test_one_or_three_ranks_are_bad_arguments(self):
        for ranks in "1", "3":
            done = self.run_job("-n", ranks, PROGRAM)
            assert done.returncode == 2, done
            assert "fabric_mpi: needs two ranks, not " + ranks in done.stderr

    @pytest.mark.skipif(not BUILT.get("vmmsim"), reason="no simulator was given")
    def test_a_rank_that_dies_ends_the_other(self):
        for rank in 0, 1:
            self.with_a_bad_rank(rank, "dies")
            assert self.seconds < 15

    @pytest.mark.skipif(not BUILT.get("vmmsim"), reason="no simulator was given")
    def test_a_silent_rank_is_not_waited_for_for_ever(self):
        self.with_a_bad_rank(1, "silent", by=["nice", "-n", "19"])  # MPICH waits with a core at 100 %
        assert self.seconds < 42  # 30 s, and mpiexec's own time


def files_of_mpich():
    """What MPICH leaves behind if a rank is killed: 2 MB of shared memory and a file."""
    return {*pathlib.Path("/dev/shm").glob("mpich_shm_*"), *pathlib.Path("/tmp").glob("hydra_hwloc_xmlfile_*")}


def is_mpiexec(pid):
    program = contents(pid, "cmdline").split(b"\0")[0]  # nothing, if it has ended
    return os.path.basename(program).startswith((b"mpiexec", b"hydra"))


def pids():
    return filter(str.isdigit, os.listdir("/proc"))  # not glob, which raises if a process ends meanwhile


def contents(pid, name):
    try:
        return pathlib.Path("/proc", pid, name).read_bytes()
    except OSError:  # the process has gone
        return b""


if __name__ == "__main__":
    misbehave(*sys.argv[2:4])
