# SPDX-License-Identifier: MIT-0
"""Machines that lack things, for tests: a copy of the checkout, an environment without programs, a root directory."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from unittest import SkipTest as Skip  # which pytest knows, too; some of this runs where there is no pytest

from vmmsim.tool import PACKAGE

ROOT = pathlib.Path(__file__).resolve().parent.parent
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/nonexistent"}


def expect(condition, message, done=None):
    if not condition:
        told = f"\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}" if done else ""
        raise AssertionError(message + told)


@contextlib.contextmanager
def scratch():
    """A directory, with a space in its path, which others may enter."""
    with tempfile.TemporaryDirectory(prefix="vmm setup ") as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


def copy_checkout(to):
    """What a clone would have: the files that git tracks, and those that it would."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0:
        for name in set(listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (to / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, to / name)
    else:  # no clone but an archive
        others = shutil.ignore_patterns("build*", ".venv", "__pycache__", ".git")
        shutil.copytree(ROOT, to, dirs_exist_ok=True, ignore=others)
    return to


def copy_vmmsim(to):
    """What the set-up and the build have made of it, into this checkout."""
    (to / "vmmsim").mkdir(exist_ok=True)
    for file in ("setup.sh", *(ROOT / "vmmsim").glob("requirements-*.txt")):
        shutil.copy(ROOT / "vmmsim" / file, to / "vmmsim")
    without = shutil.ignore_patterns("libvmm_recorder.so")  # as where no CUPTI was
    shutil.copytree(PACKAGE, to / "build/vmmsim/installed/vmmsim", ignore=without)
    (to / "build/bin").mkdir(exist_ok=True)
    (to / "build/bin/vmmsim").symlink_to("../vmmsim/installed/vmmsim/bin/vmmsim")


def hiding(directory, names, **more):
    """This environment without the programs of these names, and without what leads to an installed toolkit.

    A directory of the PATH that holds one of them is replaced by one of links to all else in it.
    """
    parts = []
    for number, part in enumerate(os.environ["PATH"].split(":")):
        held = set(os.listdir(part)) if os.path.isdir(part) else set()
        if held & names:
            replacement = directory / f"path {number}"
            replacement.mkdir(parents=True)
            for name in held - names:
                (replacement / name).symlink_to(os.path.join(part, name))
            part = str(replacement)
        parts.append(part)
    gone = "CUDACXX CUDA_HOME CUDA_PATH CUDA_BIN_PATH CUDAToolkit_ROOT LIBRARY_PATH LD_LIBRARY_PATH CPATH VIRTUAL_ENV"
    gone = {*gone.split(), "CMAKE_GENERATOR", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"}
    return {**{name: value for name, value in os.environ.items() if name not in gone}, "PATH": ":".join(parts), **more}


def run(directory, *command, environment=None, limit=900):
    return subprocess.run(
        [str(word) for word in command],
        cwd=directory,
        env=environment,
        timeout=limit,
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )


def is_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_for(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < end, f"after {seconds} seconds: {what}")
        time.sleep(0.02)


def expect_gone(pids):
    """These processes end within seconds. They would sleep far longer, so only what ended them can have done so."""
    try:
        for pid in pids:
            wait_for(lambda pid=pid: is_gone(pid), "a process is left behind", 10)
    finally:
        for pid in pids:
            if not is_gone(pid):
                os.kill(pid, signal.SIGKILL)


def need_index():
    with scratch() as directory:
        python = sys.executable
        if run("/", python, "-c", "import pip").returncode:
            run("/", sys.executable, "-m", "venv", directory / "venv")
            python = directory / "venv" / "bin" / "python3"
        done = run(
            "/",
            python,
            "-m",
            "pip",
            "--retries=1",
            "--timeout=20",
            "download",
            "--quiet",
            "--no-deps",
            "--no-cache-dir",
            "--only-binary=:all:",
            f"--dest={directory}",
            "-r",
            ROOT / "vmmsim" / "requirements-ninja.txt",
        )
    if done.returncode:
        reason = "no Python package index can be reached; look at the network and at pip's settings"
        expect(os.environ.get("CI") != "true", f"{reason} (CI is true, so this is a failure)", done)
        raise Skip(reason)


DEVCONTAINER = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
IN_ROOT = DEVCONTAINER["onCreateCommand"].rpartition(" --no-install-recommends ")[2].split()


class Root:
    """A root directory with the smallest system of this machine's release, and commands that run in it.

    A hidden program still leaves its headers, libraries and fonts behind; here nothing is there that was not installed.
    Mounts and processes of a command are in namespaces of its own, and go with it.
    """

    def __init__(self, directory):
        self.path = directory / "root"
        tell = run("/", "apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages")
        release = run("/", "sh", "-c", '. /etc/os-release; echo "$VERSION_CODENAME"').stdout.strip()
        mirrors = [line.split()[1] for line in tell.stdout.splitlines() if line.startswith(f"{release} ")]
        if not mirrors:
            raise Skip(f"apt-get knows no source of packages for '{release}'; run apt-get update")
        settings = [line for line in run("/", "apt-config", "dump").stdout.splitlines() if line.startswith("Acquire")]
        done = run(
            "/",
            *self.namespaces(),
            "mmdebstrap",
            "--variant=minbase",
            f"--include={','.join(IN_ROOT)}",
            *(f"--aptopt={line}" for line in settings),
            release,
            self.path,
            mirrors[0],
        )
        expect(done.returncode == 0, "mmdebstrap made no root", done)
        for name in ("etc/resolv.conf", "etc/hosts", "etc/pip.conf"):
            if pathlib.Path("/", name).exists():
                shutil.copy("/" + name, self.path / name)
        certificates = self.path / "etc" / "ssl" / "certs"
        shutil.rmtree(certificates)  # links into a package that this machine may not have
        shutil.copytree("/etc/ssl/certs", certificates, ignore_dangling_symlinks=True)
        self.checkout = copy_checkout(self.path / "root" / "check out")

    @staticmethod
    def namespaces():
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child"]

    def move(self, name):
        self.checkout = self.checkout.rename(self.checkout.with_name(name))

    def command(self, line, **more):
        passed = re.compile("PIP_(?!FIND_LINKS)|https?_proxy$|HTTPS?_PROXY$|no_proxy$|NO_PROXY$")
        variables = {name: value for name, value in os.environ.items() if passed.match(name)}
        variables |= {"HOME": "/root", "LANG": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **more}
        mounts = "mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev"
        enter = f'cd "$1" && {mounts} && shift && exec "$@"'
        return [
            *self.namespaces(),
            "sh",
            "-c",
            enter,
            "sh",
            self.path,
            "chroot",
            ".",
            "env",
            "-i",
            *(f"{name}={value}" for name, value in variables.items()),
            "bash",
            "-c",
            f"cd '/root/{self.checkout.name}' && {line}",
        ]

    def run(self, line, **more):
        return run("/", *self.command(line, **more), limit=1500)


def need_root():
    if os.getuid():
        raise Skip("a root directory can be made by root only; run this as root")
    if not shutil.which("mmdebstrap"):
        raise Skip("no mmdebstrap; install it (apt-get install mmdebstrap)")
    if run("/", *Root.namespaces(), "true").returncode:
        raise Skip("no namespaces can be made here, as in a container or a chroot; run this outside of it")
