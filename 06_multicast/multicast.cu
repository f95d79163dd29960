// SPDX-License-Identifier: MIT-0
//
// 06 Multicast: how does one instruction store to, add to, or sum up the memory of several GPUs?
//
// A multicast object gives one address to a piece of memory on each GPU of a team. The multimem instructions on that
// address work on all these replicas, and the NVSwitch between the GPUs does the copying and the adding. Needs two GPUs
// that support multicast, of compute capability 9.0 or later.
//
// Build it alone:  nvcc -std=c++17 -arch=sm_90 multicast.cu -o multicast -lcuda
#include "../common/check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cuda/atomic>
#include <cuda/ptx>
#include <random>
#include <string>
#include <vector>

using namespace cuda::ptx;

static const char usage[] =
    "usage: multicast [--mib N] [--timeout S] [--absent N]\n"
    "  --mib N       size of each array, 1 to 256 MiB (default 1)\n"
    "  --timeout S   how long a GPU waits for the others, 1 to 60 s (default 5)\n"
    "  --absent N    GPU N stays away from the norm: the others give up waiting, and the run ends with a message\n";

// The multimem instructions. In a name `mc` is a multicast address: an ordinary access to it is undefined.
#if __CUDA_ARCH__ >= 900
__device__ void store_all(uint32_t* mc, uint32_t v) { multimem_st(sem_weak, mc, v); }
__device__ void add_all(uint32_t* mc, uint32_t v) { multimem_red(sem_relaxed, scope_sys, op_add, mc, v); }
__device__ void arrive(uint32_t* mc) { multimem_red(sem_release, scope_sys, op_add, mc, 1u); }
__device__ uint32_t sum_all(const uint32_t* mc) { return multimem_ld_reduce(sem_weak, op_add, mc); }

__device__ float sum_all(const float* mc) {  // from here on cuda::ptx has no such function
  float v;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];"
               : "=f"(v)
               : "l"(__cvta_generic_to_global(mc))
               : "memory");
  return v;
}
__device__ float4 sum_all(const float4* mc) {
  float4 v;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(__cvta_generic_to_global(mc))
               : "memory");
  return v;
}
__device__ void store_all(float4* mc, float4 v) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(mc)),
               "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}
#else  // earlier GPUs have none of them, and the program's gate keeps such GPUs out
template <class T> __device__ void store_all(T*, T) { __trap(); }
template <class T> __device__ T sum_all(const T*) {
  __trap();
  return {};
}
__device__ void add_all(uint32_t*, uint32_t) { __trap(); }
__device__ void arrive(uint32_t*) { __trap(); }
#endif

__device__ size_t thread_index() { return size_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ size_t thread_count() { return size_t(gridDim.x) * blockDim.x; }

__global__ void broadcast(const uint32_t* in, uint32_t* out_mc, size_t n) {
  for (size_t i = thread_index(); i < n; i += thread_count()) store_all(out_mc + i, in[i]);
}
__global__ void add(const uint32_t* in, uint32_t* out_mc, size_t n) {
  for (size_t i = thread_index(); i < n; i += thread_count()) add_all(out_mc + i, in[i]);
}
__global__ void reduce(const uint32_t* in_mc, uint32_t* out, size_t n) {
  for (size_t i = thread_index(); i < n; i += thread_count()) out[i] = sum_all(in_mc + i);
}

// What the GPUs of the norm share, in each replica, and then what each GPU notes for the host.
struct Control {
  uint32_t arrived;  // arrivals of all GPUs since the start: it only grows
  float partial;     // this GPU's part of the sum of squares
  uint32_t seen;
  float result;
};

// The square root of the sum of squares over the data of all GPUs: one block on each, all of them at the same time.
constexpr int norm_threads = 1024;
__global__ void norm_of_all(const float* in, size_t n, Control* own, Control* mc, uint32_t target, uint64_t limit_ns) {
  __shared__ float sums[norm_threads];
  float mine = 0;
  for (size_t i = threadIdx.x; i < n; i += norm_threads) mine += in[i] * in[i];
  sums[threadIdx.x] = mine;
  for (int half = norm_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x != 0) return;

  own->partial = sums[0];  // written at this GPU's own address, read at the multicast address: aliases, two addresses
  fence_proxy_alias();     // of one memory, and nothing but this fence keeps accesses through them in order
  arrive(&mc->arrived);    // release: whoever sees this arrival sees what is above
  fence_proxy_alias();     // the counter has two addresses as well

  cuda::atomic_ref<uint32_t, cuda::thread_scope_system> arrived(own->arrived);
  const uint64_t start = get_sreg_globaltimer();
  uint32_t seen;
  do seen = arrived.load(cuda::memory_order_acquire);  // acquire: the other half of the release
  while (seen < target && get_sreg_globaltimer() - start < limit_ns);
  own->seen = seen;
  if (seen < target) return;  // somebody did not come: the host will say so

  fence_proxy_alias();  // from this GPU's address, where the arrivals were seen, to the multicast address
  own->result = sqrtf(sum_all(&mc->partial));
}

// Each GPU sums its share, the elements from `first` to `last`, and writes the sums to all. An element is four floats.
__global__ void all_reduce_multicast(const float4* in_mc, float4* out_mc, size_t first, size_t last) {
  for (size_t i = first + thread_index(); i < last; i += thread_count()) store_all(out_mc + i, sum_all(in_mc + i));
}

// The same with ordinary accesses. The replicas lie `stride` bytes apart; each GPU begins at its own, as if in a ring.
__global__ void all_reduce_unicast(char* in, char* out, size_t stride, int me, int gpus, size_t first, size_t last) {
  for (size_t i = first + thread_index(); i < last; i += thread_count()) {
    float4 sum = make_float4(0, 0, 0, 0);
    for (int k = 0; k < gpus; ++k) {
      const float4 v = reinterpret_cast<float4*>(in + (me + k) % gpus * stride)[i];
      sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
    }
    for (int k = 0; k < gpus; ++k) reinterpret_cast<float4*>(out + (me + k) % gpus * stride)[i] = sum;
  }
}

// Keeps a GPU busy for a while.
__global__ void hold(uint64_t ns) {
  for (const uint64_t start = get_sreg_globaltimer(); get_sreg_globaltimer() - start < ns;) {
  }
}

struct Gpu {
  CUdevice device;
  int rank;             // its place in the team
  CUdeviceptr replica;  // the unicast address of its memory
  CUmemGenericAllocationHandle memory;
  size_t free_at_start;
  cudaEvent_t start, stop;
};

template <class T> static T* at(CUdeviceptr address) { return reinterpret_cast<T*>(address); }
static int blocks(size_t threads) { return int(std::min<size_t>((threads + 255) / 256, 1024)); }

// Does `work` for each GPU, then waits for all. Everything is issued before anything is waited for: a kernel that waits
// for one on another GPU must not keep that one from being launched.
template <class Work> static void on_all(std::vector<Gpu>& gpus, Work work) {
  for (Gpu& gpu : gpus) {
    CHECK(cudaSetDevice(gpu.device));
    work(gpu);
    CHECK(cudaGetLastError());
  }
  for (Gpu& gpu : gpus) {
    CHECK(cudaSetDevice(gpu.device));
    CHECK(cudaDeviceSynchronize());
  }
}

// Reads an array back from every replica: each element must be what is expected, give or take `relative` times that.
template <class T>
static void check_all(std::vector<Gpu>& gpus, size_t offset, const std::vector<double>& expected, double relative) {
  std::vector<T> host(expected.size());
  on_all(gpus, [&](Gpu& gpu) {
    std::memset(host.data(), 0xff, host.size() * sizeof(T));  // poisoned: a copy that writes nothing must not pass
    CHECK(cudaMemcpy(host.data(), at<T>(gpu.replica + offset), host.size() * sizeof(T), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < host.size(); ++i)
      EXPECT(std::fabs(host[i] - expected[i]) <= relative * expected[i], "GPU %d: element %zu is %.10g, not %.10g",
             gpu.device, i, double(host[i]), expected[i]);
  });
}

// NCCL_NVLS_ENABLE=0 is how a site tells NCCL to leave multicast alone. Read as NCCL reads it: a number that is 0.
static bool site_refuses() {
  const char* value = std::getenv("NCCL_NVLS_ENABLE");
  char* end = nullptr;
  return value && std::strtoll(value, &end, 0) == 0 && end != value;
}

int main(int argc, char** argv) {
  long mib = 1, timeout = 5, absent = -1;
  check::arguments(argc, argv, usage,
                   {{"--mib", &mib, 1, 256}, {"--timeout", &timeout, 1, 60}, {"--absent", &absent, 0, 1023}});

  // [1] Ask whether the site allows multicast
  // First of all, before any call of the driver: where it was switched off, nothing here may even try it.
  std::printf("[1] Ask whether the site allows multicast\n");
  REQUIRE(!site_refuses(), "NCCL_NVLS_ENABLE=0 refuses multicast here; only whoever runs the machine can lift that");
  std::printf("    nothing refuses it\n");

  // [2] Find the team
  // All GPUs that support multicast. They must also reach each other's memory, to do the same without multicast.
  std::printf("[2] Find the team\n");
  const int visible = check::require_gpus(2);
  std::vector<Gpu> gpus;
  for (int ordinal = 0; ordinal < visible; ++ordinal) {
    Gpu gpu = {};
    int supported = 0, reaches = 1;
    char name[256];
    CHECK(cuDeviceGet(&gpu.device, ordinal));
    CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, gpu.device));
    for (Gpu& other : gpus)
      if (reaches) CHECK(cuDeviceCanAccessPeer(&reaches, gpu.device, other.device));
    if (!supported || !reaches) continue;
    CHECK(cuDeviceGetName(name, sizeof name, gpu.device));
    std::printf("    GPU %d: %s\n", gpu.device, name);
    gpu.rank = int(gpus.size());
    gpus.push_back(gpu);
  }
  const int count = int(gpus.size());
  REQUIRE(count >= 2,
          "multicast takes two GPUs that support it and reach each other, %d of %d do; use GPUs of compute "
          "capability 9.0 or later on one NVSwitch",
          count, visible);
  if (absent >= 0 && std::none_of(gpus.begin(), gpus.end(), [&](Gpu& gpu) { return gpu.device == absent; })) {
    std::fprintf(stderr, "%s: bad argument: --absent %ld, no such GPU in the team\n%s", argv[0], absent, usage);
    return 2;
  }

  std::printf("    %d of %d GPUs support multicast and reach each other\n", count, visible);

  // CUDA loads a kernel when it is first used. That takes memory, so it comes before counting what is free; and it may
  // wait for running kernels, which must not happen while these wait for the kernel that is loaded.
  cudaEvent_t gate;  // for [11]
  CHECK(cudaSetDevice(gpus[0].device));
  CHECK(cudaEventCreate(&gate));
  on_all(gpus, [](Gpu& gpu) {
    cudaFuncAttributes loaded;
    for (auto kernel : {(void*)broadcast, (void*)add, (void*)reduce, (void*)norm_of_all, (void*)all_reduce_multicast,
                        (void*)all_reduce_unicast, (void*)hold})
      CHECK(cudaFuncGetAttributes(&loaded, kernel));
    CHECK(cudaEventCreate(&gpu.start));
    CHECK(cudaEventCreate(&gpu.stop));
  });
  on_all(gpus, [](Gpu& gpu) {
    size_t total;
    CHECK(cuMemGetInfo(&gpu.free_at_start, &total));
  });

  // [3] Ask for the granularity
  // A multicast object has a granularity of its own. Two arrays and the Control are rounded up to it, and to that of
  // the memory behind. The recommended one may be far larger: it is for those who come with gigabytes.
  std::printf("[3] Ask for the granularity\n");
  const size_t bytes = size_t(mib) << 20, n = bytes / sizeof(float), in = 0, out = bytes, control = 2 * bytes;
  CUmulticastObjectProp properties = {};
  properties.numDevices = count;  // at least 2: one is refused
  properties.size = control + sizeof(Control);
  CUmemAllocationProp memory_properties = {};
  memory_properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory_properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory_properties.location.id = gpus[0].device;
  size_t minimum, recommended, of_memory;
  CHECK(cuMulticastGetGranularity(&minimum, &properties, CU_MULTICAST_GRANULARITY_MINIMUM));
  CHECK(cuMulticastGetGranularity(&recommended, &properties, CU_MULTICAST_GRANULARITY_RECOMMENDED));
  CHECK(cuMemGetAllocationGranularity(&of_memory, &memory_properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const size_t granularity = std::max(minimum, of_memory);  // both are powers of two
  const size_t size = (properties.size + granularity - 1) / granularity * granularity;
  std::printf("    minimum %zu KiB, recommended %zu KiB\n", minimum >> 10, recommended >> 10);
  std::printf("    %zu bytes wanted, %zu KiB with the last granule filled up\n", properties.size, size >> 10);

  // [4] Create the multicast object, and add every GPU
  // The object is not memory yet, and not an address. All GPUs are added before any memory is bound: a bind or a map
  // waits until the team is complete, for ever if somebody is missing.
  std::printf("[4] Create the multicast object, and add every GPU\n");
  properties.size = size;
  CUmemGenericAllocationHandle object;
  CHECK(cuMulticastCreate(&object, &properties));
  for (Gpu& gpu : gpus) CHECK(cuMulticastAddDevice(object, gpu.device));  // by value, and for good
  std::printf("    the team of %d GPUs is complete\n", count);

  // [5] Create each GPU's memory, and bind it
  // One replica for each GPU, ordinary memory in itself. Bound, it stands behind the object on that GPU.
  std::printf("[5] Create each GPU's memory, and bind it\n");
  for (Gpu& gpu : gpus) {
    memory_properties.location.id = gpu.device;
    CHECK(cuMemCreate(&gpu.memory, size, &memory_properties, 0));
    CHECK(cuMulticastBindMem(object, 0, gpu.memory, 0, size, 0));
  }
  std::printf("    %zu KiB on each GPU\n", size >> 10);

  // [6] Map the object, and the replicas
  // The object is mapped as memory is: once, and open to every GPU. That is the multicast address. The replicas get
  // unicast addresses of their own, side by side in one reservation, and open to every GPU too.
  std::printf("[6] Map the object, and the replicas\n");
  std::vector<CUmemAccessDesc> everyone(count);
  for (Gpu& gpu : gpus) {
    everyone[gpu.rank].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    everyone[gpu.rank].location.id = gpu.device;
    everyone[gpu.rank].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  CUdeviceptr mc, unicast;
  CHECK(cuMemAddressReserve(&mc, size, granularity, 0, 0));
  CHECK(cuMemMap(mc, size, 0, object, 0));
  CHECK(cuMemSetAccess(mc, size, everyone.data(), count));
  CHECK(cuMemAddressReserve(&unicast, count * size, granularity, 0, 0));
  for (Gpu& gpu : gpus) {
    gpu.replica = unicast + gpu.rank * size;
    CHECK(cuMemMap(gpu.replica, size, 0, gpu.memory, 0));
  }
  CHECK(cuMemSetAccess(unicast, count * size, everyone.data(), count));
  std::printf("    multicast address 0x%llx, unicast addresses from 0x%llx on\n", mc, unicast);

  // For what follows: new random contributions into the first array of every replica, and what they add up to; and a
  // second array that holds nothing right. Numbers of 24 bits, so that integers stay small and floats are exact.
  std::mt19937 random(std::random_device{}());
  std::vector<double> first, sums;  // the contribution of the first GPU, and the sum of all
  double squares;
  auto refill = [&](auto unit) {
    std::vector<decltype(unit)> host(n);
    sums.assign(n, 0);
    squares = 0;
    on_all(gpus, [&](Gpu& gpu) {
      for (auto& x : host) x = static_cast<decltype(unit)>(random() >> 8) * unit;
      for (size_t i = 0; i < n; ++i) sums[i] += host[i], squares += double(host[i]) * host[i];
      if (gpu.rank == 0) first.assign(host.begin(), host.end());
      CHECK(cudaMemcpy(at<void>(gpu.replica + in), host.data(), bytes, cudaMemcpyHostToDevice));
    });
  };
  auto poison = [&] { on_all(gpus, [&](Gpu& gpu) { CHECK(cudaMemset(at<void>(gpu.replica + out), 0xff, bytes)); }); };

  // [7] Broadcast with multimem.st
  // One store to the multicast address, and the value is in every replica.
  std::printf("[7] Broadcast with multimem.st\n");
  refill(1u);
  poison();
  on_all(gpus, [&](Gpu& gpu) {
    if (gpu.rank == 0) broadcast<<<blocks(n), 256>>>(at<uint32_t>(gpu.replica + in), at<uint32_t>(mc + out), n);
  });
  check_all<uint32_t>(gpus, out, first, 0);
  std::printf("    one GPU stored %zu integers; all %d have them\n", n, count);

  // [8] Add to every replica with multimem.red
  // All GPUs add at the same time. The additions are atomic, each to every replica.
  std::printf("[8] Add to every replica with multimem.red\n");
  on_all(gpus, [&](Gpu& gpu) { add<<<blocks(n), 256>>>(at<uint32_t>(gpu.replica + in), at<uint32_t>(mc + out), n); });
  for (size_t i = 0; i < n; ++i) first[i] += sums[i];
  check_all<uint32_t>(gpus, out, first, 0);
  std::printf("    each of %d GPUs added its own %zu; all have the broadcast plus these\n", count, n);

  // [9] Sum over all replicas with multimem.ld_reduce
  // One load from the multicast address, and the sum over the replicas comes back. Here every replica holds other data.
  std::printf("[9] Sum over all replicas with multimem.ld_reduce\n");
  poison();
  on_all(gpus,
         [&](Gpu& gpu) { reduce<<<blocks(n), 256>>>(at<uint32_t>(mc + in), at<uint32_t>(gpu.replica + out), n); });
  check_all<uint32_t>(gpus, out, sums, 0);
  std::printf("    each of %d GPUs loaded the %zu sums\n", count, n);

  // [10] Compute a norm in one kernel, with an arrival counter
  // Each GPU must know that all partial sums are there before it adds them up. So each arrives at the multicast address
  // of a counter, and waits for the counter in its own replica. The counter is never reset: the target grows. Between
  // two rounds the host waits for all GPUs, or one could overwrite its partial sum while another still reads it.
  std::printf("[10] Compute a norm in one kernel, with an arrival counter\n");
  on_all(gpus, [&](Gpu& gpu) { CHECK(cudaMemset(at<void>(gpu.replica + control), 0, sizeof(Control))); });
  for (int round = 1; round <= 2; ++round) {
    refill(0x1p-24f);
    on_all(gpus, [&](Gpu& gpu) {  // poison all but the counter
      CHECK(cudaMemset(&at<Control>(gpu.replica + control)->partial, 0xff, sizeof(Control) - sizeof(uint32_t)));
    });
    on_all(gpus, [&](Gpu& gpu) {
      if (gpu.device != absent)
        norm_of_all<<<1, norm_threads>>>(at<float>(gpu.replica + in), n, at<Control>(gpu.replica + control),
                                         at<Control>(mc + control), round * count, timeout * 1000000000ull);
    });
    // A rounding is off by 2^-24 of the value at most. Each square has one, and then one for each addition on its way:
    // in a thread, in the block, over the GPUs. The root halves what that adds up to: slack for how a switch may round.
    const double expected = std::sqrt(squares);
    const double allowed = expected * (1 + double(n) / norm_threads + std::log2(norm_threads) + count) * 0x1p-24;
    std::string late;
    on_all(gpus, [&](Gpu& gpu) {
      Control own;
      CHECK(cudaMemcpy(&own, at<Control>(gpu.replica + control), sizeof own, cudaMemcpyDeviceToHost));
      const std::string name = "\n  GPU " + std::to_string(gpu.device);
      if (gpu.device == absent) late += name + " stayed away (--absent)";
      else if (own.seen != uint32_t(round * count))
        late += name + " saw " + std::to_string(own.seen) + " of " + std::to_string(round * count) + " arrivals";
      else
        EXPECT(std::fabs(own.result - expected) <= allowed, "GPU %d: the norm is %.9g, not %.9g (allowed: %.2g off)",
               gpu.device, own.result, expected, allowed);
    });
    EXPECT(late.empty(), "not all GPUs arrived within %ld s:%s", timeout, late.c_str());
    std::printf("    round %d: %d GPUs arrived, and each has the norm %.3f\n", round, count, expected);
  }

  // [11] All-reduce, with and without multicast
  // Each GPU sums its share of the elements over all replicas, and writes the sums to all of them. With multicast that
  // is one load and one store an element, without it one for each GPU. All GPUs start when the first opens the gate.
  std::printf("[11] All-reduce, with and without multicast\n");
  constexpr int repeats = 11;
  refill(0x1p-24f);
  auto median_us = [&](auto launch) {
    std::vector<float> times;
    for (int repeat = 0; repeat <= repeats; ++repeat) {
      poison();
      CHECK(cudaSetDevice(gpus[0].device));
      hold<<<1, 1>>>(2000000);  // 2 ms: long enough for the host to issue all of the following
      CHECK(cudaEventRecord(gate));
      on_all(gpus, [&](Gpu& gpu) {
        CHECK(cudaStreamWaitEvent(0, gate));
        CHECK(cudaEventRecord(gpu.start));
        launch(gpu, n / 4 * gpu.rank / count, n / 4 * (gpu.rank + 1) / count);
        CHECK(cudaEventRecord(gpu.stop));
      });
      float slowest = 0, ms;
      for (Gpu& gpu : gpus) {
        CHECK(cudaEventElapsedTime(&ms, gpu.start, gpu.stop));
        slowest = std::max(slowest, ms);
      }
      if (repeat > 0) times.push_back(slowest * 1000);  // the first is for warming up
    }
    check_all<float>(gpus, out, sums, count * 0x1p-23);  // 2^-23 for each addition, however it rounds
    std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
    return times[repeats / 2];
  };
  const float with = median_us([&](Gpu&, size_t begin, size_t end) {
    all_reduce_multicast<<<blocks(end - begin), 256>>>(at<float4>(mc + in), at<float4>(mc + out), begin, end);
  });
  const float without = median_us([&](Gpu& gpu, size_t begin, size_t end) {
    all_reduce_unicast<<<blocks(end - begin), 256>>>(at<char>(unicast + in), at<char>(unicast + out), size, gpu.rank,
                                                     count, begin, end);
  });
  std::printf("    %ld MiB on each of %d GPUs: %.1f us with multicast, %.1f us without\n", mib, count, with, without);
  std::printf("    (the slowest GPU counts; median of %d repeats)\n", repeats);

  // [12] Tear down
  // In reverse. Memory is unbound before it is released, or the object would stand on memory that may be gone.
  std::printf("[12] Tear down\n");
  CHECK(cuMemUnmap(unicast, count * size));
  CHECK(cuMemAddressFree(unicast, count * size));
  CHECK(cuMemUnmap(mc, size));
  CHECK(cuMemAddressFree(mc, size));
  for (Gpu& gpu : gpus) {
    CHECK(cuMulticastUnbind(object, gpu.device, 0, size));  // offset and size as in the bind
    CHECK(cuMemRelease(gpu.memory));
  }
  CHECK(cuMemRelease(object));
  on_all(gpus, [](Gpu& gpu) {
    size_t free_now, total;
    CHECK(cuMemGetInfo(&free_now, &total));
    EXPECT(free_now == gpu.free_at_start,
           "GPU %d: %zu bytes are free, %zu were at the start (does another program use "
           "it?)",
           gpu.device, free_now, gpu.free_at_start);
    CHECK(cudaEventDestroy(gpu.stop));
    CHECK(cudaEventDestroy(gpu.start));
  });
  CHECK(cudaEventDestroy(gate));
  std::printf("    free memory of every GPU is what it was at the start\n");
  std::printf("OK\n");
  return 0;
}
