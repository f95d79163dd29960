// SPDX-License-Identifier: MIT-0
// What the conformance programs share: each prints one line for a question put to the driver, "what: ANSWER". The
// answers were recorded on hardware, and the simulator must give the same.
#pragma once
#include "check.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

constexpr size_t MiB = 1 << 20, page = 2 * MiB;

inline CUresult say(const std::string& what, CUresult answer) {
  std::printf("%s: %s\n", what.c_str(), check::name(answer));
  return answer;
}
inline cudaError_t say(const std::string& what, cudaError_t answer) {
  std::printf("%s: %s\n", what.c_str(), check::name(answer));
  return answer;
}
inline void say(const std::string& what, const std::string& answer) {
  std::printf("%s: %s\n", what.c_str(), answer.c_str());
}
// An answer without its prefix: "SUCCESS", "INVALID_VALUE".
inline std::string brief(CUresult answer) {
  const std::string all = check::name(answer);
  return all.substr(all.rfind("CUDA_ERROR_", 0) == 0 ? 11 : 5);
}
// Several answers, asked from left to right if the list is in braces.
inline std::string listed(std::initializer_list<std::string> answers) {
  std::string all;
  for (const std::string& each : answers) all += (all.empty() ? "" : "; ") + each;
  return all;
}
inline void section(const std::string& title) { std::printf("[%s]\n", title.c_str()); }
inline std::string yes(bool it) { return it ? "yes" : "no"; }

// Of the programs NAME_peers: two GPUs, one of which reaches the other.
inline void require_peers() {
  check::require_gpus(2);
  int reaches = 0;
  CHECK(cudaDeviceCanAccessPeer(&reaches, 1, 0));
  REQUIRE(reaches, "GPU 1 cannot reach GPU 0; use GPUs on one NVSwitch");
}

inline CUmemAllocationProp on_gpu(int gpu, unsigned types = CU_MEM_HANDLE_TYPE_NONE) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = gpu;
  properties.requestedHandleTypes = CUmemAllocationHandleType(types);
  return properties;
}
inline CUmemAccessDesc access_of(int gpu, unsigned flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  CUmemAccessDesc descriptor = {};
  descriptor.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  descriptor.location.id = gpu;
  descriptor.flags = CUmemAccess_flags(flags);
  return descriptor;
}
inline CUdeviceptr reserve(size_t size) {
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  return address;
}
inline CUmemGenericAllocationHandle create(size_t size, int gpu = 0, unsigned types = CU_MEM_HANDLE_TYPE_NONE) {
  CUmemAllocationProp properties = on_gpu(gpu, types);
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, size, &properties, 0));
  return handle;
}
// Memory at `address`, with no handle left; without access if `flags` is 0.
inline void map_new(CUdeviceptr address, size_t size, unsigned flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                    int gpu = 0) {
  CUmemGenericAllocationHandle handle = create(size, gpu);
  CHECK(cuMemMap(address, size, 0, handle, 0));
  CHECK(cuMemRelease(handle));
  CUmemAccessDesc descriptor = access_of(gpu, flags);
  if (flags) CHECK(cuMemSetAccess(address, size, &descriptor, 1));
}
inline void unmap_and_free(CUdeviceptr address, size_t mapped, size_t reserved) {
  if (mapped) CHECK(cuMemUnmap(address, mapped));
  CHECK(cuMemAddressFree(address, reserved));
}
inline size_t free_bytes() {
  size_t free_now, total;
  CHECK(cuMemGetInfo(&free_now, &total));
  return free_now;
}
inline std::string mib(long long bytes) { return std::to_string(bytes / (long long)MiB) + " MiB"; }

// How a process ended: "exit 0", "signal 11". Of any child if it is -1.
inline std::string end_of(pid_t process) {
  int status = 0;
  if (waitpid(process, &status, 0) < 0) return "no child process";
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                             : "exit " + std::to_string(WEXITSTATUS(status));
}

// Runs this program again with these arguments, and waits. Returns how it ended.
inline std::string run_again(const std::string& first, const std::string& second = "") {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "conformance", first.c_str(), second.empty() ? nullptr : second.c_str(), nullptr);
    _exit(126);
  }
  return end_of(child);
}

// SECTION("name") { ... } is a section of the program: what stands there is asked in the order of the sections.
struct Section {
  std::string name;
  void (*run)();
};
inline std::vector<Section>& sections() {
  static std::vector<Section> all;
  return all;
}
struct AddedSection {
  explicit AddedSection(const Section& it) { sections().push_back(it); }
};
#define SECTION(name) SECTION_AT(name, __LINE__)
#define SECTION_AT(name, line) SECTION_OF(name, line)
#define SECTION_OF(name, line)                                    \
  static void section_##line();                                   \
  static const AddedSection added_##line({name, section_##line}); \
  static void section_##line()

// Runs the sections, each in a process of its own that begins with `set_up`: [its name], its lines, how it ended.
inline int run_sections(int argc, char** argv, void (*set_up)() = [] {}) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);  // what was said before a crash is not lost
  if (argc > 1) {
    for (const Section& each : sections())
      if (argv[1] == each.name) set_up(), each.run();
    return 0;
  }
  check::require_gpus(1);
  for (const Section& each : sections()) {
    section(each.name);
    say("end", run_again(each.name));
  }
  std::puts("OK");
  return 0;
}

// Starts this program again with a role. The two have a socket between them: descriptor 3 there, *peer here.
inline pid_t start_in_role(const char* role, int* peer) {
  int ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "no socket");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 3);
    fcntl(3, F_SETFD, 0);
    execl("/proc/self/exe", "conformance", role, nullptr);
    _exit(126);
  }
  close(ends[1]);
  *peer = ends[0];
  return child;
}

// Runs this program again with `part` and the number of a question, 0 first. It asks one a line from that on, and says
// what it asks before it asks. Where it crashes, it is run again from the next question on.
inline void ask_through_crashes(const std::string& part) {
  for (int question = 0, status = 0;; ++question) {
    int ends[2];
    EXPECT(pipe(ends) == 0, "no pipe");
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      dup2(ends[1], STDOUT_FILENO);
      close(ends[0]), close(ends[1]);
      execl("/proc/self/exe", "conformance", part.c_str(), std::to_string(question).c_str(), nullptr);
      _exit(126);
    }
    close(ends[1]);
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
      std::fwrite(buffer, 1, n, stdout);
      for (ssize_t i = 0; i < n; ++i) question += buffer[i] == '\n';
    }
    close(ends[0]);
    EXPECT(child > 0 && waitpid(child, &status, 0) == child, "no child process");
    if (!WIFSIGNALED(status)) return;
    std::printf("signal %d\n", WTERMSIG(status));
  }
}
