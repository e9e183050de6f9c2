// The problems that this process's calls ran untuned: what `autotune` searches afterwards. Noted
// when a choice is made, which is cold: a warm call pays nothing for it.
// Also the problems that the store decided: `autotune` checks whether their searches have more to
// do.
// In: plans that the model, the order or the store decided. Out: their Problems, each once.
// Flow: select > decide > [note_missed].  Read next: dispatch/select.cpp,
// dispatch/problem_text.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "dispatch/dispatch.hpp"

namespace dlblas {

/// The limit of each kind; beyond it, the oldest notes are dropped.
inline constexpr std::size_t kMaxMissed = 4096;

/// Remembers the plan's problem if the model or the order decided it, and, apart from these, if the
/// store did; forgets it if anything else did.
void note_missed(const Plan& plan);

struct Missed {
  Problem problem;
  Why why;
};
/// Those noted since `mark`, oldest first; `with_known`: also those that the store decided.
std::vector<Missed> missed_since(std::uint64_t mark, bool with_known);

/// The current mark. Drops all earlier choices, so that a problem missed from here on is noted
/// again.
std::uint64_t begin_missed();

}  // namespace dlblas
