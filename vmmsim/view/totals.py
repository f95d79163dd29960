# SPDX-License-Identifier: MIT-0
"""How much memory there is, by GPU: kept up to date with each call."""

import collections


class Totals:
    def __init__(self):
        self.idle_bytes = collections.Counter()  # by GPU: of memory that is there and not mapped
        self.there = {}  # memory by number: (its GPU, its size, whether it is mapped)
        self.bytes = collections.Counter()  # by GPU: bytes of memory
        self.ordinary = collections.Counter()  # by GPU: bytes of ordinary memory
        self.blocks = {}  # by (process, address): (its GPU, its size)

    def update(self, machine, since):
        for look in since.was.values():
            self.update_memory(look.memory)
        for pid, address in since.blocks:
            device, size = self.blocks.pop((pid, address), (None, 0))
            self.ordinary[device] -= size
            if block := machine.processes[pid].blocks.get(address):
                self.blocks[pid, address] = block[1], block[0]
                self.ordinary[block[1]] += block[0]

    def update_memory(self, memory):
        device, size, is_mapped = self.there.pop(memory.number, (None, 0, True))
        self.bytes[device] -= size
        self.idle_bytes[device] -= 0 if is_mapped else size
        if memory.look().is_there and not memory.is_multicast:
            self.there[memory.number] = memory.device, memory.size, bool(memory.mapped)
            self.bytes[memory.device] += memory.size
            self.idle_bytes[memory.device] += 0 if memory.mapped else memory.size
