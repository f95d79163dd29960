// SPDX-License-Identifier: MIT-0
// The driver's calls by name, each in the version that a program was written for.

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "../memory/this_machine.h"
#include "driver.h"
#include "runtime_table.h"

namespace driver {

struct CallVersion {
  const char* name;
  int version;
  bool per_thread;  // of the form for a thread's own default stream
};
extern const CallVersion call_versions[];  // of missing_driver.cc, from the toolkit's headers; the last has no name

namespace {

// Not every program has it where all look for names, and some have functions of the same names.
void* this_library() {
  static void* const handle = [] {
    Dl_info here = {};
    dladdr(&call_versions, &here);
    return dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  return handle;
}

// Of since_13_calls.cc: the toolkit's headers may be older.
constexpr CallVersion later_versions[] = {{"cuMulticastBindMem", 13010, false},
                                          {"cuMulticastBindAddr", 13010, false},
                                          {"cuDeviceGetFabricClusterUuid", 13040, false},
                                          {"cuDeviceGetCliqueCount", 13040, false},
                                          {"cuDeviceGetCliqueInfo", 13040, false}};

// The versions in which a call came, of one form of it; of those for threads there may be none.
std::vector<int> versions_of(const std::string& name, bool per_thread) {
  std::vector<int> versions;
  const auto add = [&](const CallVersion& known) {
    if (name == known.name && per_thread == known.per_thread) versions.push_back(known.version);
  };
  for (const CallVersion* known = call_versions; known->name; ++known) add(*known);
  for (const CallVersion& known : later_versions)
    if (known.version > CUDA_VERSION) add(known);
  return versions;
}

// A call of ours by name, in the version that a program of this version of CUDA knows. A negative one is the driver's.
CUdriverProcAddressQueryResult find_call(void** found, const std::string& name, int cuda_version, bool per_thread) {
  const int driver = memory::machine().driver, newest = cuda_version < 0 ? driver : cuda_version;
  std::vector<int> versions = versions_of(name, per_thread);
  if (versions.empty() && per_thread) versions = versions_of(name, per_thread = false);
  const auto newer_than = [&](int least) {
    return size_t(std::ranges::count_if(versions, [&](int version) { return version > least; }));
  };
  if (newer_than(driver) == versions.size()) return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  std::vector<void*> calls;
  for (const char* version : {"", "_v2", "_v3", "_v4"})
    for (const char* kind : {"_ptsz", "_ptds", ""})
      if (per_thread == (*kind != 0))
        if (void* const call = dlsym(this_library(), (name + version + kind).c_str())) calls.push_back(call);
  const size_t newer = newer_than(newest);  // the last of the calls goes with the newest version
  if (newer >= std::min(versions.size(), calls.size())) return CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  *found = calls[calls.size() - 1 - newer];
  return CU_GET_PROC_ADDRESS_SUCCESS;
}

CUdriverProcAddressQueryResult get_call(const char* name, void** found, int cuda_version, cuuint64_t flags) {
  if (!name) log_crash("symbol is null");
  require_non_null(name, "symbol");
  require_non_null(found, "pfn");
  constexpr cuuint64_t per_thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  require_flags(flags <= (per_thread | CU_GET_PROC_ADDRESS_LEGACY_STREAM));
  const int driver = memory::machine().driver;
  if (cuda_version > driver)
    refuse("cudaVersion is " + std::to_string(cuda_version) + ", and the driver is of " + std::to_string(driver) +
           ": give the version for which your function pointer was written");
  return find_call(found, name, cuda_version, flags & per_thread);
}

}  // namespace
}  // namespace driver

using namespace driver;
constexpr int whenever = before_init | after_fault | in_host_function;

CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* symbolStatus) {
  return call(ARGUMENTS(symbol, pfn, cudaVersion, flags), whenever, [&] {
    void* found = nullptr;
    const auto status = get_call(symbol, pfn ? &found : nullptr, cudaVersion, flags);
    if (symbolStatus) *symbolStatus = status;
    *pfn = found;  // null where nothing is found, and that is no error
  });
}
CUresult cuGetExportTable(const void** found, const CUuuid* table) {
  static constexpr RuntimeTable of_runtime = {run, explain, not_simulated, kernels_of, linked_image};
  if (found && table && std::memcmp(table, &id_of_runtime_table, sizeof *table) == 0)
    return *found = &of_runtime, CUDA_SUCCESS;
  // NVIDIA's compilers, NVRTC and nvJitLink, ask for this one and do without it.
  static constexpr char of_compilers[] = "\xda\x91\x51\xd3\x3a\xe6\xcc\x41\xa5\xc0\x4f\x26\xd5\x33\xe3\x28";
  if (table && std::memcmp(table->bytes, of_compilers, sizeof table->bytes) == 0) return CUDA_ERROR_NOT_SUPPORTED;
  const void* const caller = __builtin_return_address(0);
  const std::string file = file_of(caller);
  std::string reason = "cuGetExportTable, which the CUDA runtime inside " + file +
                       " asks for, is not simulated: " + "do not strip that file, or build it with nvcc -cudart shared";
  if (file.find("/libcudart.so.") != file.npos)
    reason =
        file + " is not the simulator's runtime: build what loads it with CUDA " + std::to_string(CUDA_VERSION / 1000);
  if (file.find("/libcupti.so.") != file.npos)
    reason = "CUPTI, by which profilers look on, is not simulated: " + file + " fails, and what loads it does without";
  cannot_run(caller, reason);
  explain(lacks_simulation);
  return CUDA_ERROR_NOT_SUPPORTED;
}
#undef cuGetProcAddress  // since CUDA 12 that is the other's name; who loads the driver by hand may ask by this one
EXPORT CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  return call(ARGUMENTS(symbol, pfn, cudaVersion, flags), whenever, [&] {
    const auto status = get_call(symbol, pfn, cudaVersion, flags);
    require(status != CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, CUDA_ERROR_NOT_FOUND, "the driver has no such call");
    require(status == CU_GET_PROC_ADDRESS_SUCCESS, CUDA_ERROR_NOT_FOUND, "the call is newer than this cudaVersion");
  });
}
