# SPDX-License-Identifier: MIT-0
"""The tool: a simulator of the CUDA driver, a recorder, and a view of either's trace."""
