# SPDX-License-Identifier: MIT-0
"""Lesson 05 where something goes wrong.

On simulated machines calls are refused by --fail, and processes are stopped and killed. BROKEN_DRIVER is a directory
with a libcuda.so.1 that hangs or crashes.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from scripts.transcript import as_printed
from vmmsim.built import BUILT

ROOT = pathlib.Path(__file__).resolve().parents[1]
VMMSIM, BROKEN_DRIVER = BUILT["vmmsim"], BUILT["broken_driver"]
FABRIC, DOCTOR = (f"{BUILT['build']}/bin/{name}" for name in ("fabric", "fabric_doctor"))
STAGES = ["driver", "GPU", "fabric handles", "channel", "create", "export", "import", "map and write", "release"]
CREATE, EXPORT, IMPORT = "cuMemCreate", "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle"


def of_session(leader):
    """The processes of this session that have not ended."""
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = pathlib.Path("/proc", pid, "stat").read_text(errors="replace")  # a name may be any bytes
            state, _, _, session = stat.rsplit(")", 1)[1].split()[:4]
        except OSError:
            continue  # it has ended meanwhile
        if int(session) == leader and state not in "ZX":
            left.append(int(pid))
    return left


class Case:
    @pytest.fixture(autouse=True)
    def process_ends(self):
        yield
        self.limit.cancel()
        self.stop()

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
        self.limit = threading.Timer(90, self.stop)  # who waits for its words does not wait for ever
        self.limit.start()

    def end(self, output=""):
        """Waits for the end: status, stdout, stderr. Nothing may be left behind."""
        more, errors = self.process.communicate(timeout=30)
        self.limit.cancel()  # or the whole test lasts as long as that
        for _ in range(100):  # who was killed takes a moment to go
            left = of_session(self.process.pid)
            if not left:
                break
            time.sleep(0.05)
        assert left == [], "processes left behind"
        return self.process.returncode, output + more, errors

    def run_on(self, *command):
        self.start(VMMSIM, "--strict", "--gpus", "2", *command)
        return self.end()

    def stop(self):
        for pid in of_session(self.process.pid):
            os.kill(pid, signal.SIGKILL)


class TestFabric(Case):
    def test_no_permission_is_a_skip_and_said_once(self, subtests):
        for error in "NOT_PERMITTED", "NOT_SUPPORTED":
            with subtests.test(error):
                status, output, errors = self.run_on("--fail", f"{CREATE}:1=CUDA_ERROR_{error}", FABRIC)
                assert (status, errors) == (77, ""), output
                assert re.search(
                    rf"\A\[1\] .*\nSKIP: {CREATE} answers CUDA_ERROR_{error}; fabric_doctor says .*\n\Z", output
                )

    def test_any_other_refusal_is_a_failure(self, subtests):
        for call, error in (
            (CREATE, "OUT_OF_MEMORY"),
            (CREATE, "INVALID_VALUE"),
            (EXPORT, "NOT_PERMITTED"),
            (EXPORT, "INVALID_VALUE"),
            (IMPORT, "NOT_PERMITTED"),
            (IMPORT, "INVALID_DEVICE"),
        ):
            with subtests.test(call=call, error=error):
                status, output, errors = self.run_on("--fail", f"{call}:1=CUDA_ERROR_{error}", FABRIC)
                assert status == 1
                assert not re.search("SKIP|OK", output)
                assert re.search(rf"failed ({call}\(.*\)|created)\n  CUDA_ERROR_{error}", errors)
                told = "the importer ended before it was done" in errors
                assert told == (call == IMPORT), errors

    def at_work(self):
        """Starts it with an importer that is slow. (output, pid of the exporter, pid of the importer)"""
        self.start(VMMSIM, "--strict", "--gpus", "2", "--slow-import", "60", FABRIC)
        output = ""
        while not output.endswith("\n[3] Import it\n"):
            line = self.process.stdout.readline()
            assert line, output
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
        assert (status, output.splitlines()[-1]) == (1, "[3] Import it")
        assert "the importer ended before it was done" in errors

    def test_the_exporter_is_killed(self):
        output, exporter, _ = self.at_work()
        os.kill(exporter, signal.SIGKILL)
        _, output, errors = self.end(output)
        assert "OK" not in output

    def test_a_silent_importer_is_not_waited_for(self):
        output, exporter, importer = self.at_work()
        os.kill(importer, signal.SIGSTOP)
        began = time.monotonic()
        while exporter in of_session(self.process.pid):
            assert time.monotonic() - began < 75
            time.sleep(0.1)
        assert time.monotonic() - began > 45
        os.kill(importer, signal.SIGKILL)  # nobody else would
        status, _, errors = self.end(output)
        assert (status, errors) == (1, "a minute is over, and the other process is silent\n")

    def test_two_machines_over_tcp(self, tmp_path):
        """The importer begins, and says once that nobody is there. Each tells its half of what is recorded."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        ends = f"import localhost {port}", f"export {port}"
        words = [f"VMMSIM_NODE={1 - i} {FABRIC} {end} >{i} 2>{i}.err" for i, end in enumerate(ends)]
        script = f"cd {tmp_path}; {words[0]} & until [ -s 0.err ]; do sleep 0.1; done; {words[1]} && wait $!"
        self.start(VMMSIM, "--strict", "--nodes", "2", "sh", "-c", script)
        assert self.end() == (0, "", "")
        importer, exporter = ((tmp_path / name).read_text().splitlines() for name in "01")
        assert (exporter[0][:3], importer[0][:3]) == ("[1]", "[3]")
        recorded = as_printed((ROOT / "05_fabric/expected_output.txt").read_text()).splitlines()
        assert sorted([*exporter, *importer]) == sorted(recorded)
        said = [(tmp_path / name).read_text() for name in ("0.err", "1.err")]
        assert said == ["localhost: Connection refused; trying again\n", ""]

    def test_bad_arguments(self):
        for words in ["x"], ["export"], ["import", "localhost"]:
            status, output, errors = self.run_on(FABRIC, *words)
            assert (status, output, errors[:7]) == (2, "", "usage: ")


class TestDoctor(Case):
    def test_each_machine_in_the_table_and_as_json(self, subtests):
        for machine, failed, status in (
            ("h200x8", None, 0),
            ("one_gpu", None, 0),
            ("no_gpu", "GPU", 77),
            ("old_driver", "driver", 77),
            ("no_fabric", "fabric handles", 77),
            ("no_channel", "channel", 77),
        ):
            with subtests.test(machine):
                self.start(VMMSIM, "--machine", machine, DOCTOR)
                assert self.check(self.end(), failed) == status

    def test_cliques_are_told(self):
        """A driver that knows them is asked, and NVML is not."""
        self.start(VMMSIM, "--machine", "h200x8_cuda_13_5", DOCTOR)
        result = self.end()
        assert self.check(result, None) == 0
        assert "supported, says the driver; 8 of 8 GPUs are in its multicast clique\n" in result[1]

    def test_each_call_that_fails_is_told(self, subtests):
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
            with subtests.test(fail):
                result = self.run_on("--fail", fail, DOCTOR)
                assert self.check(result, failed) == status
                assert "{} answers {}".format(*re.split(":1=", fail)) in result[1]

    def check(self, result, failed):
        """The table fits to the same as JSON, and both to the stage that fails. Returns the exit status."""
        status, table, errors = result
        command = [*self.process.args, "--json"]
        self.start(*command)
        json_status, text, json_errors = self.end()
        assert (json_status, json_errors) == (status, errors)
        told = json.loads(text)
        assert list(told) == ["works", "failed", "remedy", "stages"]
        assert (told["works"], told["failed"]) == (failed is None, failed or "")
        assert [list(stage) for stage in told["stages"]] == [["stage", "state", "found"]] * len(STAGES)
        assert [stage["stage"] for stage in told["stages"]] == STAGES
        at = STAGES.index(failed) if failed else len(STAGES)
        states = ["done"] * at + ["failed"] * bool(failed) + ["not reached"] * (len(STAGES) - at - 1)
        assert [stage["state"] for stage in told["stages"]] == states
        rows = re.findall(r"^    (.{14})  (.*)$", table, re.MULTILINE)
        assert [(name.strip(), text) for name, text in rows] == [
            (it["stage"], it["state"] + (it["found"] and ": " + it["found"])) for it in told["stages"]
        ]
        found = failed and told["stages"][at]["found"]
        first = f"SKIP: {found}; {told['remedy']}" if told["remedy"] else "[1] Ask the driver"
        assert table.splitlines()[0] == first
        assert (table.splitlines()[-1] == "OK") == (not failed)
        assert errors == (f"fabric_doctor: {failed}: {found}\n" if status == 1 else "")
        assert bool(told["remedy"]) == (status == 77)
        return status

    def test_a_driver_that_hangs_or_crashes_is_told(self, subtests):
        for how, words in ("hang", "did not end within the time-out"), ("crash", "a process was ended here"):
            with subtests.test(how):
                self.start(DOCTOR, "--timeout", "1", LD_LIBRARY_PATH=BROKEN_DRIVER, BROKEN_DRIVER=how)
                status, output, errors = self.end()
                assert (status, errors) == (1, f"fabric_doctor: driver: {words}\n")
                assert f"    driver          failed: {words}\n    GPU             not reached\n" in output
