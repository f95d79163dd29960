# SPDX-License-Identifier: MIT-0
# Lesson 04 by hand. docs/tools/notebooks.py puts these cells into the notebook, before the text of their step.
# %% [0]
import os

from by_hand import FILE_DESCRIPTOR, Kernels, Process, cu, map_for, ok, read, receive_memory, use

# %% [1]
# This notebook will be the new server, the importer. Where's the old one? It's a process of its own, to which you send
# lines: `exporter.run`. (It's a new Python, not a `fork`, so it doesn't matter what this one has called.)
exporter = Process()
exporter.run("import os; print('the exporter is process', os.getpid())")
# %% [1]
# Memory that may leave. In the picture, which process has its handle?
exporter.run("""
use(0)
properties = memory_on(0, FILE_DESCRIPTOR)  # now or never
size = ok(cu.cuMemGetAllocationGranularity(properties, GRANULE))
memory = ok(cu.cuMemCreate(size, properties, 0))
address = map_for(0, memory, size)
""")
# %% [1]
# First the weights, then the news of them: the copy is done when the call returns. What is weight 7?
exporter.run("""
write(address, counting(0, size // 4))
print(read(address, 10))
""")
# %% [1] refused
# What if you forget to say it at creation? Try it with other memory:
exporter.run("""
other = ok(cu.cuMemCreate(size, memory_on(0), 0))
print(cu.cuMemExportToShareableHandle(other, FILE_DESCRIPTOR, 0)[0])
ok(cu.cuMemRelease(other))
""")
# %% [2]
# Export the right one, send it, and close the exporter's own entry. What keeps the memory for the importer now?
exporter.run("""
import os
descriptor = int(ok(cu.cuMemExportToShareableHandle(memory, FILE_DESCRIPTOR, 0)))
print("old server: file descriptor", descriptor)
send_memory(socket, descriptor, size)
os.close(descriptor)
""")
# %% [2]
# Answer: The message does.
#
# Receive it: the same number as over there?
descriptor, size = receive_memory(exporter.socket)
f"new server: file descriptor {descriptor}, for {size >> 20} MiB"
# %% [3]
# Answer: A number of this process's own.
#
# Make the descriptor a handle. How many boxes will there be, how many handles?
use(0)


def free_memory():
    return ok(cu.cuMemGetInfo())[0]


before = free_memory()
memory = ok(cu.cuMemImportFromShareableHandle(descriptor, FILE_DESCRIPTOR))
# %% [3]
# Map it here. Will it have the same address as over there?
address = map_for(0, memory, size)
exporter.run("print(hex(address))")
hex(address)
# %% [3]
# Answer: It needn't.
#
# Is it the same memory, or a copy? How many bytes did it take?
assert before == free_memory()
f"{before - free_memory()} bytes taken"
# %% [3]
# Answer: Not one.
#
# Look up a weight, with a kernel of this process. Who has waited for what, so that it's there?
kernels = Kernels("ipc_fd")
kernels.look_up(1, 1, address, 8)
assert read(kernels.variable("answer"), 1)[0] == 8
read(kernels.variable("answer"), 1)
# %% [3]
# Answer: The exporter has, for its copy, before it sent the message.
#
# The exporter can still answer, too: its last request.
exporter.run("print(read(address + 9 * 4, 1))")
# %% [4]
# Both have served from the same memory. Now let the exporter go. What will be left in the picture?
exporter.end()
# %% [4]
# The process that made the memory is gone. Is yours still there?
kernels.look_up(1, 1, address, 10)
assert read(kernels.variable("answer"), 1)[0] == 10
read(address, 10)
# %% [5] refused
# Answer: It is.
#
# Tomorrow you'll be the old server. Can you export what you've imported?
cu.cuMemExportToShareableHandle(memory, FILE_DESCRIPTOR, 0)[0]
# %% [5]
# Answer: You can't: keep the descriptor, and send that.
#
# Now unmap the memory and release it. How much memory comes back?
before = free_memory()
ok(cu.cuMemUnmap(address, size))
ok(cu.cuMemRelease(memory))
ok(cu.cuMemAddressFree(address, size))
f"{free_memory() - before} bytes came back"
# %% [5]
# Answer: Nothing!
#
# Who holds the memory? Look for the last thing that you haven't given back.
os.close(descriptor)
assert free_memory() - before == size
f"{free_memory() - before} bytes came back"
