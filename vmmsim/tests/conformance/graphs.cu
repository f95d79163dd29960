// SPDX-License-Identifier: MIT-0
// Graphs and stream capture: what is refused while a stream captures, and what that does to the capture; what a node
// may be given and how it may be changed; and graphs on memory that is mapped, unmapped and mapped anew.
#include "parts.h"

#include <cstring>
#include <functional>
#include <thread>
#include <vector>

__global__ void store(int* to, int value) { *to = value; }
__global__ void sum(int* to, const int* from, const size_t* count) {
  int all = 0;
  for (size_t i = 0; i < *count; ++i) all += from[i * (page / 4)];
  *to = all;
}
__global__ void seldom(int* to) { *to = 1; }
__global__ void hardly(int* to) { *to = 2; }

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n";

// What every question finds. `origin` captures; `alone` never does; `blocking` is like stream 0's other streams.
static cudaStream_t origin, fork_, alone, blocking;
static cudaEvent_t captured, outside, never;
static int *there, *pinned, *spare;
static int home[64];
static CUdeviceptr room;  // four pages of addresses: mapped, mapped and open to nobody, nothing, nothing
static CUmemGenericAllocationHandle handle;
static cudaGraph_t small;
static cudaGraphExec_t small_exec;
static CUmodule module;

static void set_up() {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  for (cudaStream_t* each : {&origin, &fork_, &alone}) CHECK(cudaStreamCreateWithFlags(each, cudaStreamNonBlocking));
  CHECK(cudaStreamCreate(&blocking));
  for (cudaEvent_t* each : {&captured, &outside, &never}) CHECK(cudaEventCreate(each));
  CHECK(cudaMalloc(&there, 1024));
  CHECK(cudaMalloc(&spare, 1024));
  CHECK(cudaMallocHost(&pinned, 1024));
  CHECK(cudaEventRecord(outside, alone));
  room = reserve(4 * page);
  map_new(room, page);
  map_new(room + page, page, 0);
  handle = create(page);
  CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  store<<<1, 1, 0, origin>>>(there, 1);
  CHECK(cudaStreamEndCapture(origin, &small));
  CHECK(cudaGraphInstantiate(&small_exec, small, 0));
  CHECK(cuModuleLoadData(&module, ptx));
  CHECK(cudaDeviceSynchronize());
}

// --- Calls while a stream captures -----------------------------------------------------------------------------------

static std::string name(int answer) { return cudaGetErrorName(cudaError_t(answer)); }
static std::string status_of(cudaStream_t stream) {
  cudaStreamCaptureStatus is = cudaStreamCaptureStatus(9);
  const cudaError_t answer = cudaStreamIsCapturing(stream, &is);
  return answer ? name(answer) : std::to_string(int(is));
}
static std::string end_of(cudaStream_t stream) {
  cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(1);
  const cudaError_t answer = cudaStreamEndCapture(stream, &graph);
  size_t nodes = 0;
  const bool is_graph = !answer && graph && graph != reinterpret_cast<cudaGraph_t>(1);
  if (is_graph) CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  if (is_graph) CHECK(cudaGraphDestroy(graph));
  cudaGetLastError();
  return name(answer) + (is_graph ? ", " + std::to_string(nodes) + " nodes" : graph ? ", not null" : "");
}

struct Question {
  const char* what;
  std::function<int()> call;
};
static int launched(const void* kernel, cudaStream_t stream) {
  void* pointers[] = {&there};
  const cudaError_t answer = cudaLaunchKernel(kernel, dim3(1), dim3(1), pointers, 0, stream);
  return answer;
}
static void CUDART_CB nothing(void*) {}

static const std::vector<Question>& questions() {
  static void* p;
  static CUdeviceptr d;
  static CUmemGenericAllocationHandle h;
  static CUmodule m;
  static cudaStream_t s;
  static cudaEvent_t e;
  static cudaGraph_t g;
  static cudaGraphExec_t x;
  static cudaFuncAttributes attributes;
  static size_t bytes, total;
  static float ms;
  static const CUmemAllocationProp properties = on_gpu(0);
  static const CUmemAccessDesc access = access_of(0);
  static const std::vector<Question> all = {
      {"cudaMalloc", [] { return cudaMalloc(&p, 4); }},
      {"cudaFree", [] { return cudaFree(spare); }},
      {"cudaFree of null", [] { return cudaFree(nullptr); }},
      {"cudaMallocHost", [] { return cudaMallocHost(&p, 4); }},
      {"cudaMallocManaged", [] { return cudaMallocManaged(&p, 4); }},
      {"cudaHostRegister", [] { return cudaHostRegister(home, sizeof home, 0); }},
      {"cudaMallocAsync in another stream", [] { return cudaMallocAsync(&p, 4, alone); }},
      {"cudaFreeAsync in another stream", [] { return cudaFreeAsync(p, alone); }},
      {"cudaMemGetInfo", [] { return cudaMemGetInfo(&bytes, &total); }},
      {"cuMemAddressReserve", [] { return cuMemAddressReserve(&d, page, 0, 0, 0); }},
      {"cuMemAddressFree", [] { return cuMemAddressFree(d, page); }},
      {"cuMemCreate", [] { return cuMemCreate(&h, page, &properties, 0); }},
      {"cuMemRelease", [] { return cuMemRelease(h); }},
      {"cuMemMap", [] { return cuMemMap(room + 2 * page, page, 0, handle, 0); }},
      {"cuMemSetAccess", [] { return cuMemSetAccess(room + 2 * page, page, &access, 1); }},
      {"cuMemUnmap", [] { return cuMemUnmap(room + 2 * page, page); }},
      {"cudaStreamCreate", [] { return cudaStreamCreate(&s); }},
      {"cudaStreamDestroy", [] { return cudaStreamDestroy(s); }},
      {"cudaEventCreate", [] { return cudaEventCreate(&e); }},
      {"cudaEventDestroy", [] { return cudaEventDestroy(e); }},
      {"cudaEventRecord in another stream", [] { return cudaEventRecord(outside, alone); }},
      {"cudaEventQuery of another event", [] { return cudaEventQuery(outside); }},
      {"cudaEventQuery of one never recorded", [] { return cudaEventQuery(never); }},
      {"cudaEventQuery of a captured one", [] { return cudaEventQuery(captured); }},
      {"cudaEventSynchronize of another event", [] { return cudaEventSynchronize(outside); }},
      {"cudaEventSynchronize of a captured one", [] { return cudaEventSynchronize(captured); }},
      {"cudaEventElapsedTime of captured ones", [] { return cudaEventElapsedTime(&ms, captured, captured); }},
      {"cudaStreamQuery", [] { return cudaStreamQuery(origin); }},
      {"cudaStreamQuery of another", [] { return cudaStreamQuery(alone); }},
      {"cudaStreamSynchronize", [] { return cudaStreamSynchronize(origin); }},
      {"cudaStreamSynchronize of another", [] { return cudaStreamSynchronize(alone); }},
      {"cudaStreamSynchronize of stream 0", [] { return cudaStreamSynchronize(nullptr); }},
      {"cudaDeviceSynchronize", [] { return cudaDeviceSynchronize(); }},
      {"cudaMemcpy", [] { return cudaMemcpy(there, home, 4, cudaMemcpyHostToDevice); }},
      {"cudaMemcpy of pinned memory", [] { return cudaMemcpy(there, pinned, 4, cudaMemcpyHostToDevice); }},
      {"cudaMemcpy on the GPU", [] { return cudaMemcpy(there, spare, 4, cudaMemcpyDeviceToDevice); }},
      {"cudaMemset", [] { return cudaMemset(there, 0, 4); }},
      {"launch in stream 0", [] { return launched((const void*)seldom, nullptr); }},
      {"launch in another stream", [] { return launched((const void*)seldom, alone); }},
      {"first launch of a kernel", [] { return launched((const void*)hardly, origin); }},
      {"cudaFuncGetAttributes", [] { return cudaFuncGetAttributes(&attributes, (const void*)sum); }},
      {"cuModuleLoadData", [] { return cuModuleLoadData(&m, ptx); }},
      {"cuModuleUnload", [] { return cuModuleUnload(module); }},
      {"cudaMemcpyAsync in", [] { return cudaMemcpyAsync(there, pinned, 4, cudaMemcpyHostToDevice, origin); }},
      {"cudaMemcpyAsync in, pageable", [] { return cudaMemcpyAsync(there, home, 4, cudaMemcpyHostToDevice, origin); }},
      {"cudaMemcpyAsync out, pageable", [] { return cudaMemcpyAsync(home, there, 4, cudaMemcpyDeviceToHost, origin); }},
      {"cudaMemcpyAsync of nothing", [] { return cudaMemcpyAsync(there, spare, 0, cudaMemcpyDefault, origin); }},
      {"cudaMemsetAsync", [] { return cudaMemsetAsync(there, 0, 4, origin); }},
      {"cudaMemsetAsync of nothing", [] { return cudaMemsetAsync(there, 0, 0, origin); }},
      {"cudaMemsetAsync of memory open to nobody", [] { return cudaMemsetAsync((void*)(room + page), 0, 4, origin); }},
      {"cudaMemsetAsync where nothing is mapped",
       [] { return cudaMemsetAsync((void*)(room + 3 * page), 0, 4, origin); }},
      {"cudaMemcpyAsync to where nothing is mapped",
       [] { return cuMemcpyDtoDAsync(room + 3 * page, CUdeviceptr(there), 4, origin); }},
      {"cudaLaunchHostFunc", [] { return cudaLaunchHostFunc(origin, nothing, nullptr); }},
      {"cudaStreamAddCallback",
       [] { return cudaStreamAddCallback(origin, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0); }},
      {"cuStreamWriteValue32", [] { return cuStreamWriteValue32(origin, CUdeviceptr(there), 1, 0); }},
      {"cudaEventRecordWithFlags, external", [] { return cudaEventRecordWithFlags(outside, origin, 1); }},
      {"cudaStreamWaitEvent, external", [] { return cudaStreamWaitEvent(origin, outside, 1); }},
      {"cudaStreamWaitEvent of one never recorded", [] { return cudaStreamWaitEvent(origin, never, 0); }},
      {"cudaStreamWaitEvent of another event", [] { return cudaStreamWaitEvent(origin, outside, 0); }},
      {"cudaGraphCreate", [] { return cudaGraphCreate(&g, 0); }},
      {"cudaGraphInstantiate", [] { return cudaGraphInstantiate(&x, small, 0); }},
      {"cudaGraphExecDestroy", [] { return cudaGraphExecDestroy(x); }},
      {"cudaGraphLaunch in another stream", [] { return cudaGraphLaunch(small_exec, alone); }},
      {"cudaGraphLaunch", [] { return cudaGraphLaunch(small_exec, origin); }},
      {"cudaGraphUpload", [] { return cudaGraphUpload(small_exec, origin); }},
      {"cudaStreamBeginCapture again", [] { return cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal); }},
      {"cudaStreamEndCapture of another stream", [] { return cudaStreamEndCapture(alone, &g); }},
      {"cudaStreamEndCapture to null", [] { return cudaStreamEndCapture(origin, nullptr); }},
      {"cudaDeviceSetLimit", [] { return cudaDeviceSetLimit(cudaLimitStackSize, 1024); }},
      {"cudaGetLastError", [] { return cudaGetLastError(); }}};
  return all;
}

// What the call answers, the status of the capture then, and what its end answers.
static void ask(const Question& question, cudaStream_t stream, cudaStreamCaptureMode mode) {
  std::printf("%s", question.what);
  std::fflush(stdout);
  CHECK(cudaStreamBeginCapture(stream, mode));
  store<<<1, 1, 0, stream>>>(there, 1);
  CHECK(cudaEventRecord(captured, stream));
  const std::string answer = name(question.call());
  const std::string status = status_of(stream);
  std::printf(": %s; capture %s; end %s\n", answer.c_str(), status.c_str(), end_of(stream).c_str());
  cudaDeviceSynchronize();
  cudaGetLastError();
}

static void calls_in_capture(const std::string& part, int from) {
  const auto mode = part == "relaxed" ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeGlobal;
  set_up();
  if (part == "blocking") origin = blocking;
  for (size_t i = size_t(from); i < questions().size(); ++i) ask(questions()[i], origin, mode);
}

// --- Begin, fork, join, end ------------------------------------------------------------------------------------------

static const auto global = cudaStreamCaptureModeGlobal;

SECTION("ends") {
  cudaGraph_t graph;
  section("begin and end");
  ask("begin in stream 0", [&] { return cudaStreamBeginCapture(nullptr, global); });
  ask("begin in the legacy stream", [&] { return cudaStreamBeginCapture(cudaStreamLegacy, global); });
  ask("begin in the thread's stream", [&] { return cudaStreamBeginCapture(cudaStreamPerThread, global); });
  ask("end it", [&] { return end_of(cudaStreamPerThread); });
  ask("begin with mode 3", [&] { return cudaStreamBeginCapture(origin, cudaStreamCaptureMode(3)); });
  ask("end what did not begin", [&] { return cudaStreamEndCapture(origin, &graph); });
  ask("begin", [&] { return cudaStreamBeginCapture(origin, global); });
  ask("end, nothing captured", [&] { return end_of(origin); });
  CHECK(cudaStreamBeginCapture(origin, global));
  std::thread([&] { ask("end in another thread", [&] { return cudaStreamEndCapture(origin, &graph); }); }).join();
  ask("  status", [&] { return status_of(origin); });
  ask("  end here", [&] { return end_of(origin); });
  CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeRelaxed));
  std::thread([&] { ask("relaxed, end in another thread", [&] { return end_of(origin); }); }).join();
}

SECTION("forks") {
  cudaGraph_t graph;
  void* more;
  section("fork and join");
  const auto fork_it = [&] {
    CHECK(cudaStreamBeginCapture(origin, global));
    store<<<1, 1, 0, origin>>>(there, 1);
    CHECK(cudaEventRecord(captured, origin));
    CHECK(cudaStreamWaitEvent(fork_, captured, 0));
  };
  fork_it();
  ask("forked, status", [&] { return status_of(fork_); });
  ask("end, nothing put in there", [&] { return end_of(origin); });
  fork_it();
  store<<<1, 1, 0, fork_>>>(there, 2);
  ask("end, not joined", [&] { return end_of(origin); });
  ask("  status", [&] { return status_of(fork_); });
  fork_it();
  ask("end in the forked stream", [&] { return cudaStreamEndCapture(fork_, &graph); });
  ask("  status", [&] { return status_of(origin); });
  ask("  end", [&] { return end_of(origin); });
  fork_it();
  store<<<1, 1, 0, fork_>>>(there, 2);
  CHECK(cudaEventRecord(outside, fork_));
  CHECK(cudaStreamWaitEvent(origin, outside, 0));
  ask("joined, end", [&] { return end_of(origin); });
  CHECK(cudaEventRecord(outside, alone));
  fork_it();
  store<<<1, 1, 0, fork_>>>(there, 2);
  ask("destroy the forked stream", [&] { return cudaStreamDestroy(fork_); });
  ask("  end", [&] { return end_of(origin); });
  CHECK(cudaStreamCreateWithFlags(&fork_, cudaStreamNonBlocking));
  CHECK(cudaStreamBeginCapture(fork_, global));
  ask("destroy the stream that captures", [&] { return cudaStreamDestroy(fork_); });
  ask("  allocate then", [&] { return cudaMalloc(&more, 4); });
  CHECK(cudaStreamCreateWithFlags(&fork_, cudaStreamNonBlocking));
  CHECK(cudaStreamBeginCapture(origin, global));
  CHECK(cudaStreamBeginCapture(alone, global));
  CHECK(cudaEventRecord(captured, alone));
  ask("wait for another capture", [&] { return cudaStreamWaitEvent(origin, captured, 0); });
  ask("  end", [&] { return end_of(origin); });
  ask("  end the other", [&] { return end_of(alone); });
}

SECTION("mistakes") {
  void* more;
  section("when it is invalid");
  CHECK(cudaStreamBeginCapture(origin, global));
  CHECK(cudaEventRecord(captured, origin));
  cudaStreamSynchronize(origin);
  ask("launch", [&] { return name(launched((const void*)seldom, origin)); });
  ask("launch in another stream", [&] { return name(launched((const void*)seldom, alone)); });
  ask("allocate", [&] { return cudaMalloc(&more, 4); });
  ask("record", [&] { return cudaEventRecord(captured, origin); });
  ask("wait elsewhere", [&] { return cudaStreamWaitEvent(fork_, captured, 0); });
  ask("query", [&] { return cudaStreamQuery(origin); });
  ask("end", [&] { return end_of(origin); });

  section("an event when its capture has ended");
  CHECK(cudaStreamBeginCapture(origin, global));
  CHECK(cudaEventRecord(captured, origin));
  ask("end", [&] { return end_of(origin); });
  ask("query", [&] { return cudaEventQuery(captured); });
  ask("synchronise", [&] { return cudaEventSynchronize(captured); });
  ask("wait", [&] { return cudaStreamWaitEvent(alone, captured, 0); });
  CHECK(cudaStreamBeginCapture(origin, global));
  ask("wait in a capture", [&] { return cudaStreamWaitEvent(origin, captured, 0); });
  ask("end", [&] { return end_of(origin); });
  ask("record again", [&] { return cudaEventRecord(captured, alone); });
  ask("synchronise", [&] { return cudaEventSynchronize(captured); });
  cudaStreamCaptureStatus is;
  CHECK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
  ask("ask stream 0 while a blocking one captures", [&] { return cudaStreamIsCapturing(nullptr, &is); });
  ask("  status", [&] { return status_of(blocking); });
  ask("  end", [&] { return end_of(blocking); });
  cudaGetLastError();
}

// --- Nodes -----------------------------------------------------------------------------------------------------------

static cudaGraphNode_t node;
static cudaError_t add_kernel(cudaGraph_t graph, unsigned grid, unsigned block, unsigned shared,
                              const std::vector<cudaGraphNode_t>& after) {
  int value = 5;
  void* pointers[] = {&there, &value};
  cudaKernelNodeParams params = {(void*)store, dim3(grid), dim3(block), shared, pointers, nullptr};
  return cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &params);
}
static cudaError_t add_seldom(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& after) {
  void* pointers[] = {&there};
  cudaKernelNodeParams params = {(void*)seldom, dim3(1), dim3(1), 0, pointers, nullptr};
  return cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &params);
}
static cudaError_t add_memset(cudaGraph_t graph, void* to, unsigned element, size_t width, size_t height,
                              size_t pitch = 512) {
  const cudaMemsetParams params = {to, pitch, 1, element, width, height};
  return cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &params);
}
static cudaError_t add_copy(cudaGraph_t graph, void* to, const void* from, size_t size,
                            cudaMemcpyKind kind = cudaMemcpyDefault) {
  return cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, to, from, size, kind);
}

SECTION("nodes") {
  cudaGraph_t graph, other;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphCreate(&other, 0));
  section("nodes");
  ask("create with flags", [&] { return cudaGraphCreate(&graph, 1); });
  ask("kernel", [&] { return add_kernel(graph, 1, 1, 0, {}); });
  const cudaGraphNode_t first = node;
  ask("kernel, grid 0", [&] { return add_kernel(graph, 0, 1, 0, {}); });
  ask("kernel, block 2048", [&] { return add_kernel(graph, 1, 2048, 0, {}); });
  ask("kernel, 64 KiB shared", [&] { return add_kernel(graph, 1, 1, 65536, {}); });
  ask("kernel, behind one twice", [&] { return add_kernel(graph, 1, 1, 0, {first, first}); });
  ask("kernel, behind null", [&] { return add_kernel(graph, 1, 1, 0, {nullptr}); });
  ask("kernel, behind another graph's", [&] { return add_kernel(other, 1, 1, 0, {first}); });
  ask("memset", [&] { return add_memset(graph, there, 4, 16, 1); });
  ask("memset, 3 bytes", [&] { return add_memset(graph, there, 3, 16, 1); });
  ask("memset, nothing", [&] { return add_memset(graph, there, 4, 0, 1); });
  ask("memset, past the end", [&] { return add_memset(graph, there, 4, 1 << 20, 1); });
  ask("memset, of the host", [&] { return add_memset(graph, home, 1, 4, 1); });
  ask("memset, open to nobody", [&] { return add_memset(graph, (void*)(room + page), 4, 4, 1); });
  ask("memset, nothing mapped", [&] { return add_memset(graph, (void*)(room + 3 * page), 4, 4, 1); });
  ask("copy", [&] { return add_copy(graph, there, spare, 16); });
  ask("copy, pageable", [&] { return add_copy(graph, there, home, 16); });
  ask("copy, wrong direction", [&] { return add_copy(graph, there, spare, 16, cudaMemcpyHostToDevice); });
  ask("copy, nothing", [&] { return add_copy(graph, there, spare, 0); });
  ask("copy, open to nobody",
      [&] { return add_copy(graph, (void*)(room + page), there, 16, cudaMemcpyDeviceToDevice); });
  ask("copy, nothing mapped",
      [&] { return add_copy(graph, (void*)(room + 3 * page), there, 16, cudaMemcpyDeviceToDevice); });
  ask("copy, of the host by its kind", [&] { return add_copy(graph, home, spare, 16, cudaMemcpyDeviceToDevice); });
  const cudaHostNodeParams none = {nullptr, nullptr};
  ask("host function, null", [&] { return cudaGraphAddHostNode(&node, graph, nullptr, 0, &none); });
  ask("event, null", [&] { return cudaGraphAddEventRecordNode(&node, graph, nullptr, 0, nullptr); });
  ask("an empty graph", [&] { return cudaGraphAddChildGraphNode(&node, graph, nullptr, 0, other); });
  size_t count = 2;
  cudaGraphNode_t two[3] = {nullptr, nullptr, first};
  ask("nodes, room for 2", [&] { return cudaGraphGetNodes(graph, two, &count); });
  say("  count, third untouched", std::to_string(count) + ", " + yes(two[2] == first));
  ask("a node behind itself", [&] { return cudaGraphAddDependencies(graph, &first, &first, nullptr, 1); });
  ask("an edge", [&] { return cudaGraphAddDependencies(graph, &first, two + 1, nullptr, 1); });
  ask("the edge again", [&] { return cudaGraphAddDependencies(graph, &first, two + 1, nullptr, 1); });
  ask("the edge back", [&] { return cudaGraphAddDependencies(graph, two + 1, &first, nullptr, 1); });
  cudaGraphInstantiateParams all = {};
  cudaGraphExec_t exec;
  ask("instantiate a circle", [&] { return cudaGraphInstantiateWithParams(&exec, graph, &all); });
  say("  result, node", std::to_string(all.result_out) + ", " + yes(all.errNode_out));
  ask("remove the edge back", [&] { return cudaGraphRemoveDependencies(graph, two + 1, &first, nullptr, 1); });
  ask("remove it again", [&] { return cudaGraphRemoveDependencies(graph, two + 1, &first, nullptr, 1); });
  cudaKernelNodeParams params;
  ask("parameters of a copy as a kernel's", [&] { return cudaGraphKernelNodeGetParams(node, &params); });
  ask("parameters of a kernel", [&] { return cudaGraphKernelNodeGetParams(first, &params); });
  say("  are store's, with 5",
      yes(params.func == (void*)store && params.kernelParams && *(int*)params.kernelParams[1] == 5));
}

SECTION("instantiations") {
  cudaGraph_t other;
  cudaGraphExec_t exec;
  cudaGraphInstantiateParams all = {};
  CHECK(cudaGraphCreate(&other, 0));
  section("instantiation");
  for (const unsigned flags : {0u, 1u, 2u, 4u, 5u, 8u, 16u}) {
    ask("of no nodes, flags " + std::to_string(flags), [&] { return cudaGraphInstantiate(&exec, other, flags); });
    CHECK(cudaGraphInstantiate(&exec, small, 0));
    ask("of a kernel, flags " + std::to_string(flags), [&] { return cudaGraphInstantiate(&exec, small, flags); });
    unsigned long long is = 99;
    ask("  its flags", [&] { return cudaGraphExecGetFlags(exec, &is); });
    say("  are", std::to_string(is));
  }
  CHECK(cudaGraphAddEmptyNode(&node, other, nullptr, 0));
  all = {};
  all.flags = 4;
  ask("of an empty node, for launches by kernels", [&] { return cudaGraphInstantiateWithParams(&exec, other, &all); });
  say("  result, node", std::to_string(all.result_out) + ", " + yes(all.errNode_out));
  all = {};
  all.flags = 2;
  all.uploadStream = alone;
  ask("with an upload", [&] { return cudaGraphInstantiateWithParams(&exec, small, &all); });
  unsigned long long is = 99;
  ask("  its flags", [&] { return cudaGraphExecGetFlags(exec, &is); });
  say("  are", std::to_string(is));
  ask("destroy a null graph", [&] { return cudaGraphDestroy(nullptr); });
  ask("destroy a null executable one", [&] { return cudaGraphExecDestroy(nullptr); });
  ask("launch a null one", [&] { return cudaGraphLaunch(nullptr, alone); });
}

SECTION("changes") {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaGraphCreate(&graph, 0));
  add_kernel(graph, 1, 1, 0, {});
  const cudaGraphNode_t kernel = node;
  add_memset(graph, there, 4, 16, 1);
  const cudaGraphNode_t line = node;
  add_memset(graph, (void*)room, 4, 16, 2);
  const cudaGraphNode_t box = node;
  add_copy(graph, there, spare, 16, cudaMemcpyDeviceToDevice);
  const cudaGraphNode_t copy = node;
  const cudaHostNodeParams host = {nothing, nullptr};
  CHECK(cudaGraphAddHostNode(&node, graph, nullptr, 0, &host));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  section("changes of an executable graph");
  const auto fill = [&](const char* what, cudaGraphNode_t which, void* to, unsigned element, size_t width,
                        size_t height, size_t pitch = 512) {
    const cudaMemsetParams params = {to, pitch, 2, element, width, height};
    ask(what, [&] { return cudaGraphExecMemsetNodeSetParams(exec, which, &params); });
  };
  fill("memset elsewhere", line, spare, 4, 16, 1);
  fill("memset, wider", line, there, 4, 64, 1);
  fill("memset, bytes", line, there, 1, 16, 1);
  fill("memset, two rows", line, there, 4, 4, 2);
  fill("memset, nothing", line, there, 4, 0, 1);
  fill("memset, of pinned memory", line, pinned, 4, 16, 1);
  fill("memset, VMM memory", line, (void*)room, 4, 16, 1);
  fill("memset, nothing mapped", line, (void*)(room + 3 * page), 4, 16, 1);
  fill("box elsewhere", box, (void*)(room + 4096), 4, 16, 2);
  fill("box, wider", box, (void*)room, 4, 32, 2);
  fill("box, one row", box, (void*)room, 4, 16, 1);
  const auto move = [&](const char* what, void* to, const void* from, size_t size, cudaMemcpyKind kind) {
    ask(what, [&] { return cudaGraphExecMemcpyNodeSetParams1D(exec, copy, to, from, size, kind); });
  };
  move("copy more", there, spare, 64, cudaMemcpyDeviceToDevice);
  move("copy by default", there, spare, 16, cudaMemcpyDefault);
  move("copy nothing", there, spare, 0, cudaMemcpyDeviceToDevice);
  move("copy from pinned memory", there, pinned, 16, cudaMemcpyHostToDevice);
  move("copy from pageable memory", there, home, 16, cudaMemcpyHostToDevice);
  move("copy from VMM memory", there, (void*)room, 16, cudaMemcpyDeviceToDevice);
  move("copy to VMM memory", (void*)room, spare, 16, cudaMemcpyDeviceToDevice);
  move("copy from where nothing is mapped", there, (void*)(room + 3 * page), 16, cudaMemcpyDeviceToDevice);
  const std::pair<const char*, cudaGraphNode_t> switched[] = {
      {"a kernel", kernel}, {"a memset", line}, {"a host function", node}};
  for (const auto& each : switched) {
    const cudaGraphNode_t which = each.second;
    unsigned enabled = 9;
    ask(std::string("switch off ") + each.first, [&] { return cudaGraphNodeSetEnabled(exec, which, 0); });
    ask("  ask", [&] { return cudaGraphNodeGetEnabled(exec, which, &enabled); });
    say("  it is", std::to_string(enabled));
  }
  ask("a kernel as a host function", [&] { return cudaGraphExecHostNodeSetParams(exec, kernel, &host); });
  size_t count = 1;
  cudaGraphNode_t others;
  CHECK(cudaGraphGetNodes(small, &others, &count));
  ask("another graph's node", [&] { return cudaGraphNodeSetEnabled(exec, others, 0); });
  ask("launch", [&] { return cudaGraphLaunch(exec, alone); });
  ask("synchronise", [&] { return cudaStreamSynchronize(alone); });
}

SECTION("updates") {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  section("updates");
  cudaGraphExecUpdateResultInfo info;
  const auto update = [&](const char* what, const std::function<void(cudaGraph_t)>& build) {
    cudaGraph_t with;
    CHECK(cudaGraphCreate(&with, 0));
    build(with);
    info = {};
    ask(what, [&] { return cudaGraphExecUpdate(exec, with, &info); });
    say("  result, node, from",
        std::to_string(info.result) + ", " + yes(info.errorNode) + ", " + yes(info.errorFromNode));
  };
  CHECK(cudaGraphCreate(&graph, 0));
  add_kernel(graph, 1, 1, 0, {});
  add_kernel(graph, 1, 1, 0, {node});
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  update("the same", [](cudaGraph_t it) { add_kernel(it, 1, 1, 0, {}), add_kernel(it, 1, 1, 0, {node}); });
  update("other shapes", [](cudaGraph_t it) { add_kernel(it, 4, 32, 0, {}), add_kernel(it, 2, 1, 0, {node}); });
  update("no edge", [](cudaGraph_t it) { add_kernel(it, 1, 1, 0, {}), add_kernel(it, 1, 1, 0, {}); });
  update("one node", [](cudaGraph_t it) { add_kernel(it, 1, 1, 0, {}); });
  update("another type", [](cudaGraph_t it) { add_memset(it, there, 4, 1, 1), add_kernel(it, 1, 1, 0, {node}); });
  update("another kernel", [](cudaGraph_t it) { add_kernel(it, 1, 1, 0, {}), add_seldom(it, {node}); });
  update("one node more", [](cudaGraph_t it) {
    add_kernel(it, 1, 1, 0, {}), add_kernel(it, 1, 1, 0, {node}), add_kernel(it, 1, 1, 0, {});
  });
  update("the nodes the other way round", [](cudaGraph_t it) {
    add_kernel(it, 1, 1, 0, {});
    const cudaGraphNode_t second = node;
    add_kernel(it, 1, 1, 0, {});
    CHECK(cudaGraphAddDependencies(it, &node, &second, nullptr, 1));
  });
}

// --- Graphs and memory -----------------------------------------------------------------------------------------------

static void launch(const char* what, cudaGraphExec_t exec) {
  ask(what, [&] {
    const cudaError_t answer = cudaGraphLaunch(exec, alone), after = cudaStreamSynchronize(alone);
    return name(answer) + ", then " + name(after) + ", " + std::to_string(pinned[0]);
  });
}

// The last questions of a process: what follows a fault is not asked.
static void faults(const std::string& part) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaGraphCreate(&graph, 0));
  void *to = (void*)room, *from = there;
  int value = 5;
  void* pointers[] = {&to, &value};
  cudaKernelNodeParams params = {(void*)store, dim3(1), dim3(1), 0, pointers, nullptr};
  if (part == "kernel") CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params));
  if (part == "memset") add_memset(graph, to, 4, 16, 1);
  if (part == "copy") add_copy(graph, to, from, 16, cudaMemcpyDeviceToDevice);
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cuMemUnmap(room, page));
  launch((part + " where nothing is mapped any more").c_str(), exec);
}

SECTION("order") {
  section("when a copy reads pageable memory");
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  home[0] = 1;
  CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  CHECK(cudaMemcpyAsync(there, home, 4, cudaMemcpyHostToDevice, origin));
  CHECK(cudaMemcpyAsync(pinned, there, 4, cudaMemcpyDeviceToHost, origin));
  CHECK(cudaStreamEndCapture(origin, &graph));
  home[0] = 2;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  home[0] = 3;
  launch("captured 1, instantiated 2, launched 3", exec);
  section("events in nodes");
  cudaGraphNode_t first;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddEventRecordNode(&first, graph, nullptr, 0, never));
  ask("query before a launch", [&] { return cudaEventQuery(never); });
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  launch("launch", exec);
  ask("query then", [&] { return cudaEventQuery(never); });
  cudaEvent_t found;
  ask("the event of another type", [&] { return cudaGraphEventWaitNodeGetEvent(first, &found); });
  section("types of captured nodes");
  CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  store<<<1, 1, 0, origin>>>(there, 1);
  CHECK(cudaMemsetAsync(there, 0, 4, origin));
  CHECK(cudaMemcpyAsync(there, spare, 4, cudaMemcpyDefault, origin));
  CHECK(cudaLaunchHostFunc(origin, nothing, nullptr));
  CHECK(cudaEventRecordWithFlags(outside, origin, cudaEventRecordExternal));
  CHECK(cudaStreamWaitEvent(origin, outside, cudaEventWaitExternal));
  CHECK(cuStreamWriteValue32(origin, CUdeviceptr(there), 3, 0));
  CHECK(cudaStreamEndCapture(origin, &graph));
  cudaGraphNode_t all[8];
  size_t count = 8;
  CHECK(cudaGraphGetNodes(graph, all, &count));
  for (size_t i = 0; i < count; ++i) {
    ask("type", [&] {
      cudaGraphNodeType type;
      const cudaError_t answer = cudaGraphNodeGetType(all[i], &type);
      return answer ? name(answer) : std::to_string(type);
    });
  }
}

// Each part has a process of its own.
SECTION("growing") {
  section("a buffer that grows under a graph");
  size_t* count;
  CHECK(cudaMallocHost(&count, sizeof *count));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  const auto set = [&](int at, int value) {
    CHECK(cuMemsetD32(room + at * page, value, page / 4));
    CHECK(cudaDeviceSynchronize());
  };
  CHECK(cuMemUnmap(room + page, page));
  set(0, 1);
  *count = 1;
  CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  sum<<<1, 1, 0, origin>>>(there, (const int*)room, count);
  CHECK(cudaMemcpyAsync(pinned, there, 4, cudaMemcpyDeviceToHost, origin));
  CHECK(cudaStreamEndCapture(origin, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  launch("one page", exec);
  map_new(room + page, page);
  set(1, 20);
  *count = 2;
  launch("a second one", exec);
  map_new(room + 2 * page, 2 * page);
  set(2, 300);
  set(3, 4000);
  *count = 4;
  launch("two more", exec);
  CHECK(cuMemUnmap(room + page, page));
  map_new(room + page, page);
  set(1, 50);
  launch("other memory under the second page", exec);
  CHECK(cuMemUnmap(room + page, 3 * page));
  *count = 1;
  launch("one page again", exec);

  section("a memset and a copy of what is mapped anew");
  CHECK(cudaGraphCreate(&graph, 0));
  map_new(room + page, page);
  set(1, 7);
  ask("memset", [&] { return add_memset(graph, (void*)(room + page), 4, 16, 1); });
  const cudaGraphNode_t before = node;
  CHECK(cudaGraphAddMemcpyNode1D(&node, graph, &before, 1, pinned, (void*)(room + page), 64, cudaMemcpyDeviceToHost));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  launch("launch", exec);
  CHECK(cuMemUnmap(room + page, page));
  map_new(room + page, page);
  pinned[0] = 0;
  launch("other memory there", exec);
  ask("instantiate again", [&] { return cudaGraphInstantiate(&exec, graph, 0); });
  pinned[0] = 0;
  launch("launch", exec);
}

static const char* const faulting[] = {"kernel", "memset", "copy"};

int main(int argc, char** argv) {
  const std::string part = argc > 1 ? argv[1] : "";
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc > 1) alarm(60);
  for (const Section& each : sections())
    if (part == each.name) return note_crashes(argv[2]), set_up(), each.run(), 0;
  for (const char* each : faulting)
    if (part == each) return note_crashes(argv[2]), set_up(), faults(part), 0;
  if (argc > 2) return calls_in_capture(part, std::stoi(argv[2])), 0;
  check::require_gpus(1);
  for (const char* each : {"global", "relaxed", "blocking"}) {
    section((std::string("calls in a capture: ") + each).c_str());
    ask_through_crashes(each);
  }
  for (const Section& each : sections()) run_part(each.name);
  section("memory that is gone");
  for (const char* each : faulting) run_part(each);
}
