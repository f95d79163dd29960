#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Lesson 05 built with MPI, on a machine without a driver: fabric_mpi_test.py PROGRAM MPIEXEC [VMMSIM].

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
import unittest

STUB = "SKIP: only the toolkit's stub of a driver; install the NVIDIA driver\n"
STORY = "[1] Start two ranks\n    rank 0: exports\n    rank 1: imports\n[2] Ask the driver\n"
HERE = pathlib.Path(__file__)
OPEN_MPI = {  # lets Open MPI run in a container, where all is root, and on fewer cores than ranks
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}


def misbehave(how, library):
    """What a rank of the job does instead of the lesson."""
    signal.alarm(20)  # whatever happens, it does not stay
    if how == "absent":  # never comes to MPI_Init
        time.sleep(10)
    mpi = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    mpi.MPI_Init(None, None)
    if how == "silent":
        time.sleep(10)
    if how == "nonsense":
        if hasattr(mpi, "ompi_mpi_comm_world"):  # Open MPI's constants are addresses, MPICH's are numbers
            byte, world = (ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_" + n)) for n in ("byte", "comm_world"))
        else:
            byte, world = ctypes.c_int(0x4C00010D), ctypes.c_int(0x44000000)
        size = 208  # of the lesson's message
        mpi.MPI_Send(b"?" * size, size, byte, 1 - int(os.environ["FABRIC_TEST_RANK"]), 0, world)
        mpi.MPI_Barrier(world)  # and waits inside MPI, which may have to send in the meantime
    os.kill(os.getpid(), signal.SIGKILL)


class Mpi(unittest.TestCase):
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
        self.assertEqual(left, [], "processes left behind")
        if not any(is_mpiexec(pid) for pid in pids()):  # or they may be another job's
            for path in files_of_mpich() - before:
                path.unlink()
        return done

    def fails(self, rank, how, *messages, options=()):
        """With this rank misbehaving, the job ends soon, with an error that says one of these."""
        good, bad = [PROGRAM, "--timeout", "2"], [sys.executable, str(HERE), "--misbehave", how, LIBRARY]
        first, second = (good, bad) if rank == 1 else (bad, good)
        done = self.run_job(*options, "-n", "1", *first, ":", "-n", "1", *second, FABRIC_TEST_RANK=str(rank))
        self.assertNotIn(done.returncode, (0, 77), done)
        # On a machine with other work mpiexec may end the job only when the rank that does nothing ends, in 10 s.
        self.assertLess(self.seconds, 25)
        self.assertTrue(any(message in done.stdout + done.stderr for message in messages), done)
        self.assertNotIn("SKIP", done.stdout)

    def test_both_ranks_skip_with_one_reason(self):
        done = self.run_job("-n", "2", PROGRAM)
        self.assertEqual((done.returncode, done.stdout), (77, STORY + STUB), done)
        self.assertLess(self.seconds, 15)

    @unittest.skipUnless(sys.argv[3:], "no simulator was given")
    def test_all_goes_well(self):
        done = self.run_job("-n", "2", PROGRAM, "--granules", "3", by=[VMMSIM, "--gpus", "2"])
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertIn("    rank 0: 1572864 integers are what rank 1 wrote\n", done.stdout)
        self.assertTrue(done.stdout.endswith("\nOK\n"), done.stdout)

    def with_no_driver_for(self, rank, error):
        """The one rank meets this error when it starts the driver. Each has a simulated machine of its own."""
        ranks = [[VMMSIM, *(["--fail", f"cuInit:1={error}"] if rank == i else []), PROGRAM] for i in (0, 1)]
        return self.run_job("-n", "1", *ranks[0], ":", "-n", "1", *ranks[1])

    @unittest.skipUnless(sys.argv[3:], "no simulator was given")
    def test_only_one_rank_has_to_stop(self):
        for rank in 0, 1:
            done = self.with_no_driver_for(rank, "CUDA_ERROR_NO_DEVICE")
            self.assertEqual((done.returncode, done.stdout.count("SKIP")), (77, 1), done)
            self.assertIn(STORY + "SKIP: the driver sees no GPU; ", done.stdout)
            self.assertLess(self.seconds, 15)

    @unittest.skipUnless(sys.argv[3:], "no simulator was given")
    def test_a_rank_that_fails_ends_the_other(self):
        for rank in 0, 1:
            done = self.with_no_driver_for(rank, "CUDA_ERROR_UNKNOWN")
            self.assertEqual(done.returncode, 1, done)
            self.assertIn("failed cuInit(0)\n  CUDA_ERROR_UNKNOWN", done.stderr)
            self.assertLess(self.seconds, 15)

    def test_one_or_three_ranks_are_bad_arguments(self):
        for ranks in "1", "3":
            done = self.run_job("-n", ranks, PROGRAM)
            self.assertEqual(done.returncode, 2, done)
            self.assertEqual(done.stderr.count("fabric: needs two ranks, not " + ranks), 1, done)
            self.assertEqual(done.stderr.count("usage: fabric "), 1, done)

    def test_a_rank_that_dies(self):
        named = ("BAD TERMINATION", "rank 1")  # mpiexec says who died, in its own words, and ends the other rank
        self.fails(1, "dies", *named)

    def test_a_silent_rank(self):
        self.fails(1, "silent", "rank 1 (importer) did not answer [1] within 2 s")
        self.fails(0, "silent", "rank 0 (exporter) did not answer [1] within 2 s")

    def test_a_rank_that_never_comes(self):
        self.fails(1, "absent", "the other rank did not come to MPI_Init within 2 s")
        self.fails(0, "absent", "the other rank did not come to MPI_Init within 2 s")

    def test_nonsense(self):
        version = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True).stdout
        # MPICH's can be told not to end the other rank by itself, so that this is the failing rank's part.
        options = ["-disable-auto-cleanup"] if "HYDRA" in version else []
        for rank, name in (0, "rank 0 (exporter)"), (1, "rank 1 (importer)"):
            self.fails(rank, "nonsense", name + " gave nonsense for [1]", options=options)


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


if sys.argv[1:2] == ["--misbehave"]:
    misbehave(*sys.argv[2:4])
PROGRAM, MPIEXEC, VMMSIM = (sys.argv + [""])[1:4]
linked = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
LIBRARY = re.search(r"libmpi\S* => (\S+)", linked).group(1)
unittest.main(argv=sys.argv[:1], verbosity=2)
