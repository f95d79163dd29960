# SPDX-License-Identifier: MIT-0
"""Free pieces of addresses over the steps: since when what is free lies in many of them.

    pieces = Pieces(); pieces.add(begin, end); pieces.remove(begin, end)
    holes(lives)                of reservations: what is not mapped between two mappings
    worst(changes)              the step in which most of what is free lies outside of the largest piece

Changes are [ChangeOfFree...], as records.py has them.
"""

import bisect
import collections

from vmmsim.view.records import ChangeOfFree, Free


class Pieces:
    """Ranges that are free. Two that touch are one, unless they meet at a wall."""

    def __init__(self):
        self.begins, self.ends = [], {}  # in order; by where it begins
        self.sizes = []  # in order
        self.total = 0
        self.walls = set()

    def now(self):
        largest = self.sizes[-1] if self.sizes else 0
        return Free(largest, self.total - largest)

    def add(self, begin, end):
        for first, last in self.taken(begin, end, touching=True):
            begin, end = min(begin, first), max(end, last)
        self.put(begin, end)

    def remove(self, begin, end):
        for first, last in self.taken(begin, end, touching=False):
            self.put(first, min(last, begin))
            self.put(max(first, end), last)

    def put(self, begin, end):
        if begin < end:
            bisect.insort(self.begins, begin)
            self.ends[begin] = end
            bisect.insort(self.sizes, end - begin)
            self.total += end - begin

    def taken(self, begin, end, touching):
        """Takes out those that have a part in the range, or also touch it, and returns them."""
        first = bisect.bisect_left(self.begins, begin)
        last = bisect.bisect_left(self.begins, end)
        if first and self.ends[self.begins[first - 1]] > begin - (touching and begin not in self.walls):
            first -= 1
        if touching and end not in self.walls and last < len(self.begins) and self.begins[last] == end:
            last += 1
        found = [(at, self.ends.pop(at)) for at in self.begins[first:last]]
        del self.begins[first:last]
        for first_address, last_address in found:
            del self.sizes[bisect.bisect_left(self.sizes, last_address - first_address)]
            self.total -= last_address - first_address
        return found


def changed(changes, step, now):
    """Notes what there is after a step, if that is something else than before."""
    if changes[-1].step == step:
        changes.pop()
    if not changes or changes[-1].held != now:
        changes.append(ChangeOfFree(step, now))


def holes(lives):
    """Changes of what is not mapped between mappings of a reservation: room at its end is no hole."""
    events = []
    for mapping in lives.all["mappings"]:
        begin = int(lives.all["reservations"][mapping.reservation].base, 16) + mapping.offset
        mapped = mapping.reservation, begin, begin + mapping.size
        events.append((mapping.born, 1, *mapped))
        events += [(mapping.died, 0, *mapped)] * bool(mapping.died)
    changes, pieces = [ChangeOfFree(0, Free(0, 0))], Pieces()
    rooms = collections.defaultdict(Pieces)  # what is mapped in each
    for step, is_mapped, room, begin, end in sorted(events):
        mapped, shift = rooms[room], room << 64  # so that rooms of two processes are apart
        before = pieces_around(mapped)
        (mapped.add if is_mapped else mapped.remove)(begin, end)
        span = pieces_around(mapped)
        if is_mapped and before and span:
            for low, high in (span[0], before[0]), (before[1], span[1]):  # as far as it has grown
                if low < high:
                    pieces.add(low + shift, high + shift)
            pieces.remove(begin + shift, end + shift)
        elif not is_mapped and before:
            pieces.add(begin + shift, end + shift)
            for low, high in [(before[0], span[0]), (span[1], before[1])] if span else [before]:
                pieces.remove(low + shift, high + shift)
        changed(changes, step, pieces.now())
    return changes


def pieces_around(mapped):
    """From the first to the last address, or None."""
    return (mapped.begins[0], mapped.ends[mapped.begins[-1]]) if mapped.begins else None


def since_when(changes):
    """From which change on at least half as much as at the worst lay outside of the largest piece, without a break."""
    at = changes.index(most := worst(changes))
    while at and 2 * changes[at - 1].held.scattered >= most.held.scattered:
        at -= 1
    return changes[at]


def worst(changes):
    """The change with the most outside of the largest piece, the first time."""
    return max(changes, key=lambda change: (change.held.scattered, -change.step))
