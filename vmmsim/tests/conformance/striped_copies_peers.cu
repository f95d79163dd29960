// SPDX-License-Identifier: MIT-0
// Copies and memsets of every kind that cross from memory of one GPU into memory of another, in one range of addresses.
#include "conformance.h"

#include <numeric>

constexpr size_t size = 4 * page, words = size / sizeof(int);  // stripes of GPU 0, 1, 0, 1

static CUdeviceptr striped(std::initializer_list<int> open_to) {
  const CUdeviceptr range = reserve(size);
  for (int stripe = 0; stripe < 4; ++stripe) map_new(range + stripe * page, page, 0, stripe % 2);
  for (const int gpu : open_to) {
    const CUmemAccessDesc descriptor = access_of(gpu);
    CHECK(cuMemSetAccess(range, size, &descriptor, 1));
  }
  return range;
}

static std::vector<int> numbers(int first) {
  std::vector<int> all(words);
  std::iota(all.begin(), all.end(), first);
  return all;
}
// The range, read a stripe at a time from its owner's side: so a copy across stripes is not judged by another.
static std::vector<int> read_by_stripes(CUdeviceptr range) {
  std::vector<int> found(words);
  for (int stripe = 0; stripe < 4; ++stripe)
    CHECK(cuMemcpyDtoH(found.data() + stripe * page / 4, range + stripe * page, page));
  return found;
}
static void write_by_stripes(CUdeviceptr range, const std::vector<int>& values) {
  for (int stripe = 0; stripe < 4; ++stripe)
    CHECK(cuMemcpyHtoD(range + stripe * page, values.data() + stripe * page / 4, page));
}

// What the copies are from and to: ordinary memory of each GPU and of the host, and a second striped range.
struct Others {
  CUdeviceptr gpu[2], striped_too, managed;
  int* page_locked;
  std::vector<int> pageable = std::vector<int>(words);
};

static void ask_all(std::initializer_list<int> open_to, int current) {
  Others other;
  for (int gpu : {0, 1}) {
    void* made;
    CHECK(cudaSetDevice(gpu)), CHECK(cudaMalloc(&made, size)), other.gpu[gpu] = CUdeviceptr(made);
  }
  const CUdeviceptr range = striped(open_to);
  other.striped_too = striped(open_to);
  CHECK(cudaMallocHost(reinterpret_cast<void**>(&other.page_locked), size));
  CHECK(cudaSetDevice(current));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int first = 1;
  void* const pointer = reinterpret_cast<void*>(range);

  // Fresh numbers lie in `from`; the copy is made; they must be in `to`, which held others.
  enum Place { range_, page_locked_, pageable_, gpu_0, gpu_1, too_ };
  const auto address = [&](Place place) -> void* {
    if (place == page_locked_) return other.page_locked;
    if (place == pageable_) return other.pageable.data();
    return reinterpret_cast<void*>(place == range_ ? range
                                   : place == too_ ? other.striped_too
                                                   : other.gpu[place - gpu_0]);
  };
  const auto put = [&](Place place, const std::vector<int>& values) {
    if (place == range_ || place == too_) write_by_stripes(CUdeviceptr(address(place)), values);
    else if (place == page_locked_ || place == pageable_) std::memcpy(address(place), values.data(), size);
    else CHECK(cuMemcpyHtoD(CUdeviceptr(address(place)), values.data(), size));
  };
  const auto get = [&](Place place) {
    if (place == range_ || place == too_) return read_by_stripes(CUdeviceptr(address(place)));
    std::vector<int> found(words);
    if (place == page_locked_ || place == pageable_) std::memcpy(found.data(), address(place), size);
    else CHECK(cuMemcpyDtoH(found.data(), CUdeviceptr(address(place)), size));
    return found;
  };
  const auto copy = [&](const std::string& what, Place to, Place from, const auto& call) {
    const std::vector<int> fresh = numbers(first += 1'000'003);
    put(from, fresh), put(to, numbers(-first));
    CHECK(cudaDeviceSynchronize());
    const cudaError_t answer = call(address(to), address(from)), end = cudaDeviceSynchronize();
    if (end != cudaSuccess) return say(what, std::string(check::name(answer)) + ", then " + check::name(end)), void();
    const std::vector<int> found = get(to);
    say(what, std::string(check::name(answer)) + ", " +
                  (found == fresh             ? "right"
                   : found == numbers(-first) ? "nothing copied"
                                              : "WRONG"));
    (void)cudaGetLastError();
  };
  const struct {
    const char* name;
    Place to, from;
    cudaMemcpyKind kind;
  } ways[] = {{"from pageable memory", range_, pageable_, cudaMemcpyHostToDevice},
              {"from page-locked memory", range_, page_locked_, cudaMemcpyHostToDevice},
              {"from GPU 0's memory", range_, gpu_0, cudaMemcpyDeviceToDevice},
              {"from GPU 1's memory", range_, gpu_1, cudaMemcpyDeviceToDevice},
              {"to pageable memory", pageable_, range_, cudaMemcpyDeviceToHost},
              {"to page-locked memory", page_locked_, range_, cudaMemcpyDeviceToHost},
              {"to GPU 0's memory", gpu_0, range_, cudaMemcpyDeviceToDevice},
              {"to GPU 1's memory", gpu_1, range_, cudaMemcpyDeviceToDevice},
              {"between striped ranges", too_, range_, cudaMemcpyDeviceToDevice}};
  for (const auto& way : ways) {
    const std::string name = way.name;
    copy("cudaMemcpy " + name, way.to, way.from,
         [&](void* to, void* from) { return cudaMemcpy(to, from, size, way.kind); });
    copy("cudaMemcpyAsync " + name, way.to, way.from,
         [&](void* to, void* from) { return cudaMemcpyAsync(to, from, size, way.kind, stream); });
    copy("cudaMemcpyAsync, default, " + name, way.to, way.from,
         [&](void* to, void* from) { return cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream); });
    copy("cudaMemcpy2DAsync " + name, way.to, way.from,
         [&](void* to, void* from) {  // rows that cross into the next stripe
           return cudaMemcpy2DAsync(to, size / 2, from, size / 2, size / 2, 2, way.kind, stream);
         });
    copy("in a graph " + name, way.to, way.from, [&](void* to, void* from) {
      cudaGraph_t graph;
      cudaGraphExec_t executable;
      CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      const cudaError_t answer = cudaMemcpyAsync(to, from, size, way.kind, stream);
      const cudaError_t captured = cudaStreamEndCapture(stream, &graph);
      if (answer != cudaSuccess) return answer;
      if (captured != cudaSuccess) return captured;
      CHECK(cudaGraphInstantiate(&executable, graph, 0));
      return cudaGraphLaunch(executable, stream);
    });
  }
  for (const int named : {0, 1}) {
    const std::string gpu = "GPU " + std::to_string(named);
    const Place its = named ? gpu_1 : gpu_0;
    copy("cudaMemcpyPeer, the range named as " + gpu + "'s, from GPU 0", range_, gpu_0,
         [&](void* to, void* from) { return cudaMemcpyPeer(to, named, from, 0, size); });
    copy("cudaMemcpyPeerAsync, the range named as " + gpu + "'s, to it", its, range_,
         [&](void* to, void* from) { return cudaMemcpyPeerAsync(to, named, from, 1 - named, size, stream); });
  }
  const auto memset = [&](const char* what, const auto& call, int wanted) {
    write_by_stripes(range, numbers(first += 1'000'003));
    CHECK(cudaDeviceSynchronize());
    const cudaError_t answer = call(), end = cudaDeviceSynchronize();
    if (end != cudaSuccess) return say(what, std::string(check::name(answer)) + ", then " + check::name(end)), void();
    say(what, std::string(check::name(answer)) + ", " +
                  (read_by_stripes(range) == std::vector<int>(words, wanted) ? "right" : "WRONG"));
  };
  memset("cudaMemset", [&] { return cudaMemset(pointer, 1, size); }, 0x01010101);
  memset("cudaMemsetAsync", [&] { return cudaMemsetAsync(pointer, 2, size, stream); }, 0x02020202);
  memset("cuMemsetD32Async", [&] { return cudaError_t(cuMemsetD32Async(range, 77, words, stream)); }, 77);
  memset("cudaMemset2DAsync", [&] { return cudaMemset2DAsync(pointer, size / 2, 3, size / 2, 2, stream); }, 0x03030303);
}

SECTION("open to both, GPU 0 current") { ask_all({0, 1}, 0); }
SECTION("open to both, GPU 1 current") { ask_all({0, 1}, 1); }
SECTION("open to GPU 0 alone, GPU 0 current") { ask_all({0}, 0); }

int main(int argc, char** argv) {
  if (argc == 1) require_peers();
  return run_sections(argc, argv);
}
