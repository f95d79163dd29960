# SPDX-License-Identifier: MIT-0
"""What ./run.sh does: sets up what is missing and builds; then it runs the lessons, or what its options ask for."""

import importlib
import os
import signal
import subprocess
import sys

from scripts import lessons


def set_up(function, *words, **streams):
    """The exit status of this function of scripts/setup.sh."""
    script = 'set -euo pipefail; source scripts/setup.sh; "$@"'
    return subprocess.run(["bash", "-c", script, "setup", function, *words], cwd=lessons.ROOT, **streams).returncode


def main():
    given = lessons.arguments()
    if given.docs:
        return set_up("book")
    if given.notebooks:
        return set_up("notebooks")
    if given.setup:
        return set_up("prepare", "simulator")
    simulator = [] if given.gpu else ["simulator"]
    if status := set_up("prepare", *given.lessons, *simulator):
        return status
    importlib.invalidate_caches()  # vmmsim may have been installed meanwhile, in a directory that was not there
    from scripts import run_lessons  # which needs what has been set up

    return run_lessons.run_all(given)


def end_with(main):
    """Ends the process with the status that this returns."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output has left, as in ./run.sh | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)


if __name__ == "__main__":
    end_with(main)
