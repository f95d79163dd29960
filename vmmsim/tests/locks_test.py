# SPDX-License-Identifier: MIT-0
"""Clang's analysis of locks, which simulator/mutex.h has the words for, finds nothing.

Looked at is what the simulator is compiled from and has locks, each library at once: its headers are most of the work.
And a mistake, which must be found.
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

import pytest

from vmmsim.built import BUILT

ROOT = pathlib.Path(__file__).resolve().parents[1]
TIDY = pathlib.Path(sys.executable).with_name("clang-tidy")
MISTAKE = """#include "mutex.h"
struct Guarded {
  Mutex lock;
  int value GUARDED_BY(lock);
  int read() { return value; }
};
"""

pytestmark = pytest.mark.skipif(not TIDY.exists(), reason="no clang-tidy beside this Python; ./test.sh gets it")


@functools.cache
def has_locks(path):
    """Whether it includes mutex.h, itself or through what it includes."""
    names = re.findall(r'^#include "(.*)"', path.read_text(), re.MULTILINE)
    included = [(path.parent / name).resolve() for name in names]
    included += [ROOT / "simulator" / name for name in names]
    return path.name == "mutex.h" or any(each.exists() and has_locks(each) for each in included)


def libraries():
    """Of each library: the sources with locks, and the compiler's options."""
    found = {}
    for entry in json.loads(pathlib.Path(BUILT["build"], "compile_commands.json").read_text()):
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


def test_a_mistake_is_found(tmp_path):
    (tmp_path / "mistake.cc").write_text(MISTAKE)
    found = findings([tmp_path / "mistake.cc"], ["-std=c++20", f"-I{ROOT}/simulator"])
    assert "requires holding mutex 'lock'" in found


def test_nothing_is_found_in_the_simulator():
    found = libraries()
    assert len(found) >= 5, "not all libraries of the simulator are in compile_commands.json"
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        assert "".join(pool.map(lambda library: findings(*library), found.values())) == ""
