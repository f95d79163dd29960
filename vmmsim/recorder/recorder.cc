// SPDX-License-Identifier: MIT-0
#include "recorder.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include "../simulator/driver/python_frames.h"
#include "../simulator/text.h"
#include "callers.h"
#include "calls.h"
#include "model.h"

// CUPTI tells the name of a launch's kernel, and of no other function.
std::string driver::kernel_name(const void*) { return ""; }

namespace recorder {
namespace {

constexpr size_t most_callers = 32, callers_of_launch = 8;  // launches are many

struct Name {
  const char* name;
  int number;
};
constexpr Name driver_errors[] = {
    {"CUDA_SUCCESS", 0},
#include "driver_errors.inc"
};
constexpr Name runtime_errors[] = {
    {"cudaSuccess", 0},
#include "runtime_errors.inc"
};

template <size_t size> std::string name_of(const Name (&names)[size], int number) {
  for (const Name& it : names)
    if (it.number == number) return it.name;
  return std::to_string(number);
}

// What the threads share. Never destroyed: the program may call while it ends.
struct State {
  std::mutex lock;
  std::atomic<bool> records = false;
  std::string path;
  int file = -1;
  struct stat identity = {};  // of the file: the program may close the descriptor and open another with its number
  Model model;
  Modules modules;
  std::map<std::string, uint64_t> calls;                 // how many of each name there were
  std::unordered_map<std::string, std::string> kernels;  // the names of those that were launched
  uint64_t lines = 0;
};
State& state() {
  static State& it = *new State;
  return it;
}

// Of a thread. These need no destructors: the program may call after those of its threads have run.
thread_local int depth = 0;                        // how deep in calls it is
thread_local Model::Taken* in_progress = nullptr;  // what the outermost of these takes away

void end(const std::string& why) {
  if (state().records.exchange(false)) say(why + ": the recording ends here, and the program goes on");
}

// As write(). But that the other end of a pipe was closed, or a file has become too large, ends no program: there is an
// error, and no signal.
ssize_t write_without_signal(int file, const std::string& lines) {
  sigset_t both, before;
  sigemptyset(&both);
  sigaddset(&both, SIGPIPE);
  sigaddset(&both, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &both, &before);
  const ssize_t written = TEMP_FAILURE_RETRY(write(file, lines.data(), lines.size()));
  const int error = errno;
  const timespec at_once = {};
  if (written != ssize_t(lines.size())) sigtimedwait(&both, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return written;
}

// A line in one piece, whoever else writes, and at once: whatever ends the process, whole lines are in the file.
void write_lines(const std::string& lines) {
  State& all = state();
  struct stat now;
  if (fstat(all.file, &now) || now.st_dev != all.identity.st_dev || now.st_ino != all.identity.st_ino) {
    end("the program has closed " + all.path);
    return;
  }
  const ssize_t written = write_without_signal(all.file, lines);
  if (written == ssize_t(lines.size())) return;
  end("cannot write " + all.path + ": " + std::strerror(written < 0 ? errno : ENOSPC));
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

void show_kernel(driver::Call& call, const char* kernel) {
  const auto names = driver::names_of(call);
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == "f" || names[i] == "func")
      call.arguments[i] = {driver::Argument::text, reinterpret_cast<uint64_t>(shown_name(kernel))};
}

void record(const RecordedCall& recorded, CUpti_CallbackDomain domain, const CUpti_CallbackData& data) {
  const int error = *static_cast<const int*>(data.functionReturnValue);
  const bool succeeded = !error;
  const std::string name = plain(data.functionName);
  driver::Call call = recorded.call(data.functionParams);
  if (data.symbolName) show_kernel(call, data.symbolName);
  const std::string given = driver::given(call), taken = succeeded ? driver::taken(call) : "{}";
  const std::string result =
      domain == CUPTI_CB_DOMAIN_DRIVER_API ? name_of(driver_errors, error) : name_of(runtime_errors, error);
  const auto stack = frames(data.symbolName ? callers_of_launch : most_callers);
  const auto of_python = driver::python_frames();

  State& all = state();
  const std::lock_guard held(all.lock);
  if (!all.records) return;
  Model& model = all.model;
  model.device = data.context ? int(model.device_of_context(data.context).value_or(-1)) : -1;
  if (succeeded && recorded.kind == RecordedCall::gives) recorded.change(model, data.functionParams, data.context);
  if (const std::unique_ptr<Model::Taken> away(std::exchange(in_progress, nullptr)); away) {
    if (succeeded) model.changes = away->changes;
    else model.give_back(*away);
  }
  std::string lines, changes;
  const std::string callers = all.modules.callers(stack, of_python, lines);
  for (const std::string& change : std::exchange(model.changes, {})) changes += (changes.empty() ? "" : ",") + change;
  lines += "{\"pid\":" + std::to_string(getpid()) + ",\"thread\":" + std::to_string(syscall(SYS_gettid)) +
           ",\"number\":" + std::to_string(++all.lines) + ",\"call\":\"" + name +
           "\",\"nth\":" + std::to_string(++all.calls[name]) + ",\"callers\":" + callers +
           ",\"device\":" + std::to_string(model.device) + ",\"arguments\":" + given + ",\"result\":\"" + result +
           "\",\"outputs\":" + taken + ",\"changes\":[" + changes + "],\"explanation\":\"\"}\n";
  write_lines(lines);
}

void look(CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData& data) {
  const RecordedCalls& calls = recorded_calls(domain);
  const auto found = calls.find(id);
  const RecordedCall* const recorded = found == calls.end() ? nullptr : &found->second;
  if (data.callbackSite == CUPTI_API_ENTER) {
    if (++depth > 1 || !recorded || recorded->kind != RecordedCall::takes) return;
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
  } else if (is_outermost) {
    record(*recorded, domain, data);
  }
}

}  // namespace

void say(const std::string& what) {
  const std::string line = "libvmm_recorder: " + what + "\n";
  write_without_signal(STDERR_FILENO, line);  // perhaps nobody listens
}

bool open(const char* path) {
  State& all = state();
  all.path = path;
  all.file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (all.file < 0 || fstat(all.file, &all.identity)) {
    say("cannot write " + all.path + ": " + std::strerror(errno) + "; nothing is recorded");
    return false;
  }
  // The lock is nobody's in a child. It has no driver, and what it asks for is refused.
  pthread_atfork([] { state().lock.lock(); }, [] { state().lock.unlock(); },
                 [] {
                   State& its = state();
                   its.lines = 0;
                   its.calls.clear();
                   its.lock.unlock();
                 });
  all.records = true;
  return true;
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
