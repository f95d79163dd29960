// SPDX-License-Identifier: MIT-0
// What every call has around it, and the errors.
#include "../lasting.h"
#include "../mutex.h"
#include "runtime.h"

#include <atomic>
#include <map>

namespace runtime {

thread_local Thread this_thread;

namespace {

// What the threads of the process share.
struct State {
  std::atomic<int> device_count = 0;  // 0: not yet known; stays known in a forked child, which has no driver
  Mutex lock;                         // of what follows
  std::map<int, CUcontext> primary_contexts GUARDED_BY(lock);  // that were retained
};
State& state() { return lasting<State>(); }

// Makes a context current in this thread: the program's own if there is one, else the primary one of its device.
void enter_context() {
  CUcontext now = nullptr;
  CUdevice device = this_thread.chosen_device;
  must(cuCtxGetCurrent(&now));
  if (now) cuCtxGetDevice(&device);
  unsigned long long id = 0;
  const bool is_alive = now && cuCtxGetId(now, &id) == CUDA_SUCCESS;  // device and flags it tells when it has ended
  if (is_alive && now == this_thread.entered) return;
  const CUcontext primary = primary_context(device);
  if (!is_alive) must(cuCtxSetCurrent(primary));
  this_thread.entered = is_alive ? now : primary;
}

int remember(int error, const char* call) {
  if (!error || error == cudaErrorNotReady) return error;
  this_thread.last_error = error;
  this_thread.last_call = call;
  return error;
}

struct Text {
  int error;
  const char* text;
};
constexpr Text texts[] = {
    // of the errors that the driver has not, or has with another meaning
    {cudaErrorInvalidConfiguration, "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "invalid pitch argument"},
    {cudaErrorInvalidSymbol, "invalid device symbol"},
    {cudaErrorInvalidHostPointer, "invalid host pointer"},
    {cudaErrorInvalidDevicePointer, "invalid device pointer"},
    {cudaErrorInvalidTexture, "invalid texture reference"},
    {cudaErrorInvalidTextureBinding, "texture is not bound to a pointer"},
    {cudaErrorInvalidChannelDescriptor, "invalid channel descriptor"},
    {cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"},
    {cudaErrorAddressOfConstant, "invalid address of constant"},
    {cudaErrorTextureFetchFailed, "fetch from texture failed"},
    {cudaErrorTextureNotBound, "cannot fetch from a texture that is not bound"},
    {cudaErrorSynchronizationError, "incorrect use of __syncthreads()"},
    {cudaErrorInvalidFilterSetting, "linear filtering not supported for non-float type"},
    {cudaErrorInvalidNormSetting, "read as normalized float not supported for data type"},
    {cudaErrorMixedDeviceExecution, "device emulation mode and device execution mode cannot be mixed"},
    {cudaErrorNotYetImplemented, "feature not yet implemented"},
    {cudaErrorMemoryValueTooLarge, "memory size or pointer value too large to fit in 32 bit"},
    {cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidSurface, "invalid surface reference"},
    {cudaErrorDuplicateVariableName, "duplicate global variable looked up by string name"},
    {cudaErrorDuplicateTextureName, "duplicate texture looked up by string name"},
    {cudaErrorDuplicateSurfaceName, "duplicate surface looked up by string name"},
    {cudaErrorIncompatibleDriverContext, "incompatible driver context"},
    {cudaErrorMissingConfiguration, "__global__ function call is not configured"},
    {cudaErrorPriorLaunchFailure, "unspecified launch failure in prior launch"},
    {cudaErrorLaunchMaxDepthExceeded, "launch would exceed maximum depth of nested launches"},
    {cudaErrorLaunchFileScopedTex,
     "launch failed because kernel uses unsupported, file-scoped textures (texture objects are supported)"},
    {cudaErrorLaunchFileScopedSurf,
     "launch failed because kernel uses unsupported, file-scoped surfaces (surface objects are supported)"},
    {cudaErrorSyncDepthExceeded,
     "cudaDeviceSynchronize failed because caller's grid depth exceeds cudaLimitDevRuntimeSyncDepth"},
    {cudaErrorLaunchPendingCountExceeded,
     "launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount"},
    {cudaErrorInvalidDeviceFunction, "invalid device function"},
    {cudaErrorSoftwareValidityNotEstablished, "integrity checks failed"},
    {cudaErrorStartupFailure, "startup failure in cuda runtime"},
};

}  // namespace

static constexpr char unknown_error[] = "unrecognized error code";
const char* shown_name_of(int error) {
  const char* const name = name_of(error);
  return name ? name : unknown_error;
}

// A runtime works with every driver of its major version, and with later ones.
void start_driver() {
  int version = 0;
  must(cuDriverGetVersion(&version));
  require(version / 1000 >= CUDART_VERSION / 1000,
          "the driver is of CUDA " + std::to_string(version / 1000) + ", and the program was built for CUDA " +
              std::to_string(CUDART_VERSION / 1000) + ": install a newer driver, or build with an older toolkit",
          cudaErrorInsufficientDriver);
  must(cuInit(0));
  if (int count; !state().device_count && cuDeviceGetCount(&count) == CUDA_SUCCESS) state().device_count = count;
}

int device() {
  CUcontext now = nullptr;
  CUdevice device = this_thread.chosen_device;
  if (cuCtxGetCurrent(&now) == CUDA_SUCCESS && now) cuCtxGetDevice(&device);
  return device;
}

CUcontext primary_context(int device) {
  const MutexLock held(state().lock);
  unsigned flags = 0;
  int is_active = 0;
  must(cuDevicePrimaryCtxGetState(device, &flags, &is_active));
  CUcontext& context = state().primary_contexts[device];
  if (!context || !is_active) must(cuDevicePrimaryCtxRetain(&context, device));
  return context;
}

int checked(int device) {
  require(device >= 0 && device < state().device_count,
          "there is no GPU " + std::to_string(device) + ": this process sees " + std::to_string(state().device_count) +
              ", the first is 0",
          cudaErrorInvalidDevice);
  return device;
}

cudaError_t run(const driver::Call& call, Needs needs, const std::function<int()>& work) {
  const int flags = driver::before_init | driver::after_exit | (needs >= of_event ? 0 : driver::after_fault) |
                    (needs == nothing || needs == of_event ? driver::in_host_function : 0);
  const int error = driver::run(call, flags, shown_name_of, [&]() -> int {
    try {
      if (needs != nothing) start_driver();
      if (needs == context) enter_context();
      return work();
    } catch (const Failed& failed) {
      return failed.error;
    }
  });
  return cudaError_t(remember(error, call.name));
}

int missing(const char* name) { return remember(driver::not_simulated(name), name); }

}  // namespace runtime

using namespace runtime;

// What hook.cc makes of a call that a later release of CUDA has: the answer of those that our release has.
EXPORT int vmmsim_not_simulated(const char* name) { return missing(name); }

// --- Errors -------------------------------------------------------------------------------------------------------
const char* cudaGetErrorName(cudaError_t error) { return shown_name_of(error); }
const char* cudaGetErrorString(cudaError_t error) {
  for (const Text& known : texts)
    if (known.error == error) return known.text;
  const char* text = nullptr;
  const bool is_known = name_of(error) && cuGetErrorString(CUresult(error), &text) == CUDA_SUCCESS;
  return is_known ? text : unknown_error;
}

static cudaError_t give_last_error(const char* name, bool and_forget) {
  const int flags = driver::before_init | driver::after_exit | driver::after_fault | driver::in_host_function;
  const int error = driver::run(driver::Call(name, ""), flags, shown_name_of, [] {
    driver::explain(std::string(this_thread.last_call) + " answered so before in this thread");
    return this_thread.last_error;
  });
  if (and_forget) this_thread.last_error = cudaSuccess;
  return cudaError_t(error);
}
cudaError_t cudaGetLastError(void) { return give_last_error(__func__, true); }
cudaError_t cudaPeekAtLastError(void) { return give_last_error(__func__, false); }

// --- What the thread's device is ------------------------------------------------------------------------------------
cudaError_t cudaGetDeviceCount(int* count) {
  return call(ARGUMENTS(count), nothing, [&] {
    require_non_null(count, "count");
    *count = 0;
    if (!state().device_count) start_driver();
    *count = state().device_count;
  });
}
cudaError_t cudaGetDevice(int* device) {
  return call(ARGUMENTS(device), driver_only, result_to(device, "device", [&] { return runtime::device(); }));
}
cudaError_t cudaSetDevice(int device) {
  return call(ARGUMENTS(device), driver_only, [&] {
    this_thread.entered = primary_context(checked(device));
    must(cuCtxSetCurrent(this_thread.entered));
    this_thread.chosen_device = device;
  });
}
cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags) {
  return call(ARGUMENTS(device, deviceFlags, flags), driver_only, [&] {
    checked(device);
    if (flags & cudaInitDeviceFlagsAreValid) must(cuDevicePrimaryCtxSetFlags(device, deviceFlags));
    primary_context(device);
  });
}
cudaError_t cudaDeviceReset(void) {
  return call(ARGUMENTS(), driver_only, [&] { return cuDevicePrimaryCtxReset(device()); });
}
FORWARD(cudaDeviceSynchronize, cuCtxSynchronize, (void))
