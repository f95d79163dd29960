# SPDX-License-Identifier: MIT-0
"""vmmsim does what its options say, passes signals on and leaves nothing."""

import contextlib
import ctypes
import fcntl
import itertools
import os
import pathlib
import pty
import re
import resource
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

import pytest

from tests.vmmsim_case import (
    COUNT,
    LIBRARIES,
    LIMIT,
    MEMORY,
    SYSTEM_NOT_READY,
    VMMSIM,
    VmmsimCase,
    is_gone,
    vmmsim,
)


class TestVmmsim(VmmsimCase):
    # --- the arguments

    def test_help_names_each_machine(self):
        done = vmmsim("--help")
        assert done.returncode == 0 and not done.stderr and done.stdout.startswith("usage: vmmsim [options] "), done
        told = dict(line.split(None, 1) for line in done.stdout.partition("\nmachines:\n")[2].splitlines())
        assert set(told) == {path.stem for path in (LIBRARIES / "machines").glob("*.conf")}
        assert not [name for name, what in told.items() if "SPDX" in what or len(what) < 10], told

    def test_bad_arguments_are_refused(self):
        for words in (
            [],
            ["view", "a.out"],
            ["--gpus"],
            ["--gpus", "65"],
            ["--gpus", "-1"],
            ["--gpus", "x"],
            ["--gpus", "2x"],
            ["--gpus="],
            ["--gpus=x"],
            ["--surplus=2"],
            ["--explain=yes"],
            ["--"],
            ["--memory", "1MiB"],
            ["--nodes", "0"],
            ["--gpus", "99999999999999999999"],
            ["--nodes", "17"],
            ["--memory", "much"],
            ["--memory", "0"],
            ["--warn-at", "much"],
            ["--slow-after", "late"],
            ["--slow-import", "-1"],
            ["--slow-import", "1@0"],
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
            ["--fail", "cuInit:+=999"],
            ["--fail", "cuInit:1=CUDA_ERROR_NO_SUCH"],
            ["--fail", "cuInit:1=0"],
            ["--fail", "cuInit:1="],
            ["--fail", "cuInit:1@0=999"],
            ["--fail", "cuInit:1@=999"],
            ["--fail", "cuNoSuch:1=999"],
            ["--fail", "cudaNoSuch:1=999"],
            ["--fail", "Init:1=999"],
            ["--fail", ":1=999"],
            ["--fail", "malloc:1=1"],
            ["--fail", "cuInit:1=999", "--fail", "cuInit:2=999"],
        ):
            done = vmmsim(*words, *(["true"] if words and words != ["--"] else []))
            self.ends(done, 2, stderr=["vmmsim: bad argument: ", " (vmmsim --help lists the options)\n"])
            assert done.stderr.count("\n") == 1, done.stderr
        for word, hint in (
            ("--gpu=2", "; did you mean --gpus? ("),
            ("--leak", "; did you mean --leaks? ("),
            ("--x", "--x ("),
        ):
            self.ends(vmmsim(word, "true"), 2, stderr=["vmmsim: bad argument: there is no option --", hint])

    def test_options_choose_the_machine(self):
        def count(*options):
            return vmmsim(*options, sys.executable, "-c", COUNT).stdout.split()

        assert count() == ["0", "0", "8"]
        assert count("--gpus", "3") == count("--gpus=3") == count("--gpus=3", "--") == ["0", "0", "3"]
        assert count("--machine", "one_gpu") == ["0", "0", "1"]
        assert count("--machine", "one_gpu", "--gpus", "2") == ["0", "0", "2"]
        own = self.scratch / "own.conf"
        own.write_text((LIBRARIES / "machines" / "one_gpu.conf").read_text().replace("gpus = 1", "gpus = 5"))
        assert count("--machine", own) == ["0", "0", "5"]
        for path in (LIBRARIES / "machines").glob("*.conf"):
            self.ends(vmmsim("--machine", path.stem, "true"), 0)

    def test_peers_may_lack_atomics(self):
        """GPUs that reach each other do not all have atomics between them."""
        whole = self.scratch / "whole.conf"
        whole.write_text((LIBRARIES / "machines" / "h200x8.conf").read_text())
        less = self.scratch / "less.conf"
        less.write_text(whole.read_text() + "peer_atomics = no\n")
        script = COUNT + "for what in (2, 3): d.cuDeviceGetP2PAttribute(ctypes.byref(n), what, 0, 1); print(n.value)\n"
        for machine, atomics in (whole, "1"), (less, "0"):
            done = vmmsim("--machine", machine, sys.executable, "-c", script)
            assert done.stdout.split() == ["0", "0", "8", "1", atomics], done

    def test_one_call_is_made_to_fail(self):
        script = COUNT + "print(d.cuDeviceGetCount(ctypes.byref(n)), d.cuDeviceGetCount(ctypes.byref(n)))\n"
        for error in ("CUDA_ERROR_UNKNOWN", "cudaErrorUnknown", "999"):
            done = vmmsim("--fail", f"cuDeviceGetCount:2={error}", sys.executable, "-c", script)
            assert done.stdout.split() == ["0", "0", "8", "999", "0"], done

    def test_a_call_of_one_process_is_made_to_fail(self):
        """The second of the second process, and not that of the first or the third."""
        script = COUNT + "print(d.cuDeviceGetCount(ctypes.byref(n)))\n"
        thrice = "for i in 1 2 3; do \"$0\" -c \"$1\" || exit; done"
        done = vmmsim("--fail", "cuDeviceGetCount:2@2=999", "sh", "-c", thrice, sys.executable, script)
        assert done.stdout.split() == ["0", "0", "8", "0", "0", "0", "8", "999", "0", "0", "8", "0"], done

    def test_a_trace_has_each_call(self):
        done = vmmsim(
            "--trace", "trace.json", sys.executable, "-c", "import os; os.chdir('/')\n" + COUNT, cwd=self.scratch
        )
        assert done.stdout.split() == ["0", "0", "8"], done
        assert [line["call"] for line in self.trace()] == ["cuInit", "cuDeviceGetCount", "exit"]
        self.ends(
            vmmsim("--trace", "/no/such/directory/file", "true"), 125, stderr=["vmmsim: ", "/no/such/directory/file"]
        )

    def test_a_trace_tells_of_ends(self):
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
            assert told == left, end

    def test_a_trace_tells_of_sockets_that_are_open_at_the_end(self):
        """An end tells of the sockets and pipes that are still open, but for the standard ones."""
        script = "import os; print(os.pipe()); os.dup2(3, 0)\n" + COUNT
        done = vmmsim("--trace", "trace.json", sys.executable, "-c", script, cwd=self.scratch)
        assert done.stdout.startswith("(3, 4)\n"), done
        assert self.trace()[-1]["arguments"] == {"status": 0, "descriptors": [], "sockets": [3, 4]}

    def test_a_trace_tells_of_sleeps_that_took_no_time(self):
        """Those that took no time are told; of a loop's, which may have no end, not all."""
        script = "import time\n" + COUNT + "for _ in range(70): time.sleep(1)"
        vmmsim("--adversarial-timing", "--trace", "trace.json", sys.executable, "-c", script, cwd=self.scratch)
        told = [line["nth"] for line in self.trace() if line["call"] == "sleep"]
        assert told == list(range(1, 65))

    def test_a_trace_tells_of_descriptors_that_hold_memory(self):
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
        assert [(line["nth"], line["arguments"]) for line in told] == [(1, {"fd": second}), (2, {"fd": first})]
        assert [(line["device"], line["result"], line["changes"]) for line in told] == [(-1, "", [])] * 2
        assert all(line["callers"] for line in told)

    def test_a_slow_import_waits_for_who_made_the_memory(self):
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
        assert re.search(r"\A(vmmsim: cuMemUnmap\(.*\n){2}\Z", plain)
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
            assert process.returncode == 0
            lines = told.decode().replace("\r\n", "\n").splitlines()
            if columns in (20, 10000):  # a terminal of no use, and one for all
                assert lines == plain.splitlines()
                continue
            assert len(lines) > 4
            assert max(map(len, lines)) <= columns
            assert "\n".join(lines).replace("\n    ", " ") + "\n" == plain
            for line, following in itertools.pairwise(lines):  # none is shorter than it has to be
                if following.startswith("    "):
                    assert len(line) + 1 + len(following.split()[0]) > columns

    def test_no_sleep_takes_time_under_adversarial_timing(self):
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
        assert (told["send"], len(told["exit"]["sockets"])) == ({"fds": [0, 1]}, 1)
        assert [line["call"] for line in self.trace()].count("sleep") == 2

    def test_an_end_is_waited_for_or_asked_for(self):
        """With --slow-import too, a child ends when its parent waits or asks again and again; time does not do."""
        script = MEMORY.removesuffix("start()\n") + (
            "import time\n"
            "child = os.fork()\n"
            "start()\n"
            "if not child: os._exit(0)\n"
            "end = time.monotonic() + 3\n"
            "while time.monotonic() < end: pass\n"
            "has_ended = lambda: os.waitpid(child, os.WNOHANG)[0] == child\n"
            "print(has_ended())\n"
            "while not has_ended(): pass\n"
        )
        options = "--adversarial-timing", "--slow-import", "1", "--trace", "trace.json"
        self.ends(vmmsim(*options, sys.executable, "-c", script, cwd=self.scratch), 0, "False\n")

    # --- starting and ending

    def test_a_child_that_is_forked_while_threads_call_has_no_driver(self):
        """It and its own child are told that they have no driver, whatever the threads that it lacks were at."""
        text = """
            #include <pthread.h>
            #include <sys/wait.h>
            #include <unistd.h>
            int cuInit(unsigned), cuDeviceGetCount(int*);
            static void* call(void* unused) {
              for (int count;;) cuDeviceGetCount(&count), cuInit(0);
            }
            static int child_is_refused(int generations) {
              int status;
              if (fork()) return wait(&status) > 0 && status == 3 << 8;
              alarm(5);
              _exit(generations > 1 && !child_is_refused(generations - 1) ? 2 : cuInit(0));
            }
            int main(void) {
              pthread_t threads[4];
              if (cuInit(0)) return 1;
              for (int i = 0; i < 4; ++i) pthread_create(&threads[i], 0, call, 0);
              for (int i = 0; i < 200; ++i)
                if (!child_is_refused(i ? 1 : 2)) return 2;
              _exit(0);
            }"""
        self.ends(vmmsim(self.build("forks", text, LIBRARIES / "libcuda.so.1", "-pthread")), 0)

    def test_a_machine_that_is_gone_is_not_found(self):
        """A process whose environment names a machine that was there before finds none."""
        token = "import os, re; name = os.environ['VMMSIM']\n" + (
            "old = re.sub(r'^(\\d+:\\d+:)(.)', lambda all: all[1] + '10'[all[2] == '1'], name)\n"
            "import subprocess, sys; os.environ['VMMSIM'] = old\n"
        )
        script = token + f"sys.exit(subprocess.call([sys.executable, '-c', {COUNT!r}]))"
        self.ends(vmmsim(sys.executable, "-c", script), 0, f"{SYSTEM_NOT_READY} 3 0\n", stderr=["is gone"])

    def test_each_gpu_has_a_file_of_its_numa_node(self):
        """Each GPU has one, which says 0, and which nobody writes or executes."""
        script = (
            "import os; files = [f'/sys/bus/pci/devices/0000:{bus:02x}:00.0/numa_node' for bus in (1, 2, 3)]\n"
            "for file in files: print([os.access(file, mode) for mode in (os.F_OK, os.R_OK, os.W_OK, os.X_OK)])\n"
            "print(*(open(file).read() for file in files[:2]))\n"
        )
        there, gone = [True, True, False, False], [False] * 4
        done = vmmsim("--gpus", "2", sys.executable, "-c", script)
        self.ends(done, 0, f"{there}\n{there}\n{gone}\n0\n 0\n\n")

    def test_visible_gpus_end_at_the_first_wrong_entry(self):
        """Up to the first entry that names none; a GPU that is named twice hides all."""
        script = (
            "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); count = ctypes.c_int(-1)\n"
            "print(cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(count)), count.value)"
        )
        counts = {"2,0": 2, "0, 1": 2, "0,9,1": 1, "-1": 0, "1,1": 0, "0,1,0": 0}
        for words, count in counts.items():
            done = vmmsim("--gpus", "3", sys.executable, "-c", script, environment={"CUDA_VISIBLE_DEVICES": words})
            self.ends(done, 0, f"0 0 {count}\n" if count else "100 3 -1\n")

    def test_the_status_is_the_programs(self):
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

    def test_a_directory_that_may_not_be_searched_is_told(self):
        closed = self.scratch / "closed"
        closed.mkdir(0)
        libc = ctypes.CDLL(None)

        def lose_root_s_rights():  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: gone with the next exec, if it had them
            for capability in 1, 2:
                libc.prctl(24, capability, 0, 0, 0)

        for word, path in (closed / "text", os.environ["PATH"]), ("text", f"{closed}:/no/such"):
            done = vmmsim(word, environment={"PATH": path}, preexec_fn=lose_root_s_rights)
            self.ends(done, 126, stderr=["cannot be executed: Permission denied"])

    def test_what_follows_the_program_is_its_own(self):
        script = self.scratch / "script"
        script.write_text('#!/bin/sh\nfor word; do echo "<$word>"; done\n')
        script.chmod(0o755)
        self.ends(
            vmmsim("--gpus", "2", script, "--gpus", "x", "", "--help", "a b"), 0, "<--gpus>\n<x>\n<>\n<--help>\n<a b>\n"
        )

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
            assert process.communicate(timeout=LIMIT)[0] == f"{int(number)}\nNone\n"
            assert process.returncode == 0

    def test_ctrl_c_comes_once(self):
        """The terminal sends it to the program itself, and vmmsim does not send it again."""
        ours, theirs = pty.openpty()
        self.at_end.callback(os.close, ours)
        self.at_end.callback(os.close, theirs)
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
        self.at_end.callback(process.kill)
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)  # until the program has taken the first, so that a second would be seen
        os.write(ours, b"\x03")
        assert process.stdout.readline() == "2\n"
        process.send_signal(signal.SIGCONT)
        assert process.communicate(timeout=LIMIT)[0] == "None\n"
        assert process.returncode == 0

    USES_THE_MACHINE = "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)\n"

    def test_killed_it_takes_along_the_program_that_uses_the_machine(self):
        process = self.start(self.USES_THE_MACHINE + self.WAIT)
        program = int(process.stdout.readline())
        assert not is_gone(program)
        process.kill()
        end = time.monotonic() + LIMIT
        while not is_gone(program) and time.monotonic() < end:
            time.sleep(0.02)
        left = not is_gone(program)
        if left:
            os.kill(program, signal.SIGKILL)
        assert not left, "the program outlives vmmsim"

    def test_killed_it_leaves_a_program_that_calls_nothing(self):
        process = self.start(self.WAIT)
        program = int(process.stdout.readline())
        process.kill()
        process.wait()
        os.kill(program, signal.SIGUSR1)
        assert process.stdout.read() == f"{int(signal.SIGUSR1)}\nNone\n"

    def test_stopped_it_stops_the_program_and_both_go_on(self):
        def state(pid):
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

        def comes(states):
            end = time.monotonic() + LIMIT
            while state(process.pid) + state(program) not in states and time.monotonic() < end:
                time.sleep(0.02)
            return state(process.pid) + state(program) in states

        # A group of its own, of this session: the kernel stops no group whose parent is of another session.
        script = "import os; print(os.getpid(), flush=True); input()"
        process = self.start(script, stdin=subprocess.PIPE, preexec_fn=os.setpgrp)
        program = int(process.stdout.readline())
        process.send_signal(signal.SIGTSTP)
        assert comes(["TT"])
        process.send_signal(signal.SIGCONT)
        assert comes(["SS", "SR", "RS", "RR"])
        process.communicate("\n", timeout=LIMIT)
        assert process.returncode == 0

    def test_nothing_is_left_behind(self):
        places = [pathlib.Path("/dev/shm"), self.scratch]
        before = [sorted(os.listdir(place)) for place in places]
        process = self.start(COUNT, start_new_session=True, env={**os.environ, "TMPDIR": str(self.scratch)})
        process.communicate(timeout=LIMIT)
        assert before == [sorted(os.listdir(place)) for place in places]
        with pytest.raises(ProcessLookupError):
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

    def test_a_warning_comes_before_memory_runs_out(self):
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
            self.at_end.callback(deadline.cancel)
            deadline.start()
            said = "".join(process.stderr.readline() for _ in range(lines))
            said += process.communicate("\n")[1]
            assert (process.returncode, said.count("\n")) == (0, lines), said
            return said

        said = run("62MiB", 1)
        # It may look amid the fill.
        assert re.search(r"^vmmsim: simulated memory takes 6[234] MiB of this machine's, and ", said)
        assert "give each GPU less, for instance --memory " in said
        assert run("66MiB", 0) == ""
        run("1MiB", 1)  # less than a frame

    def test_limits_of_a_process_are_told(self):
        self.ends(
            vmmsim("true", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))),
            125,
            stderr=["vmmsim: ", "ulimit -f", "--memory"],
        )

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

        self.ends(vmmsim("true", preexec_fn=limit), 0, stderr=["8.0 GiB", "ulimit -v", "--memory"])
        self.ends(vmmsim("--memory", "1GiB", "true", preexec_fn=limit), 0)
