# SPDX-License-Identifier: MIT-0
"""What a program calls the addresses that it reserves: variable(recording, line), of a cuMemAddressReserve, or "".

It is the variable of which the source passes the address. What a function was given has no name: it is its caller's.
"""

import re

ASKED = re.compile(
    r"cuMemAddressReserve\w*\s*\(\s*(?:\(\s*CUdeviceptr\s*\*\s*\)\s*)?(?:reinterpret_cast<[^>]*>\s*\(\s*)?"
    r"&\s*([A-Za-z_][\w.\[\]>-]{0,23})\s*\)*,"
)
LINES = 3  # of a call, from the one that is known


def variable(recording, line):
    file, row, _ = recording.innermost(recording.places(line))
    lines = recording.source(file).splitlines() if file and row else []
    found = ASKED.search("\n".join(lines[row - 1 : row - 1 + LINES]))
    return found[1] if found else ""
