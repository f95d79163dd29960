#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The PTX inside lessons 06 and 07 holds the instructions that these lessons are about, in the right order.

    ptx_test.py multicast PROGRAM      build/bin/multicast, norm, all_reduce or one_process_a_gpu
    ptx_test.py aliasing PROGRAM       build/bin/aliasing

Needs no GPU and no tool: the programs are built with --no-compress, so their PTX lies in them as text. Every PTX in the
program is held against what its architecture must have. Exit status 0; 1 if anything is wrong; 77 if the program was
built for other architectures than the build chooses by itself, so that a PTX is missing.
"""

import re
import sys


def fail(message):
    sys.exit(f"FAIL: {message}")


def modules(program):
    """{architecture: PTX text} of everything in the program, for instance {75: ..., 90: ...}."""
    with open(program, "rb") as file:
        found = re.findall(rb"\.version \d+\.\d+\s+\.target sm_(\d+)([^\0]*)", file.read())
    return {int(architecture): text.decode() for architecture, text in found}


def instructions(text, kernel):
    """The instructions of one kernel in the order of its text, without their operands."""
    name = f"_Z{len(kernel)}{kernel}"  # as the compiler writes a function's name; the types of its parameters follow
    body = re.search(rf"\.entry {name}\w+\([^{{]*\{{(.*?)^\}}", text, re.DOTALL | re.MULTILINE)
    if not body:
        fail(f"no kernel {kernel}")
    lines = re.sub(r"//.*", "", body.group(1)).splitlines()
    return [found.group(1) for line in lines if (found := re.match(r"\s*(?:@!?%p\d+ )?([a-z][\w.:]+)[ ;]", line))]


def expect(kernel, got, wanted):
    """The instructions are the wanted ones, each a regular expression; a repetition of one, as in a loop, is one."""
    got = [name for i, name in enumerate(got) if i == 0 or name != got[i - 1]]
    if len(got) != len(wanted) or not all(map(re.fullmatch, wanted, got)):
        fail(f"{kernel} has {got}, not {wanted}")


MULTIMEM = {  # of each kernel of lesson 06: all that orders or is shared
    "fill": [],
    "broadcast": [r"multimem\.st\.relaxed\.sys\.global\.b32"],  # of multicast, and of one_process_a_gpu
    "all_reduce": [
        r"multimem\.ld_reduce\.relaxed\.sys\.global\.add\.u32",
        r"multimem\.st\.relaxed\.sys\.global\.b32",
    ],
    "arrive": [r"multimem\.red\.relaxed\.sys\.global\.add\.u32"],
    "normalise": [
        r"fence\.proxy\.alias",  # the sum, by who wrote it: from its own address to the multicast address
        r"multimem\.red\.release\.sys\.global\.add\.u32",
        r"fence\.proxy\.alias",  # the counter, after one's own arrival: from the multicast address to its own
        r"ld\.acquire\.sys\.(global\.)?[bu]32",
        r"fence\.proxy\.alias",  # the sum, by who reads it
        r"multimem\.ld_reduce\.relaxed\.sys\.global\.add\.f32",
    ],
    "all_reduce_multicast": [
        r"multimem\.ld_reduce\.relaxed\.sys\.global\.add\.v4\.f32",
        r"multimem\.st\.relaxed\.sys\.global\.v4\.f32",
    ],
    "all_reduce_unicast": [],
    "hold": [],
}


def multicast(texts):
    memory = r"multimem.*|fence.*|membar.*|ld\.(?!param|shared|global).*|atom.*|red\..*"
    for architecture, text in texts.items():
        kernels = [name[: int(length)] for length, name in re.findall(r"\.entry _Z(\d+)(\w+)", text)]
        if not kernels or not set(kernels) <= set(MULTIMEM):
            fail(f"the kernels for sm_{architecture} are {kernels}")
        if architecture < 90 and ("multimem" in text or "is_not_supported" in text):
            fail(f"sm_{architecture} knows no multimem instruction, and its PTX has one")
        for kernel in kernels:
            if architecture >= 90:
                got = [name for name in instructions(text, kernel) if re.fullmatch(memory, name)]
                expect(kernel, got, MULTIMEM[kernel])
            elif MULTIMEM[kernel] and "trap" not in instructions(text, kernel):
                fail(f"on sm_{architecture}, {kernel} does not trap")
        if architecture >= 90 and "normalise" in kernels:
            norm = instructions(text, "normalise")
            if "st.global.f32" not in norm[: norm.index("fence.proxy.alias")]:
                fail("normalise does not store its partial sum before the first fence")
    return min(texts, default=90) < 90 <= max(texts, default=0)


def aliasing(texts):
    load, store = r"ld\.global\.[bu]32", r"st\.global\.[bu]32"  # not ld.global.nc, which may be stale for good
    for text in texts.values():
        for kernel, wanted in {
            "correct": [load, store, load, store],
            "correct_with_fence": [load, store, r"fence\.proxy\.alias", load, store],
        }.items():
            memory = r"(ld|st)\.(?!param)|fence|membar|atom|red\."
            expect(kernel, [name for name in instructions(text, kernel) if re.match(memory, name)], wanted)
    return bool(texts)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("multicast", "aliasing"):
        sys.exit(__doc__)
    texts = modules(sys.argv[2])
    if not globals()[sys.argv[1]](texts):
        print(f"SKIP: PTX only for {sorted(texts) or 'no architecture'}; configure without CMAKE_CUDA_ARCHITECTURES")
        sys.exit(77)
    print("PTX for", ", ".join(f"sm_{architecture}" for architecture in sorted(texts)))
