# SPDX-License-Identifier: MIT-0
# Lesson 06 by hand, with two GPUs. docs/tools/notebooks.py puts these cells into the notebook, before the text of their
# step.
# %% [0]
from by_hand import GRANULE, Kernels, counting, cu, map_for, memory_on, multicast_is_off, ok, read, use

# %% [1]
# Each GPU holds two arrays of n integers and a counter. How many bytes will that take, if objects have granules too?
assert not multicast_is_off(), "NCCL_NVLS_ENABLE=0: multicast is switched off here; take simulated GPUs"
gpus, n = 2, 102_400
for gpu in reversed(range(gpus)):
    use(gpu)
team = cu.CUmulticastObjectProp()
team.numDevices = gpus
of_object = cu.CUmulticastGranularity_flags.CU_MULTICAST_GRANULARITY_MINIMUM
granularity = max(
    ok(cu.cuMulticastGetGranularity(team, of_object)), ok(cu.cuMemGetAllocationGranularity(memory_on(0), GRANULE))
)
size = (4 * (2 * n + 1) + granularity - 1) // granularity * granularity
f"{4 * (2 * n + 1)} bytes for each GPU: {size >> 10} KiB in whole granules"
# %% [2]
# The object has a size. Does it take memory?
team.size = size
multicast = ok(cu.cuMulticastCreate(team))
# %% [2]
# No: it's only a team, and nobody is in it yet. Add both GPUs.
for gpu in range(gpus):
    ok(cu.cuMulticastAddDevice(multicast, gpu))
# %% [3]
# Now memory, a replica on each GPU. Is it part of the object?
memory = [ok(cu.cuMemCreate(size, memory_on(gpu), 0)) for gpu in range(gpus)]
# %% [3]
# Not until you bind it.
for gpu in range(gpus):
    ok(cu.cuMulticastBindMem(multicast, 0, memory[gpu], 0, size, 0))
# %% [4]
# The object gets an address for each GPU, like memory. Where does it lead?
mc = [map_for(gpu, multicast, size, granularity) for gpu in range(gpus)]
# %% [4]
# To the memory of both. Each replica also gets an address of its own, for all that isn't multimem.
own = [map_for(gpu, memory[gpu], size, granularity) for gpu in range(gpus)]
# %% [5]
# Fill each replica's `in` by its own address: 1, 2, 3 on GPU 0, twice that on GPU 1.
kernels = Kernels("multicast")
blocks, out, arrived = n // 256, 4 * n, 8 * n  # where `out` and `arrived` begin in a replica


def wait_for_all():
    for gpu in range(gpus):
        use(gpu)
        ok(cu.cuCtxSynchronize())


def replica(gpu, begin, count):
    """Integers of its memory, by its own address, which only that GPU may use."""
    use(gpu)
    return read(own[gpu] + begin, count, "I")


for gpu in range(gpus):
    use(gpu)
    ok(cu.cuMemsetD32(own[gpu], 0, size // 4))
    kernels.fill(blocks, 256, own[gpu], gpu + 1)
wait_for_all()
[replica(gpu, 0, 5) for gpu in range(gpus)]
# %% [6]
# GPU 0 stores its `in` once, at the multicast address of `out`. What does GPU 1 find in its own memory?
use(0)
kernels.broadcast(blocks, 256, own[0], mc[0])
wait_for_all()
assert all(replica(gpu, out, n) == counting(1, n, kind="I") for gpu in range(gpus))
[replica(gpu, out, 5) for gpu in range(gpus)]
# %% [7]
# Each GPU takes half of the array: it loads `in` once, at the multicast address, and stores what it gets, to both. What
# will the first five be?
for gpu in range(gpus):
    use(gpu)
    begin, end = n * gpu // gpus, n * (gpu + 1) // gpus
    kernels.all_reduce((end - begin + 255) // 256, 256, mc[gpu], begin, end)
wait_for_all()
assert all(replica(gpu, out, n) == counting(3, n, 3, "I") for gpu in range(gpus))
[replica(gpu, out, 5) for gpu in range(gpus)]
# %% [8]
# 256 threads on each GPU add 1, at the multicast address. What does each GPU count?
for gpu in range(gpus):
    use(gpu)
    kernels.arrive(1, 256, mc[gpu])
wait_for_all()
counts = [replica(gpu, arrived, 1)[0] for gpu in range(gpus)]
assert counts == [512, 512]
counts
# %% [8]
# Release a replica's handle, and its mapping. Is its memory free?
ok(cu.cuMemUnmap(own[1], size))
ok(cu.cuMemAddressFree(own[1], size))
ok(cu.cuMemRelease(memory[1]))
# %% [8]
# No: the object holds it. So undo everything, in reverse order.
for address in [*mc, own[0]]:
    ok(cu.cuMemUnmap(address, size))
    ok(cu.cuMemAddressFree(address, size))
for gpu in range(gpus):
    ok(cu.cuMulticastUnbind(multicast, gpu, 0, size))
ok(cu.cuMemRelease(memory[0]))
ok(cu.cuMemRelease(multicast))
