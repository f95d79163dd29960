# SPDX-License-Identifier: MIT-0
"""What Jupyter starts as the kernel: a file, since the Python that it is started with may not know vmmsim."""

import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[2])  # in place of this directory

from vmmsim.notebook.kernel import start  # noqa: E402

start(sys.argv[1:])
