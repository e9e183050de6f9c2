// The library's own CPU threads: parallel_for for callers that bring none (torch brings its own).
// Persistent workers spin for a few microseconds and then sleep; the caller works too. One region
// at a time: a nested or concurrent one runs on its caller alone, as does everything in a forked
// child. Read next: bindings/c/context.cpp, core/implementation.hpp (Context).
#pragma once

#include <cstdint>

namespace dlblas {

using RangeFn = void (*)(std::int64_t begin, std::int64_t end, void* ctx);

/// Runs fn over [begin, end) on up to `threads` threads in chunks of at least `grain` (except the
/// last); returns when all are done. fn must not throw.
void pool_parallel_for(int threads, std::int64_t begin, std::int64_t end, std::int64_t grain,
                       RangeFn fn, void* ctx);

}  // namespace dlblas
