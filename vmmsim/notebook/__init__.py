# SPDX-License-Identifier: MIT-0
"""Call by call, in a notebook: a kernel whose calls of CUDA are traced, and what draws them after each cell.

kernel.py    installs the kernel, and starts it under the simulator or the recorder
live.py      %load_ext vmmsim: reads the kernel's trace after each cell, and shows what it has come to
drawing.py   the picture, with the names of the notebook's variables, and less in it where there is too much
"""
