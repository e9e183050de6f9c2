// The oracle of moe_permute: rows of x grouped by expert, in the order of tokens. Nothing is
// rounded. Rows after the last group are undefined. Read next: moe_permute.cuh.
#pragma once

#include <numeric>

#include "ops/moe/moe_align/moe_align_ref.hpp"

namespace dlblas::moe {

enum PermuteTensor : int { kPermuteX, kPermuteIds, kPermuteRows, kPermuteOffsets, kPermuteInverse };
enum PermuteLetter : int { kPermuteT, kPermuteC, kPermuteK, kPermuteE };

inline void moe_permute_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                                  OracleOut* out) {
  const std::int64_t experts = args.letters[kPermuteE], choices = args.letters[kPermuteK];
  const std::int64_t width = args.letters[kPermuteC], tokens = args.letters[kPermuteT];
  const TensorView& x = args.tensors[kPermuteX];
  const std::vector<std::int64_t> of = experts_of(args.tensors[kPermuteIds], experts);
  std::vector<std::int64_t> next(static_cast<std::size_t>(experts) + 1), source;
  std::vector<std::int64_t> positions(of.size(), -1);
  for (const std::int64_t e : of)
    if (e >= 0) ++next[static_cast<std::size_t>(e) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  const std::vector<std::int64_t> offsets = next;
  source.resize(static_cast<std::size_t>(next.back()));
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (of[i] < 0) continue;
    positions[i] = next[static_cast<std::size_t>(of[i])]++;
    source[static_cast<std::size_t>(positions[i])] = static_cast<std::int64_t>(i) / choices;
  }
  for (std::int64_t r = 0; r < num_rows; ++r) {
    const std::int64_t row = rows[r];
    for (std::int64_t c = 0; c < width && row < tokens * choices; ++c) {
      if (row < static_cast<std::int64_t>(source.size())) {
        const std::int64_t from = source[static_cast<std::size_t>(row)];
        out[0].value[r * width + c] = load_element(x, from * x.strides[0] + c * x.strides[1]);
      } else {
        out[0].value[r * width + c] = 0;
        out[0].magnitude[r * width + c] = -1;
      }
    }
    for (std::int64_t e = 0; e <= experts && row == 0; ++e)
      out[1].value[r * (experts + 1) + e] =
          static_cast<double>(offsets[static_cast<std::size_t>(e)]);
    for (std::int64_t j = 0; j < choices && row < tokens; ++j)
      out[2].value[r * choices + j] =
          static_cast<double>(positions[static_cast<std::size_t>(row * choices + j)]);
  }
}

}  // namespace dlblas::moe
