# SPDX-License-Identifier: MIT-0
# Lesson 03 by hand. docs/tools/notebooks.py puts these cells into the notebook, before the text of their step.
# %% [0]
import array

from by_hand import GRANULE, READ, READ_WRITE, Kernels, access_for, counting, cu, memory_on, ok, on, read, use, write

# %% [1]
# One range of addresses, for a table of four stripes. How much memory do these addresses take?
use(1)
use(0)
stripe = ok(cu.cuMemGetAllocationGranularity(memory_on(0), GRANULE))
size = 4 * stripe
table = int(ok(cu.cuMemAddressReserve(size, 0, 0, 0)))
# %% [1]
# Deal four pieces of memory out to the two GPUs, like cards. How many arrows will lead to GPU 1, and from where?
for s in range(4):
    memory = ok(cu.cuMemCreate(stripe, memory_on(s % 2), 0))
    ok(cu.cuMemMap(table + s * stripe, stripe, 0, memory, 0))
    ok(cu.cuMemRelease(memory))  # the mapping keeps it
# %% [1]
# From the addresses you can't tell. The driver knows on which GPU each stripe lies:
where = cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
[ok(cu.cuPointerGetAttribute(where, table + s * stripe)) for s in range(4)]
# %% [2]
# The loader runs on GPU 0. Does it need a descriptor for the stripes that lie on GPU 1?
ok(cu.cuMemSetAccess(table, size, [access_for(0)], 1))
# %% [2]
# Answer: One descriptor, for all four: it names who may use the memory, not where it lies.
#
# What may GPU 1 do with stripe 1, its own? 0 is nothing, 1 to read, 3 to read and write.
[ok(cu.cuMemGetAccess(on(gpu), table + stripe)) for gpu in (0, 1)]
# %% [2]
# Load the table, by a kernel on GPU 0 that knows nothing of stripes.
kernels = Kernels("multi_gpu")
n = size // 4
kernels.fill(n // 256, 256, table, n, 100)
assert read(table, n) == counting(100, n)
read(table + stripe - 8, 4)  # two integers from GPU 0, then two from GPU 1
# %% [3]
# The reader runs on GPU 1, and is only to read. What will the picture show for GPU 0 now: does it lose its access?
ok(cu.cuMemSetAccess(table, size, [access_for(1, READ)], 1))
# %% [3]
# Let a kernel on GPU 1 look up 256 rows of 128 integers, and count those that are wrong.
rows = array.array("i", (q * 7919 % (n // 128) for q in range(256)))


def wrong_on(gpu, first):
    use(gpu)
    write(kernels.variable("wanted"), rows)
    kernels.look_up(256, 128, table)
    ok(cu.cuCtxSynchronize())
    found = read(kernels.variable("found"), 256 * 128)
    return sum(found[q * 128 : q * 128 + 128] != counting(first + row * 128, 128) for q, row in enumerate(rows))


wrong = wrong_on(1, 100)
assert wrong == 0
f"{wrong} of {len(rows)} are wrong"
# %% [4]
# GPU 0 writes fresh rows, and GPU 1 looks them up. Nothing but an event makes GPU 1 wait. Which GPU's stream has to
# wait for it, and does the host?
use(0)
loaded = ok(cu.cuEventCreate(0))
kernels.fill(n // 256, 256, table, n, 200)
ok(cu.cuEventRecord(loaded, 0))
use(1)
ok(cu.cuStreamWaitEvent(0, loaded, 0))  # returns at once
assert wrong_on(1, 200) == 0
# %% [5]
# Loading is done. Take from GPU 0 the right to write. Its kernels needn't be told. What if one writes all the same?
ok(cu.cuMemSetAccess(table, size, [access_for(0, READ)], 1))
[ok(cu.cuMemGetAccess(on(gpu), table + stripe)) for gpu in (0, 1)]
# %% [5]
# Both may read, nobody may write. GPU 0 still finds all its rows:
assert wrong_on(0, 200) == 0
# %% [5]
# Give it the right to write back, to see that a right is a switch and no copy. Then give all of it back.
ok(cu.cuMemSetAccess(table, size, [access_for(0, READ_WRITE)], 1))
# %% [5]
ok(cu.cuEventDestroy(loaded))
ok(cu.cuMemUnmap(table, size))
ok(cu.cuMemAddressFree(table, size))
