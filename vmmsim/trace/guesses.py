# SPDX-License-Identifier: MIT-0
"""What a recording does not tell, and its answers let one infer: the memory that only a descriptor holds.

Which export an import is of, imports.py infers.
"""


def from_free_memory(machine, process, line):
    device, free = line["device"], line["outputs"].get("free")
    if not machine.expect(isinstance(free, int), "what it answers is about memory that is known"):
        return
    own = [memory for memory in machine.memory if memory.device == device]
    unused = [memory for memory in own if memory.is_exported and not memory.is_followed and not memory.lives()]
    there = [memory for memory in own if memory.lives() or memory.is_followed and memory.held_by_fd]
    lives, hidden = sum(memory.size for memory in there), sum(memory.size for memory in unused)
    blocks = {
        (pid, at)
        for pid, process in machine.processes.items()
        for at, (_, owner, _) in process.blocks.items()
        if owner == device
    }
    room, for_blocks = machine.seen.get(device, (None, None))
    if blocks != for_blocks:  # how much ordinary memory takes is not told: it comes in whole pages
        if not hidden:
            machine.seen[device] = free + lives, blocks
        return
    taken = room - free - lives  # by what only a descriptor holds
    machine.demand(0 <= taken <= hidden, "free memory is as much as cuMemGetInfo says")
    if not 0 <= taken <= hidden:
        del machine.seen[device]  # other programs use this GPU too
        return
    for memory in unused:
        machine.look_at(memory)
        memory.held_by_fd = taken == hidden
        memory.is_exported = taken > 0
        machine.held.pop(memory.number, None)
        if memory.held_by_fd:
            machine.held[memory.number] = memory
