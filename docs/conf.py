# SPDX-License-Identifier: MIT-0
# The book is built from the root of the checkout, where each lesson's page stands beside its program:
#   python3 -m sphinx -c docs . build/book
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "extensions"))

project = "CUDA VMM by Example"
author = "the contributors of CUDA VMM by Example"
copyright = "the contributors. Text CC BY 4.0, programs MIT-0"

root_doc = "docs/index"
include_patterns = ["docs/*.md", "[0-9][0-9]_*/README.md"]
exclude_patterns = ["build*", ".*"]  # not entered: they can hold other copies of the pages
extensions = ["myst_parser", "results"]
nitpicky = True

html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_copy_source = False
