// Results that were measured under another driver or compiler: still served, since the code is the
// same, and the best of them measured again when tuning next asks. In: rows of a key. Out: which of
// them. Flow: tune and explain ask.  Read next: docs/tuning.md, "get_op and tune".
#pragma once

#include <string>
#include <vector>

#include "dispatch/dispatch.hpp"

namespace dlblas {

/// What a time depends on beside the code: the compiler of the library, and on a GPU
/// the driver and NVRTC. Named as records name them.
Fields surroundings(const Problem& problem);

/// "driver 12.8, now 13.0": what is known of both and differs; empty when nothing is.
std::string changed_since(const CurrentRow& row, const Fields& now);

/// The four fastest of the rows that were measured under something else, where the winner is one of
/// them. Pointers into `rows`.
std::vector<const CurrentRow*> stale_rows(const std::vector<CurrentRow>& rows, const Fields& now);

}  // namespace dlblas
