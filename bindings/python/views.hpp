// What a function of Python keeps of a call's tensors, after it returned.
#pragma once

#include "bindings/python/cpython.hpp"

namespace dlblas::py {

/// The views that one call gives to a Python function, and what their memory is kept by. Made and
/// asked under the interpreter's lock.
class Views {
 public:
  struct State;

  Views();
  Views(const Views&) = delete;
  Views& operator=(const Views&) = delete;
  ~Views();

  /// For views that are Python's objects to refer to: stands for a reference. Null with an error
  /// set.
  Object* make_token() const;
  /// Another reference, given back by drop() on any thread, with or without the lock.
  State* share() const;
  static void drop(State* state);

  /// The function has returned, and what the call had for it is gone. Where a view is left, what it
  /// reads stays as long as it does. False: its memory is somebody's who was not asked.
  bool end();

 private:
  State* const state_;
};

}  // namespace dlblas::py
