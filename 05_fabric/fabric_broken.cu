// SPDX-License-Identifier: MIT-0
// 05 Fabric, broken: the mistakes of the lesson's page, the answer that each gets, and the right way.
//
// Without an IMEX channel it shows mistakes 1 and 2, and skips the rest. Every try has a process of its own, which is
// exporter and importer in one: none of these mistakes shows better in two.
//
// Build it alone:  nvcc -std=c++17 -lineinfo fabric_broken.cu -o fabric_broken -lcuda
#include "../common/in_a_process.h"

#include <atomic>
#include <cstring>

static const CUmemAllocationHandleType fabric = CU_MEM_HANDLE_TYPE_FABRIC;
static const CUmemAllocationHandleType file_descriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

// As in the lesson: writes first, first + 1, first + 2 and so on: n integers.
__global__ void fill(int* data, size_t n, int first) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) data[i] = first + int(i);
}

static Granule start() {
  check::require_gpus(1, {{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
                           "GPU 0 has no fabric handles; use a Hopper GPU or a later one, on an NVSwitch"},
                          {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                           "GPU 0 exports no memory as a file descriptor; use Linux on bare metal"}});
  return start_on_gpu_0();
}

// What most tries begin with: memory that may leave the machine, and its name.
static CUmemGenericAllocationHandle memory, imported;
static CUmemFabricHandle name;
static void create_and_export(Granule& granule) {
  granule.properties.requestedHandleTypes = fabric;
  CHECK(cuMemCreate(&memory, granule.size, &granule.properties, 0));
  CHECK(cuMemExportToShareableHandle(&name, memory, fabric, 0));
}

// Rows in the memory of this handle, at an address of their own.
static int* map(CUmemGenericAllocationHandle handle, const Granule& granule) {
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, granule.size, 0, 0, 0));
  CHECK(cuMemMap(address, granule.size, 0, handle, 0));
  CHECK(cuMemSetAccess(address, granule.size, &granule.access, 1));
  return reinterpret_cast<int*>(address);
}

static int row(const int* rows, size_t i) {
  int found;
  CHECK(cudaMemcpy(&found, rows + i, sizeof found, cudaMemcpyDeviceToHost));
  return found;
}

static std::atomic<bool> go;  // until then a kernel has to wait
static void wait_for_go(void*) {
  while (!go) usleep(1000);
}

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // in order with what others write about this program
  in_a_process(start, [](Granule) {});       // a machine that cannot do this says so first

  step("[1] Decide on the handle type later");
  in_a_process(start, [](Granule granule) {
    granule.properties.requestedHandleTypes = file_descriptor;
    CHECK(cuMemCreate(&memory, granule.size, &granule.properties, 0));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&name, memory, fabric, 0));
    int fd;
    CHECK(cuMemExportToShareableHandle(&fd, memory, file_descriptor, 0));
    say("right: exported as what it was made for");
  });

  step("[2] Take the attribute for a promise");
  in_a_process(start, [](Granule granule) {
    int supported;
    CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0));
    granule.properties.requestedHandleTypes = fabric;
    const CUresult created = cuMemCreate(&memory, granule.size, &granule.properties, 0);
    say("the attribute is %d; cuMemCreate with fabric\n      -> %s", supported, check::name(created));
    CUmemGenericAllocationHandle either;
    // Each type is a bit: NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange)
    granule.properties.requestedHandleTypes = CUmemAllocationHandleType(fabric | file_descriptor);
    const CUresult with_both = cuMemCreate(&either, granule.size, &granule.properties, 0);
    say("with both handle types\n      -> %s", check::name(with_both));
    const bool refused = created == CUDA_ERROR_NOT_PERMITTED || created == CUDA_ERROR_NOT_SUPPORTED;
    REQUIRE(!refused, "fabric memory is refused, and the rest needs it; fabric_doctor says what is missing");
    CHECK(created);
    CHECK(with_both);
    CHECK(cuMemExportToShareableHandle(&name, memory, fabric, 0));
    CHECK(cuMemImportFromShareableHandle(&imported, &name, fabric));
    say("right: created, exported and imported, and only then believed");
  });

  step("[3] Release the memory before it is imported");
  in_a_process(start, [](Granule granule) {
    create_and_export(granule);
    CHECK(cuMemRelease(memory));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&imported, &name, fabric));
    create_and_export(granule);
    CHECK(cuMemImportFromShareableHandle(&imported, &name, fabric));
    CHECK(cuMemRelease(imported));  // the importer is done, and says so
    CHECK(cuMemRelease(memory));    // only now does the exporter let go
    say("right: released by the exporter when the importer was done");
  });

  step("[4] Take the name for a text");
  in_a_process(start, [](Granule granule) {
    create_and_export(granule);
    CUmemFabricHandle text = {};
    std::strncpy(reinterpret_cast<char*>(text.data), reinterpret_cast<char*>(name.data), sizeof text);
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&imported, &text, fabric));
    CHECK(cuMemImportFromShareableHandle(&imported, &name, fabric));
    say("right: all 64 bytes are copied, and the zeros among them");
  });

  step("[5] Say done while the kernel still has to run");
  in_a_process(start, [](Granule granule) {
    create_and_export(granule);
    const int* const exporters = map(memory, granule);
    CHECK(cuMemImportFromShareableHandle(&imported, &name, fabric));
    int* const rows = map(imported, granule);
    fill<<<1, 4>>>(rows, 4, 0);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());

    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaLaunchHostFunc(stream, wait_for_go, nullptr));
    fill<<<1, 1, 0, stream>>>(rows + 3, 1, 300);  // is launched, and has to wait
    CHECK(cudaGetLastError());
    say("done, says the importer; the exporter's row 3 is %d: no error", row(exporters, 3));
    go = true;
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(row(exporters, 3) == 300, "row 3 is %d", row(exporters, 3));
    say("right: after the wait it is 300");
  });

  std::puts("OK");
}
