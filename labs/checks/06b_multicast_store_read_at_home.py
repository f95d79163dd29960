# SPDX-License-Identifier: MIT-0
"""06b: a multicast address is no ordinary pointer, and each GPU reads its replica at a unicast address."""

import json
import re

from labs.judge.check import LAUNCHES, Run, check, memory_under
from labs.judge.drawn import drawn

TITLE = "Store by multimem, read at home"
MINUTES = 15
draw = drawn("06b")
VALUE = draw.randrange(10, 100)
STORE_7 = "broadcast<<<4, 256>>>(reinterpret_cast<int*>(mc[0]), n, 7);"
MAINS = (
    {"stores": 1},
    {
        "stores": 2,
        "changes": {
            "n = 100000": f"n = {draw.randrange(530000, 900000)}",
            STORE_7: STORE_7.replace("7)", "9)") + STORE_7.replace("7)", f"{VALUE})"),
            "(own[gpu], n, 7)": f"(own[gpu], n, {VALUE})",
        },
    },
)
PAGE = "06_multicast/README.md#2-map-two-addresses-for-each-gpu"
GPUS = 2
ELSEWHERE = {"gpus": 3, "machine": "granules_of_16_mib"}, {"gpus": draw.randrange(17, 19)}
ARCHITECTURE = 90
STRICT = True
OUTPUT = "GPU 0 stored once: every GPU has it\n"
HINTS = [
    "Only multimem instructions may use a multicast address. An ordinary load or store there is undefined, even where "
    "it seems to work.",
    "Each GPU needs two mappings: one of the object and one of its own memory. lab::map_for takes either handle, and "
    "own[gpu] is where GPU `gpu` reads.",
    "cuMulticastUnbind takes the offset and the size of the bind. Call it for each GPU before cuMemRelease of its "
    "memory. There are two mappings to unmap now.",
]
HINT_OF = {"stored_by_multimem": 1, "multimem_only": 1, "mapped_at_home": 2, "bound_until_unbound": 3}

STORE = "#2-map-two-addresses-for-each-gpu"
TEAR_DOWN = "#5-take-it-down"
KERNEL = "broadcast"


def store(run):
    """The launch of the kernel that is to store."""
    for call in run.calls("cudaLaunch*"):
        if f"{KERNEL}(" in call.arguments.get("func", ""):
            return call
    raise run.wrong(f"the kernel {KERNEL} stores to all replicas", "it did not run")


@check("GPU 0 stores by multimem.st", page=STORE, points=3)
def stored_by_multimem(run):
    """What is no multimem instruction faults at a multicast address; what adds, or the like, keeps a part of the 9 that
    a second main has stored before."""
    store(run)
    wanted = "the kernel writes to all replicas by multimem.st, and by no other instruction"
    for call in run.all:
        if call.fault and f"{KERNEL}(" in call.fault["where"]:
            raise call.wrong(wanted, "an ordinary instruction was used, and a multicast address is no ordinary pointer")
    for told in run.program.spliced.assembly:
        for instruction in told.instructions:
            if not instruction.startswith("multimem.st"):
                raise run.line_of_file(told.line).wrong(wanted, f"this is {'.'.join(instruction.split('.')[:2])}")
    if run.main.stores > 1 and OUTPUT not in run.stdout:
        happened = f"9 was stored, and then {VALUE}, and not every GPU has {VALUE}: multimem.red mixes the two"
        raise run.part("store to all replicas").wrong(wanted, happened)


@check("each replica has a unicast mapping, to which its GPU alone has access", points=3)
def mapped_at_home(run):
    stored, opened = store(run), {}  # by address the call that opened the mapping last
    for call in run.all[: stored.index]:
        changes = [change for change in call.changes if change["kind"] in ("map", "access")]
        opened |= {int(change["address"], 16): call for change in changes}
    mappings = run.machine_after(stored).processes[stored.pid].mappings
    mappings = {at: it for at, it in mappings.items() if not it.memory.is_multicast}
    for gpu in range(run.options["gpus"]):
        its = {at: it for at, it in mappings.items() if it.memory.device == gpu}
        if not its:
            wrong = run.part("where the GPU reads").wrong(
                f"own[{gpu}] is a unicast address, at which the replica of GPU {gpu} is mapped",
                f"when the kernel runs, the memory of GPU {gpu} is bound to the object, and mapped nowhere",
            )
            wrong.moment = stored.index
            raise wrong
        for at, it in its.items():
            allowed = sorted(device for device, flags in it.access.items() if flags)
            if allowed != [gpu]:
                words = " and ".join(f"GPU {device}" for device in allowed) or "no GPU"
                raise opened[at].wrong(f"GPU {gpu} alone has access to its replica", f"{words} may use it")


@check("only multimem instructions use a multicast address", page=STORE)
def multimem_only(run):
    wanted = "kernels use a multicast address by multimem instructions only, and copies and memsets do not use it"
    for call, machine in run.replay():
        told = "" if call.succeeded else json.dumps([call.arguments, call.fault])  # addresses, of a copy or a fault
        for address in re.findall(r"0x[0-9a-f]+", told):
            mapping = memory_under(machine, call.pid, int(address, 16))
            if mapping and mapping.memory.is_multicast:
                raise call.wrong(wanted, f"something else used it, and {call.name} is the first to tell")


@check("one kernel of GPU 0 stores, and the others only read", page=STORE)
def nothing_else_writes(run):
    launches = run.calls(*LAUNCHES)
    for call in launches[run.main.stores :]:
        if not call.is_count:
            raise call.wrong(f"the one kernel {KERNEL} writes, and all others only read", "another kernel ran")
    if len(launches) > run.main.stores + run.options["gpus"]:
        happened = f"{len(launches)} kernels ran"
        raise launches[-1].wrong("one kernel stores to all replicas, and then one for each GPU reads", happened)
    for call in run.copies():
        raise call.wrong("the one store reaches all replicas: nothing is copied or set", f"{call.name} was called")


@check("memory is unbound before it is released", page=TEAR_DOWN, points=3)
def bound_until_unbound(run):
    for call, machine in run.replay():
        for memory in machine.memory if call.name == "cuMemRelease" and call.succeeded else ():
            if memory.in_objects and not any(handle.references for handle in memory.handles):
                wanted = f"memory of GPU {memory.device} is unbound before it is released"
                raise call.wrong(wanted, "it is bound still: the object holds it")


answers = check("each answer is looked at", page=TEAR_DOWN, kept=True, main=0)(Run.must_look_at_answers)
