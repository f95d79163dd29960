# SPDX-License-Identifier: MIT-0
"""Clang's analysis of locks, which simulator/mutex.h has the words for, finds nothing: locks_test BUILD

BUILD has compile_commands.json. Looked at is what the simulator is compiled from, and a mistake, which must be found.
"""

import concurrent.futures
import json
import os
import pathlib
import re
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


def findings(source, *arguments):
    analysis = "--allow-no-checks", "--checks=-*,clang-diagnostic-thread-safety*", "--extra-arg=-Wthread-safety"
    within = f"--header-filter={ROOT}/simulator/"  # of the files that unity builds include
    command = TIDY, "--quiet", "--warnings-as-errors=*", *analysis, within, source, *arguments
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def main(build):
    if not TIDY.exists():
        print("SKIP: no clang-tidy beside this Python; ./test.sh gets it")
        return 77
    with tempfile.TemporaryDirectory() as place:
        mistake = pathlib.Path(place) / "mistake.cc"
        mistake.write_text(MISTAKE)
        if "requires holding mutex 'lock'" not in findings(mistake, "--", "-std=c++20", f"-I{ROOT}/simulator"):
            return "the analysis does not find what is guarded and read without its lock"
    entries = json.loads((pathlib.Path(build) / "compile_commands.json").read_text())
    sources = sorted({entry["file"] for entry in entries if re.search(r" -o \S+/simulat\w+\.dir/", entry["command"])})
    if not sources:
        return f"nothing of the simulator is in {build}/compile_commands.json"
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = "".join(pool.map(lambda source: findings(source, "-p", build), sources))
    print(found or f"{len(sources)} sources")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
