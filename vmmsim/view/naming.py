# SPDX-License-Identifier: MIT-0
"""What a program calls the addresses that it reserves: the variable in its source.

    variable(recording, line)    of the line of a cuMemAddressReserve, or ""

If that is a parameter of a function of the program, the variable is what the caller passed, and so on.
"""

import re

ASKED = re.compile(r"cuMemAddressReserve\w*\s*\(")
NAME = r"[A-Za-z_][\w.\[\]>-]*"
ARGUMENT = re.compile(
    rf"(?:\(\s*CUdeviceptr\s*\*\s*\)\s*)?(?:reinterpret_cast<[^>]*>\s*\(\s*)?(&?)\s*\*?\s*({NAME})\s*\)*"
)
LONGEST = 24
LINES = 3  # of a call, from the one that is known


def variable(recording, line):
    file, row, _ = recording.innermost(recording.places(line))
    name, is_own = argument(text_from(recording, file, row), ASKED, 0)
    places = recording.places(line)
    while name and not is_own:
        inner = next((i for i, place in enumerate(places) if place[:2] == (file, row)), len(places))
        if inner + 1 >= len(places):
            break
        function = re.sub(r"<.*|\(.*", "", places[inner][2]).rpartition(":")[2].strip()
        nth = parameter(recording.source(file), row, function, name)
        file, row, _ = places[inner + 1]
        outer, is_own = argument(text_from(recording, file, row), re.compile(rf"\b{re.escape(function)}\s*\("), nth)
        if nth is None or not outer:
            break
        name = outer
    return name if len(name) <= LONGEST else ""


def text_from(recording, file, row):
    lines = recording.source(file).splitlines() if file and row else []
    return "\n".join(lines[row - 1 : row - 1 + LINES])


def argument(text, call, nth):
    """(the variable that is passed there, whether it is one of the function's own: its address is passed)."""
    found = call.search(text)
    arguments = split(text[found.end() :]) if found and nth is not None else []
    name = ARGUMENT.fullmatch(arguments[nth].strip()) if nth is not None and nth < len(arguments) else None
    return (name[2], bool(name[1])) if name else ("", True)


def split(text):
    """The arguments of a call, from behind its parenthesis on."""
    depth, parts = 0, [""]
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if depth < 0:
            return parts
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def parameter(source, row, function, name):
    """The place of a parameter of this name in the definition above the row, or None."""
    if not function:
        return None
    above = "\n".join(source.splitlines()[:row])
    for found in reversed(list(re.finditer(rf"\b{re.escape(function)}\s*\(", above))):
        for nth, each in enumerate(split(above[found.end() :])):
            if re.search(rf"[\w*&>]\W*\b{re.escape(name)}\s*(=.*)?$", each.strip()) and each.strip() != name:
                return nth
    return None
