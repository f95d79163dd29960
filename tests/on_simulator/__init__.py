# SPDX-License-Identifier: MIT-0
"""The lessons on the simulator."""
