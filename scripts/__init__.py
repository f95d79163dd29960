# SPDX-License-Identifier: MIT-0
"""Set-up and running."""
