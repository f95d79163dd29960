// SPDX-License-Identifier: MIT-0
// Lab 05b: Hold it long enough
//
// The first importer passes a copy of the fabric handle on to a second one. Nobody counts copies, and a name may stop
// working once the exporter has released the memory, even if the first importer still holds it. At present the exporter
// waits for nobody; mend that. It hears from the first importer only, for each process has these sockets:
//   exporter: to_first      first importer: to_exporter, to_second      second importer: to_first
// - the exporter holds the memory until both have imported it, however slow either of them is
// - look at what each call, each read and each write returns; read returns 0 when the other process has ended
// Read 05_fabric/README.md#2-send-its-name. With a channel, this lab has run on simulated GPUs only.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include "../lab.h"

int main() {
  const size_t size = 2 << 20, n = size / sizeof(int);  // one granule
  int ends[4], status = 0;
  [[maybe_unused]] char byte = 0;
  for (int* pair : {ends, ends + 2}) EXPECT(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), "no socket");
  const pid_t first = fork(), second = first ? fork() : -1;  // importers, before any call of CUDA
  const bool is_exporter = first && second;
  const int to_first = ends[is_exporter ? 0 : 3], to_exporter = ends[1], to_second = ends[2];
  for (int end : ends)  // the first importer has two sockets, each of the others has one
    if (first ? end != to_first : end != to_exporter && end != to_second) close(end);
  CUmemFabricHandle shared = {};
  if (!is_exporter && TEMP_FAILURE_RETRY(read(first ? to_first : to_exporter, &shared, sizeof shared)) <= 0)
    return 0;  // the other process has ended, and has said why
  lab::begin();
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address = 0;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));

  if (is_exporter) {
    const CUresult answer = cuMemCreate(&memory, size, &properties, 0);
    const bool refused = answer == CUDA_ERROR_NOT_PERMITTED || answer == CUDA_ERROR_NOT_SUPPORTED;
    REQUIRE(!refused, "cuMemCreate answers %s; fabric_doctor says what is missing", check::name(answer));
    CHECK(answer);
    CHECK(cuMemMap(address, size, 0, memory, 0));
    CHECK(cuMemSetAccess(address, size, &access, 1));
    lab::fill<int>(address, n, 7);
    CHECK(cuMemExportToShareableHandle(&shared, memory, CU_MEM_HANDLE_TYPE_FABRIC, 0));
    EXPECT(write(to_first, &shared, sizeof shared) == sizeof shared, "the first importer has ended");
    // >>> your part: the exporter
    // <<<
  } else if (!first) {
    // >>> your part: the first importer
    CHECK(cuMemImportFromShareableHandle(&memory, &shared, CU_MEM_HANDLE_TYPE_FABRIC));
    EXPECT(write(to_second, &shared, sizeof shared) == sizeof shared, "the second importer has ended");
    // <<<
  } else {
    // >>> your part: the second importer
    CHECK(cuMemImportFromShareableHandle(&memory, &shared, CU_MEM_HANDLE_TYPE_FABRIC));
    // <<<
  }

  if (!is_exporter) {
    CHECK(cuMemMap(address, size, 0, memory, 0));
    CHECK(cuMemSetAccess(address, size, &access, 1));
    EXPECT(lab::count<int>(address, n, 7) == n, "the memory has something else");
  }
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(address, size));
  if (!first) close(to_second);
  if (!is_exporter) return 0;
  for (pid_t importer : {first, second})
    EXPECT(TEMP_FAILURE_RETRY(waitpid(importer, &status, 0)) == importer && status == 0, "an importer failed");
  std::printf("both importers read %zu integers\n", n);
  return lab::end();
}
