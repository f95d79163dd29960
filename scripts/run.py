# SPDX-License-Identifier: MIT-0
"""What ./run.sh does: sets up what is missing and builds; then it runs the lessons, or what its options ask for."""

import subprocess

from scripts import run_lessons


def set_up(function, *words, **streams):
    """The exit status of this function of scripts/setup.sh."""
    script = 'set -euo pipefail; source scripts/setup.sh; "$@"'
    return subprocess.run(["bash", "-c", script, "setup", function, *words], cwd=run_lessons.ROOT, **streams).returncode


def main():
    given = run_lessons.arguments()
    if given.docs:
        return set_up("book")
    if given.notebooks:
        return set_up("notebooks")
    if given.setup:
        return set_up("prepare", "simulator")
    simulator = [] if given.gpu else ["simulator"]
    return set_up("prepare", *given.lessons, *simulator) or run_lessons.run_all(given)


if __name__ == "__main__":
    run_lessons.end_with(main)
