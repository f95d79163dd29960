// SPDX-License-Identifier: MIT-0
// What public programs ask for, and few others: contexts that have ended, ranges of a module's variables, watermarks of
// pools, spellings of a PCI bus id, the mode of captures, the file with a GPU's NUMA node, and calls without effect.
#include "parts.h"

#include <cctype>
#include <cstdint>
#include <fstream>
#include <vector>

#include <dlfcn.h>

// The compiler's packages on PyPI lack cudaProfiler.h.
CUresult profiler(const char* call) { return reinterpret_cast<CUresult (*)()>(dlsym(RTLD_DEFAULT, call))(); }

__device__ int numbers[128] = {1};
__constant__ double four[4] = {1, 2, 3, 4};
__global__ void use(const char** text, int** number, const double** constant) {
  *text = "a string of a kernel, 38 bytes in all";
  *number = numbers;
  *constant = four + 1;
}

static void say_device(const std::string& when) {
  CUdevice device = -1;
  CUcontext context = nullptr;
  ask(when + ", current", [&] { return cuCtxGetCurrent(&context); });
  say(when + ", is there", context ? "yes" : "no");
  ask(when + ", its device", [&] { return cuCtxGetDevice(&device); });
  say(when + ", is", std::to_string(device));
}

SECTION("contexts") {
  section("contexts that have ended");
  CUcontext context;
  unsigned flags;
  unsigned long long id;
  CHECK(cuInit(0)), CHECK(cuDevicePrimaryCtxRetain(&context, 0)), CHECK(cuCtxSetCurrent(context));
  ask("release the primary context", [&] { return cuDevicePrimaryCtxRelease(0); });
  say_device("released");
  ask("released, its flags", [&] { return cuCtxGetFlags(&flags); });
  ask("released, its number", [&] { return cuCtxGetId(context, &id); });
  ask("released, set it current", [&] { return cuCtxSetCurrent(context); });
  ask("retain it again", [&] { return cuDevicePrimaryCtxRetain(&context, 0); });
  ask("set it current", [&] { return cuCtxSetCurrent(context); });
  say_device("retained again");
  ask("reset the primary context", [&] { return cuDevicePrimaryCtxReset(0); });
  say_device("reset");
}

// The range that holds an address, and where it begins before that.
static void say_range(const char* what, const void* at) {
  CUdeviceptr base = 0, start = 0;
  size_t size = 0, range = 0;
  const CUdeviceptr address = CUdeviceptr(at);
  ask(std::string(what) + ", range", [&] { return cuMemGetAddressRange(&base, &size, address); });
  say("  begins before it, and has", std::to_string(address - base) + ", " + std::to_string(size));
  ask("  attribute RANGE_START_ADDR",
      [&] { return cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address); });
  ask("  attribute RANGE_SIZE",
      [&] { return cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address); });
  say("  begins before it, and has", std::to_string(address - start) + ", " + std::to_string(range));
  std::vector<char> bytes(size);
  ask("  copy all of it", [&] { return cudaMemcpy(bytes.data(), (void*)base, size, cudaMemcpyDeviceToHost); });
}

SECTION("variables") {
  section("variables of a module");
  struct Found {
    const char* text;
    int* number;
    const double* constant;
  }* found;
  CHECK(cudaMallocManaged(&found, sizeof *found));
  use<<<1, 1>>>(&found->text, &found->number, &found->constant);
  CHECK(cudaDeviceSynchronize());
  say_range("a string", found->text);
  say_range("a character of it", found->text + 5);
  say_range("a variable", found->number);
  say_range("an element of it", found->number + 100);
  void* symbol;
  CHECK(cudaGetSymbolAddress(&symbol, four));
  say_range("a constant", symbol);
}

SECTION("watermarks") {
  section("watermarks of a pool");
  cudaMemPool_t pool;
  void *a, *b;
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  CHECK(cudaMallocAsync(&a, 1024, 0)), CHECK(cudaMallocAsync(&b, 2048, 0)), CHECK(cudaFreeAsync(b, 0));
  CHECK(cudaStreamSynchronize(0));
  const auto say_marks = [&] {
    uint64_t used, reserved;
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &used));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &reserved));
    say("  most used, most reserved", std::to_string(used) + ", " + mib((long long)reserved));
  };
  say_marks();
  uint64_t nothing = 0, something = 5;
  ask("set the first to 5", [&] { return cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &something); });
  ask("set the first to 0", [&] { return cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &nothing); });
  ask("set the second to 0", [&] { return cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &nothing); });
  say_marks();
  CHECK(cudaFreeAsync(a, 0)), CHECK(cudaStreamSynchronize(0));
}

SECTION("bus ids") {
  section("spellings of a PCI bus id");
  char own[32];
  unsigned domain, bus, slot;
  CHECK(cudaDeviceGetPCIBusId(own, sizeof own, 0));
  EXPECT(std::sscanf(own, "%x:%x:%x", &domain, &bus, &slot) == 3, "%s", own);
  for (const unsigned its_bus : {bus, 0xfeu})
    for (const char* form : {"%04x:%02x:%02x.0", "%x:%x:%x.0", "%04X:%02X:%02X.0", "%04x:%02x:%02x", "%x:%x:%x",
                             "%04x:%02x:%02x.0 ", "%04x:%02x:%02x.", "%04x:%02x:%02x.1", "%x:%x"}) {
      char id[64];
      std::snprintf(id, sizeof id, form, domain, its_bus, slot);
      int device = -1;
      ask(std::string(its_bus == bus ? "the GPU's " : "nobody's ") + form,
          [&] { return cudaDeviceGetByPCIBusId(&device, id); });
    }
  for (const unsigned its_bus : {bus, 0xfeu}) {
    if (domain) continue;
    char id[64];
    int device = -1;
    std::snprintf(id, sizeof id, "%x:%x.0", its_bus, slot);
    ask(std::string(its_bus == bus ? "the GPU's" : "nobody's") + " without domain",
        [&] { return cudaDeviceGetByPCIBusId(&device, id); });
  }
}

SECTION("mode") {
  section("the mode of captures");
  for (const int wanted : {2, 1, 0, 3, -1}) {
    auto mode = cudaStreamCaptureMode(wanted);
    ask("exchange for " + std::to_string(wanted), [&] { return cudaThreadExchangeStreamCaptureMode(&mode); });
    say("  now it is", std::to_string(int(mode)));
  }
}

SECTION("NUMA node") {
  section("a GPU's NUMA node");
  char id[32];
  CHECK(cudaDeviceGetPCIBusId(id, sizeof id, 0));
  for (char* c = id; *c; ++c) *c = char(std::tolower(*c));
  const std::string path = std::string("/sys/bus/pci/devices/") + id + "/numa_node";
  say("may be read", access(path.c_str(), R_OK) ? "no" : "yes");
  std::FILE* const file = std::fopen(path.c_str(), "r");
  int node = -2;
  say("is a number", file && std::fscanf(file, "%d", &node) == 1 && node >= -1 ? "yes" : "no");
  int again = -2;
  std::ifstream(path) >> again;
  say("is the same by a stream", again == node ? "yes" : "no");
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#pragma nv_diag_suppress 1444
SECTION("without effect") {
  section("calls without effect");
  cudaDeviceProp properties = {};
  int device = -1;
  ask("choose a device", [&] { return cudaChooseDevice(&device, &properties); });
  say("  it is", std::to_string(device));
  ask("choose at no address", [&] { return cudaChooseDevice(nullptr, &properties); });
  ask("choose for no properties", [&] { return cudaChooseDevice(&device, nullptr); });
  cudaSharedMemConfig config = {};
  ask("banks of shared memory", [&] { return cudaDeviceGetSharedMemConfig(&config); });
  say("  are", std::to_string(int(config)));
  ask("set 8 bytes", [&] { return cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeEightByte); });
  ask("banks then", [&] { return cudaDeviceGetSharedMemConfig(&config); });
  say("  are", std::to_string(int(config)));
  ask("start the profiler", [&] { return profiler("cuProfilerStart"); });
  ask("stop the profiler", [&] { return profiler("cuProfilerStop"); });
  ask("stop it again", [&] { return profiler("cuProfilerStop"); });
}

// Each section is a process of its own.
int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (const Section& part : sections())
    if (argc > 2 && part.name == argv[1]) return note_crashes(argv[2]), part.run(), 0;
  check::require_gpus(1);
  for (const Section& part : sections()) run_part(part.name);
}
