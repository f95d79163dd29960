# SPDX-License-Identifier: MIT-0
"""Memory of a GPU that sleeps and wakes, from Python; vmm.py must be beside this file."""

from cuda.bindings import driver
from vmm import VmmError, checked, on_gpu

ASLEEP, EMPTY, AWAKE = "asleep", "empty", "awake"  # empty: mapped, but the content is not back


class Mapping:
    def __init__(self, address, size, keep):
        self.address, self.size, self.keep = address, size, keep
        self.host = None  # page-locked memory; stays, so that the next sleep need not take it again
        self.state = ASLEEP


class SleepingMemory:
    """Asleep, it has given its memory back to the GPU, and keeps its addresses for pointers and captured graphs.

        memory = SleepingMemory()
        weights = memory.add(8 << 30, keep=True)
        cache = memory.add(64 << 30, keep=False)
        memory.wake()  # only now there is memory at weights.address and cache.address
        ...
        memory.sleep()  # waits for all streams of the context, and copies the weights to the host
        ...
        memory.wake()  # the weights are back; what is in the cache is undefined

    All sizes are bytes. All but add need the current context to be one of this GPU. After an error each call can be
    made again. One thread at a time. Call close() at the end: there is no __del__.
    """

    def __init__(self, device=0):
        self.memory, self.access = on_gpu(device)
        self.device, self.mappings = device, []

    def add(self, size, keep):
        """Takes addresses for one mapping more, of at least this size. keep: sleep copies the content to the host."""
        recommended = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
        granule = checked(driver.cuMemGetAllocationGranularity, self.memory, recommended)
        size = -(-size // granule) * granule
        mapping = Mapping(int(checked(driver.cuMemAddressReserve, size, 0, 0, 0)), size, keep)
        self.mappings.append(mapping)
        return mapping

    def sleep(self):
        """Waits, copies out, and only then gives memory back.

        Work of another context or GPU on this memory is yours to wait for. An error while copying leaves all as they
        were. After an error of cuMemUnmap some sleep: launch nothing, and call sleep or wake.
        """
        checked(driver.cuCtxSynchronize)  # cuMemUnmap does not wait, and a kernel under way would fault
        for mapping in self.mappings:
            if mapping.state == AWAKE and mapping.keep:
                if mapping.host is None:
                    mapping.host = checked(driver.cuMemAllocHost, mapping.size)
                checked(driver.cuMemcpyDtoH, mapping.host, mapping.address, mapping.size)
        checked(driver.cuDeviceGraphMemTrim, self.device)  # what memory nodes have freed
        for mapping in self.mappings:
            self._unmap(mapping)

    def wake(self):
        """All or nothing: what slept is usable, or it sleeps on, with its content safe on the host.

        CUDA_ERROR_OUT_OF_MEMORY if others have the memory now: try again later, and launch nothing before. Lets its own
        GPU in; other GPUs need their right anew.
        """
        try:
            self._map(mapping for mapping in self.mappings if mapping.state == ASLEEP)
            empty = [mapping for mapping in self.mappings if mapping.state == EMPTY]
            for mapping in empty:
                checked(driver.cuMemSetAccess, mapping.address, mapping.size, [self.access], 1)
                if mapping.host is not None:
                    checked(driver.cuMemcpyHtoD, mapping.address, mapping.host, mapping.size)
        except BaseException:
            for mapping in self.mappings:
                if mapping.state == EMPTY:
                    try:
                        self._unmap(mapping)
                    except VmmError:
                        pass  # it stays EMPTY, and the next sleep or wake goes on from there
            raise
        for mapping in empty:
            mapping.state = AWAKE

    def _map(self, asleep):
        created = []
        try:
            for mapping in asleep:  # all, before any is mapped
                created.append((mapping, checked(driver.cuMemCreate, mapping.size, self.memory, 0)))
            for mapping, handle in created:
                checked(driver.cuMemMap, mapping.address, mapping.size, 0, handle, 0)
                mapping.state = EMPTY
        finally:  # the mapping keeps the memory; without one this frees it
            released = [driver.cuMemRelease(handle) for _, handle in created]
        for (result,) in released:
            if result != driver.CUresult.CUDA_SUCCESS:
                raise VmmError("cuMemRelease", result)

    @staticmethod
    def _unmap(mapping):
        if mapping.state != ASLEEP:
            checked(driver.cuMemUnmap, mapping.address, mapping.size)
            mapping.state = ASLEEP

    def remove(self, mapping):
        """Gives back one mapping, its content and its addresses. Waits for nothing: nobody may be using it."""
        if mapping.host is not None:
            checked(driver.cuMemFreeHost, mapping.host)
            mapping.host = None
        self._unmap(mapping)
        checked(driver.cuMemAddressFree, mapping.address, mapping.size)
        self.mappings.remove(mapping)

    def close(self):
        while self.mappings:
            self.remove(self.mappings[-1])
