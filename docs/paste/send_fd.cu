// SPDX-License-Identifier: MIT-0
#include <sys/socket.h>
#include <unistd.h>
#include <cstdint>
#include <cstring>

// Sends one file descriptor over a Unix socket, and the size of its memory, which the descriptor does not tell. Leaves
// the descriptor open here: close it afterwards. False: see errno.
inline bool send_fd(int socket, int fd, uint64_t size) {
  iovec data = {&size, sizeof size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof size;
}

// Receives one, or returns -1: the peer is gone, or something else came. Bound the wait with SO_RCVTIMEO or poll. On a
// stream socket the eight bytes of the size arrive together, as they were sent.
inline int receive_fd(int socket, uint64_t* size) {
  iovec data = {size, sizeof *size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof(int));  // CMSG_SPACE is rounded up, and has room for a second one
  const ssize_t bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* header = bytes < 0 ? nullptr : CMSG_FIRSTHDR(&message);
  if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int)))
    return -1;
  int fd;
  memcpy(&fd, CMSG_DATA(header), sizeof fd);
  if (bytes == sizeof *size && !(message.msg_flags & MSG_CTRUNC)) return fd;
  close(fd);  // it came with others, which are lost, or with part of a size
  return -1;
}
