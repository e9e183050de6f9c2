// The worker's side: serves one search over a socket. It makes the inputs from the seed, has its
// own oracle, and measures in its process candidates that may end it. In: requests. Out: replies,
// until the tuner hangs up. Flow: dlblas_worker_main > [serve] > in_process.  Read next:
// tuner/worker_measurer.cpp, which asks.
#pragma once

#include <functional>

#include "tuner/measure.hpp"

namespace dlblas::worker {

/// A context that offers the problem's threads; it stays valid until the next one is requested.
using MakeContext = std::function<const Context&(const Problem& problem)>;
/// Greets and serves until the socket ends. Returns the process's exit status.
int serve(int socket, const MakeContext& make_context);

}  // namespace dlblas::worker
