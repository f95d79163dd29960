// SPDX-License-Identifier: MIT-0
#ifndef VMM_MEET_CU
#define VMM_MEET_CU

#include "send_fd.cu"

#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <thread>

// Threads: yes, all of these. Sockets are yours to close, and are closed on exec. After -1 nothing stays; see errno.
// Nobody waits longer than `milliseconds`, whatever signals come: then errno is ETIMEDOUT.

// Whose process is at the other end. False: see errno.
inline bool credentials_of(int socket, ucred* process) {
  socklen_t size = sizeof *process;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, process, &size) == 0;
}

// Returns the socket if a process of this user is at the other end. Else closes it: -1, EPERM if it is somebody else's.
inline int own_or_closed(int socket) {
  ucred process = {};
  const bool known = credentials_of(socket, &process);
  if (known && process.uid == getuid()) return socket;
  const int error = known ? EPERM : errno;
  close(socket);
  errno = error;
  return -1;
}

// A socket that keeps messages apart, and the address of this path; or -1, ENAMETOOLONG if it has 108 bytes or more.
inline int socket_for(const char* path, sockaddr_un* address, int flags = 0) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (strlen(path) >= sizeof address->sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  strcpy(address->sun_path, path);
  return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
}

// Exporter: a socket of this name, which only this user may use; or -1. The name must not be there: unlink it at the
// end, and choose a directory that is yours alone, such as $XDG_RUNTIME_DIR.
inline int listen_at(const char* path) {
  sockaddr_un address;
  const int listener = socket_for(path, &address, SOCK_NONBLOCK);
  if (listener < 0) return -1;
  bool bound = false;
  if (fchmod(listener, 0600) == 0 &&
      (bound = bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) && listen(listener, 8) == 0)
    return listener;
  const int error = errno;
  if (bound) unlink(path);
  close(listener);
  errno = error;
  return -1;
}

// Exporter: a socket to the next importer; or -1, EPERM if it was somebody else's process, which is turned away.
inline int accept_own(int listener, int milliseconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  for (;;) {
    if (!wait_for(listener, deadline)) return -1;
    const int peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer >= 0) return own_or_closed(peer);
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) return -1;  // another thread has accepted it
  }
}

// Importer: a socket to the exporter of this name, also if that begins to listen only now; or -1, EACCES if you may not
// use the path, EPERM if somebody else's process listens there.
inline int connect_to(const char* path, int milliseconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  for (;;) {
    sockaddr_un address;
    const int peer = socket_for(path, &address);
    if (peer < 0) return -1;
    const int left = milliseconds_until(deadline);
    const timeval patience = {left / 1000, left % 1000 * 1000 + 1}, for_ever = {};  // a full queue lets connect wait
    if (setsockopt(peer, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0 &&
        connect(peer, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
        setsockopt(peer, SOL_SOCKET, SO_SNDTIMEO, &for_ever, sizeof for_ever) == 0)
      return own_or_closed(peer);
    const int error = errno;
    close(peer);
    const bool passing = error == ENOENT || error == ECONNREFUSED || error == EAGAIN || error == EINTR;
    errno = passing ? ETIMEDOUT : error;
    if (!passing || left == 0) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(left < 10 ? left : 10));
  }
}

#endif
