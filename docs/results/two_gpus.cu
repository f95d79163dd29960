// SPDX-License-Identifier: MIT-0
// What two GPUs that reach each other's memory cost: the first memory they share, VMM calls of a thread for each, and
// rows looked up at random. Prints a table as record.sh wants it. The number bounds repeats, and the table's MiB.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "../../common/measure.h"

using measure::median, measure::Word;

static const char usage[] = "usage: two_gpus first_share|calls|rows [NUMBER]";
static size_t most = 1 << 20;
const size_t MiB = 1 << 20, granule = 2 * MiB;

static CUmemAllocationProp properties_on(int gpu) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = gpu;
  return properties;
}
static CUmemAccessDesc access_of(int gpu, CUmemAccess_flags rights = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu;
  access.flags = rights;
  return access;
}
static CUdeviceptr reserve(size_t size) {
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  return address;
}
static CUmemGenericAllocationHandle create(size_t size, int gpu) {
  const CUmemAllocationProp properties = properties_on(gpu);
  CUmemGenericAllocationHandle memory;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  return memory;
}

// A granule of a GPU, at its own addresses.
class Granule {
 public:
  explicit Granule(int gpu) : memory(create(granule, gpu)), address(reserve(granule)) {}
  Granule(const Granule&) = delete;
  ~Granule() {
    if (mapped) unmap();
    CHECK(cuMemRelease(memory));
    CHECK(cuMemAddressFree(address, granule));
  }
  Granule& map() {
    CHECK(cuMemMap(address, granule, 0, memory, 0));
    mapped = true;
    return *this;
  }
  Granule& open_to(int gpu, CUmemAccess_flags rights = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    const CUmemAccessDesc access = access_of(gpu, rights);
    CHECK(cuMemSetAccess(address, granule, &access, 1));
    return *this;
  }
  void unmap() {
    CHECK(cuMemUnmap(address, granule));
    mapped = false;
  }

 private:
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address;
  bool mapped = false;
};

// 64 MiB are mapped, opened to both GPUs, and unmapped, again and again: what opening and unmapping take, in
// microseconds, beside what else the GPUs share.
static void measure_first_share() {
  const size_t size = 64 * MiB;
  const size_t repeats = std::min<size_t>(20, most);
  const CUmemAccessDesc both[] = {access_of(0), access_of(1)};
  const CUdeviceptr address = reserve(size);
  std::puts("memory_of_gpu,what_else,repeats,open_us_median,open_us_min,open_us_max,unmap_us_median");
  for (const int gpu : {0, 1}) {
    const CUmemGenericAllocationHandle memory = create(size, gpu);
    const auto row = [&](const char* what_else) {
      std::vector<double> open, unmap;
      for (size_t repeat = 0; repeat <= repeats; ++repeat) {
        CHECK(cuMemMap(address, size, 0, memory, 0));
        const double began = measure::microseconds();
        CHECK(cuMemSetAccess(address, size, both, 2));
        const double opened = measure::microseconds();
        CHECK(cuMemUnmap(address, size));
        if (repeat == 0) continue;  // a warm-up
        open.push_back(opened - began);
        unmap.push_back(measure::microseconds() - opened);
      }
      const auto [least, greatest] = std::minmax_element(open.begin(), open.end());
      std::printf("%d,%s,%zu,%.1f,%.1f,%.1f,%.1f\n", gpu, what_else, repeats, median(open), *least, *greatest,
                  median(unmap));
      std::fflush(stdout);
    };
    row("nothing");
    for (const int other : {0, 1}) {
      const std::string of = "a granule of GPU " + std::to_string(other);
      {
        Granule shared(other);
        shared.map().open_to(0).open_to(1);
        row((of + " open to both").c_str());
        shared.open_to(1 - other, CU_MEM_ACCESS_FLAGS_PROT_READ);
        row((of + " open to both and read-only for the other").c_str());
        shared.open_to(1 - other, CU_MEM_ACCESS_FLAGS_PROT_NONE);
        row((of + " closed to the other again").c_str());
        shared.open_to(1 - other);
        shared.unmap();
        row((of + " that was open to both and unmapped again").c_str());
      }
      {
        Granule shared(other);
        shared.map().open_to(1 - other);
        row((of + " open to the other alone").c_str());
      }
      {
        Granule own(other);
        own.map().open_to(other);
        row((of + " open to its owner alone").c_str());
      }
    }
    for (const int from : {0, 1}) {
      CHECK(cudaSetDevice(from));
      CHECK(cudaDeviceEnablePeerAccess(1 - from, 0));
      row(from == 0 ? "peer access of GPU 0 to GPU 1" : "peer access of GPU 1 to GPU 0");
      CHECK(cudaDeviceDisablePeerAccess(1 - from));
    }
    row("nothing once more");
    CHECK(cuMemRelease(memory));
  }
  CHECK(cuMemAddressFree(address, size));
}

// The life of 2 MiB, again and again, by threads that each have a GPU: how many such lives a second all get through.
static void measure_calls() {
  const size_t lives = std::min<size_t>(2000, most);
  const int repeats = 5;
  const std::vector<std::vector<int>> placements = {{0}, {1}, {0, 0}, {1, 1}, {0, 1}, {0, 0, 1, 1}};
  std::puts("gpus_of_threads,lives_per_thread,repeats,lives_per_s_median,min,max");
  for (const std::vector<int>& gpus : placements) {
    std::vector<double> rates;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      std::vector<std::thread> running;
      std::atomic<size_t> ready = 0;
      const auto live = [&](int gpu) {
        CHECK(cudaSetDevice(gpu));
        const CUmemAccessDesc access = access_of(gpu);
        ++ready;
        while (ready < gpus.size()) std::this_thread::yield();
        for (size_t i = 0; i < lives; ++i) {
          const CUdeviceptr address = reserve(granule);
          const CUmemGenericAllocationHandle memory = create(granule, gpu);
          CHECK(cuMemMap(address, granule, 0, memory, 0));
          CHECK(cuMemRelease(memory));
          CHECK(cuMemSetAccess(address, granule, &access, 1));
          CHECK(cuMemUnmap(address, granule));
          CHECK(cuMemAddressFree(address, granule));
        }
      };
      const double begin = measure::microseconds();
      for (const int gpu : gpus) running.emplace_back(live, gpu);
      for (std::thread& thread : running) thread.join();
      rates.push_back(double(lives * gpus.size()) / (measure::microseconds() - begin) * 1e6);
    }
    std::string names;
    for (const int gpu : gpus) names += (names.empty() ? "" : " and ") + std::to_string(gpu);
    const auto [least, greatest] = std::minmax_element(rates.begin(), rates.end());
    std::printf("%s,%zu,%d,%.0f,%.0f,%.0f\n", names.c_str(), lives, repeats, median(rates), *least, *greatest);
    std::fflush(stdout);
  }
}

// A look-up fetches one row of `row` bytes, 16 bytes a lane at a time. As many lanes as a row has pieces of 16 bytes,
// 32 at most, work on a row, and four look-ups are under way at once in each. Row numbers come from a hash.
__device__ unsigned hashed(unsigned x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}
template <int row> __global__ void look_up(const uint4* table, unsigned rows, unsigned each, unsigned seed, Word* sum) {
  constexpr int pieces = row / 16, lanes = pieces < 32 ? pieces : 32, depth = pieces / lanes;
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, group = thread / lanes, lane = thread % lanes;
  Word mine = 0;
  for (unsigned look_up = 0; look_up < each; look_up += 4) {
    uint4 found[4][depth];
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned wanted = Word(hashed(seed + (group * each + look_up + i) * 2654435761u)) * rows >> 32;
      for (int k = 0; k < depth; ++k) found[i][k] = __ldcg(&table[size_t(wanted) * pieces + k * lanes + lane]);
    }
    for (unsigned i = 0; i < 4; ++i)
      for (int k = 0; k < depth; ++k) mine += found[i][k].x ^ found[i][k].y ^ found[i][k].z ^ found[i][k].w;
  }
  if (mine == 0x123456789) *sum = mine;  // so that the loads are needed
}

enum Place { own, the_others, striped };

static CUdeviceptr make_table(size_t size, size_t stripe, Place place) {
  const CUdeviceptr table = reserve(size);
  for (size_t at = 0; at < size; at += stripe) {
    const CUmemGenericAllocationHandle memory = create(stripe, place == striped ? int(at / stripe % 2) : int(place));
    CHECK(cuMemMap(table + at, stripe, 0, memory, 0));
    CHECK(cuMemRelease(memory));
  }
  const CUmemAccessDesc both[] = {access_of(0), access_of(1)};
  CHECK(cuMemSetAccess(table, size, both, 2));
  CHECK(cudaSetDevice(place == the_others ? 1 : 0));
  measure::fill(table, 0, size, 42);
  CHECK(cudaDeviceSynchronize());
  return table;
}

struct Asker {
  cudaStream_t stream;
  cudaEvent_t begin, end;
  Word* sum;
};

// GB/s of all GPUs that ask, 0 to `last`, by the slowest. 1 GB is 10^9 bytes.
template <int row> double look_up_rate(const std::vector<Asker>& askers, int last, CUdeviceptr table, size_t size) {
  static unsigned seed = 1;
  const unsigned blocks = most < 1024 ? 2 : 132 * 16, groups = blocks * 256 / (row / 16 < 32 ? row / 16 : 32);
  const unsigned each = most < 1024 ? 4 : std::max<unsigned>(4, unsigned((size_t(2) << 30) / row / groups) / 4 * 4);
  for (int gpu = 0; gpu <= last; ++gpu) {
    const Asker& asker = askers[gpu];
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaEventRecord(asker.begin, asker.stream));
    look_up<row><<<blocks, 256, 0, asker.stream>>>(reinterpret_cast<const uint4*>(table), unsigned(size / row), each,
                                                   seed += 12345, asker.sum);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(asker.end, asker.stream));
  }
  float slowest = 0;
  for (int gpu = 0; gpu <= last; ++gpu) {
    float ms;
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaStreamSynchronize(askers[gpu].stream));
    CHECK(cudaEventElapsedTime(&ms, askers[gpu].begin, askers[gpu].end));
    slowest = std::max(slowest, ms);
  }
  return double(groups) * each * row * (last + 1) / slowest / 1e6;
}

// The rows of the table of results for one size of the rows in the table of data.
template <int row>
void measure_row(const char* name, const std::vector<Asker>& askers, int last, CUdeviceptr table, size_t size) {
  const int repeats = most < 1024 ? 1 : 10;
  std::vector<double> rates;
  for (int repeat = -1; repeat < repeats; ++repeat) {
    const double rate = look_up_rate<row>(askers, last, table, size);
    if (repeat >= 0) rates.push_back(rate);  // the first is a warm-up
  }
  const auto [least, greatest] = std::minmax_element(rates.begin(), rates.end());
  std::printf("%s,%zu,%d,%d,%d,%.1f,%.1f,%.1f,%.1f\n", name, size / MiB, last + 1, row, repeats,
              median(rates) * 1000 / row, median(rates), *least, *greatest);
  std::fflush(stdout);
}

static void measure_rows() {
  const size_t size = std::min<size_t>(64 << 10, most) * MiB, stripe = std::min<size_t>(64 * MiB, size / 2);
  std::vector<Asker> askers(2);
  for (int gpu : {0, 1}) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaStreamCreateWithFlags(&askers[gpu].stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&askers[gpu].begin));
    CHECK(cudaEventCreate(&askers[gpu].end));
    CHECK(cudaMalloc(&askers[gpu].sum, sizeof(Word)));
  }
  std::puts("table,table_mib,gpus_asking,row_bytes,repeats,rows_per_us_median,GB_per_s_median,min,max");
  const char* const names[] = {"own", "the other's", "striped"};
  for (const Place place : {own, the_others, striped}) {
    const CUdeviceptr table = make_table(size, stripe, place);
    for (int last = 0; last < (place == striped ? 2 : 1); ++last) {
      measure_row<128>(names[place], askers, last, table, size);
      measure_row<256>(names[place], askers, last, table, size);
      measure_row<512>(names[place], askers, last, table, size);
      measure_row<1024>(names[place], askers, last, table, size);
      measure_row<2048>(names[place], askers, last, table, size);
      measure_row<4096>(names[place], askers, last, table, size);
    }
    CHECK(cuMemUnmap(table, size));
    CHECK(cuMemAddressFree(table, size));
  }
  for (int gpu : {0, 1}) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaStreamDestroy(askers[gpu].stream));
    CHECK(cudaEventDestroy(askers[gpu].begin));
    CHECK(cudaEventDestroy(askers[gpu].end));
    CHECK(cudaFree(askers[gpu].sum));
  }
}

int main(int count, char** values) {
  const std::string table = count > 1 ? values[1] : "";
  void (*const measured)() = table == "first_share" ? measure_first_share
                             : table == "calls"     ? measure_calls
                             : table == "rows"      ? measure_rows
                                                    : nullptr;
  if (count > 2) most = std::strtoul(values[2], nullptr, 10);
  if (!measured || count > 3 || most == 0) check::end(2, "%s", usage);
  const int gpus = check::require_gpus(2);
  int reaches = 0;
  CHECK(cudaDeviceCanAccessPeer(&reaches, 0, 1));
  REQUIRE(reaches, "GPU 0 cannot reach the memory of GPU 1; use GPUs that can, such as two on one NVSwitch");
  for (int gpu : {1, 0}) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaFree(nullptr));
  }
  std::fputs(measure::conditions("two_gpus " + table + (count > 2 ? std::string(" ") + values[2] : ""), gpus).c_str(),
             stdout);
  measured();
  return 0;
}
