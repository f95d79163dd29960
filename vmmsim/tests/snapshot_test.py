# SPDX-License-Identifier: MIT-0
"""PyTorch's snapshots beside recordings, and what is free in pieces.

torch_blocks.pickle.gz was written by PyTorch, as torch_blocks.py says; the others are made here, by the documentation
of torch.cuda.memory._snapshot().
"""

import gzip
import os
import pathlib
import pickle
import random

import pytest

from vmmsim.testing import sample
from vmmsim.testing.sample import BASE, MIB, Writer
from vmmsim.tool import Failed
from vmmsim.trace.recording import Recording
from vmmsim.view import snapshot
from vmmsim.view.frames import steps
from vmmsim.view.pieces import Pieces, holes, since_when, worst
from vmmsim.view.records import ChangeOfFree, Free, Range
from vmmsim.view.snapshot import Snapshot

AT = BASE + 4096 * MIB
HERE = pathlib.Path(__file__).resolve().parent


def with_snapshot(writer, content, path):
    path.write_bytes(pickle.dumps(content))
    return steps(writer.recording(), Snapshot.read(path))


def in_mib(changes):
    """[(step, MiB of the largest piece, of the others)...]"""
    return [(change.step, change.held.largest // MIB, change.held.scattered // MIB) for change in changes]


def test_blocks_stand_in_the_steps_in_which_they_were(tmp_path):
    found = with_snapshot(*sample.torch_run(), tmp_path / "snapshot.pickle")
    torch = found.blocks
    assert (torch.process, torch.begin, torch.end) == (0, 4, 14)
    assert torch.ranges == [Range(begin=AT, end=AT + 40 * MIB)]
    where = [(block.device, (block.address - AT) // MIB, block.size // MIB) for block in torch.blocks]
    assert where == [(0, 0, 8), (0, 8, 4), (0, 12, 8), (0, 20, 12)]
    assert [(block.born, block.awaits, block.died) for block in torch.blocks] == [
        (4, 13, 0),
        (6, 8, 8),
        (7, 0, 0),
        (11, 0, 0),
    ]
    lines = [found.callers.stacks[block.stack] for block in torch.blocks]
    names = list(found.callers.numbers)
    assert [names[frames[0]] for frames in lines] == [("train", f"train.py:{line}") for line in (20, 21, 22, 22)]
    assert in_mib(torch.pieces[0]) == [(0, 0, 0), (4, 12, 0), (6, 8, 0), (7, 0, 0), (8, 4, 0), (11, 8, 4)]


def test_what_pytorch_has_written_lies_in_its_memory():
    """As it has asked CUDA for it: no block outside of a mapping, no two in one place, and at the end all is known."""
    found = steps(Recording.read(HERE / "torch_blocks.jsonl.gz"), Snapshot.read(HERE / "torch_blocks.pickle.gz"))
    torch, lives = found.blocks, found.lives.all
    sizes = []
    for step in range(torch.begin, torch.end + 1):

        def there(records, step=step):
            return [record for record in records if record.born <= step and not 0 < record.died <= step]

        now = sorted((block.address, block.address + block.size) for block in there(torch.blocks))
        pieces = Pieces()
        for mapping in there(lives["mappings"]):
            at = int(lives["reservations"][mapping.reservation].base, 16) + mapping.offset
            pieces.add(at, at + mapping.size)
        whole = pieces.total
        for begin, end in now:
            pieces.remove(begin, end)
        assert pieces.total == whole - sum(end - begin for begin, end in now), (
            f"step {step}: outside, or two in one place"
        )
        free = next(change for change in reversed(torch.pieces[0]) if change.step <= step)
        is_being_mapped = found[step - 1].call in ("cuMemMap", "cuMemSetAccess")
        assert is_being_mapped or free.held == pieces.now(), f"step {step}"
        sizes.append(sum(end - begin for begin, end in now))
    assert sizes[-1] == (8 + 8 + 12 + 3 + 7 + 11 + 6) * MIB + 4096
    assert max(sizes) == 64 * MIB
    frames = list(found.callers.numbers)
    lines = [frames[found.callers.stacks[block.stack][0]].where for block in torch.blocks]
    assert {line.partition(":")[0] for line in lines} == {"torch_blocks.py"}


def test_of_too_many_blocks_the_smallest_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "MOST_BLOCKS", 3)
    torch = with_snapshot(*sample.torch_run(), tmp_path / "snapshot.pickle").blocks
    assert (torch.left_out, [block.size // MIB for block in torch.blocks]) == (1, [8, 8, 12])


def test_a_trace_that_begins_late_and_one_that_is_empty(tmp_path):
    """What was there when it begins was born before; without a trace the blocks are those of one step."""
    writer, content = sample.torch_run()
    del content["device_traces"][0][:3]  # up to where B was allocated
    found = with_snapshot(writer, content, tmp_path / "later")
    gone = next(block for block in found.blocks.blocks if block.address == AT + 8 * MIB)
    assert (gone.born, gone.awaits, gone.died) == (0, 8, 8)
    assert found.callers.stacks[gone.stack] == [], "who freed it has not allocated it"
    del content["device_traces"][0][:3]  # up to the end of B
    torch = with_snapshot(writer, content, tmp_path / "late").blocks
    assert (torch.begin, torch.end) == (11, 14)
    assert sorted((block.address - AT) // MIB for block in torch.blocks if not block.born) == [0, 12]
    content["device_traces"] = [[]]
    torch = with_snapshot(writer, content, tmp_path / "none").blocks
    assert (torch.begin, torch.end, len(torch.blocks)) == (11, 11, 3)


def test_a_snapshot_of_cudamalloc(tmp_path):
    """Its segments never join, though they may touch."""
    writer = Writer()
    events, segments = [], []
    for nth in range(2):
        at = AT + 20 * nth * MIB
        writer.allocate(at, 20 * MIB)
        events.append({"action": "segment_alloc", "addr": at, "size": 20 * MIB, "frames": []})
        blocks = [{"size": 20 * MIB, "state": "inactive"}]
        segments.append({"address": at, "total_size": 20 * MIB, "blocks": blocks})
    found = with_snapshot(writer, {"segments": segments, "device_traces": [events]}, tmp_path / "it")
    assert in_mib(found.blocks.pieces[0]) == [(0, 0, 0), (1, 20, 0), (2, 20, 20)]


def test_what_is_no_snapshot_is_refused(tmp_path, subtests):
    """In a line, and nothing that it names is called."""

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    writer, content = sample.torch_run()
    elsewhere = sample.torch_run()[1]
    for event in elsewhere["device_traces"][0]:
        event["addr"] += 1 << 40
    for name, text, words in (
        (
            "evil",
            pickle.dumps({"segments": [Evil()], "device_traces": []}),
            "names (posix|os).mkdir, and a snapshot names",
        ),
        ("text", b"text\n", "is no snapshot of PyTorch, as torch.cuda.memory._dump_snapshot.. writes it"),
        ("empty", b"", "is no snapshot"),
        ("cut.gz", gzip.compress(pickle.dumps(content))[:-40], "is no snapshot"),
        ("bad.gz", b"\x1f\x8b" + b"text" * 10, "cannot be decompressed"),
        ("cut", pickle.dumps(content)[:-40], "is no snapshot"),
        ("list", pickle.dumps([1]), "is no snapshot"),
        ("odd", pickle.dumps({"segments": [{"address": "x"}], "device_traces": []}), "is no snapshot"),
        ("other", pickle.dumps(elsewhere), "of another run"),
    ):
        with subtests.test(name):
            (tmp_path / name).write_bytes(text)
            with pytest.raises(Failed, match=words) as error:
                steps(writer.recording(), Snapshot.read(tmp_path / name))
            assert "\n" not in str(error.value)
    assert not (tmp_path / "made").exists()
    with pytest.raises(Failed, match="cannot be read: No such file"):
        Snapshot.read(tmp_path / "none")


def test_pieces_are_what_is_free():
    """Of any changes, as a list of bytes has it."""
    lot, pieces, free = random.Random(3), Pieces(), [False] * 60
    pieces.walls = {20, 40}
    for _ in range(400):
        begin, end = sorted(lot.sample(range(61), 2))
        is_free = lot.random() < 0.5
        (pieces.add if is_free else pieces.remove)(begin, end)
        free[begin:end] = [is_free] * (end - begin)
        assert pieces.total == sum(free)
        spans = [(at, pieces.ends[at]) for at in pieces.begins]
        assert all(one[1] <= other[0] for one, other in zip(spans, spans[1:], strict=False))
        assert sorted(last - first for first, last in spans) == pieces.sizes
    pieces = Pieces()
    pieces.walls = {20}
    for begin in 0, 10, 20, 30:
        pieces.add(begin, begin + 10)
    assert pieces.now() == (20, 20)


def test_it_is_told_since_when_memory_is_fragmented():
    """Without a break until the worst: what came and went before was something else."""
    scattered = [0, 9, 0, 1, 5, 6, 10, 8, 10, 0]
    changes = [ChangeOfFree(step, Free(20, size)) for step, size in enumerate(scattered)]
    assert (since_when(changes).step, worst(changes).step) == (4, 6)
    assert since_when(changes[:1]).step == 0


def test_holes_lie_between_mappings():
    writer = Writer()
    writer.reserve(BASE, 64 * MIB)
    handles = {at: writer.back(BASE + at * MIB, 2 * MIB) for at in (0, 2, 4, 10)}  # steps 3, 5, 7, 9
    for at in 2, 0, 10, 4:  # steps 10 to 13
        writer.unmap(BASE + at * MIB, 2 * MIB)
    assert handles
    changes = holes(steps(writer.recording()).lives)
    assert in_mib(changes) == [(0, 0, 0), (9, 4, 0), (10, 4, 2), (11, 4, 0), (12, 0, 0)]
