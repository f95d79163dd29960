# SPDX-License-Identifier: MIT-0
"""A trace: what reads it, the model that replays it, and where its calls stand in sources."""
