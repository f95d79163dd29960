// SPDX-License-Identifier: MIT-0
// What nvcc puts into a program: it registers its fat binaries, kernels and variables before main, and launches a
// kernel by the address of a host function. A fat binary is loaded when the first of its kernels or variables is asked
// for; the driver then loads it on each GPU that needs it.
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "../lasting.h"
#include "../memory/thread_slot.h"
#include "../mutex.h"
#include "runtime.h"

using namespace runtime;

namespace {

struct Binary {
  const void* image;
  CUlibrary library = nullptr;  // null: not yet loaded
  bool is_unregistered = false;
  struct Managed {
    void** pointer;
    std::string name;
  };
  std::vector<Managed> managed;
};
struct Symbol {
  Binary* binary;
  std::string name;
  CUkernel kernel = nullptr;  // null: a variable, or not yet asked for
  bool is_managed = false;
};
struct Registered {
  Mutex lock;
  std::vector<std::unique_ptr<Binary>> binaries GUARDED_BY(lock);
  // By the address of the host's function or variable.
  std::unordered_map<const void*, Symbol> kernels GUARDED_BY(lock);
  std::unordered_map<const void*, Symbol> variables GUARDED_BY(lock);
};
Registered& registered() { return lasting<Registered>(); }

Binary& binary(void** handle) { return *reinterpret_cast<Binary*>(handle); }

CUlibrary library(Binary& binary) REQUIRES(registered().lock) {
  if (!binary.library) must(cuLibraryLoadData(&binary.library, binary.image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  return binary.library;
}

// What the compiler calls the kernel of a host function; null: there is none.
const char* name_of(const void* function) {
  const MutexLock held(registered().lock);
  const auto found = registered().kernels.find(function);
  return found == registered().kernels.end() ? nullptr : found->second.name.c_str();
}

// The kernel of a host function. Other values are kernels themselves, as cudaGetKernel and cudaLibraryGetKernel give.
CUkernel kernel(const void* function) {
  require(function, "func is null", cudaErrorInvalidDeviceFunction);
  const MutexLock held(registered().lock);
  const auto found = registered().kernels.find(function);
  if (found == registered().kernels.end() || found->second.binary->is_unregistered)
    return static_cast<CUkernel>(const_cast<void*>(function));
  Symbol& symbol = found->second;
  if (symbol.kernel) return symbol.kernel;
  const int result = cuLibraryGetKernel(&symbol.kernel, library(*symbol.binary), symbol.name.c_str());
  require(result != CUDA_ERROR_NOT_FOUND, "no module has the kernel " + symbol.name, cudaErrorInvalidDeviceFunction);
  must(result);
  return symbol.kernel;
}

// The same on the current device.
CUfunction function(const void* symbol) {
  CUfunction found = nullptr;
  must(cuKernelGetFunction(&found, kernel(symbol)));
  return found;
}

struct Variable {
  CUdeviceptr address;
  size_t size;
};
Variable variable(const void* symbol) {
  const MutexLock held(registered().lock);
  const auto found = registered().variables.find(symbol);
  require(symbol && found != registered().variables.end() && !found->second.binary->is_unregistered,
          "symbol is no __device__ or __constant__ variable of this program: give the variable itself, not its address",
          cudaErrorInvalidSymbol);
  Variable found_at = {};
  const Symbol& known = found->second;
  const auto get = known.is_managed ? cuLibraryGetManaged : cuLibraryGetGlobal;
  const int result = get(&found_at.address, &found_at.size, library(*known.binary), known.name.c_str());
  require(result != CUDA_ERROR_NOT_FOUND, "no module has the variable " + known.name, cudaErrorInvalidSymbol);
  must(result);
  return found_at;
}

// The address of a part of a variable.
void* part(const void* symbol, size_t count, size_t offset) {
  const Variable known = variable(symbol);
  require(offset <= known.size && count <= known.size - offset,
          "offset and count go past the end of the variable, which has " + std::to_string(known.size) + " bytes");
  return reinterpret_cast<void*>(known.address + offset);
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
// Of <<<...>>> whose launch has not come yet.
std::vector<Configuration>& configurations() { return memory::thread_slot<std::vector<Configuration>>(); }

driver::Extent extent_of(const dim3& size) { return {size.x, size.y, size.z}; }

// The driver takes a kernel for a function: that of the GPU whose stream it is, which need not be the current one.
CUfunction to_launch(const void* symbol) { return reinterpret_cast<CUfunction>(kernel(symbol)); }

void launch(const void* symbol, dim3 grid, dim3 block, void** arguments, size_t shared, CUstream stream,
            bool is_cooperative) {
  const CUfunction kernel = to_launch(symbol);
  const auto bytes = unsigned(shared);  // cut to 32 bits, as NVIDIA's runtime does
  must(is_cooperative ? cuLaunchCooperativeKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, bytes,
                                                  stream, arguments)
                      : cuLaunchKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, bytes, stream,
                                       arguments, nullptr));
}

CUlaunchConfig driver_config(const cudaLaunchConfig_t* config) {
  require_non_null(config, "config");
  CUlaunchConfig all = {};
  const dim3 grid = config->gridDim, block = config->blockDim;
  all.gridDimX = grid.x;
  all.gridDimY = grid.y;
  all.gridDimZ = grid.z;
  all.blockDimX = block.x;
  all.blockDimY = block.y;
  all.blockDimZ = block.z;
  all.sharedMemBytes = unsigned(config->dynamicSmemBytes);
  all.hStream = at(config->stream);
  all.attrs = reinterpret_cast<CUlaunchAttribute*>(config->attrs);  // the same numbers and layout
  all.numAttrs = config->numAttrs;
  return all;
}
void launch_with(const cudaLaunchConfig_t* config, const void* func, void** args) {
  const CUlaunchConfig all = driver_config(config);
  must(cuLaunchKernelEx(&all, to_launch(func), args, nullptr));
}

void fill(cudaFuncAttributes& all, const void* func) {
  const CUfunction asked = function(func);
  const auto get = [&](CUfunction_attribute attribute) {
    int value = 0;
    must(cuFuncGetAttribute(&value, attribute, asked));
    return value;
  };
  all = {};
  all.sharedSizeBytes = size_t(get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  all.constSizeBytes = size_t(get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
  all.localSizeBytes = size_t(get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  all.maxThreadsPerBlock = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  all.numRegs = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
  all.ptxVersion = get(CU_FUNC_ATTRIBUTE_PTX_VERSION);
  all.binaryVersion = get(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  all.cacheModeCA = get(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
  all.maxDynamicSharedSizeBytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  all.preferredShmemCarveout = get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  all.clusterDimMustBeSet = get(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET);
  all.requiredClusterWidth = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
  all.requiredClusterHeight = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT);
  all.requiredClusterDepth = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
  all.clusterSchedulingPolicyPreference = get(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
  all.nonPortableClusterSizeAllowed = get(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
}

}  // namespace

CUkernel runtime::kernel_of(const void* function) { return kernel(function); }
void* runtime::part_of(const void* symbol, size_t count, size_t offset) { return part(symbol, count, offset); }
// A kernel of no function of the program, such as one of cudaLibraryGetKernel, stands for itself.
const void* runtime::function_of(CUkernel kernel) {
  const MutexLock held(registered().lock);
  for (const auto& [function, symbol] : registered().kernels)
    if (symbol.kernel == kernel) return function;
  return kernel;
}

// --- Registration: before main, so without the driver ---------------------------------------------------------------
EXPORT void** __cudaRegisterFatBinary(void* fatCubin) {
  const MutexLock held(registered().lock);
  registered().binaries.push_back(std::make_unique<Binary>(Binary{fatCubin, nullptr, false, {}}));
  return reinterpret_cast<void**>(registered().binaries.back().get());
}
EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
// What is loaded stays so until the process ends, and names too: other threads may be in the middle of a launch.
EXPORT void __cudaUnregisterFatBinary(void** fatCubinHandle) {
  const MutexLock held(registered().lock);
  binary(fatCubinHandle).is_unregistered = true;
}
EXPORT void __cudaRegisterFunction(void** fatCubinHandle, const char* hostFun, char*, const char* deviceName, int,
                                   uint3*, uint3*, dim3*, dim3*, int*) {
  const MutexLock held(registered().lock);
  registered().kernels[hostFun] = {&binary(fatCubinHandle), deviceName};
}
EXPORT void __cudaRegisterVar(void** fatCubinHandle, char* hostVar, char*, const char* deviceName, int, size_t, int,
                              int) {
  const MutexLock held(registered().lock);
  registered().variables[hostVar] = {&binary(fatCubinHandle), deviceName};
}
EXPORT void __cudaRegisterManagedVar(void** fatCubinHandle, void** hostVarPtrAddress, char*, const char* deviceName,
                                     int, size_t, int, int) {
  const MutexLock held(registered().lock);
  registered().variables[hostVarPtrAddress] = {&binary(fatCubinHandle), deviceName, nullptr, true};
  binary(fatCubinHandle).managed.push_back({hostVarPtrAddress, deviceName});
}
// Before a managed variable's first use on the host. In calls with symbols the program gives the variable itself.
EXPORT char __cudaInitModule(void** fatCubinHandle) {
  if (binary(fatCubinHandle).managed.empty()) return 1;
  return !call(ARGUMENTS(), [&] {
    for (const Binary::Managed& managed : binary(fatCubinHandle).managed) {
      void* const at = reinterpret_cast<void*>(variable(managed.pointer).address);
      const MutexLock held(registered().lock);
      registered().variables[at] = registered().variables.at(managed.pointer);
      *managed.pointer = at;
    }
  });
}

// --- Launches -------------------------------------------------------------------------------------------------------
EXPORT unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, CUstream_st* stream) {
  configurations().push_back({gridDim, blockDim, sharedMem, stream});
  return 0;
}
EXPORT cudaError_t __cudaPopCallConfiguration(dim3* gridDim, dim3* blockDim, size_t* sharedMem, void* stream) {
  if (configurations().empty()) return cudaErrorMissingConfiguration;
  const Configuration latest = configurations().back();
  configurations().pop_back();
  *gridDim = latest.grid;
  *blockDim = latest.block;
  *sharedMem = latest.shared;
  *static_cast<cudaStream_t*>(stream) = latest.stream;
  return cudaSuccess;
}
// The host function stands for the kernel until its launch, which can then say what is wrong with it.
EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* func) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(func));
  return cudaSuccess;
}
STREAM_CALL(cudaLaunchKernel, _ptsz,
            (const void* function, dim3 grid, dim3 block, void** args, size_t sharedMem, cudaStream_t stream),
            (function, grid, block, args, sharedMem, stream)) {
  const driver::KernelName func = {name_of(function)};
  const driver::Extent gridDim = extent_of(grid), blockDim = extent_of(block);
  return call(ARGUMENTS(func, gridDim, blockDim, sharedMem, stream),
              [&] { launch(function, grid, block, args, sharedMem, at(stream), false); });
}
STREAM_CALL(cudaLaunchCooperativeKernel, _ptsz,
            (const void* function, dim3 grid, dim3 block, void** args, size_t sharedMem, cudaStream_t stream),
            (function, grid, block, args, sharedMem, stream)) {
  const driver::KernelName func = {name_of(function)};
  const driver::Extent gridDim = extent_of(grid), blockDim = extent_of(block);
  return call(ARGUMENTS(func, gridDim, blockDim, sharedMem, stream),
              [&] { launch(function, grid, block, args, sharedMem, at(stream), true); });
}
// What <<<...>>> calls, with what __cudaGetKernel gave.
EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem,
                                      cudaStream_t stream) {
  return cudaLaunchKernel(kernel, gridDim, blockDim, args, sharedMem, stream);
}
EXPORT cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void** args,
                                           size_t sharedMem, cudaStream_t stream) {
  return cudaLaunchKernel_ptsz(kernel, gridDim, blockDim, args, sharedMem, stream);
}
STREAM_CALL(cudaLaunchKernelExC, _ptsz, (const cudaLaunchConfig_t* config, const void* function, void** args),
            (config, function, args)) {
  const driver::KernelName func = {name_of(function)};
  return call(ARGUMENTS(config, func, args), [&] { launch_with(config, function, args); });
}

// --- Kernels --------------------------------------------------------------------------------------------------------
cudaError_t cudaGetKernel(cudaKernel_t* kernelPtr, const void* entryFuncAddr) {
  return call(ARGUMENTS(kernelPtr, entryFuncAddr), [&] {
    require_non_null(kernelPtr, "kernelPtr");
    function(entryFuncAddr);
    *kernelPtr = kernel(entryFuncAddr);
  });
}
cudaError_t cudaGetFuncBySymbol(cudaFunction_t* functionPtr, const void* symbolPtr) {
  return call(ARGUMENTS(functionPtr, symbolPtr),
              result_to(functionPtr, "functionPtr", [&] { return function(symbolPtr); }));
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, const void* func) {
  return call(ARGUMENTS(attr, func), [&] {
    require_non_null(attr, "attr");
    fill(*attr, func);
  });
}
cudaError_t cudaFuncSetAttribute(const void* func, cudaFuncAttribute attr, int value) {
  return call(ARGUMENTS(func, attr, value), [&] {
    require(attr >= cudaFuncAttributeMaxDynamicSharedMemorySize && attr < cudaFuncAttributeMax,
            "attr cannot be set: give cudaFuncAttributeMaxDynamicSharedMemorySize or another that can");
    must(cuFuncSetAttribute(function(func), CUfunction_attribute(attr), value));
  });
}
cudaError_t cudaFuncSetCacheConfig(const void* func, cudaFuncCache cacheConfig) {
  return call(ARGUMENTS(func, cacheConfig),
              [&] { return cuFuncSetCacheConfig(function(func), CUfunc_cache(cacheConfig)); });
}
cudaError_t cudaFuncGetName(const char** name, const void* func) {
  return call(ARGUMENTS(name, func), [&] {
    require_non_null(name, "name");
    must(cuFuncGetName(name, function(func)));
  });
}
cudaError_t cudaFuncGetParamInfo(const void* func, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  return call(ARGUMENTS(func, paramIndex, paramOffset, paramSize),
              [&] { return cuFuncGetParamInfo(function(func), paramIndex, paramOffset, paramSize); });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, const void* func, int blockSize,
                                                          size_t dynamicSMemSize) {
  return call(ARGUMENTS(numBlocks, func, blockSize, dynamicSMemSize), [&] {
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, function(func), blockSize, dynamicSMemSize);
  });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, const void* func, int blockSize,
                                                                   size_t dynamicSMemSize, unsigned int flags) {
  return call(ARGUMENTS(numBlocks, func, blockSize, dynamicSMemSize, flags), [&] {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, function(func), blockSize, dynamicSMemSize,
                                                                flags);
  });
}
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, const void* func, int numBlocks,
                                                      int blockSize) {
  return call(ARGUMENTS(dynamicSmemSize, func, numBlocks, blockSize), [&] {
    return cuOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize, function(func), numBlocks, blockSize);
  });
}
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* clusterSize, const void* func, const cudaLaunchConfig_t* config) {
  return call(ARGUMENTS(clusterSize, func, config), [&] {
    const CUlaunchConfig all = driver_config(config);
    return cuOccupancyMaxPotentialClusterSize(clusterSize, function(func), &all);
  });
}
cudaError_t cudaOccupancyMaxActiveClusters(int* numClusters, const void* func, const cudaLaunchConfig_t* config) {
  return call(ARGUMENTS(numClusters, func, config), [&] {
    const CUlaunchConfig all = driver_config(config);
    return cuOccupancyMaxActiveClusters(numClusters, function(func), &all);
  });
}

// --- Variables ------------------------------------------------------------------------------------------------------
cudaError_t cudaGetSymbolAddress(void** devPtr, const void* symbol) {
  return call(ARGUMENTS(devPtr, symbol), result_to(devPtr, "devPtr", [&] { return part(symbol, 0, 0); }));
}
cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  return call(ARGUMENTS(size, symbol), result_to(size, "size", [&] { return variable(symbol).size; }));
}
STREAM_CALL(cudaMemcpyToSymbol, _ptds,
            (const void* symbol, const void* src, size_t count, size_t offset, cudaMemcpyKind kind),
            (symbol, src, count, offset, kind)) {
  return call(ARGUMENTS(symbol, src, count, offset, kind), [&] {
    require_side(kind, cudaMemcpyHostToDevice);
    copy(part(symbol, count, offset), src, count, kind);
  });
}
STREAM_CALL(cudaMemcpyFromSymbol, _ptds,
            (void* dst, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind),
            (dst, symbol, count, offset, kind)) {
  return call(ARGUMENTS(dst, symbol, count, offset, kind), [&] {
    require_side(kind, cudaMemcpyDeviceToHost);
    copy(dst, part(symbol, count, offset), count, kind);
  });
}
STREAM_CALL(cudaMemcpyToSymbolAsync, _ptsz,
            (const void* symbol, const void* src, size_t count, size_t offset, cudaMemcpyKind kind,
             cudaStream_t stream),
            (symbol, src, count, offset, kind, stream)) {
  return call(ARGUMENTS(symbol, src, count, offset, kind, stream), [&] {
    require_side(kind, cudaMemcpyHostToDevice);
    copy_async(part(symbol, count, offset), src, count, kind, stream);
  });
}
STREAM_CALL(cudaMemcpyFromSymbolAsync, _ptsz,
            (void* dst, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind, cudaStream_t stream),
            (dst, symbol, count, offset, kind, stream)) {
  return call(ARGUMENTS(dst, symbol, count, offset, kind, stream), [&] {
    require_side(kind, cudaMemcpyDeviceToHost);
    copy_async(dst, part(symbol, count, offset), count, kind, stream);
  });
}

// --- A description: no call ------------------------------------------------------------------------------------------
cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) {
  return {x, y, z, w, f};
}

// --- Libraries ------------------------------------------------------------------------------------------------------
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned int numJitOptions, cudaLibraryOption*, void**,
                                unsigned int numLibraryOptions) {
  return call(ARGUMENTS(library, code, numJitOptions, numLibraryOptions),
              [&] { return cuLibraryLoadData(library, code, nullptr, nullptr, 0, nullptr, nullptr, 0); });
}
FORWARD(cudaLibraryUnload, cuLibraryUnload, (cudaLibrary_t library), library)
FORWARD(cudaLibraryGetKernel, cuLibraryGetKernel, (cudaKernel_t * pKernel, cudaLibrary_t library, const char* name),
        pKernel, library, name)
FORWARD(cudaLibraryGetGlobal, cuLibraryGetGlobal, (void** dptr, size_t* bytes, cudaLibrary_t library, const char* name),
        dptr, bytes, library, name)
