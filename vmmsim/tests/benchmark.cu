// SPDX-License-Identifier: MIT-0
// Kernels of the kinds that programs spend their time in, for benchmark.cc: each takes `n` random words and gives one.
// n is a multiple of 1024; blocks have 256 threads.

#define KERNEL(name) extern "C" __global__ void name(unsigned* data, unsigned n, unsigned* result)
constexpr unsigned whole_warp = 0xffff'ffff;
__device__ unsigned thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ unsigned thread_count() { return gridDim.x * blockDim.x; }

// --- What reads and writes, and little else ---
KERNEL(fill) {
  for (unsigned i = thread_number(); i < n; i += thread_count()) data[i] = (i + 7) * 2654435761u;
  if (thread_number() == 0) *result = n;
}
KERNEL(sum) {
  unsigned total = 0;
  for (unsigned i = thread_number(); i < n; i += thread_count()) total += data[i];
  atomicAdd(result, total);
}

// --- Reductions ---
// In shared memory, half of the threads less in each step.
KERNEL(reduce_in_shared) {
  __shared__ unsigned partial[256];
  for (unsigned begin = blockIdx.x * 256; begin < n; begin += gridDim.x * 256) {
    partial[threadIdx.x] = data[begin + threadIdx.x];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(result, partial[0]);
    __syncthreads();
  }
}
// By shuffles, of floats.
__device__ float warp_sum(float value) {
  for (int by = 16; by > 0; by /= 2) value += __shfl_down_sync(whole_warp, value, by);
  return value;
}
KERNEL(reduce_by_shuffles) {
  __shared__ float partial[8];
  for (unsigned begin = blockIdx.x * 256; begin < n; begin += gridDim.x * 256) {
    const float of_warp = warp_sum(static_cast<float>(data[begin + threadIdx.x] >> 20));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = of_warp;
    __syncthreads();
    if (threadIdx.x < 32) {
      const float of_block = warp_sum(threadIdx.x < 8 ? partial[threadIdx.x] : 0);
      if (threadIdx.x == 0) atomicAdd(result, static_cast<unsigned>(of_block));
    }
    __syncthreads();
  }
}

// --- Locks ---
// A lock for each block's first thread to take, which another block has.
__device__ unsigned lock, counter;
KERNEL(lock_of_blocks) {
  for (unsigned i = blockIdx.x * 1024; i < n; i += gridDim.x * 1024) {
    __syncthreads();
    if (threadIdx.x == 0) {
      while (atomicCAS(&lock, 0, 1) != 0) {
      }
      __threadfence();
      counter += data[i] & 1;
      __threadfence();
      atomicExch(&lock, 0);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicMax(result, atomicAdd(&counter, 0));
}
// One of 8 locks for every thread: lanes of a warp wait for one another.
__device__ unsigned locks[8], counters[8];
KERNEL(locks_of_threads) {
  for (unsigned i = thread_number(); i < n / 16; i += thread_count()) {
    const unsigned which = data[i] % 8;
    bool done = false;
    while (!done) {
      if (atomicCAS(&locks[which], 0, 1) == 0) {
        counters[which] += data[i] >> 31;
        __threadfence();
        atomicExch(&locks[which], 0);
        done = true;
      }
    }
  }
  if (thread_number() < 8) atomicAdd(result, atomicAdd(&counters[thread_number()], 0) ? 1 : 0);
}

// --- Scans ---
// In shared memory, as Hillis and Steele do it.
KERNEL(scan_in_shared) {
  __shared__ unsigned sums[2][256];
  for (unsigned begin = blockIdx.x * 256; begin < n; begin += gridDim.x * 256) {
    unsigned from = 0;
    sums[0][threadIdx.x] = data[begin + threadIdx.x];
    __syncthreads();
    for (unsigned by = 1; by < blockDim.x; by *= 2) {
      const unsigned mine = sums[from][threadIdx.x];
      sums[1 - from][threadIdx.x] = threadIdx.x >= by ? mine + sums[from][threadIdx.x - by] : mine;
      from = 1 - from;
      __syncthreads();
    }
    data[begin + threadIdx.x] = sums[from][threadIdx.x];
    if (threadIdx.x == 255) atomicXor(result, sums[from][255]);
    __syncthreads();
  }
}
// By shuffles, four words a thread.
__device__ unsigned warp_scan(unsigned value) {
  for (int by = 1; by < 32; by *= 2) {
    const unsigned other = __shfl_up_sync(whole_warp, value, by);
    if (threadIdx.x % 32 >= by) value += other;
  }
  return value;
}
KERNEL(scan_by_shuffles) {
  __shared__ unsigned of_warps[8];
  for (unsigned begin = blockIdx.x * 1024; begin < n; begin += gridDim.x * 1024) {
    uint4& four = reinterpret_cast<uint4*>(data + begin)[threadIdx.x];
    uint4 x = four;
    x.y += x.x;
    x.z += x.y;
    x.w += x.z;
    const unsigned upto = warp_scan(x.w);
    if (threadIdx.x % 32 == 31) of_warps[threadIdx.x / 32] = upto;
    __syncthreads();
    if (threadIdx.x < 32) {
      const unsigned scanned = warp_scan(threadIdx.x < 8 ? of_warps[threadIdx.x] : 0);
      if (threadIdx.x < 8) of_warps[threadIdx.x] = scanned;
    }
    __syncthreads();
    const unsigned before = upto - x.w + (threadIdx.x < 32 ? 0 : of_warps[threadIdx.x / 32 - 1]);
    four = {x.x + before, x.y + before, x.z + before, x.w + before};
    if (threadIdx.x == 255) atomicXor(result, x.w + before);
    __syncthreads();
  }
}

// The odd words, in their order: each warp counts its own by votes.
KERNEL(compact) {
  const unsigned lane = threadIdx.x % 32;
  unsigned* const out = data + n / 2;
  unsigned kept = 0;
  for (unsigned i = thread_number(); i < n / 2; i += thread_count()) {
    const unsigned word = data[i];
    const unsigned odd = __ballot_sync(whole_warp, word & 1);
    if (word & 1) out[i - lane + __popc(odd & ((1u << lane) - 1))] = word;
    kept += __popc(odd);
  }
  if (lane == 0) atomicAdd(result, kept);
}

// --- Hashes ---
// MurmurHash3's last steps and xorshift: arithmetic only.
__device__ unsigned mix(unsigned x) {
  x ^= x >> 16;
  x *= 0x85eb'ca6b;
  x ^= x >> 13;
  x *= 0xc2b2'ae35;
  return x ^ x >> 16;
}
KERNEL(hash) {
  unsigned all_of_them = 0;
  for (unsigned i = thread_number(); i < n; i += thread_count()) {
    unsigned x = data[i];
    for (int round = 0; round < 16; ++round) {
      x = mix(x + round);
      x ^= x << 13;
      x ^= x >> 17;
      x ^= x << 5;
    }
    all_of_them ^= x;
  }
  atomicXor(result, all_of_them);
}
// Into a table of open addresses, the upper half of the data, half full; and looked up, half of them in vain.
KERNEL(hash_table) {
  unsigned* const table = data + n / 2;
  for (unsigned i = thread_number(); i < n / 4; i += thread_count()) {
    const unsigned key = data[i] | 1;
    for (unsigned slot = mix(key) % (n / 2);; slot = (slot + 1) % (n / 2)) {
      const unsigned before = atomicCAS(&table[slot], 0, key);
      if (before == 0 || before == key) break;
    }
  }
  unsigned found = 0;
  for (unsigned i = thread_number(); i < n / 4; i += thread_count()) {
    const unsigned key = (data[i] ^ i << 31) | 1;
    for (unsigned slot = mix(key) % (n / 2); table[slot] != 0; slot = (slot + 1) % (n / 2))
      if (table[slot] == key) {
        ++found;
        break;
      }
  }
  atomicAdd(result, found + 1);
}
// How often each value comes, counted in shared memory.
KERNEL(histogram) {
  __shared__ unsigned counts[256];
  counts[threadIdx.x] = 0;
  __syncthreads();
  for (unsigned i = thread_number(); i < n; i += thread_count()) atomicAdd(&counts[mix(data[i]) >> 24], 1);
  __syncthreads();
  atomicXor(result, counts[threadIdx.x] * (threadIdx.x + 1));
}

// --- Merges ---
// Each block sorts 256 words by a bitonic network in shared memory.
KERNEL(sort_in_shared) {
  __shared__ unsigned words[256];
  for (unsigned begin = blockIdx.x * 256; begin < n; begin += gridDim.x * 256) {
    words[threadIdx.x] = data[begin + threadIdx.x];
    for (unsigned size = 2; size <= 256; size *= 2)
      for (unsigned apart = size / 2; apart > 0; apart /= 2) {
        __syncthreads();
        const unsigned other = threadIdx.x ^ apart;
        if (other > threadIdx.x) {
          const bool up = (threadIdx.x & size) == 0;
          const unsigned a = words[threadIdx.x], b = words[other];
          if (a > b == up) words[threadIdx.x] = b, words[other] = a;
        }
      }
    __syncthreads();
    data[begin + threadIdx.x] = words[threadIdx.x];
    if (threadIdx.x == 128) atomicXor(result, words[128]);
    __syncthreads();
  }
}
// Each thread merges 8 words of two sorted stretches of 128: it looks for its diagonal, then takes the lesser one. The
// stretches are what sort_in_shared leaves.
KERNEL(merge) {
  for (unsigned begin = thread_number() / 64 * 512; begin < n; begin += thread_count() / 64 * 512) {
    const unsigned* const a = data + begin;
    const unsigned* const b = a + 256;
    const unsigned diagonal = thread_number() % 64 * 8;
    unsigned low = diagonal > 256 ? diagonal - 256 : 0, high = min(diagonal, 256u);
    while (low < high) {
      const unsigned middle = (low + high) / 2;
      if (a[middle] <= b[diagonal - 1 - middle]) low = middle + 1;
      else high = middle;
    }
    unsigned i = low, j = diagonal - low, together = 0;
    for (int k = 0; k < 8; ++k) {
      const bool of_a = j >= 256 || (i < 256 && a[i] <= b[j]);
      together = together * 31 + (of_a ? a[i++] : b[j++]);
    }
    atomicXor(result, together);
  }
}
// Binary search of random words in a sorted stretch of 256: a loop that lanes leave one by one.
KERNEL(search) {
  unsigned places = 0;
  for (unsigned i = thread_number(); i < n; i += thread_count()) {
    const unsigned word = mix(data[i]);
    unsigned low = 0, high = 256;
    while (low < high) {
      const unsigned middle = (low + high) / 2, there = data[middle];
      if (there == word) break;
      if (there < word) low = middle + 1;
      else high = middle;
    }
    places += low;
  }
  atomicAdd(result, places);
}

// --- Others ---
// Matrices of 256 columns, by tiles in shared memory.
KERNEL(matrices) {
  __shared__ float a[16][16], b[16][16];
  const unsigned rows = n / 256, x = threadIdx.x % 16, y = threadIdx.x / 16;
  for (unsigned tile = blockIdx.x; tile < rows / 16; tile += gridDim.x) {
    float total = 0;
    for (unsigned k = 0; k < 256; k += 16) {
      a[y][x] = static_cast<float>(data[(tile * 16 + y) * 256 + k + x] >> 20);
      b[y][x] = static_cast<float>(data[(k + y) * 256 + x] >> 20);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < 16; ++i) total += a[y][i] * b[i][x];
      __syncthreads();
    }
    atomicXor(result, __float_as_uint(total));
  }
}
// Rows of a sparse matrix, of 0 to 15 elements at random columns, one for each thread.
KERNEL(sparse_rows) {
  for (unsigned row = thread_number(); row < n / 16; row += thread_count()) {
    const unsigned elements = data[row] >> 28;
    float total = 0;
    for (unsigned k = 0; k < elements; ++k) {
      const unsigned column = mix(row * 16 + k) % n;
      total += static_cast<float>(data[column] >> 16) * 0.5f;
    }
    atomicXor(result, __float_as_uint(total));
  }
}
