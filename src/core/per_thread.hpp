// One object per thread that outlives thread_local destructors: calls may come from atexit handlers
// and static destructors, after the main thread's thread_local objects are gone.
#pragma once

#include <pthread.h>

namespace dlblas {

/// The calling thread's T, created at first use. Freed when its thread ends; the main thread's is
/// never freed, since exit() runs no pthread key destructors.
template <typename T>
T& per_thread() {
  static thread_local T* object = nullptr;  // trivially destructible: readable to the very end
  if (!object) {
    static const pthread_key_t key = [] {
      pthread_key_t made;
      pthread_key_create(&made, [](void* p) {
        object = nullptr;
        delete static_cast<T*>(p);
      });
      return made;
    }();
    object = new T;
    pthread_setspecific(key, object);
  }
  return *object;
}

}  // namespace dlblas
