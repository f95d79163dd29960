// SPDX-License-Identifier: MIT-0
// The driver's calls by name: which function a program gets for the version of CUDA that it names, from which version
// on there is one, and what becomes of names and versions that the driver does not know. Nothing here needs a context.
// At a null name a driver crashes, so none is asked for.
#include "conformance.h"

#include <dlfcn.h>

#undef cuGetProcAddress

namespace {

using New = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
using Old = CUresult (*)(const char*, void**, int, cuuint64_t);
constexpr int unset = 77;
int marker;

template <class Function> Function exported(const std::string& name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name.c_str()));
}
const New new_call = exported<New>("cuGetProcAddress_v2");
const Old old_call = exported<Old>("cuGetProcAddress");

// The name by which the driver exports this function.
std::string which(const std::string& name, void* found) {
  if (!found) return "null";
  if (found == &marker) return "untouched";
  for (const char* version : {"", "_v2", "_v3", "_v4"})
    for (const char* kind : {"", "_ptsz", "_ptds"})
      if (found == exported<void*>(name + version + kind)) return name + version + kind;
  return found == exported<void*>("cuGraphInstantiateWithFlags") ? "cuGraphInstantiateWithFlags" : "a function";
}

std::string by_new(const std::string& name, int version, cuuint64_t flags = 0) {
  void* found = &marker;
  auto status = CUdriverProcAddressQueryResult(unset);
  const CUresult result = new_call(name.c_str(), &found, version, flags, &status);
  return check::name(result) + std::string(", status ") + std::to_string(int(status)) + ", " + which(name, found);
}
std::string without_status(const std::string& name, int version) {
  void* found = &marker;
  const CUresult result = new_call(name.c_str(), &found, version, 0, nullptr);
  return check::name(result) + std::string(", ") + which(name, found);
}
std::string by_old(const std::string& name, int version, cuuint64_t flags = 0) {
  if (!old_call) return "no such call";
  void* found = &marker;
  const CUresult result = old_call(name.c_str(), &found, version, flags);
  return check::name(result) + std::string(", ") + which(name, found);
}

// Those that came in several versions, and some that a program is likely to ask for.
const char* const names[] = {"cuArray3DCreate",
                             "cuArrayCreate",
                             "cuCtxCreate",
                             "cuCtxDestroy",
                             "cuCtxGetDevice",
                             "cuCtxPopCurrent",
                             "cuCtxPushCurrent",
                             "cuCtxSynchronize",
                             "cuDeviceGetUuid",
                             "cuDevicePrimaryCtxReset",
                             "cuDeviceTotalMem",
                             "cuEventDestroy",
                             "cuEventElapsedTime",
                             "cuFuncSetAttribute",
                             "cuGetProcAddress",
                             "cuGraphAddDependencies",
                             "cuGraphAddKernelNode",
                             "cuGraphAddNode",
                             "cuGraphExecUpdate",
                             "cuGraphGetEdges",
                             "cuGraphInstantiate",
                             "cuIpcOpenMemHandle",
                             "cuLaunchKernel",
                             "cuLaunchKernelEx",
                             "cuLinkCreate",
                             "cuMemAdvise",
                             "cuMemAlloc",
                             "cuMemAllocAsync",
                             "cuMemCreate",
                             "cuMemFree",
                             "cuMemGetDefaultMemPool",
                             "cuMemGetInfo",
                             "cuMemHostRegister",
                             "cuMemMap",
                             "cuMemPrefetchAsync",
                             "cuMemcpy",
                             "cuMemcpy3DBatchAsync",
                             "cuMemcpyBatchAsync",
                             "cuMemcpyDtoDAsync",
                             "cuMemsetD8",
                             "cuModuleGetGlobal",
                             "cuMulticastBindMem",
                             "cuStreamBeginCapture",
                             "cuStreamDestroy",
                             "cuStreamGetCaptureInfo",
                             "cuStreamGetCtx",
                             "cuStreamSynchronize",
                             "cuStreamUpdateCaptureDependencies",
                             "cuStreamWaitValue32",
                             "cuTexRefSetAddress2D",
                             "cuCtxAttach",
                             "cuLaunchGrid",
                             "cuGetExportTable",
                             "cuProfilerStart",
                             "cuGLInit",
                             "cuLogsRegisterCallback"};
constexpr int versions[] = {0,     1000,  2000,  2010,  2020,  2030,  3000,  3010,  3020,  4000,  4010,
                            4020,  5000,  5050,  6000,  6050,  7000,  8000,  9000,  9020,  10000, 10010,
                            10020, 11000, 11010, 11020, 11030, 11040, 11050, 11060, 11070, 11080, 12000,
                            12010, 12020, 12030, 12040, 12050, 12060, 12070, 12080, 12090, 13000};

// Where the answer changes from one version to the next.
void say_changes(const std::string& name, cuuint64_t flags) {
  std::string line, last;
  for (const int version : versions) {
    void* found = &marker;
    auto status = CUdriverProcAddressQueryResult(unset);
    const CUresult result = new_call(name.c_str(), &found, version, flags, &status);
    std::string now = which(name, found);
    if (result != CUDA_SUCCESS) now += std::string(" ") + check::name(result);
    if (status != CU_GET_PROC_ADDRESS_SUCCESS) now += " status " + std::to_string(int(status));
    if (now != last) line += (line.empty() ? "" : ", ") + std::to_string(version) + " " + now;
    last = now;
  }
  say(name, line);
}

SECTION("before any call") {  // of this process: not even cuInit
  for (const char* name : {"cuInit", "cuMemAlloc", "cuFoo"}) say(name, by_new(name, 13000));
  say("by the old name", by_old("cuInit", 13000));
}
SECTION("all versions") {
  for (const char* name : names) say_changes(name, CU_GET_PROC_ADDRESS_DEFAULT);
}
SECTION("with a thread's own default stream") {
  for (const char* name : {"cuMemcpy", "cuMemcpyDtoDAsync", "cuMemsetD8", "cuLaunchKernel", "cuStreamGetCaptureInfo",
                           "cuMemAllocAsync", "cuGetProcAddress", "cuMemCreate"})
    say_changes(name, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}

SECTION("arguments") {
  for (const int version : {-1, 13000, 13001, 13009, 13010, 13020, 14000, 1 << 30})
    say("cuMemCreate, version " + std::to_string(version), by_new("cuMemCreate", version));
  for (const char* name : {"cuMemAlloc_v2", "cuGetProcAddress_v2", "cuMemcpy_ptds", "cuStreamGetCaptureInfo_v3",
                           "cuFoo", "", "cu", "malloc", "cudaMalloc", "cumemalloc", "cuMemAlloc ",
                           "cuDeviceGetCliqueCount", "cuMulticastBindMem_v2", "nvmlInit", "cuGetErrorName"})
    for (const int version : {0, 13000, 13020}) {
      const std::string what = std::string("\"") + name + "\", " + std::to_string(version);
      say(what, by_new(name, version));
      if (version == 13000) say(what + ", no status", without_status(name, version));
    }
  for (const int version : {2000, 8000, 9000, 13020})
    say("cuFuncSetAttribute, no status, " + std::to_string(version), without_status("cuFuncSetAttribute", version));
  for (const cuuint64_t flags : {1, 2, 3, 4, 7, 1 << 20})
    for (const char* name : {"cuMemcpy", "cuMemAlloc"})
      say(std::string(name) + ", flags " + std::to_string(flags), by_new(name, 13000, flags));
}
SECTION("by the old name") {
  for (const char* name : {"cuMemAlloc", "cuMemCreate", "cuFuncSetAttribute", "cuStreamGetCaptureInfo", "cuFoo", "",
                           "cuGetProcAddress", "cuMemAlloc_v2"})
    for (const int version : {0, 2000, 9000, 13000, 13020})
      say(std::string("\"") + name + "\", " + std::to_string(version), by_old(name, version));
  for (const cuuint64_t flags : {1, 2, 4})
    say("cuMemcpy, flags " + std::to_string(flags), by_old("cuMemcpy", 13000, flags));
}

}  // namespace

int main(int argc, char** argv) { return run_sections(argc, argv); }
