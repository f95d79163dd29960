# SPDX-License-Identifier: MIT-0
"""What tests of views and recordings are written with: recordings that were never run, and a browser."""
