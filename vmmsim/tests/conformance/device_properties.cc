// SPDX-License-Identifier: MIT-0
// What cudaGetDeviceProperties says of a GPU, but for what differs from one to the next and for what is not simulated.
#include "conformance.h"

#include <initializer_list>

static void show(const char* field, std::initializer_list<long long> values) {
  std::string all;
  for (const long long value : values) all += (all.empty() ? "" : ", ") + std::to_string(value);
  say(field, all);
}
#define ONE(field) show(#field, {(long long)it.field})
#define TWO(field) show(#field, {it.field[0], it.field[1]})
#define THREE(field) show(#field, {it.field[0], it.field[1], it.field[2]})

int main() {
  cudaDeviceProp it;
  CHECK(cudaGetDeviceProperties(&it, 0));
  section("blocks and threads");
  ONE(regsPerBlock);
  ONE(warpSize);
  ONE(maxThreadsPerBlock);
  THREE(maxThreadsDim);
  THREE(maxGridSize);
  ONE(major);
  ONE(minor);
  ONE(multiProcessorCount);
  ONE(maxThreadsPerMultiProcessor);
  ONE(maxBlocksPerMultiProcessor);
  ONE(regsPerMultiprocessor);
  ONE(concurrentKernels);
  ONE(cooperativeLaunch);
  ONE(computePreemptionSupported);
  ONE(streamPrioritiesSupported);
  ONE(unifiedFunctionPointers);
  section("memory");
  ONE(sharedMemPerBlock);
  ONE(sharedMemPerMultiprocessor);
  ONE(sharedMemPerBlockOptin);
  ONE(reservedSharedMemPerBlock);
  ONE(memPitch);
  ONE(totalConstMem);
  ONE(memoryBusWidth);
  ONE(l2CacheSize);
  ONE(persistingL2CacheMaxSize);
  ONE(accessPolicyMaxWindowSize);
  ONE(globalL1CacheSupported);
  ONE(localL1CacheSupported);
  ONE(ECCEnabled);
  ONE(asyncEngineCount);
  ONE(memoryPoolsSupported);
  ONE(gpuDirectRDMASupported);
  ONE(gpuDirectRDMAFlushWritesOptions);
  ONE(gpuDirectRDMAWritesOrdering);
  section("the host");
  ONE(integrated);
  ONE(tccDriver);
  ONE(canMapHostMemory);
  ONE(unifiedAddressing);
  ONE(managedMemory);
  ONE(concurrentManagedAccess);
  ONE(pageableMemoryAccess);
  ONE(pageableMemoryAccessUsesHostPageTables);
  ONE(directManagedMemAccessFromHost);
  ONE(canUseHostPointerForRegisteredMem);
  ONE(hostNativeAtomicSupported);
  ONE(isMultiGpuBoard);
  section("textures and surfaces");
  ONE(textureAlignment);
  ONE(texturePitchAlignment);
  ONE(surfaceAlignment);
  ONE(maxTexture1D);
  ONE(maxTexture1DMipmap);
  TWO(maxTexture2D);
  TWO(maxTexture2DMipmap);
  THREE(maxTexture2DLinear);
  TWO(maxTexture2DGather);
  THREE(maxTexture3D);
  THREE(maxTexture3DAlt);
  ONE(maxTextureCubemap);
  TWO(maxTexture1DLayered);
  THREE(maxTexture2DLayered);
  TWO(maxTextureCubemapLayered);
  ONE(maxSurface1D);
  TWO(maxSurface2D);
  THREE(maxSurface3D);
  TWO(maxSurface1DLayered);
  THREE(maxSurface2DLayered);
  ONE(maxSurfaceCubemap);
  TWO(maxSurfaceCubemapLayered);
}
