// A key's lock against the searches of other processes: a file in the store's `locks` folder, held
// by the kernel for as long as this process lives, however it ends. In: an open folder. Out: mine,
// another's, or not available. The lock is advisory: measuring a key without it only costs time.
// Flow: tuner/turn > Store::lock_key > [key_lock].  Read next: tuner/turn.hpp.
#pragma once

#include <sys/types.h>

#include <string>

#include "store/files.hpp"

namespace dlblas {

class KeyLock {
 public:
  enum class State {
    kNone,   // no disk that takes locks: memory only, read-only, a folder that is not ours alone
    kMine,   // until this is destroyed
    kTaken,  // by another process
  };

  KeyLock() = default;
  /// Takes `locks/name` if no other process has it; never waits.
  KeyLock(Folder locks, std::string name);
  KeyLock(KeyLock&& other) noexcept { *this = std::move(other); }
  KeyLock& operator=(KeyLock&& other) noexcept;
  /// Releases the lock and removes the file. In the child of a fork it leaves both to the parent.
  ~KeyLock();

  State state() const { return state_; }
  /// kTaken: the process that holds it, 0 if unknown.
  pid_t holder() const { return holder_; }

 private:
  State state_ = State::kNone;
  pid_t holder_ = 0, owner_ = 0;
  Folder locks_;
  std::string name_;
  Fd file_;
};

}  // namespace dlblas
