// SPDX-License-Identifier: MIT-0
// docs/paste/fabric_or_fd.cu at work between two processes, where there is fabric memory and where there is none: the
// driver says so itself, or a call answers each error that says so, and each that does not. `once` is one handover in
// one process, for each of whose calls to fail.
#include <cuda.h>
// What these calls answer, without being made, when fabric memory is asked for; SUCCESS: they are made.
static CUresult attributes, creations, exports, imports, plain_creations;
static bool promises;  // fabric handles, whether there are any or not
static int handles;
static CUresult attribute(int* value, CUdevice_attribute which, CUdevice device) {
  const CUresult result = attributes != CUDA_SUCCESS ? attributes : cuDeviceGetAttribute(value, which, device);
  if (promises && result == CUDA_SUCCESS) *value = 1;
  return result;
}
static CUresult create(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                       unsigned long long flags) {
  const CUresult answer = prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC ? creations : plain_creations;
  const CUresult result = answer != CUDA_SUCCESS ? answer : cuMemCreate(handle, size, prop, flags);
  handles += result == CUDA_SUCCESS;
  return result;
}
static CUresult release(CUmemGenericAllocationHandle handle) {
  --handles;
  return cuMemRelease(handle);
}
static CUresult to_shareable(void* shared, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                             unsigned long long flags) {
  const CUresult answer = type == CU_MEM_HANDLE_TYPE_FABRIC ? exports : CUDA_SUCCESS;
  return answer != CUDA_SUCCESS ? answer : cuMemExportToShareableHandle(shared, handle, type, flags);
}
static CUresult from_shareable(CUmemGenericAllocationHandle* handle, void* shared, CUmemAllocationHandleType type) {
  const CUresult answer = type == CU_MEM_HANDLE_TYPE_FABRIC ? imports : CUDA_SUCCESS;
  return answer != CUDA_SUCCESS ? answer : cuMemImportFromShareableHandle(handle, shared, type);
}
#define cuDeviceGetAttribute attribute
#define cuMemCreate create
#define cuMemRelease release
#define cuMemExportToShareableHandle to_shareable
#define cuMemImportFromShareableHandle from_shareable
#include "../../docs/paste/fabric_or_fd.cu"
#undef cuDeviceGetAttribute
#undef cuMemCreate
#undef cuMemRelease
#undef cuMemExportToShareableHandle
#undef cuMemImportFromShareableHandle
#include "../../docs/paste/map_handle.cu"
#include "../../docs/paste/send_fd.cu"

#include "../../common/check.h"

#include <string>

#include <sys/wait.h>

constexpr size_t size = 2 << 20;
constexpr int patience = 60000;
const auto fabric = CU_MEM_HANDLE_TYPE_FABRIC, descriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

static bool is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }
static CUresult let_go(CUmemGenericAllocationHandle handle) {
  --handles;
  return cuMemRelease(handle);
}

// The importer's process: takes what the message names, and asks for a descriptor if that is refused.
static int importer(int socket, CUresult refusal) {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  imports = refusal;
  ShareMessage message;
  EXPECT(recv(socket, &message, sizeof message, 0) == sizeof message, "%s", strerror(errno));
  CUmemGenericAllocationHandle handle;
  uint64_t bytes = message.size;
  const auto receive = [&] {
    const int fd = receive_fd(socket, &bytes, patience);
    EXPECT(fd >= 0, "%s", strerror(errno));
    return fd;
  };
  CUresult result = import_fabric_or_fd(&handle, message, message.type == descriptor ? receive() : -1);
  const char asks = result != CUDA_SUCCESS && try_descriptor(result) ? 'd' : '-';
  EXPECT(send(socket, &asks, 1, 0) == 1, "%s", strerror(errno));
  if (asks == 'd') {
    message.type = descriptor;
    result = import_fabric_or_fd(&handle, message, receive());
  }
  CHECK(result);
  CUdeviceptr address;
  unsigned value;
  CHECK(map_handle(&address, handle, bytes, 0));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemcpyDtoH(&value, address + bytes - 4, 4));
  ++value;
  CHECK(cuMemcpyHtoD(address + bytes - 4, &value, 4));
  CHECK(cudaDeviceSynchronize());
  CHECK(unmap_handle(address, bytes));
  return 0;
}

// Hands memory to another process, and finds there what that has written. The importer's import is refused if so told.
static void expect_handover(const char* what, CUmemAllocationHandleType type, CUresult refusal = CUDA_SUCCESS) {
  int ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "no sockets");
  std::fflush(stdout);
  const pid_t child = fork();
  EXPECT(child >= 0, "no process");
  if (child == 0) {
    const std::string number = std::to_string(dup(ends[1])), error = std::to_string(int(refusal));
    execl("/proc/self/exe", "importer", "importer", number.c_str(), error.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  CUmemGenericAllocationHandle handle;
  ShareMessage message;
  CUdeviceptr address;
  unsigned value = 41;
  CHECK(create_fabric_or_fd(&handle, &message, size, 0));
  EXPECT(message.type == type && message.size == size, "%s: type %d", what, message.type);
  CHECK(map_handle(&address, handle, size, 0));
  CHECK(cuMemcpyHtoD(address + size - 4, &value, 4));
  CHECK(cudaDeviceSynchronize());
  const auto send_descriptor = [&] {
    int fd;
    CHECK(export_fd(&fd, handle));
    EXPECT(send_fd(ends[0], fd, size), "%s", strerror(errno));
    close(fd);
  };
  EXPECT(send(ends[0], &message, sizeof message, 0) == sizeof message, "%s", strerror(errno));
  if (type == descriptor) send_descriptor();
  char asks;
  EXPECT(recv(ends[0], &asks, 1, 0) == 1, "%s: the importer has gone", what);
  EXPECT((asks == 'd') == (refusal != CUDA_SUCCESS), "%s: it says %c", what, asks);
  if (asks == 'd') send_descriptor();
  int status;
  EXPECT(waitpid(child, &status, 0) == child && status == 0, "%s: the importer ended with %x", what, status);
  CHECK(cuMemcpyDtoH(&value, address + size - 4, 4));
  EXPECT(value == 42, "%s: %u", what, value);
  CHECK(unmap_handle(address, size));
  CHECK(let_go(handle));
  close(ends[0]);
  std::printf("%s: by %s\n", what, type == fabric && asks != 'd' ? "a fabric handle" : "a descriptor");
}

static void expect_error(const char* what, CUresult* answer, CUresult error, CUresult expected) {
  CUmemGenericAllocationHandle handle = 4711;
  ShareMessage message;
  const int before = handles;
  *answer = error;
  const CUresult result = create_fabric_or_fd(&handle, &message, size, 0);
  *answer = CUDA_SUCCESS;
  EXPECT(result == expected, "%s answers %s: %s", what, check::name(error), check::name(result));
  if (result == CUDA_SUCCESS) {
    EXPECT(message.type == descriptor, "%s answers %s: type %d", what, check::name(error), message.type);
    EXPECT(handles == before + 1, "%s answers %s: memory is left", what, check::name(error));
    int fd;
    CHECK(export_fd(&fd, handle));
    CHECK(let_go(handle));
    CHECK(import_fabric_or_fd(&handle, message, fd));
    CHECK(cuMemRelease(handle));
  } else {
    EXPECT(handle == 4711 && message.type == CU_MEM_HANDLE_TYPE_NONE, "%s: the results are changed", what);
    EXPECT(handles == before, "%s answers %s: memory is left", what, check::name(error));
  }
}

// Each error of each call: to go on, or to stop.
static void expect_errors(bool has_fabric) {
  const CUresult go_on[] = {CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_VALUE,
                            CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_DEVICE};
  const CUresult stop[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_ILLEGAL_STATE,
                           CUresult(919), CUDA_ERROR_UNKNOWN};
  for (const CUresult each : go_on) {
    expect_error("cuMemCreate", &creations, each, CUDA_SUCCESS);
    if (has_fabric) expect_error("the export", &exports, each, CUDA_SUCCESS);
    if (has_fabric) expect_handover("an import that is refused", fabric, each);
  }
  for (const CUresult each : stop) {
    expect_error("cuMemCreate", &creations, each, each);
    if (has_fabric) expect_error("the export", &exports, each, each);
    expect_error("the attribute", &attributes, each, each);
  }
  expect_error("the attribute of an older driver", &attributes, CUDA_ERROR_INVALID_VALUE, CUDA_SUCCESS);
  creations = CUDA_ERROR_NOT_PERMITTED;
  expect_error("cuMemCreate for a descriptor", &plain_creations, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
  creations = CUDA_SUCCESS;
  CUmemGenericAllocationHandle handle = 4711;
  ShareMessage message;
  REFUSED(CUDA_ERROR_INVALID_VALUE, create_fabric_or_fd(&handle, &message, size + 1, 0));
  REFUSED(CUDA_ERROR_INVALID_DEVICE, create_fabric_or_fd(&handle, &message, size, 77));
}

// What does not go together is not imported, least of all as the other; and no descriptor stays open.
static void expect_no_mixture() {
  CUmemGenericAllocationHandle handle, imported = 4711;
  ShareMessage message;
  CHECK(create_fabric_or_fd(&handle, &message, size, 0));
  for (const int type : {0, int(fabric), 3, 99}) {
    int fd;
    CHECK(export_fd(&fd, handle));
    message.type = CUmemAllocationHandleType(type);
    REFUSED(CUDA_ERROR_INVALID_VALUE, import_fabric_or_fd(&imported, message, fd));
    EXPECT(!is_open(fd) && imported == 4711, "type %d: the descriptor is open", type);
  }
  for (const int type : {0, int(descriptor), 99}) {
    message.type = CUmemAllocationHandleType(type);
    REFUSED(CUDA_ERROR_INVALID_VALUE, import_fabric_or_fd(&imported, message, -1));
  }
  CHECK(let_go(handle));
}

static CUresult once() {
  CUmemGenericAllocationHandle handle, imported;
  ShareMessage message;
  int fd = -1;
  CUresult result = create_fabric_or_fd(&handle, &message, size, 0);
  if (result != CUDA_SUCCESS) return result;
  if ((result = import_fabric_or_fd(&imported, message, -1)) == CUDA_SUCCESS) {
    CHECK(cuMemRelease(imported));
    result = export_fd(&fd, handle);
  }
  message.type = descriptor;
  if (result == CUDA_SUCCESS && (result = import_fabric_or_fd(&imported, message, fd)) == CUDA_SUCCESS)
    CHECK(cuMemRelease(imported));
  CHECK(let_go(handle));
  return result;
}

int main(int argc, char** argv) {
  if (argc == 4 && strcmp(argv[1], "importer") == 0) return importer(atoi(argv[2]), CUresult(atoi(argv[3])));
  check::require_gpus(1);
  if (argc == 2 && strcmp(argv[1], "once") == 0) {
    const CUresult result = once();
    puts(result == CUDA_SUCCESS ? "OK" : check::name(result));
    return result != CUDA_SUCCESS;
  }
  CHECK(cudaSetDevice(0));
  CUmemGenericAllocationHandle handle;
  ShareMessage message;
  CHECK(create_fabric_or_fd(&handle, &message, size, 0));
  CHECK(let_go(handle));
  expect_handover("what the driver grants", message.type);
  creations = CUDA_ERROR_NOT_PERMITTED;
  expect_handover("where there is no channel", descriptor);
  creations = CUDA_SUCCESS;
  promises = true;
  expect_errors(message.type == fabric);
  promises = false;
  expect_no_mixture();
  puts("OK");
}
