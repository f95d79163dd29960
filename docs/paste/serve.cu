// SPDX-License-Identifier: MIT-0
#include "meet.cu"
#include "send_fd.cu"

#include <cuda.h>
#include <fcntl.h>
#include <sys/file.h>
#include <thread>

// Memory at a name: a server offers it, and any process of the same user may fetch it, whoever started that. Both sides
// check whose process the other is. No function needs a context, and only gpu_with_uuid needs cuInit.

// One server at a time has the name: it holds a lock on PATH.lock, which the kernel takes back if the process dies.
struct Server {
  int listener = -1, lock = -1;
};

// The first message to a client. An ordinal means nothing to it: CUDA_VISIBLE_DEVICES may number its GPUs otherwise.
struct GpuMessage {
  uint64_t mark = 0x6d656d6f72792067;
  CUuuid gpu = {};
};

// Starts to listen at this path, with mode 0600. Choose a directory that is yours alone, such as $XDG_RUNTIME_DIR. The
// socket of a server that died is removed; a file of another kind is left alone. False: see errno, EADDRINUSE if a
// server is alive there or the path is no socket; nothing stays but PATH.lock, which is never removed. Threads: yes.
inline bool start_server(Server* server, const char* path) {
  char lock_path[sizeof sockaddr_un::sun_path + sizeof ".lock"];
  if (strlen(path) >= sizeof sockaddr_un::sun_path) {
    errno = ENAMETOOLONG;
    return false;
  }
  strcat(strcpy(lock_path, path), ".lock");
  const int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) return false;
  int listener = -1;
  if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
    struct stat found;  // whoever has the lock is alone, so a socket there is of one that died
    if (lstat(path, &found) == 0 && S_ISSOCK(found.st_mode)) unlink(path);
    listener = listen_at(path);
  } else if (errno == EWOULDBLOCK) {
    errno = EADDRINUSE;
  }
  if (listener >= 0 && fcntl(listener, F_SETFL, O_NONBLOCK) == 0) {
    *server = {listener, lock};
    return true;
  }
  const int error = errno;
  if (listener >= 0) close(listener);
  close(lock);
  errno = error;
  return false;
}

// Ends it, and removes the path. Clients keep what they have. No thread may be serving.
inline void stop_server(Server* server, const char* path) {
  unlink(path);  // still under the lock
  close(server->listener);
  close(server->lock);
  *server = {};
}

// Whether a process of this user is at the other end. False: see errno, EPERM if it is somebody else's.
inline bool is_own(int socket) {
  ucred who = {};
  socklen_t size = sizeof who;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return false;
  if (who.uid == getuid()) return true;
  errno = EPERM;
  return false;
}

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

// Server: waits for the next client, so many milliseconds at most, and sends it the descriptor, which stays yours, the
// size, and the GPU's UUID (cuDeviceGetUuid). Returns a socket to the client, or -1. It is yours: close it, or keep it
// to talk; it can be read when the client has gone. -1: see errno. ETIMEDOUT: nobody came. EPERM: somebody else
// came, and got nothing. EPIPE or ECONNRESET: the client has gone. After each of these serve on. Threads: yes, several
// of one server too.
inline int serve_next(const Server& server, int fd, uint64_t size, const CUuuid& gpu, int milliseconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  int client;
  do {
    if (!wait_for(server.listener, deadline)) return -1;
    client = accept_own(server.listener);
  } while (client < 0 && (errno == EAGAIN || errno == EINTR));  // another thread has accepted it
  if (client < 0) return -1;
  GpuMessage message;
  message.gpu = gpu;
  ssize_t sent;  // a new socket has room for both messages
  do sent = send(client, &message, sizeof message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent == sizeof message && send_fd(client, fd, size)) return client;
  const int error = errno;
  close(client);
  errno = error;
  return -1;
}

// What a client gets. Both descriptors are its own: import the memory and close fd, close the socket at the end. The
// socket can be read when the server has gone; the memory stays.
struct Fetched {
  int fd, socket;
  uint64_t size;
  CUuuid gpu;
};

// Client: fetches the memory that a server offers at this path. Waits so many milliseconds at most, for a server to
// appear and to answer. False: see errno, and nothing stays open; *fetched is as before. ETIMEDOUT; EACCES if you may
// not use the path; EPERM if the server is another user's process; ECONNRESET if it has gone; EPROTO if it says
// something else. Threads: yes.
inline bool fetch(Fetched* fetched, const char* path, int milliseconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  sockaddr_un address;
  Fetched result = {};
  for (;;) {
    const int left = milliseconds_until(deadline);
    const timeval patience = {left / 1000, left % 1000 * 1000 + 1};  // 0 would be for ever
    if ((result.socket = socket_for(path, &address)) < 0) return false;
    setsockopt(result.socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);  // a queue that is full
    if (connect(result.socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) break;
    int error = errno;
    close(result.socket);
    const bool passing = error == ENOENT || error == ECONNREFUSED || error == EAGAIN || error == EINTR;
    if (passing && left == 0) error = ETIMEDOUT;
    errno = error;
    if (!passing || left == 0) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(left < 10 ? left : 10));
  }
  const timeval for_ever = {};
  setsockopt(result.socket, SOL_SOCKET, SO_SNDTIMEO, &for_ever, sizeof for_ever);
  GpuMessage message;
  ssize_t bytes = -1;
  if (is_own(result.socket)) {
    do {
      if (!wait_for(result.socket, deadline)) break;
      bytes = recv(result.socket, &message, sizeof message, MSG_DONTWAIT | MSG_TRUNC);  // the packet's real length
    } while (bytes < 0 && (errno == EAGAIN || errno == EINTR));
    if (bytes == 0) errno = ECONNRESET;
    if (bytes > 0) errno = EPROTO;
  }
  if (bytes == sizeof message && message.mark == GpuMessage().mark &&
      (result.fd = receive_fd(result.socket, &result.size, milliseconds_until(deadline))) >= 0) {
    result.gpu = message.gpu;
    *fetched = result;
    return true;
  }
  const int error = errno;
  close(result.socket);
  errno = error;
  return false;
}

// Client: this process's number for the GPU. Error: INVALID_DEVICE if it does not see that GPU, else the driver's.
// Threads: yes. Needs cuInit, and no context.
inline CUresult gpu_with_uuid(CUdevice* device, const CUuuid& uuid) {
  int count;
  CUresult result = cuDeviceGetCount(&count);
  for (int i = 0; i < count && result == CUDA_SUCCESS; ++i) {
    CUdevice each;
    CUuuid its;
    if ((result = cuDeviceGet(&each, i)) != CUDA_SUCCESS) break;
    if ((result = cuDeviceGetUuid(&its, each)) != CUDA_SUCCESS) break;
    if (memcmp(&its, &uuid, sizeof its) == 0) {
      *device = each;
      return CUDA_SUCCESS;
    }
  }
  return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_DEVICE;
}
