# SPDX-License-Identifier: MIT-0
"""What Python packs for the scripts of a page: of each kind of record the columns, which JavaScript reads by name.

A record is packed as the list of its values, and the names go to the scripts once, as SHAPES: {column: 0, or the shape
of the record that is in it, in a list if these are several}. A column that is added here is known there.
"""

import collections


def shape_of(content):
    if isinstance(content, list):
        return [shape_of(content[0])]
    if isinstance(content, dict):
        return {name: shape_of(part) for name, part in content.items()}
    return content.shape if content else 0


def record(columns, defaults=(), **contents):
    """A class of tuples. contents: of a column that has a record in it its class, or [its class]."""
    kind = collections.namedtuple("Record", columns, defaults=defaults)
    kind.shape = shape_of({column: contents.get(column) for column in kind._fields})
    return kind


# born and died: the steps in which something comes and goes; died is 0 if it stays. memory: its number, from 1.
Reservation = record("process name base size born died is_guessed")
Grant = record("step device flags")
Mapping = record("reservation offset size memory born died granted", granted=[Grant])
Count = record("step count")
Handle = record("process memory born died counts name", counts=[Count])  # the name is that of a variable, or None
Block = record("process size device born died kind")
Descriptor = record("process memory fd born died")
Binding = record("multicast memory born died")
Peer = record("process device peer born died")
Event = record("step text")
Export = record("step kind process")
Member = record("step device")  # of a team
HeldByFd = record("step is_held")
RARE = {"exports": [Export], "team": [Member], "held_by_fd": [HeldByFd]}  # what little memory has, by name
Memory = record("size device is_multicast events steps rare", events=[Event], rare=RARE)  # steps: it comes, it goes...
Free = record("largest scattered")  # bytes in the largest piece, and in the others


class Held(record("mapped idle ordinary", (0, 0, 0))):  # type: ignore[misc]
    """Bytes of a GPU after a step; idle: created, and mapped nowhere. Memory that is mapped twice is there once."""

    @property
    def total(self):
        return sum(self)


Change = record("step held", held=Held)
ChangeOfFree = record("step held", held=Free)
Lane = record("device changes", changes=[Change])
FreeMemory = record("kind device changes", changes=[ChangeOfFree])  # device -1: of addresses
Execution = record("step begin end")  # microseconds
GpuWork = record("device executions", executions=[Execution])
Frame = record("name where")
Place = record("file line name")
Fault = record("process address")
Named = record("reservations memory")  # that the words of a step name
TorchBlock = record("device address size born awaits died stack")  # as snapshot.Block has them
Range = record("begin end")

SHAPES = shape_of(
    {
        "reservations": [Reservation],
        "mappings": [Mapping],
        "handles": [Handle],
        "blocks": [Block],
        "descriptors": [Descriptor],
        "bindings": [Binding],
        "peers": [Peer],
        "memory": [Memory],
        "lanes": [Lane],
        "pieces": [FreeMemory],
        "work": [GpuWork],
        "frames_of_code": [Frame],
        "columns": {"place": [Place], "fault": [Fault], "named": [Named]},  # of the steps
        "torch": {"blocks": [TorchBlock], "ranges": [Range]},
    }
)
