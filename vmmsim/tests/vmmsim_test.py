#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""vmmsim starts what it promises, refuses what would not be simulated, and leaves nothing: vmmsim_test.py VMMSIM CC."""

import contextlib
import fcntl
import itertools
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

from vmmsim.tests.in_python import DRIVER

CC, VMMSIM = sys.argv.pop(2), pathlib.Path(sys.argv.pop(1)).resolve()
LIBRARIES = VMMSIM.parent.parent / "simulator"
RUNTIME = next(path.name for path in LIBRARIES.glob("libcudart.so.*"))
MAJOR = RUNTIME.rpartition(".")[2]
CLASS = "nvidia-caps-imex-channels"
SYSTEM_NOT_READY = 802
LIMIT = 60  # seconds for anything

COUNT = (
    "import ctypes; d = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int()\n"
    "print(d.cuInit(0), d.cuDeviceGetCount(ctypes.byref(n)), n.value)\n"
)
MEMORY = (
    DRIVER
    + r"""
def allocate(size):
    address = ctypes.c_uint64()
    must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
    return address.value
def free(address):
    must(cuda.cuMemFree_v2(ctypes.c_uint64(address)))
def fill(address, value, size):
    must(cuda.cuMemsetD8_v2(ctypes.c_uint64(address), ctypes.c_ubyte(value), ctypes.c_size_t(size)))
    must(cuda.cuCtxSynchronize())
def read(address, size):
    bytes = ctypes.create_string_buffer(size)
    must(cuda.cuMemcpyDtoH_v2(bytes, ctypes.c_uint64(address), ctypes.c_size_t(size)))
    return bytes.raw
def touched():  # KiB of this machine's memory that the GPUs take: of the files that vmmsim holds open
    files = (f"/proc/{os.getppid()}/fd/{name}" for name in os.listdir(f"/proc/{os.getppid()}/fd"))
    return sum(os.stat(file).st_blocks // 2 for file in files if "memfd:vmmsim-memory" in os.readlink(file))
start()
"""
)
FILES = r"""
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
int main(void) {
  char line[256];
  FILE* devices = fopen("/proc/devices", "r");
  while (devices && fgets(line, sizeof line, devices)) if (strstr(line, "nvidia-caps-imex")) fputs(line, stdout);
  glob_t found;
  if (glob("/dev/nvidia-caps-imex-channels/channel*", 0, NULL, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      struct stat is = {0};
      int fd = open(found.gl_pathv[i], O_RDWR | O_CLOEXEC), copy = dup(fd);
      printf("%s %d %d", found.gl_pathv[i], fd >= 0, fcntl(fd, F_GETFD));
      close(fd);
      if (fstat(copy, &is) == 0) printf(" %d %u %u", S_ISCHR(is.st_mode), major(is.st_rdev), minor(is.st_rdev));
      puts("");
    }
    globfree(&found);
  }
  int fd = open("/dev/nvidia-caps-imex-channels/channel0", O_RDWR);
  printf("open: %d %d\n", fd >= 0, fcntl(fd, F_GETFD));
  printf("other: %d %d\n", open("/dev/nvidia-caps-imex-channels/channel1", O_RDWR),
         fopen("/dev/no such file", "r") != NULL);
}
"""
VARIABLES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static const char* shown(const char* value) { return value ? value : "not set"; }
int main(int argc, char** argv) {
  if (argc > 1) printf("loaded: %d\n", dlopen(argv[1], RTLD_NOW) != NULL);
  printf("%s, %s\n", shown(getenv("NCCL_NVLS_ENABLE")), shown(secure_getenv("NCCL_NVLS_ENABLE")));
  printf("%s, %s\n", shown(getenv("NVSHMEM_DISABLE_NVLS")), shown(getenv("NOT_THERE")));
  for (char** each = environ; *each; ++each) if (*each == getenv("NVSHMEM_DISABLE_NVLS") - 21) puts(*each);
}
"""


def vmmsim(*words, environment=None, **options):
    return subprocess.run(
        [VMMSIM, *words],
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        **options,
    )


def is_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Vmmsim(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="vmmsim ")
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def build(self, name, text, *options):
        """A program, or a library, from C."""
        path = self.scratch / name
        subprocess.run([CC, "-x", "c", "-", "-o", path, "-x", "none", *options], input=text, text=True, check=True)
        return path

    def ends(self, done, status, stdout="", stderr=()):
        self.assertEqual(done.returncode, status, done)
        self.assertEqual(done.stdout, stdout, done)
        for part in stderr:
            self.assertIn(part, done.stderr)
        if not stderr:
            self.assertEqual(done.stderr, "")

    # --- the arguments

    def test_help(self):
        done = vmmsim("--help")
        self.assertTrue(
            done.returncode == 0 and not done.stderr and done.stdout.startswith("usage: vmmsim [options] "), done
        )
        told = dict(line.split(None, 1) for line in done.stdout.partition("\nmachines:\n")[2].splitlines())
        self.assertEqual(set(told), {path.stem for path in (LIBRARIES / "machines").glob("*.conf")})
        self.assertFalse([name for name, what in told.items() if "SPDX" in what or len(what) < 10], told)

    def test_bad_arguments(self):
        usage = vmmsim("--help").stdout.partition("machines:\n")[0]
        for words in (
            [],
            ["--gpus"],
            ["--gpus", "65"],
            ["--gpus", "-1"],
            ["--gpus", "x"],
            ["--gpus", "2x"],
            ["--nodes", "0"],
            ["--gpus", "99999999999999999999"],
            ["--nodes", "17"],
            ["--memory", "much"],
            ["--memory", "0"],
            ["--warn-at", "much"],
            ["--slow-after", "late"],
            ["--slow-import", "-1"],
            ["--late-kernels", "-1"],
            ["--unsupported", "perhaps"],
            ["--machine", "no_such"],
            ["--machine", "/no/such"],
            ["--machine", __file__],
            ["--surplus"],
            ["-h"],
            ["--trace"],
            ["--fail", "cuInit"],
            ["--fail", "cuInit:1"],
            ["--fail", "cuInit=999"],
            ["--fail", "cuInit:0=999"],
            ["--fail", "cuInit:x=999"],
            ["--fail", "cuInit:1=CUDA_ERROR_NO_SUCH"],
            ["--fail", "cuInit:1=0"],
            ["--fail", "cuInit:1="],
            ["--fail", "cuNoSuch:1=999"],
            ["--fail", "cudaNoSuch:1=999"],
            ["--fail", "Init:1=999"],
            ["--fail", ":1=999"],
            ["--fail", "malloc:1=1"],
            ["--fail", "cuInit:1=999", "--fail", "cuInit:2=999"],
        ):
            done = vmmsim(*words, *(["true"] if words else []))
            self.ends(done, 2, stderr=["vmmsim: bad argument: ", usage])

    def test_machines(self):
        def count(*options):
            return vmmsim(*options, sys.executable, "-c", COUNT).stdout.split()

        self.assertEqual(count(), ["0", "0", "8"])
        self.assertEqual(count("--gpus", "3"), ["0", "0", "3"])
        self.assertEqual(count("--machine", "one_gpu"), ["0", "0", "1"])
        self.assertEqual(count("--machine", "one_gpu", "--gpus", "2"), ["0", "0", "2"])
        own = self.scratch / "own.conf"
        own.write_text((LIBRARIES / "machines" / "one_gpu.conf").read_text().replace("gpus = 1", "gpus = 5"))
        self.assertEqual(count("--machine", own), ["0", "0", "5"])
        for path in (LIBRARIES / "machines").glob("*.conf"):
            self.ends(vmmsim("--machine", path.stem, "true"), 0)

    def test_fail(self):
        script = COUNT + "print(d.cuDeviceGetCount(ctypes.byref(n)), d.cuDeviceGetCount(ctypes.byref(n)))\n"
        for error in ("CUDA_ERROR_UNKNOWN", "cudaErrorUnknown", "999"):
            done = vmmsim("--fail", f"cuDeviceGetCount:2={error}", sys.executable, "-c", script)
            self.assertEqual(done.stdout.split(), ["0", "0", "8", "999", "0"], done)

    def test_trace(self):
        done = vmmsim(
            "--trace", "trace.json", sys.executable, "-c", "import os; os.chdir('/')\n" + COUNT, cwd=self.scratch
        )
        self.assertEqual(done.stdout.split(), ["0", "0", "8"], done)
        self.assertEqual([line["call"] for line in self.trace()], ["cuInit", "cuDeviceGetCount", "exit"])
        self.ends(
            vmmsim("--trace", "/no/such/directory/file", "true"), 125, stderr=["vmmsim: ", "/no/such/directory/file"]
        )

    def trace(self):
        return [json.loads(line) for line in (self.scratch / "trace.json").read_text().splitlines()]

    def test_trace_of_ends(self):
        """Whoever called CUDA and exits says so, and with what; not a child without a driver, nor who is killed."""
        for end, status in {
            "sys.exit(7)": 7,
            "os._exit(256 + 3)": 3,
            "os.fork() or os._exit(5); os.wait(); sys.exit(6)": 6,
            "os.kill(os.getpid(), 9)": None,
        }.items():
            vmmsim("--trace", "trace.json", sys.executable, "-c", f"import os, sys\n{COUNT}{end}", cwd=self.scratch)
            told = [(line["nth"], line["arguments"]) for line in self.trace() if line["call"] == "exit"]
            left = [] if status is None else [(1, {"status": status, "descriptors": [], "sockets": []})]
            self.assertEqual(told, left, end)

    def test_trace_of_descriptors(self):
        """A close is told of descriptors that hold memory, and of no others."""
        script = MEMORY + (
            "properties = (ctypes.c_uint64 * 4)(1 | 1 << 32, 1)\n"  # pinned, for a descriptor, on GPU 0
            "memory, fd = ctypes.c_uint64(), ctypes.c_int()\n"
            "must(cuda.cuMemCreate(ctypes.byref(memory), ctypes.c_size_t(2 * MiB), properties, ctypes.c_uint64(0)))\n"
            "must(cuda.cuMemExportToShareableHandle(ctypes.byref(fd), memory, 1, ctypes.c_uint64(0)))\n"
            "other = os.dup(fd.value)\n"
            "print(fd.value, other)\n"
            "os.close(os.dup(0))\n"
            "os.close(other)\n"
            "os.close(fd.value)\n"
            "must(cuda.cuMemRelease(memory))\n"
        )
        done = vmmsim("--trace", "trace.json", sys.executable, "-c", script, cwd=self.scratch)
        first, second = map(int, done.stdout.split())
        told = [line for line in self.trace() if line["call"] == "close"]
        self.assertEqual([(line["nth"], line["arguments"]) for line in told], [(1, {"fd": second}), (2, {"fd": first})])
        self.assertEqual([(line["device"], line["result"], line["changes"]) for line in told], [(-1, "", [])] * 2)
        self.assertTrue(all(line["callers"] for line in told))

    def test_slow_import(self):
        """An import waits until the process that made the memory has ended or waits itself, or for so long at most."""
        script = MEMORY.removesuffix("start()\n") + (
            "import socket, threading, time\n"
            "ours, its = socket.socketpair()\n"
            "maker = os.fork()\n"
            "start()\n"
            "properties = (ctypes.c_uint64 * 4)(1 | 1 << 32, 1)\n"
            "memory, fd, zero = ctypes.c_uint64(), ctypes.c_int(), ctypes.c_uint64(0)\n"
            "if not maker:\n"
            "    must(cuda.cuMemCreate(ctypes.byref(memory), ctypes.c_size_t(2 * MiB), properties, zero))\n"
            "    must(cuda.cuMemExportToShareableHandle(ctypes.byref(fd), memory, 1, zero))\n"
            "    socket.send_fds(its, [b'x'], [fd.value])\n"
            "    end = time.monotonic() + (5 if sys.argv[1] == 'ends' else 60)\n"
            "    def go_on():\n"
            "        while time.monotonic() < end and os.getppid() != 1: pass\n"
            "    thread = threading.Thread(target=go_on)\n"
            "    if sys.argv[1] == 'waits': its.recv(1)\n"
            "    elif sys.argv[1] == 'joins': thread.start(), thread.join()\n"
            "    else: go_on()\n"
            "    os._exit(0)\n"
            "_, (fd,), _, _ = socket.recv_fds(ours, 1, 1)\n"
            "began = time.monotonic()\n"
            "must(cuda.cuMemImportFromShareableHandle(ctypes.byref(memory), ctypes.c_void_p(fd), 1))\n"
            "has_ended = os.waitid(os.P_PID, maker, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None\n"
            "print(has_ended, time.monotonic() - began > 1.9)\n"
            "ours.send(b'x')\n"
            "os.kill(maker, 9)\n"
        )
        cases = (
            ("0", "goes on", "False False"),
            ("2", "goes on", "False True"),
            ("2", "joins", "False True"),
            ("40", "ends", "True True"),
            ("40", "waits", "False False"),
        )
        for seconds, what, told in cases:
            done = vmmsim("--slow-import", seconds, sys.executable, "-c", script, what)
            self.ends(done, 0, f"{told}\n")

    def test_sentences_fit_the_terminal(self):
        """As many lines as it takes, of whole words, on a terminal; one line anywhere else."""
        script = MEMORY + "for address in (0, 1 << 20): cuda.cuMemUnmap(ctypes.c_uint64(address), ctypes.c_size_t(5))\n"
        command = "--explain", sys.executable, "-c", script
        plain = vmmsim(*command).stderr
        self.assertRegex(plain, r"\A(vmmsim: cuMemUnmap\(.*\n){2}\Z")
        for columns in 20, 44, 80, 10000:
            ours, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            with subprocess.Popen([VMMSIM, *command], stdin=subprocess.DEVNULL, stderr=theirs) as process:
                os.close(theirs)
                told = b""
                with contextlib.suppress(OSError):  # so a terminal says that its other side is closed
                    while data := os.read(ours, 1 << 16):
                        told += data
            os.close(ours)
            self.assertEqual(process.returncode, 0)
            lines = told.decode().replace("\r\n", "\n").splitlines()
            if columns in (20, 10000):  # a terminal of no use, and one for all
                self.assertEqual(lines, plain.splitlines())
                continue
            self.assertGreater(len(lines), 4)
            self.assertLessEqual(max(map(len, lines)), columns)
            self.assertEqual("\n".join(lines).replace("\n    ", " ") + "\n", plain)
            for line, following in itertools.pairwise(lines):  # none is shorter than it has to be
                if following.startswith("    "):
                    self.assertGreater(len(line) + 1 + len(following.split()[0]), columns)

    def test_no_luck(self):
        """No sleep, limit or alarm takes time, an end is late, and a descriptor's number is the exporter's own."""
        script = MEMORY.removesuffix("start()\n") + (
            "import select, signal, socket, time\n"
            "ours, its = socket.socketpair()\n"
            "child = os.fork()\n"
            "start()\n"
            "if not child:\n"
            "    its.send(str(time.monotonic()).encode())\n"
            "    os._exit(0)\n"
            "began = float(ours.recv(100))\n"
            "os.waitpid(child, 0)\n"
            "print(time.monotonic() - began > 0.2)\n"
            "properties = (ctypes.c_uint64 * 4)(1 | 1 << 32, 1)\n"
            "memory, fd, zero = ctypes.c_uint64(), ctypes.c_int(), ctypes.c_uint64(0)\n"
            "must(cuda.cuMemCreate(ctypes.byref(memory), ctypes.c_size_t(2 * MiB), properties, zero))\n"
            "must(cuda.cuMemExportToShareableHandle(ctypes.byref(fd), memory, 1, zero))\n"
            "began = time.monotonic()\n"
            "libc = ctypes.CDLL(None)\n"
            "libc.setsockopt(ours.fileno(), 1, 20, (ctypes.c_long * 2)(600, 0), 16)\n"
            "waits = lambda: libc.recv(ours.fileno(), ctypes.create_string_buffer(1), 1, 0)\n"
            "for wait in (lambda: time.sleep(600), lambda: select.select([ours], [], [], 600), waits):\n"
            "    wait()\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n"
            "signal.alarm(600)\n"  # that is to end the process
            "print(signal.sigtimedwait([signal.SIGALRM], 0), signal.alarm(0) > 500)\n"
            "signal.signal(signal.SIGALRM, lambda *_: None)\n"
            "for start_alarm in (signal.alarm, lambda s: signal.setitimer(signal.ITIMER_REAL, s)):\n"
            "    start_alarm(600)\n"
            "    signal.sigwait([signal.SIGALRM])\n"
            "os.dup(ours.fileno())\n"  # Python closes the others
            "socket.send_fds(its, [b'x'], [0, 1])\n"
            "print(fd.value >= 100, time.monotonic() - began < 300)\n"
        )
        done = vmmsim("--adversarial-timing", "--trace", "trace.json", sys.executable, "-c", script, cwd=self.scratch)
        self.ends(done, 0, "True\nNone True\nTrue True\n")
        told = {line["call"]: line["arguments"] for line in self.trace()}
        self.assertEqual((told["send"], len(told["exit"]["sockets"])), ({"fds": [0, 1]}, 1))
        self.assertEqual([line["call"] for line in self.trace()].count("sleep"), 2)

    # --- starting and ending

    def test_a_child_that_is_forked_while_threads_call(self):
        """It is told that it has no driver, whatever the threads that it does not have were at."""
        text = """
            #include <pthread.h>
            #include <sys/wait.h>
            #include <unistd.h>
            int cuInit(unsigned), cuDeviceGetCount(int*);
            static void* call(void* unused) {
              for (int count;;) cuDeviceGetCount(&count), cuInit(0);
            }
            int main(void) {
              pthread_t threads[4];
              if (cuInit(0)) return 1;
              for (int i = 0; i < 4; ++i) pthread_create(&threads[i], 0, call, 0);
              for (int i = 0, status = 0; i < 200; ++i) {
                if (!fork()) alarm(5), _exit(cuInit(0));
                if (wait(&status) < 0 || status != 3 << 8) return 2;
              }
              _exit(0);
            }"""
        self.ends(vmmsim(self.build("forks", text, LIBRARIES / "libcuda.so.1", "-pthread")), 0)

    def test_status(self):
        self.ends(vmmsim("sh", "-c", "echo out; exit 7"), 7, "out\n")
        self.ends(vmmsim("/bin/sh", "-c", "kill -TERM $$"), 143)
        self.ends(vmmsim("sh", "-c", "kill -KILL $$"), 137)
        self.ends(vmmsim("no such program"), 127, stderr=["vmmsim: no such program: there is no such program"])
        self.ends(vmmsim("./no/such"), 127, stderr=["vmmsim: ./no/such: there is no such program"])
        (self.scratch / "text").write_text("echo\n")
        self.ends(vmmsim(self.scratch / "text"), 126, stderr=["cannot be executed: Permission denied"])
        (self.scratch / "text").chmod(0o755)
        self.ends(vmmsim(self.scratch / "text"), 126, stderr=["cannot be executed: Exec format error"])
        self.ends(vmmsim("./text", cwd=self.scratch), 126, stderr=["cannot be executed: Exec format error"])
        self.ends(vmmsim("text", cwd=self.scratch), 127, stderr=["there is no such program"])
        self.ends(vmmsim(self.scratch), 126, stderr=["it is a directory"])
        self.ends(vmmsim("text", environment={"PATH": f"/no/such:{self.scratch}"}), 126, stderr=["Exec format error"])

    def test_what_follows_the_program_is_its_own(self):
        script = self.scratch / "script"
        script.write_text('#!/bin/sh\nfor word; do echo "<$word>"; done\n')
        script.chmod(0o755)
        self.ends(
            vmmsim("--gpus", "2", script, "--gpus", "x", "", "--help", "a b"), 0, "<--gpus>\n<x>\n<>\n<--help>\n<a b>\n"
        )

    def start(self, script, words=(), **options):
        process = subprocess.Popen(
            [VMMSIM, *words, sys.executable, "-c", script],
            text=True,
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **options},
        )
        self.addCleanup(process.wait, LIMIT)
        self.addCleanup(process.kill)
        if process.stdout:
            self.addCleanup(process.stdout.close)
        return process

    WAIT = (
        "import os, signal; all = signal.valid_signals(); signal.pthread_sigmask(signal.SIG_BLOCK, all)\n"
        "print(os.getpid(), flush=True); print(int(signal.sigwait(all)), flush=True)\n"
        "print(signal.sigtimedwait(all, 0.5))"
    )

    def test_signals_are_passed_on(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            process = self.start(self.WAIT)
            process.stdout.readline()
            process.send_signal(number)
            self.assertEqual(process.communicate(timeout=LIMIT)[0], f"{int(number)}\nNone\n")
            self.assertEqual(process.returncode, 0)

    def test_ctrl_c_comes_once(self):
        """The terminal sends it to the program itself, and vmmsim does not send it again."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, theirs)
        script = (
            f"import fcntl, os, sys, termios; fcntl.ioctl({theirs}, termios.TIOCSCTTY, 0); "
            "os.execv(sys.argv[1], sys.argv[1:])"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", script, VMMSIM, sys.executable, "-c", self.WAIT],
            text=True,
            start_new_session=True,
            pass_fds=[theirs],
            stdout=subprocess.PIPE,
        )
        self.addCleanup(process.kill)
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)  # until the program has taken the first, so that a second would be seen
        os.write(ours, b"\x03")
        self.assertEqual(process.stdout.readline(), "2\n")
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.communicate(timeout=LIMIT)[0], "None\n")
        self.assertEqual(process.returncode, 0)

    def test_killed_it_takes_the_program_along(self):
        process = self.start(self.WAIT)
        program = int(process.stdout.readline())
        self.assertFalse(is_gone(program))
        process.kill()
        end = time.monotonic() + LIMIT
        while not is_gone(program) and time.monotonic() < end:
            time.sleep(0.02)
        left = not is_gone(program)
        if left:
            os.kill(program, signal.SIGKILL)
        self.assertFalse(left, "the program outlives vmmsim")

    def test_nothing_is_left_behind(self):
        places = [pathlib.Path("/dev/shm"), self.scratch]
        before = [sorted(os.listdir(place)) for place in places]
        process = self.start(COUNT, start_new_session=True, env={**os.environ, "TMPDIR": str(self.scratch)})
        process.communicate(timeout=LIMIT)
        self.assertEqual(before, [sorted(os.listdir(place)) for place in places])
        with self.assertRaises(ProcessLookupError):
            os.killpg(process.pid, 0)

    def test_the_program_has_no_open_files_of_vmmsim(self):
        script = "import os; print(len(os.listdir('/proc/self/fd')))"
        plain = subprocess.run([sys.executable, "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.ends(vmmsim(sys.executable, "-c", script), 0, plain.stdout)

    # --- this machine's memory

    def test_zeros_take_no_memory(self):
        script = (
            MEMORY
            + """
big = allocate(1 << 30)
fill(big, 0, 1 << 30)
print("untouched", touched())
fill(big + 5 * MiB, 7, 4096)
fill(big + 5 * MiB + 8192, 7, 4096)
fill(big, 1, 4096)
written = touched()
print("written", 12 <= written <= 4096)  # pages may be huge
fill(big + 100, 0, 10 * MiB)
first, last = bytes([1] * 100 + [0] * 3996), bytes(16384)
print("cleared", touched() == written, read(big, 4096) == first, read(big + 5 * MiB, 16384) == last)
fill(big, 1, 4 * MiB)
free(big)
print("freed", touched())
again = allocate(1 << 30)
fill(again, 0, 4 * MiB)
print("again", touched())
print(read(again, 4 * MiB) == bytes(4 * MiB), read(again + 5 * MiB, 16384) == bytes(16384))
"""
        )
        done = vmmsim("--gpus", "1", sys.executable, "-c", script)
        self.ends(done, 0, "untouched 0\nwritten True\ncleared True True True\nfreed 0\nagain 0\nTrue True\n")

    def test_a_warning_before_memory_runs_out(self):
        script = (
            MEMORY
            + """
address = allocate(1 << 30)
fill(address, 0, 1 << 30)
fill(address, 1, 64 * MiB)
input()
free(address)
"""
        )

        def run(size, lines):
            process = self.start(
                script, ["--gpus", "2", "--warn-at", size], stdin=subprocess.PIPE, stderr=subprocess.PIPE
            )
            deadline = threading.Timer(LIMIT, process.kill)
            self.addCleanup(deadline.cancel)
            deadline.start()
            said = "".join(process.stderr.readline() for _ in range(lines))
            said += process.communicate("\n")[1]
            self.assertEqual((process.returncode, said.count("\n")), (0, lines), said)
            return said

        said = run("62MiB", 1)
        # It may look amid the fill.
        self.assertRegex(said, r"^vmmsim: simulated memory takes 6[234] MiB of this machine's, and ")
        self.assertIn("give each GPU less, for instance --memory ", said)
        self.assertEqual(run("66MiB", 0), "")

    def test_limits_of_a_process(self):
        self.ends(
            vmmsim("true", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))),
            125,
            stderr=["vmmsim: ", "ulimit -f", "--memory"],
        )

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

        self.ends(vmmsim("true", preexec_fn=limit), 0, stderr=["8.0 GiB", "ulimit -v", "--memory"])
        self.ends(vmmsim("--memory", "1GiB", "true", preexec_fn=limit), 0)

    # --- never mistaken for the real thing

    def refused(self, program, *reasons):
        self.ends(vmmsim(program), 125, stderr=["vmmsim: ", str(program), *reasons])

    def test_static_and_foreign_programs(self):
        self.refused(self.build("static", "int main(void) { return 0; }", "-static"), "static executable")
        touch = f'#include <fcntl.h>\nint main(void) {{ return creat("{self.scratch}/started", 0600) < 0; }}'
        interpreter = self.build("interpreter", touch, "-static-pie")
        for loader in (interpreter, self.scratch / "not there"):
            program = self.build("other loader", touch, f"-Wl,--dynamic-linker={loader}")
            self.refused(program, f"is started by {loader}, which is not there or not the loader of glibc")
        self.assertFalse((self.scratch / "started").exists(), "the program was started to ask what it loads")
        copy = self.scratch / "other"
        copy.write_bytes(pathlib.Path("/bin/true").read_bytes())
        copy.chmod(0o755)
        with open(copy, "r+b") as file:  # e_machine: 64-bit PowerPC
            file.seek(18)
            file.write(b"\x15\x00")
        self.refused(copy, "another processor")
        copy.write_bytes(pathlib.Path("/bin/true").read_bytes())
        with open(copy, "r+b") as file:  # EI_CLASS
            file.seek(4)
            file.write(b"\x01")
        self.refused(copy, "32 bits")

    def test_programs_with_rights_of_others(self):
        if os.getuid():
            self.skipTest("only root can make such a program")
        program = self.build("with_rights", "int main(void) { return 0; }")
        os.chown(program, 65534, 65534)
        for mode in (0o4755, 0o2755):
            program.chmod(mode)
            self.refused(program, "rights of another user")

    def test_gpu_code(self):
        """Whoever loads it is told what is wrong with it; a program without kernels need not have a runtime."""
        section = '__attribute__((section(".nv_fatbin"))) int fatbin = 1;'
        self.ends(vmmsim(self.build("no_runtime", section + "int main(void) { return 0; }")), 0)
        main = (
            section
            + "void* __cudaRegisterFatBinary(void*); "
            + "int main(int n, char** a) { return n > 1 && __cudaRegisterFatBinary(a); }"
        )
        self.ends(vmmsim(self.build("shared_runtime", main, LIBRARIES / RUNTIME)), 0)

    def test_the_runtime_inside_a_library(self):
        """One that nobody could replace is seen when it asks the driver for what is not simulated."""
        library = self.build(
            "libasks.so",
            "int cuGetExportTable(void*, void*); int ask(void) { return cuGetExportTable(0, 0); }",
            "-shared",
            "-fPIC",
        )
        program = self.build(
            "asks", "int ask(void); int main(void) { return ask() != 801; }", library, LIBRARIES / "libcuda.so.1"
        )
        self.ends(
            vmmsim(program), 0, stderr=["cuGetExportTable", f"the CUDA runtime inside {library} ", "-cudart shared"]
        )

    def test_another_release_of_the_runtime(self):
        name = f"libcudart.so.{int(MAJOR) + 86}"
        library = self.build(name, "int cudaOther(void) { return 0; }", "-shared", "-fPIC", f"-Wl,-soname,{name}")
        program = self.build(
            "other_release",
            "int cudaOther(void); int main(void) { return cudaOther(); }",
            library,
            f"-Wl,-rpath,{self.scratch}",
        )
        self.refused(program, name, RUNTIME)
        library.unlink()
        self.refused(program, name, RUNTIME)

    def foreign_driver(self, *options):
        return self.build("libcuda.so.1", "int cuInit(unsigned f) { return 34; }", "-shared", "-fPIC", *options)

    CALLS_INIT = "int cuInit(unsigned); int main(void) { return cuInit(0); }"

    def test_another_driver_by_its_path(self):
        """Without a name of its own a library is loaded from the path that it was linked by: not here."""
        program = self.build("by_path", self.CALLS_INIT, self.foreign_driver())
        self.assertEqual(subprocess.run([program]).returncode, 34)
        self.ends(vmmsim(program), 0)
        self.ends(vmmsim("sh", "-c", '"$0"; echo $?', program), 0, "0\n")
        loads = f"import ctypes; print(ctypes.CDLL('{self.scratch}/libcuda.so.1').cuInit(0))"
        self.ends(vmmsim(sys.executable, "-c", loads), 0, "0\n")
        done = vmmsim("env", "-u", "LD_AUDIT", program)  # nobody leads it to ours any more
        self.ends(done, 125, "", ["vmmsim: ", str(program), str(self.scratch / "libcuda.so.1"), "instead of"])

    def test_search_paths_do_not_matter(self):
        self.foreign_driver("-Wl,-soname,libcuda.so.1")
        for tags in ("--disable-new-dtags", "--enable-new-dtags"):
            program = self.build(
                "by_search", self.CALLS_INIT, self.scratch / "libcuda.so.1", f"-Wl,-rpath,{self.scratch},{tags}"
            )
            self.assertEqual(subprocess.run([program]).returncode, 34)
            self.ends(vmmsim(program), 0)
        self.ends(vmmsim("sh", "-c", 'LD_LIBRARY_PATH="$1" "$0"', program, self.scratch), 0)

    def test_the_library_without_vmmsim(self):
        environment = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES)}
        program = self.build(
            "alone",
            "int cuInit(unsigned); int main(int n, char** a) { return n > 1 ? cuInit(0) : 0; }",
            LIBRARIES / "libcuda.so.1",
        )
        self.assertEqual(subprocess.run([program], env=environment).returncode, 0)
        done = subprocess.run([program, "x"], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, SYSTEM_NOT_READY % 256, done)
        self.assertIn("start the program with vmmsim", done.stderr)

    def test_a_path_with_a_space(self):
        shutil.copytree(
            VMMSIM.parent.parent / "simulator",
            self.scratch / "simulator",
            symlinks=True,
            ignore=lambda _, names: [name for name in names if not name.startswith(("lib", "machines"))],
        )
        (self.scratch / "bin").mkdir()
        copy = shutil.copy(VMMSIM, self.scratch / "bin")
        done = subprocess.run([copy, sys.executable, "-c", COUNT], capture_output=True, text=True)
        self.ends(done, 0, "0 0 8\n")

    # --- what makes no CUDA call does not notice

    def is_allowed(self, *words):
        """A command that a container may not allow; skips the test there."""
        if not shutil.which(words[0]) or subprocess.run([*words, "true"], capture_output=True).returncode:
            self.skipTest(f"{' '.join(words)} is not allowed here")
        return words

    def lives(self, *words):
        for options in ([], ["--no-luck"], ["--trace", self.scratch / "trace.jsonl"]):  # the option's old name, too
            self.ends(vmmsim(*options, *words), 0, "lives\n")

    WAITS = (  # with what vmmsim replaces; subprocess forks, polls and ends with _exit
        "import os, select, subprocess, time; time.sleep(0.01); select.select([], [], [], 0.01); "
        "select.poll().poll(10); subprocess.run(['true']); print('lives', flush=True); os._exit(0)"
    )

    def test_another_user_namespace(self):
        self.lives(*self.is_allowed("unshare", "--user"), sys.executable, "-c", self.WAITS)

    def test_another_user(self):
        other = self.is_allowed("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        self.scratch.chmod(0o777)
        self.lives(*other, sys.executable, "-c", self.WAITS)
        done = vmmsim(*other, sys.executable, "-c", COUNT)
        self.ends(done, 0, f"{SYSTEM_NOT_READY} 3 0\n", ["vmmsim: the machine belongs to another user"])

    def test_another_pid_namespace(self):
        other = self.is_allowed("unshare", "--pid", "--fork")
        self.lives(*other, sys.executable, "-c", self.WAITS)
        gone = ["vmmsim: the machine that VMMSIM names is gone", "PID namespace"]
        mounted = self.is_allowed("unshare", "--pid", "--fork", "--mount-proc")
        self.ends(vmmsim(*mounted, sys.executable, "-c", COUNT), 0, f"{SYSTEM_NOT_READY} 3 0\n", gone)

    def test_what_outlives_vmmsim(self):
        said, end, gone = (str(self.scratch / name) for name in ("said", "end", "gone"))
        waits = (
            "import os, sys, time\n"
            "if os.fork(): sys.exit()\n"
            "os.setsid()\n"
            "until = time.monotonic() + 60\n"  # perhaps the test has been ended
            f"while not os.path.exists({gone!r}) and time.monotonic() < until: time.sleep(0.01)\n"
            + COUNT
            + f"sys.stdout.flush()\nos.mkdir({end!r})\n"
        )
        self.ends(vmmsim("sh", "-c", '"$@" >"$0" 2>&1', said, sys.executable, "-c", waits), 0)
        pathlib.Path(gone).touch()
        deadline = time.monotonic() + LIMIT
        while not os.path.exists(end):
            self.assertLess(time.monotonic(), deadline, "what outlives vmmsim was ended")
            time.sleep(0.01)
        text = pathlib.Path(said).read_text()
        self.assertIn("its vmmsim has ended", text)
        self.assertIn(f"{SYSTEM_NOT_READY} 3 0\n", text)

    def test_the_first_process_of_a_pid_namespace(self):
        """Those whose parents have ended are its children."""
        first = self.is_allowed("unshare", "--pid", "--fork", "--mount-proc")
        leaves = "sh -c 'sleep 0.01 & exit' & "  # the sleep's parent is gone
        looks = (
            "while pgrep -x sleep >/dev/null; do :; done; "
            "for i in /proc/[0-9]*/stat; do cut -d' ' -f2,3 <$i; done | grep -c ' Z'"
        )
        command = [*first, VMMSIM, "sh", "-c", f"{leaves * 5} wait; {looks}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual((done.returncode, done.stdout), (1, "0\n"), done)

    def test_what_the_driver_exports(self):
        """The names of CUDA, and no others; what goes before libc is in a library that has no more."""

        def names(library):
            said = subprocess.run(["nm", "-D", "--defined-only", LIBRARIES / library], capture_output=True, text=True)
            return {line.split()[-1].split("@")[0] for line in said.stdout.splitlines()}

        self.assertEqual({name for name in names("libcuda.so.1") if not re.match("cu[A-Z]", name)}, set())
        self.assertIn("cuMemCreate", names("libcuda.so.1"))
        self.assertEqual({name for name in names("libnvidia-ml.so.1") if not name.startswith("nvml")}, set())
        self.assertEqual(
            {name for name in names(RUNTIME) if not re.match("(__)?cuda[A-Z]|vmmsim_|libcudart", name)}, set()
        )
        replaced = names("libvmmsim_interposed.so")
        self.assertTrue(
            {"sleep", "getenv"} <= replaced and not any(name.startswith("cu") for name in replaced), replaced
        )

    def test_what_makes_no_call_loads_no_driver(self):
        for options in ([], ["--adversarial-timing"], ["--trace", self.scratch / "trace.jsonl"]):
            maps = vmmsim(*options, "cat", "/proc/self/maps").stdout
            self.assertIn("libvmmsim_interposed.so", maps)
            for absent in ("libcuda.so", "libcudart.so", "libstdc++", "vmmsim-ledger"):
                self.assertNotIn(absent, maps)

    # --- between a program and the driver

    SHIM = r"""
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <stdio.h>
    int cuMemAlloc_v2(unsigned long* address, size_t size) {
      printf("shim: %zu\n", size);
      fflush(stdout);
      return ((int (*)(unsigned long*, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2"))(address, size);
    }
    """
    ALLOCATES = r"""
    #include <stddef.h>
    int cuInit(unsigned), cuDevicePrimaryCtxRetain(void**, int), cuCtxSetCurrent(void*);
    int cuMemAlloc_v2(unsigned long*, size_t);
    int main(void) {
      void* context;
      unsigned long address;
      return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
             cuMemAlloc_v2(&address, 4096);
    }
    """

    def test_a_shim(self):
        """A library that a user preloads, with a call of its own that calls the next."""
        shim = self.build("libshim.so", self.SHIM, "-shared", "-fPIC", "-ldl")
        link = pathlib.Path(tempfile.gettempdir()) / f"vmmsim-shim-{os.getpid()}.so"  # LD_PRELOAD takes no space
        shutil.copy(shim, link)
        self.addCleanup(link.unlink)
        program = self.build("allocates", self.ALLOCATES, LIBRARIES / "libcuda.so.1")
        self.ends(vmmsim(program, environment={"LD_PRELOAD": str(link)}), 0, "shim: 4096\n")
        self.ends(vmmsim("env", f"LD_PRELOAD={link}", program), 0, "shim: 4096\n")
        self.ends(vmmsim("sh", "-c", 'LD_PRELOAD="$1:$LD_PRELOAD" "$0"', program, link), 0, "shim: 4096\n")
        self.ends(vmmsim("sh", "-c", 'LD_PRELOAD="$LD_PRELOAD:$1" "$0"', program, link), 0, "shim: 4096\n")
        told = ["LD_PRELOAD was replaced, and sleeps, descriptors and _exit are not seen"]
        self.ends(vmmsim("--adversarial-timing", "env", f"LD_PRELOAD={link}", program), 0, "shim: 4096\n", told)

    def test_a_name_of_cuda_that_a_library_has_itself(self):
        """A loader of the driver that has pointers with the names of its calls, as slangpy has."""
        text = """
        #include <dlfcn.h>
        #include <stdio.h>
        int (*cuInit)(unsigned);
        int (*cuDeviceGetCount)(int*);
        int load(void) {
          int n = 0;
          void* driver = dlopen("libcuda.so.1", RTLD_NOW);
          if (!driver || cuInit) return 1;
          cuInit = (int (*)(unsigned))dlsym(driver, "cuInit");
          cuDeviceGetCount = (int (*)(int*))dlsym(driver, "cuDeviceGetCount");
          int result = cuInit(0) || cuDeviceGetCount(&n);
          printf("%d %d\\n", result, n);
          return result;
        }
        """
        loads = self.build("libloads.so", text, "-shared", "-fPIC", "-ldl")
        main = "int load(void); int main(void) { return load(); }"
        self.ends(vmmsim(self.build("loads", main, loads)), 0, "0 8\n")
        self.ends(vmmsim(self.build("itself", text + main, "-rdynamic", "-ldl")), 0, "0 8\n")
        # And our runtime does not take the program's cuInit for the driver's.
        both = (
            "int cudaGetDeviceCount(int*); int cuInit = 0; "
            "int main(void) { int n; return cudaGetDeviceCount(&n) || n != 8; }"
        )
        self.ends(vmmsim(self.build("both", both, "-rdynamic", LIBRARIES / RUNTIME)), 0)

    # --- what the process sees of its machine

    def test_a_refusal_of_multicast_is_about_real_gpus(self):
        program = self.build("variables", VARIABLES, "-ldl")
        refusal = {"NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1"}
        rest = "1, not set\nNVSHMEM_DISABLE_NVLS=1\n"
        self.ends(vmmsim(program, environment=refusal), 0, "not set, not set\n" + rest)
        self.ends(vmmsim("--machine", "no_multicast", program, environment=refusal), 0, "0, 0\n" + rest)
        outside = vmmsim("sh", "-c", 'unset VMMSIM; "$0"', program, environment=refusal)
        self.ends(outside, 0, "0, 0\n" + rest)
        outside = vmmsim("env", "-u", "LD_PRELOAD", "-u", "LD_LIBRARY_PATH", program, environment=refusal)
        self.ends(outside, 0, "0, 0\n" + rest)
        self.assertIn("\nNCCL_NVLS_ENABLE=0\n", "\n" + vmmsim("env", environment=refusal).stdout)
        another = self.foreign_driver()
        self.ends(vmmsim(program, another, environment=refusal), 0, "loaded: 1\nnot set, not set\n" + rest)
        outside = vmmsim("env", "-u", "LD_AUDIT", program, another, environment=refusal)  # it loads the other one
        self.ends(outside, 0, "loaded: 1\n0, 0\n" + rest)

    def test_the_channel(self):
        program = self.build("files", FILES)
        listed, channel = f"242 {CLASS}\n", f"/dev/{CLASS}/channel0 1 1 1 242 0\n"
        self.ends(vmmsim(program), 0, listed + channel + "open: 1 0\nother: -1 0\n")
        self.ends(vmmsim("sh", "-c", '"$0"; exit 3', program), 3, listed + channel + "open: 1 0\nother: -1 0\n")
        self.ends(vmmsim("--machine", "no_channel", program), 0, listed + "open: 0 -1\nother: -1 0\n")
        self.ends(vmmsim("--machine", "no_gpu", program), 0, "open: 0 -1\nother: -1 0\n")
        outside = subprocess.run([program], capture_output=True, text=True).stdout
        self.ends(vmmsim("sh", "-c", 'unset VMMSIM; "$0"', program), 0, outside)

    def test_the_list_of_devices(self):
        """As other programs read it, with other calls."""
        read = vmmsim("cat", "/proc/devices")
        self.assertEqual(read.stdout.count(CLASS), 1)
        self.assertTrue(read.stdout.startswith("Character devices:\n") and "\n\nBlock devices:\n" in read.stdout, read)
        self.ends(vmmsim(sys.executable, "-c", "print(open('/proc/devices').read(), end='')"), 0, read.stdout)
        self.assertNotIn(f"242 {CLASS}", vmmsim("sh", "-c", "unset VMMSIM; cat /proc/devices").stdout)


if __name__ == "__main__":
    unittest.main()
