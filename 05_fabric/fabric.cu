// SPDX-License-Identifier: MIT-0
// 05 Fabric: 64 bytes, sent in any way you like, let a process on another machine use this GPU's memory.
// Build it alone:  nvcc -std=c++17 fabric.cu -o fabric -lcuda
#include "../common/check.h"

// Two processes, each the other's `peer`, with send_bytes and receive_bytes between them: over a socket, or by MPI.
#ifdef FABRIC_WITH_MPI
#include "fabric_mpi.h"
#else
#include "fabric_sockets.h"
#endif

static const size_t MiB = 1 << 20;

// What the importer has to be told.
struct Shared {
  CUmemFabricHandle name;  // 64 bytes
  size_t size;             // of the memory: no call tells it from the name
};

// Writes first, first + 1, first + 2 and so on: n integers.
__global__ void fill(int* data, size_t n, int first) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) data[i] = first + int(i);
}

__managed__ int answer;  // a kernel writes it, the CPU reads it
__global__ void look_up(const int* rows, size_t row) { answer = rows[row]; }

// A process asks its GPU for a row, and waits for the answer.
static void ask(const char* who, const int* rows, size_t row, int stored) {
  look_up<<<1, 1>>>(rows, row);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  say("%s: row %zu is %d", who, row, answer);
  EXPECT(answer == stored, "row %zu should be %d", row, stored);
}

// Reserves addresses, maps the memory there, and lets this GPU in: lesson 01.
static CUdeviceptr map(CUmemGenericAllocationHandle memory, size_t size, int gpu) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, memory, 0));
  CHECK(cuMemSetAccess(address, size, &access, 1));
  return address;
}

static void unmap(CUdeviceptr address, size_t size) {
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemAddressFree(address, size));
}

static void exporter(int peer) {
  check::require_gpus(1, {{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
                           "GPU 0 has no fabric handles; use a Hopper GPU or a later one, on an NVSwitch"}});
  CHECK(cudaSetDevice(0));

  step("[1] Create memory that may leave the machine");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;  // now or never
  size_t granule;
  CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));

  const size_t size = granule;  // our rows fit into one
  CUmemGenericAllocationHandle memory;
  const CUresult created = cuMemCreate(&memory, size, &properties, 0);
  const bool refused = created == CUDA_ERROR_NOT_PERMITTED || created == CUDA_ERROR_NOT_SUPPORTED;
  REQUIRE(!refused, "cuMemCreate answers %s; fabric_doctor says what is missing", check::name(created));
  CHECK(created);
  say("exporter: %zu MiB on GPU 0", size / MiB);

  step("[2] Send its name");
  const CUdeviceptr address = map(memory, size, 0);
  int* const rows = reinterpret_cast<int*>(address);
  const size_t n = size / sizeof(int);
  fill<<<(n + 255) / 256, 256>>>(rows, n, 0);
  CHECK(cudaGetLastError());
  ask("exporter", rows, 3, 3);  // waits for fill, too, before anybody has the name

  Shared shared = {{}, size};
  CHECK(cuMemExportToShareableHandle(&shared.name, memory, CU_MEM_HANDLE_TYPE_FABRIC, 0));
  say("exporter: a name of %zu bytes, and the size", sizeof shared.name);
  send_bytes(peer, &shared, sizeof shared);

  char done;
  EXPECT(receive_bytes(peer, &done, sizeof done), "the importer ended before it was done");
  ask("exporter", rows, 3, 300);
  unmap(address, size);
  CHECK(cuMemRelease(memory));
}

static int importer(int peer) {
  Shared shared;
  if (!receive_bytes(peer, &shared, sizeof shared)) return 1;  // the exporter has said why
  const int gpus = check::require_gpus(1);                     // of this machine
  const int gpu = gpus > 1 ? 1 : 0;
  CHECK(cudaSetDevice(gpu));

  step("[3] Import it");
  CUmemGenericAllocationHandle memory;
  CHECK(cuMemImportFromShareableHandle(&memory, &shared.name, CU_MEM_HANDLE_TYPE_FABRIC));
  say("importer: %zu MiB, for GPU %d", shared.size / MiB, gpu);

  step("[4] Use it, and say when you're done");
  const CUdeviceptr address = map(memory, shared.size, gpu);
  int* const rows = reinterpret_cast<int*>(address);
  ask("importer", rows, 3, 3);
  fill<<<1, 1>>>(rows + 3, 1, 300);  // corrects row 3
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());  // no stream orders what the other process does, so wait
  unmap(address, shared.size);
  CHECK(cuMemRelease(memory));
  send_bytes(peer, "", 1);  // done
  return 0;
}

int main(int argc, char** argv) { return in_two_processes(argc, argv, exporter, importer); }
