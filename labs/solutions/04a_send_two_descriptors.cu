// SPDX-License-Identifier: MIT-0
// >>> your part: the descriptors travel beside the message
void send_fds(int socket, const int (&fds)[2]) {
  char byte = 0;
  iovec data = {&byte, 1};  // a control message needs at least one byte of data beside it
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof fds);
  std::memcpy(CMSG_DATA(rights), fds, sizeof fds);
  EXPECT(TEMP_FAILURE_RETRY(sendmsg(socket, &header, MSG_NOSIGNAL)) == 1, "the message cannot be sent");
}

void receive_fds(int socket, int (&fds)[2]) {
  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = CMSG_LEN(sizeof fds);
  EXPECT(TEMP_FAILURE_RETRY(recvmsg(socket, &header, MSG_CMSG_CLOEXEC)) == 1, "no message comes");
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  EXPECT(rights && rights->cmsg_type == SCM_RIGHTS, "no descriptors come beside the message");
  EXPECT(rights->cmsg_len == CMSG_LEN(sizeof fds), "not two descriptors come");
  std::memcpy(fds, CMSG_DATA(rights), sizeof fds);
}
// <<<
    // >>> your part: what is left to do in the exporter
    for (const int fd : fds) close(fd);
    // <<<
    // >>> your part: what is left to do in the importer
    for (const int fd : fds) close(fd);
    CHECK(cuMemSetAccess(address, 2 * size, &access, 1));  // the exporter's access is that of its own mappings
    // <<<
