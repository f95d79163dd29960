# SPDX-License-Identifier: MIT-0
"""Refusals that are no failures: a library asks for the better thing first, and is content with the other.

answered(recording) are {step: words}, inferred, of such calls; lacking(line) is what a refused call most likely lacked.
Of another refusal Successes(recording).later(step, line) says in which later step the same was done, or that none was.
The answer is for the same address, or else for the same handles. A call that names neither, such as cuMemCreate, is
answered by the next that asks in another way, if nothing has been changed or launched between; and for as much of the
same place, where a value was invalid.
"""

import re

from vmmsim.trace.line import SUCCESS

MAY_BE_PROBES = re.compile(r"(CUDA_ERROR_|cudaError)(NOT_?SUPPORTED|INVALID_?VALUE|NOT_?PERMITTED)", re.IGNORECASE)
IS_SO_ALREADY = re.compile(r"(CUDA_ERROR_|cudaError)PEER_?ACCESS_?ALREADY_?ENABLED", re.IGNORECASE)
FABRIC = 8  # of CUmemAllocationHandleType
SHORTLY, FRAMES = 16, 4  # so many calls later; so many of the innermost functions are compared
PLACES = "ptr", "dptr", "devPtr", "memptr"  # what the call is to change: of a call that has it the rest matters less
DONE_ONCE = re.compile("cuMem(Map|SetAccess)|cuMulticastBind(Mem|Addr)")
# What names neither memory nor addresses, and what says how something is to be done.
WAYS = re.compile(r"(.*\.)?(h?stream|flags|addr|alignment|option|\w*HandleTypes?|allocFlags\..*)", re.IGNORECASE)


def answered(recording):
    return {step: words for step, line in enumerate(recording.lines, 1) if (words := answer(recording, step, line))}


def answer(recording, step, line):
    if IS_SO_ALREADY.fullmatch(line["result"]):
        return already(recording, step, line)
    if not MAY_BE_PROBES.fullmatch(line["result"]):
        return ""
    has_acted = False  # since then
    for number, again in enumerate(recording.lines[step : step + SHORTLY], step + 1):
        if any(again[member] != line[member] for member in ("pid", "thread")):
            continue
        if again["call"] == line["call"]:
            is_same_caller = functions(recording, line) & functions(recording, again)
            is_answer = again["result"] in SUCCESS and is_same_caller and is_for_the_same(line, again, has_acted)
            how = "(inferred: the same caller asks again with other arguments)"
            return f"Refused, then done otherwise in step {number} {how}." if is_answer else ""
        has_acted |= bool(again["changes"]) or "Launch" in again["call"]
    return ""


def already(recording, step, line):
    key = "pid", "call", "device", "arguments"
    for before in range(step - 1, 0, -1):
        other = recording.lines[before - 1]
        if other["result"] in SUCCESS and all(other[member] == line[member] for member in key):
            return f"That was so already, since step {before}; libraries ask all the same (inferred)."
    return ""


def is_for_the_same(refused, later, has_acted):
    """Other arguments, for the same thing."""
    outputs = refused["outputs"].keys() | later["outputs"].keys()
    given, given_later = (
        {key: value for key, value in leaves(line["arguments"]) if key not in outputs} for line in (refused, later)
    )
    if (
        given == given_later or "Launch" in refused["call"]
    ):  # what has changed is elsewhere; another launch does other work
        return False
    named = {name: value for name, value in given.items() if value.startswith("0x") and not WAYS.fullmatch(name)}
    named = {name: value for name, value in named.items() if value != "0x0"}
    if key := next((name for name in PLACES if name in named), None):
        return given_later.get(key) == named[key]
    if named:
        return named.items() <= given_later.items()
    ways, wanted = (
        [
            {key: value for key, value in arguments.items() if bool(WAYS.fullmatch(key)) == is_way}
            for arguments in (given, given_later)
        ]
        for is_way in (True, False)
    )
    is_of_value = re.search("INVALID_?VALUE", refused["result"], re.IGNORECASE)  # else the way alone was refused
    return not has_acted and ways[0] != ways[1] and (not is_of_value or wanted[0] == wanted[1])


class Successes:
    def __init__(self, recording):
        self.last = {}  # by what was done
        for step, line in enumerate(recording.lines, 1):
            if line["result"] in SUCCESS and DONE_ONCE.fullmatch(line["call"]):
                self.last[done(line)] = step

    def later(self, step, line):
        if not DONE_ONCE.fullmatch(line["call"]):
            return ""
        last = self.last.get(done(line), 0)
        return f"Done later, in step {last}." if last > step else "It was never done: no later call does the same."


def done(line):
    """The process, the call, and the addresses and handles that it names."""
    named = {(key, value) for key, value in leaves(line["arguments"]) if value.startswith("0x")}
    return line["pid"], line["call"], *sorted(pair for pair in named if not WAYS.fullmatch(pair[0]))


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
