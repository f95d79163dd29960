// SPDX-License-Identifier: MIT-0
// Launches of kernels, and how many of their blocks fit on a GPU.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>

#include <unistd.h>

#include "../memory/this_machine.h"
#include "contexts.h"
#include "driver.h"
#include "modules.h"
#include "streams.h"

namespace driver {
namespace {

constexpr size_t most_local = 512 << 10;  // bytes of a thread, as the programming guide says for all GPUs

// The preferred carveout is rounded up to what the shared memory of a multiprocessor can be split into.
size_t shared_of_multiprocessor(const CUfunc_st& function) {
  constexpr int splits[] = {0, 8, 16, 32, 64, 100, 132, 164, 196, 228};
  const int carveout = function.carveout < 0 ? 100 : int(function.carveout);
  const int split = *std::find_if(splits, std::end(splits) - 1, [&](int kib) { return kib * 100 >= carveout * 228; });
  return size_t(split) << 10;
}

// Blocks of a kernel that fit on a multiprocessor: as many as its threads, registers and shared memory allow.
int blocks_that_fit(CUfunction handle, int block_size, size_t dynamic_shared) {
  const CUfunction function = checked(handle);
  require(block_size > 0, CUDA_ERROR_INVALID_VALUE, "blockSize is not positive");
  const gpu::Kernel& kernel = *function->kernel;
  if (block_size > int(kernel.max_threads)) return 0;
  const size_t threads = memory::round_up(uint64_t(block_size), 32);
  const size_t registers = std::max(threads * memory::round_up(kernel.registers, 8), size_t(1));
  const size_t shared = kernel.static_shared + dynamic_shared + 1024;
  if (kernel.static_shared + dynamic_shared > size_t(most_shared)) return 0;
  const size_t room = std::max(shared_of_multiprocessor(*function), shared);  // one block fits in any case
  return int(std::min({size_t(32), 2048 / threads, 65536 / registers, room / shared}));
}

// The most dynamic shared memory with which so many blocks fit on a multiprocessor. The system's part of each block is
// not taken off, as on an H100: with all of this fewer blocks fit. A single block has no need of a carveout.
size_t dynamic_shared_for(CUfunction handle, int blocks, int block_size) {
  const CUfunction function = checked(handle);
  require(blocks > 0 && block_size > 0, CUDA_ERROR_INVALID_VALUE, "numBlocks and blockSize must be positive");
  require(blocks <= blocks_that_fit(handle, block_size, 0), CUDA_ERROR_INVALID_VALUE,
          "so many blocks do not fit on a multiprocessor, even without dynamic shared memory");
  const size_t fixed = function->kernel->static_shared, most = size_t(int(function->dynamic_shared));
  if (blocks == 1) return most;
  const size_t share = shared_of_multiprocessor(*function) / size_t(blocks);
  const size_t whole = share - share % gpu::shared_unit;
  return whole > fixed ? std::min(whole - fixed, most) : 0;
}

// The block size with which most threads fit on a multiprocessor; of several the largest.
void best_block(int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of, size_t shared, int limit) {
  need(grid, "minGridSize");
  need(block, "blockSize");
  const int most = int(checked(function)->kernel->max_threads);
  int best = 0;
  for (int size = limit > 0 ? std::min(limit, most) : most; size > 0; size -= size % 32 ? size % 32 : 32) {
    const int blocks = blocks_that_fit(function, size, shared_of ? shared_of(size) : shared);
    if (blocks * size <= best) continue;
    best = blocks * size;
    *block = size;
    *grid = blocks * memory::machine().multiprocessors;
  }
  require(best, CUDA_ERROR_INVALID_VALUE, "no block of this kernel fits");
}

// --- Launches -----------------------------------------------------------------------------------------------------

// The parameters' bytes, from an array of pointers to each or from a packed buffer.
std::vector<std::byte> parameters_of(const gpu::Kernel& kernel, void** each, void** extra) {
  std::vector<std::byte> bytes(kernel.parameter_bytes);
  if (each) {
    for (size_t i = 0; i < kernel.parameters.size(); ++i) {
      need(each[i], "the address of a parameter");
      std::memcpy(bytes.data() + kernel.parameters[i].offset, each[i], kernel.parameters[i].size);
    }
    return bytes;
  }
  const void* packed = nullptr;
  size_t size = 0;
  for (void** item = extra; item && *item != CU_LAUNCH_PARAM_END; item += 2) {
    if (*item == CU_LAUNCH_PARAM_BUFFER_POINTER) packed = item[1];
    else if (*item == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<const size_t*>(item[1]);
    else refuse(CUDA_ERROR_INVALID_VALUE, "extra holds an unknown item");
  }
  require(kernel.parameters.empty() || packed, CUDA_ERROR_INVALID_VALUE,
          "the kernel has parameters that were not given");
  if (packed) std::memcpy(bytes.data(), packed, std::min(size, bytes.size()));
  return bytes;
}

// A program may have kernels that are not simulated and launch only others.
void need_simulated(const gpu::Kernel& kernel) {
  if (kernel.lowered) return;
  if (memory::options().unsupported_ends) {
    std::fflush(stdout);
    say("not simulated: " + kernel.not_simulated);
    _exit(125);
  }
  say_once("not simulated: " + kernel.not_simulated + ". The launch fails with CUDA_ERROR_NOT_SUPPORTED");
  refuse(CUDA_ERROR_NOT_SUPPORTED, "it is not simulated: " + kernel.not_simulated);
}

void check_shape(const CUDA_KERNEL_NODE_PARAMS_v3& p, const CUfunc_st& function) {
  require(p.gridDimX && p.gridDimY && p.gridDimZ && p.blockDimX && p.blockDimY && p.blockDimZ, CUDA_ERROR_INVALID_VALUE,
          "a dimension of the grid or of the block is 0");
  require(p.gridDimX <= 2147483647 && p.gridDimY <= 65535 && p.gridDimZ <= 65535, CUDA_ERROR_INVALID_VALUE,
          "the grid is larger than 2147483647 x 65535 x 65535");
  const uint64_t threads = uint64_t(p.blockDimX) * p.blockDimY * p.blockDimZ;
  require(p.blockDimX <= 1024 && p.blockDimY <= 1024 && p.blockDimZ <= 64 && threads <= 1024, CUDA_ERROR_INVALID_VALUE,
          "the block is larger than 1024 x 1024 x 64, or has more than 1024 threads");
  require(threads <= function.kernel->max_threads, CUDA_ERROR_INVALID_VALUE,
          "the block has more threads than the kernel was compiled for");
  require(p.sharedMemBytes <= unsigned(function.dynamic_shared), CUDA_ERROR_INVALID_VALUE,
          "the launch has more dynamic shared memory than the kernel may have: raise its attribute "
          "MAX_DYNAMIC_SHARED_SIZE_BYTES first (cudaFuncSetAttribute), with static memory to 227 KiB at most");
}

void check_fits_at_once(const CUDA_KERNEL_NODE_PARAMS_v3& p, CUfunction function) {
  const int threads = int(p.blockDimX * p.blockDimY * p.blockDimZ);
  const uint64_t fitting = uint64_t(blocks_that_fit(function, threads, p.sharedMemBytes));
  require(uint64_t(p.gridDimX) * p.gridDimY * p.gridDimZ <= fitting * memory::machine().multiprocessors,
          CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "the blocks do not all fit on the GPU at once");
}

// Lets what a node is asked for point to its own copy of the parameters.
void own_parameters(Work& work) {
  CUDA_KERNEL_NODE_PARAMS_v3& given = work.given.kernel;
  std::vector<std::byte>& bytes = work.launch.parameters;
  work.parameter_bytes = bytes.size();
  const bool is_packed = !given.kernelParams && given.extra;
  if (is_packed) {
    work.pointers = {CU_LAUNCH_PARAM_BUFFER_POINTER, bytes.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &work.parameter_bytes,
                     CU_LAUNCH_PARAM_END};
  } else {
    for (const auto& parameter : work.function->kernel->parameters)
      work.pointers.push_back(bytes.data() + parameter.offset);
  }
  given.kernelParams = is_packed ? nullptr : work.pointers.data();
  given.extra = is_packed ? work.pointers.data() : nullptr;
}

void start_kernel(const Work& work, const Operation& op) {
  gpu::Launch now = work.launch;
  {
    const MutexLock held(state().lock);
    now.heap = work.context->heap;
    now.stack_size = work.context->limits[CU_LIMIT_STACK_SIZE];
  }
  now.order = op->number;
  now.done = [op](const gpu::Fault* fault) {
    if (fault) set_fault(*fault);
    ended(op);
  };
  if (memory::options().trace)
    now.unordered_read = [kernel = now.kernel, device = now.module->device(), launch = work.asked_by](
                             const std::string& where, uint64_t written, uint64_t read) {
      tell_unordered_read(*kernel, device, launch, where, written, read);
    };
  if (memory::options().late_kernels == 0) return gpu::launch(std::move(now));
  using Clock = std::chrono::steady_clock;
  const auto latest = Clock::now() + std::chrono::milliseconds(memory::options().late_kernels);
  gpu::poll([op, now, latest, launch = work.asked_by] {  // a launch may come from any thread: the call is kept
    const std::string waiter = waiter_of(op);
    if (waiter.empty() && Clock::now() < latest && !fault()) return false;
    tell_begin(*now.kernel, now.parameters, now.module->device(), launch, waiter);
    gpu::launch(now);
    return true;
  });
}

void check(const Attributes& attributes) {
  for (const auto& [what, value] : attributes) {
    const auto& cluster = value.clusterDim;
    if (what == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && cluster.x * cluster.y * cluster.z > 1)
      refuse(CUresult(not_simulated("cuLaunchKernelEx with clusters")), "it is not simulated");
    if (what == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT || what == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
      refuse(CUresult(not_simulated("cuLaunchKernelEx with events")), "it is not simulated");
  }
}

void launch(const CUDA_KERNEL_NODE_PARAMS_v3& what, CUstream where, const Attributes& attributes) {
  if (!what.func) checked(what.func);  // refuses it before it looks at the stream
  CUstream_st& stream = driver::stream(where);
  put(stream, kernel_work(what, attributes, stream.context));
}

void launch(const CUlaunchConfig* config, CUfunction function, void** each, void** extra) {
  need(config, "config");
  Attributes attributes;
  for (unsigned i = 0; i < config->numAttrs; ++i) attributes[config->attrs[i].id] = config->attrs[i].value;
  check(attributes);
  launch({function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY,
          config->blockDimZ, config->sharedMemBytes, each, extra, nullptr, nullptr},
         config->hStream, attributes);
}

Attributes cooperative() {
  Attributes attributes;
  attributes[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative = 1;
  return attributes;
}

}  // namespace

// A function that a program gives may be a kernel.
SharedWork kernel_work(const CUDA_KERNEL_NODE_PARAMS_v3& p, const Attributes& attributes, CUcontext context) {
  const auto work = std::make_shared<Work>();
  const CUfunction handle = p.func ? p.func : reinterpret_cast<CUfunction>(p.kern);
  const CUfunction function = checked(handle, context ? context : p.func ? nullptr : p.ctx);
  const gpu::Kernel& kernel = *function->kernel;
  work->context = function->module->context;
  require(!context || context == work->context, CUDA_ERROR_INVALID_HANDLE,
          "the function is loaded in another context than the stream's");
  check_shape(p, *function);
  const auto found = attributes.find(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  const bool is_cooperative = found != attributes.end() && found->second.cooperative;
  if (is_cooperative) check_fits_at_once(p, function);
  need_simulated(kernel);
  require(kernel.local_bytes <= most_local, CUDA_ERROR_OUT_OF_MEMORY,
          "each thread of the kernel has more than 512 KiB of local memory: make its arrays smaller, or put them into "
          "memory of the GPU");
  work->function = function;
  if (memory::options().trace) work->asked_by = memory::current_call();
  work->attributes = attributes;
  work->given.type = CU_GRAPH_NODE_TYPE_KERNEL;
  work->given.kernel = p;
  work->given.kernel.ctx = work->context;
  if (handle != function) {
    work->given.kernel.func = nullptr;
    work->given.kernel.kern = reinterpret_cast<CUkernel>(handle);
  }
  work->launch = {&kernel,
                  function->module->module,
                  {p.gridDimX, p.gridDimY, p.gridDimZ},
                  {p.blockDimX, p.blockDimY, p.blockDimZ},
                  p.sharedMemBytes,
                  parameters_of(kernel, p.kernelParams, p.extra),
                  {}};
  work->launch.is_cooperative = is_cooperative;
  own_parameters(*work);
  work->start = start_kernel;
  return work;
}

}  // namespace driver

using namespace driver;

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                        unsigned int sharedMemBytes, CUstream hStream, void** kernelParams, void** extra) {
  return call(ARGUMENTS(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream),
              [&] {
                launch({f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, kernelParams,
                        extra, nullptr, nullptr},
                       hStream, {});
              });
}
CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                   unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream, void** kernelParams) {
  return call(ARGUMENTS(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream),
              [&] {
                launch({f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, kernelParams,
                        nullptr, nullptr, nullptr},
                       hStream, cooperative());
              });
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra) {
  return call(ARGUMENTS(config, f), [&] { launch(config, f, kernelParams, extra); });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func, int blockSize,
                                                     size_t dynamicSMemSize) {
  return call(ARGUMENTS(numBlocks, func, blockSize, dynamicSMemSize),
              result_to(numBlocks, "numBlocks", [&] { return blocks_that_fit(func, blockSize, dynamicSMemSize); }));
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, CUfunction func, int blockSize,
                                                              size_t dynamicSMemSize, unsigned int flags) {
  return call(ARGUMENTS(numBlocks, func, blockSize, dynamicSMemSize, flags), [&] {
    need(numBlocks, "numBlocks");
    require(flags <= 1, CUDA_ERROR_INVALID_VALUE, "there are no such flags");
    *numBlocks = blocks_that_fit(func, blockSize, dynamicSMemSize);
  });
}
CUresult cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                          CUoccupancyB2DSize sharedOf, size_t dynamicSMemSize, int blockSizeLimit) {
  return call(ARGUMENTS(minGridSize, blockSize, func, dynamicSMemSize, blockSizeLimit),
              [&] { best_block(minGridSize, blockSize, func, sharedOf, dynamicSMemSize, blockSizeLimit); });
}
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* minGridSize, int* blockSize, CUfunction func,
                                                   CUoccupancyB2DSize sharedOf, size_t dynamicSMemSize,
                                                   int blockSizeLimit, unsigned int flags) {
  return call(ARGUMENTS(minGridSize, blockSize, func, dynamicSMemSize, blockSizeLimit, flags), [&] {
    require(flags <= 1, CUDA_ERROR_INVALID_VALUE, "there are no such flags");
    best_block(minGridSize, blockSize, func, sharedOf, dynamicSMemSize, blockSizeLimit);
  });
}
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, CUfunction func, int numBlocks,
                                                 int blockSize) {
  return call(
      ARGUMENTS(dynamicSmemSize, func, numBlocks, blockSize),
      result_to(dynamicSmemSize, "dynamicSmemSize", [&] { return dynamic_shared_for(func, numBlocks, blockSize); }));
}
