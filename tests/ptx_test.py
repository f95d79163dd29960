# SPDX-License-Identifier: MIT-0
"""The PTX inside lessons 06 and 07 holds the instructions that these lessons are about, in the right order.

Needs no GPU and no tool: the programs are built with --no-compress, so their PTX lies in them as text. Every PTX in a
program is held against what its architecture must have. It is a skip if the program was built for other architectures
than the build chooses by itself, so that a PTX is missing.
"""

import pathlib
import re

import pytest

from vmmsim.built import BUILT


def modules(program):
    """{architecture: PTX text} of everything in the program, for instance {75: ..., 90: ...}."""
    found = re.findall(rb"\.version \d+\.\d+\s+\.target sm_(\d+)([^\0]*)", pathlib.Path(BUILT[program]).read_bytes())
    return {int(architecture): text.decode() for architecture, text in found}


def instructions(text, kernel):
    """The instructions of one kernel in the order of its text, without their operands."""
    name = f"_Z{len(kernel)}{kernel}"  # as the compiler writes a function's name; the types of its parameters follow
    body = re.search(rf"\.entry {name}\w+\([^{{]*\{{(.*?)^\}}", text, re.DOTALL | re.MULTILINE)
    assert body, f"no kernel {kernel}"
    lines = re.sub(r"//.*", "", body[1]).splitlines()
    return [found[1] for line in lines if (found := re.match(r"\s*(?:@!?%p\d+ )?([a-z][\w.:]+)[ ;]", line))]


def are(got, wanted):
    """Whether they are the wanted ones, each a regular expression; a repetition of one, as in a loop, is one."""
    got = [name for i, name in enumerate(got) if i == 0 or name != got[i - 1]]
    return len(got) == len(wanted) and all(map(re.fullmatch, wanted, got))


def skip_without(is_whole, texts):
    if not is_whole:
        pytest.skip(f"PTX only for {sorted(texts) or 'no architecture'}; configure without CMAKE_CUDA_ARCHITECTURES")


MULTIMEM = {  # of each kernel of lesson 06: all that orders or is shared
    "fill": [],
    "broadcast": [r"multimem\.st\.relaxed\.sys\.global\.b32"],  # of one_process_a_gpu
    "all_reduce": [
        r"multimem\.ld_reduce\.relaxed\.sys\.global\.add\.s32",
        r"multimem\.st\.relaxed\.sys\.global\.b32",
    ],
    "meet": [
        r"fence\.proxy\.alias",
        r"multimem\.red\.release\.sys\.global\.add\.s32",
        r"fence\.proxy\.alias",
        r"ld\.acquire\.sys\.(global\.)?[bsu]32",
        r"fence\.proxy\.alias",
    ],
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


@pytest.mark.parametrize("program", ["multicast", "norm", "all_reduce", "one_process_a_gpu"])
def test_multicast_has_its_instructions(program):
    texts, memory = modules(program), r"multimem.*|fence.*|membar.*|ld\.(?!param|shared|global).*|atom.*|red\..*"
    for architecture, text in texts.items():
        kernels = [name[: int(length)] for length, name in re.findall(r"\.entry _Z(\d+)(\w+)", text)]
        assert kernels
        assert set(kernels) <= set(MULTIMEM), f"the kernels for sm_{architecture}"
        if architecture < 90:
            assert "multimem" not in text, f"sm_{architecture} knows no multimem instruction"
            assert "is_not_supported" not in text
            assert [name for name in kernels if MULTIMEM[name] and "trap" not in instructions(text, name)] == []
            continue
        for kernel in kernels:
            got = [name for name in instructions(text, kernel) if re.fullmatch(memory, name)]
            assert are(got, MULTIMEM[kernel]), f"{kernel} has {got}, not {MULTIMEM[kernel]}"
        if "normalise" in kernels:
            norm = instructions(text, "normalise")
            assert "st.global.f32" in norm[: norm.index("fence.proxy.alias")], "its partial sum, before the first fence"
    skip_without(min(texts, default=90) < 90 <= max(texts, default=0), texts)


def test_aliasing_has_its_fences():
    load, store = r"ld\.global\.[bu]32", r"st\.global\.[bu]32"  # not ld.global.nc, which may be stale for good
    barrier, fence = r"bar(rier)?\.sync.*", r"fence\.proxy\.alias"
    texts, memory = modules("aliasing"), r"(ld|st)\.(?!param)|fence|membar|atom|red\.|bar"
    for text in texts.values():
        for kernel, wanted in {
            "write_and_read": [load, store, load, store],
            "calibrate": [load, store, barrier, load, store],
            "calibrate_with_fence": [load, store, fence, barrier, load, store],
        }.items():
            got = [name for name in instructions(text, kernel) if re.match(memory, name)]
            assert are(got, wanted), f"{kernel} has {got}, not {wanted}"
    skip_without(texts, texts)
