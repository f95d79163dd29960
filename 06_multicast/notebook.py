# SPDX-License-Identifier: MIT-0
# Lesson 06 by hand, with two GPUs. docs/tools/notebooks.py puts these cells into the notebook, before the text of their
# step.
# %% [0]
from by_hand import GRANULE, Kernels, counting, cu, map_for, memory_on, multicast_is_off, ok, read, use

# %% [1]
# Each GPU holds an array of n integers and a counter. How many bytes will that take, if objects have granules too?
assert not multicast_is_off(), "NCCL_NVLS_ENABLE=0: multicast is switched off here; take simulated GPUs"
gpus, n = 2, 102_400
for gpu in reversed(range(gpus)):
    use(gpu)
object_properties = cu.CUmulticastObjectProp()
object_properties.numDevices = gpus
of_object = cu.CUmulticastGranularity_flags.CU_MULTICAST_GRANULARITY_MINIMUM
granule = max(
    ok(cu.cuMemGetAllocationGranularity(memory_on(0), GRANULE)),
    ok(cu.cuMulticastGetGranularity(object_properties, of_object)),
)
size = (4 * (n + 1) + granule - 1) // granule * granule
f"a replica takes {4 * (n + 1)} bytes: {size >> 20} MiB in whole granules"
# %% [1]
# Two GPUs will bring 2 MiB each. Do you create the object with 2 MiB, or with 4? And does it take memory?
object_properties.size = size
multicast = ok(cu.cuMulticastCreate(object_properties))
# %% [1]
# Answer: With 2, the size of one replica. It took no memory: it's only a team, and nobody is in it yet.
#
# Add both GPUs.
for gpu in range(gpus):
    ok(cu.cuMulticastAddDevice(multicast, gpu))
# %% [1]
# Now memory, a replica on each GPU. Is it part of the object?
memory = [ok(cu.cuMemCreate(size, memory_on(gpu), 0)) for gpu in range(gpus)]
# %% [1]
# Answer: Not until you bind it.
for gpu in range(gpus):
    ok(cu.cuMulticastBindMem(multicast, 0, memory[gpu], 0, size, 0))
# %% [2]
# The object gets an address for each GPU, like memory. Where does it lead?
mc = [map_for(gpu, multicast, size, granule) for gpu in range(gpus)]
# %% [2]
# Answer: To the memory of both.
#
# Each replica also gets an address of its own, for all that isn't multimem.
own = [map_for(gpu, memory[gpu], size, granule) for gpu in range(gpus)]
# %% [2]
# Fill each replica's array at its own address: 1, 2, 3 on GPU 0, and 2, 3, 4 on GPU 1.
kernels = Kernels("multicast")
blocks, arrived = n // 256, 4 * n  # where `arrived` begins in a replica


def wait_for_all():
    for gpu in range(gpus):
        use(gpu)
        ok(cu.cuCtxSynchronize())


def replica(gpu, begin, count):
    """Integers of its memory, at its own address, which only that GPU may use."""
    use(gpu)
    return read(own[gpu] + begin, count)


for gpu in range(gpus):
    use(gpu)
    ok(cu.cuMemsetD32(own[gpu], 0, size // 4))
    kernels.fill(blocks, 256, own[gpu], n, gpu + 1)
wait_for_all()
[replica(gpu, 0, 5) for gpu in range(gpus)]
# %% [3]
# GPU 0 takes the first half of the array. It loads each sum once, at the multicast address, and stores it once. What
# does GPU 1 find in its own memory?
use(0)
kernels.all_reduce(blocks // gpus, 256, mc[0], 0, gpus)
wait_for_all()
[replica(gpu, 0, 5) for gpu in range(gpus)]
# %% [3]
# Answer: The sums, 3, 5, 7: one store has reached both.
#
# GPU 1 takes the other half. Has GPU 0 all the sums then?
use(1)
kernels.all_reduce(blocks // gpus, 256, mc[1], 1, gpus)
wait_for_all()
assert all(replica(gpu, 0, n) == counting(3, n, 2) for gpu in range(gpus))
[replica(gpu, 4 * (n - 5), 5) for gpu in range(gpus)]
# %% [4]
# `meet` adds 1 at the multicast address, and waits until the counter is at its third argument. With 0 it waits for
# nobody. What does each GPU count when both have run it?
for gpu in range(gpus):
    use(gpu)
    kernels.meet(1, 1, own[gpu], mc[gpu], 0)
wait_for_all()
counts = [replica(gpu, arrived, 1)[0] for gpu in range(gpus)]
assert counts == [2, 2]
counts
# %% [4]
# Answer: 2, since one addition reaches both.
#
# New numbers now, and the host waits only at the end. What must `meet` wait for?
for gpu in range(gpus):
    use(gpu)
    kernels.fill(blocks, 256, own[gpu], n, 10 * (gpu + 1))
    kernels.meet(1, 1, own[gpu], mc[gpu], 4)  # the counter only grows: 2 from before, and 2 now
    kernels.all_reduce(blocks // gpus, 256, mc[gpu], gpu, gpus)
    kernels.meet(1, 1, own[gpu], mc[gpu], 6)  # a second layer could follow now
wait_for_all()
assert all(replica(gpu, 0, n) == counting(30, n, 2) for gpu in range(gpus))
[replica(gpu, 0, 5) for gpu in range(gpus)]
# %% [5]
# Release a replica's handle, and its mapping. Is its memory free?
ok(cu.cuMemUnmap(own[1], size))
ok(cu.cuMemAddressFree(own[1], size))
ok(cu.cuMemRelease(memory[1]))
# %% [5]
# Answer: No: the object holds it.
#
# So undo everything, in reverse order.
for address in [*mc, own[0]]:
    ok(cu.cuMemUnmap(address, size))
    ok(cu.cuMemAddressFree(address, size))
for gpu in range(gpus):
    ok(cu.cuMulticastUnbind(multicast, gpu, 0, size))
ok(cu.cuMemRelease(memory[0]))
ok(cu.cuMemRelease(multicast))
