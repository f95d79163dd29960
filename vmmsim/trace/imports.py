# SPDX-License-Identifier: MIT-0
"""Which export an import is of, where the recording leaves no choice: sources(lines).

A recorder sees the calls of one process. The record that older ones wrote was that process's count: others have the
same, and an import got it by the number of a descriptor, which may be anybody's. So where two processes have made the
same record, none is believed: what counts is the identity, or else the size and the device.
"""

import collections
import dataclasses

from vmmsim.trace.line import members_of


@dataclasses.dataclass
class Made:
    """Memory that was made, or imported."""

    at: tuple  # (process, order) of the change that tells of it
    size: int | None
    device: int | None
    record: int | None
    is_multicast: bool | None
    identity: int | None = None
    exported: int = 0  # how many exports there had been: of an import
    mapped: int | None = None  # as much of it: of an import

    def trusted(self):
        """Without what was taken for known by the number of a descriptor."""
        if self.record is not None and self.identity is None:
            return dataclasses.replace(self, size=self.mapped, device=None, is_multicast=None)
        return dataclasses.replace(self, size=self.mapped if self.size is None else self.size)

    def may_be(self, memory, identity):
        """An import, of this memory that was exported."""
        return (
            self.identity in (None, identity)
            and self.size in (None, memory.size)
            and (self.is_multicast or self.device in (None, memory.device))
            and self.is_multicast in (None, memory.is_multicast)
        )


@dataclasses.dataclass
class Source:
    made: tuple | None  # (process, order) of the change that made the memory; None: not known
    size: int | None  # as far as that is known


class Sources(dict):
    processes: frozenset = frozenset()  # all that the recording has lines of


def sources(lines):
    """By (process, order) of each import that the record alone does not settle: a Source."""
    found = Found()
    for line in lines:
        for change in line["changes"]:
            if change["kind"] in SEEN and (members := members_of(change)) is not None:
                SEEN[change["kind"]](found, (line["pid"], change["order"]), **members)
    are_counts = any(len(makers) > 1 for makers in found.makers.values())  # of each process
    doubtful = [made for made in found.imports if made.record is None or are_counts]
    result = Sources({made.at: found.source(made.trusted()) for made in doubtful})
    result.processes = {line["pid"] for line in lines}
    return result


class Found:
    def __init__(self):
        self.named = {}  # (process, handle) -> Made, the last of this name
        self.makers = collections.defaultdict(set)  # of each record: processes
        self.imports = []
        self.exports = []  # (how many before, Made, identity)
        self.alike = collections.defaultdict(list)  # these, by what they have: ("size", its size) ...

    def create(self, at, handle, size, record, device=-1, multicast=True, **_):
        self.named[at[0], handle] = Made(at, size, device, record, multicast)
        self.makers[record].add(at[0])

    def import_handle(self, at, handle, size, device, record, multicast, identity=None):
        made = Made(at, size, device, record, multicast, identity, len(self.exports))
        self.imports.append(made)
        self.named[at[0], handle] = made

    def export(self, at, handle, identity=None, **_):
        made = self.named.get((at[0], handle))
        if made:
            self.exports.append((len(self.exports), made, identity))
            self.alike["identity", identity].append(self.exports[-1])
            self.alike["size", made.size].append(self.exports[-1])

    def map(self, at, address, size, handle):
        made = self.named.get((at[0], handle))
        if made:
            made.mapped = made.mapped or size

    def source(self, made):
        """The one memory that was exported before, and that this import may be of."""
        only = None
        key = ("size", made.size) if made.identity is None else ("identity", made.identity)
        for nth, exported, identity in self.exports if key[1] is None else self.alike[key]:
            if nth >= made.exported:
                break
            if made.may_be(exported, identity):
                if only and exported.at != only.at:
                    return Source(None, made.size)
                only = exported
        return Source(only.at, only.size) if only else Source(None, made.size)


SEEN = {
    "create": Found.create,
    "multicast_create": Found.create,
    "import": Found.import_handle,
    "export": Found.export,
    "map": Found.map,
}
