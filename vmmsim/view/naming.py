# SPDX-License-Identifier: MIT-0
"""What a program calls the addresses that it reserves: variable(recording, line), of a cuMemAddressReserve, or "".

It is the variable of which the source passes the address; or, if the function that has it returns it, the variable of
the caller, as `own[gpu]` of own[gpu] = map(memory, size). What a function was given has no name.
"""

import re

NAME = r"([A-Za-z_][\w.\[\]>-]{0,23})"
ASKED = re.compile(
    r"cuMemAddressReserve\w*\s*\(\s*(?:\(\s*CUdeviceptr\s*\*\s*\)\s*)?(?:reinterpret_cast<[^>]*>\s*\(\s*)?"
    rf"&\s*{NAME}\s*\)*,"
)


def variable(recording, line):
    places = [place for place in recording.places(line) if place[1] and recording.source(place[0])][:2]
    texts = ["\n".join(recording.source(file).splitlines()[row - 1 : row + 2]) for file, row, _ in places]  # 3 lines
    found = ASKED.search(texts[0]) if texts else None
    function = re.match(r"[\w:]*", places[0][2])[0].rpartition("::")[2] if found else ""
    given = function and texts[1:] and re.match(rf".*?\b{NAME} = (?:\w+::)*{function}\(", texts[1])
    return given[1] if given else found[1] if found else ""
