// SPDX-License-Identifier: MIT-0
// Null pointers where the driver wants an address: refused, or a crash.
#include "conformance.h"

static CUdeviceptr a;
static CUmemGenericAllocationHandle h;
static const CUmemAllocationProp good = on_gpu(0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static CUmemAccessDesc open_to_all = access_of(0);
static unsigned long long flags;
static size_t size;
static int number;
static void* const none = nullptr;
static const CUmemAllocationHandleType fd_type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

static const struct {
  const char* what;
  CUresult (*call)();
} questions[] = {
    {"cuMemAddressReserve to null", [] { return cuMemAddressReserve(nullptr, page, 0, 0, 0); }},
    {"cuMemCreate to null", [] { return cuMemCreate(nullptr, page, &good, 0); }},
    {"cuMemCreate, null properties", [] { return cuMemCreate(&h, page, nullptr, 0); }},
    {"cuMemGetAllocationGranularity to null",
     [] { return cuMemGetAllocationGranularity(nullptr, &good, CU_MEM_ALLOC_GRANULARITY_MINIMUM); }},
    {"cuMemGetAllocationGranularity, null properties",
     [] { return cuMemGetAllocationGranularity(&size, nullptr, CU_MEM_ALLOC_GRANULARITY_MINIMUM); }},
    {"cuMemGetAllocationPropertiesFromHandle to null",
     [] { return cuMemGetAllocationPropertiesFromHandle(nullptr, h); }},
    {"cuMemRetainAllocationHandle to null", [] { return cuMemRetainAllocationHandle(nullptr, (void*)a); }},
    {"cuMemRetainAllocationHandle of null", [] { return cuMemRetainAllocationHandle(&h, nullptr); }},
    {"cuMemSetAccess, null descriptors", [] { return cuMemSetAccess(a, page, nullptr, 1); }},
    {"cuMemSetAccess, null descriptors, count 0", [] { return cuMemSetAccess(a, page, nullptr, 0); }},
    {"cuMemGetAccess to null", [] { return cuMemGetAccess(nullptr, &open_to_all.location, a); }},
    {"cuMemGetAccess, null location", [] { return cuMemGetAccess(&flags, nullptr, a); }},
    {"cuMemExportToShareableHandle to null", [] { return cuMemExportToShareableHandle(nullptr, h, fd_type, 0); }},
    {"cuMemImportFromShareableHandle to null", [] { return cuMemImportFromShareableHandle(nullptr, none, fd_type); }},
    {"cuMemImportFromShareableHandle of null as fabric",
     [] { return cuMemImportFromShareableHandle(&h, nullptr, CU_MEM_HANDLE_TYPE_FABRIC); }},
    {"cuMemGetInfo to null", [] { return cuMemGetInfo(nullptr, nullptr); }},
    {"cuMemGetInfo, null total", [] { return cuMemGetInfo(&size, nullptr); }},
    {"cuMemGetAddressRange to null", [] { return cuMemGetAddressRange(nullptr, nullptr, a); }},
    {"cuMemAlloc to null", [] { return cuMemAlloc(nullptr, page); }},
    {"cuMemFree of null", [] { return cuMemFree(0); }},
    {"cuMemsetD8 of null", [] { return cuMemsetD8(0, 0, 1); }},
    {"cuMemsetD8 of null, 0 bytes", [] { return cuMemsetD8(0, 0, 0); }},
    {"cuPointerGetAttribute to null",
     [] { return cuPointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a); }},
    {"cuDeviceGet to null", [] { return cuDeviceGet(nullptr, 0); }},
    {"cuDeviceGetCount to null", [] { return cuDeviceGetCount(nullptr); }},
    {"cuDeviceGetName to null", [] { return cuDeviceGetName(nullptr, 10, 0); }},
    {"cuDeviceGetUuid to null", [] { return cuDeviceGetUuid(nullptr, 0); }},
    {"cuDeviceGetAttribute to null", [] { return cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0); }},
    {"cuDeviceCanAccessPeer to null", [] { return cuDeviceCanAccessPeer(nullptr, 0, 0); }},
    {"cuDriverGetVersion to null", [] { return cuDriverGetVersion(nullptr); }},
    {"cuCtxGetCurrent to null", [] { return cuCtxGetCurrent(nullptr); }},
    {"cuCtxGetDevice to null", [] { return cuCtxGetDevice(nullptr); }},
    {"cuGetErrorName to null", [] { return cuGetErrorName(CUDA_SUCCESS, nullptr); }},
    {"cuStreamCreate to null", [] { return cuStreamCreate(nullptr, 0); }},
    {"cuEventCreate to null", [] { return cuEventCreate(nullptr, 0); }},
    {"cuModuleLoadData of null",
     [] {
       CUmodule module;
       return cuModuleLoadData(&module, nullptr);
     }},
};

int main(int argc, char** argv) {
  const int count = sizeof questions / sizeof *questions;
  if (argc > 2) {  // from this question on
    CHECK(cuInit(0));
    CHECK(cudaSetDevice(0));
    a = reserve(page);
    map_new(a, page);
    const CUmemGenericAllocationHandle made = create(page, 0, fd_type);
    for (number = atoi(argv[2]); number < count; ++number) {
      h = made;
      std::printf("%s: ", questions[number].what);
      std::fflush(stdout);
      const CUresult answer = questions[number].call();
      std::printf("%s\n", check::name(answer));
      std::fflush(stdout);
    }
    return 0;
  }
  check::require_gpus(1);
  ask_through_crashes("questions");
  std::printf("OK\n");
}
