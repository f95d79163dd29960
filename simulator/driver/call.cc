// SPDX-License-Identifier: MIT-0
#include "driver.h"

#include <dlfcn.h>
#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sys/syscall.h>

namespace driver {
namespace {

std::atomic<pid_t> initialized_in = 0;  // the process in which cuInit ran: a forked child has no driver
std::atomic<int> fault_error = CUDA_SUCCESS;
std::atomic<bool> fault_explained = false;
std::string fault_why;

thread_local bool inside = false;  // a call of the program
thread_local std::string why;      // of the refusal in progress

// What destructors of the program may still use at exit is never destroyed.
template <class T> T& everlasting() { static T& it = *new T; return it; }
struct Counts { std::mutex mutex; std::map<std::string, uint64_t> calls; std::set<std::string> not_simulated; };
Counts& counts() { return everlasting<Counts>(); }

void say(const std::string& text) {  // in one piece, whatever other processes say
  const std::string line = "vmmsim: " + text + "\n";
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // nobody listens
}

// The program knows cuMemAlloc_v2 as cuMemAlloc.
std::string plain(const char* name) {
  const char* const version = std::strstr(name, "_v");
  return version ? std::string(name, version) : name;
}

std::string quoted(const char* text) {
  std::string result = "\"";
  for (const char* c = text; *c; ++c) {
    char code[8];
    const auto value = static_cast<unsigned char>(*c);
    std::snprintf(code, sizeof code, "\\u%04x", value);
    if (*c == '"' || *c == '\\') result += '\\';
    result += value < 0x20 || value > 0x7e ? code : std::string(1, *c);
  }
  return result + '"';
}

// A value for the trace: addresses as texts, for no reader of JSON keeps all 64 bits of a number.
std::string json(const Argument& argument) {
  const auto at = [&](auto* pointer) { return *pointer; };
  switch (argument.kind) {
    case Argument::number: return std::to_string(int64_t(argument.value));
    case Argument::address: case Argument::pointer: return quoted(hexadecimal(argument.value).c_str());
    default: break;
  }
  if (!argument.value) return "null";
  switch (argument.kind) {
    case Argument::text: return quoted(reinterpret_cast<const char*>(argument.value));
    case Argument::out_number: return std::to_string(at(reinterpret_cast<const uint64_t*>(argument.value)));
    case Argument::out_int: return std::to_string(at(reinterpret_cast<const int32_t*>(argument.value)));
    default: return quoted(hexadecimal(at(reinterpret_cast<const uint64_t*>(argument.value))).c_str());
  }
}

// Where the program called: "growable+0x1234", the first frame outside our two libraries.
std::string caller() {
  std::string found = "unknown";
  auto look = [](_Unwind_Context* frame, void* result) -> _Unwind_Reason_Code {
    Dl_info here, that;
    const uintptr_t address = _Unwind_GetIP(frame);
    if (!address || !dladdr(reinterpret_cast<void*>(&set_fault), &here)) return _URC_END_OF_STACK;
    if (!dladdr(reinterpret_cast<void*>(address - 1), &that)) return _URC_NO_REASON;
    if (that.dli_fbase == here.dli_fbase) return _URC_NO_REASON;
    const char* const slash = std::strrchr(that.dli_fname, '/');
    const std::string name = slash ? slash + 1 : that.dli_fname;
    if (name.starts_with("libcudart.so")) return _URC_NO_REASON;
    const uintptr_t offset = address - reinterpret_cast<uintptr_t>(that.dli_fbase);
    *static_cast<std::string*>(result) = name + "+" + hexadecimal(offset);
    return _URC_END_OF_STACK;
  };
  _Unwind_Backtrace(look, &found);
  return found;
}

void trace(const std::string& name, uint64_t nth, std::initializer_list<Argument> arguments, const char* result,
           bool success, const std::vector<std::string>& changes) {
  static std::atomic<uint64_t> sequence = 0;
  std::string in, out, all;
  for (const Argument& argument : arguments) {
    const bool is_output = argument.kind >= Argument::out_number;
    const std::string key = quoted(std::string(argument.name, std::strcspn(argument.name, ",) ")).c_str()) + ":";
    in += (in.empty() ? "" : ",") + key + (is_output ? quoted(hexadecimal(argument.value).c_str()) : json(argument));
    if (is_output && success) out += (out.empty() ? "" : ",") + key + json(argument);
  }
  for (const std::string& change : changes) all += (all.empty() ? "" : ",") + change;
  const std::string line =
      "{\"pid\":" + std::to_string(getpid()) + ",\"thread\":" + std::to_string(syscall(SYS_gettid)) +
      ",\"number\":" + std::to_string(++sequence) + ",\"call\":" + quoted(name.c_str()) +
      ",\"nth\":" + std::to_string(nth) + ",\"caller\":" + quoted(caller().c_str()) + ",\"arguments\":{" + in +
      "},\"result\":" + quoted(result) + ",\"outputs\":{" + out + "},\"changes\":[" + all + "]}\n";
  if (write(memory::trace_file(), line.data(), line.size()) < 0) say("cannot write the trace");
}

int answer(const std::function<int()>& work) {
  try {
    return work();
  } catch (const memory::Refused& refused) {
    why = refused.why;
    return refused.error;
  }
}

// At the end of the process: what the driver holds for itself goes first, what is left is the program's.
__attribute__((destructor)) void finish() {
  if (initialized_in != getpid()) return;
  if (memory::options().leaks) {
    forget_modules(nullptr);
    forget_memory(nullptr);
    for (const std::string& leak : memory::leaks()) say("leak: " + leak);
  }
  gpu::stop();
}

}  // namespace

int call(const char* full_name, std::initializer_list<Argument> arguments, int flags,
         const char* (*error_name)(int), const std::function<int()>& work) {
  if (inside) return answer(work);
  struct Inside { Inside() { inside = true; } ~Inside() { inside = false; } } guard;
  const std::string name = plain(full_name);
  const memory::Options& options = memory::options();
  std::vector<std::string> changes;
  why.clear();
  int result = CUDA_SUCCESS;
  uint64_t nth = 0;
  {
    const std::lock_guard held(counts().mutex);
    nth = ++counts().calls[name];
  }
  memory::current_call = name + " #" + std::to_string(nth);
  memory::changes = options.trace ? &changes : nullptr;
  if (*options.fail_call && memory::must_fail(name.c_str())) {
    result = options.fail_error;
    why = "--fail asks for it";
  } else if (fault() && !(flags & after_fault)) {
    result = fault();
  } else if (initialized_in != getpid() && !(flags & before_init)) {
    result = CUDA_ERROR_NOT_INITIALIZED;
    why = initialized_in
              ? "a forked child has no driver; fork before cuInit, or start the child as a program of its own"
              : "cuInit has not been called";
  } else {
    result = answer(work);
  }
  memory::changes = nullptr;
  if (options.explain && result && result != CUDA_ERROR_NOT_READY) {
    if (result == fault()) why = fault_explained.exchange(true) ? "of the fault before" : fault_why;
    say(name + " answers " + error_name(result) + (why.empty() ? "" : ": " + why));
  }
  if (options.trace) trace(name, nth, arguments, error_name(result), result == CUDA_SUCCESS, changes);
  return result;
}

int not_simulated(const char* name) {
  const std::lock_guard held(counts().mutex);
  if (counts().not_simulated.insert(name).second) say(std::string(name) + " is not simulated");
  why = "it is not simulated";
  return CUDA_ERROR_NOT_SUPPORTED;
}

void refuse(CUresult error, const std::string& text) { throw memory::Refused{error, text}; }

void need(const void* pointer, const char* name) {
  if (!pointer) refuse(CUDA_ERROR_INVALID_VALUE, std::string(name) + " is null; give the address of a variable");
}

std::string hexadecimal(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

void set_initialized() {
  if (initialized_in && initialized_in != getpid())
    refuse(CUDA_ERROR_NOT_INITIALIZED, "a forked child has no driver; fork before cuInit");
  initialized_in = getpid();
}

void set_fault(const gpu::Fault& fault) {
  const std::lock_guard held(state());
  if (fault_error) return;
  fault_why = fault.why;
  fault_error = fault.error;
}

void reset_fault() {
  const std::lock_guard held(state());
  if (fault_error) fault_error = CUDA_ERROR_DEVICE_UNAVAILABLE;
}

CUresult fault() { return CUresult(fault_error.load()); }

std::mutex& state() { return everlasting<std::mutex>(); }

}  // namespace driver
