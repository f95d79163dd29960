// SPDX-License-Identifier: MIT-0
// How many mappings one GPU takes, and what is refused then. It takes 25 s on an H200.
#include "conformance.h"

constexpr size_t most = 1 << 19, at_once = 1 << 12;

// Maps an allocation side by side until something is refused. Returns how many mappings are open.
static size_t map_until_refused(CUmemGenericAllocationHandle handle, size_t size, size_t limit, CUdeviceptr* next) {
  const CUmemAccessDesc to_gpu = access_of(0);
  size_t open = 0;
  for (size_t group = at_once; group > 0 && open < limit;) {
    const CUdeviceptr room = reserve(group * size);
    for (size_t i = 0; i < group; ++i) CHECK(cuMemMap(room + i * size, size, 0, handle, 0));
    const CUresult answer = cuMemSetAccess(room, group * size, &to_gpu, 1);
    if (answer == CUDA_SUCCESS) {
      open += group;
      continue;
    }
    EXPECT(answer == CUDA_ERROR_OUT_OF_MEMORY, "cuMemSetAccess answers %s", check::name(answer));
    CHECK(cuMemUnmap(room, group * size));
    *next = room;
    group /= 2;
  }
  return open;
}

static void begin() {
  alarm(100);
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
}

SECTION("2 MiB, mapped until it is refused") {
  begin();
  CUdeviceptr next = 0;
  const CUmemAccessDesc to_gpu = access_of(0), to_nobody = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  const CUmemGenericAllocationHandle handle = create(page);
  const CUdeviceptr first = reserve(page);
  CHECK(cuMemMap(first, page, 0, handle, 0));
  CHECK(cuMemSetAccess(first, page, &to_gpu, 1));
  const size_t open = 1 + map_until_refused(handle, page, 2 * most, &next);
  std::fprintf(stderr, "%zu mappings\n", open);
  say("all but 1024 of 2^19 are open", yes(open > most - 1024));
  say("more than 2^19 are", yes(open > most));
  if (!next) return;
  CUmemGenericAllocationHandle more;
  const CUmemAllocationProp properties = on_gpu(0);
  say("one more: create", cuMemCreate(&more, page, &properties, 0));
  say("one more: map", cuMemMap(next, page, 0, more, 0));
  say("one more: open", cuMemSetAccess(next, page, &to_gpu, 1));
  say("one more: open for reading", [&] {
    const CUmemAccessDesc to_read = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READ);
    return cuMemSetAccess(next, page, &to_read, 1);
  }());
  say("close another", cuMemSetAccess(first, page, &to_nobody, 1));
  say("one more: open", cuMemSetAccess(next, page, &to_gpu, 1));
  say("unmap another", cuMemUnmap(first, page));
  say("one more: open", cuMemSetAccess(next, page, &to_gpu, 1));
  void* memory;
  say("cudaMalloc of 1 KiB", cudaMalloc(&memory, 1024));
  say("cudaMalloc of 4 MiB", cudaMalloc(&memory, 4 * MiB));
  cudaGetLastError();
  say("memset of the one more", cuMemsetD8(next, 1, page));
}

SECTION("64 MiB") {
  begin();
  CUdeviceptr next = 0;
  const size_t open = map_until_refused(create(64 * MiB), 64 * MiB, most / 32 + at_once, &next);
  say("mappings of 64 MiB with more than 2^19 pages of 2 MiB", yes(open > most / 32));
}

int main(int argc, char** argv) { return run_sections(argc, argv); }
