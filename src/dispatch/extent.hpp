// How far the searches of a key got: one cut short by its budget is worth repeating with a larger
// one. In: rows of a key. Out: Extent. Flow: get_op and explain ask; tuner/publish writes what is
// read here.  Read next: docs/tuning.md, "get_op and tune".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dispatch/dispatch.hpp"

namespace dlblas {

/// How a record marks a search that was interrupted.
inline constexpr std::string_view kUntilEnded = "until it was ended";

struct Extent {
  int tried = 0, planned = 0;  // of the longest search
  double budget_s = 0;
  bool cut = false;  // none of them came to the end of its space
};
/// The extent of the searches over everything, and of those narrowed like `searched`.
Extent extent_of(const std::vector<CurrentRow>& rows, std::string_view searched = "");

}  // namespace dlblas
