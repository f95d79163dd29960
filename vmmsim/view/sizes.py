# SPDX-License-Identifier: MIT-0
"""Sizes and numbers of things, as pictures, words and pages say them."""

import functools
import re

from vmmsim.trace.checks import OF_MODULES

UNITS = ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)
VMM, ORDINARY, MANAGED = "", "ordinary", "managed"  # kinds of memory
OWN, OF_MODULE, OPENED, IS_MANAGED, OF_GRAPH = range(5)  # kinds of what is no VMM: the third is another process's


def kind_of_block(call, is_captured=False):
    if is_captured or "Graph" in call:
        return OF_GRAPH
    if call.startswith(OF_MODULES):
        return OF_MODULE
    return OPENED if re.search("Ipc|Import", call) else IS_MANAGED if "Managed" in call else OWN


@functools.cache
def size_text(size: int) -> str:
    """1.5 MiB; of few GiB the second decimal, too, which is some MiB: 3.97 GiB; and of TiB, which is some GiB."""
    for unit, shift in UNITS:
        if size >= 1 << shift:
            digits = 2 if 1 << 30 <= size < 100 << 30 or size >= 1 << 40 else 1
            return f"{size / (1 << shift):.{digits}f}".rstrip("0").removesuffix(".") + f" {unit}"
    return f"{size} B"


def exact_size(size: int) -> str:
    """In the largest unit of which it is a whole number: 1536 MiB."""
    for unit, shift in UNITS:
        if size and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def size_and_bytes(size):
    """With the bytes where the short form is not exact: what is missing there may be the mistake."""
    unit = 1 << min(40, (max(size, 1).bit_length() - 1) // 10 * 10)
    digits = 100 if unit >= 1 << 30 else 10
    return size_text(size) if size * digits % unit == 0 else f"{size_text(size)} ({size:,} B)"


def sizes_text(sizes, gpus_shown=2):
    """18 MiB of GPU 0, 2 MiB of GPU 0 by cudaMalloc, 4 MiB of the host, 1 MiB managed: of {(kind, GPU): bytes}."""
    gpus, texts = sorted({device for _, device in sizes if device >= 0}), []
    groups = [([gpu], f" of GPU {gpu}" * (gpus_shown > 1)) for gpu in gpus]
    for some, where in groups if len(gpus) <= 4 else [(gpus, f" of {len(gpus)} GPUs")]:
        for kind, how in (VMM, ""), (ORDINARY, " by cudaMalloc"):
            if size := sum(sizes[kind, device] for device in some):
                texts.append(size_text(size) + where + how)
    host, managed = sizes[VMM, -1] + sizes[ORDINARY, -1], sizes[MANAGED, -1]
    texts += [f"{size_text(host)} of the host"] * bool(host) + [f"{size_text(managed)} managed"] * bool(managed)
    return ", ".join(texts)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
