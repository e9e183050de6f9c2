// What taking one sample costs, as data: a measurer in another process tells it once, and the race
// plans its budget with it. In: the time of one run. Out: milliseconds.
// Flow: tune > race > measure.  Read next: tuner/cuda_measurer.hpp, whose samples rotate.
#pragma once

#include <cstddef>

namespace dlblas {

/// How launches rotate through the sets of tensors, so that none finds its own in the L2 cache.
struct Rotation {
  static constexpr std::size_t kMaxSets =
      160;                  // 200 µs of the shortest kernels (1.4 µs in a graph)
  std::size_t sets, bytes;  // bytes of one set
  std::size_t wanted;       // bytes that empty the cache
  std::size_t sizes = 1;    // of calls, which sets have in turn
  /// Launches of one replay, for a kernel that takes `ms`: as many of each size.
  int launches(double ms) const;
  /// The fewest bytes touched between two launches on the same set, replay after replay: each
  /// begins with set 0, `flushed` bytes after the last.
  std::size_t bytes_apart(int launches, std::size_t flushed) const;
};

inline constexpr int kMaxReplays = 5;  // timed in one sample, of which the median counts
/// Fewer if one takes long.
int replays_for(double replay_ms);

struct SampleCost {
  bool replays = false;           // graphs of unrolled launches; else a batch of calls
  double least_ms = 0;            // of a batch
  Rotation rotation = {1, 0, 0};  // of the launches of a replay
  bool flushes = false;           // the cache is overwritten before replays
  double of(double ms) const;
};

}  // namespace dlblas
