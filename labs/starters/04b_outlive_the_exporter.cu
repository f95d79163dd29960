// SPDX-License-Identifier: MIT-0
// Lab 04b: Outlive the exporter
//
// The exporter stays until the importer has ended, as if memory died with the process that made it. Make it go first:
// - the exporter gives back what it has and exits, and the importer reads after that
// - before it reads, the importer waits for the end of the process whose id is in `exporter`
// - no sleep takes the place of a wait: it is right however slow either of them is
// Read 04_ipc_fd/README.md#4-outlive-the-exporter.
#include <signal.h>
#include <sys/wait.h>
#include <cerrno>
#include "../descriptor.h"
#include "../lab.h"

int main() {
  const size_t size = 2 << 20, n = size / sizeof(int);  // one granule
  const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  int fd = -1, ends[2];
  char byte = 0;
  EXPECT(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "no socket");
  const pid_t exporter = fork();  // before any call of CUDA
  const int socket = ends[exporter ? 1 : 0];
  close(ends[exporter ? 0 : 1]);
  if (!exporter && TEMP_FAILURE_RETRY(read(socket, &byte, 1)) != 1) return 0;  // begins when the importer has
  lab::begin();
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  properties.requestedHandleTypes = type;
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address = 0;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));

  if (!exporter) {
    CHECK(cuMemCreate(&memory, size, &properties, 0));
    CHECK(cuMemMap(address, size, 0, memory, 0));
    CHECK(cuMemSetAccess(address, size, &access, 1));
    lab::fill<int>(address, n, 7);
    CHECK(cuMemExportToShareableHandle(&fd, memory, type, 0));
    lab::send_fd(socket, fd);
    close(fd);
    // >>> your part: how long the exporter stays
    while (TEMP_FAILURE_RETRY(read(socket, &byte, 1)) > 0) {
    }  // until the importer has closed its end
    // <<<
  } else {
    EXPECT(write(socket, &byte, 1) == 1, "the exporter has ended");
    fd = lab::receive_fd(socket);
    CHECK(cuMemImportFromShareableHandle(&memory, reinterpret_cast<void*>(intptr_t(fd)), type));
    close(fd);
    CHECK(cuMemMap(address, size, 0, memory, 0));
    CHECK(cuMemSetAccess(address, size, &access, 1));
    // >>> your part: let the exporter go, and wait for its end
    // <<<
    std::printf("the exporter %s\n", kill(exporter, 0) ? "has ended" : "is still there");
    std::printf("%llu of %zu integers are 7\n", lab::count<int>(address, n, 7), n);
    close(socket);
    (void)TEMP_FAILURE_RETRY(waitpid(exporter, nullptr, 0));  // if it has not been waited for
  }

  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(address, size));
  return exporter ? lab::end() : 0;
}
