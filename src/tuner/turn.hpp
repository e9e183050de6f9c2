// One search per key at a time: a search takes its turn before it measures a key, and waits while
// another thread, or another process that shares the store, measures it. In: a store and a key; how
// long to wait. Out: the turn, until this is destroyed, or why there is none. Results are correct
// without it: two searches of one key only disturb each other. Flow: tune > [turn] > race.
// Read next: tuner/tune.cpp, store/key_lock.hpp.
#pragma once

#include <functional>
#include <string>

#include "store/store.hpp"

namespace dlblas {

class Turn {
 public:
  enum class Got {
    kMine,     // no other searches the key now, as far as can be known
    kLate,     // one still does, after the limit
    kNested,   // a search waits for this thread: its own, or one that it would wait for in a ring
    kStopped,  // the caller wants no more
  };

  Turn(Store& store, Fields key);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// Call once. `stop`, if given, is called several times a second.
  Got take(double limit_s, const std::function<bool()>& stop);
  /// Seconds; 0: there was no other search.
  double waited_s() const { return waited_s_; }

 private:
  enum class Try { kMine, kTaken, kNested };
  Try try_take();
  void give_back();

  Store& store_;
  const Fields key_;
  const std::string name_;  // of the key, in this process
  bool mine_ = false;       // here; the lock may be none
  KeyLock lock_;
  double waited_s_ = 0;
};

}  // namespace dlblas
