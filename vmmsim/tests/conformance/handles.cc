// SPDX-License-Identifier: MIT-0
// Allocation handles: how long they and their memory live, and what an exported one is.
#include "conformance.h"

#include <vector>

#include <fcntl.h>

using Handle = CUmemGenericAllocationHandle;
static const CUmemAllocationHandleType fd_type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

SECTION("handles") {
  const size_t before = free_bytes();
  Handle handle = create(8 * MiB, 0, fd_type);
  say("after creating 8 MiB, taken", mib(before - free_bytes()));
  CUmemAllocationProp back;
  std::memset(&back, 0xff, sizeof back);
  say("properties", cuMemGetAllocationPropertiesFromHandle(&back, handle));
  std::printf("properties: type %d, handle types %d, location %d of type %d, compression %d, RDMA %d, usage %d\n",
              back.type, back.requestedHandleTypes, back.location.id, back.location.type,
              back.allocFlags.compressionType, back.allocFlags.gpuDirectRDMACapable, back.allocFlags.usage);
  say("release", cuMemRelease(handle));
  say("after release, taken", mib(before - free_bytes()));
  say("release again", cuMemRelease(handle));
  say("release handle 0", cuMemRelease(0));
  say("properties of handle 0", cuMemGetAllocationPropertiesFromHandle(&back, 0));
  CUdeviceptr a = reserve(8 * MiB);
  say("map handle 0", cuMemMap(a, 8 * MiB, 0, 0, 0));
  CHECK(cuMemAddressFree(a, 8 * MiB));
}

SECTION("references") {
  const size_t before = free_bytes();
  auto taken = [&](const char* after) { say(std::string("taken after ") + after, mib(before - free_bytes())); };
  const CUdeviceptr a = reserve(16 * MiB);
  taken("reserve");
  Handle handle = create(8 * MiB), again, third;
  taken("create 8 MiB");
  CHECK(cuMemMap(a, 8 * MiB, 0, handle, 0));
  taken("map");
  say("retain", cuMemRetainAllocationHandle(&again, (void*)(a + 5 * MiB)));
  say("retain again", cuMemRetainAllocationHandle(&third, (void*)a));
  say("the handles are", again == handle && third == handle ? "the same" : "different");
  say("release 1", cuMemRelease(handle));
  say("release 2", cuMemRelease(again));
  say("release 3", cuMemRelease(third));
  taken("three releases");
  say("release 4, still mapped", cuMemRelease(third));
  say("retain after the last release", cuMemRetainAllocationHandle(&again, (void*)a));
  say("unmap", cuMemUnmap(a, 8 * MiB));
  taken("unmap with a handle left");
  say("map by it elsewhere", cuMemMap(a + 8 * MiB, 8 * MiB, 0, again, 0));
  say("unmap", cuMemUnmap(a + 8 * MiB, 8 * MiB));
  say("release", cuMemRelease(again));
  taken("the last release");
  say("release once more", cuMemRelease(again));
  CHECK(cuMemAddressFree(a, 16 * MiB));
}

SECTION("export and import") {
  const size_t before = free_bytes();
  auto taken = [&](const char* after) { say(std::string("taken after ") + after, mib(before - free_bytes())); };
  Handle plain = create(page), both = create(4 * MiB, 0, fd_type), back = 0, other = 0;
  int fd = -1, second = -1;
  char fabric[64];
  say("export without a handle type", cuMemExportToShareableHandle(&fd, plain, fd_type, 0));
  say("export as none", cuMemExportToShareableHandle(&fd, both, CU_MEM_HANDLE_TYPE_NONE, 0));
  say("export as win32", cuMemExportToShareableHandle(fabric, both, CU_MEM_HANDLE_TYPE_WIN32, 0));
  say("export as fabric, made for fd", cuMemExportToShareableHandle(fabric, both, CU_MEM_HANDLE_TYPE_FABRIC, 0));
  say("export as type 16", cuMemExportToShareableHandle(fabric, both, CUmemAllocationHandleType(16), 0));
  say("export as types 1 and 2", cuMemExportToShareableHandle(fabric, both, CUmemAllocationHandleType(3), 0));
  say("export with flags 1", cuMemExportToShareableHandle(&fd, both, fd_type, 1));
  say("export handle 0", cuMemExportToShareableHandle(&fd, 0, fd_type, 0));
  say("export", cuMemExportToShareableHandle(&fd, both, fd_type, 0));
  say("export again", cuMemExportToShareableHandle(&second, both, fd_type, 0));
  say("two exports are", fd == second ? "one fd" : "two fds");
  say("close-on-exec", fcntl(fd, F_GETFD) & FD_CLOEXEC ? "set" : "not set");
  close(second);
  auto import = [&](const char* what, intptr_t from, int type, Handle* to) {
    return say(std::string("import ") + what,
               cuMemImportFromShareableHandle(to, (void*)from, CUmemAllocationHandleType(type)));
  };
  Handle junk = 0;
  import("-1", -1, 1, &junk);
  import("a closed fd", 987, 1, &junk);
  const int null_fd = open("/dev/null", O_RDWR), file = open("/proc/self/exe", O_RDONLY);
  int ends[2];
  EXPECT(pipe(ends) == 0, "no pipe");
  import("/dev/null", null_fd, 1, &junk);
  import("a file", file, 1, &junk);
  import("a pipe", ends[0], 1, &junk);
  import("as none", fd, 0, &junk);
  import("as type 16", fd, 16, &junk);
  import("as types 1 and 2", fd, 3, &junk);
  for (int type : {2, 4}) {
    import(("as type " + std::to_string(type)).c_str(), fd, type, &junk);
    import(("-1 as type " + std::to_string(type)).c_str(), -1, type, &junk);
    import(("0 as type " + std::to_string(type)).c_str(), 0, type, &junk);
  }
  import("0 as none", 0, 0, &junk);
  import("0 as type 16", 0, 16, &junk);
  import("as types 2 and 4", fd, 6, &junk);
  import("0, which is no exported fd", 0, 1, &junk);
  const int standard_input = dup(0);
  dup2(fd, 0);
  for (intptr_t zero : {intptr_t(0), intptr_t(1) << 32})
    if (import(zero ? "2^32, whose low half is the fd" : "0, which is the fd", zero, 1, &junk) == CUDA_SUCCESS)
      CHECK(cuMemRelease(junk));
  dup2(standard_input, 0);
  close(standard_input);
  std::memset(fabric, 0, sizeof fabric);
  import("64 zeros as fabric", (intptr_t)fabric, 8, &junk);
  import("the fd", fd, 1, &back);
  import("the fd again", fd, 1, &other);
  say("import and export are", back == both ? "one handle" : "different handles");
  say("two imports are", back == other ? "one handle" : "different handles");
  CUmemAllocationProp of = {};
  say("properties of an import", cuMemGetAllocationPropertiesFromHandle(&of, back));
  std::printf("properties of an import: type %d, handle types %d, location %d of type %d\n", of.type,
              of.requestedHandleTypes, of.location.id, of.location.type);
  say("export an import", cuMemExportToShareableHandle(&second, back, fd_type, 0));
  const CUdeviceptr a = reserve(16 * MiB);
  CUmemAccessDesc descriptor = access_of(0);
  say("map half an import", cuMemMap(a, page, 0, back, 0));
  say("map the exporter's handle", cuMemMap(a, 4 * MiB, 0, both, 0));
  say("map an import", cuMemMap(a + 4 * MiB, 4 * MiB, 0, back, 0));
  say("map another import", cuMemMap(a + 8 * MiB, 4 * MiB, 0, other, 0));
  say("access of all three", cuMemSetAccess(a, 12 * MiB, &descriptor, 1));
  unsigned char byte = 0;
  CHECK(cuMemsetD8(a, 1, 12 * MiB));
  CHECK(cuMemsetD8(a + 100, 9, 1));
  CHECK(cuMemcpyDtoH(&byte, a + 8 * MiB + 100, 1));
  say("what was written by the exporter, read through the import", std::to_string(byte));
  Handle retained;
  say("retain at an import's mapping", cuMemRetainAllocationHandle(&retained, (void*)(a + 4 * MiB)));
  say("it is", retained == back ? "the import" : retained == both ? "the exporter's" : "another");
  CHECK(cuMemRelease(retained));
  CHECK(cuMemRelease(plain));
  taken("three mappings of 4 MiB");
  CHECK(cuMemUnmap(a, 12 * MiB));
  CHECK(cuMemRelease(both));
  CHECK(cuMemRelease(back));
  taken("unmap and two of three releases");
  CHECK(cuMemRelease(other));
  taken("the last release, fd open");
  import("after all handles are gone", fd, 1, &back);
  CHECK(cuMemRelease(back));
  const int copy = dup(fd);
  close(fd);
  taken("close of the fd, a copy open");
  import("the copy", copy, 1, &back);
  CHECK(cuMemRelease(back));
  close(copy);
  taken("close of the copy");
  CHECK(cuMemAddressFree(a, 16 * MiB));
  for (int each : {null_fd, file, ends[0], ends[1]}) close(each);
}

// Each with the context that the runtime makes.
static void set_up() {
  CHECK(cuInit(0));
  CHECK(cudaSetDevice(0));
}

int main(int argc, char** argv) { return run_sections(argc, argv, set_up); }
