// A worker as a process of its own: exec'ed, never a fork that continues in our code; killed with
// everything that it started; unable to outlive us. In: the command that starts it. Out: a Link.
// Flow: measure > [start] > worker.  Read next: tuner/worker_serve.hpp (its side),
// bindings/c/worker.cpp (which command).
#pragma once

#include <string>
#include <vector>

#include "tuner/worker_link.hpp"

namespace dlblas::worker {

/// The file descriptor of a worker's socket.
inline constexpr int kWorkerSocket = 3;

struct Command {
  std::vector<std::string> argv;         // argv[0] is a path
  std::vector<std::string> environment;  // "NAME=value", beside and over what this process has
};

/// Starts it and waits `limit_s` seconds for its greeting. Throws Unusable: it cannot be executed,
/// says nothing in time, or is another build of the library.
std::unique_ptr<Link> start(const Command& command, const Waiting& waiting, double limit_s);

}  // namespace dlblas::worker
