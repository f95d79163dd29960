// SPDX-License-Identifier: MIT-0
//
// 05 Fabric: how does memory go to a process on another machine, and what stops it here?
//
// A fabric handle is 64 plain bytes: whatever carries bytes carries it, to every machine of an NVLink domain. Much has
// to be in place before, so this is a doctor too: it names the first stage that fails and what an administrator does
// about it. It never takes another kind of handle instead, and creates no device file. Needs GPUs with fabric handles
// and a channel of IMEX, NVIDIA's internode memory exchange.
//
// Build it alone:  nvcc -std=c++17 fabric.cu -o fabric -lcuda
// For two machines add -DFABRIC_WITH_MPI and the flags that `mpicxx -show` prints, and start it with mpirun.
#include "../common/check.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <fstream>
#include <string>
#include <vector>
#ifdef FABRIC_WITH_MPI
#include <mpi.h>
#endif

static const char usage[] =
#ifdef FABRIC_WITH_MPI
    "usage: fabric_mpi [--granules N] [--timeout S]\n"
    "       mpirun -n 2 -ppn 1 fabric_mpi ...   two ranks of MPI, on one machine or on two of one NVLink domain\n"
#else
    "usage: fabric [--granules N] [--timeout S]\n"
#endif
    "  --granules N   memory to share, in units of the granularity, 1 to 512 (default 1)\n"
    "  --timeout S    seconds that one rank waits for the other, 1 to 600 (default 10)\n"
    "Started by hand, it starts the second process itself, with --in and --out for the pipes between the two.\n";

// What a rank tells the other at the end of a step: that it has to stop, or what it found, and at last the handle.
struct Message {
  char magic[8];  // anything else is not from this program
  int rank, step;
  char reason[512], found[128], host[64];  // reason: why this rank has to stop, empty when it can go on
  unsigned seed;
  size_t size;
  CUmemFabricHandle handle;
};

static const char* const names[] = {"rank 0 (exporter)", "rank 1 (importer)"};
static long timeout = 10, in = -1, out = -1;  // seconds; the pipe from the other rank, and the pipe to it
static int rank = 0;
static pid_t child = 0;  // the process of rank 1, if this one started it
[[maybe_unused]] static bool by_mpirun = false;

template <class... Values> static std::string text(const char* form, Values... values) {
  char line[1024];
  std::snprintf(line, sizeof line, form, values...);
  return line;
}

static void say(const std::string& line) {  // rank 0 tells the story of both
  if (rank == 0) std::fputs(line.c_str(), stdout), std::fflush(stdout);
}

// Sends the child a signal (0: none), waits for its end, and returns its exit status, or 128 + what signal ended it.
static int end_child(int signal_number) {
  int status = 0;
  if (child > 0) kill(child, signal_number), waitpid(child, &status, 0);
  child = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// However this process ends, it leaves nothing behind: no child, and under mpirun no rank that waits.
static void clean_up() {
  end_child(SIGKILL);
#ifdef FABRIC_WITH_MPI
  int finalized = 1;
  if (by_mpirun) MPI_Finalized(&finalized);
  if (!finalized) usleep(300000), MPI_Abort(MPI_COMM_WORLD, 1);  // mpirun passes the error on first, and then ends all
#endif
}

// Bounds a wait for the other rank: without alarm(0) in time, this process says what did not happen, and ends.
static void start_waiting(const std::string& what) {
  static char late[128];
  std::snprintf(late, sizeof late, "fabric: %s did not %s within %ld s\n", names[rank == 0], what.c_str(), timeout);
  signal(SIGALRM, [](int) {
    end_child(SIGKILL);
    if (write(STDERR_FILENO, late, std::strlen(late)) > 0 && by_mpirun) raise(SIGKILL);  // then mpirun ends all ranks
    _exit(1);
  });
  alarm(timeout);
}

// Both ranks have agreed to end with this status.
[[noreturn]] static void leave(int status, const std::string& last_line) {
  start_waiting("end");
#ifdef FABRIC_WITH_MPI
  if (by_mpirun) say(last_line), MPI_Finalize();  // in this order: mpirun ends all once one has ended with an error
#endif
  const int theirs = child > 0 ? end_child(0) : status;
  alarm(0);
  EXPECT(theirs == status, "%s ended with exit status %d, not %d", names[1], theirs, status);
  if (!by_mpirun) say(last_line);
  std::exit(status);
}

// The one exchange: gives the other rank a message and returns the other's, over MPI or over the pipes.
static Message exchange(const Message& mine) {
  const char* other = names[rank == 0];
  const int size = sizeof mine;
  Message theirs = {};
  int got = 0;
#ifdef FABRIC_WITH_MPI
  if (by_mpirun) {
    int done = 0;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(&theirs, size, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&mine, size, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[1]);
    for (const double start = MPI_Wtime(); !done && MPI_Wtime() < start + timeout; usleep(1000))
      MPI_Testall(2, requests, &done, statuses);
    EXPECT(done, "%s did not answer [%d] within %ld s", other, mine.step, timeout);
    MPI_Get_count(&statuses[0], MPI_BYTE, &got);
  }
#endif
  if (!by_mpirun) {
    start_waiting(text("answer [%d]", mine.step));
    int n = write(out, &mine, size);  // a pipe holds far more than one message: this does not wait
    EXPECT(n == size || errno == EPIPE, "to %s: %s", other, std::strerror(errno));
    while (got < size && (n = read(in, reinterpret_cast<char*>(&theirs) + got, size - got)) > 0) got += n;
    alarm(0);
  }
  EXPECT(got == size, "%s gave %d of %d bytes for [%d]%s", other, got, size, mine.step,
         child > 0 ? text(", then ended with exit status %d", end_child(SIGKILL)).c_str() : "");
  EXPECT(
      !std::memcmp(theirs.magic, mine.magic, sizeof mine.magic) && theirs.rank == 1 - rank && theirs.step == mine.step,
      "%s gave something else than its message for [%d]", other, mine.step);
  theirs.reason[511] = theirs.found[127] = theirs.host[63] = 0;
  return theirs;
}

// Ends a step: tells the other rank why this one has to stop ("" if it can go on) or what it found. If either has to
// stop, both do, and rank 0 says why. Otherwise returns the other's message.
static Message meet(int step, const std::string& reason, const std::string& found, Message mine = {}) {
  std::memcpy(mine.magic, "FABRIC05", sizeof mine.magic);
  mine.rank = rank, mine.step = step;
  reason.copy(mine.reason, sizeof mine.reason - 1), found.copy(mine.found, sizeof mine.found - 1);
  gethostname(mine.host, sizeof mine.host - 1);
  const Message theirs = exchange(mine);
  if (!reason.empty()) leave(77, "SKIP: " + reason + "\n");
  if (theirs.reason[0]) leave(77, text("SKIP: rank 1 on %s: %s\n", theirs.host, theirs.reason));
  if (!found.empty()) say("    rank 0: " + found + "\n");
  if (theirs.found[0]) say(text("    rank 1: %s\n", theirs.found));
  return theirs;
}

// Starts this program again as rank 1, by fork and exec: a bare fork would break CUDA in the child.
static void start_rank_1(const char* program) {
  int to[2], from[2];
  EXPECT(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0, "no pipe: %s", std::strerror(errno));
  const std::string seconds = std::to_string(timeout), i = std::to_string(to[0]), o = std::to_string(from[1]);
  child = fork();
  EXPECT(child >= 0, "no second process: %s", std::strerror(errno));
  if (child == 0) {
    fcntl(to[0], F_SETFD, 0), fcntl(from[1], F_SETFD, 0);  // the child's ends, and no other, stay open across exec
    execl("/proc/self/exe", program, "--timeout", seconds.c_str(), "--in", i.c_str(), "--out", o.c_str(), nullptr);
    _exit(127);
  }
  close(to[0]), close(from[1]);
  in = from[0], out = to[1];
}

#ifdef FABRIC_WITH_MPI
static void join_mpi() {  // only if mpirun, or its like, has started this process
  int ranks = 0;
  for (const char* variable : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
    if (const char* value = std::getenv(variable)) by_mpirun = true, rank = int(std::strtol(value, nullptr, 10));
  if (!by_mpirun) return;
  start_waiting("come to MPI_Init");
  MPI_Init(nullptr, nullptr);
  alarm(0);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2 && rank == 0) std::fprintf(stderr, "fabric: needs two ranks, not %d\n%s", ranks, usage);
  if (ranks != 2) MPI_Finalize(), std::exit(2);
}
#endif

// Why this rank has no GPU to work with, or "". In the same words check::require_gpus would end this rank alone.
static std::string no_gpu(int* gpus) {
  int version = 0;
  const CUresult result = cuInit(0);
  if (result == CUDA_ERROR_STUB_LIBRARY) return "only the toolkit's stub of a driver; install the NVIDIA driver";
  if (result == CUDA_ERROR_NO_DEVICE) return "the driver sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES";
  CHECK(cuDriverGetVersion(&version));
  if (version < CUDA_VERSION)
    return text("the driver is for CUDA %d.%d, this program for %d.%d; update the driver", version / 1000,
                version % 1000 / 10, CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
  check::succeeded(result, "cuInit(0)", __FILE__, __LINE__);
  CHECK(cuDeviceGetCount(gpus));
  return *gpus > 0 ? "" : "the driver counts no GPU; widen CUDA_VISIBLE_DEVICES";
}

// The major number under which /proc/devices lists the driver's class of channel files, or -1.
static int imex_major(const char* devices) {
  std::ifstream file(devices);
  char* name = nullptr;
  for (std::string line; std::getline(file, line);) {
    const long number = std::strtol(line.c_str(), &name, 10);
    if (name != line.c_str() && !std::strcmp(name, " nvidia-caps-imex-channels")) return int(number);
  }
  return -1;
}

// The first channel file that opens and belongs to the driver's class: its channel; or -1, and what is wrong.
static int find_channel(const std::string& directory, int driver_major, std::string* wrong) {
  int channel = -1;
  glob_t files = {};
  glob((directory + "/channel*").c_str(), 0, nullptr, &files);
  *wrong = "no channel file in " + directory;
  for (size_t i = 0; i < files.gl_pathc && channel < 0; ++i) {
    struct stat is = {};
    const char* path = files.gl_pathv[i];
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &is) != 0 || close(fd) != 0) *wrong = text("%s: %s", path, std::strerror(errno));
    else if (S_ISCHR(is.st_mode) && int(major(is.st_rdev)) == driver_major) channel = minor(is.st_rdev);
    else *wrong = text("%s is no character device with the major number %d", path, driver_major);
  }
  globfree(&files);
  return channel;
}

// "" if the call worked; its answer and the advice, if it was refused as an administrator can lift it; fails otherwise.
static std::string refusal(CUresult answer, const char* call, const char* advice, CUresult third = CUDA_SUCCESS) {
  if (answer == CUDA_ERROR_NOT_PERMITTED || answer == CUDA_ERROR_NOT_SUPPORTED || (answer && answer == third))
    return text("%s answers %s; %s", call, check::name(answer), advice);
  check::succeeded(answer, call, __FILE__, __LINE__);
  return "";
}

__host__ __device__ inline unsigned pattern(size_t i, unsigned seed) { return unsigned(i) * 2654435761u + seed; }

__global__ void fill(unsigned* data, size_t n, unsigned seed) {
  size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) data[i] = pattern(i, seed);
}

int main(int argc, char** argv) {
  long granules = 1;
  check::arguments(argc, argv, usage,
                   {{"--granules", &granules, 1, 512},
                    {"--timeout", &timeout, 1, 600},
                    {"--in", &in, 0, 1 << 20},
                    {"--out", &out, 0, 1 << 20}});
  signal(SIGPIPE, SIG_IGN);  // writing to a rank that has ended is then an error, not the end of this one
  std::atexit(clean_up);

  // [1] Start two ranks
  // Before CUDA is touched. Each step ends with a message to the other rank, so that both go on or both stop.
#ifdef FABRIC_WITH_MPI
  join_mpi();
#endif
  if (!by_mpirun && in >= 0) rank = 1;
  say("[1] Start two ranks\n");
  if (!by_mpirun && in < 0) start_rank_1(argv[0]);
  meet(1, "", rank == 0 ? "exports" : "imports");

  // [2] Ask the driver
  // Two ranks take two GPUs if they see two. The attribute says what GPU and driver could do, not what this process
  // may do: the next steps find that out.
  say("[2] Ask the driver\n");
  int gpus = 0, supported = 0;
  CUdevice device = 0;
  char name[64] = "";
  std::string why = no_gpu(&gpus);
  if (gpus > 0) {
    CHECK(cuDeviceGet(&device, rank % gpus));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, device));
    if (!supported) why = text("%s has no fabric handles; use GPUs on an NVSwitch, and a driver for them", name);
  }
  meet(2, why, text("%s, fabric handles are supported", name));
  cudaFuncAttributes loaded;
  CHECK(cudaSetDevice(device));
  CHECK(cudaFuncGetAttributes(&loaded, fill));  // loads the kernel, before anyone counts what is free

  // [3] Find the driver's class of channel files
  // Files explain, the driver decides: a container may hide a file, or show one that this process may not use. So ask
  // the driver for a granule of fabric memory at once, and stop at a file only if the driver refuses too.
  say("[3] Find the driver's class of channel files\n");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  size_t granularity;
  CHECK(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle memory;
  const std::string barred = refusal(cuMemCreate(&memory, granularity, &properties, 0), "cuMemCreate", "");
  if (barred.empty()) CHECK(cuMemRelease(memory));
  const int driver_major = imex_major("/proc/devices");
  if (driver_major < 0 && !barred.empty())
    why = "/proc/devices lists no nvidia-caps-imex-channels, and " + barred + "load a driver that has IMEX channels";
  meet(3, why,
       driver_major < 0 ? "none is listed, yet the driver creates fabric memory"
                        : text("nvidia-caps-imex-channels has the major number %d", driver_major));

  // [4] Find a channel file that opens
  // A channel is a circle of processes that may share memory: both ranks need the same one, even on one machine.
  say("[4] Find a channel file that opens\n");
  const std::string directory = "/dev/nvidia-caps-imex-channels";
  std::string wrong;
  const int channel = find_channel(directory, driver_major, &wrong);
  if (channel < 0 && !barred.empty())
    why = wrong + ", and " + barred + "as root: mkdir -p " + directory + " && mknod -m 666 " + directory +
          text(
              "/channel0 c %d 0 (or load module nvidia with NVreg_CreateImexChannel0=1), or give this user or "
              "container the file that there is",
              driver_major);
  meet(4, why, channel < 0 ? wrong + ", yet the driver creates fabric memory" : text("channel %d opens", channel));

  // [5] Create memory with the fabric handle type
  // The handle type is chosen when memory is created, and cannot be added later.
  say("[5] Create memory with the fabric handle type\n");
  size_t free_at_start, free_now, total_memory;
  Message mine = {};
  mine.size = granules * granularity, mine.seed = getpid();
  CHECK(cuMemGetInfo(&free_at_start, &total_memory));
  if (rank == 0)
    why = refusal(cuMemCreate(&memory, mine.size, &properties, 0), "cuMemCreate",
                  "let an administrator make the channel's file anew, and look at Fabric Manager and IMEX");
  meet(5, why, rank == 0 ? text("%zu KiB created", mine.size >> 10) : "");

  // [6] Export it as 64 bytes
  // No file descriptor: nothing to close, and nothing that only a Unix socket could carry.
  say("[6] Export it as 64 bytes\n");
  if (rank == 0)
    why = refusal(cuMemExportToShareableHandle(&mine.handle, memory, CU_MEM_HANDLE_TYPE_FABRIC, 0),
                  "memory is created, but cuMemExportToShareableHandle",
                  "let an administrator look at Fabric Manager, IMEX and the channel's file", CUDA_ERROR_INVALID_VALUE);
  const Message theirs = meet(6, why, rank == 0 ? text("%zu bytes exported", sizeof mine.handle) : "", mine);

  // [7] Import it in the other process
  // The 64 bytes go in by address. The importer's allocation handle is its own; it names the same memory.
  say("[7] Import it in the other process\n");
  Message shared = rank == 0 ? mine : theirs;
  if (rank == 1)
    why = refusal(cuMemImportFromShareableHandle(&memory, &shared.handle, CU_MEM_HANDLE_TYPE_FABRIC),
                  "the handle has arrived, but cuMemImportFromShareableHandle",
                  "use one NVLink domain, the same channel, and sight of each other's GPU", CUDA_ERROR_INVALID_DEVICE);
  meet(7, why, rank == 1 ? text("%zu KiB imported", shared.size >> 10) : "");

  // [8] Map it in both
  // From here on it is memory like any other. Each rank lets its own GPU in; the exporter poisons what is there.
  say("[8] Map it in both\n");
  CUdeviceptr address;
  CUmemAccessDesc descriptor = {};
  descriptor.location = properties.location;
  descriptor.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemAddressReserve(&address, shared.size, 0, 0, 0));
  CHECK(cuMemMap(address, shared.size, 0, memory, 0));
  CHECK(cuMemSetAccess(address, shared.size, &descriptor, 1));
  unsigned* const data = reinterpret_cast<unsigned*>(address);
  const size_t n = shared.size / sizeof *data;
  if (rank == 0) fill<<<256, 256>>>(data, n, ~shared.seed);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  meet(8, "", rank == 0 ? "mapped and poisoned" : "mapped");

  // [9] Write as the importer, check as the exporter
  // A kernel must have finished before a message says so.
  say("[9] Write as the importer, check as the exporter\n");
  if (rank == 1) fill<<<256, 256>>>(data, n, shared.seed);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  meet(9, "", rank == 1 ? text("%zu integers written in a kernel", n) : "");
  std::vector<unsigned> host(rank == 0 ? n : 0);
  CHECK(cudaMemcpy(host.data(), data, host.size() * sizeof *data, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < host.size(); ++i)
    EXPECT(host[i] == pattern(i, shared.seed), "element %zu is %u, not %u", i, host[i], pattern(i, shared.seed));
  say(text("    rank 0: %zu integers are what rank 1 wrote\n", n));

  // [10] Tear down
  // The importer first, then the exporter. The importer's process stays until the exporter has counted what is free.
  say("[10] Tear down\n");
  if (rank == 0) meet(10, "", "");
  CHECK(cuMemUnmap(address, shared.size));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(address, shared.size));
  if (rank == 1) meet(10, "", "unmapped and released");
  CHECK(cuMemGetInfo(&free_now, &total_memory));
  EXPECT(rank == 1 || free_now == free_at_start, "%zu bytes are free, %zu were at the start", free_now, free_at_start);
  meet(11, "", rank == 0 ? "free memory is what it was at the start" : "");
  leave(0, "OK\n");
  return 0;
}
