// SPDX-License-Identifier: MIT-0
// What the guide's section 4.16 gets wrong, a function for each mistake: the guide's form where AS_PRINTED is its
// number, and else the right one. Above each stands what comes of the two. All that has no line "Right" compiles.
#include <cuda.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#if __has_include(<mpi.h>)
#include <mpi.h>
#endif

// [1] Printed: does not compile: has no member named 'requestedHandleType'
CUmemAllocationProp exportable() {
  CUmemAllocationProp prop = {};
#if AS_PRINTED == 1
  prop.requestedHandleType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
#else
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
#endif
  return prop;
}

// [2] Printed: does not compile: static assertion failed: what describes the memory has fields
void properties() {
#if AS_PRINTED == 2
  using Description = CUmemGenericAllocationHandle;
#else
  using Description = CUmemAllocationProp;
#endif
  static_assert(std::is_class_v<Description>, "what describes the memory has fields; a handle is a number");
}

// [4] Printed: does not compile: expected ';' before '\)' token
int exports_fds(CUdevice device) {
  int supported = 0;
#if AS_PRINTED == 4
  cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device));
#else
  cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device);
#endif
  return supported;
}

// [5] Printed: does not compile: static assertion failed: the union has room
void control_message() {
  union Control {
    cmsghdr align;
#if AS_PRINTED == 5
    char* control;  // points to memory from malloc, which the union neither holds nor aligns
#else
    char control[CMSG_SPACE(sizeof(int))];
#endif
  };
  static_assert(sizeof(Control) >= CMSG_SPACE(sizeof(int)), "the union has room for a header and one fd");
}

// [6] Printed: runs, and prints: refused, and left open: 2
// [6] Right: runs, and prints: refused, and left open: 0
int left_open() {
  int pair[2], two[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) || pipe(two)) return 1;
  char byte = 0;
  iovec data = {&byte, 1};

  alignas(cmsghdr) char out[CMSG_SPACE(sizeof two)] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = out;
  message.msg_controllen = sizeof out;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_len = CMSG_LEN(sizeof two);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  memcpy(CMSG_DATA(header), two, sizeof two);
  if (sendmsg(pair[0], &message, 0) != 1) return 1;
  const int next = dup(0);  // the numbers that what arrives will get
  close(next);

  alignas(cmsghdr) char in[CMSG_SPACE(sizeof(int))] = {};  // meant for one, and rounded up: there is room for two
  message.msg_control = in;
  message.msg_controllen = sizeof in;
  if (recvmsg(pair[1], &message, 0) != 1) return 1;
  header = CMSG_FIRSTHDR(&message);
  const bool is_one = header && header->cmsg_len == CMSG_LEN(sizeof(int)) && header->cmsg_type == SCM_RIGHTS;
#if AS_PRINTED != 6
  if (!is_one && header && header->cmsg_type == SCM_RIGHTS)
    for (unsigned char* at = CMSG_DATA(header); at < (unsigned char*)header + header->cmsg_len; at += sizeof(int)) {
      int fd;
      memcpy(&fd, at, sizeof fd);
      close(fd);
    }
#endif
  int open = 0;
  for (int fd = next; fd < next + 2; ++fd) open += fcntl(fd, F_GETFD) >= 0;
  printf("%s, and left open: %d\n", is_one ? "accepted" : "refused", open);
  return 0;
}

using HANDLE = void*;  // as Windows' headers have it
using DWORD = unsigned long;
static int WriteFile(HANDLE, const void*, DWORD, DWORD*, void*) { return 0; }
static int ReadFile(HANDLE, void*, DWORD, DWORD*, void*) { return 0; }

// [7] Printed: does not compile: member 'hMailslot' in '\* mailslot'[^!]*'i' was not declared
void send_handle(HANDLE* mailslot, HANDLE duplicate) {
  DWORD written = 0;
#if AS_PRINTED == 7
  WriteFile(mailslot->hMailslot[i], &duplicate, sizeof duplicate, &written, nullptr);
#else
  WriteFile(*mailslot, &duplicate, sizeof duplicate, &written, nullptr);
#endif
}

// [8] Printed: does not compile: 'shareableHandles' was not declared in this scope
void receive_handle(HANDLE mailslot, HANDLE* shareableHandle) {
  DWORD read = 0;
#if AS_PRINTED == 8
  ReadFile(mailslot, shareableHandle, sizeof *shareableHandles, &read, nullptr);
#else
  ReadFile(mailslot, shareableHandle, sizeof *shareableHandle, &read, nullptr);
#endif
}

#if __has_include(<mpi.h>)
// [9] Printed: does not compile: too few arguments to function 'int MPI_Recv
void receive_fabric_handle(CUmemFabricHandle* shareable, int sender) {
#if AS_PRINTED == 9
  MPI_Recv(shareable, sizeof *shareable, MPI_BYTE, sender, 0, MPI_COMM_WORLD);
#else
  MPI_Recv(shareable, sizeof *shareable, MPI_BYTE, sender, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#endif
}

// [10] Printed: runs under MPI, and prints: rank 1: nothing has come from rank 1
// [10] Right: runs under MPI, and prints: rank 1: the handle of rank 0 is here
int ranks() {
  MPI_Init(nullptr, nullptr);
  int rank, here = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  CUmemFabricHandle handle = {};
  MPI_Request sent = MPI_REQUEST_NULL;
  if (rank == 0) MPI_Isend(&handle, sizeof handle, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &sent);
#if AS_PRINTED == 10
  const int source = 1;  // where the guide's receiver, which is rank 1, waits for ever
#else
  const int source = 0;
#endif
  if (rank == 1) {
    MPI_Status found;
    MPI_Probe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &found);  // the handle has come
    MPI_Iprobe(source, 0, MPI_COMM_WORLD, &here, MPI_STATUS_IGNORE);
    MPI_Recv(&handle, sizeof handle, MPI_BYTE, found.MPI_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (here) printf("rank 1: the handle of rank %d is here\n", source);
    else printf("rank 1: nothing has come from rank %d\n", source);
  }
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return 0;
}
#endif

// [11] Printed: does not compile: invalid conversion from 'CUmemGenericAllocationHandle'
CUmemGenericAllocationHandle import_fabric_handle(CUmemFabricHandle* shareable) {
  CUmemGenericAllocationHandle handle;
#if AS_PRINTED == 11
  cuMemImportFromShareableHandle(handle, shareable, CU_MEM_HANDLE_TYPE_FABRIC);
#else
  cuMemImportFromShareableHandle(&handle, shareable, CU_MEM_HANDLE_TYPE_FABRIC);
#endif
  return handle;
}

// [12] Printed: runs on a GPU, and prints: import: CUDA_ERROR_UNKNOWN
// [12] Right: runs on a GPU, and prints: import: CUDA_SUCCESS
int import_fd() {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle exported, imported;
  int fd;
  if (cuInit(0) || cuMemCreate(&exported, 2 << 20, &prop, 0) ||
      cuMemExportToShareableHandle(&fd, exported, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
    return 1;
#if AS_PRINTED == 12
  CUresult result = cuMemImportFromShareableHandle(&imported, (void*)&fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
#else
  CUresult result =
      cuMemImportFromShareableHandle(&imported, (void*)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
#endif
  const char* name = "an error without a name";
  cuGetErrorName(result, &name);
  printf("import: %s\n", name);
  if (result == CUDA_SUCCESS) cuMemRelease(imported);
  close(fd);
  cuMemRelease(exported);
  return 0;
}

// [13] Printed: does not compile: invalid conversion from 'int' to 'FILE\*'
void done_with(int exported_fd) {
#if AS_PRINTED == 13
  fclose(exported_fd);
#else
  close(exported_fd);
#endif
}

static size_t free_bytes() {
  size_t available = 0, total = 0;
  cuMemGetInfo(&available, &total);
  return available;
}

// [14] Printed: runs on a GPU, and prints: after cuMemRelease: 2097152 bytes returned
// [14] Right: runs on a GPU, and prints: after cuMemRelease: 0 bytes returned, after cuMemUnmap: 2097152 bytes returned
int release_while_mapped() {
  const size_t size = 2 << 20;
  CUcontext context;
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
      cuMemCreate(&handle, size, &prop, 0) || cuMemAddressReserve(&address, size, 0, 0, 0) ||
      cuMemMap(address, size, 0, handle, 0))
    return 1;
  const size_t before = free_bytes();
#if AS_PRINTED == 14
  if (cuMemUnmap(address, size) || cuMemRelease(handle)) return 1;
  printf("after cuMemRelease: %zu bytes returned\n", free_bytes() - before);
#else
  if (cuMemRelease(handle)) return 1;  // allowed: the mapping still holds the memory
  printf("after cuMemRelease: %zu bytes returned, ", free_bytes() - before);
  if (cuMemUnmap(address, size)) return 1;
  printf("after cuMemUnmap: %zu bytes returned\n", free_bytes() - before);
#endif
  if (cuMemAddressFree(address, size) || cuDevicePrimaryCtxRelease(0)) return 1;
  return 0;
}

// [15] Printed: does not compile: CUmemAllocationProp.* has no member named 'numDevices'
CUresult create_team(int devices, CUmemGenericAllocationHandle* object) {
#if AS_PRINTED == 15
  CUmemAllocationProp team = {};
#else
  CUmulticastObjectProp team = {};
#endif
  team.numDevices = devices;
  team.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return cuMulticastCreate(object, &team);
}

// [16] Printed: does not compile: cannot convert .* to 'CUmulticastGranularity_flags'
size_t multicast_granule(const CUmulticastObjectProp* team) {
  size_t bytes = 0;
#if AS_PRINTED == 16
  cuMulticastGetGranularity(&bytes, team, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
#else
  cuMulticastGetGranularity(&bytes, team, CU_MULTICAST_GRANULARITY_MINIMUM);
#endif
  return bytes;
}

// [17] Printed: does not compile: invalid conversion from 'CUmemGenericAllocationHandle\*'
CUresult add(CUmemGenericAllocationHandle team, CUdevice device) {
#if AS_PRINTED == 17
  return cuMulticastAddDevice(&team, device);
#else
  return cuMulticastAddDevice(team, device);
#endif
}

// Runs the function of this number.
int main(int argc, char** argv) {
  switch (argc == 2 ? atoi(argv[1]) : 0) {
    case 6: return left_open();
#if __has_include(<mpi.h>)
    case 10: return ranks();
#endif
    case 12: return import_fd();
    case 14: return release_while_mapped();
  }
  fprintf(stderr, "usage: errata 6|10|12|14 (10 was built with MPI only)\n");
  return 2;
}
