# SPDX-License-Identifier: MIT-0
"""Extensions of Sphinx, for the book."""
