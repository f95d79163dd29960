# SPDX-License-Identifier: MIT-0
"""Changes of a program, as lesson.json and the wrong answers of labs have them.

A change is a list of lines: "- " stands there, "+ " is put in its place, "  " stays; "..." is between two places.
"""


def places(lines):
    """(what stands there, what is put there) of each place."""
    found = [[]]
    for line in lines:
        if line == "...":
            found.append([])
        else:
            found[-1].append(line)
    return [
        tuple("\n".join(line[2:] for line in place if line[:2] in (sign, "  ")) for sign in ("- ", "+ "))
        for place in found
    ]
