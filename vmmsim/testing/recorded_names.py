# SPDX-License-Identifier: MIT-0
"""The calls that the recorder records; or those alone that it has always recorded, as older recordings have them."""

import pathlib
import re

TABLE = pathlib.Path(__file__).resolve().parents[1] / "recorder" / "calls.cc"
NEWER = "waits", "joins"


def recorded_names(always=True):
    calls = re.findall(
        r"(?:DRIVER|RUNTIME)\w*\(\s*(asks|gives|takes|works|waits|joins),\s*(\w+?)(?:_v\d+)?[,)]", TABLE.read_text()
    )
    newer = {name for kind, name in calls if kind in NEWER or re.search("Capture|Mem(cpy|set)", name)}
    return {name for _, name in calls} - (newer if always else set())
