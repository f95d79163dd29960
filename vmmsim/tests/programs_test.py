# SPDX-License-Identifier: MIT-0
"""vmmsim starts what it promises and refuses what would not be simulated."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

from tests.vmmsim_case import (
    CLASS,
    COUNT,
    LIBRARIES,
    LIMIT,
    MAJOR,
    RUNTIME,
    SYSTEM_NOT_READY,
    VMMSIM,
    VmmsimCase,
    vmmsim,
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
NODES = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    struct stat by_path = {0}, by_file = {0}, from_directory = {0};
    struct statx by_statx = {0};
    const int fd = open(argv[i], O_RDWR), answers[] = {access(argv[i], R_OK | W_OK), stat(argv[i], &by_path), fd,
        fstatat(AT_FDCWD, argv[i], &from_directory, 0), statx(AT_FDCWD, argv[i], 0, STATX_TYPE, &by_statx)};
    printf("%s:", argv[i]);
    const int is_device = fd >= 0 && fstat(fd, &by_file) == 0 && S_ISCHR(by_file.st_mode) && S_ISCHR(by_path.st_mode);
    if (is_device && by_file.st_rdev == by_path.st_rdev && by_file.st_rdev == from_directory.st_rdev &&
        by_statx.stx_rdev_major == major(by_file.st_rdev) && by_statx.stx_rdev_minor == minor(by_file.st_rdev))
      printf(" %u %u\n", major(by_file.st_rdev), minor(by_file.st_rdev));
    else printf(" %d %d %d %d %d\n", answers[0], answers[1], answers[2], answers[3], answers[4]);
  }
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


class TestPrograms(VmmsimCase):
    # --- never mistaken for the real thing

    def refused(self, program, *reasons):
        self.ends(vmmsim(program), 125, stderr=["vmmsim: ", str(program), *reasons])

    def test_static_and_foreign_programs_are_refused(self):
        self.refused(self.build("static", "int main(void) { return 0; }", "-static"), "static executable")
        touch = f'#include <fcntl.h>\nint main(void) {{ return creat("{self.scratch}/started", 0600) < 0; }}'
        interpreter = self.build("interpreter", touch, "-static-pie")
        for loader in (interpreter, self.scratch / "not there"):
            program = self.build("other loader", touch, f"-Wl,--dynamic-linker={loader}")
            self.refused(program, f"is started by {loader}, which is not there or not the loader of glibc")
        assert not (self.scratch / "started").exists(), "the program was started to ask what it loads"
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

    def test_programs_with_rights_of_others_are_refused(self):
        if os.getuid():
            pytest.skip("only root can make such a program")
        program = self.build("with_rights", "int main(void) { return 0; }")
        os.chown(program, 65534, 65534)
        for mode in (0o4755, 0o2755):
            program.chmod(mode)
            self.refused(program, "rights of another user")

    def test_who_loads_gpu_code_is_told_what_is_wrong_with_it(self):
        """Whoever loads it is told what is wrong with it; a program without kernels need not have a runtime."""
        section = '__attribute__((section(".nv_fatbin"))) int fatbin = 1;'
        self.ends(vmmsim(self.build("no_runtime", section + "int main(void) { return 0; }")), 0)
        main = (
            section
            + "void* __cudaRegisterFatBinary(void*); "
            + "int main(int n, char** a) { return n > 1 && __cudaRegisterFatBinary(a); }"
        )
        self.ends(vmmsim(self.build("shared_runtime", main, LIBRARIES / RUNTIME)), 0)

    def test_the_runtime_inside_a_library_is_seen_when_it_asks(self):
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

    def test_another_release_of_the_runtime_is_refused_at_its_first_call(self):
        """It is refused by the driver, which it asks for what no other runtime has; who does not call it goes on."""
        name = f"libcudart.so.{int(MAJOR) + 86}"
        asks = "int cuGetExportTable(void*, void*); int cudaOther(void) { return cuGetExportTable(0, 0); }"
        library = self.build(name, asks, LIBRARIES / "libcuda.so.1", "-shared", "-fPIC", f"-Wl,-soname,{name}")
        program = self.build(
            "other_release",
            "int cudaOther(void); int main(int n, char** a) { return n > 1 && cudaOther() != 801; }",
            library,
            f"-Wl,-rpath,{self.scratch},-rpath-link,{LIBRARIES}",
        )
        self.ends(vmmsim(program), 0)
        self.ends(
            vmmsim(program, "call"), 0, stderr=[str(library), "not the simulator's runtime", f"with CUDA {MAJOR}"]
        )

    def foreign_driver(self, *options):
        return self.build("libcuda.so.1", "int cuInit(unsigned f) { return 34; }", "-shared", "-fPIC", *options)

    CALLS_INIT = "int cuInit(unsigned); int main(void) { return cuInit(0); }"

    def test_another_driver_is_not_loaded_by_its_path(self):
        """Without a name of its own a library is loaded from the path that it was linked by: not here."""
        program = self.build("by_path", self.CALLS_INIT, self.foreign_driver())
        assert subprocess.run([program]).returncode == 34
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
            assert subprocess.run([program]).returncode == 34
            self.ends(vmmsim(program), 0)
        self.ends(vmmsim("sh", "-c", 'LD_LIBRARY_PATH="$1" "$0"', program, self.scratch), 0)

    def test_the_library_refuses_to_work_without_vmmsim(self):
        environment = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES)}
        program = self.build(
            "alone",
            "int cuInit(unsigned); int main(int n, char** a) { return n > 1 ? cuInit(0) : 0; }",
            LIBRARIES / "libcuda.so.1",
        )
        assert subprocess.run([program], env=environment).returncode == 0
        done = subprocess.run([program, "x"], env=environment, capture_output=True, text=True)
        assert done.returncode == SYSTEM_NOT_READY % 256, done
        assert "start the program with vmmsim" in done.stderr

    def test_its_path_may_have_a_space(self):
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
            pytest.skip(f"{' '.join(words)} is not allowed here")
        return words

    def lives(self, *words):
        for options in ([], ["--adversarial-timing"], ["--trace", self.scratch / "trace.jsonl"]):
            self.ends(vmmsim(*options, *words), 0, "lives\n")

    WAITS = (  # with what vmmsim replaces; subprocess forks, polls and ends with _exit
        "import os, select, subprocess, time; time.sleep(0.01); select.select([], [], [], 0.01); "
        "select.poll().poll(10); subprocess.run(['true']); print('lives', flush=True); os._exit(0)"
    )

    def test_it_runs_in_another_user_namespace(self):
        self.lives(*self.is_allowed("unshare", "--user"), sys.executable, "-c", self.WAITS)

    def test_another_user_finds_no_machine(self):
        other = self.is_allowed("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        self.scratch.chmod(0o777)
        self.lives(*other, sys.executable, "-c", self.WAITS)
        done = vmmsim(*other, sys.executable, "-c", COUNT)
        self.ends(done, 0, f"{SYSTEM_NOT_READY} 3 0\n", ["vmmsim: the machine belongs to another user"])

    def test_it_runs_in_another_pid_namespace_if_proc_is_the_same(self):
        other = self.is_allowed("unshare", "--pid", "--fork")
        self.lives(*other, sys.executable, "-c", self.WAITS)
        gone = ["vmmsim: the machine that VMMSIM names is gone", "PID namespace"]
        mounted = self.is_allowed("unshare", "--pid", "--fork", "--mount-proc")
        self.ends(vmmsim(*mounted, sys.executable, "-c", COUNT), 0, f"{SYSTEM_NOT_READY} 3 0\n", gone)

    def test_what_outlives_vmmsim_finds_no_machine(self):
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
            assert time.monotonic() < deadline, "what outlives vmmsim was ended"
            time.sleep(0.01)
        text = pathlib.Path(said).read_text()
        assert "its vmmsim has ended" in text
        assert f"{SYSTEM_NOT_READY} 3 0\n" in text

    def test_the_first_process_of_a_pid_namespace_reaps_children(self):
        """Those whose parents have ended are its children: many at once, of which none is left."""
        script = (
            "import os, sys, time\n"
            "parent = os.fork()\n"
            "if not parent:\n"
            "    for child in [os.fork() or os._exit(0) for _ in range(50)]:\n"
            "        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)\n"
            "    os._exit(0)\n"
            "os.waitpid(parent, 0)\n"
            "def is_left(process):\n"
            "    try: return os.kill(process, 0) is None\n"
            "    except ProcessLookupError: return False\n"
            f"until = time.monotonic() + {LIMIT / 4}\n"
            "others = set(range(2, parent + 51)) - {os.getpid()}\n"
            "while any(map(is_left, others)) and time.monotonic() < until: time.sleep(0.001)\n"
            "print(*filter(is_left, others))\n"
            "sys.exit(7)\n"
        )
        first = self.is_allowed("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
        command = [*first, VMMSIM, sys.executable, "-c", script]
        self.ends(subprocess.run(command, capture_output=True, text=True, timeout=LIMIT), 7, "\n")

    def test_the_driver_exports_the_names_of_cuda_alone(self):
        """The names of CUDA, and no others; what goes before libc is in a library that has no more."""

        def names(library):
            said = subprocess.run(["nm", "-D", "--defined-only", LIBRARIES / library], capture_output=True, text=True)
            return {line.split()[-1].split("@")[0] for line in said.stdout.splitlines()}

        assert {name for name in names("libcuda.so.1") if not re.match("cu[A-Z]", name)} == set()
        assert "cuMemCreate" in names("libcuda.so.1")
        of_nvml = names("libnvidia-ml.so.1")
        assert {name for name in of_nvml if not name.startswith("nvml")} == set()
        # PyTorch's allocator does without their answers, but not without them.
        of_pytorch = {f"nvmlDeviceGetNvLinkRemote{end}" for end in ("DeviceType", "PciInfo_v2")}
        assert of_pytorch | {"nvmlDeviceGetComputeRunningProcesses"} <= of_nvml
        assert {name for name in names(RUNTIME) if not re.match("(__)?cuda[A-Z]|vmmsim_|libcudart", name)} == set()
        assert {name for name in names("libvmmsim_hook.so") if not name.startswith("la_")} == set()
        replaced = names("libvmmsim_interposed.so")
        assert {"sleep", "getenv"} <= replaced and not any(name.startswith("cu") for name in replaced), replaced

    def test_what_makes_no_call_loads_no_driver(self):
        for options in ([], ["--adversarial-timing"], ["--trace", self.scratch / "trace.jsonl"]):
            maps = vmmsim(*options, "cat", "/proc/self/maps").stdout
            assert "libvmmsim_interposed.so" in maps
            for absent in ("libcuda.so", "libcudart.so", "libstdc++", "vmmsim-ledger"):
                assert absent not in maps

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

    def test_a_shim_calls_the_next(self):
        """A library that a user preloads, with a call of its own that calls the next."""
        shim = self.build("libshim.so", self.SHIM, "-shared", "-fPIC", "-ldl")
        link = pathlib.Path(tempfile.gettempdir()) / f"vmmsim-shim-{os.getpid()}.so"  # LD_PRELOAD takes no space
        shutil.copy(shim, link)
        self.at_end.callback(link.unlink)
        program = self.build("allocates", self.ALLOCATES, LIBRARIES / "libcuda.so.1")
        self.ends(vmmsim(program, environment={"LD_PRELOAD": str(link)}), 0, "shim: 4096\n")
        needs = "-ldl", "-Wl,--no-as-needed", LIBRARIES / "libcuda.so"
        linked = self.build("liblinked.so", self.SHIM, "-shared", "-fPIC", *needs)
        shutil.copy(linked, link)  # it wants a driver by itself, also in vmmsim
        self.ends(vmmsim(program, environment={"LD_PRELOAD": str(link)}), 0, "shim: 4096\n")
        self.ends(vmmsim("env", f"LD_PRELOAD={link}", program), 0, "shim: 4096\n")
        self.ends(vmmsim("sh", "-c", 'LD_PRELOAD="$1:$LD_PRELOAD" "$0"', program, link), 0, "shim: 4096\n")
        self.ends(vmmsim("sh", "-c", 'LD_PRELOAD="$LD_PRELOAD:$1" "$0"', program, link), 0, "shim: 4096\n")
        told = ["LD_PRELOAD was replaced, and sleeps, descriptors and _exit are not seen"]
        self.ends(vmmsim("--adversarial-timing", "env", f"LD_PRELOAD={link}", program), 0, "shim: 4096\n", told)

    def test_a_library_may_have_a_name_of_cuda_itself(self):
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
        program = self.build(
            "variables", VARIABLES, "-ldl", "-Wl,--no-as-needed", LIBRARIES / "libcuda.so.1", f"-Wl,-rpath,{LIBRARIES}"
        )
        refusal = {"NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1"}
        rest = "1, not set\nNVSHMEM_DISABLE_NVLS=1\n"
        self.ends(vmmsim(program, environment=refusal), 0, "not set, not set\n" + rest)
        self.ends(vmmsim("--machine", "no_multicast", program, environment=refusal), 0, "0, 0\n" + rest)
        outside = vmmsim("sh", "-c", 'unset VMMSIM; "$0"', program, environment=refusal)
        self.ends(outside, 0, "0, 0\n" + rest)
        outside = vmmsim("env", "-u", "LD_PRELOAD", "-u", "LD_LIBRARY_PATH", program, environment=refusal)
        self.ends(outside, 0, "0, 0\n" + rest)
        assert "\nNCCL_NVLS_ENABLE=0\n" in "\n" + vmmsim("env", environment=refusal).stdout
        another = self.foreign_driver()
        self.ends(vmmsim(program, another, environment=refusal), 0, "loaded: 1\nnot set, not set\n" + rest)
        without_cuda = self.build("no_driver", VARIABLES, "-ldl")
        self.ends(vmmsim(without_cuda, environment=refusal), 0, "0, 0\n" + rest)
        outside = vmmsim("env", "-u", "LD_AUDIT", program, another, environment=refusal)  # it loads the other one
        self.ends(outside, 0, "loaded: 1\n0, 0\n" + rest)

    def test_the_channel_is_there_if_the_machine_has_one(self):
        program = self.build("files", FILES)
        listed, channel = f"242 {CLASS}\n", f"/dev/{CLASS}/channel0 1 1 1 242 0\n"
        self.ends(vmmsim(program), 0, listed + channel + "open: 1 0\nother: -1 0\n")
        self.ends(vmmsim("sh", "-c", '"$0"; exit 3', program), 3, listed + channel + "open: 1 0\nother: -1 0\n")
        self.ends(vmmsim("--machine", "no_channel", program), 0, listed + "open: 0 -1\nother: -1 0\n")
        self.ends(vmmsim("--machine", "no_gpu", program), 0, "open: 0 -1\nother: -1 0\n")
        outside = subprocess.run([program], capture_output=True, text=True).stdout
        self.ends(vmmsim("sh", "-c", 'unset VMMSIM; "$0"', program), 0, outside)

    def test_the_devices_are_those_of_the_simulated_gpus(self):
        program = self.build("nodes", NODES)
        asked = ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidiactl", "/dev/nvidia-uvm"]
        missing = "-1 -1 -1 -1 -1"
        there = ["195 0", "195 1", missing, "195 255", "236 0"]
        lines = "".join(f"{path}: {device}\n" for path, device in zip(asked, there, strict=True))
        self.ends(vmmsim("--gpus", "2", program, *asked), 0, lines)
        self.ends(vmmsim("--machine", "no_gpu", program, *asked), 0, "".join(f"{path}: {missing}\n" for path in asked))
        others = ["/dev/nvidia", "/dev/nvidia0x", "/dev/null0", "nvidia0"]
        self.ends(vmmsim(program, *others), 0, "".join(f"{path}: {missing}\n" for path in others))
        script = f"import os; print(*(os.path.exists(path) and os.access(path, os.R_OK) for path in {asked}))"
        self.ends(vmmsim("--gpus", "2", sys.executable, "-c", script), 0, "True True False True True\n")
        self.ends(vmmsim("test", "-c", "/dev/nvidia0"), 0)
        version = vmmsim("cat", "/proc/driver/nvidia/version")
        assert version.stdout.startswith("NVRM version: ") and " 580.159.04 " in version.stdout, version
        self.ends(vmmsim("test", "-f", "/proc/driver/nvidia/version"), 0)
        outside = subprocess.run([program, "/dev/nvidiactl"], capture_output=True, text=True).stdout
        self.ends(vmmsim("sh", "-c", 'unset VMMSIM; exec "$0" /dev/nvidiactl', program), 0, outside)

    def test_the_list_of_devices_has_the_simulated_ones(self):
        """As other programs read it, with other calls."""
        read = vmmsim("cat", "/proc/devices")
        assert read.stdout.count(CLASS) == 1
        assert read.stdout.startswith("Character devices:\n") and "\n\nBlock devices:\n" in read.stdout, read
        self.ends(vmmsim(sys.executable, "-c", "print(open('/proc/devices').read(), end='')"), 0, read.stdout)
        real = vmmsim("sh", "-c", "unset VMMSIM; cat /proc/devices").stdout
        assert f"242 {CLASS}" not in real
        added = [line for line in read.stdout.splitlines() if line not in real.splitlines()]
        assert added == ["195 nvidia", "236 nvidia-uvm", f"242 {CLASS}"]
        without = vmmsim("--machine", "no_gpu", "cat", "/proc/devices").stdout.splitlines()
        assert without == [line for line in real.splitlines() if "nvidia" not in line]
