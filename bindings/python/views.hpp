// Keeps a call's tensors alive for views that a Python function holds after it has returned.
#pragma once

#include "bindings/python/cpython.hpp"

namespace dlblas::py {

/// The views that one call gives to a Python function, and the owners of their memory. Made and
/// queried under the interpreter's lock.
class Views {
 public:
  struct State;

  Views();
  Views(const Views&) = delete;
  Views& operator=(const Views&) = delete;
  ~Views();

  /// For views that are Python objects: an object that holds a reference. Null with an error set.
  Object* make_token() const;
  /// Adds a reference; drop() gives it back on any thread, with or without the lock.
  State* share() const;
  static void drop(State* state);

  /// Call once the function has returned and the call's own objects for it are gone. If a view is
  /// left, the memory that it reads lives as long as the view. False: an owner of that memory
  /// cannot keep it.
  bool end();

 private:
  State* const state_;
};

}  // namespace dlblas::py
