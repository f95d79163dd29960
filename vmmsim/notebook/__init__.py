# SPDX-License-Identifier: MIT-0
"""Call by call, in a notebook: cells that run in a process of their own, whose calls of CUDA are traced and drawn.

cells.py     %load_ext vmmsim, in any kernel for Python: starts that process, passes cells on, and shows what comes back
process.py   the process, under the simulator or the recorder
live.py      reads its trace after each cell, and shows what the machine has come to
drawing.py   the picture, with the names of the notebook's variables, and less in it where there is too much

A kernel that runs already can no longer be traced, and where somebody else starts the kernels, as in Colab, none can be
installed. Therefore a process of its own in every kernel, and no kernel that is traced itself: one way for all. It also
has its own Python and packages, ends without the kernel, and can be started anew.
"""
