// SPDX-License-Identifier: MIT-0
// Whether a call comes back while something on the GPU waits for the host.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

// Makes a call while something on the GPU waits for this word, which is set when the call has returned. If it has not
// for 2 seconds, far longer than any call takes by itself, also where others take the processors, the word is set
// nevertheless: the call waits for what is on the GPU. Returns whether it does.
template <class Word, class Call> bool waits_for(volatile Word* word, Call call) {
  std::mutex lock;
  std::condition_variable news;
  bool has_returned = false, waits = false;
  std::thread timer([&] {
    std::unique_lock<std::mutex> locked(lock);
    waits = !news.wait_for(locked, std::chrono::seconds(2), [&] { return has_returned; });
    *word = 1;
  });
  call();
  {
    const std::lock_guard<std::mutex> locked(lock);
    has_returned = true;
  }
  news.notify_one();
  timer.join();
  return waits;
}
