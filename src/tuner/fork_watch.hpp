// Detects a candidate whose forked child returns from it. A caller's process would then go on
// twice, so it is a failure; here the child exits at once, before it answers or publishes anything.
// A child that executes a program, or exits inside, is the candidate's own affair. In: which code
// has just run. Out: did a child return from it? Flow: in_process > [fork_watch]. Read next:
// tuner/in_process.cpp, tuner/worker_serve.cpp.
#pragma once

#include <cstdint>

namespace dlblas {

class ForkWatch {
 public:
  static constexpr const char* kWords =
      "forked this process, and the child came back from it: a caller would be there twice";

  ForkWatch();
  ~ForkWatch();
  ForkWatch(const ForkWatch&) = delete;
  ForkWatch& operator=(const ForkWatch&) = delete;

  /// Lives while `candidate` runs. In the child of a fork its destructor ends the process, whether
  /// `candidate` returned or threw.
  class Run {
   public:
    Run(const ForkWatch& watch, const void* candidate) : watch_(watch), candidate_(candidate) {}
    ~Run() {
      if (generation() != watch_.generation_) watch_.leave(candidate_);
    }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

   private:
    const ForkWatch& watch_;
    const void* const candidate_;
  };
  /// True if a child came back from `candidate`. If this process has forked since the last call,
  /// waits up to a tenth of a second for a child; one that comes later is seen by a later call.
  bool came_back(const void* candidate);

 private:
  struct Seen;
  static std::uint64_t generation();  // of forks that lead to this process
  [[noreturn]] void leave(const void* candidate) const;
  bool is_told(const void* candidate) const;

  Seen* seen_;  // shared with children; null where there is no memory for it
  const std::uint64_t generation_;
  std::int64_t forks_;  // of this process, when it was asked last
};

}  // namespace dlblas
