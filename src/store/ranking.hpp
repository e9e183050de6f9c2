// Which of several measured candidates wins: one pure rule, used by the tuner when it measures and
// by select when it reads records, so that both always agree.
// In: raw samples. Out: an index. Read next: docs/tuning.md, "When a candidate wins".
#pragma once

#include <cstdint>
#include <span>

namespace dlblas {

/// A final is interleaved and gives each candidate at least this many samples; the race before it
/// gives fewer. So the number of samples identifies a finalist.
inline constexpr int kFinalSamples = 5;
/// A candidate that is faster by less than this fraction does not count as faster.
inline constexpr double kMargin = 0.01;

/// One candidate's measurements. Contenders are ordered: lower index wins a tie.
struct Contender {
  std::span<const double> samples_ms;
  bool is_default = false;  // the default configuration of the first supporting implementation
  std::int64_t run = 0;     // which run of the tuner measured it: Record::Candidate::measured_at
};

/// The time a candidate is judged by: its minimum, since noise on a shared machine only adds.
double score_ms(std::span<const double> samples_ms);
/// Whether the samples are a final's, not those of a race.
inline bool is_final(std::span<const double> samples_ms) {
  return samples_ms.size() >= kFinalSamples;
}
/// Whether `a` is shown rather than `b`, both times of one implementation: a final's comes before a
/// race's, which has few samples and is corrected for the machine's pace; then the smaller one. Any
/// time comes before none.
bool shown_before(std::span<const double> a, std::span<const double> b);
/// How uncertain a score is, one σ, in milliseconds. For noise that is exponential with scale s,
/// the minimum of n samples has standard error s / n, and the lower quartile lies 0.288 s above the
/// minimum: σ = (quartile − minimum) / (0.288 n). Under five samples: 5 % of the time.
double spread_ms(std::span<const double> samples_ms);
/// True when a is faster than b by more than max(1 %, 2σ), σ being that of the difference.
bool clearly_faster(std::span<const double> a, std::span<const double> b);
/// The winner's index, or -1 without contenders. The default loses only to one that is clearly
/// faster; among those, the fastest wins, and ties go to the lower index.
/// Samples are compared only within one run, because machines drift from day to day: the newest run
/// that has a finalist decides (without finalists, the newest run). Every run of the tuner measures
/// the default and the incumbent again, so this rule never loses a faster one.
int pick_winner(std::span<const Contender> contenders);

}  // namespace dlblas
