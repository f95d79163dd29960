# SPDX-License-Identifier: MIT-0
# The book is built from the root of the checkout, where each lesson's page stands beside its program:
#   python3 -m sphinx -c docs . build/book
import os
import pathlib
import re

from docs.tools.notebooks import address_of_clone
from vmmsim.tool import PACKAGE

project = "CUDA VMM by Example"
cmake_lists = pathlib.Path(__file__).parents[1] / "CMakeLists.txt"
release = re.search(r"^project\(.* VERSION (\S+)", cmake_lists.read_text(), re.MULTILINE)[1]
author = "the contributors of CUDA VMM by Example"
copyright = "the contributors. Text CC BY 4.0, programs MIT-0"

root_doc = "docs/index"
of_the_tool = "vmmsim/docs/*.md", "vmmsim/simulator/README.md", "vmmsim/trace/README.md"
include_patterns = ["docs/*.md", "[0-9][0-9]_*/*.md", "labs/*.md", *of_the_tool]
exclude_patterns = ["build*", ".*"]  # not entered: they can hold other copies of the pages
own = "forge", "results", "search", "try_it", "views"
extensions = ["myst_parser", "sphinx_copybutton", *(f"docs.extensions.{name}" for name in own)]
myst_enable_extensions = ["attrs_inline"]  # for what extensions write, such as {.only-dark} behind a picture
myst_heading_anchors = 3  # a link to a section works in the book as it does on a code forge
nitpicky = True

# Of a console session only what one types is copied. A line of CUDA never begins with "$ ".
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.try-it) > div.highlight > pre"
copybutton_line_continuation_character = "\\"

html_theme = "furo"
html_title = project
html_favicon = "_static/favicon.svg"
html_extra_path = ["_extra"]
myst_html_meta = {
    "description": "CUDA's virtual memory management by example: grow, share and alias GPU memory without copying it. "
    "Seven lessons to read, run and paste from, with or without a GPU."
}
html_static_path = ["_static", str(PACKAGE / "view" / "view.css")]
html_css_files = ["book.css", "pictures.css", "view.css"]
html_js_files = ["book.js", "view.js"]
templates_path = ["_templates"]
repository = os.environ.get("VMM_REPOSITORY") or address_of_clone()
html_context = {"repository": repository if repository.startswith("http") else ""}  # no link where it is not known
html_copy_source = False
html_use_index = False
pygments_style = "github-light-high-contrast"  # every colour by 4.5:1 or more from the paper
pygments_dark_style = "github-dark-high-contrast"
