# SPDX-License-Identifier: MIT-0
# Lesson 02 by hand. docs/tools/notebooks.py puts these cells into the notebook, before the text of their step.
# %% [0]
import array

from by_hand import GRANULE, Kernels, Refused, access_for, cu, memory_on, ok, use, write

# %% [1]
# You reserve 1 GiB of addresses. The upper row of the picture below has a process's addresses, the lower one the memory
# of the GPU. How much of the lower one does this take?
use(0)
MiB = 1 << 20
properties, access = memory_on(0), access_for(0)
chunk = ok(cu.cuMemGetAllocationGranularity(properties, GRANULE))
reserved, size = 1024 * MiB, 0
base = int(ok(cu.cuMemAddressReserve(reserved, 0, 0, 0)))
# %% [2]
# One chunk: create it, map it, and release its handle at once. Is the memory still there after that?
handle = ok(cu.cuMemCreate(chunk, properties, 0))
ok(cu.cuMemMap(base + size, chunk, 0, handle, 0))
ok(cu.cuMemRelease(handle))
size += chunk
# %% [2]
# It is: the mapping holds it. Now the same in a loop, up to 8 MiB, which is 1024 slots of 8 KiB. At the end `grow`
# opens all new chunks by one call. Who opens the chunk that was there before?


def grow(wanted):
    """To at least so many bytes, or nothing changes. Call it before every request."""
    global size
    if wanted > reserved:
        raise Refused("CUDA_ERROR_OUT_OF_MEMORY")  # more than you reserved
    if wanted <= size:
        return
    old_size = size
    try:
        while size < wanted:
            handle = ok(cu.cuMemCreate(chunk, properties, 0))
            mapped = cu.cuMemMap(base + size, chunk, 0, handle, 0)
            ok(cu.cuMemRelease(handle))  # before anybody asks whether it is mapped: if not, this frees it
            ok(mapped)
            size += chunk
        ok(cu.cuMemSetAccess(base + old_size, size - old_size, [access], 1))
    except Refused:
        shrink(old_size)
        raise


def shrink(wanted):
    """To as few chunks as hold so many bytes. No kernel may be at work there."""
    global size
    kept = (wanted + chunk - 1) // chunk * chunk
    if kept < size:
        ok(cu.cuMemUnmap(base + kept, size - kept))
        size = kept


few, many, slot = 1024, 4096, 8192
slot_7, slot_1023 = base + 7 * slot, base + 1023 * slot  # two pointers, as a library may have saved them
ok(cu.cuMemSetAccess(base, size, [access], 1))
grow(few * slot)
# %% [2]
# Give 1024 requests a slot each. `admit` also saves a pointer to each slot, in a table on the GPU. Then capture the
# kernel that looks all of them up into a CUDA graph. The graph keeps `base`, and how many threads there are. If the
# buffer had to move to grow, what would be wrong in the table, and what in the graph?
#
# <!-- listing: growable.cu admit, look_up -->
kernels = Kernels("growable")
requests = kernels.variable("requests")
kernels.admit(few // 256, 256, base, 0)
stream = ok(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))
write(requests, array.array("i", [few]))
ok(cu.cuCtxSynchronize())
ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
kernels.look_up(few // 256, 256, base, stream=stream)
graph = ok(cu.cuGraphInstantiate(ok(cu.cuStreamEndCapture(stream)), 0))
# %% [2]
# Now grow to four times the size. What will have moved in the picture? Look at *Pointers*, below it and below the one
# before: which of them will change?
grow(many * slot)
# %% [2]
# Nothing has moved, and no pointer has changed. Admit the other 3072. The graph was made when they had no memory: will
# it find them?


def look_up_all(count):
    write(requests, array.array("i", [count]))
    ok(cu.cuGraphLaunch(graph, stream))
    ok(cu.cuStreamSynchronize(stream))  # a request that isn't found ends the kernel with an error
    return f"the graph finds all {count} requests"


kernels.admit((many - few) // 256, 256, base, few)
ok(cu.cuCtxSynchronize())
look_up_all(many)
# %% [3]
# Put an obstacle where the fifth new chunk would go, if you asked for eight. Which addresses does it take, and which
# does it leave free?
obstacle = ok(cu.cuMemCreate(chunk, properties, 0))
fifth = base + size + 4 * chunk
ok(cu.cuMemMap(fifth, chunk, 0, obstacle, 0))
# %% [3]
# First without any undoing: four chunks by hand, and then the obstacle is in the way. `size` counts the four. What may
# GPU 0 do there, and what does `grow` do if you now ask for as much as `size` says?
size_before = size
while base + size < fifth:
    handle = ok(cu.cuMemCreate(chunk, properties, 0))
    ok(cu.cuMemMap(base + size, chunk, 0, handle, 0))
    ok(cu.cuMemRelease(handle))
    size += chunk
grow(size)
# %% [3]
# Nothing, twice. In the picture GPU 0 has no access to the four, and `grow` saw that there's room, and was content: the
# next request would get a slot that no kernel may touch. What takes the four away again?
shrink(size_before)
# %% [3] refused
# `grow` does that itself. How many of its four will be there afterwards?
try:
    grow(size + 8 * chunk)
except Refused as error:
    print(f"{error}: still {size // MiB} MiB")
# %% [3]
# None of the four: all or nothing. Take the obstacle away. Will the same call do now?
ok(cu.cuMemUnmap(fifth, chunk))
ok(cu.cuMemRelease(obstacle))
grow(size + 8 * chunk)
f"{size // MiB} MiB"
# %% [3]
# And if you ask for more than you have reserved: which call of the driver refuses that?
try:
    grow(reserved + 1)
except Refused as error:
    print(f"{error}, of grow itself, which called nobody: still {size // MiB} MiB")
# %% [4]
# It's night, and 1024 requests are left. What does this give back: addresses, memory, or both?
shrink(few * slot)
look_up_all(few)
# %% [4]
# Now the old way to grow: allocate a larger buffer, copy, and give the old one back, first its memory and then its
# addresses. Admit the other 3072 to the larger one. What do `slot_7`, the table and the graph hold after that?
larger = int(ok(cu.cuMemAlloc(many * slot)))
ok(cu.cuMemcpyDtoD(larger, base, few * slot))
shrink(0)
ok(cu.cuMemAddressFree(base, reserved))
kernels.admit((many - few) // 256, 256, larger, few)
ok(cu.cuCtxSynchronize())
# %% [4] refused
# The old addresses: nobody has told them. What will the graph find?
#
# **The next cell ends in a fault, and after a fault no call works in this notebook any more.** To go on by hand, choose
# *Kernel > Restart Kernel*, and run the cells again from the top. Those of the program in C++ run all the same: it is a
# process of its own.
try:
    look_up_all(many)
except Refused as error:
    print(error)
