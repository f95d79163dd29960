# SPDX-License-Identifier: MIT-0
"""Pictures of a trace, and the page in which one steps through it.

What is named here is for everybody, as `from vmmsim.view import fragment`; all else in this package may change. A name
is fetched from its module when it is asked for: who wants a size in words need not load the rest.
"""

import importlib

MODULES = {
    "compare": ("of_two",),
    "engine": ("NoEngine", "script_of_drawing"),
    "frames": ("steps",),
    "page": ("PAGE", "fragment", "script"),
    "sizes": ("plural", "size_text"),
    "style": ("LIGHT", "NoRule", "style_of_pages", "styled"),
}
__all__ = ["watch", *(name for names in MODULES.values() for name in names)]  # noqa: PLE0604, F822


def __getattr__(name):
    for module, names in MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"{__name__} has no {name}")
