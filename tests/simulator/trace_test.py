#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The lines of --trace tell enough to redraw the address spaces: trace_test.py VMMSIM PROGRAM...

Each lesson runs under --trace. From the changes alone a model of the machine is made, of all processes together, and
after each call it must make sense: mappings lie in reservations and refer to living memory, rights are those that
cuMemGetAccess gives, free memory is as much as cuMemGetInfo says. At the end everything has been given back.
"""
import collections
import json
import subprocess
import sys
import tempfile

from sim_test import SMALL, name_of

KEYS = ["pid", "thread", "number", "call", "nth", "caller", "device", "arguments", "result", "outputs", "changes"]
# What a call that succeeds must have changed, and nothing else; what is not here changes nothing.
KINDS = {
    "cuMemCreate": "create", "cuMemRelease": "release", "cuMemRetainAllocationHandle": "retain",
    "cuMemExportToShareableHandle": "export", "cuMemImportFromShareableHandle": "import",
    "cuMemAddressReserve": "reserve", "cuMemAddressFree": "free_reservation", "cuMemMap": "map",
    "cuMemUnmap": "unmap", "cuMemSetAccess": "access", "cuMulticastCreate": "multicast_create",
    "cuMulticastAddDevice": "add_device", "cuMulticastBindMem": "bind", "cuMulticastBindAddr": "bind",
    "cuMulticastUnbind": "unbind", "cudaMalloc": "allocate", "cudaFree": "free", "cudaMallocHost": "allocate",
    "cudaFreeHost": "free", "cudaDeviceEnablePeerAccess": "peer", "cudaDeviceDisablePeerAccess": "peer",
}
# A module's variables come with the first launch or question that needs them, and a pool's memory with what is wanted
# of it; any call that waits gives back what the pool does not need.
OF_MODULES = "cudaLaunch", "cudaFunc"
SUCCESS = "CUDA_SUCCESS", "cudaSuccess"


class Memory:  # or a multicast object
    def __init__(self, size, device, is_multicast):
        self.size, self.device, self.is_multicast = size, device, is_multicast
        self.handles = []      # in all processes
        self.team, self.bound = set(), {}  # of an object: devices; (device, offset) -> (memory, size)
        self.in_objects = []
        self.is_exported = False  # a descriptor may hold it, and nobody is told when that is closed

    def lives(self):
        return any(handle.references or handle.mappings for handle in self.handles) or \
            any(it.lives() for it in self.in_objects)


class Handle:
    def __init__(self, memory):
        self.memory, self.references, self.mappings = memory, 1, 0
        memory.handles.append(self)


class Mapping:
    def __init__(self, size, handle):
        self.size, self.handle, self.access = size, handle, {}


class Process:
    def __init__(self):
        self.handles, self.reservations, self.mappings, self.blocks, self.order = {}, {}, {}, {}, 0


class Machine:
    def __init__(self):
        self.processes, self.records, self.memory = collections.defaultdict(Process), {}, []
        self.seen = {}  # device -> bytes that VMM may have, beside this ordinary memory
        self.checks = collections.Counter()

    def expect(self, right, what):
        self.checks[what] += 1
        if not right:
            raise AssertionError(f"not so: {what}")

    def line(self, line):
        self.expect(list(line) == KEYS, "a line has the documented members")
        process = self.processes[line["pid"]]
        succeeded = line["result"] in SUCCESS
        kinds = {change["kind"] for change in line["changes"] if not self.is_of_pool(process, change)}
        wanted = KINDS.get(line["call"]) if succeeded and line["arguments"].get("devPtr") != "0x0" else None
        may_allocate = line["call"].startswith((*OF_MODULES, "cudaMallocAsync"))
        allowed = {"allocate"} if may_allocate else set()
        self.expect(kinds - allowed == ({wanted} if wanted else set()), "a call changes what it is for")
        for change in line["changes"]:
            self.expect(change["order"] > process.order, "changes come in order")
            process.order = change["order"]
            getattr(self, change["kind"])(process, line, **{key: number(value) for key, value in change.items()
                                                            if key not in ("order", "kind")})
        if succeeded:
            getattr(self, "after_" + line["call"], lambda *_: None)(process, line)

    @staticmethod
    def is_of_pool(process, change):
        block = process.blocks.get(number(change.get("address")))
        return change["kind"] == "free" and block and block[2] == "cudaMallocAsync"

    # --- Changes
    def create(self, process, line, handle, size, device, record, multicast, devices=None):
        self.records[record] = Memory(size, device, multicast)
        self.memory.append(self.records[record])
        self.expect(handle not in process.handles, "a new handle is new")
        process.handles[handle] = Handle(self.records[record])

    def multicast_create(self, process, line, handle, size, devices, record):
        self.create(process, line, handle, size, -1, record, True)

    def import_(self, process, line, handle, size, device, record, multicast):
        memory = self.records[record]
        self.expect((memory.size, memory.is_multicast) == (size, multicast), "an import is what was exported")
        self.expect(memory.is_exported, "what is imported was exported")
        process.handles[handle] = Handle(memory)

    def retain(self, process, line, handle):
        process.handles[handle].references += 1
        self.expect(number(line["outputs"]["handle"]) == handle, "the call gives the handle")

    def release(self, process, line, handle):
        process.handles[handle].references -= 1
        self.forget(process, handle)

    def export(self, process, line, handle, fd=None, fabric=False):
        self.expect(fd is not None or fabric, "an export is a descriptor or a fabric handle")
        process.handles[handle].memory.is_exported = True

    def forget(self, process, name):
        handle = process.handles[name]
        self.expect(handle.references >= 0, "no more releases than references")
        if not handle.references and not handle.mappings:
            del process.handles[name]

    def reserve(self, process, line, address, size):
        self.expect(not overlapping(process.reservations.items(), address, size), "reservations do not overlap")
        process.reservations[address] = size

    def free_reservation(self, process, line, address, size):
        self.expect(process.reservations.pop(address) == size, "a reservation is freed whole")
        self.expect(not any(address <= at < address + size for at in process.mappings), "what is freed is unmapped")

    def map(self, process, line, address, size, handle):
        self.expect(any(base <= address and address + size <= base + room
                        for base, room in process.reservations.items()), "a mapping lies where is reserved")
        self.expect(not overlapping(((at, it.size) for at, it in process.mappings.items()), address, size),
                    "mappings do not overlap")
        self.expect(process.handles[handle].memory.size == size, "memory is mapped whole")
        process.handles[handle].mappings += 1
        process.mappings[address] = Mapping(size, handle)

    def unmap(self, process, line, address, size):
        mapping = process.mappings.pop(address)
        self.expect(mapping.size == size, "a mapping is unmapped whole")
        process.handles[mapping.handle].mappings -= 1
        self.forget(process, mapping.handle)

    def access(self, process, line, address, size, device, flags):
        self.expect(process.mappings[address].size == size, "access is that of a mapping")
        process.mappings[address].access[device] = flags

    def add_device(self, process, line, handle, device):
        process.handles[handle].memory.team.add(device)

    def bind(self, process, line, handle, offset, size, device, memory, memory_offset):
        thing, bound = process.handles[handle].memory, process.handles[memory].memory
        self.expect(device in thing.team and bound.device == device, "memory of the team is bound")
        self.expect(memory_offset + size <= bound.size and offset + size <= thing.size, "what is bound fits")
        thing.bound[device, offset] = bound, size
        bound.in_objects.append(thing)

    def unbind(self, process, line, handle, offset, size, device):
        thing = process.handles[handle].memory
        bound, bound_size = thing.bound.pop((device, offset))
        self.expect(size == bound_size, "what is unbound was bound")
        bound.in_objects.remove(thing)

    def allocate(self, process, line, address, size, device, shared):
        self.expect(address not in process.blocks, "what is allocated was free")
        process.blocks[address] = size, device, line["call"]

    def free(self, process, line, address):
        self.expect(process.blocks.pop(address, None), "what is freed was allocated")

    def peer(self, process, line, device, peer, enabled):
        self.expect(device == line["device"], "a device enables its own access")

    # --- What calls answer
    def after_cuMemGetAccess(self, process, line):
        address, location = number(line["arguments"]["ptr"]), line["arguments"]["location"]
        device = location["id"] if location["type"] == "CU_MEM_LOCATION_TYPE_DEVICE" else -1
        flags = next(mapping.access.get(device, 0) for at, mapping in process.mappings.items()
                     if at <= address < at + mapping.size)
        self.expect(number(line["outputs"]["flags"]) == flags, "access is what cuMemGetAccess says")

    def after_cuMemGetInfo(self, process, line):
        device = line["device"]
        lives = sum(memory.size for memory in self.memory if memory.device == device and memory.lives())
        others = {(pid, at) for pid, it in self.processes.items() for at, block in it.blocks.items()
                  if block[1] == device}
        hidden = sum(memory.size for memory in self.memory
                     if memory.device == device and memory.is_exported and not memory.lives())
        room, for_others = self.seen.get(device, (None, None))
        free = line["outputs"]["free"]
        if others == for_others:  # how much ordinary memory takes is not told: it comes in whole pages
            self.expect(0 <= room - free - lives <= hidden, "free memory is as much as cuMemGetInfo says")
        elif not hidden:
            self.seen[device] = free + lives, others

    def end(self):
        for process in self.processes.values():
            self.expect(not process.handles, "all handles are released at the end")
            self.expect(not process.mappings, "all is unmapped at the end")
            self.expect(not process.reservations, "all reservations are freed at the end")
            left = [caller for _, _, caller in process.blocks.values() if not caller.startswith(OF_MODULES)]
            self.expect(not left, "all is freed at the end")
        self.expect(not any(memory.lives() for memory in self.memory), "no memory lives at the end")


setattr(Machine, "import", Machine.import_)


def number(value):
    return int(value, 16) if isinstance(value, str) and value.startswith("0x") else value


def overlapping(ranges, address, size):
    return any(at < address + size and address < at + room for at, room in ranges)


def replay(vmmsim, program):
    """What is wrong with the trace of a program, or "", and which checks there were."""
    machine = Machine()
    with tempfile.NamedTemporaryFile() as trace:
        done = subprocess.run([vmmsim, "--gpus", "2", "--trace", trace.name, program, *SMALL[name_of(program)]],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        lines = trace.read().decode().splitlines()
    if done.returncode or done.stderr or len(lines) < 10:
        return f"status {done.returncode}, {len(lines)} lines: {done.stdout}{done.stderr}", machine.checks
    text = ""
    try:
        for text in lines:
            machine.line(json.loads(text))
        text = "at the end"
        machine.end()
    except (AssertionError, KeyError, TypeError, ValueError, StopIteration, AttributeError) as error:
        return f"{type(error).__name__}: {error}\n{text}", machine.checks
    return "", machine.checks


def main(vmmsim, *programs):
    bad, checks = 0, collections.Counter()
    for program in programs:
        wrong, made = replay(vmmsim, program)
        checks += made
        if not wrong and not (made["a mapping lies where is reserved"] and
                              made["free memory is as much as cuMemGetInfo says"]):
            wrong = "nothing was mapped, or nobody asked for free memory"
        print(f"{'FAIL' if wrong else 'ok'}: {name_of(program)}: {made.total()} checks{wrong and ': ' + wrong}",
              flush=True)
        bad += bool(wrong)
    for what in ("what is imported was exported", "memory of the team is bound", "access is what cuMemGetAccess says"):
        if not checks[what]:
            bad += 1
            print(f"FAIL: no lesson let this be checked: {what}")
    if bad:
        sys.exit(f"FAIL: {bad}")


if __name__ == "__main__":
    main(*sys.argv[1:])
