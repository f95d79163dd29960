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
        limit = threading.Timer(60, self.tearDown)  # who waits for its words does not wait for ever
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
    def test_no_permission_is_a_skip_and_said_once(self):
        for error in "NOT_PERMITTED", "NOT_SUPPORTED":
            with self.subTest(error):
                status, output, errors = self.run_on("--fail", f"{CREATE}:1=CUDA_ERROR_{error}", FABRIC)
                self.assertEqual((status, errors), (77, ""), output)
                self.assertRegex(
                    output, rf"\A\[1\] .*\nSKIP: {CREATE} answers CUDA_ERROR_{error}; fabric_doctor says .*\n\Z"
                )

    def test_any_other_refusal_is_a_failure(self):
        for call, error in (
            (CREATE, "OUT_OF_MEMORY"),
            (CREATE, "INVALID_VALUE"),
            (EXPORT, "NOT_PERMITTED"),
            (EXPORT, "INVALID_VALUE"),
            (IMPORT, "NOT_PERMITTED"),
            (IMPORT, "INVALID_DEVICE"),
        ):
            with self.subTest(call=call, error=error):
                status, output, errors = self.run_on("--fail", f"{call}:1=CUDA_ERROR_{error}", FABRIC)
                self.assertEqual(status, 1)
                self.assertNotRegex(output, "SKIP|OK")
                self.assertRegex(errors, rf"failed ({call}\(.*\)|created)\n  CUDA_ERROR_{error}")
                told = "the importer ended before it was done" in errors
                self.assertEqual(told, call == IMPORT, errors)

    def at_work(self):
        """Starts it with an importer that is slow. (output, pid of the exporter, pid of the importer)"""
        self.start(VMMSIM, "--strict", "--gpus", "2", "--slow-import", "60", FABRIC)
        output = ""
        while not output.endswith("\n[4] Import them\n"):
            line = self.process.stdout.readline()
            self.assertTrue(line, output)
            output += line
        pair = [
            pid for pid in of_session(self.process.pid) if os.readlink(f"/proc/{pid}/exe") == os.path.realpath(FABRIC)
        ]
        parents = {
            pid: int(re.search(r"PPid:\t(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) for pid in pair
        }
        importer = next(pid for pid in pair if parents[pid] in pair)
        return output, parents[importer], importer

    def test_the_importer_is_killed(self):
        output, _, importer = self.at_work()
        os.kill(importer, signal.SIGKILL)
        status, output, errors = self.end(output)
        self.assertEqual((status, output.splitlines()[-1]), (1, "[4] Import them"))
        self.assertIn("the importer ended before it was done", errors)

    def test_the_exporter_is_killed(self):
        output, exporter, _ = self.at_work()
        os.kill(exporter, signal.SIGKILL)
        _, output, errors = self.end(output)
        self.assertNotIn("OK", output)

    def test_the_importer_is_silent(self):
        output, _, importer = self.at_work()
        os.kill(importer, signal.SIGSTOP)
        began = time.monotonic()
        said = self.process.stderr.readline() + self.process.stderr.readline()
        self.assertIn("was silent for 30 s", said)
        self.assertGreater(time.monotonic() - began, 20)
        os.kill(importer, signal.SIGKILL)  # nobody else would
        self.assertEqual(self.end(output)[0], 1)


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

    def test_cliques(self):
        """A driver that knows them is asked, and NVML is not."""
        self.start(VMMSIM, "--machine", "h200x8_cuda_13_5", DOCTOR)
        result = self.end()
        self.assertEqual(self.check(result, None), 0)
        self.assertIn("supported, says the driver; 8 of 8 GPUs are in its multicast clique\n", result[1])

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
