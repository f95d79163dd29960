# SPDX-License-Identifier: MIT-0
"""What is said of a part of a picture where a reader points at it."""

from vmmsim.view.contents import GONE, RIGHTS
from vmmsim.view.sizes import exact_size, plural, size_text


class Teller:
    """names(pid, reservation) is what a reservation is called; processes are the names of processes, by pid; lives, a
    lives.Lives, has what can be pinned."""

    def __init__(self, recording, names, processes, lives):
        self.recording, self.names, self.processes, self.lives = recording, names, processes, lives
        self.steps = {id(line): step for step, line in enumerate(recording.lines, 1)}
        self.places = {}  # where calls were made, by the line's identity

    def made(self, verb, line, other=None):
        """By which call, and where; of several in which steps: they may come from several places."""
        if not line or not line["call"]:
            return " Nobody saw it made: the recording begins later, or has not all."
        if id(line) not in self.places:
            file, row, function = self.recording.place(line)
            self.places[id(line)] = f", {file}:{row}" if file else f", in {function}" if function else ""
        first, last = (self.steps.get(id(each)) for each in (line, other or line))
        if first and last and first != last:
            return f" {verb} in steps {first} to {last} by {line['call']}."
        return f" {verb}{f' in step {first}' if first else ''} by {line['call']}{self.places[id(line)]}."

    def place(self, part, region):
        """Where a part is: its label goes before."""
        reservation = region.reservation
        name = self.names(reservation.pid, reservation) + (", and alike in the others" if region.others else "")
        address = reservation.base + part.offset
        return f"at offset {exact_size(part.offset)} of reservation {name}, from {address:#x}"

    def pin(self, region, part=None):
        """By what the script knows it."""
        return self.lives.pin_of_reservations(region.all(), part)

    def pin_of_box(self, box):
        if box.run:
            return self.lives.pin_of_reservations(*box.run)
        return self.lives.pin_of_memory(box.members or [box.memory.nth])

    def reservation(self, region):
        reservation = region.reservation
        if region.others:
            names = [self.names(each.pid, each) for each in region.all()]
            shown = names if len(names) < 9 else [*names[:8], f"{len(names) - 8} more"]
            return f"{len(names)} reservations that are alike, {size_text(reservation.size)} each: {', '.join(shown)}."
        begin, end = reservation.base, reservation.base + reservation.size
        return (
            f"Reservation {self.names(reservation.pid, reservation)}: {size_text(reservation.size)} of addresses, "
            f"{begin:#x} to {end:#x}." + self.made("Reserved", reservation.made)
        )

    def gap(self, part, region):
        if not part.is_whole:
            return ""
        place = self.place(part, region)
        return f"{size_text(part.size)} {place}: reserved and not mapped. An access to them is a fault."

    def part(self, part, region):
        first, last = part.first, part.last
        which = which_memory(first.memory, last.memory)
        where = f" of GPU {first.memory.device}" if first.memory.device >= 0 else ""
        rights = ", ".join(f"GPU {gpu} {RIGHTS.get(flags, flags)}" for gpu, (flags, _) in sorted(part.access.items()))
        given = [line for gpu, line in first.opened.items() if first.access.get(gpu)]
        opened = self.made("Opened", given[-1]) if given else ""
        return (
            f"{part.label()} {self.place(part, region)}, {'was' if part.status == GONE else 'is'} {which}{where}. "
            f"{rights}.{self.made('Mapped', first.made, last.made)}{opened}"
        )

    def memory(self, box):
        memory, last = box.memory, box.last or box.memory
        which = which_memory(memory, last).capitalize()
        where = ", of which GPU is not known" if not memory.is_multicast else ""
        if memory.device >= 0:
            where = f" of GPU {memory.device}"
        references = memory.look().references
        held = [f"{self.processes.get(pid) or 'it'} has {count}" for pid, count in references.items() if count]
        handles = f"References of handles: {', '.join(held)}" if held else "No handle has a reference"
        mapped = plural(len(memory.mapped), "mapping") + (" each" if last is not memory else "")
        verb = "Imported" if memory.source_unknown else "Made"
        made = self.made(verb, memory.made, last.made) if memory.made else " Which call made it is not known."
        if memory.source_unknown:
            made += " Of which export is not known."
        return f"{which}: {box.label()}{where}. {handles}; {mapped}.{made}"


def which_memory(first, last):
    what = "multicast object" if first.is_multicast else "allocation"
    return f"{what} #{first.nth}" if last is first else f"{what}s #{first.nth} to #{last.nth}"
