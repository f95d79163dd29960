# SPDX-License-Identifier: MIT-0
"""The tokens of a piece of C++, as libclang reads them: identifiers in any script, raw strings, lines that go on.

Nothing is preprocessed: no file is read, and no directive means anything.
"""

import dataclasses
import re

MARKS = {"#": "\x01", "%": "\x02"}  # what can begin a directive, and what stands for it here
BEFORE, AFTER, END = "#if 0\n", "\n#endif\n", "end_of_this_piece"
SPLICE = re.compile(r"(?:\\\n)*")
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


@dataclasses.dataclass
class Token:
    kind: str  # "COMMENT", "IDENTIFIER", "KEYWORD", "LITERAL", "PUNCTUATION"
    text: str
    line: int  # from 0 on
    begin: int  # where in the piece, in characters
    end: int
    logical: int = 0  # the line on which its line began: with a \\ at its end, a line goes on in the next
    starts_line: bool = False  # it is the first there, but for comments

    @property
    def more_lines(self):
        """On how many more it goes on."""
        return self.text.count("\n")


def tokens(text):
    """(the tokens of a piece, where in it something begins that has no end; or -1)."""
    if found := CONTROL.search(text):
        return [], found.start()
    plain = f"{text}\n{END}"
    for sign, stand_in in MARKS.items():
        plain = plain.replace(sign, stand_in)
    found = list(lexed(plain))
    if not found or (found[-1].text, found[-1].begin) != (END, len(text) + 1):
        done = max((each.end for each in found if each.end <= len(text)), default=0)
        return found, min(len(text) - len(text[done:].lstrip()), len(text))
    begins, before = logical_lines(text), -1
    for token in found[:-1]:
        token.text, token.logical = text[token.begin : token.end], begins[token.line]
        token.starts_line = before < token.logical
        if token.kind != "COMMENT":
            before = begins[token.line + token.more_lines]
    return found[:-1], -1


def lexed(plain):
    from clang import cindex  # of PyPI: what lists labs or gives a hint does without

    data, name = plain.encode(), "piece.cpp"
    files = [(name, BEFORE + plain + AFTER)]
    unit = cindex.Index.create().parse(name, ["-std=c++17", "-nostdinc"], unsaved_files=files)
    file, first = cindex.File.from_name(unit, name), len(BEFORE)
    ends = [cindex.SourceLocation.from_offset(unit, file, at) for at in (first, first + len(data))]
    at = bytes_at = line = 0
    for token in unit.get_tokens(extent=cindex.SourceRange.from_locations(*ends)):
        begin, end = token.extent.start.offset - first, token.extent.end.offset - first
        between, text = data[bytes_at:begin].decode(), data[begin:end].decode()
        line += between.count("\n")
        yield Token(token.kind.name, text, line, at + len(between), at + len(between) + len(text))
        at, bytes_at, line = at + len(between) + len(text), end, line + text.count("\n")


def logical_lines(text):
    """Of each line that on which it began."""
    begins, begin = [], 0
    for at, line in enumerate(text.split("\n")):
        begins.append(begin)
        begin = begin if line.endswith("\\") else at + 1
    return begins


def are_glued(text, one, other):
    """Whether nothing is between two tokens, but that a line goes on."""
    return bool(SPLICE.fullmatch(text, one.end, other.begin))
