// SPDX-License-Identifier: MIT-0
// 05 Fabric, doctor: what stops fabric memory on this machine, and what does an administrator do about it?
//
// Tries everything that fabric memory needs, in processes of its own, so that it can report a driver that hangs or
// crashes, too. It makes no device file and changes nothing.
//
// Build it alone:  nvcc -std=c++17 fabric_doctor.cu -o fabric_doctor -lcuda
#include "../common/check.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <fstream>
#include <string>

static const char usage[] =
    "usage: fabric_doctor [--timeout S] [--json]\n"
    "  --timeout S   seconds for all stages together, 1 to 600 (default 30)\n"
    "  --json        an object instead of the table: works (true or false); failed, the name of a stage, and remedy,\n"
    "                both empty if there is none; stages, a list of objects with stage, state and found\n"
    "exit status: 0 another process of this machine wrote memory of GPU 0 (by GPU 1, if there is one), 77 the first\n"
    "line (or remedy) says what is missing and how to get it, 1 a stage failed for another reason, 2 bad arguments\n";

static const char* const stages[] = {"driver", "GPU",    "fabric handles", "channel", "create",
                                     "export", "import", "map and write",  "release"};
static const int count = sizeof stages / sizeof *stages;

struct Report {                         // in memory that all processes share
  int gpus, at;                         // GPUs that there are; stages done: the next one is tried, or has failed
  char found[count][320], remedy[448];  // what each stage found; what to do about a failure, if that is known
  CUmemFabricHandle handle;             // from the exporter to the importer, and how much memory it stands for
  size_t size;
};
static const int access_both = PROT_READ | PROT_WRITE, of_all = MAP_SHARED | MAP_ANONYMOUS;
static Report* const report = static_cast<Report*>(mmap(nullptr, sizeof(Report), access_both, of_all, -1, 0));

static void done(const std::string& found) {
  found.copy(report->found[report->at], sizeof report->found[0] - 1);
  ++report->at;
}
static void failed(const std::string& found, const std::string& remedy) {
  found.copy(report->found[report->at], sizeof report->found[0] - 1);
  remedy.copy(report->remedy, sizeof report->remedy - 1);
  _exit(1);  // and the driver takes back what this process held
}

// The stage fails if the driver's call did. If missing set-up may be the cause, there is a remedy.
static void need(CUresult answer, const char* call, CUresult reported = CUDA_ERROR_NOT_PERMITTED) {
  const char* remedy = "";
  if (answer == CUDA_ERROR_NOT_PERMITTED || answer == CUDA_ERROR_NOT_SUPPORTED || answer == reported)
    remedy = "look at Fabric Manager and IMEX: nvidia-smi -q, nvidia-imex-ctl -N";
  if (answer == CUDA_ERROR_SYSTEM_NOT_READY || int(answer) == 919)  // 919, from CUDA 13.4 on: FABRIC_NOT_READY
    remedy = "look at Fabric Manager: systemctl status nvidia-fabricmanager";
  if (answer == CUDA_ERROR_INVALID_DEVICE) remedy = "let each process see the GPUs of both";
  if (answer != CUDA_SUCCESS) failed(std::string(call) + " answers " + check::name(answer), remedy);
}

// The major number under which /proc/devices lists the driver's class of channel files, or -1.
static int major_of_channels(const char* devices) {
  std::ifstream file(devices);
  long last = 0;  // the word before, if that is a number
  for (std::string word; file >> word; last = std::strtol(word.c_str(), nullptr, 10))
    if (word == "nvidia-caps-imex-channels" && last > 0) return int(last);
  return -1;
}

// The first channel file that opens and belongs to the driver's class: its channel; or -1, what is wrong, and the cure.
static int find_channel(const std::string& directory, int driver_major, std::string* wrong, std::string* remedy) {
  const std::string number = std::to_string(driver_major), make = directory + "/channel0 c " + number + " 0";
  int channel = -1;
  glob_t files = {};
  glob((directory + "/channel*").c_str(), 0, nullptr, &files);
  if (driver_major < 0) {
    *wrong = "/proc/devices lists no nvidia-caps-imex-channels";
    *remedy = "load a driver that has IMEX channels";
  } else {
    *wrong = "no channel file in " + directory;
    *remedy = "as root: mkdir -p " + directory + " && mknod -m 666 " + make +
              " (or load module nvidia with NVreg_CreateImexChannel0=1), or give this user or container the file";
  }
  for (size_t i = 0; i < files.gl_pathc && driver_major >= 0; ++i) {
    struct stat is = {};
    const std::string path = files.gl_pathv[i];
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
    const int error = fd < 0 || fstat(fd, &is) != 0 ? errno : 0;
    if (fd >= 0) close(fd);
    if (!error && S_ISCHR(is.st_mode) && int(major(is.st_rdev)) == driver_major) channel = int(minor(is.st_rdev));
    if (channel >= 0) break;
    *wrong = path + (error ? ": " : " is no character device with the major number ");
    *wrong += error ? std::strerror(error) : number.c_str();
    if (error == EACCES) *remedy = "on the host, as root: give that file mode 660, and a group that this user is in";
    else if (error == EPERM)
      *remedy = "start the container with docker run --device: -v shows a device, and allows none";
    else *remedy = "on the host, as root: remove that file, then mknod -m 666 " + make;
  }
  globfree(&files);
  return channel;
}

// How many GPUs can be in a multicast team with this one. Since CUDA 13.4 the driver says it, and not NVML alone.
static std::string clique_of(CUdevice device) {
  struct Clique {  // CUcliqueInfo: the headers may be older
    int type;
    unsigned id;
  };
  const int of_multicast = 1;
  void* found = nullptr;
  CUdriverProcAddressQueryResult status;
  CUresult answer = cuGetProcAddress("cuDeviceGetCliqueInfo", &found, 13040, 0, &status);
  const auto ask = reinterpret_cast<CUresult (*)(Clique*, size_t*, CUdevice)>(found);
  long own = -1;
  int same = 0;
  for (int i = 0; i < report->gpus && ask && answer == CUDA_SUCCESS; ++i) {
    Clique all[16];
    size_t number = sizeof all / sizeof *all;
    answer = ask(all, &number, (device + i) % report->gpus);
    for (size_t k = 0; k < number && answer == CUDA_SUCCESS; ++k) {
      if (all[k].type != of_multicast) continue;
      if (i == 0) own = all[k].id;
      same += all[k].id == own;
    }
  }
  if (!ask || answer != CUDA_SUCCESS) return std::string("; who is in its clique, no answer: ") + check::name(answer);
  return "; " + std::to_string(same) + " of " + std::to_string(report->gpus) + " GPUs are in its multicast clique";
}

static void export_memory(int go, pid_t importer) {
  // The driver, the GPU and its attribute. These say what is possible; only trying shows what this process may do.
  int cuda = 0, supported = 0;
  char name[64], versions[64];
  const CUdevice device = 0;
  const CUresult started = cuInit(0);
  if (started == CUDA_ERROR_STUB_LIBRARY) failed("only the toolkit's stub of a driver", "install the NVIDIA driver");
  need(cuDriverGetVersion(&cuda), "cuDriverGetVersion");
  std::snprintf(versions, sizeof versions, "the driver is for CUDA %d.%d, this program for %d.%d", cuda / 1000,
                cuda % 1000 / 10, CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
  if (cuda / 1000 < CUDA_VERSION / 1000) failed(versions, "update the driver");
  const bool no_gpu = started == CUDA_ERROR_NO_DEVICE;
  if (!no_gpu) need(started, "cuInit");
  done(versions);
  if (no_gpu) failed("the driver sees no GPU", "look at nvidia-smi and CUDA_VISIBLE_DEVICES");
  need(cuDeviceGetCount(&report->gpus), "cuDeviceGetCount");
  need(cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
  done(std::string(name) + ", the first of " + std::to_string(report->gpus));
  const CUdevice_attribute attribute = CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED;
  need(cuDeviceGetAttribute(&supported, attribute, device), "cuDeviceGetAttribute");
  const char* const no_handles = "use a Hopper GPU or a later one, on an NVSwitch";
  if (!supported) failed(std::string(name) + " has no fabric handles", no_handles);
  done("supported, says the driver" + (cuda >= 13040 ? clique_of(device) : ""));

  // The channel. Files explain, but the driver decides: a container may hide a file, or show one that this process may
  // not use. So ask the driver for memory first; a missing file is a failure only if the driver refuses, too.
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  CUmemGenericAllocationHandle memory;
  const CUmemAllocationGranularity_flags minimum = CU_MEM_ALLOC_GRANULARITY_MINIMUM;
  need(cuMemGetAllocationGranularity(&report->size, &properties, minimum), "cuMemGetAllocationGranularity");
  const CUresult created = cuMemCreate(&memory, report->size, &properties, 0);
  const bool refused = created == CUDA_ERROR_NOT_PERMITTED || created == CUDA_ERROR_NOT_SUPPORTED;
  const int driver_major = major_of_channels("/proc/devices");
  std::string wrong, remedy;
  const int channel = find_channel("/dev/nvidia-caps-imex-channels", driver_major, &wrong, &remedy);
  if (channel < 0 && refused) failed(wrong + ", and cuMemCreate answers " + check::name(created), remedy);
  if (channel < 0) done(wrong + ", yet the driver creates fabric memory");
  else done("channel " + std::to_string(channel) + " opens");

  // What was created need not be exportable.
  need(created, "cuMemCreate");
  done(std::to_string(report->size >> 10) + " KiB");
  const CUresult exported = cuMemExportToShareableHandle(&report->handle, memory, CU_MEM_HANDLE_TYPE_FABRIC, 0);
  need(exported, "cuMemExportToShareableHandle", CUDA_ERROR_INVALID_VALUE);
  done(std::to_string(sizeof report->handle) + " bytes");
  int status = 0;
  if (write(go, "", 1) != 1 || TEMP_FAILURE_RETRY(waitpid(importer, &status, 0)) < 0 || status != 0) _exit(1);
  need(cuMemRelease(memory), "cuMemRelease");
  done("by both");
}

static int import_memory() {
  // For GPU 1, if there is one. The exporter keeps the memory until this process has ended.
  const CUdevice device = 1 % report->gpus;
  CUmemGenericAllocationHandle memory;
  need(cuInit(0), "cuInit");
  const CUresult imported = cuMemImportFromShareableHandle(&memory, &report->handle, CU_MEM_HANDLE_TYPE_FABRIC);
  need(imported, "cuMemImportFromShareableHandle");
  done("by another process, for GPU " + std::to_string(device));
  CUdeviceptr address = 0;
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  need(cuMemAddressReserve(&address, report->size, 0, 0, 0), "cuMemAddressReserve");
  need(cuMemMap(address, report->size, 0, memory, 0), "cuMemMap");
  need(cuMemSetAccess(address, report->size, &access, 1), "cuMemSetAccess");
  unsigned value = 0;
  need(CUresult(cudaSetDevice(device)), "cudaSetDevice");
  need(cuMemsetD32(address, 5, report->size / sizeof value), "cuMemsetD32");
  need(cuMemcpyDtoH(&value, address + report->size - sizeof value, sizeof value), "cuMemcpyDtoH");
  if (value != 5) failed("the last integer is not what was written", "");
  need(cuMemUnmap(address, report->size), "cuMemUnmap");
  need(cuMemRelease(memory), "cuMemRelease");
  need(cuMemAddressFree(address, report->size), "cuMemAddressFree");
  done("the last integer is what was written");
  return 0;
}

int main(int argc, char** argv) {
  long timeout = 30, json = 0;
  check::arguments(argc, argv, usage, {{"--timeout", &timeout, 1, 600}, {"--json", &json, 0, 0}});
  int go[2];
  char byte = 0;
  EXPECT(report != MAP_FAILED, "no memory: %s", std::strerror(errno));
  signal(SIGCHLD, SIG_DFL);  // if it is inherited as ignored, nobody can be waited for
  static const pid_t exporter = fork();
  if (exporter == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // who ends the doctor ends the exporter, and so the importer
    const pid_t importer = pipe2(go, O_CLOEXEC) == 0 ? fork() : -1;
    if (importer == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(go[1]);  // so that the end of the exporter ends the next line
      _exit(TEMP_FAILURE_RETRY(read(go[0], &byte, 1)) == 1 ? import_memory() : 1);
    }
    if (importer > 0) export_memory(go[1], importer);
    _exit(0);
  }
  EXPECT(exporter > 0, "no process: %s", std::strerror(errno));
  signal(SIGALRM, [](int) { kill(exporter, SIGKILL); });
  alarm(timeout);
  (void)TEMP_FAILURE_RETRY(waitpid(exporter, nullptr, 0));
  const bool is_late = alarm(0) == 0;  // it has rung

  const bool works = report->at == count;
  const char* const failure = works ? "" : stages[report->at];
  char* const found = report->found[works ? 0 : report->at];
  const std::string unsaid = is_late ? "did not end within the time-out" : "a process was ended here";
  if (!*found) unsaid.copy(found, sizeof report->found[0] - 1);
  if (json) std::printf(R"({"works": %s, "failed": "%s", )", works ? "true" : "false", failure);
  if (json) std::printf(R"("remedy": "%s", "stages": [)", report->remedy);
  if (!json && *report->remedy) std::printf("SKIP: %s; %s\n", found, report->remedy);
  for (int i = 0; i < count; ++i) {
    const char* const state = i < report->at ? "done" : i == report->at ? "failed" : "not reached";
    char* const text = report->found[i];
    for (char* c = text; *c; ++c)
      if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\') *c = '?';  // a file may have any name
    if (json) std::printf(R"(%s{"stage": "%s", "state": "%s", "found": "%s"})", i ? ", " : "", stages[i], state, text);
    if (json) continue;
    if (i == 0) step("[1] Ask the driver");
    if (i == 3) step("[2] Look for a channel");
    if (i == 4) step("[3] Make memory and export it");
    if (i == 6) step("[4] Import it in another process");
    say("%-14s  %s%s%s", stages[i], state, *text ? ": " : "", text);
  }
  if (json) std::printf("]}\n");
  else if (works) std::puts("OK");
  if (!works && !*report->remedy) std::fprintf(stderr, "fabric_doctor: %s: %s\n", failure, found);
  return works ? 0 : *report->remedy ? 77 : 1;
}
