// SPDX-License-Identifier: MIT-0
#include "host_functions.h"

#include <unistd.h>

#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "../lasting.h"
#include "driver.h"

namespace driver {
namespace {

// It blocks the signals that the thread did which gave it its first function, as on an H100: a handler of the program's
// runs for what a host function does.
class HostThread {
 public:
  void add(std::function<void()> function) {
    const MutexLock held(lock_);
    functions_.push_back(std::move(function));
    changed_.notify_one();
  }
  void end() {
    const MutexLock held(lock_);
    ends_ = true;
    changed_.notify_one();
  }
  void work() {
    while (const std::function<void()> function = take()) function();
  }

 private:
  Mutex lock_;
  Condition changed_;
  std::deque<std::function<void()>> functions_ GUARDED_BY(lock_);
  bool ends_ GUARDED_BY(lock_) = false;

  std::function<void()> take() {  // none: it ends
    const MutexLock held(lock_);
    while (!ends_ && functions_.empty()) changed_.wait(lock_);
    if (functions_.empty()) return nullptr;
    std::function<void()> first = std::move(functions_.front());
    functions_.pop_front();
    return first;
  }
};

struct HostThreads {
  Mutex lock;
  std::map<CUcontext, std::shared_ptr<HostThread>> of_context GUARDED_BY(lock);
};
HostThreads& host_threads() { return lasting<HostThreads>(); }

}  // namespace

void run_for_program(CUcontext context, std::function<void()> function) {
  if (state().initialized_in != getpid()) return;  // a forked child has no such threads
  const MutexLock held(host_threads().lock);
  std::shared_ptr<HostThread>& thread = host_threads().of_context[context];
  if (!thread) {
    thread = std::make_shared<HostThread>();
    std::thread([thread] { thread->work(); }).detach();
  }
  thread->add(std::move(function));
}

void run_host_function(const Operation& op, std::function<void()> function) {
  run_for_program(op->context, [op, function = std::move(function)] {
    thread().runs_host_function = true;
    function();
    thread().runs_host_function = false;
    ended(op);
  });
}

void end_host_functions(CUcontext context) {
  const MutexLock held(host_threads().lock);
  const auto ended = host_threads().of_context.extract(context);
  if (ended) ended.mapped()->end();
}

}  // namespace driver
