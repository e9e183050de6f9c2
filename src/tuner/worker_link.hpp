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
  /// Sends `request` and waits `limit_s` seconds at most for the reply.
  virtual Exchange exchange(std::string_view request, double limit_s) = 0;
};

/// Called several times a second while waiting for an answer; true: stop.
using Waiting = std::function<bool()>;
/// Starts a worker, which has `limit_s` seconds to send its greeting. Throws Unusable.
using Start = std::function<std::unique_ptr<Link>(const Waiting& waiting, double limit_s)>;

/// No worker is available; says why.
class Unusable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace dlblas::worker
