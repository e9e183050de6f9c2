// Which of several measured candidates wins: one pure rule, used by the tuner when it measures and by select
// when it reads records, so that both always agree.
// In: raw samples. Out: an index. Read next: docs/tuning.md, "When a candidate wins".
#pragma once

#include <span>

namespace dlblas {

/// One candidate's measurements. Contenders are ordered: lower index wins a tie.
struct Contender {
  std::span<const double> samples_ms;
  bool is_default = false;  // the default configuration of the first supporting implementation
};

/// The time a candidate is judged by: its minimum, since noise on a shared machine only adds.
double score_ms(std::span<const double> samples_ms);
/// How uncertain that is, one σ, in milliseconds.
double spread_ms(std::span<const double> samples_ms);
/// The winner's index, or -1 without contenders. The default loses only to one that is faster by more than
/// max(1 %, 2σ); among those, the fastest wins, and ties go to the lower index.
int pick_winner(std::span<const Contender> contenders);

}  // namespace dlblas
