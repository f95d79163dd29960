# SPDX-License-Identifier: MIT-0
"""What a student's program, and the compiler with it, can reach: no file but those it needs, no network, no process of
ours, nothing of our environment. A student's program starts no other one.

bubblewrap sees to that. For root, where it may make no namespaces, as in many containers, another user is a part of it.
"""

import atexit
import contextlib
import functools
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile

SYSTEM = "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ld.so.cache"
ONLY = pathlib.Path(__file__).with_name("only.cc")
MOST_FILES = str(256 << 20)  # bytes, in files of memory
LEFT = 251  # the exit status of a sandbox in which processes went on for a second after the program

# The first process of a sandbox waits for what the program left behind, and ends it with itself.
FIRST = f"""
"$@"
status=$?
for each in $(seq 50); do
  set -- /proc/[0-9]*
  [ $# -gt 1 ] || exit $status
  sleep 0.02
done
exit {LEFT}
"""


def runs(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env={"PATH": os.defpath})
    return not done.returncode


@functools.cache
def way():
    """ "bubblewrap", "user", or "" where this machine allows neither."""
    if shutil.which("bwrap") and runs([*bubblewrap([], [], "/"), "/bin/true"]):
        return "bubblewrap"
    # The compiler and the simulator lie beside this file: below /root, for instance, another user cannot reach them.
    is_open = os.geteuid() == 0 and shutil.which("setpriv") and runs([*as_nobody(), "test", "-r", __file__])
    return "user" if is_open else ""


def bubblewrap(readable, writable, cwd):
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += [word for path in ("/tmp", "/dev/shm") for word in ("--size", MOST_FILES, "--tmpfs", path)]
    for path in filter(os.path.lexists, SYSTEM):
        words += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
    for how, paths in ("--ro-bind", readable), ("--bind", writable):
        for path in paths:
            words += [how, str(path), str(path)]
    return [*words, "--chdir", str(cwd), "--"]


def as_nobody():
    return "setpriv --reuid=nobody --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all --".split()


def inside(command, readable, writable, cwd):
    """The words that run a command so: `readable` and `writable` are there, and no more."""
    if way() == "bubblewrap":
        return [*bubblewrap(readable, writable, cwd), "/bin/sh", "-c", FIRST, "sh", *command]
    return [*as_nobody(), *command] if way() == "user" else command


@functools.cache
def only(compiler):
    """The words before a program that is to start no other one, and so no simulator of its own: in a sandbox."""
    if way() != "bubblewrap":
        return []
    directory = tempfile.TemporaryDirectory(prefix="lab-")
    atexit.register(directory.cleanup)
    os.chmod(directory.name, 0o755)
    program = pathlib.Path(directory.name, "only")
    done = subprocess.run([compiler, "-O1", ONLY, "-o", program], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{ONLY} is not built by {compiler}: {done.stderr}")
    return [program] if runs([program, "/bin/true"]) else []  # a kernel may have no such filters


def give(path):
    """Where another user runs the program: a directory, or a descriptor, that is that user's."""
    if way() == "user":
        user = pwd.getpwnam("nobody")
        os.chown(path, user.pw_uid, user.pw_gid)


def number_inside(pid):
    """The number that a process has in its sandbox."""
    with contextlib.suppress(OSError):
        status = pathlib.Path(f"/proc/{pid}/status").read_text(errors="replace")
        return int(re.search(r"^NSpid:.*?(\d+)$", status, re.MULTILINE)[1])
    return pid
