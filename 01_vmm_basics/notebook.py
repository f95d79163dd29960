# SPDX-License-Identifier: MIT-0
# Lesson 01 by hand. docs/tools/notebooks.py puts these cells into the notebook, before the text of their step.
# %% [0]
from by_hand import GRANULE, Kernels, access_for, counting, cu, memory_on, ok, on, read, use

# %% [1]
# Nobody sells you 3 MiB. How many will you have to take?
use(0)
properties = memory_on(0)
granule = ok(cu.cuMemGetAllocationGranularity(properties, GRANULE))
MiB = 1 << 20
wanted = 3 * MiB
size = (wanted + granule - 1) // granule * granule
f"{wanted // MiB} MiB, in whole granules of {granule // MiB} MiB: {size // MiB} MiB"
# %% [1] refused
# First mistake, on purpose: ask for just what you want. The driver says no, and the simulator says why.
cu.cuMemAddressReserve(wanted, 0, 0, 0)
# %% [1]
# Now in whole granules. How much of the GPU's memory does it take? Look at the lower row of the picture.
address = ok(cu.cuMemAddressReserve(size, 0, 0, 0))
# %% [1]
# The other half: memory. Where will you see it in the picture, and what leads to it?
memory = ok(cu.cuMemCreate(size, properties, 0))
# %% [2] refused
# You don't need all of it yet. Can you map half of the memory?
cu.cuMemMap(address, size // 2, 0, memory, 0)
# %% [2]
# Answer: No: an allocation is mapped whole.
#
# So map all of it. It's GPU 0's own memory: may GPU 0 use it now?
ok(cu.cuMemMap(address, size, 0, memory, 0))
# %% [2]
# The picture has told you. You can also ask the driver: 0 is no access, 1 to read, 3 to read and write.
ok(cu.cuMemGetAccess(on(0), address))
# %% [2]
# What changes in the picture?
access = access_for(0)
ok(cu.cuMemSetAccess(address, size, [access], 1))
# %% [2]
# `fill` is the kernel of this lesson's program, compiled as it stands there: each thread writes its number. Does it
# have to know that `address` is not from `cudaMalloc`?
kernels = Kernels("vmm_basics")
n = size // 4
kernels.fill(n // 256, 256, address, n, 0)
assert read(address, n) == counting(0, n)
read(address, 5)
# %% [3]
# You need other addresses, twice as many. Which arrows will this cell add, or take away?
elsewhere = ok(cu.cuMemAddressReserve(2 * size, 0, 0, 0))
# %% [3]
# And this one? Your million integers have no address after it. Are they lost?
ok(cu.cuMemUnmap(address, size))
# %% [3] refused
# Answer: No: the memory is still there, and `memory` leads to it.
#
# So give the memory its new address. The last line reads what is there, by a copy. Will that work?
ok(cu.cuMemMap(elsewhere, size, 0, memory, 0))
cu.cuMemcpyDtoH(bytearray(4), elsewhere, 4)
# %% [3]
# Answer: No: the mapping is new, and starts without any access.
#
# Let the GPU in, and look for your integers.
ok(cu.cuMemSetAccess(elsewhere, size, [access], 1))
assert read(elsewhere, n) == counting(0, n)
read(elsewhere, 5)
# %% [4]
# How much memory will the next cell copy?
more = ok(cu.cuMemCreate(size, properties, 0))
second_half = int(elsewhere) + size
ok(cu.cuMemMap(second_half, size, 0, more, 0))
ok(cu.cuMemSetAccess(second_half, size, [access], 1))
# %% [4]
# Answer: None.
#
# Fill the second half, and read across the seam.
kernels.fill(n // 256, 256, second_half, n, n)
assert read(elsewhere, 2 * n) == counting(0, 2 * n)
read(second_half - 8, 4)
# %% [5]
# You release both handles, while the memory is mapped. Is the data still there?
ok(cu.cuMemRelease(memory))
ok(cu.cuMemRelease(more))
assert read(elsewhere, 2 * n) == counting(0, 2 * n)
# %% [5]
# Answer: It is.
#
# What holds the memory now? Take that away too.
ok(cu.cuMemUnmap(elsewhere, 2 * size))
# %% [5]
ok(cu.cuMemAddressFree(elsewhere, 2 * size))
ok(cu.cuMemAddressFree(address, size))
