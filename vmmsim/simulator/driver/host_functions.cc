// SPDX-License-Identifier: MIT-0
#include "host_functions.h"

#include <unistd.h>

#include <deque>
#include <thread>
#include <utility>

#include "driver.h"

namespace driver {
namespace {

// It has the signals of the thread that begins it: a handler of the program's runs for what a host function does.
class HostThread {
 public:
  void add(std::function<void()> function) {
    const MutexLock held(lock_);
    if (owner_ && owner_ != getpid()) return;  // a forked child has no such thread
    if (!owner_) std::thread([this] { work(); }).detach();
    owner_ = getpid();
    functions_.push_back(std::move(function));
    added_.notify_one();
  }

 private:
  Mutex lock_;
  Condition added_;
  std::deque<std::function<void()>> functions_ GUARDED_BY(lock_);
  pid_t owner_ GUARDED_BY(lock_) = 0;  // the process whose thread it is

  [[noreturn]] void work() {
    for (;;) take()();
  }
  std::function<void()> take() {
    const MutexLock held(lock_);
    added_.wait(lock_, [&]() REQUIRES(lock_) { return !functions_.empty(); });
    std::function<void()> first = std::move(functions_.front());
    functions_.pop_front();
    return first;
  }
};

}  // namespace

void run_for_program(std::function<void()> function) {
  static HostThread& all = *new HostThread;  // its thread may outlive all that is destroyed at exit
  all.add(std::move(function));
}

void run_host_function(const Operation& op, std::function<void()> function) {
  run_for_program([op, function = std::move(function)] {
    thread().runs_host_function = true;
    function();
    thread().runs_host_function = false;
    ended(op);
  });
}

}  // namespace driver
