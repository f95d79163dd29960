# SPDX-License-Identifier: MIT-0
# Lesson 07 by hand. docs/tools/notebooks.py puts these cells into the notebook, before the text of their step.
# %% [0]
from by_hand import GRANULE, Kernels, access_for, counting, cu, memory_on, ok, read, use

# %% [1]
# One granule of memory, and addresses for two.
use(0)
size = ok(cu.cuMemGetAllocationGranularity(memory_on(0), GRANULE))
memory = ok(cu.cuMemCreate(size, memory_on(0), 0))
ring = int(ok(cu.cuMemAddressReserve(2 * size, 0, 0, 0)))
ok(cu.cuMemMap(ring, size, 0, memory, 0))
# %% [1]
# Map the same memory a second time, right behind. Will the driver take it? How much memory will there be?
b = ring + size
ok(cu.cuMemMap(b, size, 0, memory, 0))
ok(cu.cuMemSetAccess(ring, 2 * size, [access_for(0)], 1))
# %% [1]
# Two arrows, one box. Store at the one address, and read at the other:
ok(cu.cuMemsetD32(ring, 42, 1))
read(b, 1)[0]
# %% [2]
# The ring holds n samples. Write a record that begins near its end, in one piece, past the end of A. Where do its last
# samples come to lie?
kernels = Kernels("aliasing")
n, length = size // 4, 200_000


def blocks(samples):
    return (samples + 255) // 256


kernels.write_samples(blocks(n), 256, ring, n, 0)
near_the_end = ring + 4 * (n - 100_000)
kernels.write_samples(blocks(length), 256, near_the_end, length, 1_000_000)
assert read(near_the_end, length) == counting(1_000_000, length)
read(ring, 3)
# %% [2]
# At the beginning: the 100,001st sample of the record is the first of the ring. Now six records, one after another. The
# window, always the last n samples, is one array each time, and you never ask where the end is.
kernels.write_samples(blocks(n), 256, ring, n, 0)
total, past_the_end = n, 0
for _ in range(6):
    oldest = ring + 4 * (total % n)
    past_the_end += oldest + 4 * length > b
    kernels.write_samples(blocks(length), 256, oldest, length, total)
    total += length
    window = ring + 4 * (total % n)
    assert read(window, n) == counting(total - n, n)
f"{past_the_end} of 6 records go past the end"
# %% [3]
# Correct a record: each thread reads its sample in the window (in B), adds 1 where the record was written (in A), and
# reads the window again. How many of 200,000 threads see what they have written themselves?
record, first = ring + 4 * (total % n), total
kernels.write_samples(blocks(length), 256, record, length, total)
total += length
in_window = ring + 4 * (total % n + n - length)
seen = int(ok(cu.cuMemAlloc(4 * length)))


def right(first):
    return sum(map(int.__eq__, read(seen, length), range(first, first + length)))


kernels.correct(blocks(length), 256, record, in_window, length, seen)
f"{right(first + 1)} of {length} threads see what they have written"
# %% [4]
# Ask the next kernel. It reads at the same address, in B.
kernels.read_samples(blocks(length), 256, in_window, length, seen)
assert right(first + 1) == length
# %% [5]
# It sees all. Now correct the record by one address alone: the one in B, twice.
kernels.correct(blocks(length), 256, in_window, in_window, length, seen)
assert right(first + 2) == length
# %% [6]
# And by both addresses, with a fence between the write and the read.
kernels.correct_with_fence(blocks(length), 256, record, in_window, length, seen)
assert right(first + 3) == length
# %% [6]
# Unmap A alone. Where is the data now?
ok(cu.cuMemFree(seen))
ok(cu.cuMemUnmap(ring, size))
read(b, 3)
# %% [6]
# Still there, by B. Give all of it back.
ok(cu.cuMemUnmap(b, size))
ok(cu.cuMemAddressFree(ring, 2 * size))
ok(cu.cuMemRelease(memory))
