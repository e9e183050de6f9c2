// Results measured under another driver or compiler: still served, since the code is the same; the
// best of them are measured again at the next tuning. In: rows of a key. Out: which of them. Flow:
// tune and explain ask.  Read next: docs/tuning.md, "get_op and tune".
#pragma once

#include <string>
#include <vector>

#include "dispatch/dispatch.hpp"

namespace dlblas {

/// What a time depends on besides the code: the compiler of the library, and on a GPU the driver
/// and NVRTC. Fields are named as in records.
Fields surroundings(const Problem& problem);

/// "driver 12.8, now 13.0": the fields known on both sides that differ; empty if none do.
std::string changed_since(const CurrentRow& row, const Fields& now);

/// The four fastest of the rows measured in other surroundings, if the winner is one of them.
/// Pointers into `rows`.
std::vector<const CurrentRow*> stale_rows(const std::vector<CurrentRow>& rows, const Fields& now);

}  // namespace dlblas
