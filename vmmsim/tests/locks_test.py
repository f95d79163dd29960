# SPDX-License-Identifier: MIT-0
"""Clang's analysis of locks, which simulator/mutex.h has the words for, finds nothing: locks_test BUILD

BUILD has compile_commands.json. Looked at is what the simulator is compiled from and has locks, each library at once:
its headers are most of the work. And a mistake, which must be found.
"""

import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TIDY = pathlib.Path(sys.executable).with_name("clang-tidy")
MISTAKE = """#include "mutex.h"
struct Guarded {
  Mutex lock;
  int value GUARDED_BY(lock);
  int read() { return value; }
};
"""


@functools.cache
def has_locks(path):
    """Whether it includes mutex.h, itself or through what it includes."""
    names = re.findall(r'^#include "(.*)"', path.read_text(), re.MULTILINE)
    included = [(path.parent / name).resolve() for name in names]
    included += [ROOT / "simulator" / name for name in names]
    return path.name == "mutex.h" or any(each.exists() and has_locks(each) for each in included)


def libraries(build):
    """Of each library: the sources with locks, and the compiler's options."""
    found = {}
    for entry in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
        library = re.search(r" -o \S+/(simulat\w+)\.dir/", entry["command"])
        if library and has_locks(pathlib.Path(entry["file"])):
            options = shlex.split(entry["command"].partition(" -o ")[0])[1:]
            found.setdefault(library[1], ([], options))[0].append(entry["file"])
    return found


def findings(sources, options):
    analysis = "--allow-no-checks", "--checks=-*,clang-diagnostic-thread-safety*", "--extra-arg=-Wthread-safety"
    within = "--header-filter=.*"  # what is included is what is looked at
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as all_at_once:
        all_at_once.writelines(f'#include "{source}"\n' for source in sources)
        all_at_once.flush()
        command = TIDY, "--quiet", "--warnings-as-errors=*", *analysis, within, all_at_once.name, "--", *options
        done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def main(build):
    if not TIDY.exists():
        print("SKIP: no clang-tidy beside this Python; ./test.sh gets it")
        return 77
    with tempfile.TemporaryDirectory() as place:
        mistake = pathlib.Path(place) / "mistake.cc"
        mistake.write_text(MISTAKE)
        options = "-std=c++20", f"-I{ROOT}/simulator"
        if "requires holding mutex 'lock'" not in findings([mistake], options):
            return "the analysis does not find what is guarded and read without its lock"
    found = libraries(build)
    if len(found) < 5:
        return f"not all libraries of the simulator are in {build}/compile_commands.json: {', '.join(found)}"
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = "".join(pool.map(lambda library: findings(*library), found.values()))
    print(wrong or f"{sum(len(sources) for sources, _ in found.values())} sources")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
