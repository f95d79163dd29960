# SPDX-License-Identifier: MIT-0
"""Puts into DIRECTORY what of vmmsim needs no compiler, in place of what was there: install_python.py DIRECTORY

That are the package's modules, its pages, and the simulated machines. The build does it, and a set-up before it builds.
"""

import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = "docs", "notebook", "simulator/machines", "testing", "trace", "view"
FILES = "README.md", "CHANGELOG.md", "simulator/README.md", "recorder/calls.cc"
MADE = "__pycache__", ".pytest_cache", "build"
OF_BUILD = "*.cc", "*.h", "CMakeLists.txt"


def install(directory):
    for folder in FOLDERS:
        shutil.rmtree(directory / folder, ignore_errors=True)
        ignored = shutil.ignore_patterns(*MADE, *(OF_BUILD if folder == "trace" else ()))
        shutil.copytree(HERE / folder, directory / folder, ignore=ignored)
    shutil.copytree(HERE / "python", directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*MADE))
    for file in FILES:
        (directory / file).parent.mkdir(exist_ok=True)
        shutil.copy2(HERE / file, directory / file)


if __name__ == "__main__":
    install(pathlib.Path(sys.argv[1]))
