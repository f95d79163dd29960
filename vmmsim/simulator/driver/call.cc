// SPDX-License-Identifier: MIT-0
#include "call.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <span>

#include "../gpu/gpu.h"
#include "../interposed.h"
#include "../lasting.h"
#include "../memory/presence.h"
#include "../memory/process.h"
#include "../memory/records.h"
#include "../memory/this_machine.h"
#include "../terminal.h"
#include "callers.h"
#include "contexts.h"
#include "driver.h"
#include "ending.h"
#include "leaks.h"
#include "modules.h"

namespace driver {
namespace {

constexpr char too_late[] =
    "the process exits, and the driver has shut down: it was called by a thread that goes on, or by the destructor of "
    "an object that is older than cuInit";
constexpr char forked[] =
    "a forked child has no driver; fork before cuInit, or start the child as a program of its own";

// What was counted and said. A lock of its own: a call may hold the state's lock when it reports.
struct Reports {
  Mutex lock;
  std::map<std::string, uint64_t> calls GUARDED_BY(lock);  // how many of each name there were
  std::set<std::string> logged GUARDED_BY(lock);           // texts on stderr, each once
  std::atomic<bool> fault = false;
  std::atomic<uint64_t> lines = 0;  // of the trace
};
Reports& reports() { return lasting<Reports>(); }

// A child that is forked while another thread counts its call or says something would wait for that thread for ever.
// Before all others: what is registered first is locked last, and this lock is taken under the others.
void lock_reports_before_fork() ACQUIRE(reports().lock) { reports().lock.lock(); }
void unlock_reports_after_fork() RELEASE(reports().lock) { reports().lock.unlock(); }
[[gnu::constructor(101)]] void hold_reports_while_forking() {
  pthread_atfork(lock_reports_before_fork, unlock_reports_after_fork, unlock_reports_after_fork);
}

uint64_t count_call(const std::string& name) {  // its sequence number
  const MutexLock held(reports().lock);
  return ++reports().calls[name];
}

std::string plain(const char* name) {  // the program knows cuMemAlloc_v2 as cuMemAlloc
  const char* const version = std::strstr(name, "_v");
  return version ? std::string(name, version) : name;
}

// A call as one writes it; where results go to is left out, unless that is null.
std::string format_call(const Call& call) {
  const std::vector<std::string> names = trace::names_of(call);
  std::string all;
  for (size_t i = 0; i < names.size(); ++i) {
    const trace::Argument& argument = call.arguments[i];
    if (trace::is_output(argument) && argument.value) continue;
    std::string value = trace::value_of(call, i, kernel_name);
    if (value.starts_with("\"0x")) value = value.substr(1, value.size() - 2);
    all += (all.empty() ? "" : ", ") + names[i] + " = " + value;
  }
  return plain(call.name) + "(" + all + ")";
}

// Where the program called, as JSON: ["growable+0x1234", ...], then the lines of Python.
std::string callers_as_json() {
  std::vector<std::string> all;
  const Callers stack = callers();
  if (stack.empty() || !stack.front().offset) all.emplace_back("unknown");
  for (const Caller& caller : stack) all.push_back(text_of(caller));
  return trace::list_of_texts(all);
}

void write_line(trace::Line line) {
  const std::string from = callers_as_json();
  line.number = next_line();
  line.callers = from.c_str();
  const int error = the_trace().write(trace::text_of(line));
  if (!error) return;
  const std::string reason = error == EBADF ? "the program has closed its file" : std::strerror(error);
  log("cannot write the trace: " + reason + ": it ends here, and the program goes on");
}

// A line of what is no call of CUDA's.
void write_event(const char* name, const std::vector<trace::Member>& members, int device = -1,
                 const char* result = "") {
  const std::string arguments = trace::object(members);
  write_line({.number = 0,
              .call = name,
              .nth = count_call(name),
              .device = device,
              .arguments = arguments.c_str(),
              .result = result});
}

// Writes lines of processes that ended without one of their own. Perhaps in a handler of a signal.
std::atomic<bool> has_vanished = false;  // such a process was told of, and whether memory went with it is not known yet
void trace_vanished(pid_t reaped = 0, int status = 0) {
  char line[512];
  while (const size_t size = memory::line_of_vanished(line, sizeof line, reaped, status)) {
    the_trace().write({line, size});
    has_vanished = true;
  }
}

// Of memory that was exported and that nobody holds any more: the descriptor that was the last may have been any
// process's, or on its way to one.
void trace_gone() {
  std::vector<std::string> gone;
  const auto changes = std::exchange(memory::caller().changes, &gone);
  memory::give_back_exported();
  memory::caller().changes = changes;
  if (gone.empty()) return;
  const std::string changed = trace::list(gone);
  write_line({.number = 0, .call = "gone", .nth = count_call("gone"), .changes = changed.c_str()});
}

// What a kernel or copy did wrong, as JSON; `where` is empty of a copy.
std::string fault_as_json() {
  const MutexLock held(state().lock);
  const std::string &where = state().fault_where, &reason = state().fault_reason;
  const size_t begin = where.empty() ? 0 : where.size() + 2;  // of what follows ": "
  const auto& address = state().fault_address;
  const trace::Member at =
      address ? trace::Member("address", hexadecimal(*address)) : trace::Member("address", nullptr);
  return trace::object({{"where", where}, at, {"why", reason.substr(begin)}, {"launch", state().fault_launch}});
}

void write_call(const CallContext& context, const char* result, const std::string& explanation) {
  const std::string name = plain(context.call.name), in = trace::given(context.call, kernel_name);
  const bool success = context.result == CUDA_SUCCESS;
  const std::string out = success ? trace::taken(context.call) : "{}";
  const std::string changed = trace::list(context.changes), explained = trace::json_string(explanation);
  const std::string wrong = !success && context.result == fault() ? fault_as_json() : "";
  trace_vanished();
  write_line({.number = 0,
              .call = name.c_str(),
              .nth = context.nth,
              .device = current_device(),
              .arguments = in.c_str(),
              .result = result,
              .outputs = out.c_str(),
              .changes = changed.c_str(),
              .explanation = explained.c_str(),
              .fault = wrong.c_str()});
  if (has_vanished.exchange(false) || !context.changes.empty()) trace_gone();
}

// --- What a call passes through --------------------------------------------------------------------------------------

struct Answer {
  int result;
  std::string reason;
};

// A gate that is closed to a call answers it, and its work is not done. The first that is counts.
using Gate = std::optional<Answer> (*)(const CallContext&);

std::optional<Answer> injected_failure(const CallContext& context) {
  const memory::Options& options = memory::options();
  if (!*options.fail_call || !memory::count_for_fail(context.name.c_str())) return std::nullopt;
  return Answer{options.fail_error, "--fail asks for it"};
}

std::optional<Answer> after_shutdown(const CallContext& context) {
  if (!state().is_shut_down || context.flags & after_exit) return std::nullopt;
  return Answer{CUDA_ERROR_DEINITIALIZED, too_late};
}

std::optional<Answer> within_host_function(const CallContext& context) {
  if (!thread().runs_host_function || context.flags & in_host_function) return std::nullopt;
  return Answer{CUDA_ERROR_NOT_PERMITTED, within_host_functions};
}

std::optional<Answer> after_a_fault(const CallContext& context) {
  if (!fault() || context.flags & after_fault) return std::nullopt;
  return Answer{fault(), ""};
}

const char* reason_not_initialized() { return state().initialized_in ? forked : "cuInit has not been called"; }

std::optional<Answer> without_init(const CallContext& context) {
  if (state().initialized_in == getpid() || context.flags & before_init) return std::nullopt;
  return Answer{CUDA_ERROR_NOT_INITIALIZED, reason_not_initialized()};
}

constexpr Gate gates[] = {injected_failure, after_shutdown, within_host_function, after_a_fault, without_init};

// The call that the thread makes: what it calls within is no call of the program's. Memory notes and reports by it.
class InProgress {
 public:
  explicit InProgress(CallContext& context) {
    thread().call = &context;
    memory::caller().call = context.name + " #" + std::to_string(context.nth);
    memory::caller().changes = memory::options().trace ? &context.changes : nullptr;
  }
  InProgress(const InProgress&) = delete;
  ~InProgress() {
    memory::caller().changes = nullptr;
    thread().call = nullptr;
  }
};

int do_work(CallContext& context, const std::function<int()>& work) {
  try {
    return work();
  } catch (const memory::Refused& refused) {
    context.reason = refused.reason;
    return refused.error;
  } catch (const std::bad_alloc&) {
    context.reason = "this process has no memory or no addresses left: look at ulimit -v";
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

void pass(CallContext& context, const std::function<int()>& work) {
  std::optional<Answer> answer;
  for (const Gate gate : gates)
    if (!answer) answer = gate(context);
  if (!answer) context.result = do_work(context, work);
  if (state().is_shut_down && (answer || context.result))
    answer = {CUDA_ERROR_DEINITIALIZED, too_late};  // whatever was gone
  if (!answer) return;
  context.result = answer->result;
  context.reason = answer->reason;
}

std::string reason_of_fault() {
  if (reports().fault.exchange(true))
    return "a kernel or copy went wrong before, and until the process ends kernels, copies and calls like this one "
           "fail";
  const MutexLock held(state().lock);
  return state().fault_reason;
}

// What --explain says; "" where there is nothing to say.
std::string explanation_of(const CallContext& context, const char* error) {
  if (!context.result || context.result == CUDA_ERROR_NOT_READY) return "";
  const std::string reason = context.result == fault() ? reason_of_fault() : context.reason;
  return format_call(context.call) + " answers " + error + (reason.empty() ? "" : ": " + reason);
}

// After a fault each call would say the same, and so would each look-up of a library that asks for calls which the
// driver has not: stderr has the first of these lines, the trace all.
void log_explanation(const CallContext& context, const std::string& explanation) {
  static std::atomic<int> after_faults = 0, lookups = 0;
  const bool is_after_fault = context.result == fault(), is_lookup = context.name == "cuGetProcAddress";
  const int last = is_after_fault ? 2 : 1;
  const int nth = is_after_fault ? ++after_faults : is_lookup ? ++lookups : 0;
  if (nth > last) return;
  log(explanation + (nth == last ? "; no line tells of the next" : ""));
}

}  // namespace

void log(const std::string& text) {  // in one piece, whatever other processes say
  log_wrapped("vmmsim: " + text + "\n");
}

void log_once(const std::string& text) {
  const MutexLock held(reports().lock);
  if (reports().logged.insert(text).second) log(text);
}

bool is_traced() { return state().initialized_in == getpid() && memory::options().trace; }
uint64_t next_line() { return ++reports().lines; }
trace::File& the_trace() {
  static trace::File& shared = *new trace::File(memory::trace_file());
  return shared;
}

int run(const Call& call, int flags, const char* (*error_name)(int), const std::function<int()>& work) {
  if (thread().call) return do_work(*thread().call, work);
  CallContext context = {call, flags, plain(call.name)};
  context.nth = count_call(context.name);
  const InProgress in_progress(context);
  pass(context, work);
  note_place();
  const memory::Options& options = memory::options();
  const char* const error = error_name(context.result);
  const bool is_told = options.explain || options.trace;
  const std::string explanation = is_told ? explanation_of(context, error) : "";
  if (options.explain && !explanation.empty()) log_explanation(context, explanation);
  if (options.trace) write_call(context, error, explanation);
  return context.result;
}

std::string file_of(const void* address) {
  Dl_info file = {};
  return dladdr(address, &file) && file.dli_fname ? file.dli_fname : "a library";
}

void cannot_run(const void* address, const std::string& reason) {
  log_once(reason);
  Dl_info file = {}, program = {};
  dladdr(address, &file);
  dladdr(reinterpret_cast<const void*>(getauxval(AT_PHDR)), &program);
  if (file.dli_fbase != program.dli_fbase) return;
  std::fflush(stdout);
  _exit(125);
}

// --- What the process does beside its calls -------------------------------------------------------------------------

static bool trace_close(int fd) {
  if (!is_traced() || thread().call || memory::exported_record(fd) == memory::invalid_index) return false;
  write_event("close", {{"fd", fd}});
  return true;
}

static void trace_reaped(pid_t process, int status) {
  const int error = errno;
  if (is_traced()) trace_vanished(process, status);
  errno = error;
}

static void trace_closed() {
  const int error = errno;
  trace_gone();
  errno = error;
}

static void trace_refused_close(int fd) {
  if (fd < 0 || !is_traced() || thread().call) return;
  const int error = errno;
  write_event("close", {{"fd", fd}}, -1, "EBADF");
  errno = error;
}

void trace_begin(const gpu::Kernel& kernel, const std::vector<std::byte>& parameters, int device,
                 const std::string& launch, const std::string& waiter) {
  if (!is_traced()) return;
  std::vector<std::string> values;
  for (const auto& parameter : kernel.parameters) {
    uint64_t value = 0;  // of what is larger, the first 8 bytes
    std::memcpy(&value, parameters.data() + parameter.offset, std::min(parameter.size, sizeof value));
    values.push_back(hexadecimal(value));
  }
  write_event("begin",
              {{"func", demangled(kernel.name)},
               {"parameters", trace::Json{trace::list_of_texts(values)}},
               {"launch", launch},
               {"waiter", waiter}},
              device);
}

void trace_wait() {
  CallContext* const call = thread().call;
  if (!call || !is_traced() || std::exchange(call->waits, true)) return;
  write_event("wait", {{"call", call->name}, {"nth", call->nth}});
}

void trace_aliases(const gpu::Kernel& kernel, int device, const std::string& launch, const gpu::UnorderedRead& its) {
  write_event("unordered",
              {{"func", demangled(kernel.name)},
               {"launch", launch},
               {"where", its.where},
               {"written", hexadecimal(its.written)},
               {"read", hexadecimal(its.read)},
               {"by_another", its.by_another},
               {"fences", its.fences}},
              device);
}

void trace_aliases(const gpu::Kernel& kernel, int device, const std::string& launch, const gpu::AliasFence& its) {
  write_event("fence",
              {{"func", demangled(kernel.name)}, {"launch", launch}, {"where", its.where}, {"count", its.count}},
              device);
}

static void trace_sleep() {
  memory::note_ask();  // who sleeps in a loop asks for something
  const uint64_t nth = is_traced() && !thread().call ? count_call("sleep") : 0;
  if (nth > 0 && nth <= 64) write_line({.number = 0, .call = "sleep", .nth = nth});  // a loop may sleep without end
}

static void trace_send(const int* fds, size_t count) {
  if (!count || !is_traced() || thread().call) return;
  std::string numbers;
  for (const int fd : std::span(fds, count)) numbers += (numbers.empty() ? "" : ",") + std::to_string(fd);
  write_event("send", {{"fds", trace::Json{"[" + numbers + "]"}}});
}

void watch_process() {
  static constexpr Watcher ours = {trace_close, trace_closed,     trace_refused_close, trace_sleep,
                                   trace_send,  memory::note_ask, trace_reaped,        trace_exit};
  const auto watch = reinterpret_cast<WatchFunction*>(dlsym(RTLD_DEFAULT, watch_function));
  if (memory::options().slow_process) memory::nth_process();
  if (memory::options().trace) memory::register_presence();
  if (watch && memory::options().trace) watch(&ours);
  if (!watch && (memory::options().adversarial_timing || memory::options().trace))
    log_once(
        "LD_PRELOAD was replaced, and sleeps, descriptors and _exit are not seen: add to it what vmmsim put there");
}

void refuse_if_forked() {
  if (state().initialized_in && state().initialized_in != getpid()) refuse(CUDA_ERROR_NOT_INITIALIZED, forked);
}

void require_initialized() {
  if (state().initialized_in != getpid()) refuse(CUDA_ERROR_NOT_INITIALIZED, reason_not_initialized());
}

void set_initialized() {
  State& all = state();
  if (all.is_shut_down) refuse(CUDA_ERROR_DEINITIALIZED, too_late);
  const bool is_first = !all.initialized_in;
  all.initialized_in = getpid();
  if (is_first) watch_end(), watch_process();
}

}  // namespace driver
