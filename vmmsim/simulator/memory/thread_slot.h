// SPDX-License-Identifier: MIT-0
// Values of a thread that outlive its thread_local objects. Programs make calls even then: from destructors of objects
// of their own and of their keys, of static objects too when main's thread has ended.
#pragma once
#include <pthread.h>

namespace memory {

// This thread's value, one of each type. It goes when the destructor of its key has its turn; that of main's thread
// stays. What calls later, such as the destructor of a key that was made later, finds a new value, as on an H100: so
// nobody keeps the reference.
template <class T> T& thread_slot() {
  static const pthread_key_t key = [] {
    pthread_key_t created;
    pthread_key_create(&created, [](void* value) { delete static_cast<T*>(value); });
    return created;
  }();
  if (void* const value = pthread_getspecific(key)) return *static_cast<T*>(value);
  T* const value = new T;
  pthread_setspecific(key, value);
  return *value;
}

}  // namespace memory
