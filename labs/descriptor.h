// SPDX-License-Identifier: MIT-0
// Sends a file descriptor to another process, beside a message; lab 04a is about how.
#pragma once
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include "../common/check.h"

namespace lab {
struct Message {
  char byte = 0;  // at least one goes with the descriptor
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec data = {&byte, 1};
  msghdr header = {};

  Message() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = CMSG_LEN(sizeof(int));
  }
};

inline void send_fd(int socket, int fd) {
  Message message;
  cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  EXPECT(TEMP_FAILURE_RETRY(sendmsg(socket, &message.header, MSG_NOSIGNAL)) == 1, "the descriptor cannot be sent");
}

inline int receive_fd(int socket) {
  int fd = -1;
  Message message;
  EXPECT(TEMP_FAILURE_RETRY(recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC)) == 1, "the other process has ended");
  const cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
  EXPECT(rights && rights->cmsg_type == SCM_RIGHTS, "no descriptor came");
  std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
  return fd;
}
}  // namespace lab
