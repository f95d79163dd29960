# SPDX-License-Identifier: MIT-0
"""A plugin of pytest: what the build made and was configured with, by name, as BUILT["vmmsim"].

CMake writes the names into vmmsim_built.json of the build tree, one for each vmmsim_built() in a CMakeLists.txt;
vmmsim_pytest() names this plugin. A run of which every test was skipped ends with status 77, which CTest counts as a
skip.
"""

import json
import pathlib
import sys

import pytest

sys.dont_write_bytecode = True  # no cache files in the source directory


class Built(dict):
    def __missing__(self, name):
        raise LookupError(
            f"the build made no {name}: build it (cmake --build), or name its tree with --build DIRECTORY"
        )


BUILT = Built()


def pytest_addoption(parser):
    parser.addoption("--build", default="build", metavar="DIRECTORY", help="the build tree, build if none is named")


def pytest_configure(config):
    build = pathlib.Path(config.getoption("build")).resolve()
    file = build / "vmmsim_built.json"
    BUILT.update(json.loads(file.read_text()) if file.exists() else {}, build=str(build))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    reports = session.config.pluginmanager.get_plugin("terminalreporter").stats
    nothing_else = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    if nothing_else and reports.get("skipped") and not reports.get("passed"):
        session.exitstatus = 77
