// See sample_cost.hpp.
#include "tuner/sample_cost.hpp"

#include <algorithm>
#include <cmath>

namespace dlblas {
namespace {

// A replay is long compared with the 5 µs or so that starting a graph takes, which its time
// includes.
constexpr double kReplayMs = 0.2;
// Longer, if all sets then have their turn; otherwise long enough that a flush's write-backs (10
// µs) do not count.
constexpr double kTurnMs = 1.0;
constexpr double kSampleMs = 2.0;  // fewer replays where one is long

}  // namespace

// Whole turns over the sets if they take no longer than kTurnMs; a part of a turn, after a flush,
// for slow kernels.
int Rotation::launches(double ms) const {
  const double n = static_cast<double>(sets), each = std::max(ms, 1e-4);
  const double timed = std::ceil(kReplayMs / each);
  if (timed < n || sets * bytes < wanted) {
    const auto of_sizes = static_cast<double>(sizes);
    const double some = std::min(n, std::max(timed, std::ceil(kTurnMs / each)));
    return static_cast<int>(of_sizes * std::ceil(some / of_sizes));
  }
  const double most = std::max(1.0, std::floor(kMaxSets / n));
  return static_cast<int>(n * std::min(most, std::ceil(timed / n)));
}

std::size_t Rotation::bytes_apart(int launches, std::size_t flushed) const {
  const auto count = static_cast<std::size_t>(launches);
  const std::size_t across = (count % sets ? count % sets : sets) * bytes + flushed;
  return count > sets ? std::min(sets * bytes, across) : across;
}

int replays_for(double replay_ms) {
  return static_cast<int>(
      std::clamp(kSampleMs / std::max(replay_ms, 1e-3), 1.0, kMaxReplays + 0.0));
}

double SampleCost::of(double ms) const {
  if (!replays) return std::max(ms, least_ms);
  constexpr double kFlushMs = 0.05;
  const double replay_ms = std::max(ms * rotation.launches(ms), 0.01);
  return replay_ms * (1 + replays_for(replay_ms)) + (flushes ? kFlushMs * kMaxReplays : 0);
}

}  // namespace dlblas
