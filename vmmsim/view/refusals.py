# SPDX-License-Identifier: MIT-0
"""Refusals that are no failures: a library asks for the better thing first, and is content with the other.

answered(recording) are {step: words}, inferred, of such calls; lacking(line) is what a refused call most likely lacked.
"""

import re

from vmmsim.trace.line import SUCCESS

MAY_BE_PROBES = re.compile(r"(CUDA_ERROR_|cudaError)(NOT_?SUPPORTED|INVALID_?VALUE|NOT_?PERMITTED)", re.IGNORECASE)
IS_SO_ALREADY = re.compile(r"(CUDA_ERROR_|cudaError)PEER_?ACCESS_?ALREADY_?ENABLED", re.IGNORECASE)
FABRIC = 8  # of CUmemAllocationHandleType
SHORTLY, FRAMES = 16, 4  # so many calls later; so many of the innermost functions are compared


def answered(recording):
    return {step: words for step, line in enumerate(recording.lines, 1) if (words := answer(recording, step, line))}


def answer(recording, step, line):
    if IS_SO_ALREADY.fullmatch(line["result"]):
        return already(recording, step, line)
    if not MAY_BE_PROBES.fullmatch(line["result"]):
        return ""
    for number, again in enumerate(recording.lines[step : step + SHORTLY], step + 1):
        if all(again[member] == line[member] for member in ("pid", "thread", "call")):
            is_same_caller = functions(recording, line) & functions(recording, again)
            is_answer = again["result"] in SUCCESS and is_same_caller and is_like(line, again)
            how = "(inferred: the same caller asks again with other arguments)"
            return f"Refused, then done otherwise in step {number} {how}." if is_answer else ""
    return ""


def already(recording, step, line):
    key = "pid", "call", "device", "arguments"
    for before in range(step - 1, 0, -1):
        other = recording.lines[before - 1]
        if other["result"] in SUCCESS and all(other[member] == line[member] for member in key):
            return f"That was so already, since step {before}; libraries ask all the same (inferred)."
    return ""


def is_like(one, other):
    """Other arguments, but half of them or more are the same."""
    ours, theirs = (dict(leaves(line["arguments"])) for line in (one, other))
    names = (ours.keys() | theirs.keys()) - one["outputs"].keys() - other["outputs"].keys()
    equal = sum(ours.get(name) == theirs.get(name) for name in names)
    return len(names) / 2 <= equal < len(names)


def leaves(value, name=""):
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from leaves(inside, f"{name}.{key}".removeprefix("."))
    else:
        yield name, str(value)


def functions(recording, line):
    """The innermost that led to a call, by name or else by where they called."""
    known = recording.about.get("places", {})
    named = {place[2] for caller in line["callers"][:FRAMES] for place in known.get(caller, []) if place[2]}
    return named | {caller for caller in line["callers"][:FRAMES] if not caller.startswith("libc.so")}


def lacking(line):
    properties = line["arguments"].get("prop")
    types = properties.get("requestedHandleTypes") if isinstance(properties, dict) else 0
    if isinstance(types, int) and types & FABRIC and re.search("NOT_(PERMITTED|SUPPORTED)", line["result"]):
        return "A fabric handle needs an IMEX channel that the process may open: most likely there is none."
    if re.fullmatch("CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation", line["result"]):
        return "There was not enough memory left: see who holds it, as far as the recording has that."
    return ""
