# SPDX-License-Identifier: MIT-0
"""The tool: a simulator of the CUDA driver, a recorder, and a view of either's trace."""


def load_ipython_extension(shell):
    """%load_ext vmmsim, in a notebook: after each cell the address spaces as they are then."""
    from vmmsim.notebook.cells import load

    load(shell)


def unload_ipython_extension(shell):
    from vmmsim.notebook.cells import unload

    unload(shell)
