// Two searches of one key: how long one waits for the other, and whether the other's record answers
// its request. In: options, what the store holds. Out: words, seconds, yes or no. Flow: tune >
// [together], turn.  Read next: tuner/turn.hpp, docs/tuning.md ("One search per key").
#pragma once

#include <string>

#include "tuner/tune.hpp"
#include "tuner/turn.hpp"

namespace dlblas {

/// By then, a search of the same budget that began a moment ago has ended, including what may
/// exceed its budget: a worker's start, the inputs, the oracle.
double most_wait_s(double budget_s);
/// A function that tells on_event that the search waits, and returns true to stop; empty without a
/// listener.
std::function<bool()> waiting_of(const TuneOptions& options, double budget_s);
/// Why nothing was measured.
std::string words_of(Turn::Got got, const Turn& turn);

/// How a search was narrowed, for its record; empty: it was not.
std::string narrowing_of(const TuneOptions& options);
/// What was requested, and the newest sample known then.
struct Asked {
  std::string strategy;
  std::uint64_t seed;
  double budget_s;
  std::string searched;
  std::int64_t newest;
};
std::int64_t newest_in(const Merged& merged);
/// True if the store holds a newer search of this very request, with as much time or more.
bool answers(const Merged& merged, const Asked& asked);

}  // namespace dlblas
