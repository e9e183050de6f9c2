// Stream-K: how workers divide the units of a product that fill no whole number of waves. A worker
// is a block, or a cluster that shares a tile of an operand; a unit is a tile, or the cluster's
// worth of them. In: numbers of units, of stages of K, of workers. Out: each worker's segments.
//
// Every worker takes `rounds` units whole. What is left, less than two waves, is one sequence of
// stages of K, unit after unit, cut into equal parts. A worker's part has a position; its segments
// are, in the order in which it computes them:
//   whole   `rounds` units, as without stream-K
//   given   if the part begins within a unit: that unit's stages. The sums go to the workspace.
//   owned   the units that begin within the part. Of the last one the end of K may be missing: the
//           next positions give it, and the owner adds their sums in that order, so bits repeat.
//
// No wait is circular. Only the owner of an incomplete unit waits, in its last segment and for
// given segments alone, and until a worker has given, it waits for nothing. This needs each giver
// to be running, or to start without an owner's end. The grid has no more blocks than fit on the
// device at once; and positions run against the order of workers, so givers have lower block
// indices than the owner that waits for them: they start before it where other work takes part of
// the device.
//
// Read next: wgmma_stream.cuh, tests/cpp/test_gemm_stream.cpp.
#pragma once

#include "device/types.hpp"

namespace dlblas {

/// Stages [first, first + count) of a unit's K.
struct GemmSegment {
  int32_t unit, first, count;
};

struct GemmStream {
  int32_t stages;      // of K in a unit
  int32_t rounds;      // units that each worker takes whole
  int32_t each, more;  // stages of a part; the first `more` positions have one more

  /// The first stage of a position's part.
  constexpr int32_t begin(int32_t position) const {
    return each * position + (position < more ? position : more);
  }
  /// False if all parts are whole units: nothing is given.
  constexpr bool splits() const { return stages > 1 && (more > 0 || each % stages != 0); }
};

/// The segments of one worker.
struct GemmStreamWalk {
  GemmStream stream;
  int32_t worker, workers;

  constexpr int32_t size() const {
    const int32_t last = (end() + stream.stages - 1) / stream.stages - owned();
    return (gives() ? 1 : 0) + stream.rounds + (last > 0 ? last : 0);
  }
  /// i < size()
  constexpr GemmSegment operator[](int32_t i) const {
    const int32_t from = begin(), to = end(), all = stream.stages;
    if (i < stream.rounds) return {worker + i * workers, 0, all};
    i -= stream.rounds;
    if (gives() && i == 0) {
      const int32_t border = owned() * all;
      return {streamed() + from / all, from % all, (to < border ? to : border) - from};
    }
    const int32_t unit = owned() + i - (gives() ? 1 : 0), left = to - unit * all;
    return {streamed() + unit, 0, left < all ? left : all};
  }
  /// How many workers give the rest of a segment: worker - 1, then worker - 2, and so on.
  constexpr int32_t givers(const GemmSegment& segment) const {
    if (segment.first > 0 || segment.count == stream.stages) return 0;
    const int32_t border = (segment.unit - streamed() + 1) * stream.stages;
    int32_t count = 0;
    while (stream.begin(position() + 1 + count) < border) ++count;
    return count;
  }

 private:
  constexpr int32_t position() const { return workers - 1 - worker; }
  constexpr int32_t begin() const { return stream.begin(position()); }
  constexpr int32_t end() const { return stream.begin(position() + 1); }
  constexpr int32_t streamed() const { return stream.rounds * workers; }  // the first unit
  constexpr bool gives() const { return begin() % stream.stages != 0; }
  /// The first streamed unit that begins at or after the part's begin.
  constexpr int32_t owned() const { return (begin() + stream.stages - 1) / stream.stages; }
};

struct GemmStreamPlan {
  GemmStream stream;
  int32_t workers;
};

/// `at_once`: workers that the device holds. No part is empty. Fewer units than workers: parts have
/// kGemmMinPart stages at least. `stages` is at most 2^22, so that int32 counts those of two waves.
inline constexpr int32_t kGemmMinPart = 4;
inline constexpr int64_t kGemmMaxStages = int64_t{1} << 22;
constexpr GemmStreamPlan plan_stream(int64_t units, int64_t stages, int64_t at_once) {
  int64_t workers = at_once, rounds = 0, streamed = units;
  if (units < at_once) {
    workers = units * stages / kGemmMinPart;
    workers = workers < units ? units : workers > at_once ? at_once : workers;
  } else {
    const int64_t rest = units % at_once;
    rounds = units / at_once - (rest > 0 ? 1 : 0);
    streamed = units - rounds * at_once;
  }
  const int64_t all = streamed * stages;
  return {{static_cast<int32_t>(stages), static_cast<int32_t>(rounds),
           static_cast<int32_t>(all / workers), static_cast<int32_t>(all % workers)},
          static_cast<int32_t>(workers)};
}

}  // namespace dlblas
