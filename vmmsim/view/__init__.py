# SPDX-License-Identifier: MIT-0
"""Pictures of a trace, and the page in which one steps through it."""
