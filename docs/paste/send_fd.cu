// SPDX-License-Identifier: MIT-0
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
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
  ssize_t bytes;
  do bytes = sendmsg(socket, &message, MSG_NOSIGNAL);
  while (bytes < 0 && errno == EINTR);
  return bytes == sizeof size;
}

// Receives one, or returns -1. errno is then EAGAIN if the time of SO_RCVTIMEO has passed (set it, or the wait may not
// end), ECONNRESET if the peer has gone, EPROTO if something else came. A signal does not end the wait. On a stream
// socket the eight bytes of the size arrive together, as they were sent.
inline int receive_fd(int socket, uint64_t* size) {
  iovec data = {size, sizeof *size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof(int));  // CMSG_SPACE is rounded up, and has room for a second one
  ssize_t bytes;
  do bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (bytes < 0 && errno == EINTR);
  if (bytes < 0) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  int fd = -1;
  if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof fd))
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
  if (fd >= 0 && bytes == sizeof *size && !(message.msg_flags & (MSG_CTRUNC | MSG_TRUNC))) return fd;
  if (fd >= 0) close(fd);  // it came with others, which are lost, or with too few or too many bytes
  errno = bytes == 0 && fd < 0 ? ECONNRESET : EPROTO;
  return -1;
}
