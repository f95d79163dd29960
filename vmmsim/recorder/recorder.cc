// SPDX-License-Identifier: MIT-0
#include "recorder.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include "../trace/line.h"
#include "../trace/python_frames.h"
#include "../trace/text.h"
#include "callers.h"
#include "calls.h"
#include "model.h"

namespace recorder {
namespace {

constexpr size_t most_callers = 32, callers_of_launch = 8;  // launches are many
constexpr uint64_t long_wait = 1'000'000;                   // microseconds after which it is told that a call waits

struct Name {
  const char* name;
  int number;
};
constexpr Name errors[] = {
    {"CUDA_SUCCESS", 0},
    {"cudaSuccess", 0},
#include "errors.inc"
};

// The driver's names begin with CUDA_, those of the runtime with cuda.
std::string name_of(CUpti_CallbackDomain domain, int number) {
  const bool is_driver_s = domain == CUPTI_CB_DOMAIN_DRIVER_API;
  for (const Name& error : errors)
    if (error.number == number && (error.name[0] == 'C') == is_driver_s) return error.name;
  return std::to_string(number);
}

// A call that waits for work of a GPU, and who called it.
struct Waiting {
  std::string name;
  uint64_t nth = 0, began = 0;
  std::vector<uintptr_t> stack;
  std::vector<std::string> of_python;
  bool is_told = false;
};

// What the threads share. Never destroyed: the program may call while it ends.
struct State {
  std::mutex lock;
  std::atomic<bool> records = false;
  std::string path;
  std::unique_ptr<trace::File> file;
  Model model;
  Modules modules;
  std::map<std::string, uint64_t> calls;                 // how many of each name there were
  std::unordered_map<std::string, std::string> kernels;  // the names of those that were launched
  std::map<pid_t, Waiting> waiting;                      // by thread
  std::atomic<void (*)()> flush = nullptr;
  uint64_t lines = 0;
};
State& state() {
  static State& all = *new State;
  return all;
}

// Of a thread. These need no destructors: the program may call after those of its threads have run.
thread_local int depth = 0;                        // how deep in calls it is
thread_local Model::Taken* in_progress = nullptr;  // what the outermost of these takes away
thread_local uint64_t began = 0;                   // when the outermost did

void end(const std::string& reason) {
  if (state().records.exchange(false)) log(reason + ": the recording ends here, and the program goes on");
}

void write_lines(const std::string& lines) {
  State& all = state();
  const int error = all.file->write(lines);
  if (error == EBADF) end("the program has closed " + all.path);
  else if (error) end("cannot write " + all.path + ": " + std::strerror(error));
}

// "cudaMallocAsync" of "cudaMallocAsync_ptsz", "cuMemFree" of "cuMemFree_v2".
std::string plain(const char* name) {
  while (*name == '_') ++name;
  const std::string all = name;
  return all.substr(0, std::min(all.find("_v"), all.find("_pt")));
}

// The name of a launch's kernel. What takes long is done once for each kernel.
const char* shown_name(const char* kernel) {
  State& all = state();
  const std::lock_guard held(all.lock);
  auto [found, is_new] = all.kernels.try_emplace(kernel);
  if (is_new) found->second = demangled(found->first);
  return found->second.c_str();
}

void show_kernel(trace::Call& call, const char* kernel) {
  const auto names = trace::names_of(call);
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == "f" || names[i] == "func")
      call.arguments[i] = {trace::Argument::text, reinterpret_cast<uint64_t>(shown_name(kernel))};
}

// Before it waits, since it may not come back.
void note_wait(const CUpti_CallbackData& data) {
  Waiting entry = {plain(data.functionName), 0, began, frames(most_callers), trace::python_frames()};
  State& all = state();
  const std::lock_guard held(all.lock);
  entry.nth = ++all.calls[entry.name];
  all.waiting[gettid()] = std::move(entry);
}

// Who is ended while it waits can tell nothing any more: this thread tells it before.
void tell_waits() {
  State& all = state();
  const std::lock_guard held(all.lock);
  for (auto& [thread, entry] : all.waiting) {
    if (entry.is_told || !all.records || trace::microseconds() - entry.began < long_wait) continue;
    entry.is_told = true;
    std::string lines;
    const std::string callers = all.modules.callers(entry.stack, entry.of_python, lines);
    const std::string arguments = trace::object({{"call", entry.name}, {"nth", entry.nth}});
    lines += trace::text_of({.number = ++all.lines,
                             .began = entry.began,
                             .call = "wait",
                             .nth = ++all.calls["wait"],
                             .callers = callers.c_str(),
                             .arguments = arguments.c_str(),
                             .thread = thread});
    write_lines(lines);
  }
}

void watch_waits() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's threads
  try {
    std::thread([] {
      for (; state().records; std::this_thread::sleep_for(std::chrono::microseconds(long_wait / 4))) {
        tell_waits();
        if (void (*const flush)() = state().flush) flush();
      }
    }).detach();
  } catch (const std::system_error&) {
  }  // no thread may be made: what waits is not told
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Whether it matters now; else it is only counted.
bool joins_now(const CUpti_CallbackData& data) {
  State& all = state();
  const std::lock_guard held(all.lock);
  if (!all.model.captures) ++all.calls[plain(data.functionName)];
  return all.model.captures > 0;
}

void record(const RecordedCall& recorded, CUpti_CallbackDomain domain, const CUpti_CallbackData& data) {
  const uint64_t ended = trace::microseconds();
  const int error = *static_cast<const int*>(data.functionReturnValue);
  const bool succeeded = !error;
  const std::string name = plain(data.functionName);
  trace::Call call = recorded.call(data.functionParams);
  if (data.symbolName) show_kernel(call, data.symbolName);
  // CUPTI tells the name of a launch's kernel, and of no other function.
  const std::string given = trace::given(call, [](const void*) { return std::string(); });
  const std::string taken = succeeded ? trace::taken(call) : "{}", result = name_of(domain, error);
  State& all = state();
  Waiting entered;
  if (recorded.kind == RecordedCall::waits) {
    const std::lock_guard held(all.lock);
    if (const auto noted = all.waiting.extract(gettid())) entered = std::move(noted.mapped());
  }
  const auto stack = entered.nth ? entered.stack : frames(data.symbolName ? callers_of_launch : most_callers);
  const auto of_python = entered.nth ? entered.of_python : trace::python_frames();

  const std::lock_guard held(all.lock);
  if (!all.records) return;
  Model& model = all.model;
  model.device = data.context ? int(model.device_of_context(data.context).value_or(-1)) : -1;
  if (succeeded && recorded.kind == RecordedCall::gives) recorded.change(model, data.functionParams, data.context);
  if (const std::unique_ptr<Model::Taken> away(std::exchange(in_progress, nullptr)); away) {
    if (succeeded) model.changes = away->changes;
    else model.give_back(*away);
  }
  std::string lines;
  const std::string callers = all.modules.callers(stack, of_python, lines);
  const std::string changes = trace::list(std::exchange(model.changes, {}));
  lines += trace::text_of({.number = ++all.lines,
                           .time = ended,
                           .began = began,
                           .correlation = recorded.may_give_work() ? data.correlationId : 0,
                           .call = name.c_str(),
                           .nth = entered.nth ? entered.nth : ++all.calls[name],
                           .callers = callers.c_str(),
                           .device = model.device,
                           .arguments = given.c_str(),
                           .result = result.c_str(),
                           .outputs = taken.c_str(),
                           .changes = changes.c_str()});
  write_lines(lines);
}

void look(CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData& data) {
  const RecordedCalls& calls = recorded_calls(domain);
  const auto found = calls.find(id);
  const RecordedCall* const recorded = found == calls.end() ? nullptr : &found->second;
  if (data.callbackSite == CUPTI_API_ENTER) {
    if (++depth > 1 || !recorded) return;
    began = trace::microseconds();
    if (recorded->kind == RecordedCall::waits) note_wait(data);
    if (recorded->kind != RecordedCall::takes) return;
    const std::lock_guard held(state().lock);
    recorded->change(state().model, data.functionParams, data.context);
    delete std::exchange(in_progress, new Model::Taken(state().model.take()));
    return;
  }
  const bool is_outermost = depth <= 1;
  depth = std::max(depth - 1, 0);  // a call that began before the recording did ends too
  if (!recorded) return;
  if (recorded->kind == RecordedCall::tells) {
    const std::lock_guard held(state().lock);
    if (*static_cast<const int*>(data.functionReturnValue) == 0)
      recorded->change(state().model, data.functionParams, data.context);
  } else if (is_outermost && (recorded->kind != RecordedCall::joins || joins_now(data))) {
    record(*recorded, domain, data);
  }
}

}  // namespace

void log(const std::string& text) {
  trace::write_all(STDERR_FILENO, "libvmm_recorder: " + text + "\n");  // perhaps nobody listens
}

bool open(const char* path) {
  State& all = state();
  all.path = path;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file >= 0) all.file = std::make_unique<trace::File>(file);
  if (!all.file || !all.file->is_open()) {
    log("cannot write " + all.path + ": " + std::strerror(errno) + "; nothing is recorded");
    return false;
  }
  // The lock is nobody's in a child. It has no driver, and what it asks for is refused.
  pthread_atfork([] { state().lock.lock(); }, [] { state().lock.unlock(); },
                 [] {
                   State& inherited = state();
                   inherited.lines = 0;
                   inherited.calls.clear();
                   inherited.waiting.clear();
                   inherited.lock.unlock();
                 });
  all.records = true;
  watch_waits();
  return true;
}

void flush_now_and_then(void (*flush)()) { state().flush = flush; }

void write_executed(const std::vector<std::string>& work) {
  State& all = state();
  const std::string arguments = trace::object({{"work", trace::Json{trace::list(work)}}});
  const std::lock_guard held(all.lock);
  if (!all.records) return;
  write_lines(trace::text_of({.number = ++all.lines,
                              .call = "executed",
                              .nth = ++all.calls["executed"],
                              .arguments = arguments.c_str(),
                              .thread = getpid()}));
}

void CUPTIAPI on_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  if (!state().records) return;
  const int before = errno;
  try {
    look(domain, id, *static_cast<const CUpti_CallbackData*>(data));
  } catch (const std::exception& error) {  // std::bad_alloc: no memory is left
    end(error.what());
  }
  errno = before;
}

}  // namespace recorder
