// The other end of a conversation with a worker: a process (worker_process.hpp), or a test's
// script. In: one request, and how long its answer may take. Out: the reply, or how the worker
// ended. Flow: measure > [link] > worker.  Read next: tuner/worker_measurer.hpp.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dlblas::worker {

enum class Ending {
  kReplied,  // it lives
  kTimedOut,
  kDied,
  kGone,     // before it was asked: it had ended, or something that answers nothing came from it
  kStopped,  // the caller wanted no more; after anything but a reply the worker is gone
};
struct Exchange {
  Ending ending = Ending::kReplied;
  std::string reply;
  std::string how;       // it died, in words, with the last lines it wrote on standard error
  bool outside = false;  // by a signal that no kernel raises: the system's or a person's
};

class Link {
 public:
  virtual ~Link() = default;
  /// Sends `request`, waits for the reply, `limit_s` seconds at most.
  virtual Exchange exchange(std::string_view request, double limit_s) = 0;
};

/// Asked several times a second while an answer is waited for; true: stop.
using Waiting = std::function<bool()>;
/// Starts one, which has `limit_s` seconds to say that it is there. Throws Unusable.
using Start = std::function<std::unique_ptr<Link>(const Waiting& waiting, double limit_s)>;

/// No worker can be had; says why.
class Unusable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace dlblas::worker
