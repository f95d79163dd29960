// SPDX-License-Identifier: MIT-0
// Lab 05b: Send all 64 bytes, then wait
//
// This program sends 8 of the 64 bytes of a fabric handle, and releases the memory at once. Change both, in two places:
// - the importer imports all 64 bytes of the handle
// - the exporter keeps the memory until the importer has imported it, however slow that is
// - each answer is looked at, of read and write, too
// With a channel, this lab has run on simulated GPUs only.
// Read 05_fabric/README.md#2-send-its-name.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include "../lab.h"

int main() {
  const size_t size = 2 << 20, n = size / sizeof(int);  // one granule
  int ends[2], status = 0;
  [[maybe_unused]] char byte = 0;
  EXPECT(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "no socket");
  const pid_t importer = fork();  // before any call of CUDA
  const int socket = ends[importer ? 0 : 1];
  close(ends[importer ? 1 : 0]);
  CUmemFabricHandle shared = {};
  if (!importer) {
    const ssize_t came = TEMP_FAILURE_RETRY(read(socket, &shared, sizeof shared));
    if (came <= 0) return 0;  // the exporter has ended, and has said why
    std::printf("%zd bytes came\n", came);
    usleep(200000);  // an importer may be slow, and far slower than this
  }
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

  if (importer) {
    const CUresult answer = cuMemCreate(&memory, size, &properties, 0);
    const bool refused = answer == CUDA_ERROR_NOT_PERMITTED || answer == CUDA_ERROR_NOT_SUPPORTED;
    REQUIRE(!refused, "cuMemCreate answers %s; fabric_doctor says what is missing", check::name(answer));
    CHECK(answer);
    CHECK(cuMemMap(address, size, 0, memory, 0));
    CHECK(cuMemSetAccess(address, size, &access, 1));
    lab::fill<int>(address, n, 7);
    CHECK(cuMemExportToShareableHandle(&shared, memory, CU_MEM_HANDLE_TYPE_FABRIC, 0));
    // >>> your part: send the handle, and keep the memory as long as needed
    const unsigned char* const bytes = shared.data;
    EXPECT(write(socket, bytes, sizeof bytes) == sizeof bytes, "the importer has ended");
    // <<<
  } else {
    CHECK(cuMemImportFromShareableHandle(&memory, &shared, CU_MEM_HANDLE_TYPE_FABRIC));
    // >>> your part: say that the import is done
    // <<<
    CHECK(cuMemMap(address, size, 0, memory, 0));
    CHECK(cuMemSetAccess(address, size, &access, 1));
    std::printf("%llu of %zu integers are 7 in the importer\n", lab::count<int>(address, n, 7), n);
    std::fflush(stdout);
  }

  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(address, size));
  if (!importer) return 0;
  EXPECT(TEMP_FAILURE_RETRY(waitpid(importer, &status, 0)) == importer && status == 0, "the importer failed");
  return lab::end();
}
