// SPDX-License-Identifier: MIT-0
  // >>> your part: chunks that may leave the process
  buffer.properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  for (; buffer.size < wanted; buffer.size += chunk) {
    CUmemGenericAllocationHandle memory;
    CHECK(cuMemCreate(&memory, chunk, &buffer.properties, 0));
    CHECK(cuMemMap(buffer.address + buffer.size, chunk, 0, memory, 0));
    CHECK(cuMemSetAccess(buffer.address + buffer.size, chunk, &buffer.access, 1));
    buffer.handles.push_back(memory);  // by which it is exported
  }
  // <<<
// >>> your part: from process to process; lab::send_fd and lab::receive_fd send one descriptor
void hand_over(int socket, const Buffer& buffer) {
  EXPECT(write(socket, &buffer.size, sizeof buffer.size) == sizeof buffer.size, "the new server has ended");
  for (const CUmemGenericAllocationHandle memory : buffer.handles) {
    int fd;
    CHECK(cuMemExportToShareableHandle(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    lab::send_fd(socket, fd);
    close(fd);
  }
}

void take_over(int socket, Buffer& buffer) {
  size_t size = 0;
  EXPECT(TEMP_FAILURE_RETRY(read(socket, &size, sizeof size)) == sizeof size, "the old server has ended");
  for (; buffer.size < size; buffer.size += chunk) {
    CUmemGenericAllocationHandle memory;
    const int fd = lab::receive_fd(socket);
    CHECK(cuMemImportFromShareableHandle(&memory, reinterpret_cast<void*>(intptr_t(fd)),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    CHECK(cuMemMap(buffer.address + buffer.size, chunk, 0, memory, 0));
    buffer.handles.push_back(memory);
  }
  CHECK(cuMemSetAccess(buffer.address, buffer.size, &buffer.access, 1));  // a mapping starts with none
}
// <<<
