// SPDX-License-Identifier: MIT-0
// Attributes of streams: which there are, what they begin as, what they can be set to, and what a copy takes over.
#include "conformance.h"

static void* gpu;

static std::string format_value(cudaStreamAttrID id, const cudaStreamAttrValue& value) {
  switch (id) {
    case cudaStreamAttributeAccessPolicyWindow: {
      const cudaAccessPolicyWindow& it = value.accessPolicyWindow;
      return std::string(it.base_ptr == gpu ? "p"
                         : it.base_ptr      ? "elsewhere"
                                            : "null") +
             ", " + std::to_string(it.num_bytes) + " bytes, ratio " + std::to_string(it.hitRatio) + ", " +
             std::to_string(it.hitProp) + ", " + std::to_string(it.missProp);
    }
    case cudaLaunchAttributeMemSyncDomainMap:
      return std::to_string(value.memSyncDomainMap.default_) + ", " + std::to_string(value.memSyncDomainMap.remote);
    default: return std::to_string(*reinterpret_cast<const int*>(&value));
  }
}
static void get(const std::string& what, cudaStream_t stream, int id) {
  cudaStreamAttrValue value;
  std::memset(&value, 0x55, sizeof value);
  const cudaError_t answer = cudaStreamGetAttribute(stream, cudaStreamAttrID(id), &value);
  say(what, answer ? check::name(answer) : format_value(cudaStreamAttrID(id), value));
  cudaGetLastError();
}
static void set(const std::string& what, cudaStream_t stream, int id, const cudaStreamAttrValue& value) {
  say("set " + what, cudaStreamSetAttribute(stream, cudaStreamAttrID(id), &value));
  cudaGetLastError();
  get("  then", stream, id);
}
static void set_number(const std::string& what, cudaStream_t stream, int id, int number) {
  cudaStreamAttrValue value = {};
  std::memcpy(&value, &number, sizeof number);
  set(what + " " + std::to_string(number), stream, id, value);
}
static void set_window(const std::string& what, cudaStream_t stream, void* base, size_t bytes, float ratio, int hit,
                       int miss) {
  cudaStreamAttrValue value = {};
  value.accessPolicyWindow = {base, bytes, ratio, cudaAccessProperty(hit), cudaAccessProperty(miss)};
  set("a window, " + what, stream, cudaStreamAttributeAccessPolicyWindow, value);
}
constexpr int known[] = {cudaStreamAttributeAccessPolicyWindow, cudaStreamAttributeSynchronizationPolicy,
                         cudaStreamAttributePriority, cudaLaunchAttributeMemSyncDomainMap,
                         cudaLaunchAttributeMemSyncDomain};
static void get_all(const std::string& what, cudaStream_t stream) {
  for (const int id : known) get(what + ", attribute " + std::to_string(id), stream, id);
}

static void ask() {
  cudaStream_t stream, other, urgent;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, -3));

  section("which there are");
  for (int id = -1; id < 24; ++id) get("attribute " + std::to_string(id), stream, id);
  for (int id = -1; id < 24; ++id) {
    if (id == cudaStreamAttributePriority) continue;
    cudaStreamAttrValue value = {};
    say("set attribute " + std::to_string(id) + " to zeros",
        cudaStreamSetAttribute(stream, cudaStreamAttrID(id), &value));
    cudaGetLastError();
  }
  get_all("a stream", other);
  get_all("of priority -3", urgent);
  get_all("stream 0", nullptr);
  get_all("legacy", cudaStreamLegacy);
  get_all("the thread's", cudaStreamPerThread);

  section("numbers");
  for (int value : {0, 1, 2, 3, 4, 5, -1})
    set_number("synchronization policy", stream, cudaStreamAttributeSynchronizationPolicy, value);
  for (int value : {-1, -5, -6, 0, 1, 100}) {
    set_number("priority", stream, cudaStreamAttributePriority, value);
    int priority = 99;
    CHECK(cudaStreamGetPriority(stream, &priority));
    say("  cudaStreamGetPriority", std::to_string(priority));
  }
  for (int value : {0, 1, 2, -1}) set_number("memory domain", stream, cudaLaunchAttributeMemSyncDomain, value);
  for (const auto& [first, second] : {std::pair(0, 1), {1, 0}, {2, 3}, {3, 3}, {0, 4}, {4, 0}, {255, 255}, {0, 1}}) {
    cudaStreamAttrValue value = {};
    value.memSyncDomainMap.default_ = (unsigned char)first, value.memSyncDomainMap.remote = (unsigned char)second;
    set("memory domains " + std::to_string(first) + ", " + std::to_string(second), stream,
        cudaLaunchAttributeMemSyncDomainMap, value);
  }

  section("windows");
  int most = 0, persisting = 0;
  CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxAccessPolicyWindowSize, 0));
  CHECK(cudaDeviceGetAttribute(&persisting, cudaDevAttrMaxPersistingL2CacheSize, 0));
  say("most bytes", std::to_string(most));
  say("of the cache", std::to_string(persisting));
  set_window("persisting", stream, gpu, MiB, 0.5f, cudaAccessPropertyPersisting, cudaAccessPropertyStreaming);
  set_window("normal", stream, gpu, MiB, 1.0f, cudaAccessPropertyNormal, cudaAccessPropertyNormal);
  set_window("streaming", stream, gpu, MiB, 0.0f, cudaAccessPropertyStreaming, cudaAccessPropertyNormal);
  set_window("misses persist", stream, gpu, MiB, 0.5f, cudaAccessPropertyStreaming, cudaAccessPropertyPersisting);
  set_window("ratio 1.5", stream, gpu, MiB, 1.5f, cudaAccessPropertyPersisting, cudaAccessPropertyStreaming);
  set_window("ratio -0.5", stream, gpu, MiB, -0.5f, cudaAccessPropertyPersisting, cudaAccessPropertyStreaming);
  set_window("property 3", stream, gpu, MiB, 0.5f, 3, cudaAccessPropertyStreaming);
  set_window("other property 3", stream, gpu, MiB, 0.5f, cudaAccessPropertyPersisting, 3);
  set_window("no bytes", stream, gpu, 0, 0.5f, cudaAccessPropertyPersisting, cudaAccessPropertyStreaming);
  set_window("null, bytes", stream, nullptr, MiB, 0.5f, cudaAccessPropertyPersisting, cudaAccessPropertyStreaming);
  set_window("most bytes", stream, gpu, size_t(most), 0.5f, cudaAccessPropertyPersisting, cudaAccessPropertyStreaming);
  set_window("more bytes", stream, gpu, size_t(most) + 1, 0.5f, cudaAccessPropertyPersisting,
             cudaAccessPropertyStreaming);
  set_window("of the host", stream, &most, 4, 0.5f, cudaAccessPropertyPersisting, cudaAccessPropertyStreaming);
  set_window("nothing", stream, nullptr, 0, 0.0f, 0, 0);

  section("copies");
  set_window("persisting", stream, gpu, MiB, 0.5f, cudaAccessPropertyPersisting, cudaAccessPropertyStreaming);
  set_number("synchronization policy", stream, cudaStreamAttributeSynchronizationPolicy, 3);
  set_number("memory domain", stream, cudaLaunchAttributeMemSyncDomain, 1);
  set_number("priority", stream, cudaStreamAttributePriority, -2);
  say("copy", cudaStreamCopyAttributes(other, stream));
  get_all("the copy", other);
  say("copy to itself", cudaStreamCopyAttributes(stream, stream));
  say("copy from stream 0", cudaStreamCopyAttributes(other, nullptr));
  get_all("the copy", other);
  say("copy to stream 0", cudaStreamCopyAttributes(nullptr, stream));
  get_all("stream 0", nullptr);
  say("copy to the thread's", cudaStreamCopyAttributes(cudaStreamPerThread, stream));
  get_all("the thread's", cudaStreamPerThread);
  cudaGetLastError();

  section("the driver");
  CUstreamAttrValue value = {};
  value.syncPolicy = CU_SYNC_POLICY_YIELD;
  say("cuStreamSetAttribute", cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  value = {};
  say("cuStreamGetAttribute", cuStreamGetAttribute(stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  say("value", std::to_string(value.syncPolicy));
  say("set attribute 0", cuStreamSetAttribute(stream, CUstreamAttrID(0), &value));
  say("get attribute 0", cuStreamGetAttribute(stream, CUstreamAttrID(0), &value));
  say("set attribute 2", cuStreamSetAttribute(stream, CUstreamAttrID(2), &value));
  say("get attribute 2", cuStreamGetAttribute(stream, CUstreamAttrID(2), &value));
  say("set attribute 99", cuStreamSetAttribute(stream, CUstreamAttrID(99), &value));
  say("get attribute 99", cuStreamGetAttribute(stream, CUstreamAttrID(99), &value));
  say("copy", cuStreamCopyAttributes(other, stream));
}

int main() {
  alarm(60);
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  CHECK(cudaMalloc(&gpu, 4 * MiB));
  ask();
  std::printf("OK\n");
}
