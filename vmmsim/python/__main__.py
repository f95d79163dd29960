# SPDX-License-Identifier: MIT-0
"""python3 -m vmmsim: the command vmmsim."""

from vmmsim.command import main

main()
