# SPDX-License-Identifier: MIT-0
"""The tool without its sources, in an empty environment with no nvcc.

A program that knows nothing of the tool, as nvcc builds it, runs, is shown and is recorded. Of a wheel: also in a root
directory where nothing else is, for 64-bit Arm with an emulator of the processor.
"""

import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import pytest

from vmmsim.built import BUILT
from vmmsim.testing.sample import data_of

HERE = pathlib.Path(__file__).resolve().parents[1]
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
PROGRAM = """#include <cuda_runtime.h>
#include <cstdio>
__global__ void add(int n, float* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1;
}
int main() {
  const int n = 1000;
  float* x = nullptr;
  cudaMallocManaged(&x, n * sizeof(float));
  for (int i = 0; i < n; ++i) x[i] = i;
  add<<<4, 256>>>(n, x);
  cudaError_t error = cudaDeviceSynchronize();
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += x[i] != i + 1;
  std::printf("%s, %d wrong\\n", cudaGetErrorString(error), wrong);
  cudaFree(x);
  return wrong != 0;
}
"""


class Place:
    """A directory with a program that was compiled there, and commands that run in it."""

    compiler = BUILT["nvcc"], f"-L{pathlib.Path(BUILT['cudart_static']).parent}"

    @classmethod
    def setup_class(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="vmmsim installed ")
        cls.place = pathlib.Path(cls.scratch.name)
        ours = "CUDA", "CMAKE", "VMM", "PYTHONPATH"
        cls.clean = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
        cls.clean |= {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        (cls.place / "mine.cu").write_text(PROGRAM)
        cls.install()
        cls.run_here(*cls.compiler, "mine.cu", "-o", "mine")

    @classmethod
    def teardown_class(cls):
        cls.scratch.cleanup()

    @classmethod
    def run_here(cls, *command, check=True, **options):
        command = [cls.place / command[0] if "/" in command[0] else command[0], *command[1:]]
        done = subprocess.run(command, cwd=cls.place, capture_output=True, text=True, **options)
        assert not check or done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done


class Installation(Place):
    """What must hold, however it came there."""

    def vmmsim(self, *words, status=0):
        done = self.run_here("empty/bin/vmmsim", *words, check=False, env=self.clean, timeout=60)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def test_a_program_runs(self):
        assert self.vmmsim("--gpus", "2", "./mine").stdout == "no error, 0 wrong\n"

    def test_nvml_is_there(self):
        ask = "import ctypes; n = ctypes.c_uint(); ml = ctypes.CDLL('libnvidia-ml.so.1')"
        ask += "; print(ml.nvmlInit_v2(), ml.nvmlDeviceGetCount_v2(ctypes.byref(n)), n.value)"
        assert self.vmmsim("--gpus", "2", self.place / "empty/bin/python3", "-c", ask).stdout == "0 0 2\n"

    def test_view_writes_one_page_that_needs_no_other_file(self):
        assert "calls of CUDA: open mine.html in a browser" in self.vmmsim("view", "./mine").stderr
        page = (self.place / "mine.html").read_text()
        assert "cudaMallocManaged" in data_of(self.place / "mine.html")["columns"]["call"]
        assert re.findall(r"(?:src|href)=\"(?!#)", page) == [], "the page needs another file"

    def test_what_has_no_gpu_is_not_recorded(self):
        said = self.vmmsim("record", "run.jsonl", "./mine", status=1).stderr
        assert "no GPU here: " in said
        library = next(self.place.glob("empty/lib/python3*/site-packages/vmmsim/recorder/libvmm_recorder.so"), None)
        if type(self) is TestInstalled and not library:
            pytest.skip("the build had no CUPTI")
        said = self.run_here("ldd", str(library), env={**self.clean, "LD_LIBRARY_PATH": ""}, check=False).stdout
        assert "libcupti.so" in said

    def test_it_tells_its_version(self):
        assert re.search(r"^vmmsim \d+\.\d+\.\d+$", self.vmmsim("--version").stdout)

    def test_a_pipe_that_is_closed_ends_the_help(self):
        """It ends the help, without a word, as it ends a program; and what vmmsim starts does not ignore the signal."""
        vmmsim = self.place / "empty/bin/vmmsim"
        said = self.run_here("sh", "-c", '"$0" --help | true; "$0" --help | head -1', vmmsim, env=self.clean)
        assert (said.stdout.startswith("usage: "), said.stderr) == (True, "")
        ignored = self.vmmsim("grep", "SigIgn", "/proc/self/status").stdout.split()[1]
        assert not int(ignored, 16) & 1 << signal.SIGPIPE - 1

    def test_it_is_told_how(self):
        said = self.vmmsim("--help").stdout, self.vmmsim("view", "--help").stdout
        assert "vmmsim view [options]" in said[0]
        assert "usage: vmmsim view" in said[1]
        for page in (pathlib.Path(re.search(r"(?:^|\. )(/.*) has (pages|more)", text, re.M)[1]) for text in said):
            assert page.is_relative_to(self.place) and page.exists()
        assert "usage: vmmsim record" in self.vmmsim("record", status=2).stdout
        assert "there is no such program" in self.vmmsim("./none", status=127).stderr

    def test_cmake_finds_it(self):
        """As docs/testing.md says, whose test in Python is one of these."""
        (package,) = self.place.glob("empty/lib/python3*/site-packages/vmmsim")
        page, project = (package / "docs" / "testing.md").read_text(), self.place / "project"
        project.mkdir()
        self.run_here(*self.compiler, package / "docs" / "example" / "fill.cu", "-o", "fill")
        (test,) = re.findall(r"```python\n(import .*?)```", page, re.DOTALL)
        (its_lines,) = re.findall(r"```cmake\n(find_package.Python3.*?)```", page, re.DOTALL)
        (project / "test_failing_calls.py").write_text(test)
        (project / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.22)
project(tests LANGUAGES NONE)
enable_testing()
add_executable(fill IMPORTED)
set_property(TARGET fill PROPERTY IMPORTED_LOCATION "{self.place}/fill")
find_package(vmmsim 0.1 REQUIRED)
get_target_property(machines vmmsim::vmmsim VMMSIM_MACHINES)
message(STATUS "machines: ${{machines}}")
vmmsim_test(NAME mine.two_gpus OPTIONS --gpus 2 COMMAND "{self.place}/mine")
vmmsim_test(NAME mine.no_gpu OPTIONS --gpus 0 COMMAND "{self.place}/mine")
{its_lines}""")
        found = f"-Dvmmsim_DIR={self.vmmsim('--cmake-dir').stdout.strip()}", f"-DPython3_EXECUTABLE={sys.executable}"
        said = self.run_here(BUILT["cmake"], "-S", project, "-B", project / "build", *found).stdout
        assert re.search("machines: .*h200x8;.*laptop", said)
        ctest = str(pathlib.Path(BUILT["cmake"]).with_name("ctest"))
        with_vmmsim = {**os.environ, "PYTHONPATH": str(package.parent)}
        said = self.run_here(ctest, "--test-dir", project / "build", check=False, env=with_vmmsim).stdout
        assert re.search(r"mine\.two_gpus \.+ +Passed", said), said
        assert re.search(r"mine\.no_gpu \.+\*\*\*Failed", said), said
        assert re.search(r"fill\.failing_calls \.+ +Passed", said), said

    def test_its_pages_lead_to_what_is_there(self):
        (package,) = self.place.glob("empty/lib/python3*/site-packages/vmmsim")
        pages = sorted(package.rglob("*.md"))
        names = {str(page.relative_to(package)) for page in pages}
        shipped = {"README.md", *(f"docs/{name}.md" for name in ("simulator", "view", "testing", "contributing"))}
        assert names >= shipped | {"trace/README.md", "simulator/README.md"}
        assert (package / "docs" / "example" / "test_driver.py").exists()
        for page in pages:
            for target in re.findall(r"\]\((?!\w+:|#)([^)#]+)", page.read_text()):
                assert (page.parent / target).exists(), f"{page}: {target}"


class TestInstalled(Installation):
    """Its parts where pip would put them."""

    @classmethod
    def install(cls):
        cls.run_here(sys.executable, "-m", "venv", "empty")
        (library,) = cls.place.glob("empty/lib/python3*/site-packages")
        cls.run_here(BUILT["cmake"], "--install", BUILT["build"], "--prefix", library / "vmmsim")
        command = cls.place / "empty" / "bin" / "vmmsim"
        command.write_text(f'#!/bin/sh\nexec "{cls.place}/empty/bin/python3" -m vmmsim "$@"\n')
        command.chmod(0o755)


class Wheel(Place):
    """What wheels.sh makes."""

    processor = platform.machine()
    emulator = ""  # how the kernel is told to start it, a file

    @classmethod
    def make_wheel(cls, compiler, *words):
        ignored = shutil.ignore_patterns("build*", "__pycache__", "tests")
        shutil.copytree(HERE, cls.place / "vmmsim", ignore=ignored)
        # A compiler of C++, which need not take the time to optimise, and nothing of CUDA.
        quick = cls.place / "c++"
        quick.write_text(f'#!/bin/sh\nexec {compiler} "$@" -O0\n')
        quick.chmod(0o755)
        environment = {**cls.clean, "CXX": str(quick), "PYTHON": sys.executable}
        done = cls.run_here("vmmsim/wheels.sh", "dist", *words, env=environment, check=False)
        if done.returncode and re.search("No matching distribution|Connection|Temporary failure|imed out", done.stderr):
            if os.environ.get("CI") != "true":
                pytest.skip("no Python package index can be reached; look at the network and at pip's settings")
        assert done.returncode == 0, f"wheels.sh\n{done.stdout}{done.stderr}"
        shutil.rmtree(cls.place / "vmmsim")  # the sources are not needed any more
        (cls.wheel,) = cls.place.glob("dist/*.whl")

    def test_it_has_what_ships_and_no_more(self):
        (source,) = self.place.glob("dist/*.tar.gz")
        tag = re.search(rf"^vmmsim-[\d.]+-py3-none-manylinux_2_(\d+)_{self.processor}(\.|$)", self.wheel.name)
        assert tag
        if platform.freedesktop_os_release().get("VERSION_CODENAME") == "bookworm":
            assert tag[1] == "35"  # as README.md says of Debian 12
        names = [name.partition("/")[2] for name in zipfile.ZipFile(self.wheel).namelist()]
        for name in "py.typed", "docs/testing.md", "licenses/LICENSE", "licenses/docs/LICENSE":
            assert name in names
        assert [name for name in names if "libcupti" in name] == []
        names = [name.partition("/")[2] for name in tarfile.open(source).getnames()]
        for name in "LICENSE", "docs/LICENSE", "CHANGELOG.md", "wheels.sh":
            assert name in names
        assert [name for name in names if name.startswith("tests/")] == []

    def test_what_pypi_shows_has_no_link_that_is_dead_there(self):
        with zipfile.ZipFile(self.wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            fields, _, page = archive.read(name).decode().partition("\n\n")
        assert "Description-Content-Type: text/markdown" in fields
        assert "\n# vmmsim\n" in page
        assert re.findall(r"\]\((?!https?:)|^\[.*\]: (?!https?:)|(?:src|href)=", page, re.MULTILINE) == []
        for page_that_ships in re.findall(r": `([\w/]+[.]md)`", page):
            assert f"vmmsim/{page_that_ships}" in archive.namelist()
        assert "how your suite of CTest or pytest runs on it: `docs/testing.md`" in page

    def test_it_runs_in_a_bare_root(self):
        """Python, the C and C++ libraries and a shell: no compiler, no toolkit, no network."""
        root = self.make_root("python3-venv", "libstdc++6", "libzstd1", "coreutils", "dash")
        for file in self.wheel, self.place / "mine":
            shutil.copy(file, root / "root")
        steps = "cd root && python3 -m venv empty && empty/bin/pip install --no-index ./*.whl && ! command -v g++ nvcc"
        done = self.run_in(root, f"{steps} && empty/bin/vmmsim view ./mine && empty/bin/vmmsim --gpus 2 ./mine")
        assert done.stdout.endswith("no error, 0 wrong\n"), done.stdout
        assert "cudaMallocManaged" in data_of(root / "root" / "mine.html")["columns"]["call"]

    @classmethod
    def make_root(cls, *packages):
        if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
            pytest.skip("a root directory can be made by root with mmdebstrap only (apt-get install mmdebstrap)")
        release = platform.freedesktop_os_release()["VERSION_CODENAME"]
        told = cls.run_here("apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages")
        mirror = next((line.split()[1] for line in told.stdout.splitlines() if line.startswith(f"{release} ")), None)
        if not mirror:
            pytest.skip(f"apt-get knows no source of packages for {release}; run apt-get update")
        settings = cls.run_here("apt-config", "dump").stdout.splitlines()
        options = [f"--aptopt={line}" for line in settings if line.startswith("Acquire")]
        options.append(f"--architectures={DEBIAN[cls.processor]}")
        packages = f"--include={','.join(packages)}"
        root = cls.place / "root"
        cls.run_here("mmdebstrap", "--variant=extract", packages, *options, release, root, mirror)
        for directory in "root", "proc", "dev":
            (root / directory).mkdir(exist_ok=True)
        return root

    @classmethod
    def run_in(cls, root, steps):
        """In namespaces of their own, with which all that is mounted goes, an emulator too, since Linux 6.7."""
        command = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh"]
        mount = "mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc"
        start = f'{{ [ ! "$2" ] || {{ {mount} && cat "$2" > /proc/sys/fs/binfmt_misc/register; }}; }}'
        told = cls.run_here(*command, "-c", start, "sh", root, cls.emulator, check=False, env=cls.clean)
        if told.returncode:
            pytest.skip(f"no namespaces can be made here, or none with an emulator: {told.stderr}")
        mount = 'cd "$1" && mount -t proc proc proc && mount --rbind /dev dev'
        enter = f'{start} && {mount} && exec chroot . sh -c "$3"'
        return cls.run_here(*command, "-c", enter, "sh", root, cls.emulator, steps, env=cls.clean)


class TestWheel(Wheel, Installation):
    """Installed by pip."""

    @classmethod
    def install(cls):
        cls.make_wheel(BUILT["cxx"])
        cls.run_here(sys.executable, "-m", "venv", "empty")
        cls.run_here("empty/bin/pip", "install", "--no-index", cls.wheel, env=cls.clean)


class TestWheelForArm(Wheel):
    """Cross-compiled, the program too."""

    processor = "aarch64"
    emulator = "/usr/lib/binfmt.d/qemu-aarch64.conf"

    @classmethod
    def install(cls):
        if platform.machine() == cls.processor:
            pytest.skip("this processor is that")
        if not shutil.which("aarch64-linux-gnu-g++") or not pathlib.Path(cls.emulator).exists():
            pytest.skip("no compiler for Arm or no emulator: apt-get install g++-aarch64-linux-gnu qemu-user-static")
        cls.make_wheel("aarch64-linux-gnu-g++", cls.processor)
        (runtime,) = set(re.findall(r"nvidia-cuda-runtime==[\d.]+", (HERE / "pyproject.toml").read_text()))
        fetch = sys.executable, "-m", "pip", "install", "--no-deps", "--only-binary=:all:", "--target", "cuda"
        cls.run_here(*fetch, "--platform", "manylinux2014_aarch64", runtime)
        headers = pathlib.Path(BUILT["nvcc"]).resolve().parents[1] / "include"  # for every processor the same
        places = f"-I{headers}", "-Lcuda/nvidia/cu13/lib"
        cls.compiler = BUILT["nvcc"], "-ccbin", "aarch64-linux-gnu-g++", *places
