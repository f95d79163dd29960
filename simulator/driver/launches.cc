// SPDX-License-Identifier: MIT-0
// Launches of kernels, and how many of their blocks fit on a GPU.
#include "driver.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace driver {
namespace {

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
  // The preferred carveout is rounded up to what the multiprocessor can be split into; one block fits in any case.
  constexpr int splits[] = {0, 8, 16, 32, 64, 100, 132, 164, 196, 228};
  const int carveout = function->carveout < 0 ? 100 : int(function->carveout);
  const int split = *std::find_if(splits, std::end(splits) - 1, [&](int kib) { return kib * 100 >= carveout * 228; });
  const size_t room = std::max(size_t(split) << 10, shared);
  return int(std::min({size_t(32), 2048 / threads, 65536 / registers, room / shared}));
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

// Of what is not simulated in a kernel this is refused, and the rest ends the process: a program may have such a kernel
// and launch only others.
void refuse_launches_in(const gpu::Kernel& kernel) {
  if (kernel.not_simulated.find(gpu::device_runtime) == kernel.not_simulated.npos) return;
  const std::string what = "a launch, or another call of the runtime, in the kernel " + demangled(kernel.name);
  refuse(CUresult(not_simulated(what.c_str())), kernel.not_simulated);
}

void launch(CUfunction handle, gpu::Dimensions grid, gpu::Dimensions block, unsigned shared, CUstream where,
            void** each, void** extra, bool is_cooperative) {
  if (!handle) checked(handle);  // refuses it before it looks at the stream
  CUstream_st& stream = driver::stream(where);
  const CUfunction function = checked(handle, stream.context);
  const gpu::Kernel& kernel = *function->kernel;
  require(stream.context == function->module->context, CUDA_ERROR_INVALID_HANDLE,
          "the function is loaded in another context than the stream's");
  require(grid.x && grid.y && grid.z && block.x && block.y && block.z, CUDA_ERROR_INVALID_VALUE,
          "a dimension of the grid or of the block is 0");
  require(grid.x <= 2147483647 && grid.y <= 65535 && grid.z <= 65535, CUDA_ERROR_INVALID_VALUE,
          "the grid is larger than 2147483647 x 65535 x 65535");
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  require(block.x <= 1024 && block.y <= 1024 && block.z <= 64 && threads <= 1024, CUDA_ERROR_INVALID_VALUE,
          "the block is larger than 1024 x 1024 x 64, or has more than 1024 threads");
  require(threads <= kernel.max_threads, CUDA_ERROR_INVALID_VALUE,
          "the block has more threads than the kernel was compiled for");
  require(shared <= unsigned(function->dynamic_shared), CUDA_ERROR_INVALID_VALUE,
          "the launch has more dynamic shared memory than the kernel may have: raise its attribute "
          "MAX_DYNAMIC_SHARED_SIZE_BYTES first (cudaFuncSetAttribute), with static memory to 227 KiB at most");
  const uint64_t fitting = is_cooperative ? uint64_t(blocks_that_fit(function, int(threads), shared)) : 0;
  require(!is_cooperative || uint64_t(grid.x) * grid.y * grid.z <= fitting * memory::machine().multiprocessors,
          CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "the blocks do not all fit on the GPU at once");
  refuse_launches_in(kernel);
  gpu::Launch what = {&kernel, function->module->module, grid, block, shared, parameters_of(kernel, each, extra), {}};
  what.is_cooperative = is_cooperative;
  what.heap = stream.context->heap;
  enqueue_work(stream, [what = std::move(what)](const Operation& op) {
    gpu::Launch now = what;
    now.order = number_of(op);
    now.done = [op](const gpu::Fault* fault) {
      if (fault) set_fault(*fault);
      ended(op);
    };
    gpu::launch(std::move(now));
  });
}

CUresult launch(const CUlaunchConfig* config, CUfunction function, void** each, void** extra) {
  need(config, "config");
  bool is_cooperative = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    const auto& cluster = attribute.value.clusterDim;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) is_cooperative = attribute.value.cooperative;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && cluster.x * cluster.y * cluster.z > 1)
      return CUresult(not_simulated("cuLaunchKernelEx with clusters"));
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT ||
        attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
      return CUresult(not_simulated("cuLaunchKernelEx with events"));
  }
  launch(function, {config->gridDimX, config->gridDimY, config->gridDimZ},
         {config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes, config->hStream, each,
         extra, is_cooperative);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace driver

using namespace driver;

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                        unsigned int sharedMemBytes, CUstream hStream, void** kernelParams, void** extra) {
  return call(ARGUMENTS(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream),
              [&] {
                launch(f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes, hStream,
                       kernelParams, extra, false);
              });
}
CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                   unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream, void** kernelParams) {
  return call(ARGUMENTS(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream),
              [&] {
                launch(f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes, hStream,
                       kernelParams, nullptr, true);
              });
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra) {
  return call(ARGUMENTS(config, f), [&] { return launch(config, f, kernelParams, extra); });
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
  return call(ARGUMENTS(dynamicSmemSize, func, numBlocks, blockSize), [&] {
    need(dynamicSmemSize, "dynamicSmemSize");
    require(numBlocks > 0 && blockSize > 0, CUDA_ERROR_INVALID_VALUE, "numBlocks and blockSize must be positive");
    const int fixed = int(checked(func)->kernel->static_shared);
    const int share = 233472 / numBlocks - 1024 - fixed;
    *dynamicSmemSize = size_t(std::clamp(share, 0, most_shared - fixed));
  });
}
