# SPDX-License-Identifier: MIT-0
# Lesson 02 by hand. docs/tools/notebooks.py puts these cells into the notebook, before the text of their step.
# %% [0]
import array

from by_hand import GRANULE, Kernels, Refused, access_for, cu, memory_on, ok, read, use, write

# %% [1]
# You reserve 1 GiB of addresses. The upper row of the picture below has a process's addresses, the lower one the memory
# of the GPU. How much of the lower one does this take?
use(0)
MiB = 1 << 20
properties, access = memory_on(0), access_for(0)
granule = ok(cu.cuMemGetAllocationGranularity(properties, GRANULE))
reserved, size = 1024 * MiB, 0
address = int(ok(cu.cuMemAddressReserve(reserved, 0, 0, 0)))
# %% [1] refused
# The design that you'd try first: create much memory once, and map only as much of it as you need. What does the driver
# say?
large = ok(cu.cuMemCreate(64 * MiB, properties, 0))
try:
    ok(cu.cuMemMap(address, granule, 0, large, 0))
except Refused as error:
    print(error)
# %% [1]
# Answer: It refuses: an allocation is mapped whole or not at all.
#
# So give the large one back, and create one chunk. Map it, and release its handle at once. Is the memory still there
# after that?
ok(cu.cuMemRelease(large))
memory = ok(cu.cuMemCreate(granule, properties, 0))
ok(cu.cuMemMap(address + size, granule, 0, memory, 0))
ok(cu.cuMemRelease(memory))
size += granule
# %% [1]
# Answer: It is: the mapping keeps it.
#
# Now the same up to 8 MiB, for 1000 requests, whose slots have 8 KiB each. One call opens all four chunks. What may
# GPU 0 do there before this call, and after it?
few, many, most, slot = 1000, 4000, 6000, 8192  # requests, and bytes of one
for at in range(size, 8 * MiB, granule):
    memory = ok(cu.cuMemCreate(granule, properties, 0))
    ok(cu.cuMemMap(address + at, granule, 0, memory, 0))
    ok(cu.cuMemRelease(memory))
size = 8 * MiB
ok(cu.cuMemSetAccess(address, size, [access], 1))
# %% [1]
# Give each request its slot. `serve` also saves a pointer to each slot in a table on the GPU, and looks each request up
# there. It reads from memory which requests are new and how many there are. Then capture the same kernel into a CUDA
# graph. The graph keeps `address`, and its number of blocks. If the buffer had to move to grow, what would be wrong in
# the table, and what in the graph?
#
# <!-- listing: growable.cu serve -->
kernels = Kernels("growable")
first, count, lost = (kernels.variable(name) for name in ("first", "count", "lost"))


def tell(first_new, requests):
    """What `serve` reads: from which request on they are new, and how many there are."""
    write(first, array.array("i", [first_new]))
    write(count, array.array("i", [requests]))


def serve_all(first_new, requests):
    """Gives the new ones a slot, and looks all of them up."""
    tell(first_new, requests)
    kernels.serve(4, 256, address)
    return f"{read(lost, 1)[0]} of {requests} requests can't find their slot"


print(serve_all(0, few))
slot_7, slot_999 = address + 7 * slot, address + 999 * slot  # two pointers, as a library may have saved them
stream = ok(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))
ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
kernels.serve(4, 256, address, stream=stream)
graph = ok(cu.cuGraphInstantiate(ok(cu.cuStreamEndCapture(stream)), 0))
# %% [1]
# Now grow to three times the size, and open what is new. What will have moved in the picture? Look at *Pointers*, below
# it and below the one before: which of them will change?
old_size = size
for at in range(size, 24 * MiB, granule):
    memory = ok(cu.cuMemCreate(granule, properties, 0))
    ok(cu.cuMemMap(address + at, granule, 0, memory, 0))
    ok(cu.cuMemRelease(memory))
size = 24 * MiB
ok(cu.cuMemSetAccess(address + old_size, size - old_size, [access], 1))
# %% [1]
# Answer: Nothing has moved, and no pointer has changed.
#
# Give 2000 more requests their slots. Then spoil the last slot, and launch the graph that was made for 1000 requests,
# with none of them new. Will it work? Will it notice?
print(serve_all(few, 3000))
write(address + 2999 * slot, array.array("i", [-1]))
tell(3000, 3000)
ok(cu.cuGraphLaunch(graph, stream))
ok(cu.cuStreamSynchronize(stream))
print(f"the graph finds that {read(lost, 1)[0]} is lost")
# %% [1]
# Answer: It works, because the address is as it was. And it notices, although it has as many blocks as on the day when
# it was captured, because these loop over all requests that there are.
#
# What would it have missed if each thread served one request? Repair the slot, and the count of those that are lost.
write(address + 2999 * slot, array.array("i", [2999]))
write(lost, array.array("i", [0]))
serve_all(3000, 3000)
# %% [2]
# The two functions of the class, in Python. `mapped` says how far there is memory, and `size` how far GPU 0 may use it.
# When do the two differ? Grow to 32 MiB with them. How often will each call be made?
mapped = size


def add_chunk():
    global mapped
    memory = ok(cu.cuMemCreate(granule, properties, 0))
    result = cu.cuMemMap(address + mapped, granule, 0, memory, 0)
    ok(cu.cuMemRelease(memory))  # before anybody asks whether it is mapped: if not, this frees it
    ok(result)
    mapped += granule


def grow(wanted):
    """To at least so many bytes, or nothing changes. Call it before every request."""
    global size
    if wanted > reserved:
        raise Refused("CUDA_ERROR_INVALID_VALUE")  # you reserved too little
    if wanted <= size:
        return
    try:
        while mapped < wanted:
            add_chunk()
        ok(cu.cuMemSetAccess(address + size, mapped - size, [access], 1))
        size = mapped
    except Refused:
        shrink(size)
        raise


def shrink(wanted):
    """To as few chunks as hold so many bytes. No kernel may be at work there."""
    global mapped, size
    kept = (wanted + granule - 1) // granule * granule
    if kept < mapped:
        ok(cu.cuMemUnmap(address + kept, mapped - kept))
        mapped, size = kept, min(size, kept)


grow(many * slot)
print(serve_all(3000, many))
# %% [2]
# And if you ask for more than you have reserved: which call of the driver refuses that?
try:
    grow(reserved + 1)
except Refused as error:
    print(f"{error}, of grow itself, which called nobody: still {size // MiB} MiB")
# %% [3]
# Put an obstacle where the fifth new chunk would go, if you asked for eight. Which addresses does it take, and which
# does it leave free?
obstacle = ok(cu.cuMemCreate(granule, properties, 0))
half_way = address + size + 4 * granule
ok(cu.cuMemMap(half_way, granule, 0, obstacle, 0))
# %% [3]
# First without any undoing: four chunks by hand, and then the obstacle is in the way. Count the four, as one easily
# might. What may GPU 0 do there, and what does `grow` do if you now ask for as much as `size` says?
size_before = size
while address + mapped < half_way:
    add_chunk()
size = mapped
grow(size)
# %% [3]
# Answer: Nothing, twice. In the picture GPU 0 has no access to the four, and `grow` saw that there's room, and was
# content: the next request would get a slot that no kernel may touch.
#
# What takes the four away again?
shrink(size_before)
# %% [3] refused
# `grow` does that itself. How many of its four will be there afterwards?
try:
    grow(most * slot)
except Refused as error:
    print(f"{error}: still {size // MiB} MiB, and {mapped // MiB} are mapped")
# %% [3]
# Answer: None of the four: all or nothing.
#
# Take the obstacle away. Will the same call do now?
ok(cu.cuMemUnmap(half_way, granule))
ok(cu.cuMemRelease(obstacle))
grow(most * slot)
serve_all(many, most)
# %% [4] refused
# It's night, and only the first 1000 requests are still there. Their last slot ends before the end of the fourth
# chunk. What does the driver say if you unmap exactly what is behind that slot?
try:
    ok(cu.cuMemUnmap(address + few * slot, size - few * slot))
except Refused as error:
    print(error)
# %% [4]
# Answer: A chunk goes whole, so `shrink` rounds up.
#
# What does this give back: addresses, memory, or both? And what would it give back if one of the 1000 were in the last
# slot?
shrink(few * slot)
serve_all(few, few)
# %% [4]
# Answer: Memory alone; and nothing, because `shrink` takes chunks from the end. So give new requests the lowest free
# slots.
#
# Now the old way to grow: allocate a larger buffer, copy, and give the old one back, first its memory and then its
# addresses. What do `slot_7`, the table and the graph hold after that?
larger = int(ok(cu.cuMemAlloc(many * slot)))
ok(cu.cuMemcpyDtoD(larger, address, few * slot))
shrink(0)
ok(cu.cuMemAddressFree(address, reserved))
# %% [4] refused
# The old addresses: nobody has told them. What will the graph find?
#
# **The next cell ends in a fault, and after a fault hardly a call works any more.** To go on by hand, run the first
# cell of the notebook again, and those after it. Those of the program in C++ run all the same: it is a process of its
# own.
try:
    ok(cu.cuGraphLaunch(graph, stream))
    ok(cu.cuStreamSynchronize(stream))
except Refused as error:
    print(error)
