// SPDX-License-Identifier: MIT-0
// What the drivers of other machines refuse, asked by the name of the question: machines_test.py has the answers.
#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <iterator>

static int devices;
static CUcontext contexts[64];

static CUmemAllocationProp on_gpu(int gpu) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu};
  return properties;
}
static CUdeviceptr mapped(int gpu, size_t size) {
  CUdeviceptr address;
  CUmemGenericAllocationHandle handle;
  const CUmemAllocationProp properties = on_gpu(gpu);
  if (cuMemAddressReserve(&address, size, 0, 0, 0) || cuMemCreate(&handle, size, &properties, 0) ||
      cuMemMap(address, size, 0, handle, 0))
    std::puts("no memory");
  return address;
}
static int open_to(CUdeviceptr address, size_t size, int gpu, CUmemAccess_flags flags) {
  const CUmemAccessDesc descriptor = {{CU_MEM_LOCATION_TYPE_DEVICE, gpu}, flags};
  return cuMemSetAccess(address, size, &descriptor, 1);
}
constexpr size_t granule = 2 << 20;
constexpr auto all = CU_MEM_ACCESS_FLAGS_PROT_READWRITE, none = CU_MEM_ACCESS_FLAGS_PROT_NONE;

// GPU 0 is joined with one after another.
static void peers() {
  for (int gpu = 1; gpu < devices; ++gpu) std::printf("enable %d: %d\n", gpu, cuCtxEnablePeerAccess(contexts[gpu], 0));
  std::printf("again: %d\n", cuCtxEnablePeerAccess(contexts[1], 0));
  const CUdeviceptr memory = mapped(0, granule);
  std::printf("open to the last: %d\n", open_to(memory, granule, devices - 1, all));
  std::printf("open to the first: %d\n", open_to(memory, granule, 1, all));
  std::printf("disable the first: %d\n", cuCtxDisablePeerAccess(contexts[1]));
  std::printf("close to the first: %d\n", open_to(memory, granule, 1, none));
  std::printf("open to the last: %d\n", open_to(memory, granule, devices - 1, all));
}

static void rdma() {
  int attribute = -1;
  cuDeviceGetAttribute(&attribute, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0);
  CUmemAllocationProp properties = on_gpu(0);
  properties.allocFlags.gpuDirectRDMACapable = 1;
  CUmemGenericAllocationHandle handle;
  std::printf("attribute %d, create: %d\n", attribute, cuMemCreate(&handle, granule, &properties, 0));
  for (const auto what : {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
                          CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING}) {
    cuDeviceGetAttribute(&attribute, what, 0);
    std::printf("attribute of its writes: %s\n", attribute ? "some" : "none");
  }
  int fd;
  std::printf("dma-buf: %d\n",
              cuMemGetHandleForAddressRange(&fd, mapped(0, granule), granule, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
}

static void pools() {
  int types = -1;
  cuDeviceGetAttribute(&types, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0);
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemoryPool pool;
  std::printf("types %d, create: %d\n", types, cuMemPoolCreate(&pool, &properties));
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  std::printf("that is exported: %d\n", cuMemPoolCreate(&pool, &properties));
}

static void addresses() {
  CUdeviceptr address;
  for (const size_t gib : {1, 31, 32, 64})
    std::printf("%zu GiB: %d\n", gib, cuMemAddressReserve(&address, gib << 30, 0, 0, 0));
}

static void multicast() {
  CUmulticastObjectProp properties = {};
  properties.numDevices = unsigned(devices);
  properties.size = granule;
  CUmemGenericAllocationHandle object;
  std::printf("create: %d\n", cuMulticastCreate(&object, &properties));
  int added = 0;
  for (int gpu = 0; gpu < devices; ++gpu) added |= cuMulticastAddDevice(object, gpu);
  CUdeviceptr address;
  cuMemAddressReserve(&address, granule, 0, 0, 0);
  std::printf("add: %d\nmap: %d\n", added, cuMemMap(address, granule, 0, object, 0));
}

int main(int, char** words) {
  constexpr struct {
    const char* name;
    void (*ask)();
  } questions[] = {
      {"peers", peers}, {"rdma", rdma}, {"pools", pools}, {"addresses", addresses}, {"multicast", multicast}};
  if (cuInit(0) || cuDeviceGetCount(&devices)) return 1;
  for (int gpu = devices - 1; gpu >= 0; --gpu)
    if (cuDevicePrimaryCtxRetain(&contexts[gpu], gpu) || cuCtxSetCurrent(contexts[gpu])) return 1;
  for (const auto& [name, ask] : questions)
    if (!std::strcmp(name, words[1])) ask();
}
