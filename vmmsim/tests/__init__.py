# SPDX-License-Identifier: MIT-0
"""Tests of the tool."""
