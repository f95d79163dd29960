// SPDX-License-Identifier: MIT-0
#ifndef VMM_SLEEP_CU
#define VMM_SLEEP_CU

#include <cuda.h>
#include <cstddef>
#include <vector>

// Memory of one GPU that sleeps and wakes. Asleep, it has given its memory back to the GPU, and keeps its addresses, so
// that pointers and captured graphs are right again when it wakes. All sizes are bytes. Every function returns
// CUDA_SUCCESS or the driver's error, and can be called again after an error. All but add need the current context to
// be one of this GPU. One thread at a time. There is no destructor: it could not report an error.
struct SleepingMemory {
  // No memory, and the content, if it has one to keep, in host memory; mapped, but the content is not back; usable.
  enum State { ASLEEP, EMPTY, AWAKE };
  struct Mapping {
    CUdeviceptr address = 0;  // never changes
    size_t size = 0;
    bool keep = false;     // sleep copies the content to the host; else it is dropped
    void* host = nullptr;  // page-locked; stays, so that the next sleep need not take it again
    State state = ASLEEP;
  };
  std::vector<Mapping> mappings;
  CUmemAllocationProp memory = {};  // where the memory is
  CUmemAccessDesc access = {};      // who may use it

  explicit SleepingMemory(int gpu) {
    memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    memory.location.id = gpu;
    access.location = memory.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  SleepingMemory(const SleepingMemory&) = delete;  // two would free the same memory
  SleepingMemory& operator=(const SleepingMemory&) = delete;

  // Takes addresses for one mapping more. They have no memory before the next wake. *size: bytes wanted, and on success
  // the bytes that there are. An error changes nothing.
  CUresult add(CUdeviceptr* address, size_t* size, bool keep) {
    size_t granularity;
    CUresult result = cuMemGetAllocationGranularity(&granularity, &memory, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (result != CUDA_SUCCESS) return result;
    mappings.emplace_back();
    Mapping& added = mappings.back();
    added.size = (*size + granularity - 1) / granularity * granularity;
    added.keep = keep;
    if ((result = cuMemAddressReserve(&added.address, added.size, 0, 0, 0)) != CUDA_SUCCESS) {
      mappings.pop_back();
      return result;
    }
    *address = added.address;
    *size = added.size;
    return CUDA_SUCCESS;
  }

  // Waits for all streams of the context, copies out, and only then gives memory back. Work of another context or GPU
  // on this memory is yours to wait for. Error while copying, OUT_OF_MEMORY if the host has no room: all are as before.
  // Error of an unmapping: some sleep and some do not; launch nothing, and call sleep or wake.
  CUresult sleep() {
    // cuMemUnmap does not wait. A kernel under way would fault, or write into what is mapped here next.
    CUresult result = cuCtxSynchronize();
    for (Mapping& each : mappings) {
      if (each.state != AWAKE || !each.keep) continue;
      if (result == CUDA_SUCCESS && !each.host) result = cuMemAllocHost(&each.host, each.size);
      if (result == CUDA_SUCCESS) result = cuMemcpyDtoH(each.host, each.address, each.size);
    }
    if (result == CUDA_SUCCESS) result = cuDeviceGraphMemTrim(memory.location.id);  // what memory nodes have freed
    for (Mapping& each : mappings)
      if (result == CUDA_SUCCESS) result = unmap(each);
    return result;
  }

  // All or nothing: SUCCESS, and all are usable; or an error, and what slept sleeps on, with its content safe on the
  // host. OUT_OF_MEMORY if others have the memory now: try again later, and launch nothing before. What was dropped, or
  // never kept, is undefined. Lets its own GPU in; other GPUs need their right anew.
  CUresult wake() {
    std::vector<CUmemGenericAllocationHandle> handles(mappings.size());
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < handles.size() && result == CUDA_SUCCESS; ++i)  // all, before any is mapped
      if (mappings[i].state == ASLEEP) result = cuMemCreate(&handles[i], mappings[i].size, &memory, 0);
    for (size_t i = 0; i < handles.size() && result == CUDA_SUCCESS; ++i) {
      if (!handles[i]) continue;
      result = cuMemMap(mappings[i].address, mappings[i].size, 0, handles[i], 0);
      if (result == CUDA_SUCCESS) mappings[i].state = EMPTY;
    }
    for (CUmemGenericAllocationHandle each : handles) {  // the mapping keeps the memory; without one this frees it
      const CUresult released = each ? cuMemRelease(each) : CUDA_SUCCESS;
      if (result == CUDA_SUCCESS) result = released;
    }
    for (Mapping& each : mappings) {
      if (each.state != EMPTY) continue;
      if (result == CUDA_SUCCESS) result = cuMemSetAccess(each.address, each.size, &access, 1);
      if (result == CUDA_SUCCESS && each.host) result = cuMemcpyHtoD(each.address, each.host, each.size);
    }
    for (Mapping& each : mappings) {
      if (each.state != EMPTY) continue;
      if (result == CUDA_SUCCESS) each.state = AWAKE;
      else unmap(each);  // refused: it stays EMPTY, and the next sleep or wake goes on from there
    }
    return result;
  }

  // Gives back one mapping, awake or asleep, its content, and its addresses. Waits for nothing: no kernel and no copy
  // may be using it. INVALID_VALUE if no mapping begins at this address.
  CUresult remove(CUdeviceptr address) {
    for (size_t i = 0; i < mappings.size(); ++i) {
      Mapping& found = mappings[i];
      if (found.address != address) continue;
      CUresult result = found.host ? cuMemFreeHost(found.host) : CUDA_SUCCESS;
      if (result == CUDA_SUCCESS) found.host = nullptr, result = unmap(found);
      if (result == CUDA_SUCCESS) result = cuMemAddressFree(found.address, found.size);
      if (result == CUDA_SUCCESS) mappings.erase(mappings.begin() + static_cast<std::ptrdiff_t>(i));
      return result;
    }
    return CUDA_ERROR_INVALID_VALUE;
  }

  CUresult destroy() {  // all of them
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && !mappings.empty()) result = remove(mappings.back().address);
    return result;
  }

 private:
  static CUresult unmap(Mapping& mapping) {
    const CUresult result = mapping.state == ASLEEP ? CUDA_SUCCESS : cuMemUnmap(mapping.address, mapping.size);
    if (result == CUDA_SUCCESS) mapping.state = ASLEEP;
    return result;
  }
};

#endif
