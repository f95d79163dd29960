# SPDX-License-Identifier: MIT-0
"""What builds the book: listings, pictures, views, notebooks."""
