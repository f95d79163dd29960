# SPDX-License-Identifier: MIT-0
"""Which line of its source, and which function, stands at an address in a program or a library."""

import mmap
import os
import pathlib
import re
import struct
import subprocess

LOAD, FUNCTION, SYMBOL_TABLES = 1, 2, (2, 11)  # the types of a segment, of a symbol, of .symtab and .dynsym
PAGE = 4096


class Elf:
    """What is needed of a file in this format, of 64 bits; ValueError if it is none."""

    def __init__(self, file):
        self.bytes = file
        if file[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no ELF file of 64 bits")
        (self.segments_at, self.sections_at) = struct.unpack_from("<QQ", file, 32)
        _, self.segments, size, self.sections, names = struct.unpack_from("<HHHHH", file, 54)
        if size != 64 and self.sections:
            raise ValueError("its sections have another size")
        self.names = self.section(names)[4] if self.sections else 0

    def section(self, index):
        """(name, type, link, size, offset)"""
        name, kind, _, _, offset, size, link = struct.unpack_from("<IIQQQQI", self.bytes, self.sections_at + 64 * index)
        return name, kind, link, size, offset

    def has_debug_lines(self):
        return any(self.text(self.names + self.section(i)[0]) == ".debug_line" for i in range(self.sections))

    def text(self, at):
        return self.bytes[at : self.bytes.find(b"\0", at)].decode(errors="surrogateescape")

    def first_address(self):
        """Where its first segment is to lie: 0 of a library, and of a program that can lie anywhere."""
        segments = [struct.unpack_from("<I12xQ", self.bytes, self.segments_at + 56 * i) for i in range(self.segments)]
        return min((address // PAGE * PAGE for kind, address in segments if kind == LOAD), default=0)

    def functions(self, addresses):
        """By address: the name of the function, as the linker knows it. What lies in none is left out."""
        found, addresses = {}, sorted(addresses)
        for _, kind, link, size, offset in map(self.section, range(self.sections)):
            if kind not in SYMBOL_TABLES:
                continue
            names = self.section(link)[4]
            symbols = sorted(
                (value, value + length, name)
                for name, info, _, _, value, length in struct.iter_unpack(
                    "<IBBHQQ", self.bytes[offset : offset + size // 24 * 24]
                )
                if info & 15 == FUNCTION and length
            )
            at = 0
            for address in addresses:
                while at < len(symbols) and symbols[at][0] <= address:
                    at += 1
                # The nearest that began before it is the one, unless it has ended.
                if at and address < symbols[at - 1][1]:
                    found.setdefault(address, self.text(names + symbols[at - 1][2]))
        return found


def places(file: "str | os.PathLike[str]", offsets: list[int]) -> dict[int, list[tuple[str, int, str]]]:
    """By offset in the memory of the file: [(path, line, function), ...], the innermost of inlined functions first.

    Without debug lines the path is "" and the line 0, and the function is that of the symbol table. What is not known
    is left out. OSError, ValueError and subprocess.SubprocessError tell that nothing can be known.
    """
    offsets = sorted(set(offsets))
    if not offsets:
        return {}
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            elf = Elf(content)
            first, has_lines = elf.first_address(), elf.has_debug_lines()
            names = elf.functions({first + offset for offset in offsets})
        except struct.error:
            raise ValueError("an ELF file that is cut off") from None
    found = of_lines(file, [first + offset for offset in offsets]) if has_lines else {}
    for address, name in zip(names, demangled(names.values()), strict=True):
        if not found.get(address):
            found[address] = [("", 0, name)]
    return {offset: found[first + offset] for offset in offsets if found.get(first + offset)}


def of_lines(file, addresses):
    """The same by address, from the debug lines alone."""
    done = run(["addr2line", "-a", "-i", "-f", "-C", "-e", str(file)], addresses)
    found, at, function = {}, None, ""
    for line in done.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", line):
            at, function = found.setdefault(int(line, 16), []), ""
        elif not function:
            function = line
        else:
            path, _, number = line.partition(" (discriminator")[0].rpartition(":")
            if number.isdigit() and int(number):
                at.append((path, int(number), function.replace("??", "")))
            function = ""
    return found


def demangled(names):
    names = list(names)
    if not names:
        return []
    try:
        shown = run(["c++filt"], names).splitlines()
    except OSError:
        return names
    return shown if len(shown) == len(names) else names


def run(command, words=(), timeout=120):
    """What a tool answers to these words on its input. Bytes of paths that are not UTF-8 come through."""
    text = "".join(f"{word:#x}\n" if isinstance(word, int) else f"{word}\n" for word in words)
    code = {"encoding": "utf-8", "errors": "surrogateescape"}
    done = subprocess.run(command, input=text, capture_output=True, timeout=timeout, **code)
    if done.returncode:
        raise ValueError(done.stderr.strip() or f"{command[0]} ended with status {done.returncode}")
    return done.stdout


def line_of(found, source):
    """The innermost line of a source file among the places of an address, or 0."""
    return next((line for path, line, _ in found if pathlib.Path(path).name == source), 0)
