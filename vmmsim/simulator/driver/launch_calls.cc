// SPDX-License-Identifier: MIT-0
// Calls that launch kernels.
#include "capture.h"
#include "driver.h"
#include "launches.h"
#include "occupancy.h"
#include "streams.h"

namespace driver {
namespace {

// The stream is looked at before the launch.
void launch(const CUDA_KERNEL_NODE_PARAMS_v3& given, CUstream stream_handle, const Attributes& attributes) {
  CUstream_st& stream = driver::stream(stream_handle);
  const SharedWork work = kernel_work(given, attributes, stream.context);
  require(!attributes.contains(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE) || is_capturing(stream),
          CUDA_ERROR_NOT_SUPPORTED,
          "CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE is for a node of a graph, and the stream does not capture");
  if (submit(stream, work)) return;
  for (const auto& event : {work->kernel()->event_of_begin, work->kernel()->event_of_end})
    if (event) capture_record(stream, *event);
}

void launch(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  require_non_null(config, "config");
  launch({function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY,
          config->blockDimZ, config->sharedMemBytes, parameters, extra, nullptr, nullptr},
         config->hStream, attributes_of(*config));
}

Attributes cooperative() {
  Attributes attributes;
  attributes[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative = 1;
  return attributes;
}

}  // namespace
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
