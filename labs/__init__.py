# SPDX-License-Identifier: MIT-0
"""Labs."""
