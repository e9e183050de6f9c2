// Who wins: one rule, used by the tuner when it has measured and by select when it reads what was
// remembered, so that both always name the same one. Pure: no clock, no file.
// In: a key's merged record and the implementations that support the problem, in registry order.
// Out: the rows that are still true of this code, and the winner among them.
// Flow: tune publishes, select calls `standing`.  Read next: store/store.hpp, docs/tuning.md.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/implementation.hpp"
#include "store/store.hpp"

namespace dlblas {

/// A final is interleaved and gives each candidate at least this many samples; the race before it
/// gives fewer. So the number of samples tells a finalist, and only finalists compete where any
/// are.
inline constexpr int kFinalSamples = 5;
/// A candidate that is faster by less than this is not faster.
inline constexpr double kMargin = 0.01;

/// A time and how well it is known. On a CPU the noise is one-sided, so the time is the minimum.
/// For noise that is exponential with scale s, the minimum of n samples has standard error s / n,
/// and the lower quartile lies 0.288 s above the minimum: sigma = (quartile − minimum) / (0.288 n).
/// Under five samples there is no quartile to speak of, and sigma is 5 % of the time.
struct Timing {
  double ms = 0;
  double sigma = 0;
};
Timing timing_of(const std::vector<double>& samples_ms);

/// True when a is faster than b by more than max(1 %, 2σ), σ being that of the difference.
bool clearly_faster(const Timing& a, const Timing& b);

struct Ranking {
  int winner = -1;     // index of the timings given; -1: none has a sample
  int best = -1;       // the smallest time
  std::string reason;  // one sentence
};
/// `timings` in id order (registry order, then place in the space); a time of 0 has no sample.
/// The default (index, −1: none) keeps its place unless the best is clearly faster; else the lowest
/// id that is clearly faster than the default, and than which the best is not clearly faster, wins.
Ranking rank(const std::vector<Timing>& timings, int default_index);

/// A stored candidate whose implementation supports the problem here, whose source is the one
/// compiled in, and whose configuration parses and lies in the space.
struct CurrentRow {
  int candidate = 0;  // index into the implementations given
  Config config;
  const Record::Candidate* stored = nullptr;  // lives as long as the Standing
  bool is_default = false;                    // the first implementation's default configuration
};

/// What the store knows of a problem, as far as it is current.
struct Standing {
  std::shared_ptr<const Merged> merged;
  std::vector<CurrentRow> rows;  // in id order
  int winner = -1;               // index into rows; -1: nothing to serve
  std::string reason;            // why it won, one sentence

  /// A current sample or a known failure exists for implementation i.
  bool knows(int candidate) const;
  /// Best current milliseconds of an implementation; −1: never measured.
  double best_ms(int candidate) const;
};
/// Samples are compared only within one run of the tuner (one `measured_at`): machines drift from
/// day to day. Every run re-measures the default and the incumbent, so the newest run that has a
/// finalist left decides.
Standing standing(std::shared_ptr<const Merged> merged,
                  const std::vector<const Implementation*>& supporting, const Problem& problem,
                  const DeviceInfo& device);

}  // namespace dlblas
