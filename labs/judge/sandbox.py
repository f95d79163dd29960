# SPDX-License-Identifier: MIT-0
"""What a student's program, and the compiler with it, can reach: no file but those it needs, no network, no process of
ours, nothing of our environment.

Three ways, the first that this machine allows: bubblewrap; unshare, which does the same in more words; and, for root
where neither may make namespaces, as in many containers, another user.
"""

import functools
import os
import pathlib
import pwd
import shutil
import subprocess

SYSTEM = "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ld.so.cache"
MOST_FILES = str(256 << 20)  # bytes, in files of memory
STATUS = 9  # the descriptor through which the first process of a sandbox tells how the program ended

# The first process of a sandbox. When the program has ended, it tells so, and waits for what the program left behind.
FIRST = """
"$@" 9>&-
status=$?
echo $status >&9
while set -- /proc/[0-9]*; [ $# -gt 1 ]; do sleep 0.02; done
exit $status
"""
# The same as bubblewrap, by unshare. $1: the new root, an empty directory; up to "--": files, each after r or w.
BY_UNSHARE = """
set -e
PATH=$PATH:/usr/sbin:/sbin
root=$1; shift
mount -t tmpfs -o size=256M tmpfs "$root"
mkdir "$root/proc" "$root/dev" "$root/tmp"
while [ "$1" != -- ]; do
  how=$1 path=$2; shift 2
  if [ -L "$path" ]; then cp -P "$path" "$root$path"; continue; fi
  if [ -d "$path" ]; then mkdir -p "$root$path"; else mkdir -p "$(dirname "$root$path")"; : > "$root$path"; fi
  mount --rbind "$path" "$root$path"
  [ $how = w ] || mount -o remount,bind,ro "$root$path" 2> /dev/null ||
    mount -o remount,bind,ro,nosuid,nodev "$root$path"
done
shift
for each in null zero full random urandom; do
  : > "$root/dev/$each"; mount --bind "/dev/$each" "$root/dev/$each"
done
mkdir "$root/dev/shm"
mount -t proc proc "$root/proc"
cd "$root"
exec chroot . setpriv --no-new-privs --bounding-set=-all --inh-caps=-all -- sh -c 'cd "$1"; shift; exec "$@"' sh "$@"
"""
NAMESPACES = "--user --map-root-user --mount --pid --fork --kill-child --net --ipc --uts".split()


def system_files():
    return [path for path in SYSTEM if os.path.lexists(path)]


def runs(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env={"PATH": os.defpath})
    return not done.returncode


@functools.cache
def way():
    """ "bubblewrap", "unshare", "user", or "" where this machine allows none of them."""
    if shutil.which("bwrap") and runs([*bubblewrap([], [], "/"), "/bin/true"]):
        return "bubblewrap"
    if shutil.which("unshare") and shutil.which("setpriv") and runs([*by_unshare([], [], "/", "/mnt"), "/bin/true"]):
        return "unshare"
    # The compiler and the simulator lie beside this file: below /root, for instance, another user cannot reach them.
    is_open = os.geteuid() == 0 and shutil.which("setpriv") and runs([*as_nobody(), "test", "-r", __file__])
    return "user" if is_open else ""


def tells():
    """Whether the first process of a sandbox tells how a command has ended."""
    return way() in ("bubblewrap", "unshare")


def bubblewrap(readable, writable, cwd):
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += [word for path in ("/tmp", "/dev/shm") for word in ("--size", MOST_FILES, "--tmpfs", path)]
    for path in system_files():
        words += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
    for path in readable:
        words += ["--ro-bind", str(path), str(path)]
    for path in writable:
        words += ["--bind", str(path), str(path)]
    return [*words, "--chdir", str(cwd), "--"]


def by_unshare(readable, writable, cwd, root):
    words = ["unshare", *NAMESPACES, "sh", "-c", BY_UNSHARE, "sh", str(root)]
    for how, paths in ("r", [*system_files(), *readable]), ("w", writable):
        for path in paths:
            words += [how, str(path)]
    return [*words, "--", str(cwd)]


def inside(command, readable, writable, cwd, root):
    """The words that run a command so. `root` is an empty directory; `readable` and `writable` are there, and no more.

    Where there is a way, the first process tells through descriptor STATUS how the command has ended, and stays until
    all that it has started has ended, too.
    """
    first = ["/bin/sh", "-c", FIRST, "sh"]
    if way() == "bubblewrap":
        return [*bubblewrap(readable, writable, cwd), *first, *command]
    if way() == "unshare":
        return [*by_unshare(readable, writable, cwd, root), *first, *command]
    if way() == "user":
        return [*as_nobody(), *command]
    return command


def as_nobody():
    return "setpriv --reuid=nobody --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all --".split()


def give(path):
    """Where another user runs the program: a directory, or a descriptor, that is that user's."""
    if way() == "user":
        user = pwd.getpwnam("nobody")
        os.chown(path, user.pw_uid, user.pw_gid)


def number_inside(pid):
    """The number that a process has in its sandbox."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return pid
    return int(next((line for line in status.splitlines() if line.startswith("NSpid:")), f"NSpid: {pid}").split()[-1])
