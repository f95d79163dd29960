# SPDX-License-Identifier: MIT-0
"""The calls that the recorder records."""

import pathlib
import re

TABLE = pathlib.Path(__file__).resolve().parents[1] / "recorder" / "calls.cc"


def recorded_names():
    return set(re.findall(r"(?:DRIVER|RUNTIME)\w*\(\s*(?:asks|gives|takes),\s*(\w+?)(?:_v\d+)?,", TABLE.read_text()))
