// SPDX-License-Identifier: MIT-0
// docs/paste/share_chunks.cu at work: between two processes, with more chunks than a message carries descriptors and
// than either may have open; and with others that die, are silent, or say something else. `once` is one handover in one
// process, for each of whose calls to fail.
#include "../../docs/paste/share_chunks.cu"

#include "../../common/check.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <dirent.h>
#include <sys/resource.h>
#include <sys/wait.h>

constexpr size_t MiB = 1 << 20;
constexpr int patience = 60000;
using Clock = std::chrono::steady_clock;

__global__ void add(unsigned* words, size_t pages, unsigned value) {
  for (size_t i = threadIdx.x; i < pages; i += blockDim.x) words[i * 1024] += value + unsigned(i);  // one in 4 KiB
}
static void add_to_all(CUdeviceptr address, size_t size, unsigned value) {
  add<<<1, 256>>>(reinterpret_cast<unsigned*>(address), size / 4096, value);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}

// Memory of several chunks at neighbouring addresses, whose handles have been released.
struct Chunks {
  CUdeviceptr address;
  size_t size = 0;
  explicit Chunks(const std::vector<size_t>& sizes, bool exportable = true) {
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (exportable) prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    for (size_t each : sizes) size += each;
    CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
    size_t at = 0;
    for (size_t each : sizes) {
      CUmemGenericAllocationHandle handle;
      CHECK(cuMemCreate(&handle, each, &prop, 0));
      CHECK(cuMemMap(address + at, each, 0, handle, 0));
      CHECK(cuMemRelease(handle));
      at += each;
    }
    CUmemAccessDesc access = {};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK(cuMemSetAccess(address, size, &access, 1));
    CHECK(cuMemsetD32(address, 0, size / 4));
    CHECK(cudaDeviceSynchronize());
  }
  ~Chunks() {
    CHECK(cuMemUnmap(address, size));
    CHECK(cuMemAddressFree(address, size));
  }
};

struct Pair {
  int ends[2];
  Pair() { EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "no sockets"); }
  void end(int which) {
    if (ends[which] >= 0) close(ends[which]);
    ends[which] = -1;
  }
  ~Pair() { end(0), end(1); }
};
static std::vector<int> descriptors() {
  std::vector<int> open;
  DIR* const all = opendir("/proc/self/fd");
  while (const dirent* each = readdir(all))
    if (each->d_name[0] != '.' && atoi(each->d_name) != dirfd(all)) open.push_back(atoi(each->d_name));
  closedir(all);
  return open;
}
// From now on this process may open so many more at once.
static void allow_descriptors(int more) {
  const std::vector<int> open = descriptors();
  rlimit limit;
  EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0, "no limit");
  limit.rlim_cur = rlim_t(*std::max_element(open.begin(), open.end()) + 1 + more);
  EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0, "not limited");
}

// The other process: adds to what is there, dies as it is told to, and else says that it is done.
static int importer(int socket, const std::string& dies) {
  const int gpu = check::require_gpus(1) > 1 ? 1 : 0;  // where there are two, not the exporter's
  CHECK(cudaSetDevice(gpu));
  CHECK(cudaFree(nullptr));
  CUdeviceptr address;
  size_t size;
  if (dies == "early") raise(SIGKILL);
  if (dies == "midway") {
    ChunkMessage first, answer;
    uint64_t chunk;
    EXPECT(receive_message(socket, &first, patience), "%s", strerror(errno));
    EXPECT(receive_fd(socket, &chunk, patience) >= 0 && send_message(socket, answer), "%s", strerror(errno));
    EXPECT(receive_fd(socket, &chunk, patience) >= 0, "%s", strerror(errno));
    raise(SIGKILL);
  }
  allow_descriptors(16);
  CHECK(receive_chunks(socket, &address, &size, gpu, patience));
  add_to_all(address, size, 1000);
  EXPECT(send(socket, "", 1, 0) == 1, "%s", strerror(errno));
  char byte;
  EXPECT(recv(socket, &byte, 1, 0) == 0, "a word");  // the exporter has unmapped its memory and gone
  add_to_all(address, size, 1);
  unsigned last;
  CHECK(cudaMemcpy(&last, reinterpret_cast<unsigned*>(address + size - 4096), 4, cudaMemcpyDeviceToHost));
  EXPECT(last == 1 + 1000 + 1 + 3 * unsigned(size / 4096 - 1), "%u", last);
  CHECK(unmap_chunks(address, size));
  return 0;
}
static pid_t start_importer(int socket, const char* dies) {
  std::fflush(stdout);
  const pid_t child = fork();
  EXPECT(child >= 0, "no process");
  if (child == 0) {
    const std::string number = std::to_string(dup(socket));  // without close-on-exec
    execl("/proc/self/exe", "importer", "importer", number.c_str(), dies, nullptr);
    _exit(127);
  }
  return child;
}
static int status_of(pid_t child) {
  int status;
  EXPECT(waitpid(child, &status, 0) == child, "no child");
  return status;
}

static void expect_to_share_all() {
  std::vector<size_t> sizes(300, 2 * MiB);  // more than the 253 descriptors of a message
  sizes[1] = sizes[298] = 6 * MiB;
  Pair pair;
  const pid_t child = start_importer(pair.ends[1], "");
  pair.end(1);
  {
    Chunks chunks(sizes);
    add_to_all(chunks.address, chunks.size, 1);
    rlimit before;
    EXPECT(getrlimit(RLIMIT_NOFILE, &before) == 0, "no limit");
    allow_descriptors(16);
    CHECK(send_chunks(pair.ends[0], chunks.address, chunks.size, patience));
    EXPECT(setrlimit(RLIMIT_NOFILE, &before) == 0, "not reset");
    char byte;
    EXPECT(recv(pair.ends[0], &byte, 1, 0) == 1, "the importer has gone");
    std::vector<unsigned> words(chunks.size / 4);
    CHECK(cudaMemcpy(words.data(), reinterpret_cast<void*>(chunks.address), chunks.size, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < words.size() / 1024; ++i)
      EXPECT(words[i * 1024] == 1 + 1000 + 2 * unsigned(i), "page %zu: %u", i, words[i * 1024]);
  }
  pair.end(0);
  const int status = status_of(child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the importer ended with %x", status);
}

static void expect_to_miss_an_importer() {
  Chunks chunks({2 * MiB, 2 * MiB, 2 * MiB});
  for (const char* when : {"early", "midway"}) {
    Pair pair;
    const pid_t child = start_importer(pair.ends[1], when);
    pair.end(1);
    const size_t open = descriptors().size();
    errno = 0;
    const CUresult result = send_chunks(pair.ends[0], chunks.address, chunks.size, patience);
    EXPECT(result == CUDA_ERROR_OPERATING_SYSTEM && (errno == ECONNRESET || errno == EPIPE), "%s: %s, errno %d", when,
           check::name(result), errno);
    EXPECT(descriptors().size() == open, "%s: %zu descriptors, and %zu before", when, descriptors().size(), open);
    EXPECT(WIFSIGNALED(status_of(child)), "it lives");
  }
}

// An exporter that says this; then its end is closed, or open and silent.
static void expect_refusal(const char* what, CUresult expected, int expected_errno, bool closes,
                           const std::function<void(int)>& say) {
  Pair pair;
  CUdeviceptr address = 4711;
  size_t size = 5;
  say(pair.ends[0]);
  if (closes) pair.end(0);
  const size_t open = descriptors().size();
  const auto began = Clock::now();
  errno = 0;
  const CUresult result = receive_chunks(pair.ends[1], &address, &size, 0, closes ? patience : 100);
  EXPECT(result == expected && (!expected_errno || errno == expected_errno), "%s: %s, errno %d", what,
         check::name(result), errno);
  EXPECT(address == 4711 && size == 5, "%s: the results are changed", what);
  EXPECT(Clock::now() - began < std::chrono::seconds(30), "%s: it waited too long", what);
  EXPECT(descriptors().size() == open, "%s: %zu descriptors, and %zu before", what, descriptors().size(), open);
}

static void expect_no_other_exporter() {
  CUmemGenericAllocationHandle handle;
  CUmemGenericAllocationHandle both_chunks;
  int fd, both_chunks_fd;
  CHECK(create_and_export(&handle, &fd, 2 * MiB, 0));
  CHECK(create_and_export(&both_chunks, &both_chunks_fd, 4 * MiB, 0));
  ChunkMessage right;
  right.size = 4 * MiB;
  const auto head = [&](int to) { EXPECT(send_message(to, right), "not sent"); };
  const CUresult system = CUDA_ERROR_OPERATING_SYSTEM;
  expect_refusal("nothing", system, ECONNRESET, true, [](int) {});
  expect_refusal("silence", system, ETIMEDOUT, false, [](int) {});
  expect_refusal("half a message", system, EPROTO, true, [&](int to) { send(to, &right, sizeof right / 2, 0); });
  expect_refusal("too long a message", system, EPROTO, true, [&](int to) {
    char bytes[sizeof right + 1] = {};
    memcpy(bytes, &right, sizeof right);
    send(to, bytes, sizeof bytes, 0);
  });
  expect_refusal("another mark", system, EPROTO, true, [&](int to) {
    ChunkMessage wrong = right;
    wrong.mark ^= 1;
    send_message(to, wrong);
  });
  expect_refusal("a descriptor first", system, EPROTO, true, [&](int to) { send_fd(to, fd, 2 * MiB); });
  expect_refusal("no size", CUDA_ERROR_INVALID_VALUE, 0, true, [](int to) { send_message(to, {}); });
  expect_refusal("the size alone", system, ECONNRESET, true, head);
  expect_refusal("the size, and silence", system, ETIMEDOUT, false, head);
  expect_refusal("the size twice", system, EPROTO, true, [&](int to) { head(to), head(to); });
  expect_refusal("one chunk of two", system, EPIPE, true, [&](int to) { head(to), send_fd(to, fd, 2 * MiB); });
  expect_refusal("all chunks, and nobody for the last answer", system, EPIPE, true,
                 [&](int to) { head(to), send_fd(to, both_chunks_fd, 4 * MiB); });
  expect_refusal("one of two, and silence", system, ETIMEDOUT, false,
                 [&](int to) { head(to), send_fd(to, fd, 2 * MiB); });
  expect_refusal("a chunk too large", CUDA_ERROR_INVALID_VALUE, 0, true,
                 [&](int to) { head(to), send_fd(to, fd, 6 * MiB); });
  expect_refusal("a chunk of no size", CUDA_ERROR_INVALID_VALUE, 0, true,
                 [&](int to) { head(to), send_fd(to, fd, 0); });
  expect_refusal("no memory", CUDA_ERROR_UNKNOWN, 0, true, [&](int to) { head(to), send_fd(to, to, 2 * MiB); });
  for (const int each : {fd, both_chunks_fd}) close(each);
  for (const CUmemGenericAllocationHandle each : {handle, both_chunks}) CHECK(cuMemRelease(each));
}

// What the exporter cannot send, and an importer that answers otherwise.
static void expect_no_other_importer() {
  const auto expect = [](const char* what, CUdeviceptr address, size_t size, CUresult expected, int expected_errno,
                         const std::function<void(int)>& say, int milliseconds) {
    Pair pair;
    say(pair.ends[1]);
    const size_t open = descriptors().size();
    errno = 0;
    const CUresult result = send_chunks(pair.ends[0], address, size, milliseconds);
    EXPECT(result == expected && (!expected_errno || errno == expected_errno), "%s: %s, errno %d", what,
           check::name(result), errno);
    pair.end(1);  // and what was under way
    EXPECT(descriptors().size() == open - 1, "%s: descriptors are left", what);
  };
  const auto nothing = [](int) {};
  Chunks chunks({2 * MiB, 4 * MiB}), closed({2 * MiB}, false);
  const CUresult invalid = CUDA_ERROR_INVALID_VALUE, system = CUDA_ERROR_OPERATING_SYSTEM;
  const auto agree = [](int from) { send_message(from, {}); };
  expect("a start within a chunk", chunks.address + MiB, 5 * MiB, invalid, 0, nothing, patience);
  expect("an end within a chunk", chunks.address, 3 * MiB, invalid, 0, agree, patience);
  expect("nothing", chunks.address, 0, invalid, 0, nothing, patience);
  expect("memory that cannot be exported", closed.address, closed.size, invalid, 0, nothing, patience);
  expect("nobody", chunks.address, chunks.size, system, EPIPE, [](int from) { shutdown(from, SHUT_RDWR); }, patience);
  expect("silence", chunks.address, chunks.size, system, ETIMEDOUT, nothing, 100);
  expect(
      "another word", chunks.address, chunks.size, system, EPROTO, [](int from) { send(from, "x", 1, 0); }, patience);
  expect(
      "an error", chunks.address, chunks.size, CUDA_ERROR_OUT_OF_MEMORY, 0,
      [](int from) {
        ChunkMessage answer;
        answer.result = CUDA_ERROR_OUT_OF_MEMORY;
        send_message(from, answer);
      },
      patience);
}

// One handover in one process. Returns the driver's first error; an undo that failed is called again.
static CUresult once() {
  Chunks chunks({2 * MiB, 2 * MiB});
  Pair pair;
  CUresult sent = CUDA_SUCCESS;
  std::thread exporter([&] {
    CHECK(cudaSetDevice(0));
    sent = send_chunks(pair.ends[0], chunks.address, chunks.size, patience);
    pair.end(0);
  });
  CUdeviceptr address = 4711;
  size_t size = 5;
  CUresult result = receive_chunks(pair.ends[1], &address, &size, 0, patience);
  pair.end(1);
  exporter.join();
  EXPECT((result == CUDA_SUCCESS) == (sent == CUDA_SUCCESS), "%s, and %s", check::name(result), check::name(sent));
  if (result != CUDA_SUCCESS) {
    EXPECT(address == 4711 && size == 5, "the results are changed");
    return result == CUDA_ERROR_OPERATING_SYSTEM ? sent : result;
  }
  add_to_all(address, size, 1);
  if ((result = unmap_chunks(address, size)) != CUDA_SUCCESS) CHECK(unmap_chunks(address, size));
  return result;
}

int main(int argc, char** argv) {
  if (argc > 2 && strcmp(argv[1], "importer") == 0) return importer(atoi(argv[2]), argc > 3 ? argv[3] : "");
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  CUresult result = CUDA_SUCCESS;
  if (argc == 2 && strcmp(argv[1], "once") == 0) {
    result = once();
  } else {
    CHECK(once());  // the driver keeps some descriptors from the first time
    expect_to_share_all();
    expect_to_miss_an_importer();
    expect_no_other_exporter();
    expect_no_other_importer();
  }
  puts(result == CUDA_SUCCESS ? "OK" : check::name(result));
  return result != CUDA_SUCCESS;
}
