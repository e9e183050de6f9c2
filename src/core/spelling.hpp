// Edit distance to a known word, for "did you mean". Used by: whatever refuses a name.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dlblas {

/// The number of letters to insert, delete or change.
inline std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t change = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, diagonal + 1, change});
    }
  }
  return row[b.size()];
}

/// `; did you mean relu?` if one of the words is at most min(2, size / 3) edits away; Python, which
/// has its own rule, keeps it.
inline std::string did_you_mean(std::string_view given,
                                const std::vector<std::string_view>& words) {
  constexpr std::size_t kLongest = 64;
  std::string_view near;
  std::size_t least = std::min<std::size_t>(2, given.size() / 3) + 1;
  if (given.size() > kLongest) return {};
  for (const std::string_view word : words) {
    if (word == given) return {};
    if (const std::size_t far = edits(given, word); far < least) near = word, least = far;
  }
  return near.empty() ? "" : "; did you mean " + std::string(near) + "?";
}

}  // namespace dlblas
