// SPDX-License-Identifier: MIT-0
// Launches of kernels.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>

#include "../memory/this_machine.h"
#include "contexts.h"
#include "driver.h"
#include "events.h"
#include "launches.h"
#include "modules.h"
#include "occupancy.h"

namespace driver {
namespace {

constexpr size_t most_local = 512 << 10;  // bytes of a thread, which must stay below, as an H100 answered

// The parameters' bytes, from an array of pointers to each or from a packed buffer.
std::vector<std::byte> parameters_of(const gpu::Kernel& kernel, void** pointers, void** extra) {
  std::vector<std::byte> bytes(kernel.parameter_bytes);
  if (pointers) {
    for (size_t i = 0; i < kernel.parameters.size(); ++i) {
      require_non_null(pointers[i], "the address of a parameter");
      std::memcpy(bytes.data() + kernel.parameters[i].offset, pointers[i], kernel.parameters[i].size);
    }
    return bytes;
  }
  const void* packed = nullptr;
  size_t size = 0;
  for (void** item = extra; item && *item != CU_LAUNCH_PARAM_END; item += 2) {
    if (*item == CU_LAUNCH_PARAM_BUFFER_POINTER) packed = item[1];
    else if (*item == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<const size_t*>(item[1]);
    else refuse("extra holds an unknown item");
  }
  require(kernel.parameters.empty() || packed, "the kernel has parameters that were not given");
  require(size <= bytes.size(), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
          "the buffer with the parameters is larger than the kernel's parameters");
  if (packed) std::memcpy(bytes.data(), packed, std::min(size, bytes.size()));
  return bytes;
}

// A program may have kernels that are not simulated and launch only others.
void require_simulated(const gpu::Kernel& kernel) {
  if (kernel.lowered) return;
  const bool ends = memory::options().unsupported_ends;
  log_unsupported("not simulated: " + kernel.not_simulated +
                  (ends ? "" : ". The launch fails with CUDA_ERROR_NOT_SUPPORTED"));
  refuse(CUDA_ERROR_NOT_SUPPORTED, "it is not simulated: " + kernel.not_simulated);
}

void require_block_size(const CUDA_KERNEL_NODE_PARAMS_v3& p, const gpu::Kernel& kernel) {
  require(p.blockDimX && p.blockDimY && p.blockDimZ, "a dimension of the block is 0");
  const uint64_t threads = uint64_t(p.blockDimX) * p.blockDimY * p.blockDimZ;
  require(p.blockDimX <= 1024 && p.blockDimY <= 1024 && p.blockDimZ <= 64 && threads <= 1024,
          "the block is larger than 1024 x 1024 x 64, or has more than 1024 threads");
  require(threads <= kernel.max_threads, "the block has more threads than the kernel was compiled for");
  const auto& [x, y, z] = kernel.required_threads;
  const bool is_right = p.blockDimX == x && p.blockDimY == y && p.blockDimZ == z;
  require(!x || is_right || threads == 1,
          "the kernel was compiled for blocks of another size");  // a single thread is taken all the same
}

void require_shared_memory(const CUDA_KERNEL_NODE_PARAMS_v3& p, const CUfunc_st& function) {
  require(p.sharedMemBytes <= unsigned(function.dynamic_shared),
          "the launch has more dynamic shared memory than the kernel may have: raise its attribute "
          "MAX_DYNAMIC_SHARED_SIZE_BYTES first (cudaFuncSetAttribute), with static memory to 227 KiB at most");
}

// The GPU takes local memory for all the threads that it can have at once.
void require_local_memory(const gpu::Kernel& kernel) {
  require(kernel.local_bytes < most_local,
          "each thread of the kernel has 512 KiB of local memory or more: make its arrays smaller, or put them into "
          "memory of the GPU");
  const uint64_t threads = uint64_t(memory::machine().multiprocessors) * 2048;
  require(
      kernel.local_bytes * threads <= memory::machine().memory, CUDA_ERROR_OUT_OF_MEMORY,
      "the kernel's local memory, for all the threads that the GPU can have at once, is more than the GPU has: make "
      "its arrays smaller, or put them into memory of the GPU");
}

void require_fits_at_once(const CUDA_KERNEL_NODE_PARAMS_v3& p, CUfunction function) {
  const int threads = int(p.blockDimX * p.blockDimY * p.blockDimZ);
  const uint64_t fitting = uint64_t(blocks_that_fit(function, threads, p.sharedMemBytes));
  require(uint64_t(p.gridDimX) * p.gridDimY * p.gridDimZ <= fitting * memory::machine().multiprocessors,
          CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "the blocks do not all fit on the GPU at once");
}

// Lets what a node is asked for point to its own copy of the parameters.
void own_parameters(CUDA_KERNEL_NODE_PARAMS_v3& given, KernelWork& work) {
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
  gpu::Launch now = work.kernel()->launch;
  {
    const MutexLock held(state().lock);
    now.heap = work.context->heap;
    now.stack_size = work.context->limits[CU_LIMIT_STACK_SIZE];
    if (op->begin) now.begun = [op] { begun(op); };
  }
  now.order = op->number;
  now.submission = op->asked_by;
  now.triggered = [op] { triggered(op); };
  if (!op->prerequisites.empty()) now.may_go_on = [op] { return may_go_on(op); };
  now.done = [op](const gpu::Fault* fault) {
    memory::note_work(false);
    if (fault) set_fault(*fault, op->asked_by.call);
    ended(op);
  };
  if (memory::options().trace) {
    const auto trace = [kernel = now.kernel, device = now.module->device(),
                        launch = op->asked_by.call](const auto& its) { trace_aliases(*kernel, device, launch, its); };
    now.unordered_read = trace;
    now.alias_fence = trace;
  }
  if (memory::options().late_kernels == 0) {
    memory::note_work(true);
    return gpu::launch(std::move(now));
  }
  using Clock = std::chrono::steady_clock;
  const auto latest = Clock::now() + std::chrono::milliseconds(memory::options().late_kernels);
  gpu::poll([op, now, latest, launch = op->asked_by.call] {  // a launch may come from any thread: the call is kept
    const std::string waiter = waiter_of(op);
    if (waiter.empty() && Clock::now() < latest && !fault()) return false;
    trace_begin(*now.kernel, now.parameters, now.module->device(), launch, waiter);
    memory::note_work(true);
    gpu::launch(now);
    return true;
  });
}

// An event that a launch records: when all blocks have begun, or, as an H100 does it, when the kernel has ended.
std::shared_ptr<CUevent_st> event_among(const Attributes& attributes, CUlaunchAttributeID which) {
  const auto found = attributes.find(which);
  if (found == attributes.end()) return nullptr;
  const bool is_of_begin = which == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
  const CUlaunchAttributeValue& value = found->second;
  const auto event = checked(is_of_begin ? value.launchCompletionEvent.event : value.programmaticEvent.event);
  require(event->flags & CU_EVENT_DISABLE_TIMING, CUDA_ERROR_NOT_SUPPORTED,
          "an event of a launch is made with CU_EVENT_DISABLE_TIMING");
  require(!(is_of_begin ? value.launchCompletionEvent.flags : value.programmaticEvent.flags), CUDA_ERROR_ILLEGAL_STATE,
          "CU_EVENT_RECORD_EXTERNAL is for streams that capture");
  return event;
}

// The dimensions of a cluster are all 0, which is no cluster, or none of them is.
void require_cluster_dimensions(const CUlaunchAttributeValue& value) {
  const auto& [x, y, z] = value.clusterDim;
  require(!x == !y && !y == !z, CUDA_ERROR_INVALID_CLUSTER_SIZE, "a dimension of the cluster is 0");
}

void require_attribute(CUlaunchAttributeID attribute, const CUlaunchAttributeValue& value) {
  const auto is_known = [&](bool known) {
    if (!known)
      refuse("attribute " + std::to_string(attribute) + " of the launch does not exist, or cannot have this value");
  };
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY: return is_known(false);  // of streams alone
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return is_known(unsigned(value.clusterSchedulingPolicyPreference) <= CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING);
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: return require_cluster_dimensions(value);
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      return is_known(unsigned(value.memSyncDomain) <= CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      return is_known(value.memSyncDomainMap.default_ < 4 && value.memSyncDomainMap.remote < 4);  // domains of a GPU
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return is_known(value.sharedMemCarveout <= 100);
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT: event_among({{attribute, value}}, attribute); return;
    default: return is_known(attribute >= 0 && attribute <= CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  }
}

}  // namespace

void require_grid_size(const gpu::Dimensions& grid) {
  require(grid.x && grid.y && grid.z, "a dimension of the grid is 0");
  require(grid.x <= 2147483647 && grid.y <= 65535 && grid.z <= 65535,
          "the grid is larger than 2147483647 x 65535 x 65535");
}

void require_attributes(const Attributes& attributes) {
  for (const auto& [attribute, value] : attributes) require_attribute(attribute, value);
}

// The function may be a CUkernel, as the driver takes it.
SharedWork kernel_work(const CUDA_KERNEL_NODE_PARAMS_v3& p, const Attributes& attributes, CUcontext context) {
  const auto work = std::make_shared<Work>();
  KernelWork& launched = work->payload.emplace<KernelWork>();
  const CUfunction handle = p.func ? p.func : reinterpret_cast<CUfunction>(p.kern);
  const CUfunction function = checked(handle, context ? context : p.func ? nullptr : p.ctx);
  const gpu::Kernel& kernel = *function->kernel;
  work->context = function->module->context;
  require(!context || context == work->context, CUDA_ERROR_INVALID_HANDLE,
          "the function is loaded in another context than the stream's");
  const bool is_packed = p.extra && *p.extra == CU_LAUNCH_PARAM_BUFFER_POINTER;
  require(!p.kernelParams || !is_packed, "the parameters are given twice");
  require_block_size(p, kernel);
  require_attributes(attributes);
  require_grid_size({p.gridDimX, p.gridDimY, p.gridDimZ});
  const auto found = attributes.find(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  const bool is_cooperative = found != attributes.end() && found->second.cooperative;
  const gpu::Dimensions grid = {p.gridDimX, p.gridDimY, p.gridDimZ};
  launched.lacks_clusters = !context && lacks_clusters(*function, attributes);
  std::optional<gpu::Dimensions> cluster;
  if (!launched.lacks_clusters) cluster = cluster_of(*function, attributes);
  if (cluster) require_cluster(*function, *cluster, grid);
  if (is_cooperative) require_fits_at_once(p, function);
  require_shared_memory(p, *function);
  require_simulated(kernel);
  require_local_memory(kernel);
  launched.function = function;
  launched.attributes = attributes;
  launched.event_of_begin = event_among(attributes, CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT);
  launched.event_of_end = event_among(attributes, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT);
  const auto serialization = attributes.find(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  launched.begins_early =
      serialization != attributes.end() && serialization->second.programmaticStreamSerializationAllowed;
  work->given.type = CU_GRAPH_NODE_TYPE_KERNEL;
  work->given.kernel = p;
  work->given.kernel.ctx = work->context;
  if (handle != function) {
    work->given.kernel.func = nullptr;
    work->given.kernel.kern = reinterpret_cast<CUkernel>(handle);
  }
  launched.launch = {&kernel,
                     function->module->module,
                     grid,
                     {p.blockDimX, p.blockDimY, p.blockDimZ},
                     p.sharedMemBytes,
                     parameters_of(kernel, p.kernelParams, p.extra),
                     {}};
  launched.launch.is_cooperative = is_cooperative;
  launched.launch.cluster = cluster.value_or(gpu::Dimensions());
  launched.launch.has_clusters = cluster.has_value();
  own_parameters(work->given.kernel, launched);
  work->start = start_kernel;
  return work;
}

}  // namespace driver
