// Which problems calls of this process ran untuned: what `autotune` searches afterwards. Noted
// where a choice is made, which is cold: a warm call pays nothing for it.
// And which the store decided: it also sees whether a search of these has more to do.
// In: plans that the model, the order or the store decided. Out: their Problems, each once.
// Flow: select > decide > [note_missed].  Read next: dispatch/select.cpp,
// dispatch/problem_text.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "dispatch/dispatch.hpp"

namespace dlblas {

/// Of each kind; beyond, those that were noted longest ago go.
inline constexpr std::size_t kMaxMissed = 4096;

/// Remembers the plan's problem where nothing measured nor pinned decided it, apart where the store
/// did; forgets one that something else did.
void note_missed(const Plan& plan);

struct Missed {
  Problem problem;
  Why why;
};
/// Those noted since `mark`, in that order; `with_known`: those that the store decided, too.
std::vector<Missed> missed_since(std::uint64_t mark, bool with_known);

/// Now. Every choice of before is made anew, so what is missed from here on is noted again.
std::uint64_t begin_missed();

}  // namespace dlblas
