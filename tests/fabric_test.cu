// SPDX-License-Identifier: MIT-0
//
// Lesson 05 without a GPU: fabric_test [CASE], or --list, or --lesson and the lesson's arguments, to run just that.
//
// The lesson is compiled in, and the driver that it calls is the one below, whose memory is a file in memory and whose
// fabric handle is that file's name. So the ranks meet, share and check in earnest, and each can be made to misbehave.
#define main lesson_main
#include "../05_fabric/fabric.cu"
#undef main

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <chrono>
#include <functional>
#include <map>

// What goes wrong, from the environment: "RANK WHAT STEP" for a rank that misbehaves, "RANK ERROR CALL" for a driver's
// call that answers with this error, and "both" instead of the rank.
static bool fault(const char* what, const std::string& where) {
  const char* set = std::getenv("FABRIC_TEST");
  return set && (text("%d %s %s", rank, what, where.c_str()) == set || text("both %s %s", what, where.c_str()) == set);
}

static CUresult answer(const char* call) {
  for (CUresult error : {CUDA_ERROR_STUB_LIBRARY, CUDA_ERROR_NO_DEVICE, CUDA_ERROR_UNKNOWN, CUDA_ERROR_NOT_PERMITTED,
                         CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE,
                         CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_HANDLE})
    if (fault(std::to_string(error).c_str(), call)) return error;
  return CUDA_SUCCESS;
}

static void be_silent() { sleep(5), _exit(9); }  // far longer than anyone waits, and yet not for ever

// Called by the driver below in each step, so that a rank can misbehave there.
static void misbehave(int step) {
  const std::string at = std::to_string(step);
  Message message = {};  // right but for one thing
  std::memcpy(message.magic, fault("wrong_magic", at) ? "FABRIC04" : "FABRIC05", 8);
  message.rank = fault("wrong_rank", at) ? 1 - rank : rank;
  message.step = fault("wrong_step", at) ? step + 1 : step;
  const auto give = [&](const void* data, size_t size) {
    if (write(out, data, size) < 0) _exit(9);
  };
  if (fault("dies", at)) _exit(3);
  if (fault("killed", at)) raise(SIGKILL);
  if (fault("silent", at)) be_silent();
  if (fault("half_then_dies", at)) give(&message, 100), _exit(3);
  if (fault("half_then_silent", at)) give(&message, 100), be_silent();
  if (fault("nonsense", at)) give(std::string(sizeof message, '?').data(), sizeof message), be_silent();
  for (const char* wrong : {"wrong_magic", "wrong_rank", "wrong_step"})
    if (fault(wrong, at)) give(&message, sizeof message), be_silent();
  if (fault("closes", at)) close(in), close(out), be_silent();
}

// The driver, as far as the lesson calls it.
struct Memory {
  int file;
  size_t size;
};
static size_t taken = 0;
extern "C" {
CUresult CUDAAPI cuGetErrorName(CUresult error, const char** name) {
  static const std::map<CUresult, const char*> known = {{CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN"},
                                                        {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED"},
                                                        {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
                                                        {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
                                                        {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                        {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
                                                        {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"}};
  return *name = known.count(error) ? known.at(error) : "another", CUDA_SUCCESS;
}
CUresult CUDAAPI cuGetErrorString(CUresult, const char** s) { return *s = "", CUDA_SUCCESS; }
CUresult CUDAAPI cuInit(unsigned) { return misbehave(2), answer("cuInit"); }
CUresult CUDAAPI cuDriverGetVersion(int* v) { return *v = CUDA_VERSION - fault("old", "driver") * 1000, CUDA_SUCCESS; }
CUresult CUDAAPI cuDeviceGetCount(int* count) { return *count = fault("no", "gpus") ? 0 : 2, CUDA_SUCCESS; }
CUresult CUDAAPI cuDeviceGet(CUdevice* device, int i) { return *device = i, CUDA_SUCCESS; }
CUresult CUDAAPI cuDeviceGetName(char* name, int n, CUdevice device) {
  return std::snprintf(name, n, "GPU-like %d", device), CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED && !fault("without", "fabric");
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemGetAllocationGranularity(size_t* size, const CUmemAllocationProp*,
                                               CUmemAllocationGranularity_flags) {
  return misbehave(3), *size = 65536, CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemGetInfo(size_t* free, size_t* total) {
  misbehave(5);
  return *total = 1 << 30, *free = *total - taken, CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* properties,
                             unsigned long long) {
  static int calls = 0;
  if (const CUresult error = answer(++calls == 1 ? "cuMemCreate" : "cuMemCreate_again")) return error;
  if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_FABRIC) return CUDA_ERROR_UNKNOWN;  // no other kind, ever
  Memory* memory = new Memory{memfd_create("fabric_test", MFD_CLOEXEC), size};
  taken += size;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(memory);
  return ftruncate(memory->file, size) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}
CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  Memory* memory = reinterpret_cast<Memory*>(handle);
  if (!fault("leaks", "memory")) taken -= memory->size;
  return close(memory->file), delete memory, CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemExportToShareableHandle(void* handle, CUmemGenericAllocationHandle memory,
                                              CUmemAllocationHandleType type, unsigned long long) {
  if (type != CU_MEM_HANDLE_TYPE_FABRIC) return CUDA_ERROR_UNKNOWN;
  const Memory* exported = reinterpret_cast<Memory*>(memory);
  std::snprintf(static_cast<char*>(handle), sizeof(CUmemFabricHandle), "/proc/%d/fd/%d", getpid(), exported->file);
  return misbehave(6), answer("cuMemExportToShareableHandle");
}
CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* memory, void* handle,
                                                CUmemAllocationHandleType type) {
  misbehave(7);
  if (const CUresult error = answer("cuMemImportFromShareableHandle")) return error;
  const int file = open(static_cast<char*>(handle), O_RDWR | O_CLOEXEC);
  struct stat is = {};
  if (type != CU_MEM_HANDLE_TYPE_FABRIC || file < 0 || fstat(file, &is) != 0) return CUDA_ERROR_UNKNOWN;
  taken += is.st_size;
  *memory = reinterpret_cast<CUmemGenericAllocationHandle>(new Memory{file, size_t(is.st_size)});
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* p, size_t size, size_t, CUdeviceptr, unsigned long long) {
  *p = reinterpret_cast<CUdeviceptr>(mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemMap(CUdeviceptr p, size_t size, size_t, CUmemGenericAllocationHandle memory, unsigned long long) {
  misbehave(8);
  void* at = reinterpret_cast<void*>(p);
  const void* mapped = mmap(at, size, PROT_NONE, MAP_SHARED | MAP_FIXED, reinterpret_cast<Memory*>(memory)->file, 0);
  return mapped == at ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}
CUresult CUDAAPI cuMemSetAccess(CUdeviceptr p, size_t size, const CUmemAccessDesc* descriptor, size_t) {
  if (descriptor->location.id != rank) return CUDA_ERROR_UNKNOWN;  // each rank lets its own GPU in
  return mprotect(reinterpret_cast<void*>(p), size, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}
CUresult CUDAAPI cuMemUnmap(CUdeviceptr p, size_t size) {
  misbehave(10);
  mmap(reinterpret_cast<void*>(p), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAddressFree(CUdeviceptr p, size_t size) {
  return munmap(reinterpret_cast<void*>(p), size), CUDA_SUCCESS;
}

#ifndef __CUDA_ARCH__  // device code has a runtime of its own
// The runtime, as far as the lesson calls it. A launch of the lesson's one kernel is a loop.
cudaError_t CUDARTAPI cudaSetDevice(int) { return cudaSuccess; }
cudaError_t CUDARTAPI cudaFuncGetAttributes(cudaFuncAttributes*, const void*) { return cudaSuccess; }
cudaError_t CUDARTAPI cudaGetLastError() { return cudaSuccess; }
cudaError_t CUDARTAPI cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t CUDARTAPI cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind) {
  return size ? std::memcpy(to, from, size) : nullptr, cudaSuccess;
}
static cudaError_t launch(void** arguments) {
  unsigned* data = *static_cast<unsigned**>(arguments[0]);
  const size_t n = *static_cast<size_t*>(arguments[1]) - fault("forgets", "the last");
  const unsigned seed = *static_cast<unsigned*>(arguments[2]);
  if (rank == 1) misbehave(9);
  for (size_t i = 0; i < n && !fault("writes", "nothing"); ++i) data[i] = pattern(i, seed);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaLaunchKernel(const void*, dim3, dim3, void** arguments, size_t, cudaStream_t) {
  return launch(arguments);
}
#if CUDART_VERSION >= 13000
cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t* kernel, const void*) { return *kernel = nullptr, cudaSuccess; }
cudaError_t CUDARTAPI __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void** arguments, size_t, cudaStream_t) {
  return launch(arguments);
}
#endif
#endif
}  // extern "C"

// Runs the lesson in a process of its own: how it ended, what it said, and whether a process outlived it.
struct Run {
  int status = -1;
  double seconds = 0;
  std::string out, err;
  int left_behind = 0;
};
static Run lesson(const std::string& what, std::vector<std::string> arguments = {}, int lesson_timeout = 5) {
  int ends[2][2];
  if (pipe2(ends[0], O_CLOEXEC) != 0 || pipe2(ends[1], O_CLOEXEC) != 0) std::abort();
  arguments.insert(arguments.begin(), {"fabric", "--timeout", std::to_string(lesson_timeout)});
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  std::fflush(stdout);  // what is still in the buffer would be printed by the child too
  const pid_t process = fork();
  if (process == 0) {
    setenv("FABRIC_TEST", what.c_str(), 1);
    dup2(ends[0][1], 1), dup2(ends[1][1], 2);
    for (int fd = 3; fd < 1024; ++fd) close(fd);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(&argument[0]);
    argv.push_back(nullptr);
    lesson_main(int(arguments.size()), argv.data());
    _exit(99);  // the lesson ends with exit
  }
  Run run;
  close(ends[0][1]), close(ends[1][1]);
  for (int open_ends = 2; open_ends > 0 && seconds() < 15;) {
    pollfd ready[] = {{ends[0][0], POLLIN, 0}, {ends[1][0], POLLIN, 0}};
    open_ends = 2;
    poll(ready, 2, 100);
    for (int i : {0, 1}) {
      char data[4096];
      const ssize_t n = ready[i].revents ? read(ends[i][0], data, sizeof data) : 1;
      if (n <= 0) --open_ends;
      else if (ready[i].revents) (i ? run.err : run.out).append(data, n);
    }
  }
  run.seconds = seconds();
  close(ends[0][0]), close(ends[1][0]);
  usleep(20000);  // a process closes its pipes a moment before it can be waited for
  int status = 0;
  if (waitpid(process, &status, WNOHANG) != process) kill(process, SIGKILL), waitpid(process, &status, 0);
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  // This process inherits what the lesson leaves behind: one that has ended (1), or one that still runs (2).
  while (const pid_t other = waitpid(-1, nullptr, WNOHANG)) {
    if (other < 0) return run;
    run.left_behind = 1;
  }
  run.left_behind = 2;
  const std::string end_all = text("kill -9 $(cat /proc/%d/task/%d/children) 2>/dev/null", getpid(), getpid());
  while (std::system(end_all.c_str()) >= 0 && waitpid(-1, nullptr, 0) > 0) {
  }
  return run;
}

static int failures = 0;
static void expect(bool holds, const char* claim, const Run& run, int line) {
  if (holds) return;
  ++failures;
  std::printf("line %d: %s\n  status %d after %.1f s%s\n  stdout:\n%s  stderr:\n%s", line, claim, run.status,
              run.seconds, run.left_behind ? ", a process left behind" : "", run.out.c_str(), run.err.c_str());
}
#define SHOULD(...) expect((__VA_ARGS__), #__VA_ARGS__, run, __LINE__)
static bool has(const std::string& s, const std::string& part) { return s.find(part) != std::string::npos; }
static bool ends_with(const std::string& s, const std::string& end) {
  return s.size() >= end.size() && s.substr(s.size() - end.size()) == end;
}
static int count(const std::string& s, const std::string& part) {
  int n = 0;
  for (size_t at = s.find(part); at != std::string::npos; at = s.find(part, at + 1)) ++n;
  return n;
}

// Both ranks stop at this step, with one line that says why, and nothing between the banner and this line.
static void skips(const std::string& what, int step, const std::string& reason) {
  const Run run = lesson(what);
  const size_t banner = run.out.find(text("[%d] ", step)), line = run.out.find("\nSKIP: ");
  SHOULD(run.status == 77 && run.err.empty() && !run.left_behind && run.seconds < 4);
  SHOULD(has(run.out, reason) && count(run.out, "SKIP: ") == 1 && count(run.out, "; ") == 1);
  SHOULD(count(run.out, "[") == step && banner < line);
  SHOULD(run.out.find('\n', banner) == line && run.out.find('\n', line + 1) == run.out.size() - 1);
}
// The lesson fails, says this, and leaves nothing behind: at once, or if it has to wait, after the second it was given.
static void fails(const std::string& what, const std::string& message, bool waits = false) {
  const Run run = lesson(what, {}, waits ? 1 : 5);
  SHOULD(run.status == 1 && !run.left_behind && run.seconds < 4 && (!waits || run.seconds >= 0.95));
  SHOULD(has(run.err, message) && !has(run.out, "SKIP") && !has(run.out, "OK"));
}
static const std::string gave = "rank 1 (importer) gave ", of = text(" of %d bytes for ", int(sizeof(Message)));

// Where the lesson stops on this machine if the driver creates no fabric memory: at the class of channel files, at the
// channel, or, if there is one that opens, at the next step.
static int stop() {
  std::string wrong;
  const int driver_major = imex_major("/proc/devices");
  return driver_major < 0 ? 3 : find_channel("/dev/nvidia-caps-imex-channels", driver_major, &wrong) < 0 ? 4 : 5;
}

static std::string temporary;
static std::string file(const std::string& content) {
  std::ofstream(temporary + "/devices") << content;
  return temporary + "/devices";
}
static int major_in(const std::string& content) { return imex_major(file(content).c_str()); }
static std::string channels(const std::vector<std::pair<std::string, std::string>>& links) {
  const std::string directory = temporary + "/channels";
  if (std::system(("rm -rf " + directory + " && mkdir " + directory).c_str())) std::abort();
  for (const auto& [name, target] : links)
    if (symlink(target.c_str(), (directory + "/" + name).c_str())) std::abort();
  return directory;
}

static const std::map<std::string, std::function<void()>> cases = {
    {"all_goes_well",
     [] {
       const Run run = lesson("", {"--granules", "3"});
       SHOULD(run.status == 0 && run.err.empty() && !run.left_behind);
       for (const char* lines :
            {"[1] Start two ranks\n    rank 0: exports\n    rank 1: imports\n[2] Ask the driver\n"
             "    rank 0: GPU-like 0, fabric handles are supported\n"
             "    rank 1: GPU-like 1, fabric handles are supported\n[3] ",
             "[5] Create memory with the fabric handle type\n    rank 0: 192 KiB created\n",
             "[6] Export it as 64 bytes\n    rank 0: 64 bytes exported\n[7] ", "    rank 1: 192 KiB imported\n[8] ",
             "    rank 0: mapped and poisoned\n    rank 1: mapped\n[9] ",
             "    rank 1: 49152 integers written in a kernel\n"
             "    rank 0: 49152 integers are what rank 1 wrote\n[10] Tear down\n    rank 1: unmapped and released\n"
             "    rank 0: free memory is what it was at the start\nOK\n"})
         SHOULD(has(run.out, lines));
     }},
    {"child_gets_only_its_pipes",
     [] {
       const Run run = lesson("1 lists descriptors");
       SHOULD(run.err == "descriptors: 5\n");
     }},
    {"help",
     [] {
       const Run run = lesson("", {"--help"});
       SHOULD(run.status == 0 && has(run.out, "usage: fabric") && run.err.empty() && !run.left_behind);
     }},
    {"bad_arguments",
     [] {
       const std::vector<std::vector<std::string>> all = {
           {"--granules", "0"}, {"--timeout", "0"}, {"--other"}, {"--granules"}};
       for (const auto& bad : all) {
         const Run run = lesson("", bad);
         SHOULD(run.status == 2 && has(run.err, "usage: fabric") && run.out.empty() && !run.left_behind);
       }
     }},

    {"skip_stub_driver", [] { skips("both 34 cuInit", 2, "only the toolkit's stub of a driver; install "); }},
    {"skip_no_gpu", [] { skips("both 100 cuInit", 2, "the driver sees no GPU; look at"); }},
    {"skip_gpus_count_to_none", [] { skips("both no gpus", 2, "the driver counts no GPU; "); }},
    {"skip_old_driver", [] { skips("both old driver", 2, "; update the driver"); }},
    {"skip_only_rank_1_has_no_gpu", [] { skips("1 100 cuInit", 2, "SKIP: rank 1 on "); }},
    {"skip_only_rank_0_has_no_gpu", [] { skips("0 100 cuInit", 2, "SKIP: the driver sees no GPU"); }},
    {"skip_no_attribute", [] { skips("both without fabric", 2, "GPU-like 0 has no fabric handles; use "); }},
    {"skip_create_not_permitted",
     [] { skips("both 800 cuMemCreate", stop(), "cuMemCreate answers CUDA_ERROR_NOT_PERMITTED; "); }},
    {"skip_create_not_supported",
     [] { skips("both 801 cuMemCreate", stop(), "cuMemCreate answers CUDA_ERROR_NOT_SUPPORTED; "); }},
    {"skip_only_rank_1_may_not_create",
     [] {
       if (stop() < 5) skips("1 800 cuMemCreate", stop(), "SKIP: rank 1 on ");  // with a channel it need not create
     }},
    {"skip_create_refused_after_all",
     [] { skips("0 800 cuMemCreate_again", 5, "SKIP: cuMemCreate answers CUDA_ERROR_NOT_PERMITTED; let"); }},
    {"skip_export_invalid_value",
     [] {
       skips("0 1 cuMemExportToShareableHandle", 6,
             "SKIP: memory is created, but cuMemExportToShareableHandle answers CUDA_ERROR_INVALID_VALUE; ");
     }},
    {"skip_export_not_permitted",
     [] { skips("0 800 cuMemExportToShareableHandle", 6, "ToShareableHandle answers CUDA_ERROR_NOT_PERMITTED; "); }},
    {"skip_import_not_permitted",
     [] {
       skips("1 800 cuMemImportFromShareableHandle", 7, "FromShareableHandle answers CUDA_ERROR_NOT_PERMITTED; ");
     }},
    {"skip_import_gpu_not_visible",
     [] {
       skips("1 101 cuMemImportFromShareableHandle", 7, "FromShareableHandle answers CUDA_ERROR_INVALID_DEVICE; ");
     }},

    {"fail_driver_broken", [] { fails("both 999 cuInit", "failed cuInit(0)\n  CUDA_ERROR_UNKNOWN"); }},
    {"fail_create", [] { fails("both 2 cuMemCreate", "failed cuMemCreate\n  CUDA_ERROR_OUT_OF_MEMORY"); }},
    {"fail_create_invalid_value",
     [] { fails("0 1 cuMemCreate_again", "failed cuMemCreate\n  CUDA_ERROR_INVALID_VALUE"); }},
    {"fail_export",
     [] { fails("0 2 cuMemExportToShareableHandle", "cuMemExportToShareableHandle\n  CUDA_ERROR_OUT_OF_MEMORY"); }},
    {"fail_import",
     [] {
       fails("1 400 cuMemImportFromShareableHandle", "cuMemImportFromShareableHandle\n  CUDA_ERROR_INVALID_HANDLE");
       fails("1 400 cuMemImportFromShareableHandle", gave + "0" + of + "[7], then ended with exit status 1");
     }},
    {"fail_last_element", [] { fails("1 forgets the last", "element 16383 is "); }},
    {"fail_nothing_written", [] { fails("1 writes nothing", "element 0 is "); }},
    {"fail_memory_not_returned", [] { fails("0 leaks memory", "bytes are free, "); }},

    {"rank_1_dies",
     [] {
       for (int step : {1, 2, 3, 5, 7, 8, 9, 10})
         fails(text("1 dies %d", step), gave + "0" + of + text("[%d], then ended with exit status 3", step));
     }},
    {"rank_1_is_killed", [] { fails("1 killed 7", gave + "0" + of + "[7], then ended with exit status 137"); }},
    {"rank_1_is_silent",
     [] {
       for (int step : {1, 2, 7, 10})
         fails(text("1 silent %d", step), text("rank 1 (importer) did not answer [%d] within 1 s", step), true);
     }},
    {"rank_1_gives_half_and_dies",
     [] { fails("1 half_then_dies 7", gave + "100" + of + "[7], then ended with exit status 3"); }},
    {"rank_1_gives_half_and_waits",
     [] { fails("1 half_then_silent 7", "rank 1 (importer) did not answer [7] within 1 s", true); }},
    {"rank_1_gives_nonsense",
     [] {
       for (int step : {1, 2, 7})
         fails(text("1 nonsense %d", step), gave + text("something else than its message for [%d]", step));
     }},
    {"rank_1_gives_another_programs_message",
     [] { fails("1 wrong_magic 7", gave + "something else than its message for [7]"); }},
    {"rank_1_gives_a_message_of_rank_0",
     [] { fails("1 wrong_rank 7", gave + "something else than its message for [7]"); }},
    {"rank_1_is_out_of_step", [] { fails("1 wrong_step 7", gave + "something else than its message for [7]"); }},
    {"rank_1_closes_its_pipes", [] { fails("1 closes 7", gave + "0" + of + "[7], then ended with exit status 137"); }},
    {"rank_1_ends_wrongly", [] { fails("1 dies 0", "rank 1 (importer) ended with exit status 3, not 0"); }},
    {"rank_1_does_not_end", [] { fails("1 silent 0", "rank 1 (importer) did not end within 1 s", true); }},
    {"rank_1_skips_and_does_not_end",
     [] {
       setenv("FABRIC_TEST_TOO", "1 silent 0", 1);
       fails("1 100 cuInit", "rank 1 (importer) did not end within 1 s", true);
       unsetenv("FABRIC_TEST_TOO");
     }},
    {"rank_0_dies",
     [] {
       for (int step : {2, 6, 8}) {
         const Run run = lesson(text("0 killed %d", step));
         SHOULD(run.status == 137 && run.left_behind < 2 && run.seconds < 4);  // nobody can reap it, but it ends
         SHOULD(has(run.err, "rank 0 (exporter) gave 0" + of + text("[%d]\n", step)));
       }
     }},
    {"rank_0_is_silent",
     [] {
       const Run run = lesson("0 silent 6", {}, 1);  // nobody ends rank 0 here: what counts is what rank 1 says
       SHOULD(has(run.err, "rank 0 (exporter) did not answer [6] within 1 s"));
     }},
    {"rank_0_gives_nonsense",
     [] {
       const Run run = lesson("0 nonsense 6");
       SHOULD(has(run.err, "rank 0 (exporter) gave something else than its message for [6]"));
     }},

    {"devices",
     [] {
       const Run run;
       const std::string before = "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n";
       const std::string after = "509 nvidia-nvswitch\n\nBlock devices:\n  7 loop\n";
       SHOULD(major_in(before + "234 nvidia-caps-imex-channels\n" + after) == 234);
       SHOULD(major_in(before + "  9 nvidia-caps-imex-channels\n" + after) == 9);
       SHOULD(major_in(before + "234 nvidia-caps-imex-channels") == 234);  // no newline at the end
       SHOULD(major_in(before + "235 nvidia-caps\n" + after) == -1);
       SHOULD(major_in(before + "235 nvidia-caps-imex-channels2\n" + after) == -1);
       SHOULD(major_in(before + "nvidia-caps-imex-channels 234\n" + after) == -1);
       SHOULD(major_in(before + "x nvidia-caps-imex-channels\n" + after) == -1);
       SHOULD(major_in(before + " nvidia-caps-imex-channels\n" + after) == -1);
       SHOULD(major_in("") == -1);
       SHOULD(imex_major((temporary + "/none").c_str()) == -1 && imex_major(temporary.c_str()) == -1);
     }},
    {"channels",
     [] {
       const Run run;
       std::string wrong;
       const auto find = [&](const std::vector<std::pair<std::string, std::string>>& links, int driver_major) {
         return find_channel(channels(links), driver_major, &wrong);
       };
       SHOULD(find_channel(temporary + "/none", 1, &wrong) == -1);
       SHOULD(wrong == "no channel file in " + temporary + "/none");
       SHOULD(find({}, 1) == -1 && has(wrong, "no channel file in "));
       SHOULD(find({{"other", "/dev/null"}}, 1) == -1 && has(wrong, "no channel file in "));
       SHOULD(find({{"channel3", "/dev/null"}}, 1) == 3);  // /dev/null is 1:3
       SHOULD(find({{"channel0", "/nowhere"}, {"channel3", "/dev/null"}}, 1) == 3);
       SHOULD(find({{"channel3", "/dev/null"}}, 2) == -1);
       SHOULD(has(wrong, "/channel3 is no character device with the major number 2"));
       SHOULD(find({{"channel0", file("plain")}}, 0) == -1 && has(wrong, "/channel0 is no character device"));
       SHOULD(find({{"channel0", "/nowhere"}}, 1) == -1 && ends_with(wrong, "/channel0: No such file or directory"));
       const std::string closed = channels({{"channel0", file("closed")}});
       chmod(file("closed").c_str(), 0);
       chmod(temporary.c_str(), 0755);
       if (getuid() == 0 && seteuid(65534) != 0) std::abort();  // nothing is closed to root
       SHOULD(find_channel(closed, 1, &wrong) == -1 && ends_with(wrong, "/channel0: Permission denied"));
       if (getuid() == 0 && seteuid(0) != 0) std::abort();
     }},
    {"no_descriptor_left_by_the_doctor",
     [] {
       const Run run;
       std::string wrong;
       const auto next = [] {
         const int fd = dup(0);
         close(fd);
         return fd;
       };  // the lowest that is free
       const int before = next();
       find_channel(channels({{"channel0", "/nowhere"}, {"channel1", "/dev/full"}}), 2, &wrong);
       find_channel(channels({{"channel3", "/dev/null"}}), 2, &wrong);
       major_in("1 mem\n");
       SHOULD(next() == before);
     }},
};

int main(int argc, char** argv) {
  if (argc > 3 && !std::strcmp(argv[3], "--in")) {  // the lesson has started this program as its rank 1
    rank = 1, in = std::strtol(argv[4], nullptr, 10), out = std::strtol(argv[6], nullptr, 10);
    if (fault("lists", "descriptors")) {
      glob_t files = {};
      glob("/proc/self/fd/*", 0, nullptr, &files);
      std::fprintf(stderr, "descriptors: %d\n", int(files.gl_pathc) - 1);  // without the one that lists them
    }
    misbehave(1);
    std::atexit([] {  // runs after all that the lesson does
      if (const char* too = std::getenv("FABRIC_TEST_TOO")) setenv("FABRIC_TEST", too, 1);
      misbehave(0);
    });
    return lesson_main(argc, argv);
  }
  if (argc > 1 && !std::strcmp(argv[1], "--lesson")) return lesson_main(argc - 1, argv + 1);
  const std::string wanted = argc > 1 ? argv[1] : "";
  char directory[] = "/tmp/fabric_test.XXXXXX";
  temporary = mkdtemp(directory);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int ran = 0;
  for (const auto& [name, run] : cases) {
    if (wanted == "--list") std::puts(name.c_str());
    if (!wanted.empty() && wanted != name) continue;
    const int before = failures;
    run(), ++ran;
    std::printf("%s %s\n", failures == before ? "ok  " : "FAIL", name.c_str());
  }
  if (std::system(("rm -rf " + temporary).c_str())) return 1;
  if (!ran && wanted != "--list") std::fprintf(stderr, "no such case: %s\n", wanted.c_str());
  return failures > 0 || (!ran && wanted != "--list");
}
