# SPDX-License-Identifier: MIT-0
# Lesson 07 by hand. docs/tools/notebooks.py puts these cells into the notebook, before the text of their step.
# %% [0]
from by_hand import GRANULE, Kernels, access_for, counting, cu, memory_on, ok, read, use

# %% [1]
# One granule of memory, and addresses for two. Which of the two does it take from the GPU?
use(0)
size = ok(cu.cuMemGetAllocationGranularity(memory_on(0), GRANULE))
memory = ok(cu.cuMemCreate(size, memory_on(0), 0))
address = int(ok(cu.cuMemAddressReserve(2 * size, 0, 0, 0)))
# %% [1] refused
# Can one call map both halves?
cu.cuMemMap(address, 2 * size, 0, memory, 0)
# %% [1]
# Answer: No: one call maps one allocation, and this one is as large as one half.
#
# So map one half at a time. Here's the first.
ok(cu.cuMemMap(address, size, 0, memory, 0))
# %% [1]
# Map the same memory a second time, right after the first. Will the driver take it? How much memory will there be?
ok(cu.cuMemMap(address + size, size, 0, memory, 0))
ok(cu.cuMemSetAccess(address, 2 * size, [access_for(0)], 1))
# %% [1]
# Answer: It takes it, and there are two arrows and one box.
#
# Store at the one address, and read at the other:
ok(cu.cuMemsetD32(address, 42, 1))
read(address + size, 1)[0]
# %% [1]
# The ring holds n samples. The radio sends all whole records that fit, and then one that goes past the end, in one
# piece. Where will its last samples be?
kernels = Kernels("aliasing")
n, length = size // 4, 1000


def sample(i):
    return address + 4 * i


total = n // length * length
kernels.fill(total // length, length, sample(0), total, 0)
record = sample(total)
kernels.fill(1, length, record, length, total)
assert read(record, length) == counting(total, length)
total += length
read(sample(0), 3)
# %% [1]
# Answer: At the beginning, where the oldest samples were.
#
# The window begins right after them: is it one array?
window = sample(total % n)
assert read(window, n) == counting(total - n, n)
# %% [2]
# Answer: It is, with all n samples in order.
#
# Now hand a kernel both addresses of the oldest sample. It reads at the second, writes 1 at the first, and reads at the
# second again. What will it have read?
seen = int(ok(cu.cuMemAlloc(4 * length)))
kernels.write_and_read(1, 1, window, window + size, seen)
list(read(seen, 2))
# %% [2]
# And what do you read there, after the kernel?
read(window + size, 1)[0]
# %% [3]
# Calibrate the record that crosses the end: it comes in 100 too high. How many rises will be 1?
offset, newest = 100, window + 4 * (n - length)


def rises():
    found = list(read(seen, length))
    return f"{found.count(1)} of {length} rises right, {found.count(1 - offset)} are {1 - offset}"


kernels.fill(1, length, record, length, total - length + offset)
kernels.calibrate(1, length, record, newest, seen)
rises()
# %% [3]
# Answer: The test has passed.
#
# And the next record?
record = window
total += length
window = sample(total % n)
newest = window + 4 * (n - length)
kernels.fill(1, length, record, length, total - length + offset)
kernels.calibrate(1, length, record, newest, seen)
rises()
# %% [3]
# What is different? Look how far apart the two addresses of the record are now. (Of the record before it was 0.)
f"{(newest - record) // 4:,} samples apart, and the ring has {n:,}"
# %% [4]
# The same record once more, at one address. How many will be right?
kernels.fill(1, length, record, length, total - length + offset)
kernels.calibrate(1, length, newest, newest, seen)
rises()
# %% [5]
# Two addresses again, but now a kernel with an alias fence. How many this time?
kernels.fill(1, length, record, length, total - length + offset)
kernels.calibrate_with_fence(1, length, record, newest, seen)
rises()
# %% [5]
# Answer: All of them.
#
# Now unmap the first half alone. Where is the data?
ok(cu.cuMemFree(seen))
ok(cu.cuMemUnmap(address, size))
read(newest, 3)
# %% [5]
# Answer: Still there, in the second half.
#
# Give all of it back.
ok(cu.cuMemUnmap(address + size, size))
ok(cu.cuMemAddressFree(address, 2 * size))
ok(cu.cuMemRelease(memory))
