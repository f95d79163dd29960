// SPDX-License-Identifier: MIT-0
// Which copies return while a kernel before them in their stream waits for the host: of pageable memory, of which up to
// 2 MiB are read at once, and of managed memory.
#include "conformance.h"
#include "waiting.h"

static volatile unsigned* word;
static cudaStream_t stream;

__global__ void wait_for(const volatile unsigned* word) {
  while (!*word) {
  }
}

template <class Copy> static void ask(const std::string& what, cudaStream_t where, Copy copy) {
  *word = 0;
  wait_for<<<1, 1, 0, where>>>(word);
  CHECK(cudaGetLastError());
  cudaError_t answer;
  const bool waits = waits_for(word, [&] { answer = copy(); });
  CHECK(cudaDeviceSynchronize());
  say(what, std::string(check::name(answer)) + (waits ? ", waits" : ", at once"));
}

int main() {
  check::require_gpus(1);
  constexpr size_t some = 64 << 10, at_once = 2 << 20, most = at_once + 1;
  char *pinned, *managed, *device, *other;
  static char pageable[most];
  CHECK(cudaMallocHost((void**)&word, sizeof *word));
  CHECK(cudaMallocHost(&pinned, most));
  CHECK(cudaMallocManaged(&managed, most));
  CHECK(cudaMalloc(&device, most));
  CHECK(cudaMalloc(&other, most));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  wait_for<<<1, 1>>>((*word = 1, word));  // loaded
  CHECK(cudaDeviceSynchronize());

  section("from pageable memory, asynchronous");
  for (const size_t size : {size_t(1), some, some + 1, at_once, most})
    ask(std::to_string(size) + " bytes", stream,
        [&] { return cudaMemcpyAsync(device, pageable, size, cudaMemcpyHostToDevice, stream); });
  ask("a row of 64 bytes", stream,
      [&] { return cudaMemcpy2DAsync(device, 64, pageable, 64, 64, 1, cudaMemcpyHostToDevice, stream); });
  section("in stream 0");
  const auto ask_plain = [](const char* what, void* to, const void* from, size_t size, cudaMemcpyKind kind) {
    ask(what, nullptr, [&] { return cudaMemcpy(to, from, size, kind); });
  };
  ask_plain("64 KiB of pageable memory", device, pageable, some, cudaMemcpyHostToDevice);
  ask_plain("from managed to pinned memory", pinned, managed, 4, cudaMemcpyDeviceToHost);
  ask_plain("from managed to a GPU's memory", device, managed, 4, cudaMemcpyDeviceToDevice);
  ask_plain("from a GPU's to managed memory", managed, device, 4, cudaMemcpyDeviceToDevice);
  ask_plain("within a GPU", other, device, 4, cudaMemcpyDefault);
  std::puts("OK");
}
