// SPDX-License-Identifier: MIT-0
// Processes that one with a driver starts, in each way that there is, and what a process may do to itself.
#include "process_questions.h"

#include <csignal>
#include <filesystem>
#include <set>

#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>

extern char** environ;

static std::string all_of(std::initializer_list<CUresult> answers) {
  std::string all;
  for (const CUresult answer : answers) all += (all.empty() ? "" : ", ") + std::string(check::name(answer));
  return all;
}

// --- fork
SECTION("fork before cuInit") {
  int ends[2];
  EXPECT(pipe(ends) == 0, "no pipe");
  const pid_t child = fork();
  if (child == 0) {
    alarm(patience / 2);
    char word;
    EXPECT(read(ends[0], &word, 1) == 1, "no word");
    say("the child", use_gpu());
    _exit(0);
  }
  say("the parent", use_gpu());
  EXPECT(write(ends[1], "g", 1) == 1, "no pipe");
  say("the child's end", end_of(child));
  say("the parent afterwards", use_gpu());
}
SECTION("fork after cuInit, without a context") {
  CHECK(cuInit(0));
  say("the child's end", in_child([] {
        int count;
        CUdevice device;
        CUcontext context;
        say("cuInit", cuInit(0));
        say("cuDeviceGetCount, cuDeviceGet", all_of({cuDeviceGetCount(&count), cuDeviceGet(&device, 0)}));
        say("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, 0));
        say("cudaGetDeviceCount", cudaGetDeviceCount(&count));
        say("cudaSetDevice", cudaSetDevice(0));
        say("cudaFree", cudaFree(nullptr));
        say("the last error", cudaGetLastError());
      }));
  say("the parent", use_gpu());
}
// A child that exits as the program would, with what the driver has registered for the end.
SECTION("fork while a kernel runs") {
  make_context();
  run_kernel();
  say("a child that exits", in_child([] { std::exit(3); }));
  say("a child that execs this program", run_again("use"));
  say("a child of a thread", [] {
    std::string end;
    std::thread([&] { end = in_child([] { std::exit(3); }); }).join();
    return end;
  }());
  say("the parent's kernel runs", yes(cudaStreamQuery(nullptr) == cudaErrorNotReady));
  *flag = 1;
  say("the parent", cudaDeviceSynchronize());
}
SECTION("fork in a host function") {
  make_context();
  CHECK(cudaLaunchHostFunc(
      nullptr,
      [](void*) {
        say("a child that ends at once", in_child([] { _exit(3); }));
        say("a child that exits", in_child([] { std::exit(3); }));
        say("a child that execs this program", run_again("use"));
      },
      nullptr));
  say("the parent", cudaDeviceSynchronize());
}

// What a child finds in memory of its parent's that the GPU sees too.
template <class Address> static void read_in_child(const char* what, Address address) {
  *reinterpret_cast<volatile int*>(address) = 41;
  say(what, in_child([=] { _exit(*reinterpret_cast<volatile int*>(address)); }));
}
SECTION("what a child finds in its parent's memory") {
  make_context();
  void *pinned, *mapped, *managed;
  CHECK(cudaMallocHost(&pinned, 4096));
  read_in_child("cudaMallocHost", pinned);
  CHECK(cudaHostAlloc(&mapped, 4096, cudaHostAllocMapped | cudaHostAllocPortable));
  read_in_child("cudaHostAlloc", mapped);
  CHECK(cudaMallocManaged(&managed, 4096));
  read_in_child("cudaMallocManaged", managed);
  void* const registered = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(cudaHostRegister(registered, page, cudaHostRegisterDefault));
  read_in_child("cudaHostRegister", registered);
  int value = 0, *memory;
  CHECK(cudaMalloc(&memory, 4));
  CHECK(cudaMemcpy(memory, registered, 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(&value, memory, 4, cudaMemcpyDeviceToHost));
  say("the GPU reads the registered memory, after the forks", std::to_string(value));
}

// --- Other ways to start a program, or to become another process.
SECTION("vfork") {
  make_context();
  static char name[] = "conformance", use[] = "use";
  char* const words[] = {name, use, nullptr};
  pid_t child = vfork();
  if (child == 0) {
    execv("/proc/self/exe", words);
    _exit(126);
  }
  say("vfork and exec", end_of(child));
  child = vfork();
  if (child == 0) _exit(3);
  say("vfork and _exit", end_of(child));
  say("the parent", use_gpu());
}
SECTION("posix_spawn and system") {
  make_context();
  static char name[] = "conformance", use[] = "use";
  char* const words[] = {name, use, nullptr};
  pid_t child = -1;
  const int error = posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, words, environ);
  say("posix_spawn", error ? "error " + std::to_string(error) : end_of(child));
  say("system", "exit " + std::to_string(WEXITSTATUS(std::system("exit 3"))));
  say("the parent", use_gpu());
}
SECTION("exec while a kernel runs") {  // exec without fork
  make_context();
  run_kernel();
  execl("/proc/self/exe", "conformance", "use", nullptr);
}
static void use() { say("this program", use_gpu()); }

static std::set<int> inherited_descriptors() {
  std::set<int> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && !(flags & FD_CLOEXEC)) all.insert(fd);
  }
  return all;
}
SECTION("descriptors") {
  const std::set<int> before = inherited_descriptors();
  CHECK(cuInit(0));
  say("after cuInit, more that a program inherits", yes(inherited_descriptors() != before));
  make_context();
  say("after use_gpu()", use_gpu());
  void* memory;
  CHECK(cudaMallocHost(&memory, 4096));
  CHECK(cudaMallocManaged(&memory, 4096));
  map_new(reserve(page), page);
  say("at work, more that a program inherits", yes(inherited_descriptors() != before));
}

// The line of a process that daemon() makes comes before its starter's, which waits for it.
template <class Before> static void daemonized(Before before) {
  int ends[2];
  EXPECT(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
  const pid_t child = fork();
  if (child == 0) {
    before();
    EXPECT(daemon(1, 1) == 0, "no daemon");
    alarm(patience / 2);
    say("the daemon", use_gpu());
    _exit(0);
  }
  close(ends[1]);
  char word;
  EXPECT(read(ends[0], &word, 1) == 0, "a word");  // all others have ended
  say("who called daemon()", end_of(child));
}
SECTION("daemon() before the first call") {
  daemonized([] {});
}
SECTION("daemon() after cuInit") {
  daemonized([] { CHECK(cuInit(0)); });
}
SECTION("daemon() with a context") {
  daemonized([] { make_context(); });
}

SECTION("setsid") {
  say("setsid before the first call", in_child([] {
        EXPECT(setsid() > 0, "no session");
        say("the first call", use_gpu());
        _exit(0);
      }));
  say("setsid later", in_child([] {
        make_context();
        EXPECT(setsid() > 0, "no session");
        say("the next call", use_gpu());
        std::exit(0);
      }));
}
SECTION("prctl before the first call") {
  prctl(PR_SET_NAME, "another");
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  say("the first call", use_gpu());
  char name[16] = "";
  prctl(PR_GET_NAME, name);
  say("the name", name);
  say("dumpable", std::to_string(prctl(PR_GET_DUMPABLE)));
}
SECTION("prctl later") {
  make_context();
  say("dumpable, after the first call", std::to_string(prctl(PR_GET_DUMPABLE)));
  prctl(PR_SET_NAME, "another");
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  say("the next call", use_gpu());
}
// A process with a driver asks to be killed when its parent ends, which happens while its kernel runs.
SECTION("PR_SET_PDEATHSIG") {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int ends[2];
  EXPECT(pipe(ends) == 0, "no pipe");
  const pid_t parent = fork();
  if (parent == 0) {
    if (fork() == 0) {
      alarm(patience / 2);
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      make_context();
      run_kernel();
      EXPECT(write(ends[1], "r", 1) == 1, "no pipe");
      cudaDeviceSynchronize();
      _exit(3);
    }
    char word;
    EXPECT(read(ends[0], &word, 1) == 1, "no word");
    _exit(0);
  }
  say("its parent", end_of(parent));
  say("the process", end_of(-1));  // whatever child is left
}

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == std::string("use")) {
    alarm(patience / 2);
    return use(), 0;
  }
  return ask_in_sections(argc, argv);
}
