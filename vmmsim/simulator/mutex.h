// SPDX-License-Identifier: MIT-0
// Locks, and which of them guards what, in words that clang checks when it compiles: -Wthread-safety, which the test
// lint.locks asks for. Other compilers read over them.
//
//   std::map<K, V> entries GUARDED_BY(lock);    is read and written by who holds `lock` alone
//   void add(K) REQUIRES(state().lock);         is called by who holds it
//   void add_and_wait(K) EXCLUDES(lock);        is called by who does not
//   MutexLock lock_process() ACQUIRE(lock);     returns with it held
//
// A lock is an expression, and another expression is another lock to clang: write it in one way, best without a
// variable, `state().lock` each time. A lambda is a function by itself: [&]() REQUIRES(lock) { ... }.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>

#ifdef __clang__
#define FOR_CLANG(attribute) __attribute__((attribute))
#else
#define FOR_CLANG(attribute)
#endif
#define CAPABILITY(kind) FOR_CLANG(capability(kind))
#define SCOPED_CAPABILITY FOR_CLANG(scoped_lockable)
#define GUARDED_BY(lock) FOR_CLANG(guarded_by(lock))
#define PT_GUARDED_BY(lock) FOR_CLANG(pt_guarded_by(lock))
#define REQUIRES(...) FOR_CLANG(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) FOR_CLANG(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) FOR_CLANG(acquire_capability(__VA_ARGS__))
#define RELEASE(...) FOR_CLANG(release_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) FOR_CLANG(try_acquire_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS FOR_CLANG(no_thread_safety_analysis)  // with the reason beside it

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

// Holds a mutex until its end, but for the time between its unlock() and lock().
class SCOPED_CAPABILITY [[nodiscard]] MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex.lock(); }
  ~MutexLock() RELEASE() {
    if (is_held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  void lock() ACQUIRE() {
    mutex_.lock();
    is_held_ = true;
  }
  void unlock() RELEASE() {
    is_held_ = false;
    mutex_.unlock();
  }

 private:
  Mutex& mutex_;
  bool is_held_ = true;
};

// What waits gives the mutex that it holds: it is let go of meanwhile.
class Condition {
 public:
  void wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock held(mutex.mutex_, std::adopt_lock);
    changed_.wait(held);
    held.release();
  }
  template <class Holds>
  void wait(Mutex& mutex, Holds holds) REQUIRES(mutex) {
    while (!holds()) wait(mutex);
  }
  // False: the time is over.
  template <class Rep, class Period>
  bool wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> patience) REQUIRES(mutex) {
    std::unique_lock held(mutex.mutex_, std::adopt_lock);
    const bool is_in_time = changed_.wait_for(held, patience) == std::cv_status::no_timeout;
    held.release();
    return is_in_time;
  }
  template <class Rep, class Period, class Holds>
  bool wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> patience, Holds holds) REQUIRES(mutex) {
    std::unique_lock held(mutex.mutex_, std::adopt_lock);
    const bool is_in_time = changed_.wait_for(held, patience, holds);
    held.release();
    return is_in_time;
  }
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};
