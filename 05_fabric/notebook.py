# SPDX-License-Identifier: MIT-0
# Lesson 05 by hand. docs/tools/notebooks.py puts these cells into the notebook, before the text of their step.
# %% [0]
from by_hand import FABRIC, FILE_DESCRIPTOR, GRANULE, Kernels, Process, counting, cu, map_for, memory_on, ok, read, use

# %% [1]
# This notebook exports. Will the driver make memory that may leave the machine? If it answers NOT_PERMITTED, there's no
# channel for you: read on, or take simulated GPUs.
use(0)
properties = memory_on(0, FABRIC)  # now or never
granule = ok(cu.cuMemGetAllocationGranularity(properties, GRANULE))
size = granule  # our rows take one
memory = ok(cu.cuMemCreate(size, properties, 0))
# %% [1] refused
# Will the driver also hand out a file descriptor for it?
cu.cuMemExportToShareableHandle(memory, FILE_DESCRIPTOR, 0)
# %% [2]
# Answer: Only what you have asked for.
#
# First the rows, then the news of them: what will be in row 3?
address = map_for(0, memory, size)
n = size // 4
Kernels("fabric").fill(n // 256, 256, address, n, 0)
assert read(address, n) == counting(0, n)
read(address, 5)
# %% [2]
# Export the memory as what it was made for, and look at all of its name. Are there zeros in it?
name = bytes(ok(cu.cuMemExportToShareableHandle(memory, FABRIC, 0)).data)
print(len(name), "bytes:", name.hex())
# %% [2]
# Send it, and the size. Will the picture change when the bytes have left?
importer = Process()
importer.socket.send(name + size.to_bytes(8, "little"))
# %% [3]
# Answer: It hasn't: nothing over there holds the memory yet.
#
# Import the memory. On which GPU will the new handle's memory lie?
importer.run("""
use(1)
message = socket.recv(72)
name = cu.CUmemFabricHandle()
name.data = message[:64]
size = int.from_bytes(message[64:], "little")
memory = ok(cu.cuMemImportFromShareableHandle(name.getPtr(), FABRIC))
print(size >> 20, "MiB, as a handle of the importer")
""")
# %% [4]
# Answer: Still on GPU 0.
#
# Map the memory for GPU 1, and let a kernel there correct row 3. How many of the rows does it write?
importer.run("""
address = map_for(1, memory, size)
print("row 3 is", read(address, 4)[3])
Kernels("fabric").fill(1, 1, address + 3 * 4, 1, 300)
ok(cu.cuCtxSynchronize())  # no stream orders what the other process does, so wait
""")
# %% [4]
# Answer: One.
#
# Let go over there. Does that free the memory?
importer.run("""
ok(cu.cuMemUnmap(address, size))
ok(cu.cuMemRelease(memory))
ok(cu.cuMemAddressFree(address, size))
""")
importer.end()
# %% [4]
# Answer: No: this notebook holds it as well.
#
# What will you read here?
rows = read(address, 5)
assert rows[3] == 300
rows
# %% [4]
# The importer is done. What's left in the picture after this?
ok(cu.cuMemUnmap(address, size))
ok(cu.cuMemRelease(memory))
ok(cu.cuMemAddressFree(address, size))
