// The oracle of moe_sort: the token of each row that moe_permute would write. Nothing is rounded.
// Read next: moe_sort.cuh.
#pragma once

#include <numeric>

#include "ops/moe/moe_align/moe_align_ref.hpp"

namespace dlblas::moe {

enum SortTensor : int { kSortIds, kSortRows, kSortOffsets, kSortInverse };
enum SortLetter : int { kSortT, kSortK, kSortE };

inline void moe_sort_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                               OracleOut* out) {
  const std::int64_t experts = args.letters[kSortE], choices = args.letters[kSortK];
  const std::int64_t tokens = args.letters[kSortT];
  const std::vector<std::int64_t> of = experts_of(args.tensors[kSortIds], experts);
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(experts) + 1);
  for (const std::int64_t e : of)
    if (e >= 0) ++offsets[static_cast<std::size_t>(e) + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  std::vector<std::int64_t> next = offsets, list(of.size(), -1), inverse(of.size(), -1);
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (of[i] < 0) continue;
    inverse[i] = next[static_cast<std::size_t>(of[i])]++;
    list[static_cast<std::size_t>(inverse[i])] = static_cast<std::int64_t>(i) / choices;
  }
  const auto items = static_cast<std::int64_t>(of.size());
  for (std::int64_t r = 0; r < num_rows; ++r) {
    if (rows[r] == 0) {  // the list and the offsets are one row each
      std::copy(list.begin(), list.end(), out[0].value + r * items);
      std::copy(offsets.begin(), offsets.end(), out[1].value + r * (experts + 1));
    }
    for (std::int64_t j = 0; j < choices && rows[r] < tokens; ++j)
      out[2].value[r * choices + j] =
          static_cast<double>(inverse[static_cast<std::size_t>(rows[r] * choices + j)]);
  }
}

}  // namespace dlblas::moe
