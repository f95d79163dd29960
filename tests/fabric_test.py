#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Lesson 05 where something goes wrong: fabric_test.py VMMSIM FABRIC FABRIC_DOCTOR BROKEN_DRIVER

On simulated machines calls are refused by --fail, and processes are stopped and killed. BROKEN_DRIVER is a directory
with a libcuda.so.1 that hangs or crashes.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

VMMSIM, FABRIC, DOCTOR, BROKEN_DRIVER = sys.argv[1:5]
del sys.argv[1:]
STAGES = ["driver", "GPU", "fabric handles", "channel", "create", "export", "import", "map and write", "release"]
CREATE, EXPORT, IMPORT = "cuMemCreate", "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle"


def of_session(leader):
    """The processes of this session that have not ended."""
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, _, _, session = pathlib.Path("/proc", pid, "stat").read_text().rsplit(")", 1)[1].split()[:4]
        except OSError:
            continue  # it has ended meanwhile
        if int(session) == leader and state not in "ZX":
            left.append(int(pid))
    return left


class Case(unittest.TestCase):
    def start(self, *command, **variables):
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **variables},
        )
        limit = threading.Timer(40, self.tearDown)  # who waits for its words does not wait for ever
        limit.start()
        self.addCleanup(limit.cancel)

    def end(self, output=""):
        """Waits for the end: status, stdout, stderr. Nothing may be left behind."""
        more, errors = self.process.communicate(timeout=30)
        for _ in range(100):  # who was killed takes a moment to go
            left = of_session(self.process.pid)
            if not left:
                break
            time.sleep(0.05)
        self.assertEqual(left, [], "processes left behind")
        return self.process.returncode, output + more, errors

    def run_on(self, *command):
        self.start(VMMSIM, "--strict", "--gpus", "2", *command)
        return self.end()

    def tearDown(self):
        for pid in of_session(self.process.pid):
            os.kill(pid, signal.SIGKILL)


class Fabric(Case):
    def test_more_memory(self):
        status, output, errors = self.run_on(FABRIC, "--granules", "3")
        self.assertEqual((status, errors), (0, ""), output)
        self.assertIn("    rank 1: 6144 KiB imported\n", output)
        self.assertIn("    rank 0: 1572864 integers are what rank 1 wrote\n", output)

    def test_what_an_administrator_can_permit_is_a_skip_at_its_step(self):
        for call, error, step in (
            (CREATE, "NOT_PERMITTED", 3),
            (CREATE, "NOT_SUPPORTED", 3),
            (EXPORT, "INVALID_VALUE", 4),
            (EXPORT, "NOT_PERMITTED", 4),
            (IMPORT, "NOT_PERMITTED", 5),
            (IMPORT, "INVALID_DEVICE", 5),
        ):
            with self.subTest(call=call, error=error):
                status, output, errors = self.run_on("--fail", f"{call}:1=CUDA_ERROR_{error}", FABRIC)
                self.assertEqual((status, errors), (77, ""), output)
                self.assertRegex(
                    output, rf"\n\[{step}\] .*\nSKIP: {call} answers CUDA_ERROR_{error}; fabric_doctor says .*\n\Z"
                )

    def test_any_other_refusal_is_a_failure(self):
        for call, error in (
            (CREATE, "OUT_OF_MEMORY"),
            (CREATE, "INVALID_VALUE"),
            (EXPORT, "OUT_OF_MEMORY"),
            (IMPORT, "INVALID_HANDLE"),
        ):
            with self.subTest(call=call, error=error):
                status, output, errors = self.run_on("--fail", f"{call}:1=CUDA_ERROR_{error}", FABRIC)
                self.assertEqual(status, 1)
                self.assertNotRegex(output, "SKIP|OK")
                self.assertIn(f"failed {call}\n  CUDA_ERROR_{error}", errors)
                told = "rank 1 (importer) ended before it answered [5], status 1" in errors
                self.assertEqual(told, call == IMPORT, errors)

    def at_work(self, number):
        """Starts it, and sends a signal to one of the ranks while rank 1 writes. (output, pid of rank 0)"""
        rank, what = number
        self.start(VMMSIM, "--strict", "--gpus", "2", FABRIC, "--granules", "128", "--timeout", "2")
        output = ""
        while not output.endswith("\n[7] Write as the importer, check as the exporter\n"):
            line = self.process.stdout.readline()
            self.assertTrue(line, output)
            output += line
        ranks = sorted(
            pid for pid in of_session(self.process.pid) if os.readlink(f"/proc/{pid}/exe") == os.path.realpath(FABRIC)
        )
        parents = {
            pid: int(re.search(r"PPid:\t(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) for pid in ranks
        }
        importer = next(pid for pid in ranks if parents[pid] in ranks)
        exporter = parents[importer]
        os.kill((exporter, importer)[rank], what)
        return output, exporter

    def test_rank_1_is_killed(self):
        output, _ = self.at_work((1, signal.SIGKILL))
        status, output, errors = self.end(output)
        self.assertEqual(status, 1)
        self.assertRegex(errors, r"rank 1 \(importer\) ended before it answered \[[78]\], status 137")

    def test_rank_1_is_silent(self):
        output, _ = self.at_work((1, signal.SIGSTOP))
        status, output, errors = self.end(output)
        self.assertEqual(status, 1)
        self.assertRegex(errors, r"fabric: rank 1 \(importer\) did not answer \[[78]\] within 2 s")

    def test_rank_0_is_killed(self):
        output, _ = self.at_work((0, signal.SIGKILL))
        _, output, errors = self.end(output)
        self.assertRegex(errors, r"rank 0 \(exporter\) ended before it answered \[[78]\]")

    def test_rank_0_is_silent(self):
        _, exporter = self.at_work((0, signal.SIGSTOP))
        said = self.process.stderr.readline()  # rank 1 may have had the answer of step 7
        self.assertRegex(said, r"fabric: rank 0 \(exporter\) did not answer \[[78]\] within 2 s\n")
        os.kill(exporter, signal.SIGKILL)  # nobody else would
        self.end()


class Doctor(Case):
    def test_each_machine_in_the_table_and_as_json(self):
        for machine, failed, status in (
            ("h200x8", None, 0),
            ("one_gpu", None, 0),
            ("no_gpu", "driver", 77),
            ("old_driver", "driver", 77),
            ("no_fabric", "fabric handles", 77),
            ("no_channel", "channel", 77),
        ):
            with self.subTest(machine):
                self.start(VMMSIM, "--machine", machine, DOCTOR)
                self.assertEqual(self.check(self.end(), failed), status)

    def test_each_call_in_turn(self):
        for fail, failed, status in (
            ("cuInit:1=CUDA_ERROR_SYSTEM_NOT_READY", "driver", 77),
            ("cuInit:1=CUDA_ERROR_UNKNOWN", "driver", 1),
            (CREATE + ":1=CUDA_ERROR_OUT_OF_MEMORY", "create", 1),
            (EXPORT + ":1=CUDA_ERROR_INVALID_VALUE", "export", 77),
            (EXPORT + ":1=CUDA_ERROR_OUT_OF_MEMORY", "export", 1),
            (IMPORT + ":1=CUDA_ERROR_INVALID_DEVICE", "import", 77),
            (IMPORT + ":1=CUDA_ERROR_UNKNOWN", "import", 1),
            ("cuMemSetAccess:1=CUDA_ERROR_NOT_SUPPORTED", "map and write", 77),
            ("cuMemcpyDtoH:1=CUDA_ERROR_UNKNOWN", "map and write", 1),
            ("cuMemRelease:1=CUDA_ERROR_UNKNOWN", "map and write", 1),
        ):
            with self.subTest(fail):
                result = self.run_on("--fail", fail, DOCTOR)
                self.assertEqual(self.check(result, failed), status)
                self.assertIn("{} answers {}".format(*re.split(":1=", fail)), result[1])

    def check(self, result, failed):
        """The table fits to the same as JSON, and both to the stage that fails. Returns the exit status."""
        status, table, errors = result
        command = [*self.process.args, "--json"]
        self.start(*command)
        json_status, text, json_errors = self.end()
        self.assertEqual((json_status, json_errors), (status, errors))
        told = json.loads(text)
        self.assertEqual(list(told), ["works", "failed", "remedy", "stages"])
        self.assertEqual((told["works"], told["failed"]), (failed is None, failed or ""))
        self.assertEqual([list(stage) for stage in told["stages"]], [["stage", "state", "found"]] * len(STAGES))
        self.assertEqual([stage["stage"] for stage in told["stages"]], STAGES)
        at = STAGES.index(failed) if failed else len(STAGES)
        states = ["done"] * at + ["failed"] * bool(failed) + ["not reached"] * (len(STAGES) - at - 1)
        self.assertEqual([stage["state"] for stage in told["stages"]], states)
        rows = re.findall(r"^    (.{14})  (.*)$", table, re.MULTILINE)
        self.assertEqual(
            [(name.strip(), text) for name, text in rows],
            [(it["stage"], it["state"] + (it["found"] and ": " + it["found"])) for it in told["stages"]],
        )
        found = failed and told["stages"][at]["found"]
        first = f"SKIP: {found}; {told['remedy']}" if told["remedy"] else "[1] Ask the driver"
        self.assertEqual(table.splitlines()[0], first)
        self.assertEqual(table.splitlines()[-1] == "OK", not failed)
        self.assertEqual(errors, f"fabric_doctor: {failed}: {found}\n" if status == 1 else "")
        self.assertEqual(bool(told["remedy"]), status == 77)
        return status

    def test_a_driver_that_hangs_or_crashes(self):
        for how, words in ("hang", "did not end within the time-out"), ("crash", "a process was ended here"):
            with self.subTest(how):
                self.start(DOCTOR, "--timeout", "1", LD_LIBRARY_PATH=BROKEN_DRIVER, BROKEN_DRIVER=how)
                status, output, errors = self.end()
                self.assertEqual((status, errors), (1, f"fabric_doctor: driver: {words}\n"))
                self.assertIn(f"    driver          failed: {words}\n    GPU             not reached\n", output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
