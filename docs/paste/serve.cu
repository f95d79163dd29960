// SPDX-License-Identifier: MIT-0
#ifndef VMM_SERVE_CU
#define VMM_SERVE_CU

#include "meet.cu"
#include "send_fd.cu"

#include <cuda.h>
#include <fcntl.h>
#include <signal.h>

// Memory at a name: a server offers it, and any process of the same user may fetch it, whoever started that. Both sides
// check whose process the other is. No function needs a context, and only gpu_with_uuid needs cuInit.

struct Server {
  int listener = -1;
  pid_t process = -1;
};

// The first message to a client. An ordinal means nothing to it: CUDA_VISIBLE_DEVICES may number its GPUs otherwise.
struct GpuMessage {
  uint64_t mark = 0x6d656d6f72792067;
  CUuuid gpu = {};
};

// Whether nobody listens at this path, or a process that has died: a child of it may still hold the socket, and will
// not accept. False: see errno, EADDRINUSE if a process listens.
inline bool is_free(const char* path) {
  sockaddr_un address;
  ucred process = {};
  const int probe = socket_for(path, &address, SOCK_NONBLOCK);
  if (probe < 0) return false;
  bool is_free = false;
  int error = EADDRINUSE;
  if (connect(probe, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    is_free = errno == ENOENT || errno == ECONNREFUSED;
    if (errno != EAGAIN && errno != EPROTOTYPE) error = errno;  // a full queue; a socket of another type
  } else if (!credentials_of(probe, &process)) {
    error = errno;
  } else if (process.pid > 0) {  // 0 is a process that this one cannot see
    is_free = kill(process.pid, 0) != 0 && errno == ESRCH;
  }
  close(probe);
  errno = error;
  return is_free;
}

// Starts to listen at this path, with mode 0600, in the process that will serve: call it after a fork, not before.
// Choose a directory that is yours alone, such as $XDG_RUNTIME_DIR. The socket of a server that died is removed; a file
// of another kind is left alone. False: see errno, EADDRINUSE if a process that lives listens there, or just begins to,
// or the path is no socket. PATH.lock stays, and is never removed. Threads: yes, but one at a time for the same path.
inline bool start_server(Server* server, const char* path) {
  char lock_path[sizeof sockaddr_un::sun_path + sizeof ".lock"];
  if (strlen(path) >= sizeof sockaddr_un::sun_path) {
    errno = ENAMETOOLONG;
    return false;
  }
  strcat(strcpy(lock_path, path), ".lock");
  const int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) return false;
  struct flock whole = {};  // so that of two that find a dead server's socket one takes over
  whole.l_type = F_WRLCK;
  int listener = -1;
  if (fcntl(lock, F_SETLK, &whole) != 0) {
    if (errno == EACCES || errno == EAGAIN) errno = EADDRINUSE;
  } else if (is_free(path)) {
    struct stat found;
    if (lstat(path, &found) == 0 && S_ISSOCK(found.st_mode)) unlink(path);
    listener = listen_at(path);
  }
  const int error = errno;
  close(lock);
  errno = error;
  if (listener < 0) return false;
  *server = {listener, getpid()};
  return true;
}

// Ends it, and removes the path. Clients keep what they have. No thread may be serving. Of a server that did not start
// it takes nothing; in a forked child it only closes the child's descriptor.
inline void stop_server(Server* server, const char* path) {
  if (server->process == getpid()) unlink(path);  // before the listener: then nobody else has the path
  close(server->listener);
  *server = {};
}

// Server: waits for the next client, so many milliseconds at most, and sends it the descriptor, which stays yours, the
// size, and the GPU's UUID (cuDeviceGetUuid). Returns a socket to the client, or -1. It is yours: close it, or keep it
// to talk; it can be read when the client has gone. -1: see errno. ETIMEDOUT: nobody came. EPERM: somebody else
// came, and got nothing. EPIPE or ECONNRESET: the client has gone. After each of these serve on. Threads: yes, several
// of one server too.
inline int serve_next(const Server& server, int fd, uint64_t size, const CUuuid& gpu, int milliseconds) {
  const int client = accept_own(server.listener, milliseconds);
  if (client < 0) return -1;
  GpuMessage message;
  message.gpu = gpu;
  const ssize_t sent = send(client, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);  // there is room for both
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
  Fetched result = {};
  if ((result.socket = connect_to(path, milliseconds)) < 0) return false;
  GpuMessage message;
  ssize_t bytes = -1;
  do {
    if (!wait_for(result.socket, deadline)) break;
    bytes = recv(result.socket, &message, sizeof message, MSG_DONTWAIT | MSG_TRUNC);  // the packet's real length
  } while (bytes < 0 && (errno == EAGAIN || errno == EINTR));
  if (bytes == 0) errno = ECONNRESET;
  if (bytes > 0) errno = EPROTO;
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
    CUdevice gpu;
    CUuuid found;
    if ((result = cuDeviceGet(&gpu, i)) != CUDA_SUCCESS) break;
    if ((result = cuDeviceGetUuid(&found, gpu)) != CUDA_SUCCESS) break;
    if (memcmp(&found, &uuid, sizeof found) == 0) {
      *device = gpu;
      return CUDA_SUCCESS;
    }
  }
  return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_DEVICE;
}

#endif
