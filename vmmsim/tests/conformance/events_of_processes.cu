// SPDX-License-Identifier: MIT-0
// Events of several processes: their handles, who waits for what, and what is refused.
#include "conformance.h"

#include <cstdint>

#include <sys/socket.h>

static const long patience = 20000000000;  // nanoseconds a kernel waits

__global__ void wait_for(volatile int* words) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (!words[0] && long(now - begin) < patience);
  words[1] = words[0];
}
__global__ void set(volatile int* word, int value) { *word = value; }

// --- the socket to the other process
static int peer;
struct Message {
  char word;
  cudaIpcEventHandle_t event;
};
static void send(char word, Message message = {}) {
  message.word = word;
  std::fflush(stdout);
  EXPECT(::send(peer, &message, sizeof message, MSG_NOSIGNAL) == sizeof message, "nobody is there");
}
static Message receive(char word) {
  Message got = {};
  const ssize_t bytes = recv(peer, &got, sizeof got, 0);
  EXPECT(bytes == sizeof got && got.word == word, "waited for '%c', got '%c'", word, got.word);
  return got;
}
static void end(const char* who, pid_t child) {
  const std::string how = end_of(child);
  close(peer);
  say(who, how);
}

static volatile int* shared_words() {
  int* words;
  CHECK(cudaMallocHost(&words, 2 * sizeof *words));
  words[0] = words[1] = 0;
  return words;
}
static cudaStream_t new_stream() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}
static cudaEvent_t new_event(unsigned flags = cudaEventInterprocess | cudaEventDisableTiming) {
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, flags));
  return event;
}

// --- turns of two processes with the same memory, on the GPU that is current
struct Turns {
  int socket;  // to the other process
  cudaStream_t stream;
  cudaEvent_t event;
};

// One process makes the event, and sends its handle once: 64 plain bytes.
static Turns offer_turns(int socket, cudaStream_t stream) {
  cudaEvent_t event;
  cudaIpcEventHandle_t handle;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
  CHECK(cudaIpcGetEventHandle(&handle, event));
  EXPECT(::send(socket, &handle, sizeof handle, MSG_NOSIGNAL) == sizeof handle, "the other process has ended");
  return {socket, stream, event};
}

// The other one opens it.
static Turns accept_turns(int socket, cudaStream_t stream) {
  cudaEvent_t event;
  cudaIpcEventHandle_t handle;
  EXPECT(recv(socket, &handle, sizeof handle, MSG_WAITALL) == sizeof handle, "the other process has ended");
  CHECK(cudaIpcOpenEventHandle(&event, handle));
  return {socket, stream, event};
}

// "Your turn": behind what this stream does until now. The byte says that the event is recorded.
static void hand_over(const Turns& turns) {
  CHECK(cudaEventRecord(turns.event, turns.stream));
  EXPECT(::send(turns.socket, "", 1, MSG_NOSIGNAL) == 1, "the other process has ended");
}

// Waits for the byte, and for no GPU. What this stream gets from now on runs when the other's work is done.
static void take_over(const Turns& turns) {
  char recorded;
  EXPECT(recv(turns.socket, &recorded, 1, 0) == 1, "the other process has ended");
  CHECK(cudaStreamWaitEvent(turns.stream, turns.event));
}

__global__ void add(int* number, int summand) { *number += summand; }
__global__ void multiply(int* number, int factor) { *number *= factor; }

static void begin(const Turns& turns, int* number, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    add<<<1, 1, 0, turns.stream>>>(number, 1);
    CHECK(cudaGetLastError());
    hand_over(turns);
    take_over(turns);
  }
  CHECK(cudaStreamSynchronize(turns.stream));  // the only wait for a GPU, at the end
}
static void follow(const Turns& turns, int* number, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    take_over(turns);
    multiply<<<1, 1, 0, turns.stream>>>(number, 2);
    CHECK(cudaGetLastError());
    hand_over(turns);
  }
  CHECK(cudaStreamSynchronize(turns.stream));
}

// Says nothing if all is well: what it asks is asked elsewhere.
static void maker_of_turns() {
  const pid_t child = start_in_role("turns", &peer);
  int *number, found = -1;
  cudaIpcMemHandle_t memory;
  CHECK(cudaMalloc(&number, sizeof *number));
  CHECK(cudaMemset(number, 0, sizeof *number));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaIpcGetMemHandle(&memory, number));
  EXPECT(::send(peer, &memory, sizeof memory, MSG_NOSIGNAL) == sizeof memory, "nobody is there");
  const Turns turns = offer_turns(peer, new_stream());
  begin(turns, number, 3);
  CHECK(cudaMemcpy(&found, number, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == 14, "0 plus 1 times 2, three times, is not %d", found);
  receive('x');  // who opened it has destroyed it
  CHECK(cudaEventDestroy(turns.event));
  CHECK(cudaFree(number));
  const std::string how = end_of(child);
  EXPECT(how == "exit 0", "%s", how.c_str());
  close(peer);
}
static void opener_of_turns() {
  int* number;
  cudaIpcMemHandle_t memory;
  EXPECT(recv(peer, &memory, sizeof memory, MSG_WAITALL) == sizeof memory, "nobody is there");
  CHECK(cudaIpcOpenMemHandle(reinterpret_cast<void**>(&number), memory, cudaIpcMemLazyEnablePeerAccess));
  const Turns turns = accept_turns(peer, new_stream());
  follow(turns, number, 3);
  CHECK(cudaEventDestroy(turns.event));
  CHECK(cudaIpcCloseMemHandle(number));
  send('x');
}

static void event_errors() {
  section("what is refused");
  cudaEvent_t event = nullptr, opened = nullptr;
  cudaIpcEventHandle_t handle = {};
  say("interprocess alone", cudaEventCreateWithFlags(&event, cudaEventInterprocess));
  say("all flags", cudaEventCreateWithFlags(&event, 7));
  CHECK(cudaEventDestroy(event));
  event = new_event(cudaEventDisableTiming);
  say("handle of an event that is not for others", cudaIpcGetEventHandle(&handle, event));
  event = new_event();
  say("handle", cudaIpcGetEventHandle(&handle, event));
  cudaIpcEventHandle_t again = {};
  say("handle again", cudaIpcGetEventHandle(&again, event));
  say("it is the same", std::memcmp(&handle, &again, sizeof handle) ? "no" : "yes");
  CUipcEventHandle drivers;
  say("the driver: handle", cuIpcGetEventHandle(&drivers, event));
  say("the driver: open in the same process", cuIpcOpenEventHandle(&opened, drivers));
  const cudaEvent_t usual = new_event(cudaEventDefault);
  float milliseconds;
  CHECK(cudaEventRecord(event));
  CHECK(cudaEventRecord(usual));
  CHECK(cudaDeviceSynchronize());
  say("elapsed time", cudaEventElapsedTime(&milliseconds, event, usual));
  say("query", cudaEventQuery(event));
  CHECK(cudaEventDestroy(event));
  say("handle of one that is destroyed", cudaIpcOpenEventHandle(&opened, handle));
  cudaGetLastError();
}
static void event_nulls() {
  section("nothing and nonsense");
  const cudaEvent_t event = new_event();
  cudaIpcEventHandle_t handle, wrong = {};
  cudaEvent_t opened = nullptr;
  CHECK(cudaIpcGetEventHandle(&handle, event));
  say("handle of null", cudaIpcGetEventHandle(&handle, nullptr));
  say("open into null", cudaIpcOpenEventHandle(nullptr, handle));
  say("open in the same process", cudaIpcOpenEventHandle(&opened, handle));
  say("open zeros", cudaIpcOpenEventHandle(&opened, wrong));
  std::memset(&wrong, 0x5a, sizeof wrong);
  say("open nonsense", cudaIpcOpenEventHandle(&opened, wrong));
  say("the driver: handle into null", cuIpcGetEventHandle(nullptr, event));
  say("the driver: handle of null", cuIpcGetEventHandle((CUipcEventHandle*)&handle, nullptr));
  cudaGetLastError();
}
// The parent makes an event and holds a stream up; the child waits for it, and the other way round.
static void event_parent() {
  section("two processes");
  const pid_t child = start_in_role("events", &peer);
  const cudaStream_t stream = new_stream();
  volatile int* const words = shared_words();
  const cudaEvent_t event = new_event();
  Message message = {};
  CHECK(cudaIpcGetEventHandle(&message.event, event));
  send('e', message);  // not yet recorded
  receive('q');
  wait_for<<<1, 1, 0, stream>>>(words);
  CHECK(cudaEventRecord(event, stream));
  send('r');  // recorded, and not reached
  receive('w');
  say("parent: query", cudaEventQuery(event));
  words[0] = 1;
  CHECK(cudaStreamSynchronize(stream));
  send('o');
  receive('s');  // the child has recorded it, behind a kernel that waits
  say("parent: query what the child recorded", cudaEventQuery(event));
  say("parent: wait for what the child recorded", cudaStreamWaitEvent(stream, event));
  volatile int* const mine = shared_words();
  set<<<1, 1, 0, stream>>>(mine, 1);
  say("parent: query the stream", cudaStreamQuery(stream));
  send('g');
  say("parent: synchronize the event", cudaEventSynchronize(event));
  CHECK(cudaStreamSynchronize(stream));
  say("parent: the kernel behind it ran", std::to_string(mine[0]));
  send('p');
  receive('x');
  say("parent: destroy", cudaEventDestroy(event));
  send('d');
  receive('z');
  end("child", child);

  section("the process that made the event goes");
  const pid_t maker = start_in_role("maker", &peer);
  const Message got = receive('e');
  cudaEvent_t opened = nullptr;
  say("open", cudaIpcOpenEventHandle(&opened, got.event));
  say("query", cudaEventQuery(opened));
  send('g');
  end("maker", maker);
  say("query when it has gone", cudaEventQuery(opened));
  say("wait", cudaStreamWaitEvent(stream, opened));
  say("record", cudaEventRecord(opened, stream));
  say("synchronize", cudaEventSynchronize(opened));
  say("destroy", cudaEventDestroy(opened));
  say("open when it has gone", cudaIpcOpenEventHandle(&opened, got.event));
  cudaGetLastError();

  maker_of_turns();
}
static void event_child() {
  const cudaStream_t stream = new_stream();
  volatile int* const words = shared_words();
  const Message got = receive('e');
  cudaEvent_t event = nullptr, second = nullptr;
  say("child: open", cudaIpcOpenEventHandle(&event, got.event));
  say("child: open again", cudaIpcOpenEventHandle(&second, got.event));
  say("child: it is another", event == second ? "no" : "yes");
  say("child: query, never recorded", cudaEventQuery(event));
  say("child: synchronize, never recorded", cudaEventSynchronize(event));
  cudaIpcEventHandle_t handle;
  say("child: handle of what it opened", cudaIpcGetEventHandle(&handle, event));
  float milliseconds;
  say("child: elapsed time", cudaEventElapsedTime(&milliseconds, event, event));
  cudaGetLastError();
  send('q');
  receive('r');
  say("child: query, recorded", cudaEventQuery(event));
  say("child: query the second", cudaEventQuery(second));
  cudaGetLastError();
  say("child: wait", cudaStreamWaitEvent(stream, event));
  set<<<1, 1, 0, stream>>>(words, 7);
  say("child: query the stream", cudaStreamQuery(stream));
  cudaGetLastError();
  send('w');
  say("child: synchronize the stream", cudaStreamSynchronize(stream));
  say("child: the kernel behind it ran", std::to_string(words[0]));
  receive('o');
  say("child: query, reached", cudaEventQuery(event));
  say("child: destroy the second", cudaEventDestroy(second));
  words[0] = words[1] = 0;
  wait_for<<<1, 1, 0, stream>>>(words);
  say("child: record", cudaEventRecord(event, stream));
  say("child: query what it recorded", cudaEventQuery(event));
  cudaGetLastError();
  send('s');
  receive('g');
  words[0] = 1;
  const cudaError_t answer = cudaEventSynchronize(event);
  receive('p');
  say("child: synchronize", answer);
  send('x');
  receive('d');
  say("child: query, destroyed by the parent", cudaEventQuery(event));
  say("child: record", cudaEventRecord(event, stream));
  say("child: synchronize", cudaEventSynchronize(event));
  say("child: open, destroyed by the parent", cudaIpcOpenEventHandle(&second, got.event));
  say("child: destroy", cudaEventDestroy(event));
  cudaGetLastError();
  send('z');
}
static void event_maker() {
  const cudaEvent_t event = new_event();
  CHECK(cudaEventRecord(event));
  CHECK(cudaEventSynchronize(event));
  Message message = {};
  CHECK(cudaIpcGetEventHandle(&message.event, event));
  send('e', message);
  receive('g');
}

int main(int argc, char** argv) {
  alarm(60);
  check::require_gpus(1);
  if (argc == 1) {
    for (const char* part : {"event errors", "event parent", "event nulls"})
      if (const std::string how = run_again(part); how != "exit 0") say("ended with", how);
    std::printf("OK\n");
    return 0;
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);
  CHECK(cudaSetDevice(0));
  cudaFuncAttributes loaded;
  CHECK(cudaFuncGetAttributes(&loaded, set));
  CHECK(cudaFuncGetAttributes(&loaded, wait_for));
  CHECK(cudaFuncGetAttributes(&loaded, add));
  CHECK(cudaFuncGetAttributes(&loaded, multiply));
  CHECK(cudaFree(nullptr));
  peer = 3;
  const std::string role = argv[1];
  if (role == "event errors") event_errors();
  if (role == "event nulls") event_nulls();
  if (role == "event parent") event_parent();
  if (role == "events") event_child();
  if (role == "maker") event_maker();
  if (role == "turns") opener_of_turns();
  return 0;
}
