// How often events occurred in this process; tests use the counts to prove what did *not* happen.
#pragma once

#include <atomic>
#include <cstdint>

namespace dlblas {

struct Counters {
  std::atomic<std::int64_t> calls{0}, selected{0}, compiled{0}, prepared{0}, launched{0},
      measured{0}, store_hits{0}, store_misses{0};
};
inline Counters g_counters;

/// Relaxed: a counter orders nothing.
inline void count(std::atomic<std::int64_t>& counter) {
  counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace dlblas
