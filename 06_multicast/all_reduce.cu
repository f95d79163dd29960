// SPDX-License-Identifier: MIT-0
// 06 Multicast, an all-reduce: the same sums with multicast and without, checked and, if you like, timed.
//
// Build it alone:  nvcc -std=c++17 -arch=sm_90 all_reduce.cu -o all_reduce -lcuda
#include "../common/check.h"
#include "../common/measure.h"

#include <cmath>
#include <cuda/ptx>
#include <random>

static const char usage[] =
    "usage: all_reduce [--mib N] [--repeats N] [--unicast] [--csv FILE]\n"
    "  --mib N       the largest array in MiB, 1 to 1024 (default 4, for simulated GPUs; on hardware give 256)\n"
    "  --repeats N   measure each thing so many times, for the median, 1 to 1000 (default: only check the sums)\n"
    "  --unicast     leave multicast alone: no multicast object is made\n"
    "  --csv FILE    write the measurements to this file too, as a table\n";

// The multimem instructions, written as PTX: cuda::ptx has none for vectors of float.
#if __CUDA_ARCH__ >= 900
__device__ float4 sum_all(const float4* mc) {
  float4 v;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(__cvta_generic_to_global(mc))
               : "memory");
  return v;
}

__device__ void store_all(float4* mc, float4 v) {
  const size_t to = __cvta_generic_to_global(mc);
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}
#else  // earlier GPUs have none of them, and don't come past require_multicast
__device__ float4 sum_all(const float4*) {
  __trap();
  return {};
}
__device__ void store_all(float4*, float4) { __trap(); }
#endif

// An element is four floats. A GPU's share goes from `first` to `last` - 1, with a thread for each.
__global__ void all_reduce_multicast(const float4* in_mc, float4* out_mc, size_t first, size_t last) {
  const size_t i = first + size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < last) store_all(out_mc + i, sum_all(in_mc + i));
}

// The same with ordinary accesses. The replicas are `stride` apart, and each GPU begins at its own.
__global__ void all_reduce_unicast(float4* in, float4* out, size_t stride, int me, int gpus, size_t first,
                                   size_t last) {
  const size_t i = first + size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= last) return;
  float4 sum = make_float4(0, 0, 0, 0);
  for (int k = 0; k < gpus; ++k) {
    const float4 v = in[(me + k) % gpus * stride + i];
    sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
  }
  for (int k = 0; k < gpus; ++k) out[(me + k) % gpus * stride + i] = sum;
}

__global__ void hold(size_t ns) {  // keeps a GPU busy for a while
  const size_t end = cuda::ptx::get_sreg_globaltimer() + ns;
  while (cuda::ptx::get_sreg_globaltimer() < end) continue;
}

struct Gpu {
  CUmemGenericAllocationHandle memory;
  float4* mc;  // its multicast address
  cudaEvent_t start, stop;
};
static std::vector<Gpu> gpus;
static int count;
static float4* replicas;    // the unicast address of the first, the others follow it,
static size_t stride, out;  // so many elements apart; there the second array of each begins

// All GPUs, with kernels and events. They reach each other, and support multicast unless that is left alone.
static void find_team(bool unicast) {
  count = unicast ? check::require_gpus(check::require_gpus(2)) : check::require_multicast(all_reduce_multicast);
  gpus.resize(count);
  for (int g = 0; g < count; ++g) {
    int reaches = 1;
    for (int k = 0; k < g && reaches; ++k) CHECK(cuDeviceCanAccessPeer(&reaches, g, k));
    REQUIRE(reaches, "GPU %d does not reach another; choose others with CUDA_VISIBLE_DEVICES", g);
    CHECK(cudaSetDevice(g));
    cudaFuncAttributes loaded;
    for (const void* kernel : {(void*)all_reduce_unicast, (void*)hold, (void*)all_reduce_multicast})
      CHECK(cudaFuncGetAttributes(&loaded, kernel));  // loads it: that may have to wait for a kernel that runs
    CHECK(cudaEventCreate(&gpus[g].start));
    CHECK(cudaEventCreate(&gpus[g].stop));
  }
}

// New random numbers into the first array of every replica. Returns what they add up to.
static std::vector<double> fill(size_t n) {
  static std::mt19937 random(std::random_device{}());
  std::vector<float> numbers(4 * n);
  std::vector<double> sums(numbers.size());
  for (int g = 0; g < count; ++g) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = float(random() >> 8) * 0x1p-24f;  // 24 bits, which a float holds exactly
      sums[i] += numbers[i];
    }
    CHECK(cudaMemcpy(replicas + g * stride, numbers.data(), n * sizeof(float4), cudaMemcpyHostToDevice));
  }
  return sums;
}

// One all-reduce by all GPUs, over memory that held other values: how long the slowest took, in microseconds.
static double all_reduce(bool multicast, size_t n) {
  for (int g = 0; g < count; ++g) {
    CHECK(cudaSetDevice(g));
    CHECK(cudaMemset(replicas + g * stride + out, 0xff, n * sizeof(float4)));
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaSetDevice(0));
  hold<<<1, 1>>>(2000000);  // 2 ms: long enough for the host to issue all of the following
  CHECK(cudaGetLastError());
  for (int g = 0; g < count; ++g) {
    const size_t first = n * g / count, last = n * (g + 1) / count;
    const int blocks = int((last - first + 255) / 256);
    CHECK(cudaSetDevice(g));
    if (g > 0) CHECK(cudaStreamWaitEvent(0, gpus[0].start));  // all start when the first does
    CHECK(cudaEventRecord(gpus[g].start));
    if (multicast) all_reduce_multicast<<<blocks, 256>>>(gpus[g].mc, gpus[g].mc + out, first, last);
    else all_reduce_unicast<<<blocks, 256>>>(replicas, replicas + out, stride, g, count, first, last);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(gpus[g].stop));
  }
  float slowest = 0, ms = 0;
  for (const Gpu& gpu : gpus) {
    CHECK(cudaEventSynchronize(gpu.stop));
    CHECK(cudaEventElapsedTime(&ms, gpu.start, gpu.stop));
    slowest = std::max(slowest, ms);
  }
  return 1000.0 * slowest;
}

// Every sum on every GPU: off by 2^-23 for each addition at most, however it rounds.
static void expect_sums(const std::vector<double>& sums) {
  for (int g = 0; g < count; ++g) {
    std::vector<float> found(sums.size(), NAN);
    CHECK(cudaMemcpy(found.data(), replicas + g * stride + out, sums.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < sums.size(); ++i)
      EXPECT(std::fabs(found[i] - sums[i]) <= count * 0x1p-23 * sums[i], "GPU %d: element %zu is %.10g, not %.10g", g,
             i, found[i], sums[i]);
  }
}

int main(int argc, char** argv) {
  long mib = 4, repeats = 0, unicast = 0;
  const char* csv = "/dev/null";
  check::arguments(argc, argv, usage,
                   {{"--mib", &mib, 1, 1024},
                    {"--repeats", &repeats, 1, 1000},
                    {"--unicast", &unicast, 0, 0},
                    {"--csv", nullptr, 0, 1, &csv}});

  find_team(unicast);
  measure::Report report(csv, "all_reduce", count,
                         {{"--mib", mib}, {"--repeats", repeats}, {"--unicast", unicast > 0}});

  step("[1] Map every replica for every GPU");
  std::vector<CUmemAccessDesc> everyone(count);
  for (int g = 0; g < count; ++g) {
    everyone[g].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    everyone[g].location.id = g;
    everyone[g].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = everyone[0].location;
  CUmulticastObjectProp object_properties = {};
  object_properties.numDevices = unsigned(count);
  object_properties.size = size_t(mib) << 21;  // two arrays

  size_t of_memory, of_object = 0;
  CHECK(cuMemGetAllocationGranularity(&of_memory, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  if (!unicast) CHECK(cuMulticastGetGranularity(&of_object, &object_properties, CU_MULTICAST_GRANULARITY_MINIMUM));
  const size_t granule = std::max(of_memory, of_object);
  const size_t size = (object_properties.size + granule - 1) / granule * granule;

  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, count * size, granule, 0, 0));
  for (int g = 0; g < count; ++g) {
    properties.location = everyone[g].location;
    CHECK(cuMemCreate(&gpus[g].memory, size, &properties, 0));
    CHECK(cuMemMap(address + g * size, size, 0, gpus[g].memory, 0));
  }
  CHECK(cuMemSetAccess(address, count * size, everyone.data(), count));
  replicas = reinterpret_cast<float4*>(address);
  stride = size / sizeof(float4);
  out = stride / 2;
  say("%zu KiB on each of %d GPUs", size >> 10, count);

  step("[2] Bind the replicas to a multicast object");
  CUmemGenericAllocationHandle object = 0;
  object_properties.size = size;
  if (!unicast) CHECK(cuMulticastCreate(&object, &object_properties));
  for (int g = 0; g < count && !unicast; ++g) CHECK(cuMulticastAddDevice(object, g));
  for (int g = 0; g < count && !unicast; ++g) {
    CUdeviceptr mc;
    CHECK(cuMulticastBindMem(object, 0, gpus[g].memory, 0, size, 0));
    CHECK(cuMemAddressReserve(&mc, size, granule, 0, 0));
    CHECK(cuMemMap(mc, size, 0, object, 0));
    CHECK(cuMemSetAccess(mc, size, &everyone[g], 1));
    gpus[g].mc = reinterpret_cast<float4*>(mc);
  }
  say("%s", unicast ? "left out (--unicast)" : "the same memory, now at a multicast address too");

  step("[3] All-reduce, with and without multicast");
  const std::vector<bool> ways = unicast ? std::vector<bool>{false} : std::vector<bool>{true, false};
  for (size_t n = size_t(mib) << 10; n <= size_t(mib) << 16; n *= 4) {  // elements, of 16 bytes
    const std::vector<double> sums = fill(n);
    std::vector<double> times[2];
    for (long repeat = 0; repeat <= repeats; ++repeat) {
      for (const bool multicast : ways) {
        const double us = all_reduce(multicast, n);
        if (repeat > 0) times[multicast].push_back(us);  // the first is for warming up, or for the sums alone
        if (repeat == repeats) expect_sums(sums);
      }
    }
    say("%zu KiB on each GPU: the sums are right %s", n / 64, unicast ? "without multicast" : "both ways");
    for (const bool multicast : ways) {
      if (repeats == 0) continue;
      const char* const way = multicast ? "with multicast" : "without multicast";
      const double us = report.add("all_reduce", {{"way", way}, {"bytes", 16 * n}}, times[multicast]);
      say("  %s: %.1f us", way, us);
    }
  }
  if (repeats > 0) say("(the slowest GPU counts; median of %ld repeats)", repeats);
  report.complete();

  for (int g = 0; g < count; ++g) {
    const Gpu& gpu = gpus[g];
    if (!unicast) {
      CHECK(cuMemUnmap(CUdeviceptr(gpu.mc), size));
      CHECK(cuMemAddressFree(CUdeviceptr(gpu.mc), size));
      CHECK(cuMulticastUnbind(object, g, 0, size));
    }
    CHECK(cuMemRelease(gpu.memory));
    CHECK(cudaEventDestroy(gpu.stop));
    CHECK(cudaEventDestroy(gpu.start));
  }
  if (!unicast) CHECK(cuMemRelease(object));
  CHECK(cuMemUnmap(address, count * size));
  CHECK(cuMemAddressFree(address, count * size));
  std::puts("OK");
}
