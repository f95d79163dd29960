// SPDX-License-Identifier: MIT-0
// docs/paste/multicast_processes.cu at work, each rank a process with a GPU of its own. It makes multicast objects: for
// simulated GPUs. Ranks that fail, die, are late or may not; `once` is one life of an object, for each call to fail.
#include <cuda.h>
#include <cstdlib>
#include <cstring>
// Before the call of this name the process ends, hangs until the others have given up, or the call fails unmade.
static const char *dies_before = "", *hangs_before = "", *fails_at = "";
static int multicast_calls, unbinds;
static bool goes_on(const char* call);
// The simulator hides NCCL_NVLS_ENABLE=0, for its GPUs take no harm. Here it is said all the same.
static bool site_refuses;
static const char* environment(const char* name) {
  return site_refuses && strcmp(name, "NCCL_NVLS_ENABLE") == 0 ? "0" : getenv(name);
}
#define getenv environment
#define BY_WAY(call, ...) (goes_on(#call) ? (call)(__VA_ARGS__) : CUDA_ERROR_INVALID_VALUE)
#define cuMulticastGetGranularity(...) BY_WAY(cuMulticastGetGranularity, __VA_ARGS__)
#define cuMulticastCreate(...) BY_WAY(cuMulticastCreate, __VA_ARGS__)
#define cuMulticastAddDevice(...) BY_WAY(cuMulticastAddDevice, __VA_ARGS__)
#define cuMulticastBindMem(...) BY_WAY(cuMulticastBindMem, __VA_ARGS__)
#define cuMulticastUnbind(...) BY_WAY(cuMulticastUnbind, __VA_ARGS__)
#define cuMemExportToShareableHandle(...) BY_WAY(cuMemExportToShareableHandle, __VA_ARGS__)
#define cuMemImportFromShareableHandle(...) BY_WAY(cuMemImportFromShareableHandle, __VA_ARGS__)
#include "../../docs/paste/multicast_processes.cu"
#undef getenv
#undef cuMulticastGetGranularity
#undef cuMulticastCreate
#undef cuMulticastAddDevice
#undef cuMulticastBindMem
#undef cuMulticastUnbind
#undef cuMemExportToShareableHandle
#undef cuMemImportFromShareableHandle
#include "../../docs/paste/multimem.cu"

#include "../../common/check.h"

#include <filesystem>
#include <functional>
#include <string>

#include <sys/wait.h>

static int gave_up[2], others;  // a byte from each other rank

static bool goes_on(const char* call) {
  multicast_calls += strncmp(call, "cuMulticast", 11) == 0;
  unbinds += strcmp(call, "cuMulticastUnbind") == 0;
  if (strcmp(call, dies_before) == 0) _exit(3);
  if (strcmp(call, hangs_before) == 0)
    for (char byte; others-- > 0;) EXPECT(read(gave_up[0], &byte, 1) == 1, "no word");
  return strcmp(call, fails_at) != 0;
}

constexpr size_t wanted = 3 << 20;
using Clock = std::chrono::steady_clock;

__global__ void add_everywhere(unsigned* mc) { add_to_all(mc + threadIdx.x, threadIdx.x + 1); }

static std::string directory;
static std::string fresh_path() {
  static int count;
  return directory + "/team" + std::to_string(++count);
}
static int sockets() {  // open in this process; --leaks tells of descriptors of memory
  int count = 0;
  std::error_code closed;  // the one that lists them
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
    count += std::filesystem::read_symlink(each.path(), closed).string().rfind("socket:", 0) == 0;
  return count;
}

// Runs each rank in a process of its own. All must end with this status, or a rank with its own.
static void run(const char* what, int n, const std::function<int(int)>& rank, int odd_rank = -1, int odd_status = 0) {
  std::fflush(stdout);
  std::vector<pid_t> ranks;
  for (int i = 0; i < n; ++i) {
    const pid_t child = fork();  // before any call of the driver
    EXPECT(child >= 0, "no process");
    if (child == 0) {
      const int status = rank(i);
      std::fflush(stdout);
      std::exit(status);
    }
    ranks.push_back(child);
  }
  for (int i = 0; i < n; ++i) {
    int status;
    EXPECT(waitpid(ranks[size_t(i)], &status, 0) == ranks[size_t(i)], "no rank %d", i);
    const int expected = i == odd_rank ? odd_status : 0;
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == expected, "%s: rank %d ended with %x", what, i, status);
  }
  std::printf("%s: as it should be\n", what);
}

static void start(int rank) {
  CHECK(cuInit(0));
  CHECK(cudaSetDevice(rank));
}

// The whole life. Each rank adds to all, and finds what all have added in its own memory.
static int works(const std::string& path, int rank, int n) {
  start(rank);
  const int before = sockets();
  Team team;
  EXPECT(join_team(&team, path.c_str(), rank, n, 60000), "rank %d: %s", rank, strerror(errno));
  for (int round = 0; round < 2; ++round) {
    MulticastPart part;
    CHECK(join_multicast(&part, &team, wanted, rank));
    EXPECT(part.size >= wanted && part.gpu == rank, "%zu bytes", part.size);
    CHECK(cuMemsetD8(part.own, 0, part.size));
    CHECK(cudaDeviceSynchronize());
    CHECK(meet(&team, CUDA_SUCCESS));  // nobody adds to memory that is not 0 yet
    add_everywhere<<<1, 64>>>(reinterpret_cast<unsigned*>(part.mc + part.size) - 64);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(meet(&team, CUDA_SUCCESS));
    unsigned found[64];
    CHECK(cuMemcpyDtoH(found, part.own + part.size - sizeof found, sizeof found));
    for (unsigned i = 0; i < 64; ++i) EXPECT(found[i] == unsigned(n) * (i + 1), "rank %d: %u", rank, found[i]);
    CHECK(leave_multicast(&part, &team));
    EXPECT(!part.object && !part.memory && !part.own && !part.mc && !part.bound, "something is left");
    EXPECT(unbinds == round + 1, "the memory is released while it is bound");
  }
  leave_team(&team);
  EXPECT(sockets() == before, "%d sockets are left", sockets() - before);
  EXPECT(access(path.c_str(), F_OK) == -1, "the path is there");
  return 0;
}

// One that cannot be: all ranks get this error, in time, and nothing is left; see --leaks.
static int fails(const std::string& path, int rank, int n, CUresult expected, int milliseconds) {
  start(rank);
  const int before = sockets();
  Team team;
  EXPECT(join_team(&team, path.c_str(), rank, n, 60000), "rank %d: %s", rank, strerror(errno));
  team.milliseconds = milliseconds;
  MulticastPart part;
  part.gpu = 77;
  const auto began = Clock::now();
  const CUresult result = join_multicast(&part, &team, wanted, rank);
  EXPECT(result == expected, "rank %d: %s", rank, check::name(result));
  EXPECT(part.gpu == 77 && !part.object, "rank %d: *part is changed", rank);
  EXPECT(Clock::now() - began < std::chrono::seconds(60), "too late");
  leave_team(&team);
  EXPECT(sockets() == before, "rank %d: %d sockets are left", rank, sockets() - before);
  return 0;
}

static void expect_errors_of_one(int n) {
  const char* calls[] = {"cuMulticastGetGranularity",      "cuMulticastCreate",    "cuMemExportToShareableHandle",
                         "cuMemImportFromShareableHandle", "cuMulticastAddDevice", "cuMulticastBindMem"};
  for (int i = 0; i < 6; ++i) {
    const int odd = i < 3 ? 0 : n - 1;
    std::string path = fresh_path();
    run((std::string("a rank whose ") + calls[i] + " fails").c_str(), n, [&](int rank) {
      if (rank == odd) fails_at = calls[i];
      return fails(path, rank, n, CUDA_ERROR_INVALID_VALUE, 60000);
    });
    path = fresh_path();
    run((std::string("a rank that dies before ") + calls[i]).c_str(), n,
        [&](int rank) {
          if (rank == odd) dies_before = calls[i];
          return fails(path, rank, n, CUDA_ERROR_OPERATING_SYSTEM, 60000);
        },
        odd, 3);
  }
  // One that is late is not waited for, and learns of it.
  const std::string path = fresh_path();
  EXPECT(pipe(gave_up) == 0, "no pipe");
  others = n - 1;
  run("a rank that hangs", n, [&](int rank) {
    if (rank == n - 1) hangs_before = "cuMulticastAddDevice";
    const int status = fails(path, rank, n, CUDA_ERROR_OPERATING_SYSTEM, 1000);
    return write(gave_up[1], "", 1) == 1 ? status : 1;
  });
}

static void expect_refusals(int n) {
  std::string path = fresh_path();
  run("a rank that may not", n, [&](int rank) {
    site_refuses = rank == 1;
    const int status = fails(path, rank, n, CUDA_ERROR_NOT_SUPPORTED, 60000);
    EXPECT(multicast_calls == 0, "rank %d: %d multicast calls", rank, multicast_calls);
    return status;
  });
  path = fresh_path();
  run("a rank that is missing", n, [&](int rank) {
    Team team;
    if (rank == n - 1) return 0;
    const int before = sockets();
    errno = 0;
    if (rank == 0) {
      EXPECT(!join_team(&team, path.c_str(), rank, n, 500) && errno == ETIMEDOUT, "errno is %d", errno);
      EXPECT(team.rank == -1 && access(path.c_str(), F_OK) == -1, "the path is there");
    } else if (join_team(&team, path.c_str(), rank, n, 500)) {
      team.milliseconds = 500;
      EXPECT(meet(&team, CUDA_SUCCESS) == CUDA_ERROR_OPERATING_SYSTEM, "it met somebody");
      leave_team(&team);
    }
    EXPECT(sockets() == before, "%d sockets are left", sockets() - before);
    return 0;
  });
  run("a path that is taken", 1, [&](int) {
    Team team;
    const int listener = listen_at(path.c_str());
    EXPECT(!join_team(&team, path.c_str(), 0, 2, 500) && errno == EADDRINUSE, "errno is %d", errno);
    close(listener);
    unlink(path.c_str());
    EXPECT(!join_team(&team, path.c_str(), 1, 2, 100) && errno == ETIMEDOUT, "errno is %d", errno);
    return 0;
  });
  path = fresh_path();
  run(
      "a rank that does not come to leave", n,
      [&](int rank) {
        start(rank);
        Team team;
        MulticastPart part;
        EXPECT(join_team(&team, path.c_str(), rank, n, 60000), "%s", strerror(errno));
        CHECK(join_multicast(&part, &team, wanted, rank));
        if (rank == n - 1) _exit(4);
        const CUresult left = leave_multicast(&part, &team);
        EXPECT(left == CUDA_ERROR_OPERATING_SYSTEM, "%s", check::name(left));
        EXPECT(!part.object && !part.memory, "something is left");
        leave_team(&team);
        return 0;
      },
      n - 1, 4);
  const Report next = {1, CUDA_SUCCESS}, other = {2, CUDA_SUCCESS};
  const std::string right(reinterpret_cast<const char*>(&next), sizeof next);
  const std::string words[] = {
      right.substr(0, 4), right + "more", {reinterpret_cast<const char*>(&other), sizeof other}};
  for (const std::string& each : words) {
    path = fresh_path();
    run("words that are no report", 2, [&](int rank) {
      Team team;
      EXPECT(join_team(&team, path.c_str(), rank, 2, 60000), "%s", strerror(errno));
      errno = 0;
      if (rank == 1) EXPECT(send(team.sockets[0], each.data(), each.size(), 0) > 0, "not sent");
      else EXPECT(meet(&team, CUDA_SUCCESS) == CUDA_ERROR_OPERATING_SYSTEM && errno == EPROTO, "errno is %d", errno);
      leave_team(&team);
      return 0;
    });
  }
}

// One life by two ranks; each returns what it got, and tries an undo again that failed.
static int once() {
  const std::string path = fresh_path();
  const auto rank = [&](int i) {
    check::require_gpus(2);
    Team team;
    MulticastPart part;
    EXPECT(join_team(&team, path.c_str(), i, 2, 60000), "%s", strerror(errno));
    CUresult result = join_multicast(&part, &team, wanted, i);
    if (result == CUDA_SUCCESS) {
      result = leave_multicast(&part, &team);
      CHECK(undo_part(&part));  // the rest
    }
    leave_team(&team);
    if (result != CUDA_SUCCESS) puts(check::name(result));
    return result != CUDA_SUCCESS;
  };
  pid_t ranks[2];
  for (int i = 0; i < 2; ++i) {
    ranks[i] = fork();
    if (ranks[i] == 0) {
      const int status = rank(i);
      std::fflush(stdout);
      std::exit(status);
    }
  }
  int failed = 0;
  for (pid_t each : ranks) {
    int status;
    EXPECT(waitpid(each, &status, 0) == each, "no rank");
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) <= 1, "a rank ended with %x", status);
    failed |= WEXITSTATUS(status);
  }
  return failed;
}

int main(int argc, char** argv) {
  REQUIRE(argc > 1, "makes multicast objects; say for how many ranks: %s 2", argv[0]);
  const char* site = getenv("NCCL_NVLS_ENABLE");
  REQUIRE(!site || strtol(site, nullptr, 0), "NCCL_NVLS_ENABLE=0 refuses multicast; ask whoever runs the machine");
  char name[] = "/tmp/pasteXXXXXX";
  EXPECT(mkdtemp(name), "no directory");
  directory = name;
  const int n = atoi(argv[1]);
  int status = 0;
  if (n == 0) {
    status = once();
  } else {
    const std::string path = fresh_path();
    run("a team", n, [&](int rank) { return works(path, rank, n); });
    expect_errors_of_one(n);
    expect_refusals(n);
  }
  std::filesystem::remove_all(directory);
  puts(status ? "failed" : "OK");
  return status;
}
