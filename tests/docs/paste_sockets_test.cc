// SPDX-License-Identifier: MIT-0
// The snippets of docs/paste by which processes meet. Messages that are none, peers that are gone, late or too many;
// and each system call failing in turn: the caller learns errno, no descriptor and no path stays, none waits for ever.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

// Of this thread. The call whose turn it is fails with EIO, without being made; 0: none.
static thread_local int calls, failing;
static bool fails() {
  if (++calls != failing) return false;
  errno = EIO;
  return true;
}
#define accept4(...) (fails() ? -1 : accept4(__VA_ARGS__))
#define bind(...) (fails() ? -1 : bind(__VA_ARGS__))
#define connect(...) (fails() ? -1 : connect(__VA_ARGS__))
#define fchmod(...) (fails() ? -1 : fchmod(__VA_ARGS__))
#define fcntl(...) (fails() ? -1 : fcntl(__VA_ARGS__))
#define getsockopt(...) (fails() ? -1 : getsockopt(__VA_ARGS__))
#define listen(...) (fails() ? -1 : listen(__VA_ARGS__))
#define open(...) (fails() ? -1 : open(__VA_ARGS__))
#define poll(...) (fails() ? -1 : poll(__VA_ARGS__))
#define recv(...) (fails() ? -1 : recv(__VA_ARGS__))
#define recvmsg(...) (fails() ? -1 : recvmsg(__VA_ARGS__))
#define send(...) (fails() ? -1 : send(__VA_ARGS__))
#define sendmsg(...) (fails() ? -1 : sendmsg(__VA_ARGS__))
#define setsockopt(...) (fails() ? -1 : setsockopt(__VA_ARGS__))
#define socket(...) (fails() ? -1 : socket(__VA_ARGS__))
#include "../../docs/paste/multicast_processes.cu"
#include "../../docs/paste/serve.cu"
#undef accept4
#undef bind
#undef connect
#undef fchmod
#undef fcntl
#undef getsockopt
#undef listen
#undef open
#undef poll
#undef recv
#undef recvmsg
#undef send
#undef sendmsg
#undef setsockopt
#undef socket

#include "paste_test.h"

constexpr int a_minute = 60000;  // for what comes sooner
static std::string directory, path;

struct Quiet {  // while it lives no call fails, and none is counted
  const int counted = calls, turn = failing;
  Quiet() { failing = 0; }
  ~Quiet() { calls = counted, failing = turn; }
};
static void drain(int listener) {
  for (int peer; (peer = accept4(listener, nullptr, nullptr, 0)) >= 0;) close(peer);
}
static bool is_there() { return access(path.c_str(), F_OK) == 0; }

// act() makes the calls, takes back what it made, and returns 0, or errno if it failed.
template <class Act> static void each_call_fails(const char* what, int least, Act act) {
  bool done = false;
  for (failing = 1; !done; ++failing) {
    const int before = descriptors();
    calls = 0;
    const int error = act();
    done = calls < failing;
    EXPECT(error == (done ? 0 : EIO), "%s: call %d of %d fails, and errno is %d", what, failing, calls, error);
    EXPECT(descriptors() == before, "%s: call %d fails, and leaves %d descriptors", what, failing,
           descriptors() - before);
  }
  EXPECT(failing - 2 >= least, "%s: only %d calls", what, failing - 2);
  std::printf("%s: each of %d calls failed\n", what, failing - 2);
  failing = 0;
}

// Two descriptors where one is expected: refused, and neither stays open.
static void expect_no_lost_fd() {
  int sockets[2], ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0 && pipe(ends) == 0, "no socket pair or no pipe");
  const int both[2] = {ends[1], ends[1]};
  uint64_t size = 0;
  FdMessage content;
  iovec data = {&content, sizeof content};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof both)] = {};
  msghdr message = {};
  message.msg_iov = &data, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof both);
  memcpy(CMSG_DATA(header), both, sizeof both);
  EXPECT(sendmsg(sockets[0], &message, 0) == sizeof content, "not sent");
  close(ends[1]);
  EXPECT(receive_fd(sockets[1], &size, 1000) == -1 && errno == EPROTO, "one of two was taken");
  pollfd end = {ends[0], POLLIN, 0};  // it hangs up when nobody has the other end any more
  EXPECT(poll(&end, 1, 0) == 1 && end.revents & POLLHUP, "a descriptor stayed open");
  for (int each : {ends[0], sockets[0], sockets[1]}) close(each);
}

// A packet that is longer than the message is something else: refused, and its descriptor closed.
static void expect_no_long_packet() {
  int sockets[2], ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0 && pipe(ends) == 0, "no socket pair or no pipe");
  uint64_t sizes[4] = {}, size;
  iovec data = {sizes, sizeof sizes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &ends[1], sizeof(int));
  EXPECT(sendmsg(sockets[0], &message, 0) == sizeof sizes, "not sent");
  close(ends[1]);
  EXPECT(receive_fd(sockets[1], &size, 1000) == -1 && errno == EPROTO, "32 bytes were taken for 16");
  pollfd end = {ends[0], POLLIN, 0};
  EXPECT(poll(&end, 1, 0) == 1 && end.revents & POLLHUP, "a descriptor stayed open");
  for (int each : {ends[0], sockets[0], sockets[1]}) close(each);
}

// Stray bytes before the message are not taken for a size, and the descriptor is closed.
static void expect_no_stray_bytes() {
  int sockets[2], ends[2];
  uint64_t size = 33;
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0 && pipe(ends) == 0, "no socket pair or no pipe");
  EXPECT(write(sockets[0], "tray", 4) == 4 && send_fd(sockets[0], ends[1], 2 << 20), "not sent");
  close(ends[1]);
  for (int tries = 0; tries < 2; ++tries)
    EXPECT(receive_fd(sockets[1], &size, 1000) == -1 && errno == EPROTO && size == 33, "taken, with size %llu",
           (unsigned long long)size);
  pollfd end = {ends[0], POLLIN, 0};
  EXPECT(poll(&end, 1, 0) == 1 && end.revents & POLLHUP, "a descriptor stayed open");
  for (int each : {ends[0], sockets[0], sockets[1]}) close(each);
}

// Signals do not end the wait, and do not make it longer; a peer that goes ends it.
static void expect_bounded_wait() {
  int sockets[2];
  uint64_t size = 0;
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "no socket pair");
  struct sigaction nothing = {};
  nothing.sa_handler = [](int) {};
  sigaction(SIGUSR1, &nothing, nullptr);
  std::thread sender([&, receiver = pthread_self()] {
    const auto moment = std::chrono::milliseconds(50);
    std::this_thread::sleep_for(moment);
    pthread_kill(receiver, SIGUSR1);
    std::this_thread::sleep_for(moment);
    send_fd(sockets[0], 1, 33);
  });
  const int fd = receive_fd(sockets[1], &size, 10000);
  sender.join();
  EXPECT(fd >= 0 && size == 33, "a signal ended the wait");
  close(fd);
  std::atomic<bool> over = false;
  std::thread disturber([&, receiver = pthread_self()] {
    for (int i = 0; i < 1000 && !over; ++i) {
      pthread_kill(receiver, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  const auto began = std::chrono::steady_clock::now();
  EXPECT(receive_fd(sockets[1], &size, 100) == -1 && errno == ETIMEDOUT, "the time did not end the wait");
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
  over = true;
  disturber.join();
  EXPECT(waited.count() > 0.09 && waited.count() < 5, "%f s in place of 0.1", waited.count());
  close(sockets[0]);
  errno = 0;
  EXPECT(receive_fd(sockets[1], &size, 1000) == -1 && errno == ECONNRESET, "the peer has gone, errno is %d", errno);
  close(sockets[1]);
}

// A stream that takes a part of the message only, or nothing: that is said, and not waited for.
static void expect_no_part_of_a_message() {
  int sockets[2];
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "no socket pair");
  static char rest[1 << 20];
  while (send(sockets[0], rest, sizeof rest, MSG_DONTWAIT) > 0) {
  }
  errno = 0;
  const bool sent = send_fd(sockets[0], 1, 33);
  EXPECT(!sent && (errno == EAGAIN || errno == EPROTO), "sent, or errno is %d", errno);
  for (int each : sockets) close(each);
}

// Without a free descriptor the message waits; credentials that come along are no harm.
static void expect_no_lost_descriptor() {
  int sockets[2];
  const int on = 1;
  uint64_t size = 0;
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0, "no socket pair");
  EXPECT(setsockopt(sockets[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0, "no credentials");
  EXPECT(send_fd(sockets[0], 1, 33) && send_fd(sockets[0], 1, 34), "not sent");
  int fd = receive_fd(sockets[1], &size, 1000);
  EXPECT(fd >= 0 && size == 33, "errno is %d", errno);
  close(fd);
  rlimit limit, none;
  EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0, "no limit");
  none = limit;
  none.rlim_cur = rlim_t(fcntl(1, F_DUPFD_CLOEXEC, 0));  // the first that is free
  close(int(none.rlim_cur));
  EXPECT(setrlimit(RLIMIT_NOFILE, &none) == 0, "not limited");
  fd = receive_fd(sockets[1], &size, 1000);
  const int error = errno;
  EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0, "still limited");
  EXPECT(fd == -1 && error == EMFILE && size == 33, "%d, and errno is %d", fd, error);
  fd = receive_fd(sockets[1], &size, 1000);
  EXPECT(fd >= 0 && size == 34, "the message is lost, and errno is %d", errno);
  for (int each : {fd, sockets[0], sockets[1]}) close(each);
}

// Two that meet at a name: messages pass, a name that is taken or too long is refused, and so is one that is not there.
static void expect_to_meet() {
  char directory[] = "/tmp/meetXXXXXX";
  EXPECT(mkdtemp(directory), "no directory");
  const std::string path = std::string(directory) + "/memory", too_long(200, 'x');
  EXPECT(connect_to(path.c_str(), 50) == -1 && errno == ETIMEDOUT, "somebody is there, or errno is %d", errno);
  const int listener = listen_at(path.c_str());
  EXPECT(listener >= 0, "errno is %d", errno);
  struct stat about;
  EXPECT(stat(path.c_str(), &about) == 0 && (about.st_mode & 0777) == 0600, "mode %o", about.st_mode);
  EXPECT(listen_at(path.c_str()) == -1 && errno == EADDRINUSE, "twice, or errno is %d", errno);
  EXPECT(listen_at(too_long.c_str()) == -1 && errno == ENAMETOOLONG, "errno is %d", errno);
  EXPECT(connect_to(too_long.c_str(), 50) == -1 && errno == ENAMETOOLONG, "errno is %d", errno);
  EXPECT(accept_own(listener, 50) == -1 && errno == ETIMEDOUT, "nobody comes, and errno is %d", errno);
  const int importer = connect_to(path.c_str(), 5000), exporter = accept_own(listener, 5000);
  EXPECT(importer >= 0 && exporter >= 0, "errno is %d", errno);
  uint64_t size = 0;
  EXPECT(send_fd(exporter, 1, 33), "not sent");
  const int fd = receive_fd(importer, &size, 1000);
  EXPECT(fd >= 0 && size == 33, "not received");
  for (int each : {fd, importer, exporter}) close(each);
  std::vector<int> queue;  // whoever is not accepted waits there, until it is full
  for (int more = 0; more >= 0; queue.push_back(more)) more = connect_to(path.c_str(), queue.size() < 8 ? 5000 : 50);
  EXPECT(errno == ETIMEDOUT && queue.size() > 8, "%zu waited, and errno is %d", queue.size(), errno);
  for (int each : queue) close(each);
  close(listener);
  EXPECT(connect_to(path.c_str(), 50) == -1 && errno == ETIMEDOUT, "nobody listens, and errno is %d", errno);
  unlink(path.c_str());
  rmdir(directory);
}

static void expect_refused_calls_to_meet() {
  each_call_fails("listen_at", 4, [] {
    const int listener = listen_at(path.c_str()), error = errno;
    EXPECT(is_there() == (listener >= 0), "the path is %s", is_there() ? "there" : "not there");
    if (listener < 0) return error;
    close(listener);
    unlink(path.c_str());
    return 0;
  });
  const int listener = listen_at(path.c_str());
  each_call_fails("connect_to", 5, [] {
    const int peer = connect_to(path.c_str(), a_minute), error = errno;
    if (peer < 0) return error;
    close(peer);
    return 0;
  });
  close(listener);
  unlink(path.c_str());
  each_call_fails("accept_own", 3, [] {
    int ends[2];
    {
      Quiet quiet;
      ends[0] = listen_at(path.c_str());
      ends[1] = connect_to(path.c_str(), a_minute);
    }
    const int peer = accept_own(ends[0], a_minute), error = errno;
    for (int each : ends) close(each);
    unlink(path.c_str());
    if (peer < 0) return error;
    close(peer);
    return 0;
  });
}

static void expect_refused_messages() {
  int ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "no socket pair");
  uint64_t size = 0;
  each_call_fails("send_fd", 1, [&] { return send_fd(ends[0], 1, 33) ? 0 : errno; });
  // A call that failed has not taken the message: the next finds it.
  each_call_fails("receive_fd", 3, [&] {
    const int fd = receive_fd(ends[1], &size, a_minute), error = errno;
    EXPECT((size == 33) == (fd >= 0), "size %d", int(size));
    if (fd < 0) return error;
    close(fd);
    return 0;
  });
  for (int each : ends) close(each);
}

static void expect_refused_calls_to_serve() {
  const auto start = [] {
    Server server;
    const bool started = start_server(&server, path.c_str());
    const int error = errno;
    stop_server(&server, path.c_str());
    return started ? 0 : error;
  };
  each_call_fails("start_server", 8, start);
  each_call_fails("start_server where a server died", 8, [&] {
    {
      Quiet quiet;
      unlink(path.c_str());
      close(listen_at(path.c_str()));
    }
    return start();
  });
  const int listener = listen_at(path.c_str());
  each_call_fails("start_server where somebody listens", 5, [&] {
    const int error = start();
    EXPECT(is_there(), "the path is gone");
    EXPECT(error != 0, "two servers");
    return error == EADDRINUSE ? 0 : error;
  });
  close(listener);
  unlink(path.c_str());

  Server server;
  EXPECT(start_server(&server, path.c_str()), "errno is %d", errno);
  each_call_fails("serve_next", 5, [&] {
    int peer;
    {
      Quiet quiet;
      peer = connect_to(path.c_str(), a_minute);
    }
    const int client = serve_next(server, 1, 33, {}, a_minute), error = errno;
    close(peer);
    drain(server.listener);  // which has it if nobody accepted it
    if (client < 0) return error;
    close(client);
    return 0;
  });
  each_call_fails("fetch", 9, [&] {
    std::atomic<bool> served = false;
    std::thread thread([&] {
      close(serve_next(server, 1, 33, {}, a_minute));
      served = true;
    });
    Fetched fetched = {};
    const bool got = fetch(&fetched, path.c_str(), a_minute);
    const int error = errno;
    EXPECT((fetched.size == 33) == got, "size %d", int(fetched.size));
    Quiet quiet;
    while (!served) close(connect_to(path.c_str(), 10));  // in its place
    thread.join();
    drain(server.listener);
    if (!got) return error;
    close(fetched.fd), close(fetched.socket);
    return 0;
  });
  stop_server(&server, path.c_str());
}

// The team of two that a thread waits in is let go when the other rank has failed.
static void expect_refused_calls_of_a_team() {
  const auto join = [](int rank) {
    Team team;
    const bool joined = join_team(&team, path.c_str(), rank, 2, a_minute);
    const int error = errno;
    EXPECT(joined == (team.rank == rank), "rank %d", team.rank);
    leave_team(&team);
    return joined ? 0 : error;
  };
  each_call_fails("join_team, the first rank", 7, [&] {
    std::thread other([&] { join(1); });
    const int error = join(0);
    EXPECT(!is_there(), "the path is there");
    if (error) {
      const int refuses = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);  // no socket for the other rank
      sockaddr_un address = {};
      address.sun_family = AF_UNIX;
      strcpy(address.sun_path, path.c_str());
      EXPECT(bind(refuses, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "errno is %d", errno);
      EXPECT(listen(refuses, 0) == 0, "errno is %d", errno);
      other.join();
      close(refuses);
      unlink(path.c_str());
    } else {
      other.join();
    }
    return error;
  });
  each_call_fails("join_team, another rank", 5, [&] {
    std::atomic<bool> joined = false;
    std::thread other([&] {
      join(0);
      joined = true;
    });
    const int error = join(1);
    Quiet quiet;
    while (!joined) close(connect_to(path.c_str(), 10));  // in its place
    other.join();
    return error;
  });
  for (const int rank : {0, 1})
    each_call_fails(rank == 0 ? "meet, the first rank" : "meet, another rank", 3, [&] {
      int ends[2];
      EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "no socket pair");
      Team mine = {rank, 2, a_minute, 0, {ends[0]}}, theirs = {1 - rank, 2, a_minute, 0, {ends[1]}};
      std::thread other([&] { meet(&theirs, CUDA_SUCCESS); });
      const CUresult result = meet(&mine, CUDA_SUCCESS);
      const int error = errno;
      EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_OPERATING_SYSTEM, "%s", check::name(result));
      leave_team(&mine);  // now it is a rank that has gone
      other.join();
      leave_team(&theirs);
      return result == CUDA_SUCCESS ? 0 : error;
    });
}

int main() {
  char name[] = "/tmp/pasteXXXXXX";
  EXPECT(mkdtemp(name), "no directory");
  directory = name, path = directory + "/socket";
  expect_no_lost_fd();
  expect_no_long_packet();
  expect_no_stray_bytes();
  expect_no_part_of_a_message();
  expect_bounded_wait();
  expect_no_lost_descriptor();
  expect_to_meet();
  expect_refused_calls_to_meet();
  expect_refused_messages();
  expect_refused_calls_to_serve();
  expect_refused_calls_of_a_team();
  std::filesystem::remove_all(directory);
  puts("OK");
}
