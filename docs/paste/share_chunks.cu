// SPDX-License-Identifier: MIT-0
#ifndef VMM_SHARE_CHUNKS_CU
#define VMM_SHARE_CHUNKS_CU

#include "send_fd.cu"
#include "share_fd.cu"

// A buffer of several chunks, as growth makes, shared whole: the importer has all of them side by side. Each side has
// an end of a SOCK_SEQPACKET. One descriptor is under way at a time, and is closed before the next is made, so that
// neither RLIMIT_NOFILE nor the 253 descriptors of a message limit the number of chunks.
//
// No message is waited for longer than so many milliseconds. Error: the driver's, of this side; for the exporter that
// of the importer too; OPERATING_SYSTEM if the other side has gone, is late or says something else: see errno
// (ECONNRESET or EPIPE, ETIMEDOUT, EPROTO). Nothing stays. Then close the socket, so that the other side need not wait.
// Threads: yes, each with a socket of its own.

// First from the exporter: the size of all. Then from the importer, after each chunk: how that went.
struct ChunkMessage {
  uint64_t mark = 0x6d656d6f72792063;
  uint64_t size = 0;
  CUresult result = CUDA_SUCCESS;
};

inline bool send_message(int socket, const ChunkMessage& message) {  // there is room: nothing else is under way
  return send(socket, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof message;
}

inline bool receive_message(int socket, ChunkMessage* message, int milliseconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  ssize_t bytes;
  do {
    if (!wait_for(socket, deadline)) return false;
    bytes = recv(socket, message, sizeof *message, MSG_DONTWAIT | MSG_TRUNC);  // returns the real length
  } while (bytes < 0 && (errno == EINTR || errno == EAGAIN));
  if (bytes >= 0) errno = bytes == 0 ? ECONNRESET : EPROTO;
  return bytes == sizeof *message && message->mark == ChunkMessage().mark;
}

// Exports the mapping that begins here, and sends the descriptor, which it closes.
inline CUresult send_chunk(int socket, CUdeviceptr start, size_t chunk) {
  CUmemGenericAllocationHandle handle;
  CUresult result = cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(start));
  if (result != CUDA_SUCCESS) return result;
  int fd = -1;
  result = cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  const CUresult released = cuMemRelease(handle);  // retaining added a reference
  if (result != CUDA_SUCCESS) return result;
  if (released == CUDA_SUCCESS && !send_fd(socket, fd, chunk)) result = CUDA_ERROR_OPERATING_SYSTEM;
  const int error = errno;
  close(fd);
  errno = error;
  return released != CUDA_SUCCESS ? released : result;
}

// Exporter: sends the memory at [address, address + size): whole mappings without a hole, created with a descriptor as
// handle type; their handles may have been released. On SUCCESS the importer has mapped all of it. INVALID_VALUE if a
// mapping goes beyond that range, or cannot be exported. Needs a current context.
inline CUresult send_chunks(int socket, CUdeviceptr address, size_t size, int milliseconds) {
  ChunkMessage message;
  message.size = size;
  if (!send_message(socket, message)) return CUDA_ERROR_OPERATING_SYSTEM;
  size_t sent = 0, chunk;
  do {
    CUdeviceptr start;
    CUresult result = cuMemGetAddressRange(&start, &chunk, address + sent);
    if (result != CUDA_SUCCESS) return result;
    if (start != address + sent || chunk > size - sent) return CUDA_ERROR_INVALID_VALUE;
    if ((result = send_chunk(socket, start, chunk)) != CUDA_SUCCESS) return result;
    if (!receive_message(socket, &message, milliseconds)) return CUDA_ERROR_OPERATING_SYSTEM;
    if (message.result != CUDA_SUCCESS) return message.result;
  } while ((sent += chunk) < size);
  return CUDA_SUCCESS;
}

// Receives and maps one behind *mapped bytes of `size`, and adds it to *mapped.
inline CUresult receive_chunk(int socket, CUdeviceptr start, size_t* mapped, size_t size, int milliseconds) {
  uint64_t chunk;
  const int fd = receive_fd(socket, &chunk, milliseconds);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  CUmemGenericAllocationHandle handle;
  CUresult result = import_and_close(&handle, fd);
  if (result != CUDA_SUCCESS) return result;
  result = chunk <= size - *mapped ? cuMemMap(start + *mapped, chunk, 0, handle, 0) : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) *mapped += chunk;
  const CUresult released = cuMemRelease(handle);  // the mapping keeps the memory; without one this frees it
  return result != CUDA_SUCCESS ? result : released;
}

// Importer: maps all chunks in one reservation, and lets `device` use them. After an error *address and *size are as
// before. The memory stays until both sides have unmapped it, also if the exporter dies. Needs cuInit, and no context.
inline CUresult receive_chunks(int socket, CUdeviceptr* address, size_t* size, int device, int milliseconds) {
  ChunkMessage message, answer;
  if (!receive_message(socket, &message, milliseconds)) return CUDA_ERROR_OPERATING_SYSTEM;
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr start;
  CUresult result = cuMemAddressReserve(&start, message.size, 0, 0, 0);
  const bool reserved = result == CUDA_SUCCESS;
  size_t mapped = 0;
  int error;
  do {
    if (result == CUDA_SUCCESS) result = receive_chunk(socket, start, &mapped, message.size, milliseconds);
    if (result == CUDA_SUCCESS && mapped == message.size) result = cuMemSetAccess(start, mapped, &access, 1);
    error = errno;
    answer.result = result;
    if (!send_message(socket, answer) && result == CUDA_SUCCESS) {  // the exporter would take this for a failure
      result = CUDA_ERROR_OPERATING_SYSTEM;
      error = errno;
    }
  } while (result == CUDA_SUCCESS && mapped < message.size);
  if (result == CUDA_SUCCESS) {
    *address = start;
    *size = mapped;
    return CUDA_SUCCESS;
  }
  if (mapped > 0) cuMemUnmap(start, mapped);
  if (reserved) cuMemAddressFree(start, message.size);
  errno = error;
  return result;
}

// Undoes receive_chunks. Waits for nothing: no kernel and no copy may be using the memory. Error: the driver's; call it
// again with the same address and size, and it goes on where it stopped.
inline CUresult unmap_chunks(CUdeviceptr address, size_t size) {
  const CUresult result = cuMemUnmap(address, size);  // succeeds where nothing is mapped any more
  return result != CUDA_SUCCESS ? result : cuMemAddressFree(address, size);
}

#endif
