// SPDX-License-Identifier: MIT-0
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

// Threads: yes, all of these. Sockets are yours to close, and are closed on exec. After -1 nothing stays; see errno.

// A socket that keeps messages apart, and the address of this path; or -1, ENAMETOOLONG if it has 108 bytes or more.
inline int socket_for(const char* path, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (strlen(path) >= sizeof address->sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  strcpy(address->sun_path, path);
  return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

// Exporter: a socket of this name, which only this user may use; or -1. The name must not be there: unlink it at the
// end, and choose a directory that is yours alone, such as $XDG_RUNTIME_DIR.
inline int listen_at(const char* path) {
  sockaddr_un address;
  const int listener = socket_for(path, &address);
  if (listener < 0) return -1;
  if (fchmod(listener, 0600) == 0 && bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      listen(listener, 8) == 0)
    return listener;
  close(listener);
  return -1;
}

// Exporter: waits for the next importer, and returns a socket to it; or -1. Somebody else's process is refused (EPERM).
// It waits without a limit, but for a signal (EINTR): to wait no longer than so long, poll the listener before.
inline int accept_own(int listener) {
  const int peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (peer < 0) return -1;
  ucred who = {};
  socklen_t size = sizeof who;
  if (getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == getuid()) return peer;
  close(peer);
  errno = EPERM;
  return -1;
}

// Importer: a socket to the exporter of this name; or -1, ENOENT or ECONNREFUSED while nobody listens there.
inline int connect_to(const char* path) {
  sockaddr_un address;
  const int peer = socket_for(path, &address);
  if (peer < 0) return -1;
  if (connect(peer, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return peer;
  close(peer);
  return -1;
}
