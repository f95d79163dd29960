// SPDX-License-Identifier: MIT-0
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

// What a descriptor travels with: a mark, by which the receiver knows the message, and the size of the memory, which
// the descriptor does not tell.
struct FdMessage {
  uint64_t mark = 0x6d656d6f72792066;
  uint64_t size = 0;
};

// Sends one file descriptor over a connected Unix socket, best a SOCK_SEQPACKET. size: bytes of the memory. The fd
// stays open here, and yours: close it afterwards. Waits until the socket has room, unless the socket does not block.
// False: see errno. It is EPROTO if a stream took a part of the message; then close the socket. Threads: yes, each with
// a socket of its own.
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
  ssize_t bytes;
  do bytes = sendmsg(socket, &message, MSG_NOSIGNAL);
  while (bytes < 0 && errno == EINTR);
  if (bytes >= 0 && bytes != sizeof content) errno = EPROTO;
  return bytes == sizeof content;
}

// Receives one, which is yours to close, or returns -1. Waits for so many milliseconds at most, whatever signals come.
// After -1 *size is as before, no descriptor is left open, and errno is ETIMEDOUT; ECONNRESET if the peer has gone;
// EPROTO if something else came than one whole message with one descriptor: then close the socket. Threads: yes, each
// with a socket of its own.
inline int receive_fd(int socket, uint64_t* size, int milliseconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(milliseconds);
  FdMessage content;
  iovec data = {&content, sizeof content};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof(int));  // CMSG_SPACE is rounded up, and has room for a second one
  ssize_t bytes = -1;
  do {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd readable = {socket, POLLIN, 0};
    const int ready = poll(&readable, 1, left > 0 ? static_cast<int>(left) : 0);
    if (ready == 0) {
      errno = ETIMEDOUT;
      return -1;
    }
    if (ready > 0) bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (bytes < 0 && (errno == EINTR || errno == EAGAIN));
  if (bytes < 0) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  int fd = -1;
  if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof fd))
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
  const bool right = bytes == sizeof content && content.mark == FdMessage().mark;
  if (fd >= 0 && right && !(message.msg_flags & (MSG_CTRUNC | MSG_TRUNC))) {
    *size = content.size;
    return fd;
  }
  if (fd >= 0) close(fd);  // it came with others, which are lost, or with something else
  errno = bytes == 0 && fd < 0 ? ECONNRESET : EPROTO;
  return -1;
}
