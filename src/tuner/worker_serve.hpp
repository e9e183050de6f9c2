// The worker's side: one search, asked for over a socket. It makes the inputs by the seed, has the
// oracle of its own, and measures in its process what may end it. In: requests. Out: replies, until
// the tuner hangs up. Flow: dlblas_worker_main > [serve] > in_process.  Read next:
// tuner/worker_measurer.cpp, which asks.
#pragma once

#include <functional>

#include "tuner/measure.hpp"

namespace dlblas::worker {

/// A context that offers the problem's threads; it stays valid until the next one is asked for.
using MakeContext = std::function<const Context&(const Problem& problem)>;
/// Greets and serves until the socket ends. The process' exit status.
int serve(int socket, const MakeContext& make_context);

}  // namespace dlblas::worker
