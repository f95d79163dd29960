#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Where the functions of NVIDIA's libcudart_static lie, release by release: writes known_runtimes.inc.

    python3 -m simulator.runtime.known_runtimes        in vmmsim/

A linked program or library that was stripped names no function of the runtime inside it. But the library is one object
whose code is one section, which a linker moves as a whole. So a few words of it tell the release and where it begins,
and the release tells where each function is. A linker writes into the code where a relocation is: no such word is
taken.

For 64-bit x86, where every function begins at a multiple of 16 bytes, so that each has room for a jump.
"""

import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

TABLE = pathlib.Path(__file__).with_name("known_runtimes.inc")
# The first build of each code. Later builds of a release are the same but for their number, where none is named.
PINNED = (
    "nvidia-cuda-runtime-cu12==12.9.37",
    "nvidia-cuda-runtime-cu12==12.9.79",
    "nvidia-cuda-runtime==13.0.48",
    "nvidia-cuda-runtime==13.1.80",
    "nvidia-cuda-runtime==13.2.51",
    "nvidia-cuda-runtime==13.3.29",
    "nvidia-cuda-runtime==13.4.49",
    "nvidia-cuda-runtime==13.4.92",
    "nvidia-cuda-runtime==13.5.37",
)
SAMPLES = 15
HEAD = """\
// SPDX-License-Identifier: MIT-0
// Made by known_runtimes.py: the size of each runtime's code, and words of it by their offsets; then where each
// function lies in them, in units of 16 bytes, or NONE.
"""
X86_64, FUNCTION, SYMTAB, RELA = 62, 2, 2, 4
# The bytes before and behind a relocation that a linker may write: with its instruction, and all of a sequence that
# finds a variable of a thread.
AROUND, AROUND_THREAD, OF_THREAD = (4, 8), (16, 20), range(16, 24)


def members(archive):
    """The files in an archive of ar."""
    if not archive.startswith(b"!<arch>\n"):
        raise ValueError("not an archive")
    at = 8
    while at < len(archive):
        size = int(archive[at + 48 : at + 58])
        yield archive[at + 60 : at + 60 + size]
        at += 60 + size + size % 2


class Runtime:
    """The code of a libcudart_static.a: `text`, `functions` by name as offsets in it, `samples`."""

    def __init__(self, archive):
        (file,) = (member for member in members(archive) if member.startswith(b"\x7fELF"))
        if struct.unpack_from("<H", file, 18)[0] != X86_64:
            raise ValueError("not of 64-bit x86")
        first, count, names = struct.unpack_from("<Q", file, 40)[0], *struct.unpack_from("<HH", file, 60)
        sections = [struct.unpack_from("<IIQQQQIIQQ", file, first + 64 * i) for i in range(count)]

        def text_at(strings, offset):
            begin = sections[strings][4] + offset
            return file[begin : file.index(b"\0", begin)].decode()

        (code,) = (i for i, each in enumerate(sections) if text_at(names, each[0]) == ".text")
        self.text = file[sections[code][4] :][: sections[code][5]]
        self.written = bytearray(len(self.text))  # 1: a linker may write this byte
        self.functions = {}
        starts = set()
        for _, kind, _, _, at, size, link, of, _, _ in sections:
            if kind == RELA and of == code:
                for offset, info, _ in struct.iter_unpack("<QQq", file[at : at + size]):
                    before, behind = AROUND_THREAD if info & 0xFFFFFFFF in OF_THREAD else AROUND
                    begin, end = max(0, offset - before), min(len(self.text), offset + behind)
                    self.written[begin:end] = b"\1" * (end - begin)
            if kind == SYMTAB:
                for name, info, _, section, value, _ in struct.iter_unpack("<IBBHQQ", file[at : at + size]):
                    if info & 15 != FUNCTION or section != code:
                        continue
                    starts.add(value)
                    if text_at(link, name).startswith(("cuda", "__cuda")):
                        self.functions[text_at(link, name)] = value
        if any(start % 16 for start in starts):
            raise ValueError("a function is not aligned: a jump may not fit")
        self.samples = [self.sample(len(self.text) * i // SAMPLES) for i in range(SAMPLES)]

    def sample(self, offset):
        """The first eight bytes from there on that no linker writes and that are not all alike."""
        offset += -offset % 8
        while any(self.written[offset : offset + 8]) or len(set(self.text[offset : offset + 8])) < 6:
            offset += 8
        return offset, int.from_bytes(self.text[offset : offset + 8], "little")

    def matches(self, text):
        return all(text[offset : offset + 8] == value.to_bytes(8, "little") for offset, value in self.samples)


def head(release, runtime):
    samples = [f"{{{offset:#x}, {value:#018x}}}" for offset, value in runtime.samples]
    lines = [", ".join(samples[i : i + 3]) for i in range(0, SAMPLES, 3)]
    return f'KNOWN_RUNTIME("{release}", {len(runtime.text):#x},\n        ' + ",\n        ".join(lines) + ")\n"


def table(runtimes):
    """The text of known_runtimes.inc, of runtimes by the numbers of their builds."""
    text = HEAD
    for release, runtime in runtimes.items():
        if sum(each.matches(runtime.text) for each in runtimes.values()) != 1:
            raise ValueError(f"the words of {release} do not tell it from another")
        text += head(release, runtime)
    for name in sorted({name for runtime in runtimes.values() for name in runtime.functions}):
        offsets = (runtime.functions.get(name) for runtime in runtimes.values())
        row = ", ".join("NONE" if at is None else f"{at // 16:#x}" for at in offsets)
        separator = " " if len(name + row) < 112 else "\n     "
        text += f"CALL({name},{separator}{row})\n"
    return text


def fetched(package, directory):
    """The archive in a package of PyPI."""
    options = "--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"
    platform = "--platform=manylinux2014_x86_64", "--platform=manylinux_2_17_x86_64"
    words = sys.executable, "-m", "pip", "download", *options, *platform, f"--dest={directory}", package
    subprocess.run(words, check=True)
    (wheel,) = pathlib.Path(directory).glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith("/libcudart_static.a"))
        return files.read(name)


def made():
    """The table, from PyPI."""
    runtimes = {}
    for package in PINNED:
        with tempfile.TemporaryDirectory() as directory:
            runtimes[package.partition("==")[2]] = Runtime(fetched(package, directory))
    return table(runtimes)


if __name__ == "__main__":
    TABLE.write_text(made())
