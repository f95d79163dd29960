# SPDX-License-Identifier: MIT-0
"""The book."""
