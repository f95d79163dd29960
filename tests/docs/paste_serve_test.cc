// SPDX-License-Identifier: MIT-0
// docs/paste/serve.cu at work: a server and clients that are nobody's children, servers that are killed, clients that
// go, another user, messages that are none. `once` is one handover in one process, for each of whose calls to fail.
#include <poll.h>
#include <unistd.h>
#include <atomic>
static std::atomic<uid_t> pretended{uid_t(-1)};  // who this process takes itself for; nobody special
static uid_t own_uid() { return pretended == uid_t(-1) ? getuid() : pretended.load(); }
static std::atomic<int> false_alarms;  // how often poll finds something that another thread then takes
static int poll_or_alarm(pollfd* files, nfds_t count, int milliseconds) {
  if (false_alarms.fetch_sub(1) > 0) return files->revents = POLLIN, 1;
  return poll(files, count, milliseconds);
}
#define poll poll_or_alarm
#define getuid own_uid
#include "../../docs/paste/map_handle.cu"
#include "../../docs/paste/serve.cu"
#include "../../docs/paste/share_fd.cu"
#undef poll
#undef getuid

#include "paste_test.h"

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>

constexpr size_t size = 2 << 20;
using Clock = std::chrono::steady_clock;

static double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}
static bool has_gone(int socket) {
  char byte;
  pollfd end = {socket, POLLIN, 0};
  return poll(&end, 1, 60000) == 1 && recv(socket, &byte, 1, 0) <= 0;
}
static bool has_hung_up(int pipe) {
  pollfd end = {pipe, POLLIN, 0};
  return poll(&end, 1, 60000) == 1 && end.revents & POLLHUP;
}

// A program that init or a reaper adopts: this process is not its parent. What it prints comes by the returned pipe.
static int start_stranger(const std::vector<std::string>& words, const char* visible) {
  int ends[2];
  EXPECT(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
  const pid_t between = fork();
  if (between == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    if (visible) setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    dup2(ends[1], 1);
    std::vector<char*> arguments = {const_cast<char*>("stranger")};
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execv("/proc/self/exe", arguments.data());
    _exit(127);
  }
  int status;
  EXPECT(between > 0 && waitpid(between, &status, 0) == between, "no process");
  close(ends[1]);
  return ends[0];
}
static std::string all_from(int pipe) {
  std::string text;
  char bytes[256];
  for (ssize_t count; (count = read(pipe, bytes, sizeof bytes)) > 0;) text.append(bytes, size_t(count));
  close(pipe);
  return text;
}
static std::string line_from(int pipe) {
  std::string text;
  for (char byte; read(pipe, &byte, 1) == 1 && byte != '\n';) text += byte;
  return text;
}

// The stranger's side: adds one to the value that it finds.
static int client(const char* path) {
  Fetched got;
  if (!fetch(&got, path, 60000)) return std::printf("fetch: %s\n", strerror(errno)), 1;
  CHECK(cuInit(0));
  CUdevice gpu;
  const CUresult found = gpu_with_uuid(&gpu, got.gpu);
  if (found != CUDA_SUCCESS) {
    close(got.fd);
    return std::printf("gpu_with_uuid: %s\n", check::name(found)), 1;
  }
  CHECK(cudaSetDevice(gpu));
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address;
  CHECK(import_and_close(&handle, got.fd));
  CHECK(map_handle(&address, handle, got.size, gpu));
  CHECK(cuMemRelease(handle));
  int value;
  CHECK(cuMemcpyDtoH(&value, address + got.size - 4, 4));
  ++value;
  CHECK(cuMemcpyHtoD(address + got.size - 4, &value, 4));
  CHECK(cudaDeviceSynchronize());
  CHECK(unmap_handle(address, got.size));
  std::printf("GPU %d, value %d\n", gpu, value);
  return 0;  // which also closes the socket, so that the server learns of it
}

static int serve_until_killed(const char* path) {
  Server server;
  if (!start_server(&server, path)) return std::printf("start_server: %s\n", strerror(errno)), 1;
  const pid_t worker = fork();  // it has what this process has open, and lives on
  if (worker == 0) {
    Server copy = {dup(server.listener), server.process};
    stop_server(&copy, path);  // which is its parent's
    std::printf("%d %d\n", getppid(), getpid());
    std::fflush(stdout);
    for (pollfd reader = {1, 0, 0}; poll(&reader, 1, -1) < 0;) continue;
    return 0;
  }
  for (pollfd reader = {1, 0, 0}; poll(&reader, 1, 0) == 0;) serve_next(server, 0, size, {}, 100);
  return 0;  // the test has ended without killing it
}

static std::string directory;
static std::string fresh_path() {
  static int count;
  return directory + "/memory" + std::to_string(++count);
}
static Server started(const std::string& path) {
  Server server;
  EXPECT(start_server(&server, path.c_str()), "not started: %s", strerror(errno));
  return server;
}

static void expect_strangers_to_share(int gpus) {
  const std::string path = fresh_path();
  CUuuid uuid;
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address;
  int fd, value = 41;
  CHECK(cuDeviceGetUuid(&uuid, 0));
  CHECK(create_and_export(&handle, &fd, size, 0));
  CHECK(map_handle(&address, handle, size, 0));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemcpyHtoD(address + size - 4, &value, 4));
  CHECK(cudaDeviceSynchronize());

  const int early = start_stranger({"client", path}, nullptr);  // before there is a server
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  Server server = started(path);
  int socket = serve_next(server, fd, size, uuid, 60000);
  EXPECT(socket >= 0, "not served: %s", strerror(errno));
  EXPECT(all_from(early) == "GPU 0, value 42\n", "the first client");
  EXPECT(has_gone(socket), "the client's end is open");
  close(socket);
  if (gpus > 1) {
    const int other = start_stranger({"client", path}, "1,0");  // the same GPU has another number there
    socket = serve_next(server, fd, size, uuid, 60000);
    EXPECT(socket >= 0, "not served: %s", strerror(errno));
    EXPECT(all_from(other) == "GPU 1, value 43\n", "the client that numbers the GPUs otherwise");
    close(socket);
    const int blind = start_stranger({"client", path}, "1");
    socket = serve_next(server, fd, size, uuid, 60000);
    EXPECT(all_from(blind) == "gpu_with_uuid: CUDA_ERROR_INVALID_DEVICE\n", "the client that does not see the GPU");
    close(socket);
  } else {
    puts("not run: clients that number the GPUs otherwise");
  }
  CHECK(cuMemcpyDtoH(&value, address + size - 4, 4));
  EXPECT(value == (gpus > 1 ? 43 : 42), "the memory has %d", value);
  stop_server(&server, path.c_str());
  EXPECT(access(path.c_str(), F_OK) == -1, "the path is there");
  close(fd);
  CHECK(unmap_handle(address, size));
}

// One server at a name; what a killed one left is no obstacle; what is no socket is left alone.
static void expect_one_server() {
  const std::string path = fresh_path();
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // adopts the server, so that its end can be waited for
  const int output = start_stranger({"server", path}, nullptr);
  int alive = 0, worker = 0;
  EXPECT(std::sscanf(line_from(output).c_str(), "%d %d", &alive, &worker) == 2, "no server");
  for (const std::string& each : {path, path + ".lock"}) {
    struct stat about;
    EXPECT(stat(each.c_str(), &about) == 0 && (about.st_mode & 07777) == 0600, "%s: mode %o", each.c_str(),
           about.st_mode);
  }
  Server server;
  errno = 0;
  EXPECT(!start_server(&server, path.c_str()) && errno == EADDRINUSE, "two servers, or errno is %d", errno);
  stop_server(&server, path.c_str());  // which has not started
  EXPECT(access(path.c_str(), F_OK) == 0, "the other's path is gone");
  EXPECT(kill(alive, SIGKILL) == 0 && waitpid(alive, nullptr, 0) == alive, "it lives");
  EXPECT(access(path.c_str(), F_OK) == 0, "a killed server leaves no path: this tests nothing");
  server = started(path);  // although a child of the other has its socket
  Server second;
  errno = 0;
  EXPECT(!start_server(&second, path.c_str()) && errno == EADDRINUSE, "two servers here, or errno is %d", errno);
  stop_server(&server, path.c_str());
  EXPECT(kill(worker, SIGKILL) == 0 && has_hung_up(output), "it lives");
  close(output);
  while (wait(nullptr) > 0) continue;
  prctl(PR_SET_CHILD_SUBREAPER, 0);

  for (const int type : {SOCK_SEQPACKET, SOCK_STREAM}) {  // servers that have no lock
    const int listener = ::socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    sockaddr_un address;
    close(socket_for(path.c_str(), &address));
    EXPECT(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && listen(listener, 0) == 0,
           "errno is %d", errno);
    for (const char* state : {"waits", "has a full queue"}) {
      errno = 0;
      EXPECT(!start_server(&server, path.c_str()) && errno == EADDRINUSE, "started, or errno is %d", errno);
      EXPECT(access(path.c_str(), F_OK) == 0, "a listener %s, and its path is gone", state);
    }
    close(listener);
    server = started(path);
    stop_server(&server, path.c_str());
  }
  const int lock = open((path + ".lock").c_str(), O_RDWR | O_CLOEXEC);
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  EXPECT(fcntl(lock, F_OFD_SETLK, &whole) == 0, "errno is %d", errno);
  errno = 0;
  EXPECT(!start_server(&server, path.c_str()) && errno == EADDRINUSE, "two begin, or errno is %d", errno);
  close(lock);

  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  EXPECT(write(file, "mine", 4) == 4, "not written");
  close(file);
  errno = 0;
  EXPECT(!start_server(&server, path.c_str()) && errno == EADDRINUSE, "started, or errno is %d", errno);
  EXPECT(std::filesystem::file_size(path) == 4, "the file is harmed");
  const std::string linked = fresh_path();
  EXPECT(symlink(path.c_str(), (linked + ".lock").c_str()) == 0, "no link");
  EXPECT(!start_server(&server, linked.c_str()) && errno == ELOOP, "a link is followed, or errno is %d", errno);
  const std::string too_long = "/tmp/" + std::string(200, 'x');
  EXPECT(!start_server(&server, too_long.c_str()) && errno == ENAMETOOLONG, "errno is %d", errno);
  Fetched got;
  EXPECT(!fetch(&got, too_long.c_str(), 1000) && errno == ENAMETOOLONG, "errno is %d", errno);
}

// A client that goes, nobody at all, and another user's process: the server serves on.
static void expect_to_serve_on() {
  const std::string path = fresh_path();
  Server server = started(path);
  errno = 0;
  const auto began = Clock::now();
  EXPECT(serve_next(server, 0, size, {}, 100) == -1 && errno == ETIMEDOUT, "errno is %d", errno);
  EXPECT(seconds_since(began) > 0.09 && seconds_since(began) < 10, "%f s in place of 0.1", seconds_since(began));
  errno = 0;
  false_alarms = 3;
  EXPECT(serve_next(server, 0, size, {}, 100) == -1 && errno == ETIMEDOUT, "errno is %d", errno);
  close(connect_to(path.c_str(), 60000));
  errno = 0;
  EXPECT(serve_next(server, 0, size, {}, 1000) == -1 && (errno == EPIPE || errno == ECONNRESET), "errno is %d", errno);

  int ends[2], socket;
  EXPECT(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
  const int stranger = connect_to(path.c_str(), 60000);
  pretended = getuid() + 1;
  errno = 0;
  EXPECT(serve_next(server, ends[1], size, {}, 1000) == -1 && errno == EPERM, "served, or errno is %d", errno);
  pretended = uid_t(-1);
  uint64_t received;
  errno = 0;
  EXPECT(receive_fd(stranger, &received, 1000) == -1 && errno == ECONNRESET, "got something; errno is %d", errno);
  close(stranger);

  Fetched got = {};
  got.fd = 77;
  std::thread thread([&] { socket = serve_next(server, ends[1], size, {}, 60000); });
  pretended = getuid() + 1;
  Fetched other;
  // The server is somebody else's to the client; and the server, of this process too, may refuse the client first.
  errno = 0;
  EXPECT(!fetch(&other, path.c_str(), 60000) && (errno == EPERM || errno == ECONNRESET), "errno is %d", errno);
  thread.join();
  pretended = uid_t(-1);
  if (socket >= 0) close(socket);
  const int before = descriptors();
  CUuuid uuid = {};
  uuid.bytes[3] = 5;
  std::thread again([&] { socket = serve_next(server, ends[1], 12345, uuid, 60000); });
  EXPECT(fetch(&got, path.c_str(), 60000), "%s", strerror(errno));
  again.join();
  EXPECT(got.size == 12345 && got.gpu.bytes[3] == 5 && socket >= 0, "size %llu", (unsigned long long)got.size);
  EXPECT((fcntl(got.fd, F_GETFD) & FD_CLOEXEC) && (fcntl(got.socket, F_GETFD) & FD_CLOEXEC), "a child would have them");
  close(ends[1]);
  close(got.fd);
  EXPECT(has_hung_up(ends[0]), "a descriptor is left open");
  close(socket);
  EXPECT(has_gone(got.socket), "the server's end is open");
  close(got.socket);
  close(ends[0]);
  EXPECT(descriptors() == before - 2, "%d descriptors, and %d before", descriptors(), before - 2);
  stop_server(&server, path.c_str());
}

// A client of a server that is another user's: a listener whose credentials are checked before a word is read.
static void expect_no_other_server() {
  const std::string path = fresh_path();
  const int listener = listen_at(path.c_str());
  pretended = getuid() + 1;
  Fetched got;
  errno = 0;
  EXPECT(!fetch(&got, path.c_str(), 60000) && errno == EPERM, "errno is %d", errno);
  pretended = uid_t(-1);
  close(listener);
}

// A server that says other things, or goes in mid-sentence, or says nothing. Then no descriptor stays open.
static void expect_no_other_words() {
  const std::string path = fresh_path();
  const int listener = listen_at(path.c_str()), before = descriptors();
  const GpuMessage right;
  GpuMessage wrong;
  wrong.mark ^= 1;
  int ends[2];
  const struct {
    const char* what;
    int expected;
    std::function<void(int)> say;
  } cases[] = {
      {"nothing, and gone", ECONNRESET, [](int) {}},
      {"half a message", EPROTO, [&](int to) { send(to, &right, sizeof right / 2, 0); }},
      {"too long a message", EPROTO,
       [&](int to) {
         char bytes[sizeof right + 1] = {};
         memcpy(bytes, &right, sizeof right);
         send(to, bytes, sizeof bytes, 0);
       }},
      {"another mark", EPROTO, [&](int to) { send(to, &wrong, sizeof wrong, 0); }},
      {"the GPU, and gone", ECONNRESET, [&](int to) { send(to, &right, sizeof right, 0); }},
      {"the GPU twice", EPROTO,
       [&](int to) {
         send(to, &right, sizeof right, 0);
         send(to, &right, sizeof right, 0);
       }},
      {"the descriptor first", EPROTO, [&](int to) { send_fd(to, ends[1], size); }},
  };
  for (const auto& each : cases) {
    EXPECT(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
    std::thread server([&] {
      const int client = accept_own(listener, 60000);
      each.say(client);
      close(client);
    });
    Fetched got = {};
    got.fd = 77;
    errno = 0;
    EXPECT(!fetch(&got, path.c_str(), 60000) && errno == each.expected, "%s: errno is %d", each.what, errno);
    server.join();
    EXPECT(got.fd == 77, "%s: *fetched is changed", each.what);
    close(ends[1]);
    EXPECT(has_hung_up(ends[0]), "%s: a descriptor is left open", each.what);
    close(ends[0]);
    EXPECT(descriptors() == before, "%s: %d descriptors are left", each.what, descriptors() - before);
  }
  // Silent, and with its queue full: the client's wait ends in time.
  std::vector<int> waiting;
  for (int i = 0; i < 20; ++i) {
    const auto began = Clock::now();
    Fetched got;
    errno = 0;
    false_alarms = 3;
    EXPECT(!fetch(&got, path.c_str(), 100) && errno == ETIMEDOUT, "errno is %d", errno);
    EXPECT(seconds_since(began) > 0.09 && seconds_since(began) < 10, "%f s in place of 0.1", seconds_since(began));
    if (i < 10) {  // at last the queue has no room
      sockaddr_un address;
      const int one = socket_for(path.c_str(), &address);
      fcntl(one, F_SETFL, O_NONBLOCK);
      if (connect(one, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) i = 18;
      waiting.push_back(one);
    }
  }
  for (int each : waiting) close(each);
  close(listener);
  errno = 0;
  Fetched got;
  const auto began = Clock::now();
  EXPECT(!fetch(&got, path.c_str(), 100) && errno == ETIMEDOUT, "nobody listens, and errno is %d", errno);
  EXPECT(seconds_since(began) < 10, "%f s in place of 0.1", seconds_since(began));
  EXPECT(descriptors() == before - 1, "%d descriptors are left", descriptors() - before + 1);
}

// Several threads serve, and several fetch.
static void expect_threads() {
  const std::string path = fresh_path();
  Server server = started(path);
  int ends[2];
  EXPECT(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
  std::atomic<int> served{0}, fetched{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (served < 40) {
        const int socket = serve_next(server, ends[1], size, {}, 200);
        if (socket >= 0) ++served, close(socket);
        else EXPECT(errno == ETIMEDOUT, "%s", strerror(errno));
      }
    });
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 10; ++k) {
        Fetched got;
        EXPECT(fetch(&got, path.c_str(), 30000) && got.size == size, "%s", strerror(errno));
        close(got.fd), close(got.socket);
        ++fetched;
      }
    });
  for (auto& each : threads) each.join();
  EXPECT(served == 40 && fetched == 40, "%d served, %d fetched", served.load(), fetched.load());
  stop_server(&server, path.c_str());
  for (int each : ends) close(each);
}

// One handover in one process. Returns the first error, and leaves nothing behind: an undo that failed is called again.
static CUresult once() {
  const std::string path = fresh_path();
  Server server = started(path);
  CUmemGenericAllocationHandle handle, imported;
  CUuuid uuid = {};
  Fetched got;
  CUdeviceptr address = 0;
  CUdevice gpu = -1;
  int fd = -1, socket = -1;
  CHECK(cuDeviceGetUuid(&uuid, 0));
  CUresult result = create_and_export(&handle, &fd, size, 0);
  if (result == CUDA_SUCCESS) {
    std::thread thread([&] { socket = serve_next(server, fd, size, uuid, 60000); });
    const bool fetched = fetch(&got, path.c_str(), 60000);
    thread.join();
    EXPECT(fetched && socket >= 0, "not fetched");
    close(fd), close(socket), close(got.socket);
    result = gpu_with_uuid(&gpu, got.gpu);
    EXPECT((gpu == 0) == (result == CUDA_SUCCESS), "GPU %d after %s", gpu, check::name(result));
    if (result == CUDA_SUCCESS) result = import_and_close(&imported, got.fd);
    else close(got.fd);
    if (result == CUDA_SUCCESS) {
      result = map_handle(&address, imported, got.size, gpu);
      CHECK(cuMemRelease(imported));
      if (result == CUDA_SUCCESS && (result = unmap_handle(address, got.size)) != CUDA_SUCCESS)
        CHECK(unmap_handle(address, got.size));
    }
    CHECK(cuMemRelease(handle));
  }
  stop_server(&server, path.c_str());
  return result;
}

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "client") == 0) return client(argv[2]);
  if (argc == 3 && strcmp(argv[1], "server") == 0) return serve_until_killed(argv[2]);
  char name[] = "/tmp/pasteXXXXXX";
  EXPECT(mkdtemp(name), "no directory");
  directory = name;
  const int gpus = check::require_gpus(1);
  CUresult result = CUDA_SUCCESS;
  if (argc == 2 && strcmp(argv[1], "once") == 0) {
    result = once();
  } else {
    CHECK(cudaSetDevice(0));
    expect_strangers_to_share(gpus);
    expect_one_server();
    expect_to_serve_on();
    expect_no_other_server();
    expect_no_other_words();
    expect_threads();
    const int before = descriptors();
    CHECK(once());
    EXPECT(descriptors() == before, "%d descriptors are left", descriptors() - before);
  }
  std::filesystem::remove_all(directory);
  puts(result == CUDA_SUCCESS ? "OK" : check::name(result));
  return result != CUDA_SUCCESS;
}
