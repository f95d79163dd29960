// SPDX-License-Identifier: MIT-0
// Which stream may have memory of a pool again that another has freed, by the pool's policies of reuse: whether it gets
// the same address.
#include "conformance.h"

#include <cstdint>

__global__ void await(const volatile int* flag) { while (!*flag); }

constexpr size_t size = 32 * MiB;
static cudaMemPool_t pool;
static cudaStream_t freeing, other;
static int* flag;

static void set(cudaMemPoolAttr what, int to) { CHECK(cudaMemPoolSetAttribute(pool, what, &to)); }
static void begin(bool events, bool opportunistic, bool internal) {
  alarm(20);
  CHECK(cudaSetDevice(0));
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  uint64_t all = ~uint64_t(0);
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
  set(cudaMemPoolReuseFollowEventDependencies, events);
  set(cudaMemPoolReuseAllowOpportunistic, opportunistic);
  set(cudaMemPoolReuseAllowInternalDependencies, internal);
  for (cudaStream_t* each : {&freeing, &other}) CHECK(cudaStreamCreateWithFlags(each, cudaStreamNonBlocking));
  CHECK(cudaMallocHost(&flag, sizeof *flag));
  *flag = 1;
  await<<<1, 1, 0, freeing>>>(flag);  // loads the kernel
  CHECK(cudaStreamSynchronize(freeing));
}
static void* take(cudaStream_t stream) {
  void* memory;
  return CHECK(cudaMallocFromPoolAsync(&memory, size, pool, stream)), memory;
}
static const char* same(bool is) { return is ? "the same" : "another"; }

// What happens between the free and the next allocation in the other stream.
enum Between { nothing, event, stream_waited_for, event_waited_for, device_waited_for, other_waited_for };
static void ask(const char* what, Between between, bool busy) {
  void* const first = take(freeing);
  *flag = !busy;
  await<<<1, 1, 0, freeing>>>(flag);
  CHECK(cudaGetLastError());
  CHECK(cudaFreeAsync(first, freeing));
  while (!busy && cudaStreamQuery(freeing) == cudaErrorNotReady) continue;
  cudaEvent_t behind;
  CHECK(cudaEventCreate(&behind));
  if (between == event || between == event_waited_for) CHECK(cudaEventRecord(behind, freeing));
  if (between == event) CHECK(cudaStreamWaitEvent(other, behind, 0));
  if (between == event_waited_for) CHECK(cudaEventSynchronize(behind));
  if (between == stream_waited_for) CHECK(cudaStreamSynchronize(freeing));
  if (between == other_waited_for) CHECK(cudaStreamSynchronize(other));
  if (between == device_waited_for) CHECK(cudaDeviceSynchronize());
  void* const second = take(other);
  void* const third = take(freeing);
  say(std::string(what) + ": the other stream gets", std::string(same(second == first)));
  say(std::string(what) + ": then the same stream gets", std::string(same(third == first)));
  *const_cast<volatile int*>(flag) = 1;
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFreeAsync(second, other));
  CHECK(cudaFreeAsync(third, freeing));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemPoolTrimTo(pool, 0));
}

static void ask_all() {
  ask("the free is over", nothing, false);
  ask("the free is over, an event is waited for", event, false);
  ask("the stream is synchronised", stream_waited_for, false);
  ask("an event is synchronised", event_waited_for, false);
  ask("the device is synchronised", device_waited_for, false);
  ask("the other stream is synchronised", other_waited_for, false);
  ask("the stream is busy", nothing, true);
  ask("the stream is busy, an event is waited for", event, true);
}

static const char* const names[] = {
    "none",   "internal dependencies", "opportunistic",         "opportunistic, internal",
    "events", "events, internal",      "events, opportunistic", "all three"};

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  if (argc > 1) {
    const int policies = atoi(argv[1]);
    begin(policies & 4, policies & 2, policies & 1);
    return ask_all(), 0;
  }
  check::require_gpus(1);
  for (int policies = 0; policies < 8; ++policies) {
    section((std::string("policies: ") + names[policies]).c_str());
    say("end", run_again(std::to_string(policies)));
  }
  std::puts("OK");
}
