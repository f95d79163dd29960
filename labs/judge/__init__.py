# SPDX-License-Identifier: MIT-0
"""The judge of the labs."""
