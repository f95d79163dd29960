// SPDX-License-Identifier: MIT-0
//
// 05 Fabric: how does memory go to a process on another machine?
//
// A fabric handle is 64 plain bytes: whatever carries bytes carries it, to every machine of one NVLink domain. Here MPI
// does, or a socket between two processes. Needs GPUs with fabric handles and a channel of IMEX, NVIDIA's internode
// memory exchange. Where the driver refuses fabric memory this program says so, and fabric_doctor, beside it, says what
// is missing. It never takes another kind of handle instead.
//
// Build it alone:  nvcc -std=c++17 fabric.cu -o fabric -lcuda
// For two machines add -DFABRIC_WITH_MPI and the flags that `mpicxx -show` prints, and start it with mpirun.
#include "../common/check.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <string>
#include <vector>
#ifdef FABRIC_WITH_MPI
#include <mpi.h>
#endif

static const char usage[] =
    "usage: fabric [--granules N] [--timeout S]     two processes on this machine\n"
    "       mpirun -n 2 -ppn 1 fabric_mpi ...       two ranks of MPI, on two machines of one NVLink domain\n"
    "  --granules N   memory to share, in units of the granularity, 1 to 512 (default 1)\n"
    "  --timeout S    seconds that one rank waits for the other, 1 to 600 (default 30)\n";

// What the ranks send each other at the end of a step.
struct Message {
  int rank, step;
  char found[128];           // for rank 0 to print
  CUmemFabricHandle handle;  // in step 5: the 64 bytes,
  size_t size;               // and the size of that memory, which they do not tell
};

static int rank = 0;                       // 0 exports, 1 imports
static long timeout = 30;                  // seconds that one rank waits for the other
static void start_ranks();                 // forks, or asks MPI which rank this is
static void say(const std::string& line);  // rank 0 prints for both
static void finish();                      // waits for the end of rank 1
static Message meet(int step, const std::string& found = "", Message mine = {});  // gives a message, waits for theirs

__host__ __device__ inline unsigned pattern(size_t i) { return unsigned(i) * 2654435761u; }
__global__ void fill(unsigned* data) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  data[i] = pattern(i);
}

// What an administrator can permit is a reason to skip. Any other refusal is a failure.
static void require_permission(CUresult answer, const char* call, CUresult reported = CUDA_ERROR_NOT_PERMITTED) {
  const bool refused = answer == CUDA_ERROR_NOT_PERMITTED || answer == CUDA_ERROR_NOT_SUPPORTED || answer == reported;
  REQUIRE(!refused, "%s answers %s; fabric_doctor says what is missing, and what to do", call, check::name(answer));
  check::succeeded(answer, call, __FILE__, __LINE__);
}

int main(int argc, char** argv) {
  long granules = 1;
  check::arguments(argc, argv, usage, {{"--granules", &granules, 1, 512}, {"--timeout", &timeout, 1, 600}});

  // [1] Start two ranks
  // Rank 0 exports memory, rank 1 imports it. Each step ends with a message to the other rank, and with its answer.
  start_ranks();
  say("[1] Start two ranks\n");
  meet(1, rank == 0 ? "exports" : "imports");

  // [2] Ask the driver
  // The attribute says what GPU and driver can do. Only trying shows what this process may do.
  say("[2] Ask the driver\n");
  if (rank == 1) meet(2);  // first rank 0: what both lack is said once
  int supported = 0;
  char name[64];
  const CUdevice device = rank % check::require_gpus(1);  // two ranks take two GPUs if they see two
  CHECK(cuDeviceGetName(name, sizeof name, device));
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, device));
  REQUIRE(supported, "%s has no fabric handles; use GPUs on an NVSwitch, and a driver for them", name);
  if (rank == 0) meet(2);
  size_t free_at_start = 0, free_now = 0, total = 0;
  cudaFuncAttributes loaded;
  CHECK(cudaSetDevice(device));
  CHECK(cudaFuncGetAttributes(&loaded, fill));  // set-up: loads the kernel, before rank 0 counts what is free
  meet(2, std::string(name) + ", fabric handles are supported");
  CHECK(cuMemGetInfo(&free_at_start, &total));

  // [3] Create memory with the fabric handle type
  // The type cannot be added later. A process that may open no channel of IMEX is refused here.
  say("[3] Create memory with the fabric handle type\n");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  Message shared = {};
  CUmemGenericAllocationHandle memory;
  CHECK(cuMemGetAllocationGranularity(&shared.size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  shared.size *= granules;
  if (rank == 0) require_permission(cuMemCreate(&memory, shared.size, &properties, 0), "cuMemCreate");
  meet(3, rank == 0 ? std::to_string(shared.size >> 10) + " KiB created" : "");

  // [4] Export it as 64 bytes
  // Plain bytes, and no file descriptor: nothing to close, and nothing that only the kernel could hand over.
  say("[4] Export it as 64 bytes\n");
  if (rank == 0)
    require_permission(cuMemExportToShareableHandle(&shared.handle, memory, CU_MEM_HANDLE_TYPE_FABRIC, 0),
                       "cuMemExportToShareableHandle", CUDA_ERROR_INVALID_VALUE);
  meet(4, rank == 0 ? std::to_string(sizeof shared.handle) + " bytes exported" : "");

  // [5] Send the bytes, and import them in the other process
  // The call takes their address. The importer's allocation handle is its own, and names the same memory.
  say("[5] Send the bytes, and import them in the other process\n");
  const Message arrived = meet(5, "", shared);
  if (rank == 1) {
    shared = arrived;
    require_permission(cuMemImportFromShareableHandle(&memory, &shared.handle, CU_MEM_HANDLE_TYPE_FABRIC),
                       "cuMemImportFromShareableHandle", CUDA_ERROR_INVALID_DEVICE);
  }
  meet(5, rank == 1 ? std::to_string(shared.size >> 10) + " KiB imported" : "");

  // [6] Map it in both
  // Reserve, map, grant access, as with local memory. Each rank grants access to its own GPU, at an address of its own.
  say("[6] Map it in both\n");
  CUdeviceptr address;
  CUmemAccessDesc descriptor = {};
  descriptor.location = properties.location;
  descriptor.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemAddressReserve(&address, shared.size, 0, 0, 0));
  CHECK(cuMemMap(address, shared.size, 0, memory, 0));
  CHECK(cuMemSetAccess(address, shared.size, &descriptor, 1));
  unsigned* const data = reinterpret_cast<unsigned*>(address);
  if (rank == 0) CHECK(cudaMemset(data, 0xA5, shared.size));  // must not survive the next step
  CHECK(cudaDeviceSynchronize());
  meet(6, rank == 0 ? "mapped and poisoned" : "mapped");

  // [7] Write as the importer, check as the exporter
  // A kernel must have finished before a message says so.
  say("[7] Write as the importer, check as the exporter\n");
  const size_t n = shared.size / sizeof *data;
  if (rank == 1) fill<<<n / 256, 256>>>(data);  // n is a multiple: memory comes in granules of MiB
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  meet(7, rank == 1 ? std::to_string(n) + " integers written in a kernel" : "");
  std::vector<unsigned> host(rank == 0 ? n : 0);
  CHECK(cudaMemcpy(host.data(), data, host.size() * sizeof *data, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < host.size(); ++i)
    EXPECT(host[i] == pattern(i), "element %zu is %u, not %u", i, host[i], pattern(i));
  say("    rank 0: " + std::to_string(n) + " integers are what rank 1 wrote\n");

  // [8] Tear down
  // The importer first, then the exporter. The importer's process stays until the exporter has counted what is free.
  say("[8] Tear down\n");
  if (rank == 0) meet(8);
  CHECK(cuMemUnmap(address, shared.size));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(address, shared.size));
  if (rank == 1) meet(8, "unmapped and released");
  CHECK(cuMemGetInfo(&free_now, &total));
  EXPECT(rank == 1 || free_now == free_at_start, "%zu bytes are free, %zu were at the start", free_now, free_at_start);
  meet(8, rank == 0 ? "free memory is what it was at the start" : "");
  finish();
  say("OK\n");
  return 0;
}

// --- Set-up: two processes, and what carries messages between them ---
static pid_t child = 0;                             // the process of rank 1, if this one started it
[[maybe_unused]] static int peer;                   // the socket to the other rank
static std::string other = "the other rank", late;  // its name, and what to say if it keeps this one waiting

static void say(const std::string& line) {
  if (rank == 0) std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

// Bounds a wait for the other rank: without alarm(0) in time, this process says what did not happen, and ends.
static void start_waiting(const std::string& what) {
  late = "fabric: " + other + " did not " + what + " within " + std::to_string(timeout) + " s\n";
  signal(SIGALRM, [](int) {
    if (child > 0) kill(child, SIGKILL);
    _exit(write(STDERR_FILENO, late.data(), late.size()) > 0 ? 1 : 2);
  });
  alarm(timeout);
}

// However a process ends, it leaves nothing behind: no child, and under mpirun no rank that waits.
static void clean_up([[maybe_unused]] int status, void*) {
  if (child > 0 && kill(child, SIGKILL) == 0) TEMP_FAILURE_RETRY(waitpid(child, nullptr, 0));
#ifdef FABRIC_WITH_MPI
  if (status != 0) usleep(300000);  // mpirun passes on what was printed, and only then ends all ranks
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
#endif
}

static void start_ranks() {
  on_exit(clean_up, nullptr);
#ifdef FABRIC_WITH_MPI
  int ranks = 0;
  start_waiting("come to MPI_Init");
  MPI_Init(nullptr, nullptr);
  alarm(0);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2 && rank == 0) std::fprintf(stderr, "fabric: needs two ranks, not %d\n%s", ranks, usage);
  if (ranks != 2) std::exit(2);
#else
  int ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0, "no socket: %s", std::strerror(errno));
  signal(SIGCHLD, SIG_DFL);  // if it is inherited as ignored, waitpid learns no status
  child = fork();            // before any call of CUDA: afterwards a child could not use it
  EXPECT(child >= 0, "no second process: %s", std::strerror(errno));
  rank = child == 0;
  peer = ends[rank];
  close(ends[1 - rank]);
#endif
  other = rank == 0 ? "rank 1 (importer)" : "rank 0 (exporter)";
}

// Waits for the end of rank 1, and gives its exit status, or 128 + the signal that ended it.
static int end_of_child() {
  int status = 0;
  if (child > 0) EXPECT(TEMP_FAILURE_RETRY(waitpid(child, &status, 0)) == child, "%s", std::strerror(errno));
  child = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static Message meet(int step, const std::string& found, Message mine) {
  Message theirs = {};
  const int size = sizeof mine;
  mine.rank = rank;
  mine.step = step;
  found.copy(mine.found, sizeof mine.found - 1);
  start_waiting("answer [" + std::to_string(step) + "]");
#ifdef FABRIC_WITH_MPI
  MPI_Sendrecv(&mine, size, MPI_BYTE, 1 - rank, 0, &theirs, size, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
#else
  TEMP_FAILURE_RETRY(send(peer, &mine, size, MSG_NOSIGNAL));  // the next line tells if the other rank has ended
  const bool has_ended = TEMP_FAILURE_RETRY(recv(peer, &theirs, size, 0)) <= 0;
  const int status = has_ended ? end_of_child() : 0;
  if (status == 77) std::exit(77);  // rank 1 has said why
  EXPECT(!has_ended, "%s ended before it answered [%d], status %d", other.c_str(), step, status);
#endif
  alarm(0);
  EXPECT(theirs.rank == 1 - rank && theirs.step == step, "%s gave nonsense for [%d]", other.c_str(), step);
  if (!found.empty()) say("    rank 0: " + found + "\n");
  if (theirs.found[0]) say("    rank 1: " + std::string(theirs.found) + "\n");
  return theirs;
}

static void finish() {
  start_waiting("end");
  const int status = end_of_child();
  EXPECT(status == 0, "rank 1 ended with exit status %d", status);
}
