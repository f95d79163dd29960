// SPDX-License-Identifier: MIT-0
// A block of a pool, imported by a process that has no current context.
#include "conformance.h"

struct Message {
  int pool;
  CUmemPoolPtrExportData block;
};

static void import_it() {
  Message message;
  EXPECT(read(3, &message, sizeof message) == sizeof message, "no message");
  CHECK(cuInit(0));
  CUmemoryPool pool;
  CHECK(cuMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(intptr_t(message.pool)),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  EXPECT(!context, "there is a current context");
  CUdeviceptr block = 0;
  say("cuMemPoolImportPointer without a context", cuMemPoolImportPointer(&block, pool, &message.block));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  unsigned value = 0;
  CHECK(cuMemcpyDtoH(&value, block, sizeof value));
  EXPECT(value == 77, "the block has %u", value);
  CHECK(cuMemFree(block));
  CHECK(cuMemPoolDestroy(pool));
}

int main(int argc, char**) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  if (argc > 1) return import_it(), 0;
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool;
  CHECK(cuMemPoolCreate(&pool, &properties));
  CUdeviceptr block;
  CHECK(cuMemAllocFromPoolAsync(&block, 1024, pool, nullptr));
  CHECK(cuMemsetD32(block, 77, 256));
  CHECK(cuStreamSynchronize(nullptr));
  Message message = {};
  CHECK(cuMemPoolExportToShareableHandle(&message.pool, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CHECK(cuMemPoolExportPointer(&message.block, block));
  EXPECT(fcntl(message.pool, F_SETFD, 0) == 0, "no descriptor");  // the importer inherits it
  int peer, status = 0;
  const pid_t importer = start_in_role("importer", &peer);
  EXPECT(write(peer, &message, sizeof message) == sizeof message, "nobody hears");
  EXPECT(waitpid(importer, &status, 0) == importer, "no importer");
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the importer failed");
  std::puts("OK");
}
