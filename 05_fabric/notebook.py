# SPDX-License-Identifier: MIT-0
# Lesson 05 by hand. docs/tools/notebooks.py puts these cells into the notebook, before the text of their step.
# %% [0]
from by_hand import FABRIC, FILE_DESCRIPTOR, GRANULE, Process, cu, map_for, memory_on, ok, read, use

# %% [1]
# This notebook exports. Say at creation that the memory may leave the machine. If the driver answers NOT_PERMITTED,
# there's no IMEX channel for you: read on, or take simulated GPUs.
use(0)
properties = memory_on(0, FABRIC)  # now or never
size = ok(cu.cuMemGetAllocationGranularity(properties, GRANULE))
memory = ok(cu.cuMemCreate(size, properties, 0))
# %% [2] refused
# Will the driver also hand out a file descriptor for it?
cu.cuMemExportToShareableHandle(memory, FILE_DESCRIPTOR, 0)
# %% [2]
# Only what you have asked for. Export it as what it was made for, and look at all of the handle:
handle = bytes(ok(cu.cuMemExportToShareableHandle(memory, FABRIC, 0)).data)
print(len(handle), "bytes:", handle.hex())
# %% [3]
# First the numbers, then the news of them. Will the picture change when the bytes have left?
address = map_for(0, memory, size)
ok(cu.cuMemsetD32(address, 20, size // 4))
ok(cu.cuCtxSynchronize())
importer = Process()
importer.socket.send(handle + size.to_bytes(8, "little"))
# %% [4]
# It hasn't: nothing over there holds the memory yet. Import it. On which GPU will the new handle's memory lie?
importer.run("""
use(1)
message = socket.recv(72)
handle = cu.CUmemFabricHandle()
handle.data = message[:64]
size = int.from_bytes(message[64:], "little")
memory = ok(cu.cuMemImportFromShareableHandle(handle.getPtr(), FABRIC))
print(size >> 10, "KiB, as a handle of the importer")
""")
# %% [5]
# Still on GPU 0. Map it for GPU 1, and let a kernel there add 22 to every int.
importer.run("""
address = map_for(1, memory, size)
Kernels("fabric").add(256, 256, address, size // 4, 22)
ok(cu.cuCtxSynchronize())  # "done" is not ordered after the kernel, so wait for it
""")
# %% [5]
# Let go over there. Does that free the memory?
importer.run("""
ok(cu.cuMemUnmap(address, size))
ok(cu.cuMemRelease(memory))
ok(cu.cuMemAddressFree(address, size))
""")
importer.end()
# %% [6]
# No: this notebook holds it as well. What will you read here?
numbers = read(address, size // 4)
assert numbers.count(42) == len(numbers)
numbers[:5]
# %% [6]
ok(cu.cuMemUnmap(address, size))
ok(cu.cuMemRelease(memory))
ok(cu.cuMemAddressFree(address, size))
