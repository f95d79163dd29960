// SPDX-License-Identifier: MIT-0
// Stream capture as the documentation has it: what becomes a node, how streams take part, and what must not be called
// meanwhile.
#include "check.h"

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

__global__ void append(int* list, int value) { list[atomicAdd(list, 1) + 1] = value; }
__global__ void add(int* to, int value) { atomicAdd(to, value); }

int* numbers;                                  // of the host and of the GPU
cudaStream_t origin, forked, alone, blocking;  // all but the last are non-blocking
cudaEvent_t event, back, outside;

void clear() { std::memset(numbers, 0, 64 * sizeof *numbers); }
std::string listed() {
  std::string all;
  for (int i = 1; i <= numbers[0]; ++i) all += std::to_string(numbers[i]) + " ";
  return all;
}
void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal, cudaStream_t stream = origin) {
  CHECK(cudaStreamBeginCapture(stream, mode));
}
cudaGraph_t end(cudaStream_t stream = origin) {
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(stream, &graph));
  EXPECT(graph, "no graph");
  return graph;
}
size_t nodes_of(cudaGraph_t graph) {
  size_t count = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  return count;
}
size_t edges_of(cudaGraph_t graph) {
  size_t count = 0;
  CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  return count;
}
void run(cudaGraph_t graph, bool keep = false) {
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, alone));
  CHECK(cudaStreamSynchronize(alone));
  CHECK(cudaGraphExecDestroy(exec));
  if (!keep) CHECK(cudaGraphDestroy(graph));
}
cudaStreamCaptureStatus status(cudaStream_t stream = origin) {
  cudaStreamCaptureStatus status;
  CHECK(cudaStreamIsCapturing(stream, &status));
  return status;
}

// One stream forks, another joins it again.
void test_fork_and_join() {
  clear();
  begin();
  append<<<1, 1, 0, origin>>>(numbers, 1);
  CHECK(cudaEventRecord(event, origin));
  CHECK(cudaStreamWaitEvent(forked, event, 0));
  EXPECT(status(forked) == cudaStreamCaptureStatusActive, "the other stream does not capture");
  add<<<1, 1, 0, forked>>>(numbers + 40, 5);
  add<<<1, 1, 0, origin>>>(numbers + 41, 6);
  CHECK(cudaEventRecord(back, forked));
  CHECK(cudaStreamWaitEvent(origin, back, 0));
  append<<<1, 1, 0, origin>>>(numbers, 2);
  const cudaGraph_t graph = end();
  EXPECT(status(forked) == cudaStreamCaptureStatusNone, "the other stream captures on");
  EXPECT(nodes_of(graph) == 4 && edges_of(graph) == 4, "%zu nodes, %zu edges", nodes_of(graph), edges_of(graph));
  EXPECT(numbers[0] == 0, "it was executed");
  run(graph);
  EXPECT(listed() == "1 2 " && numbers[40] == 5 && numbers[41] == 6, "%s", listed().c_str());
}

// Everything that can be captured.
void test_nodes() {
  static int home[4], there_value = 0;
  int* there;
  CHECK(cudaMalloc(&there, sizeof home));
  const cudaStream_t stream = origin;
  clear();
  there_value = 1;
  begin();
  CHECK(cudaMemsetAsync(there, 0, sizeof home, stream));
  CHECK(cudaMemcpyAsync(there + 1, &there_value, sizeof(int), cudaMemcpyHostToDevice, stream));  // when it is launched
  CHECK(cudaMemcpyAsync(home, there, sizeof home, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaLaunchHostFunc(stream, [](void* list) { static_cast<int*>(list)[3] = 9; }, home));
  append<<<1, 1, 0, stream>>>(numbers, 7);
  CHECK(cudaEventRecordWithFlags(outside, stream, cudaEventRecordExternal));
  CHECK(cudaStreamWaitEvent(stream, outside, cudaEventWaitExternal));
  CHECK(cuStreamWriteValue32(stream, CUdeviceptr(numbers + 50), 3, 0));
  const cudaGraph_t graph = end();
  there_value = 2;
  cudaGraphNode_t nodes[8];
  size_t count = 8;
  CHECK(cudaGraphGetNodes(graph, nodes, &count));
  const cudaGraphNodeType types[] = {cudaGraphNodeTypeMemset,   cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeMemcpy,
                                     cudaGraphNodeTypeHost,     cudaGraphNodeTypeKernel, cudaGraphNodeTypeEventRecord,
                                     cudaGraphNodeTypeWaitEvent};
  EXPECT(count == 8, "%zu nodes", count);
  for (int i = 0; i < 7; ++i) {
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(nodes[i], &type));
    EXPECT(type == types[i], "node %d has type %d", i, type);
  }
  run(graph);
  EXPECT(home[0] == 0 && home[1] == 2 && home[2] == 0 && home[3] == 9, "%d %d %d %d", home[0], home[1], home[2],
         home[3]);
  EXPECT(listed() == "7 " && numbers[50] == 3, "%s, %d", listed().c_str(), numbers[50]);
  CHECK(cudaEventSynchronize(outside));
  CHECK(cudaFree(there));
}

// A call that must not be made: its answer, and the capture is invalid.
void forbidden(const char* what, cudaError_t answer, const std::function<cudaError_t()>& call) {
  begin();
  append<<<1, 1, 0, origin>>>(numbers, 1);
  CHECK(cudaEventRecord(event, origin));
  const cudaError_t got = call();
  EXPECT(got == answer, "%s answers %s", what, cudaGetErrorName(got));
  EXPECT(status() == cudaStreamCaptureStatusInvalidated, "%s: status %d", what, status());
  append<<<1, 1, 0, origin>>>(numbers, 1);
  EXPECT(cudaGetLastError() == cudaErrorStreamCaptureInvalidated, "%s: launch", what);
  cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(1);
  const cudaError_t ended = cudaStreamEndCapture(origin, &graph);
  EXPECT(ended == cudaErrorStreamCaptureInvalidated && !graph, "%s: end answers %s", what, cudaGetErrorName(ended));
  EXPECT(status() == cudaStreamCaptureStatusNone, "%s: it captures on", what);
  cudaGetLastError();
}

void test_forbidden() {
  static cudaGraphExec_t more_exec;
  void *memory, *more;
  CHECK(cudaMalloc(&memory, 4));
  const cudaError_t unsupported = cudaErrorStreamCaptureUnsupported;
  begin();
  append<<<1, 1, 0, origin>>>(numbers, 1);
  const cudaGraph_t graph = end();
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  forbidden("cudaGraphLaunch", unsupported, [=] { return cudaGraphLaunch(exec, origin); });
  forbidden("cudaGraphInstantiate", unsupported, [=] { return cudaGraphInstantiate(&more_exec, graph, 0); });
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  forbidden("cudaStreamSynchronize", unsupported, [] { return cudaStreamSynchronize(origin); });
  forbidden("cudaStreamQuery", unsupported, [] { return cudaStreamQuery(origin); });
  forbidden("cudaDeviceSynchronize", unsupported, [] { return cudaDeviceSynchronize(); });
  forbidden("cudaMalloc", unsupported, [&] { return cudaMalloc(&more, 4); });
  forbidden("cudaFree", unsupported, [&] { return cudaFree(memory); });
  forbidden("cudaMallocHost", unsupported, [&] { return cudaMallocHost(&more, 4); });
  forbidden("cudaEventQuery", cudaErrorCapturedEvent, [] { return cudaEventQuery(event); });
  forbidden("cudaEventSynchronize", cudaErrorCapturedEvent, [] { return cudaEventSynchronize(event); });
  forbidden("cudaStreamAddCallback", unsupported,
            [] { return cudaStreamAddCallback(origin, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0); });
  CHECK(cudaEventRecord(outside, alone));
  forbidden("cudaEventQuery of another event", unsupported, [] { return cudaEventQuery(outside); });
  forbidden("wait for what was not captured", cudaErrorStreamCaptureIsolation,
            [] { return cudaStreamWaitEvent(origin, outside, 0); });
  forbidden("end in another stream", cudaErrorStreamCaptureUnmatched, [] {
    cudaGraph_t graph;
    CHECK(cudaStreamWaitEvent(forked, event, 0));
    return cudaStreamEndCapture(forked, &graph);
  });
  CHECK(cudaFree(memory));
}

// Stream 0 stands for all blocking streams, and for no others.
void test_legacy() {
  begin();
  append<<<1, 1>>>(numbers, 1);
  CHECK(cudaGetLastError());
  CHECK(cudaGraphDestroy(end()));
  REFUSED(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal));
  cudaStreamCaptureStatus answer;
  for (int i = 0; i < 2; ++i) {
    begin(cudaStreamCaptureModeRelaxed, blocking);
    REFUSED(cudaErrorStreamCaptureImplicit, cudaStreamIsCapturing(nullptr, &answer));
    EXPECT(status(blocking) == cudaStreamCaptureStatusActive, "to ask makes it invalid");
    if (i) {
      REFUSED(cudaErrorStreamCaptureImplicit, cudaMemset(numbers, 0, 4));
    } else {
      append<<<1, 1>>>(numbers, 1);
      REFUSED(cudaErrorStreamCaptureImplicit, cudaGetLastError());
    }
    EXPECT(status(blocking) == cudaStreamCaptureStatusInvalidated, "it is valid");
    cudaGraph_t graph;
    REFUSED(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(blocking, &graph));
  }
  begin(cudaStreamCaptureModeThreadLocal, cudaStreamPerThread);
  append<<<1, 1, 0, cudaStreamPerThread>>>(numbers, 1);
  const cudaGraph_t graph = end(cudaStreamPerThread);
  EXPECT(nodes_of(graph) == 1, "%zu nodes", nodes_of(graph));
  CHECK(cudaGraphDestroy(graph));
  cudaGetLastError();
}

// What is not freed can be used, and freed later.
void test_refused_free() {
  void *of_pool, *of_node;
  CHECK(cudaMallocAsync(&of_pool, 1024, alone));
  begin();
  CHECK(cudaMallocAsync(&of_node, 1024, origin));
  run(end());
  for (void* const memory : {of_pool, of_node}) {
    begin(cudaStreamCaptureModeRelaxed, blocking);
    REFUSED(cudaErrorStreamCaptureImplicit, cudaFreeAsync(memory, nullptr));
    cudaGraph_t graph;
    REFUSED(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(blocking, &graph));
    CHECK(cudaMemsetAsync(memory, 0, 1024, alone));
    CHECK(cudaFreeAsync(memory, alone));
  }
  CHECK(cudaStreamSynchronize(alone));
  cudaGetLastError();
}

void test_ends() {
  cudaGraph_t graph;
  REFUSED(cudaErrorIllegalState, cudaStreamEndCapture(origin, &graph));
  begin();
  REFUSED(cudaErrorIllegalState, cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  CHECK(cudaGraphDestroy(end()));

  begin();  // another stream takes part, and is left behind
  CHECK(cudaEventRecord(event, origin));
  CHECK(cudaStreamWaitEvent(forked, event, 0));
  append<<<1, 1, 0, forked>>>(numbers, 1);
  REFUSED(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(origin, &graph));
  EXPECT(!graph && status(forked) == cudaStreamCaptureStatusNone, "the other stream captures");

  begin();  // two captures are to become one
  CHECK(cudaStreamBeginCapture(alone, cudaStreamCaptureModeGlobal));
  CHECK(cudaEventRecord(event, alone));
  REFUSED(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(origin, event, 0));
  REFUSED(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(origin, &graph));
  REFUSED(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(alone, &graph));

  begin();
  std::thread([&] { REFUSED(cudaErrorStreamCaptureWrongThread, cudaStreamEndCapture(origin, &graph)); }).join();
  EXPECT(!graph && status() == cudaStreamCaptureStatusNone, "it captures on");
  begin();
  CHECK(cudaStreamEndCapture(origin, nullptr));  // nobody wants the graph
  begin(cudaStreamCaptureModeRelaxed);
  std::thread([&] { CHECK(cudaStreamEndCapture(origin, &graph)); }).join();
  CHECK(cudaGraphDestroy(graph));
  cudaGetLastError();
}

// What is prohibited where: in the thread that captures and in another, by the modes of both.
void test_modes() {
  const cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                         cudaStreamCaptureModeRelaxed};
  void* memory;
  for (const auto of_capture : modes)
    for (const auto of_thread : modes)
      for (const bool in_other_thread : {false, true}) {
        begin(of_capture);
        const auto ask = [&] {
          cudaStreamCaptureMode mode = of_thread;
          CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
          EXPECT(mode == cudaStreamCaptureModeGlobal, "mode %d before", mode);
          const cudaError_t answer = cudaMalloc(&memory, 4);
          mode = cudaStreamCaptureModeGlobal;
          CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
          return answer;
        };
        cudaError_t answer = cudaSuccess;
        if (in_other_thread) std::thread([&] { answer = ask(); }).join();
        else answer = ask();
        const bool by_own = !in_other_thread && of_capture != cudaStreamCaptureModeRelaxed;
        const bool by_all =
            of_capture == cudaStreamCaptureModeGlobal && of_thread == cudaStreamCaptureModeGlobal && in_other_thread;
        const bool is_prohibited = of_thread != cudaStreamCaptureModeRelaxed && (by_own || by_all);
        EXPECT(answer == (is_prohibited ? cudaErrorStreamCaptureUnsupported : cudaSuccess),
               "capture %d, thread %d, other %d: %s", of_capture, of_thread, in_other_thread, cudaGetErrorName(answer));
        cudaGraph_t graph;
        const cudaError_t ended = cudaStreamEndCapture(origin, &graph);
        EXPECT(!ended != is_prohibited, "%s", cudaGetErrorName(ended));
        if (graph) CHECK(cudaGraphDestroy(graph));
        if (!answer) CHECK(cudaFree(memory));
      }
  cudaGetLastError();
}

// What a program reads of a capture, and how it changes what comes next.
void test_info() {
  cudaStreamCaptureStatus is;
  unsigned long long id = 0, again = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 9;
  CHECK(cudaStreamGetCaptureInfo(origin, &is, nullptr, nullptr, nullptr, nullptr, nullptr));
  EXPECT(is == cudaStreamCaptureStatusNone, "status %d", is);
  REFUSED(cudaErrorIllegalState, cudaStreamUpdateCaptureDependencies(origin, nullptr, nullptr, 0, 0));
  begin();
  CHECK(cudaStreamGetCaptureInfo(origin, &is, &id, &graph, &nodes, &edges, &count));
  EXPECT(is == cudaStreamCaptureStatusActive && id && graph && count == 0, "status %d, %zu nodes", is, count);
  append<<<1, 1, 0, origin>>>(numbers, 1);
  append<<<1, 1, 0, origin>>>(numbers, 2);
  CHECK(cudaStreamGetCaptureInfo(origin, &is, &again, &graph, &nodes, &edges, &count));
  EXPECT(again == id && count == 1, "id %llu, %zu nodes", again, count);
  cudaGraphNode_t by_hand;
  CHECK(cudaGraphAddEmptyNode(&by_hand, graph, nodes, 1));
  REFUSED(cudaErrorIllegalState, cudaGraphDestroyNode(by_hand));
  REFUSED(cudaErrorIllegalState, cudaGraphDestroy(graph));
  CHECK(cudaStreamUpdateCaptureDependencies(origin, &by_hand, nullptr, 1, cudaStreamSetCaptureDependencies));
  append<<<1, 1, 0, origin>>>(numbers, 3);
  EXPECT(end() == graph && nodes_of(graph) == 4 && edges_of(graph) == 3, "%zu edges", edges_of(graph));

  cudaGraphNode_t all[4];  // more behind the first node of the same graph
  CHECK(cudaGraphGetNodes(graph, all, &(count = 4)));
  CHECK(cudaStreamBeginCaptureToGraph(origin, graph, all, nullptr, 1, cudaStreamCaptureModeGlobal));
  append<<<1, 1, 0, origin>>>(numbers, 4);
  EXPECT(end() == graph && nodes_of(graph) == 5 && edges_of(graph) == 4, "%zu edges", edges_of(graph));
  clear();
  run(graph);
  EXPECT(numbers[0] == 4 && numbers[1] == 1, "%s", listed().c_str());
}

void test_destroyed_streams() {
  cudaStream_t stream;
  cudaGraph_t graph;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  begin(cudaStreamCaptureModeGlobal, stream);
  append<<<1, 1, 0, stream>>>(numbers, 1);
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaDeviceSynchronize());  // nothing captures any more
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  begin();
  CHECK(cudaEventRecord(event, origin));
  CHECK(cudaStreamWaitEvent(stream, event, 0));
  append<<<1, 1, 0, stream>>>(numbers, 1);
  CHECK(cudaStreamDestroy(stream));
  REFUSED(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(origin, &graph));
}

}  // namespace

int main() {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  CHECK(cudaMallocHost(&numbers, 64 * sizeof *numbers));
  for (cudaStream_t* each : {&origin, &forked, &alone}) CHECK(cudaStreamCreateWithFlags(each, cudaStreamNonBlocking));
  CHECK(cudaStreamCreate(&blocking));
  for (cudaEvent_t* each : {&event, &back, &outside}) CHECK(cudaEventCreate(each));
  test_fork_and_join();
  test_nodes();
  test_forbidden();
  test_legacy();
  test_refused_free();
  test_ends();
  test_modes();
  test_info();
  test_destroyed_streams();
  std::puts("OK");
}
