# SPDX-License-Identifier: MIT-0
"""Virtual memory management from Python: pip install cuda-bindings

Buffer is made of the driver's calls. Each is checked; an error is raised as VmmError. cuda.core wraps the same calls in
VirtualMemoryResource: see core_buffer below.
"""

import importlib.metadata
import re

from cuda.bindings import driver


class VmmError(RuntimeError):
    """A call of the driver that failed: .call is its name, .result the CUresult."""

    def __init__(self, call, result):
        super().__init__(f"{call}: {result.name}")
        self.call, self.result = call, result


def checked(call, *arguments):
    """What a function of the driver gives besides its error."""
    result, *values = call(*arguments)
    if result != driver.CUresult.CUDA_SUCCESS:
        raise VmmError(call.__name__, result)
    return values[0] if values else None


def on_gpu(device):
    """How the driver's calls are told of memory of this GPU, and of its right to read and write there."""
    memory, access = driver.CUmemAllocationProp(), driver.CUmemAccessDesc()
    memory.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    memory.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    memory.location.id = device
    access.location = memory.location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    return memory, access


class Buffer:
    """Memory of a GPU that grows without moving, at most to max_size bytes.

        with Buffer(max_size=64 << 30, chunk=64 << 20) as log:
            log.grow(1 << 30)
            ...  # a kernel gets log.address, which never changes, and log.size, what has memory: whole chunks
            torch.cuda.synchronize()  # nothing here waits for the GPU, neither shrink nor the end of the block

    All sizes are bytes. Needs cuInit: call driver.cuInit(0) if nothing has used a GPU yet. No call needs a context. An
    error leaves the buffer as it was. One thread at a time. Without `with`, close it: there is no __del__, which could
    take memory from a kernel that still runs.
    """

    def __init__(self, max_size, device=0, chunk=1):
        self.memory, self.access = on_gpu(device)
        minimum = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        granule = checked(driver.cuMemGetAllocationGranularity, self.memory, minimum)
        self.chunk = -(-max(chunk, 1) // granule) * granule
        self.reserved = -(-max_size // self.chunk) * self.chunk
        self.size = 0
        self._mapped = 0  # more than size only after an undoing that the driver refused
        self.address = int(checked(driver.cuMemAddressReserve, self.reserved, 0, 0, 0))

    def grow(self, size):
        """To at least this size. ValueError if it is more than max_size."""
        if size > self.reserved:
            raise ValueError(f"{size} bytes, and {self.reserved} are reserved")
        if size <= self.size:
            return
        try:
            while self._mapped < size:
                self._add_chunk()
            checked(driver.cuMemSetAccess, self.address + self.size, self._mapped - self.size, [self.access], 1)
        except BaseException:
            self._undo()
            raise
        self.size = self._mapped

    def _add_chunk(self):
        handle = checked(driver.cuMemCreate, self.chunk, self.memory, 0)
        try:
            checked(driver.cuMemMap, self.address + self._mapped, self.chunk, 0, handle, 0)
            self._mapped += self.chunk
        finally:
            checked(driver.cuMemRelease, handle)  # the mapping keeps the memory; without one this frees it

    def _undo(self):
        if self._mapped > self.size:
            (result,) = driver.cuMemUnmap(self.address + self.size, self._mapped - self.size)
            if result == driver.CUresult.CUDA_SUCCESS:
                self._mapped = self.size

    def shrink(self, size):
        """To as few chunks as hold this size."""
        kept = min(-(-size // self.chunk) * self.chunk, self._mapped)
        if kept < self._mapped:
            checked(driver.cuMemUnmap, self.address + kept, self._mapped - kept)
            self._mapped, self.size = kept, min(kept, self.size)

    def close(self):
        """Gives everything back. After an error call it again; a second time it does nothing."""
        if self.reserved:
            self.shrink(0)
            checked(driver.cuMemAddressFree, self.address, self.reserved)
            self.reserved = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def core_buffer(size, device=0):
    """The same by cuda.core: a Buffer of its own kind, of whole granules; call its close(). pip install cuda-core

    Makes the device current. cuda.core up to 1.2.2 never drops the reference that cuMemCreate gave it, and the memory
    would stay until the process ends; this drops it.
    """
    from cuda.core import Device, VirtualMemoryResource, VirtualMemoryResourceOptions

    gpu = Device(device)
    gpu.set_current()
    buffer = VirtualMemoryResource(gpu, VirtualMemoryResourceOptions(handle_type=None)).allocate(size)
    if [int(n) for n in re.findall(r"\d+", importlib.metadata.version("cuda-core"))[:3]] <= [1, 2, 2]:
        try:
            handle = checked(driver.cuMemRetainAllocationHandle, int(buffer.handle))
            for _ in "retained", "created":
                checked(driver.cuMemRelease, handle)
        except VmmError:
            buffer.close()
            raise
    return buffer
