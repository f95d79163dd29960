// SPDX-License-Identifier: MIT-0
// What a pool counts, and what becomes of its blocks, when the context that they were allocated in ends.
#include "conformance.h"

static CUcontext primary;
static CUmemoryPool pool;

static std::string count(CUmemPool_attribute what) {
  cuuint64_t value = 99;
  const CUresult answer = cuMemPoolGetAttribute(pool, what, &value);
  return answer ? brief(answer) : std::to_string(value);
}
static void say_counts(const std::string& when) {
  say(when, "used " + listed({count(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), count(CU_MEMPOOL_ATTR_USED_MEM_HIGH)}) +
                "; kept " + count(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
}
static CUdeviceptr allocate(CUstream stream, size_t size) {
  CUdeviceptr address = 0;
  say("allocate " + std::to_string(size), cuMemAllocFromPoolAsync(&address, size, pool, stream));
  CHECK(cuStreamSynchronize(stream));
  return address;
}
static CUresult context_of(CUdeviceptr address) {
  CUcontext found;
  return cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_CONTEXT, address);
}

static void begin(bool own) {
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
  CHECK(cuCtxSetCurrent(primary));
  CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
  if (!own) return;
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK(cuMemPoolCreate(&pool, &properties));
}

// Blocks of two contexts; the second ends.
static void another_context() {
  CUcontext other;
  CUstream stream, of_other;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const CUdeviceptr first = allocate(stream, 1024);
  say_counts("a block of the first context");
#if CUDA_VERSION >= 13000
  CHECK(cuCtxCreate(&other, nullptr, 0, 0));
#else
  CHECK(cuCtxCreate(&other, 0, 0));
#endif
  CHECK(cuStreamCreate(&of_other, CU_STREAM_NON_BLOCKING));
  const CUdeviceptr second = allocate(of_other, 3 * MiB);
  const CUdeviceptr freed = allocate(of_other, 2048);
  say_counts("and blocks of another");
  say("free one of these", cuMemFreeAsync(freed, of_other));
  CHECK(cuStreamSynchronize(of_other));
  say_counts("then");
  CHECK(cuCtxDestroy(other));
  CHECK(cuCtxSetCurrent(primary));
  say_counts("the other context is destroyed");
  say("what is known of its block", context_of(second));
  say("free its block", cuMemFreeAsync(second, stream));
  say("wait", cuStreamSynchronize(stream));
  say_counts("then");
  say("free the block of the first", cuMemFreeAsync(first, stream));
  say("wait", cuStreamSynchronize(stream));
  say_counts("then");
  allocate(stream, 1024);
  say_counts("a block again");
}
SECTION("the GPU's pool, another context") { begin(false), another_context(); }
SECTION("a pool of one's own, another context") { begin(true), another_context(); }

// The context that all are of is reset.
static void reset() {
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  allocate(stream, 1024), allocate(stream, 3 * MiB);
  say_counts("two blocks");
  CHECK(cuDevicePrimaryCtxReset(0));
  say_counts("the context is reset");
  CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
  CHECK(cuCtxSetCurrent(primary));
  say_counts("and is there again");
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  allocate(stream, 1024);
  say_counts("a block again");
}
SECTION("the GPU's pool, a reset") { begin(false), reset(); }
SECTION("a pool of one's own, a reset") { begin(true), reset(); }

int main(int argc, char** argv) { return run_sections(argc, argv); }
