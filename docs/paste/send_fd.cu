// SPDX-License-Identifier: MIT-0
#ifndef VMM_SEND_FD_CU
#define VMM_SEND_FD_CU

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

// Milliseconds from now until then, 0 if that is past.
inline int milliseconds_until(std::chrono::steady_clock::time_point then) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(then - std::chrono::steady_clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

// Waits until something can be read or accepted. False: see errno, ETIMEDOUT if nothing came.
inline bool wait_for(int socket, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    pollfd readable = {socket, POLLIN, 0};
    const int ready = poll(&readable, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready == 0) errno = ETIMEDOUT;
    if (ready == 0 || errno != EINTR) return false;
  }
}

// What a descriptor travels with: a mark, by which the receiver knows the message, and the size of the memory, which
// the descriptor does not tell.
struct FdMessage {
  uint64_t mark = 0x6d656d6f72792066;
  uint64_t size = 0;
};

// Sends one file descriptor over a connected Unix socket, best a SOCK_SEQPACKET. size: bytes of the memory. The fd
// stays open here, and yours: close it afterwards. Waits for nothing. False: see errno, EAGAIN if the receiver has left
// so many messages unread that there is no room; EPROTO if a stream took a part of the message: then close the socket.
// Threads: yes, each with a socket of its own.
inline bool send_fd(int socket, int fd, uint64_t size) {
  FdMessage content;
  content.size = size;
  iovec data = {&content, sizeof content};
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
  const ssize_t bytes = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (bytes >= 0 && bytes != sizeof content) errno = EPROTO;
  return bytes == sizeof content;
}

// Receives one, which is yours to close, or returns -1. Waits for so many milliseconds at most, whatever signals come.
// After -1 *size is as before, no descriptor is left open, and errno is ETIMEDOUT; ECONNRESET if the peer has gone;
// EMFILE or ENFILE if no descriptor is free: close some, and receive the message then; EPROTO if something else came
// than one whole message with one descriptor, or another thread took the last that was free: then close the socket.
// Threads: yes, each with a socket of its own.
inline int receive_fd(int socket, uint64_t* size, int milliseconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  FdMessage content;
  iovec data = {&content, sizeof content};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int))];  // first those of SO_PASSCRED
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t bytes;
  do {
    if (!wait_for(socket, deadline)) return -1;
    const int spare = fcntl(socket, F_DUPFD_CLOEXEC, 0);  // without a free one Linux would drop the message's
    if (spare < 0) return -1;
    close(spare);
    bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (bytes < 0 && (errno == EINTR || errno == EAGAIN));
  if (bytes < 0) return -1;
  int fd = -1, count = 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof fd) <= header->cmsg_len; at += sizeof fd, ++count) {
      if (fd >= 0) close(fd);  // only one is wanted
      memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
    }
  }
  const bool right = bytes == sizeof content && content.mark == FdMessage().mark;
  if (count == 1 && right && !(message.msg_flags & (MSG_CTRUNC | MSG_TRUNC))) {
    *size = content.size;
    return fd;
  }
  if (fd >= 0) close(fd);  // it came with others, or with something else
  errno = bytes == 0 && count == 0 ? ECONNRESET : EPROTO;
  return -1;
}

#endif
