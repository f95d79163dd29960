// SPDX-License-Identifier: MIT-0
// Values of a thread that outlive its thread_local objects and those of its keys. Programs make calls even then: from
// destructors of either, and of static objects when main's thread has ended.
#pragma once
#include <limits.h>
#include <pthread.h>

namespace memory {

// This thread's value, one for each Name. It goes when the destructors of all keys have had their turn, twice, for they
// may set keys; not in the last round, which sanitizers keep for themselves. That of main's thread stays. Nobody keeps
// the reference: what calls next may find another value.
template <class T, class Name = T> T& of_thread() {
  struct Held {
    T value = {};
    int rounds = 0;  // of destructors that it has seen
  };
  static const pthread_key_t key = [] {
    pthread_key_t created;
    pthread_key_create(&created, [](void* data) {
      Held* const held = static_cast<Held*>(data);
      if (++held->rounds < PTHREAD_DESTRUCTOR_ITERATIONS - 1) pthread_setspecific(key, held);
      else delete held;
    });
    return created;
  }();
  if (void* const held = pthread_getspecific(key)) return static_cast<Held*>(held)->value;
  Held* const held = new Held;
  pthread_setspecific(key, held);
  return held->value;
}

}  // namespace memory
