# SPDX-License-Identifier: MIT-0
"""Sizes and numbers of things, as pictures, words and pages say them."""

import functools

UNITS = ("GiB", 30), ("MiB", 20), ("KiB", 10)
VMM, ORDINARY = "", "ordinary"  # kinds of memory


@functools.cache
def size_text(size: int) -> str:
    """1.5 MiB; of few GiB the second decimal, too, which is some MiB: 3.97 GiB."""
    for unit, shift in UNITS:
        if size >= 1 << shift:
            digits = 2 if 1 << 30 <= size < 100 << 30 else 1
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
    unit = 1 << min(30, (max(size, 1).bit_length() - 1) // 10 * 10)
    digits = 100 if unit == 1 << 30 else 10
    return size_text(size) if size * digits % unit == 0 else f"{size_text(size)} ({size:,} B)"


def sizes_text(sizes, gpus_shown=2):
    """18 MiB and 2 MiB ordinary of GPU 0, 4 MiB of the host: of {(VMM or ORDINARY, GPU): bytes}."""
    devices = sorted({device for _, device in sizes}, key=lambda device: (device < 0, device))
    gpus = [device for device in devices if device >= 0]

    def worded(some):
        by_kind = ((sum(sizes[kind, device] for device in some), kind) for kind in (VMM, ORDINARY))
        return " and ".join(f"{size_text(size)} {kind}".rstrip() for size, kind in by_kind if size)

    parts = [worded([device]) + (f" of GPU {device}" if gpus_shown > 1 else "") for device in gpus]
    if len(gpus) > 4:
        parts = [f"{worded(gpus)} of {len(gpus)} GPUs"]
    return ", ".join([*parts, *[f"{worded([-1])} of the host"] * (-1 in devices)])


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
