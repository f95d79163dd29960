// SPDX-License-Identifier: MIT-0
// >>> your part: the descriptors travel beside the message
struct Message {
  size_t sizes[2] = {};
  iovec data = {sizes, sizeof sizes};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr header = {};

  Message() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = CMSG_LEN(2 * sizeof(int));
  }
};
void send_fds(int socket, const int (&fds)[2], const size_t (&sizes)[2]) {
  Message message;
  std::memcpy(message.sizes, sizes, sizeof sizes);
  cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof fds);
  std::memcpy(CMSG_DATA(rights), fds, sizeof fds);
  const ssize_t bytes = TEMP_FAILURE_RETRY(sendmsg(socket, &message.header, MSG_NOSIGNAL));
  EXPECT(bytes == sizeof sizes, "the message cannot be sent: %s", std::strerror(errno));
}
void receive_fds(int socket, int (&fds)[2], size_t (&sizes)[2]) {
  Message message;
  const ssize_t bytes = TEMP_FAILURE_RETRY(recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC));
  EXPECT(bytes == sizeof sizes, "no message comes");
  const cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
  EXPECT(rights && rights->cmsg_type == SCM_RIGHTS, "no descriptors come beside the message");
  EXPECT(rights->cmsg_len == CMSG_LEN(sizeof fds), "not two descriptors come");
  std::memcpy(fds, CMSG_DATA(rights), sizeof fds);
  std::memcpy(sizes, message.sizes, sizeof sizes);
}
// <<<
    // >>> your part: what is left to do in the exporter
    for (const int fd : fds) close(fd);
    // <<<
    // >>> your part: what is left to do in the importer
    CHECK(cuMemAddressReserve(&address, sizes[0] + sizes[1], 0, 0, 0));
    for (int i : {0, 1}) {
      void* const fd = reinterpret_cast<void*>(intptr_t(fds[i]));
      CHECK(cuMemImportFromShareableHandle(&memory[i], fd, properties.requestedHandleTypes));
      CHECK(cuMemMap(address + i * sizes[0], sizes[i], 0, memory[i], 0));
      close(fds[i]);
    }
    CHECK(cuMemSetAccess(address, sizes[0] + sizes[1], &access, 1));  // the exporter's is for its own mappings
    // <<<
