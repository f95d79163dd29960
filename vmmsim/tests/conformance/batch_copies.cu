// SPDX-License-Identifier: MIT-0
// Batches of copies, right and wrong ones, and while a stream captures; what a launch outside a graph may be asked for;
// and from which size on a memset that comes too late faults as a kernel does. Not asked: a copy to addresses that are
// only reserved, where the driver crashes.
#include "conformance.h"
#include "waiting.h"

__global__ void wait_for(const volatile int* word) {
  while (!*word) {
  }
}
__global__ void nothing() {}

static cudaStream_t stream;
static char *memory, *other, *page_locked;
static char pageable[1 << 16];

static void begin() {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&memory, 1 << 16));
  CHECK(cudaMalloc(&other, 1 << 16));
  CHECK(cudaMallocHost(&page_locked, 1 << 16));
  CHECK(cudaMemset(memory, 1, 1 << 16));
  CHECK(cudaMemset(other, 2, 1 << 16));
  std::memset(page_locked, 3, 1 << 16);
  std::memset(pageable, 4, sizeof pageable);
  CHECK(cudaDeviceSynchronize());
}

static cudaMemcpyAttributes ordered(int order, unsigned flags = 0) {
  cudaMemcpyAttributes all = {};
  all.srcAccessOrder = cudaMemcpySrcAccessOrder(order);
  all.flags = flags;
  return all;
}
// Two copies with the attributes and where each begins.
static cudaError_t copy_two(std::vector<cudaMemcpyAttributes> attributes, std::vector<size_t> first, size_t count = 2,
                            cudaStream_t where = stream) {
  void* to[] = {memory, memory + 64};
  const void* from[] = {other, page_locked};
  const size_t sizes[] = {64, 64};
  return cudaMemcpyBatchAsync(to, from, sizes, count, attributes.data(), first.data(), attributes.size(), where);
}
static std::string at(size_t offset) {
  CHECK(cudaDeviceSynchronize());
  char value;
  CHECK(cudaMemcpy(&value, memory + offset, 1, cudaMemcpyDeviceToHost));
  return std::to_string(int(value));
}

SECTION("batches") {
  begin();
  say("two copies", copy_two({ordered(1)}, {0}));
  say("they gave", at(0) + " " + at(64));
  for (const int order : {0, 1, 2, 3, 4}) say("order " + std::to_string(order), copy_two({ordered(order)}, {0}));
  for (const unsigned flags : {1u, 2u}) say("flags " + std::to_string(flags), copy_two({ordered(1, flags)}, {0}));
  say("two attributes", copy_two({ordered(1), ordered(3)}, {0, 1}));
  say("the first does not begin at 0", copy_two({ordered(1)}, {1}));
  say("both begin at 0", copy_two({ordered(1), ordered(3)}, {0, 0}));
  say("the second begins behind the last", copy_two({ordered(1), ordered(3)}, {0, 2}));
  say("no attributes", copy_two({}, {}));
  say("more attributes than copies", copy_two({ordered(1), ordered(1)}, {0, 1}, 1));
  say("no copies", copy_two({ordered(1)}, {0}, 0));
  say("the legacy stream", copy_two({ordered(1)}, {0}, 2, nullptr));
  say("the legacy stream by its name", copy_two({ordered(1)}, {0}, 2, cudaStreamLegacy));
  say("the thread's stream", copy_two({ordered(1)}, {0}, 2, cudaStreamPerThread));
}
SECTION("sides of a copy of a batch") {
  begin();
  const auto one = [](const char* what, void* to, const void* from, size_t size, int order = 1) {
    cudaMemcpyAttributes attributes = ordered(order);
    size_t first = 0;
    say(what, cudaMemcpyBatchAsync(&to, &from, &size, 1, &attributes, &first, 1, stream));
    CHECK(cudaDeviceSynchronize());
  };
  one("within a GPU", memory, other, 64);
  one("0 bytes", memory, other, 0);
  one("to null", nullptr, other, 64);
  one("from null", memory, nullptr, 64);
  one("0 bytes to null", nullptr, other, 0);
  one("from page-locked memory", memory, page_locked, 64);
  one("to page-locked memory", page_locked, memory, 64);
  for (const int order : {1, 2, 3}) {
    std::memset(pageable, 4 + order, 64);
    one("from pageable memory", memory, pageable, 64, order);
    say("it gave", at(0));
    one("to pageable memory", pageable, memory, 64, order);
  }
  one("from pageable to page-locked memory", page_locked, pageable, 64);
  one("past the end", memory, other, (1 << 16) + 1);
}
SECTION("a source that is read during the call") {
  begin();
  int* word;
  CHECK(cudaMallocHost(&word, sizeof *word));
  const std::pair<const char*, char*> sources[] = {
      {"pageable", pageable}, {"page-locked", page_locked}, {"a GPU's", other}};
  for (const auto& each : sources) {
    char* const source = each.second;
    *word = 0;
    wait_for<<<1, 1, 0, stream>>>(word), CHECK(cudaGetLastError());
    cudaError_t answer;
    const bool waits = waits_for(static_cast<volatile int*>(word), [&] {
      void* to = memory;
      const void* from = source;
      const size_t size = 64;
      cudaMemcpyAttributes attributes = ordered(2);
      size_t first = 0;
      answer = cudaMemcpyBatchAsync(&to, &from, &size, 1, &attributes, &first, 1, stream);
      if (source != other) std::memset(source, 9, 64);
    });
    say(each.first, answer);
    say("it waits", yes(waits));
    say("it gave", at(0));
  }
}
SECTION("large batches from and to pageable memory, behind a kernel") {
  begin();
  constexpr size_t most = 16 * MiB;
  int* word;
  char* large;
  CHECK(cudaMallocHost(&word, sizeof *word));
  CHECK(cudaMalloc(&large, most));
  std::vector<char> host(most);
  const auto ask = [&](const std::string& what, size_t size, int order, bool up) {
    std::fill(host.begin(), host.end(), 5);
    CHECK(cudaMemset(large, 6, most));
    CHECK(cudaDeviceSynchronize());
    *word = 0;
    wait_for<<<1, 1, 0, stream>>>(word), CHECK(cudaGetLastError());
    cudaError_t answer;
    const bool waits = waits_for(static_cast<volatile int*>(word), [&] {
      void* to = up ? large : host.data();
      const void* from = up ? host.data() : large;
      cudaMemcpyAttributes attributes = ordered(order);
      size_t first = 0;
      answer = cudaMemcpyBatchAsync(&to, &from, &size, 1, &attributes, &first, 1, stream);
      if (up) std::fill(host.begin(), host.end(), 9);  // read before, or after?
    });
    CHECK(cudaDeviceSynchronize());
    if (up) CHECK(cudaMemcpy(host.data(), large, size, cudaMemcpyDeviceToHost));
    say(what + ", " + std::to_string(size >> 10) + " KiB, order " + std::to_string(order),
        std::string(check::name(answer)) + ", waits: " + yes(waits) + ", gave " + std::to_string(int(host[0])) + " " +
            std::to_string(int(host[size - 1])));
  };
  for (const size_t kib : {1, 32, 64, 65, 128, 512, 1024, 16384}) {
    const size_t size = kib << 10;
    for (const int order : {1, 2, 3}) {
      ask("from pageable memory", size, order, true);
      ask("to pageable memory", size, order, false);
    }
  }
}
SECTION("batches in a capture") {
  begin();
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  say("a batch", copy_two({ordered(1)}, {0}));
  cudaGraph_t graph;
  say("the end", cudaStreamEndCapture(stream, &graph));
}
SECTION("batches of boxes") {
  begin();
  cudaMemcpy3DBatchOp op = {};
  op.src.type = op.dst.type = cudaMemcpyOperandTypePointer;
  op.src.op.ptr.ptr = other, op.dst.op.ptr.ptr = memory;
  op.extent = {16, 4, 2};
  op.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  const auto ask = [&](const char* what, size_t count = 1, unsigned flags = 0) {
    say(what, cudaMemcpy3DBatchAsync(count, &op, flags, stream));
  };
  ask("packed"), say("it gave", at(0) + " " + at(127) + " " + at(128));
  op.dst.op.ptr.rowLength = 32, op.dst.op.ptr.layerHeight = 8;
  CHECK(cudaMemset(memory, 1, 1024));
  ask("into longer rows and layers"),
      say("it gave", at(15) + " " + at(16) + " " + at(32) + " " + at(255) + " " + at(256));
  op.dst.op.ptr.rowLength = 15;
  ask("into rows that are too short");
  op.dst.op.ptr.rowLength = 32, op.dst.op.ptr.layerHeight = 3;
  ask("into layers that are too low");
  op.dst.op.ptr.layerHeight = 8;
  ask("none", 0);
  ask("flags", 1, 1);
  op.extent.width = 0;
  ask("no width");
}
SECTION("attribute 13 of a launch outside a graph") {
  begin();
  for (const int updatable : {0, 1}) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeDeviceUpdatableKernelNode;
    attribute.val.deviceUpdatableKernelNode.deviceUpdatable = updatable;
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = dim3(1);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    say(updatable ? "updatable" : "not updatable", cudaLaunchKernelEx(&config, nothing));
  }
}

// Memsets that come too late, each in a process of its own.
static void set_late(size_t size) {
  begin();
  int* word;
  CHECK(cudaMallocHost(&word, sizeof *word));
  *word = 0;
  const CUdeviceptr mapped = reserve(page);
  map_new(mapped, page);
  wait_for<<<1, 1, 0, stream>>>(word), CHECK(cudaGetLastError());
  CHECK(cuMemsetD8Async(mapped, 1, size, stream));
  CHECK(cuMemUnmap(mapped, page));
  *static_cast<volatile int*>(word) = 1;
  say("synchronize", cudaStreamSynchronize(stream));
}
SECTION("a memset of 256 bytes that comes too late") { set_late(256); }
SECTION("a memset of 1 KiB that comes too late") { set_late(1 << 10); }
SECTION("a memset of 4 KiB that comes too late") { set_late(4 << 10); }
SECTION("a memset of 4 KiB and 4 bytes that comes too late") { set_late((4 << 10) + 4); }
SECTION("a memset of 8 KiB that comes too late") { set_late(8 << 10); }
SECTION("a memset of 16 KiB that comes too late") { set_late(16 << 10); }
SECTION("a memset of 32 KiB that comes too late") { set_late(32 << 10); }
SECTION("a memset of 48 KiB that comes too late") { set_late(48 << 10); }

int main(int argc, char** argv) { return run_sections(argc, argv); }
