// SPDX-License-Identifier: MIT-0
// Messages between processes through a socket, each with a descriptor or none (-1): whether all of one went or came.
#pragma once
#include <sys/socket.h>

#include <cstring>

inline bool send_message(int socket, const void* message, size_t size, int fd) {
  iovec bytes = {const_cast<void*>(message), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr header = {};
  header.msg_iov = &bytes, header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = control, header.msg_controllen = sizeof control;
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET, rights->cmsg_type = SCM_RIGHTS, rights->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  return sendmsg(socket, &header, MSG_NOSIGNAL) == ssize_t(size);
}
inline bool receive_message(int socket, void* message, size_t size, int& fd) {
  iovec bytes = {message, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)];
  msghdr header = {};
  header.msg_iov = &bytes, header.msg_iovlen = 1, header.msg_control = control, header.msg_controllen = sizeof control;
  if (recvmsg(socket, &header, MSG_CMSG_CLOEXEC) != ssize_t(size)) return false;
  fd = -1;
  if (const cmsghdr* const rights = CMSG_FIRSTHDR(&header)) std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
  return true;
}
