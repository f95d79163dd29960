// SPDX-License-Identifier: MIT-0
// The driver's calls by name, each in the version that a program was written for.

#include <dlfcn.h>

#include <cstring>

#include "../memory/this_machine.h"
#include "driver.h"

namespace driver {

struct CallVersion {
  const char* name;
  int version;
};
extern const CallVersion call_versions[];  // of missing_driver.cc; the last has no name

namespace {

// A call of ours by name, in the version that a program of this version of CUDA knows.
CUdriverProcAddressQueryResult find_call(void** found, const std::string& name, int cuda_version, bool per_thread) {
  *found = nullptr;
  // Since CUDA 12 this name means a call with another one.
  if (name == "cuGraphInstantiate" && cuda_version >= 12000)
    return find_call(found, "cuGraphInstantiateWithFlags", cuda_version, per_thread);
  std::vector<std::string> calls;
  for (const char* suffix : {"", "_v2", "_v3", "_v4"})
    if (name.starts_with("cu") && !name.starts_with("cuda") && dlsym(RTLD_DEFAULT, (name + suffix).c_str()))
      calls.push_back(name + suffix);
  if (calls.empty()) return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  size_t newer = 0, all = 0, unknown = 0;
  for (const CallVersion* known = call_versions; known->name; ++known) {
    if (name != known->name) continue;
    ++all;
    newer += known->version > cuda_version;
    unknown += known->version > memory::machine().driver;
  }
  if (all && unknown == all) return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;  // it came with a later driver
  if (newer == calls.size() || (all && newer == all)) return CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  const std::string& call = calls[calls.size() - 1 - newer];
  for (const char* suffix : {"_ptsz", "_ptds", ""})
    if (!*found && (per_thread || !*suffix)) *found = dlsym(RTLD_DEFAULT, (call + suffix).c_str());
  return CU_GET_PROC_ADDRESS_SUCCESS;
}

// Without a place for the status, what is not found is an error.
void get_call(const char* name, void** found, int cuda_version, cuuint64_t flags,
              CUdriverProcAddressQueryResult* status) {
  need(name, "symbol");
  need(found, "pfn");
  const int driver = memory::machine().driver;
  if (cuda_version > driver)
    refuse(CUDA_ERROR_INVALID_VALUE, "cudaVersion is " + std::to_string(cuda_version) + ", and the driver is of " +
                                         std::to_string(driver) +
                                         ": give the version for which your function pointer was written");
  const auto answer = find_call(found, name, cuda_version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  if (status) *status = answer;
  if (*found || status) return;
  refuse(CUDA_ERROR_NOT_FOUND, answer == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
                                   ? "the driver has no such call"
                                   : "the call is newer than this cudaVersion");
}

}  // namespace
}  // namespace driver

using namespace driver;
constexpr int whenever = before_init | after_fault | in_host_function;

CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* symbolStatus) {
  return call(ARGUMENTS(symbol, pfn, cudaVersion, flags), whenever,
              [&] { get_call(symbol, pfn, cudaVersion, flags, symbolStatus); });
}
CUresult cuGetExportTable(const void**, const CUuuid* table) {
  // NVIDIA's compilers, NVRTC and nvJitLink, ask for this one and do without it.
  static constexpr char of_compilers[] = "\xda\x91\x51\xd3\x3a\xe6\xcc\x41\xa5\xc0\x4f\x26\xd5\x33\xe3\x28";
  if (table && std::memcmp(table->bytes, of_compilers, sizeof table->bytes) == 0) return CUDA_ERROR_NOT_SUPPORTED;
  const void* const caller = __builtin_return_address(0);
  cannot_run(caller, "cuGetExportTable, which the CUDA runtime inside " + file_of(caller) +
                         " asks for, is not simulated: do not strip that file, or build it with nvcc -cudart shared");
  explain("it is not simulated");
  return CUDA_ERROR_NOT_SUPPORTED;
}
#undef cuGetProcAddress  // since CUDA 12 that is the other's name; who loads the driver by hand may ask by this one
EXPORT CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  return call(ARGUMENTS(symbol, pfn, cudaVersion, flags), whenever,
              [&] { get_call(symbol, pfn, cudaVersion, flags, nullptr); });
}
