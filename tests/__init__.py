# SPDX-License-Identifier: MIT-0
"""Tests of the lessons, the labs and the book."""
