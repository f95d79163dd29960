# SPDX-License-Identifier: MIT-0
"""The table of runtimes that are known by their code, made anew: of the toolkit that builds, and of all, from PyPI."""

import os
import pathlib
import re
import subprocess

import pytest
from simulator.runtime import known_runtimes

from vmmsim.built import BUILT

TABLE = known_runtimes.TABLE.read_text()


def test_the_runtime_of_the_toolkit_is_known():
    """Its words and its functions are those of one column of the table."""
    archive, release = BUILT["cudart_static"], BUILT["toolkit_release"]
    runtime = known_runtimes.Runtime(pathlib.Path(archive).read_bytes())
    builds = re.findall(r'^KNOWN_RUNTIME\("(.*)"', TABLE, re.MULTILINE)
    if not any(build.startswith(release + ".") for build in builds):
        pytest.skip(f"the table has no {release}: add it to PINNED of known_runtimes.py")
    same = [build for build in builds if known_runtimes.head(build, runtime) in TABLE]
    assert len(same) == 1, f"{archive} has a code that the table lacks: add its build to PINNED of known_runtimes.py"
    rows = re.findall(r"^CALL\((\w+),\s+(.*)\)$", TABLE, re.MULTILINE)
    places = {name: row.split(", ")[builds.index(same[0])] for name, row in rows}
    found = {name: hex(at // 16) for name, at in runtime.functions.items()}
    assert {name: at for name, at in places.items() if at != "NONE"} == found, "elsewhere now: run known_runtimes.py"


def test_all_of_pypi_are_known():
    try:
        made = known_runtimes.made()
    except subprocess.CalledProcessError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no Python package index can be reached: {error}")
    assert made == TABLE, "run known_runtimes.py"
