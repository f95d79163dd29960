#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The table of runtimes that are known by their code, made anew: known_runtimes_test.py ARCHIVE RELEASE, of the toolkit
that builds, or known_runtimes_test.py all, from PyPI.

Exit status 0; 77 where the table has not this release, or without a package index (a failure where CI is true).
"""

import os
import pathlib
import re
import subprocess
import sys

from vmmsim.simulator.runtime import known_runtimes


def check_one(archive, release):
    """Its words and its functions are those of one column of the table."""
    runtime, table = known_runtimes.Runtime(pathlib.Path(archive).read_bytes()), known_runtimes.TABLE.read_text()
    builds = re.findall(r'^KNOWN_RUNTIME\("(.*)"', table, re.MULTILINE)
    if not any(build.startswith(release + ".") for build in builds):
        print(f"SKIP: the table has no {release}: add it to PINNED of known_runtimes.py")
        return 77
    same = [build for build in builds if known_runtimes.head(build, runtime) in table]
    if len(same) != 1:
        return f"FAIL: {archive} has a code that the table lacks: add its build to PINNED of known_runtimes.py"
    rows = re.findall(r"^KNOWN_FUNCTION\((\w+),\s+(.*)\)$", table, re.MULTILINE)
    places = {name: row.split(", ")[builds.index(same[0])] for name, row in rows}
    found = {name: hex(at // 16) for name, at in runtime.functions.items()}
    if {name: place for name, place in places.items() if place != "NONE"} != found:
        return f"FAIL: the functions of {archive} lie elsewhere than the table says: run known_runtimes.py"
    print(f"{same[0]}: {len(found)} functions")
    return 0


def check_all():
    try:
        made = known_runtimes.made()
    except subprocess.CalledProcessError as error:
        if os.environ.get("CI") == "true":
            raise
        print(f"SKIP: no Python package index can be reached: {error}")
        return 77
    return 0 if made == known_runtimes.TABLE.read_text() else "FAIL: known_runtimes.py makes another table"


if __name__ == "__main__":
    sys.exit(check_all() if sys.argv[1:] == ["all"] else check_one(*sys.argv[1:]))
