// SPDX-License-Identifier: MIT-0
// >>> your part: the descriptor travels beside the message
void send_fd(int socket, int fd) {
  char byte = 0;
  iovec data = {&byte, 1};  // a control message needs at least one byte of data beside it
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  EXPECT(TEMP_FAILURE_RETRY(sendmsg(socket, &header, MSG_NOSIGNAL)) == 1, "the message cannot be sent");
}

int receive_fd(int socket) {
  int fd = -1;
  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = CMSG_LEN(sizeof fd);
  EXPECT(TEMP_FAILURE_RETRY(recvmsg(socket, &header, MSG_CMSG_CLOEXEC)) == 1, "no message comes");
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  EXPECT(rights && rights->cmsg_type == SCM_RIGHTS, "no descriptor comes beside the message");
  std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
  return fd;
}
// <<<
    // >>> your part: what is left to do in the exporter
    close(fd);
    // <<<
    // >>> your part: what is left to do in the importer
    close(fd);
    CHECK(cuMemSetAccess(address, size, &access, 1));  // the exporter's access is that of its own mapping
    // <<<
