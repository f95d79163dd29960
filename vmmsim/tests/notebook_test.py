# SPDX-License-Identifier: MIT-0
"""%load_ext vmmsim in a kernel for Python as every application has one.

The driver is called by ctypes, so that no package of NVIDIA's is needed.
"""

import json
import os
import pathlib
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile

import pytest

from vmmsim.built import BUILT
from vmmsim.testing.browser import skip

try:
    import ipykernel  # noqa: F401
    import nbformat
    from jupyter_core.utils import run_sync
    from nbclient import NotebookClient
except ImportError as missing:
    skip(f"{missing.name} is not installed for this Python")

from vmmsim.hardware import count_gpus
from vmmsim.notebook.live import Live
from vmmsim.testing.sample import MIB, Writer
from vmmsim.tool import PACKAGE

LAUNCHER = pathlib.Path(BUILT["vmmsim"])
SECONDS = 150  # for a cell, or to start, on a busy machine
LOAD = "%load_ext vmmsim\n%vmm start --gpus 2"
BEGIN = """
import ctypes
cuda, MiB = ctypes.CDLL("libcuda.so.1"), 1 << 20
context = ctypes.c_void_p()
assert not cuda.cuInit(0)
assert not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) and not cuda.cuCtxSetCurrent(context)

class Properties(ctypes.Structure):  # CUmemAllocationProp
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location_type", ctypes.c_int),
                ("location_id", ctypes.c_int), ("more", ctypes.c_char * 16)]

properties = Properties(1, 0, 1, 0)

def reserve(size):
    address = ctypes.c_uint64()
    assert not cuda.cuMemAddressReserve(ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_size_t(0),
                                        ctypes.c_uint64(0), ctypes.c_uint64(0))
    return address.value

def create(size):
    handle = ctypes.c_uint64()
    assert not cuda.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties),
                                ctypes.c_uint64(0))
    return handle.value

def map_it(address, size, handle):
    return cuda.cuMemMap(ctypes.c_uint64(address), ctypes.c_size_t(size), ctypes.c_size_t(0), ctypes.c_uint64(handle),
                         ctypes.c_uint64(0))
"""


class TestNotebook:
    @classmethod
    def setup_class(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="notebook ")
        cls.place = pathlib.Path(cls.scratch.name)
        # As an installation has it.
        cls.package = package = cls.place / "site packages" / "vmmsim"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("bin", "recorder"))
        (package / "bin").symlink_to(LAUNCHER.parent)
        os.environ["PYTHONPATH"] = str(package.parent)
        for name in "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR":
            os.environ[name] = str(cls.place / "jupyter")

    def run_cells(self, *cells, kernel="python3"):
        """What each shows, as one text: what it printed, a picture's words, an error."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        at = {"metadata": {"path": str(self.place)}}
        quiet = ["--log-level=40"]
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            startup_timeout=SECONDS,
            kernel_name=kernel,
            allow_errors=True,
            resources=at,
            extra_arguments=quiet,
        )
        client.execute()
        self.html = [
            "".join(one.get("data", {}).get("text/html", "") for one in cell.outputs) for cell in notebook.cells
        ]
        tracebacks = [one.get("traceback", ()) for cell in notebook.cells for one in cell.outputs]
        self.traceback = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(line for lines in tracebacks for line in lines))
        return ["".join(map(text_of, cell.outputs)) for cell in notebook.cells]

    def test_each_cell_is_drawn_call_by_call(self):
        size = "2 * MiB"
        _, begun, ordinary, reserved, created, refused, mapped, released, again = self.run_cells(
            LOAD,
            BEGIN,
            "block = ctypes.c_uint64()\ncuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1000))\n"
            "cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(1000));",
            f"address = reserve(2 * {size})",
            f"memory = [create({size})]\nsecond, last = address + {size}, address + 2 * {size} - 8192",
            "map_it(address, MiB, memory[0])\nraise ValueError",
            f"map_it(address, {size}, memory[0])",
            "cuda.cuMemRelease(ctypes.c_uint64(memory[0]))",
            "%vmm off\nreserve(2 * MiB);",
        )
        assert "addresses and memory are as they were" in begun
        assert "cuGetProcAddress" not in begun
        assert "Ordinary memory: 1000 B by cuMemAlloc (block), 1000 B by cuMemAlloc." in ordinary
        assert "Reservation address, 4 MiB (new): 4 MiB not mapped" in reserved
        assert "2 MiB (new) with handle memory[0]" in created
        assert "Pointers: second = address + 2 MiB, last = address + 4088 KiB." in created
        assert "cuMemMap: CUDA_ERROR_NOT_SUPPORTED" in refused
        assert "is mapped whole only" in refused
        assert "answers CUDA_ERROR" not in refused
        assert "border-left" in self.html[5]
        assert "2 MiB mapped to memory of GPU 0 (new; GPU 0 no access)" in mapped
        assert "data:image/svg+xml;base64," in self.html[6]
        assert "2 MiB with handle memory[0] (gone)" in released
        assert "Reservation" not in again

    def test_much_is_cut_and_counted(self):
        _, _, many, few = self.run_cells(
            LOAD,
            BEGIN,
            "big = reserve(4000 * MiB)\n"
            "for i in range(300): map_it(big + (12 * i + 2 * (i % 3)) * MiB, 2 * MiB, create(2 * MiB))\n"
            "rooms, idle = [reserve(2 * MiB) for _ in range(90)], [create(4 * MiB) for _ in range(40)]",
            "last = reserve(6 * MiB)",
        )
        for what in "83 more reservations", "592 more parts", "332 more allocations":
            assert what in many
        assert "Reservation last, 6 MiB (new)" in few  # what has changed is never left out
        assert all(len(html) < 60_000 for html in self.html)

    def test_a_child_is_shown_and_its_end(self):
        child = BEGIN + "reserve(8 * MiB); create(2 * MiB); print(flush=True); input()"
        _, begun, alive, killed, later = self.run_cells(
            LOAD,
            BEGIN + "create(4 * MiB)",
            "import subprocess, sys\n"
            f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdin=-1, stdout=-1)\n"
            "child.stdout.readline()",
            "child.kill(); child.wait();",
            "create(6 * MiB);",
        )
        assert "4 MiB (new) with handle" in begun
        assert "Child 1: reservation R1, 8 MiB (new)" in alive
        assert "with handle of notebook" in alive
        assert "Child 1: reservation R1, 8 MiB (gone)" in killed
        assert "2 MiB (gone)" in killed
        assert "Child" not in later

    def test_it_may_begin_anew(self):
        cell = BEGIN + "x = reserve(2 * MiB)"
        _, first, started, second, _, third = self.run_cells(LOAD, cell, "%vmm start", cell, "%reload_ext vmmsim", cell)
        assert started == ""
        for text in first, second, third:
            assert text.count("eservation") == 1

    def test_what_a_cell_shows_comes_as_from_the_kernel(self):
        _, printed, result, error, command, shown, cleared, none = self.run_cells(
            LOAD,
            "import sys\nprint('out'); print('wrong', file=sys.stderr)",
            "x = 3\nx + 4",
            "def fail():\n    return 1 / 0\nfail()",
            "!echo $((6 * 7))",
            "from IPython.display import HTML, clear_output, display\ndisplay(HTML('<b>bold</b>'))",
            "print('before'); clear_output(); print('after')",
            "x;",
        )
        assert (printed, result) == ("out\nwrong\n", "7")
        assert error == "ZeroDivisionError: division by zero\n"
        assert "return" in self.traceback
        assert "In[4], line 2" in self.traceback
        assert command.split() == ["42"]
        assert "<b>bold</b>" in self.html[5]
        assert (cleared, none) == ("after\n", "")
        assert shown == "<IPython.core.display.HTML object>"

    def test_cells_of_other_languages_stay_in_the_kernel(self):
        kernel, _, bash, timed, process, _, again = self.run_cells(
            "import os\nos.getpid()",
            LOAD,
            "%%bash\necho $PPID",
            "%%time\nmine = f'{100}%%'\nmine",
            "import os\nos.getpid()",
            "%unload_ext vmmsim",
            "os.getpid()",
        )
        assert bash.strip() == kernel == again != process
        assert timed.startswith("'100%%'")
        assert "Wall time" in timed

    def test_what_a_cell_shows_can_be_folded(self):
        _, _, _, folded, failed, _, unfolded = self.run_cells(
            LOAD,
            BEGIN,
            "%vmm fold",
            "address = reserve(4 * MiB)\nprint('1 <', 2)\n3",
            "print('seen'); 1 / 0",
            "%vmm on",
            "address = reserve(4 * MiB)",
        )
        assert folded.startswith("1 < 2\n3\nAfter [4]. Reservation address, 4 MiB (new)")
        assert self.html[3].startswith("<details")
        assert self.html[3].endswith("</details>")
        for part in "<summary", "<pre>1 &lt; 2\n</pre>", "<pre>3</pre>", "data:image/svg+xml;base64,":
            assert part in self.html[3]
        assert failed == "seen\nZeroDivisionError: division by zero\n"  # an error is never hidden
        assert "<details" not in self.html[4] + self.html[6]
        assert "Reservation" in unfolded

    def test_the_end_of_the_process_is_told(self):
        _, killed, ended, _, again = self.run_cells(
            LOAD, "import os\nos.kill(os.getpid(), 9)", "import sys\nsys.exit()\n", "os._exit(3)", BEGIN + "MiB"
        )
        assert "has ended, with signal SIGKILL. Run %vmm start, and then the cells again" in killed
        assert "SystemExit" in ended
        assert "1048576" in again

    def test_a_fault_says_how_to_go_on(self):
        ptx = (
            ".version 8.0\\n.target sm_75\\n.address_size 64\\n.visible .entry wrong() "
            "{ .reg .b64 %a; .reg .b32 %b; mov.b64 %a, 64; mov.b32 %b, 1; st.global.u32 [%a], %b; ret; }"
        )
        _, _, faulted, after = self.run_cells(
            LOAD,
            BEGIN,
            "module, function = ctypes.c_void_p(), ctypes.c_void_p()\n"
            f"assert not cuda.cuModuleLoadData(ctypes.byref(module), b'{ptx}')\n"
            "assert not cuda.cuModuleGetFunction(ctypes.byref(function), module, b'wrong')\n"
            "cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None), cuda.cuCtxSynchronize()",
            "cuda.cuCtxSynchronize()",
        )
        assert "cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS. kernel wrong" in faulted
        assert "Run %vmm start, and then the cells again" in after

    def test_an_interrupt_ends_the_cell_and_not_the_process(self):
        _, interrupted, after = self.run_cells(
            "import os\nos.environ['KERNEL'] = str(os.getpid())\n" + LOAD,
            "import os, signal\nx = 5\nos.kill(int(os.environ['KERNEL']), signal.SIGINT)\nwhile True: pass",
            "x",
        )
        assert interrupted.startswith("KeyboardInterrupt")
        assert after == "5"

    def test_the_process_ends_with_its_channel(self):
        """Even in the middle of a cell, and where no vmmsim ends it, as on real GPUs."""
        channel, theirs = socket.socketpair()
        script = self.package / "notebook" / "process.py"
        words = [sys.executable, "-B", script, str(theirs.fileno()), os.devnull]
        with channel, theirs, subprocess.Popen(words, pass_fds=[theirs.fileno()]) as process:
            theirs.close()
            cell = {"cell": "print('begun')\nwhile True: pass", "count": 1}
            channel.sendall(json.dumps(cell).encode() + b"\n")
            with channel.makefile() as answers:
                assert "begun" in next(line for line in answers if "stdout" in line)
            channel.close()
            try:
                assert process.wait(SECONDS) == 1
            finally:
                process.kill()

    def test_the_process_ends_with_the_kernel(self):
        """Even if it is in the middle of a cell."""
        notebook = nbformat.v4.new_notebook()
        cells = [LOAD, "import os\nos.getpid()"]
        notebook.cells = [nbformat.v4.new_code_cell(text) for text in cells]
        client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", extra_arguments=["--log-level=40"])
        with client.setup_kernel():
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)
            process = os.pidfd_open(int(text_of(notebook.cells[1].outputs[0])))
            client.kc.execute("while True: pass")
            run_sync(client.km.shutdown_kernel)(now=True)
        try:
            assert select.select([process], [], [], SECONDS)[0]
        finally:
            os.close(process)

    def test_the_tab_key_knows_the_process(self):
        notebook = nbformat.v4.new_notebook()
        cells = [LOAD, "my_address = 4096"]
        notebook.cells = [nbformat.v4.new_code_cell(text) for text in cells]
        client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", extra_arguments=["--log-level=40"])
        with client.setup_kernel():
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)

            async def asked():
                both = (client.kc.complete, "my_a"), (client.kc.inspect, "my_address")
                return [await ask(code, 4, reply=True, timeout=SECONDS) for ask, code in both]

            completed, inspected = (reply["content"] for reply in run_sync(asked)())
        assert completed["matches"] == ["my_address"]
        assert (completed["cursor_start"], completed["cursor_end"]) == (0, 4)
        assert "4096" in inspected["data"]["text/plain"]

    def test_bad_words_are_told(self):
        _, option, both, value, word, real = self.run_cells(
            LOAD,
            "%vmm start --gpu 2",
            "%vmm start --real --gpus 2",
            "%vmm start --gpus many",
            "%vmm colour",
            "%vmm start --real",
        )
        assert "unrecognized arguments: --gpu 2\nusage: %vmm start [--real] [--gpus N]" in option
        assert "--gpus is of simulated GPUs: leave it or --real out" in both
        assert "bad argument: 'many' is no number from 0 to 64" in value
        assert "has ended, with status 2" in value
        assert "%vmm on, %vmm off, %vmm fold" in word
        number, why = count_gpus()
        no_gpu = f"UsageError: --real: no GPU here: {why}. Leave --real out for simulated GPUs\n"
        assert "CUPTI" in real if number else real == no_gpu

    def test_on_real_gpus_each_cell_is_recorded_and_drawn(self):
        """The driver is the simulator's, and tells the recorder of calls as NVIDIA's does; no launcher is needed."""
        if "recorded_driver" not in BUILT:
            pytest.skip("the build had no CUPTI")
        kernel = self.place / "jupyter" / "kernels" / "simulated"
        kernel.mkdir(parents=True)
        start_it = [str(LAUNCHER), "--gpus", "2", sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        (kernel / "kernel.json").write_text(json.dumps({"argv": start_it, "display_name": "", "language": "python"}))
        (self.package / "recorder").symlink_to(pathlib.Path(BUILT["recorder"]).parent)
        (self.package / "bin").unlink()
        (self.package / "bin").mkdir()
        try:
            _, _, begun, reserved, created, refused, mapped = self.run_cells(
                "from vmmsim.notebook import cells\ncells.count_gpus = lambda: (2, '')",
                "%load_ext vmmsim\n%vmm start --real",
                BEGIN.replace('"libcuda.so.1"', f"{BUILT['recorded_driver']!r}, ctypes.RTLD_GLOBAL"),
                "address = reserve(4 * MiB)",
                "memory = [create(2 * MiB)]",
                "map_it(address, MiB, memory[0]);",
                "map_it(address, 2 * MiB, memory[0])",
                kernel="simulated",
            )
        finally:
            (self.package / "recorder").unlink()
            (self.package / "bin").rmdir()
            (self.package / "bin").symlink_to(LAUNCHER.parent)
        assert begun == ""
        assert "Reservation address, 4 MiB (new): 4 MiB not mapped" in reserved
        assert "2 MiB (new) with handle memory[0]" in created
        assert refused == "cuMemMap: CUDA_ERROR_NOT_SUPPORTED. "  # a real driver does not say why
        assert "2 MiB mapped to memory of GPU 0 (new; GPU 0 no access)" in mapped
        assert "data:image/svg+xml;base64," in self.html[6]

    @classmethod
    def teardown_class(cls):
        cls.scratch.cleanup()


class TestLinesOfARecorder:
    """Lines as the recorder for real GPUs writes them, which do not say of which memory an import is."""

    def test_an_import_is_of_what_an_earlier_cell_made(self):
        writer, of_nothing = Writer(), dict.fromkeys(("size", "device", "record", "multicast"))
        handle, _ = writer.create(2 * MIB)
        cells = [writer.lines.copy()]
        writer.give(handle, of_nothing, 1, 2, identity="0x101")
        cells.append(writer.lines[1:])
        with tempfile.NamedTemporaryFile("w+") as trace:
            live = Live(None, trace.name)
            for lines in cells:
                trace.writelines(json.dumps(line) + "\n" for line in lines)
                trace.flush()
                live.take(live.read())
            live.file.close()
        one, two = (live.machine.processes[process].handles.values() for process in (1, 2))
        assert [handle.memory.number for handle in one] == [handle.memory.number for handle in two]


def text_of(output):
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}\n"
    return output.get("text", "") or output.get("data", {}).get("text/plain", "")
