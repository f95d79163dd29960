# SPDX-License-Identifier: MIT-0
"""What a student's program, and the compiler with it, can reach: no file but those it needs, no network, no process of
ours, nothing of our environment; and, by witness.cc, no record of its own calls.

bubblewrap sees to that. For root, where it may make no namespaces, as in many containers, another user is a part of it.
"""

import atexit
import contextlib
import dataclasses
import functools
import os
import pathlib
import pwd
import re
import shutil
import struct
import subprocess
import tempfile

SYSTEM = "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ld.so.cache"
WITNESS = pathlib.Path(__file__).with_name("witness.cc")
TRACED = "bin/vmmsim", "simulator/libcuda.so.?", "simulator/libcudart.so.*"  # of the package
OF_LINE = "_ZN5trace4File5writeESt17basic_string_viewIcSt11char_traitsIcEE"  # trace::File::write
CALL = re.compile(r"(cu|__cudaLaunch)(?!.*(ErrorName|ErrorString|GetExportTable|CreateChannelDesc)$)")  # has a line
PAD, TRAP = {  # what each function begins with there, and a trap; what it leaves of that does nothing either
    "x86_64": (b"\xf3\x0f\x1e\xfa", b"\xcc"),
    "aarch64": (b"\x5f\x24\x03\xd5", b"\x00\x00\x20\xd4"),
}.get(os.uname().machine, (b"", b""))
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


def bubblewrap(readable, writable, cwd, replaced=None):
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"]
    words += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"]  # so nobody writes another's memory there
    words += [word for path in ("/tmp", "/dev/shm") for word in ("--size", MOST_FILES, "--tmpfs", path)]
    for path in filter(os.path.lexists, SYSTEM):
        words += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
    for how, paths in ("--ro-bind", readable), ("--bind", writable):
        for path in paths:
            words += [how, str(path), str(path)]
    for path, file in (replaced or {}).items():
        words += ["--ro-bind", str(file), str(path)]
    return [*words, "--chdir", str(cwd), "--"]


def as_nobody():
    return "setpriv --reuid=nobody --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all --".split()


def inside(command, readable, writable, cwd, by=None):
    """The words that run a command so, by a Witness or not: `readable` and `writable` are there, and no more."""
    if by:
        return [
            *bubblewrap([*readable, by.program, by.names], writable, cwd, by.files),
            *map(str, by.words()),
            *command,
        ]
    if way() == "bubblewrap":
        return [*bubblewrap(readable, writable, cwd), "/bin/sh", "-c", FIRST, "sh", *command]
    return [*as_nobody(), *command] if way() == "user" else command


@dataclasses.dataclass
class Witness:
    """What runs a program in a sandbox, and writes the record of its calls."""

    program: pathlib.Path
    names: pathlib.Path  # of what follows
    files: dict  # of the simulator -> the same with traps
    calls: list  # for each file the names of calls, by where they begin in it; and "line", where one is handed over

    def words(self):
        return [self.program, self.names, *self.files, "--"]

    def record(self, written):
        """(the lines of the trace, the calls that were seen: each (thread, name), or None if the simulated machine was
        changed by what is no call) of what the witness has written."""
        lines, seen = [], []
        for line in written.splitlines(keepends=True):
            if line == b"CHANGED\n":
                seen.append(None)
            elif line.startswith(b"CALL ") and line.endswith(b"\n"):
                _, thread, name = line.decode().split()
                seen.append((int(thread), name))
            else:
                lines.append(line)
        return b"".join(lines), seen


@functools.cache
def witness(compiler, package):
    """The Witness of what is built there; None where there is no sandbox, or where it may trace nothing."""
    if way() != "bubblewrap":
        return None
    directory = tempfile.TemporaryDirectory(prefix="lab-")
    atexit.register(directory.cleanup)
    os.chmod(directory.name, 0o755)
    its = Witness(pathlib.Path(directory.name, "witness"), pathlib.Path(directory.name, "names"), {}, [])
    done = subprocess.run(
        [compiler, "-O1", "-ftree-vectorize", "-march=native", WITNESS, "-o", its.program],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise OSError(f"{WITNESS} is not built by {compiler}: {done.stderr}")
    for file in (next(package.glob(name)) for name in TRACED):
        its.files[file] = pathlib.Path(directory.name, file.name)
        its.calls.append(put_traps(file, its.files[file]))
    places = [f"{file} {at} {name}\n" for file, calls in enumerate(its.calls) for at, name in calls.items()]
    its.names.write_text("".join(places))
    return its if runs(inside(["/bin/true"], [], [], "/", its)) else None


def put_traps(file, to):
    """Writes a copy that traps where a call begins, or a line is handed over; the names of these, by where it is."""
    data, calls = bytearray(file.read_bytes()), {}
    (table,), (size, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<HH", data, 54)  # of segments
    segments = [struct.unpack_from("<IIQQQQ", data, table + size * at) for at in range(count)]
    done = subprocess.run(["nm", "--defined-only", "-P", file], capture_output=True, text=True, check=True)
    for name, kind, value, *_ in map(str.split, done.stdout.splitlines()):
        if name == OF_LINE or kind == "T" and CALL.match(name):
            offset, begin = next(it[2:4] for it in segments if it[0] == 1 and 0 <= int(value, 16) - it[3] < it[5])
            at = int(value, 16) - begin + offset
            if not data.startswith(PAD, at):
                raise OSError(f"{file}: {name} has no room for a trap: build it anew")
            data[at : at + len(TRAP)] = TRAP
            calls[at] = name.partition("@")[0].partition("_v")[0].lstrip("_") if name != OF_LINE else "line"
    to.write_bytes(data)
    to.chmod(0o755)
    return calls


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
