# SPDX-License-Identifier: MIT-0
"""Recordings of programs that were never run, to see what is made of them, and what every view of one must be."""

import base64
import collections
import itertools
import json
import pathlib
import random
import re
import tempfile
import xml.etree.ElementTree
import zlib

from vmmsim.trace.line import KEYS
from vmmsim.trace.recording import Recording
from vmmsim.view.frames import steps
from vmmsim.view.pictures import of_steps

MIB = 1 << 20
BASE = 0x700000000000
MOST_ELEMENTS = 300
# What would do something if it became a tag or a handler.
EVIL = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\" onfocus=\"hacked = 1"


def read(text):
    """The recording that is this text."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(text)
        file.flush()
        return Recording.read(file.name)


def data_of(view):
    """What the script of a view's file reads."""
    data = re.search('octet-stream">([^<]+)<', pathlib.Path(view).read_text())[1]
    return json.loads(zlib.decompress(base64.b64decode(data)))


def checked_steps(recording, most=300):
    """The steps, each of which must be something that can be shown. So many have their picture, drawn by lot, first of
    those that change something, and so have the last two: much of a long recording repeats itself."""
    found, lot = steps(recording), random.Random(7)
    by_lot = sorted(found, key=lambda step: (step.kind == "asks", lot.random()))[:most]
    numbers = sorted({step.number for step in [*by_lot, *found[-2:]]})
    for number, picture in zip(numbers, of_steps(found, numbers), strict=True):
        step = found[number - 1]
        step.svg, step.height = picture["elements"], picture["height"]
        assert len(step.svg) <= MOST_ELEMENTS, step.words
        xml.etree.ElementTree.fromstring(f"<svg>{''.join(step.svg)}</svg>")
    for number, step in enumerate(found, 1):
        assert step.number == number
        assert re.search(r"^\S.*\.$", step.words)
    return found


def held_in_each(steps, gpu=0):
    """After each step: (mapped, idle, ordinary) bytes of a GPU, as the view has them."""
    changes = dict(steps.overview.lanes[gpu])
    after = range(1, len(steps) + 1)
    return [*itertools.accumulate(after, lambda held, step: changes.get(step, held), initial=changes[0])][1:]


class Writer:
    """The lines of a recording: each method is a call that succeeds, with the change that it makes."""

    def __init__(self, **about):
        self.lines, self.about = [], about
        self.counts, self.order = collections.Counter(), collections.Counter()
        self.handles = 0

    def call(
        self,
        name,
        arguments=None,
        outputs=None,
        *changes,
        pid=1,
        device=0,
        result="CUDA_SUCCESS",
        explanation="",
        **its,
    ):
        """With its own members, as callers and thread, beside these or in their place."""
        self.counts[pid, name] += 1
        self.counts[pid] += 1
        ordered = []
        for change in changes:
            self.order[pid] += 1
            ordered.append({**change, "order": self.order[pid]})
        self.lines.append(
            {
                "pid": pid,
                "thread": pid,
                "number": self.counts[pid],
                "call": name,
                "nth": self.counts[pid, name],
                "callers": [f"program+{16 * (len(self.lines) + 1):#x}"],
                "device": device,
                "arguments": arguments or {},
                "result": result,
                "outputs": outputs or {},
                "changes": ordered,
                "explanation": explanation,
                **its,
            }
        )

    def executed(self, *work, **other):
        self.call("executed", {"work": [*work]}, result="", **{"callers": ["unknown"], "device": -1, **other})

    def reserve(self, address, size, **other):
        change = {"kind": "reserve", "address": hex(address), "size": size}
        arguments = {"ptr": "0x1", "size": size, "alignment": 0, "addr": "0x0", "flags": "0x0"}
        self.call("cuMemAddressReserve", arguments, {"ptr": hex(address)}, change, **other)

    def free(self, address, size, **other):
        change = {"kind": "free_reservation", "address": hex(address), "size": size}
        self.call("cuMemAddressFree", {"ptr": hex(address), "size": size}, {}, change, **other)

    def create(self, size, gpu=0, **other):
        self.handles += 1
        handle = hex(self.handles)
        location = {"type": "CU_MEM_LOCATION_TYPE_DEVICE", "id": gpu}
        prop = {"type": "CU_MEM_ALLOCATION_TYPE_PINNED", "requestedHandleTypes": 1, "location": location}
        record = {"size": size, "device": gpu, "record": self.handles, "multicast": False}
        arguments = {"handle": "0x1", "size": size, "prop": prop, "flags": "0x0"}
        change = {"kind": "create", "handle": handle, **record}
        self.call("cuMemCreate", arguments, {"handle": handle}, change, **other)
        return handle, record

    def give(self, handle, record, giver, taker, **identity):
        """One process exports, the other imports. `record` of what is imported is None if nobody can know it."""
        self.export(handle, giver, **identity)
        return self.take(record, taker, **identity)

    def export(self, handle, pid, **identity):
        arguments = {"shareableHandle": "0x1", "handle": handle, "handleType": 1, "flags": "0x0"}
        change = {"kind": "export", "handle": handle, "fd": 9, **identity}
        self.call("cuMemExportToShareableHandle", arguments, {}, change, pid=pid)

    def take(self, record, taker, **identity):
        self.handles += 1
        taken = hex(self.handles)
        change = {"kind": "import", "handle": taken, **record, **identity}
        arguments = {"handle": "0x1", "osHandle": "0x9", "shHandleType": 1}
        self.call("cuMemImportFromShareableHandle", arguments, {"handle": taken}, change, pid=taker)
        return taken

    def map(self, address, size, handle, **other):
        change = {"kind": "map", "address": hex(address), "size": size, "handle": handle}
        arguments = {"ptr": hex(address), "size": size, "offset": 0, "handle": handle, "flags": "0x0"}
        self.call("cuMemMap", arguments, {}, change, **other)

    def access(self, ranges, gpu=0, flags=3, **other):
        """To mappings, each an (address, size), that follow one another."""
        changes = [
            {"kind": "access", "address": hex(address), "size": size, "device": gpu, "flags": flags}
            for address, size in ranges
        ]
        location = {"type": "CU_MEM_LOCATION_TYPE_DEVICE", "id": gpu}
        right = "CU_MEM_ACCESS_FLAGS_PROT_READWRITE" if flags == 3 else "CU_MEM_ACCESS_FLAGS_PROT_READ"
        arguments = {
            "ptr": hex(ranges[0][0]),
            "size": sum(size for _, size in ranges),
            "desc": [{"location": location, "flags": right}],
            "count": 1,
        }
        self.call("cuMemSetAccess", arguments, {}, *changes, **other)

    def back(self, address, size, gpu=0, **other):
        """Addresses that are reserved get memory of their own: its handle."""
        handle, _ = self.create(size, gpu, **other)
        self.map(address, size, handle, **other)
        return handle

    def unmap(self, address, size, **other):
        change = {"kind": "unmap", "address": hex(address), "size": size}
        self.call("cuMemUnmap", {"ptr": hex(address), "size": size}, {}, change, **other)

    def release(self, handle, **other):
        self.call("cuMemRelease", {"handle": handle}, {}, {"kind": "release", "handle": handle}, **other)

    def allocate(self, address, size, gpu=0, call="cudaMalloc", stream=None, **other):
        change = {"kind": "allocate", "address": hex(address), "size": size, "device": gpu, "shared": False}
        arguments = {"devPtr": "0x1", "size": size} | ({"hStream": stream} if stream else {})
        self.call(call, arguments, {"devPtr": hex(address)}, change, result="cudaSuccess", **other)

    def deallocate(self, address, **other):
        change = {"kind": "free", "address": hex(address)}
        self.call("cudaFree", {"devPtr": hex(address)}, {}, change, result="cudaSuccess", **other)

    def launch(self, stream=None, **other):
        arguments = {"func": "kernel(int*)", "gridDim": [1, 1, 1], "blockDim": [1, 1, 1], "stream": stream}
        self.call("cudaLaunchKernel", arguments, {}, result="cudaSuccess", **other)

    def called_at(self, place):
        """All calls are made where place(number) says: (file, line, function)."""
        lines = enumerate(self.lines, 1)
        self.about["places"] = {line["callers"][0]: [list(place(number))] for number, line in lines}

    def text(self):
        lines = [*self.lines, {"about": self.about}] if self.about else self.lines
        return "".join(json.dumps(line) + "\n" for line in lines)

    def recording(self):
        return read(self.text())

    def write(self, file):
        pathlib.Path(file).write_text(self.text())
        return file


def short():
    """A dozen calls of a program whose source is there, the ninth of them refused, with much that looks like tags."""
    source = "".join(f"  line_{number}();  // {EVIL if number == 3 else ''}\n" for number in range(1, 61))
    about = {"command": ["./program", EVIL], "where": "1 simulated GPU", "gpus": 1, "status": 0}
    writer = Writer(**about, sources={"program.cu": source})
    writer.call("cuInit", {"Flags": 0})
    writer.reserve(BASE, 64 * MIB)
    handles = []
    for i in range(2):
        handles.append(writer.back(BASE + 2 * i * MIB, 2 * MIB))
        writer.access([(BASE + 2 * i * MIB, 2 * MIB)])
    why = {"result": "CUDA_ERROR_INVALID_VALUE", "explanation": f"Something is mapped there. {EVIL}"}
    writer.call("cuMemAddressFree", {"ptr": hex(BASE), "size": 64 * MIB}, **why)
    for i, handle in enumerate(handles):
        writer.unmap(BASE + 2 * i * MIB, 2 * MIB)
        writer.release(handle)
    writer.call("cuMemGetInfo", {}, {"free": 1, "total": 2})
    writer.called_at(
        lambda number: ("", 0, "a_library_function") if number == 4 else ("program.cu", number + 1, "main")
    )
    return writer


def chunks(count, stay):
    """Four calls again and again: memory is made, mapped and opened; then its handle goes, or the mapping."""
    writer = Writer()
    writer.reserve(BASE, 2 * MIB * count)
    for i in range(count):
        at = BASE + 2 * MIB * i
        handle = writer.back(at, 2 * MIB)
        writer.access([(at, 2 * MIB)])
        if stay:
            writer.release(handle)
        else:
            writer.unmap(at, 2 * MIB)
    return writer


def crowd():
    """Memory of 40 sizes, each mapped twice, the largest in the middle; then 100 chunks that are not mapped."""
    writer, sizes = Writer(), [2 * MIB * (1 + number * 7 % 40) for number in range(40)]
    sizes[17] = 1024 * MIB
    for number, size in enumerate(sizes):
        handle, _ = writer.create(size)
        writer.reserve(BASE + (number << 33), 2 * size)
        for at in size, 0:
            writer.map(BASE + (number << 33) + at, size, handle)
    for _ in range(100):
        writer.create(2 * MIB)
    writer.launch()
    return writer


def shared_among(count):
    """So many reservations of GPU 0's memory, each larger than the one before; GPU 1 may use the first, and so may a
    second process."""
    writer = Writer()
    for nth in range(1, count + 1):
        at, size = BASE + (nth << 32), 2 * nth * MIB
        handle, record = writer.create(size)
        writer.reserve(at, size)
        writer.map(at, size, handle)
        writer.access([(at, size)])
        if nth == 1:
            writer.access([(at, size)], gpu=1)
            taken = writer.give(handle, record, 1, 2)
            writer.reserve(BASE, size, pid=2)
            writer.map(BASE, size, taken, pid=2)
            writer.access([(BASE, size)], gpu=1, pid=2)
    writer.launch()
    return writer


def timed(count, apart):
    """So many calls, that many microseconds after one another: what one makes the next one maps."""
    writer = Writer()
    writer.reserve(BASE, 2 * MIB * count)
    for i in range(count // 3 + 1):
        writer.back(BASE + 2 * MIB * i, 2 * MIB)
    del writer.lines[count:]
    for number, line in enumerate(writer.lines):
        line["time"] = 1_000_000 + apart * number
    writer.lines = [{key: line[key] for key in KEYS} for line in writer.lines]
    return writer


def torch_run():
    """A recording of PyTorch with an expandable segment, and the snapshot that it has at its end.

    Into 20 MiB come A of 8 MiB, B of 4 and C of 8; B is freed, 20 MiB more are mapped, D of 12 MiB comes into them, and
    at last A is freed, for which another stream has still work. A millisecond lies between two calls."""
    writer, events = Writer(), []
    at, stacks = (
        BASE + 4096 * MIB,
        {"filename": "/home/me/lib/python3.12/site-packages/torch/nn.py", "line": 9, "name": "empty"},
    )

    def happens(action, offset, size, line=0):
        frames = [stacks, {"filename": "/home/me/train.py", "line": line, "name": "train"}] if line else []
        late = 10 if "map" in action else 500  # microseconds after the last call
        event = {"action": action, "addr": at + offset * MIB, "size": size * MIB, "stream": 0, "frames": frames}
        events.append({**event, "time_us": 1_700_000_000_000_000 + 1000 * len(writer.lines) + late})

    def grow(offset):
        handle = writer.back(at + offset * MIB, 20 * MIB)
        writer.access([(at + offset * MIB, 20 * MIB)])
        happens("segment_map", offset, 20)
        return handle

    writer.reserve(at, 1024 * MIB)
    grow(0)
    for offset, size, line in (0, 8, 20), (8, 4, 21), (12, 8, 22):
        happens("alloc", offset, size, line)
        writer.launch()
    happens("free_requested", 8, 4)
    happens("free_completed", 8, 4, 21)
    writer.launch()
    grow(20)
    happens("alloc", 20, 12, 22)
    writer.launch()
    happens("free_requested", 0, 8)
    writer.launch()
    happens("snapshot", 0, 0)
    writer.launch()
    for number, line in enumerate(writer.lines, 1):
        line["time"] = 5_000_000 + 1000 * number
    states = (
        (8, "active_awaiting_free", 20),
        (4, "inactive", 0),
        (8, "active_allocated", 22),
        (12, "active_allocated", 22),
    )
    blocks = [
        {
            "size": size * MIB,
            "requested_size": size * MIB,
            "state": state,
            "frames": events[1]["frames"] if line else [],
        }
        for size, state, line in (*states, (8, "inactive", 0))
    ]
    segment = {"device": 0, "address": at, "total_size": 40 * MIB, "is_expandable": True, "blocks": blocks}
    return writer, {"segments": [segment], "device_traces": [events, []], "allocator_settings": {}}


def segments(count, calls):
    """Like an allocator with expandable segments: several hundred of them, and most calls change nothing."""
    writer = Writer()
    at = BASE
    for i in range(count):
        size = (2 + 18 * (i % 3 == 0)) * MIB
        reserved = 1 << 37
        writer.reserve(at, reserved)
        for part in range(1 + i % 4):
            writer.release(writer.back(at + part * size, size))
        writer.access([(at + part * size, size) for part in range(1 + i % 4)])
        at += reserved
    for i in range(max(0, calls - len(writer.lines))):
        if i % 10 == 3:
            writer.allocate(0x10000 + i, 4096)
        elif i % 10 == 7:
            writer.deallocate(0x10000 + i - 4)
        else:
            writer.launch()
    return writer


def ranks(count, gpus=8):
    """So many processes, each with memory of its own GPU; each imports that of the first."""
    writer = Writer()
    first = None
    for pid in range(1, count + 1):
        gpu = (pid - 1) % gpus
        handle, record = writer.create(2 * MIB, gpu, pid=pid, device=gpu)
        writer.reserve(BASE, 64 * MIB, pid=pid, device=gpu)
        writer.map(BASE, 2 * MIB, handle, pid=pid, device=gpu)
        writer.access([(BASE, 2 * MIB)], gpu, pid=pid, device=gpu)
        if first:
            taken = writer.give(*first, 1, pid)
            writer.map(BASE + 8 * MIB, 2 * MIB, taken, pid=pid, device=gpu)
            writer.access([(BASE + 8 * MIB, 2 * MIB)], gpu, 1, pid=pid, device=gpu)
        first = first or (handle, record)
    return writer
