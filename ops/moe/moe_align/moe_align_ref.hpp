// The oracle of moe_align: items by expert, in order, each group padded to whole blocks. Nothing is
// rounded: every element is right or wrong. Read next: registry/operator.hpp, moe_align.cuh.
#pragma once

#include <algorithm>
#include <vector>

#include "core/element.hpp"
#include "registry/operator.hpp"

namespace dlblas::moe {

/// The expert of each item of ids [T, topk], row by row; −1 where the id is not an expert.
inline std::vector<std::int64_t> experts_of(const TensorView& ids, std::int64_t experts) {
  std::vector<std::int64_t> found;
  for (std::int64_t t = 0; t < ids.shape[0]; ++t)
    for (std::int64_t j = 0; j < ids.shape[1]; ++j) {
      const double id = load_element(ids, t * ids.strides[0] + j * ids.strides[1]);
      found.push_back(id >= 0 && id < static_cast<double>(experts) ? static_cast<std::int64_t>(id)
                                                                   : -1);
    }
  return found;
}

enum AlignTensor : int { kAlignIds, kAlignSorted, kAlignExperts, kAlignPadded };
enum AlignLetter : int { kAlignT, kAlignK, kAlignE, kAlignBlock };

inline void moe_align_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                                OracleOut* out) {
  const std::int64_t experts = args.letters[kAlignE], block = args.letters[kAlignBlock];
  const std::vector<std::int64_t> of = experts_of(args.tensors[kAlignIds], experts);
  const auto items = static_cast<std::int64_t>(of.size());
  const std::int64_t extent = args.tensors[kAlignSorted].shape[0];
  const std::int64_t blocks = args.tensors[kAlignExperts].shape[0];
  std::vector<std::vector<std::int64_t>> groups(static_cast<std::size_t>(experts));
  for (std::int64_t i = 0; i < items; ++i)
    if (const std::int64_t e = of[static_cast<std::size_t>(i)]; e >= 0)
      groups[static_cast<std::size_t>(e)].push_back(i);
  for (std::int64_t r = 0; r < num_rows; ++r) {
    if (rows[r] != 0) continue;  // all results are one row
    double *sorted = out[0].value + r * extent, *owners = out[1].value + r * blocks;
    std::fill_n(sorted, extent, static_cast<double>(items));
    std::fill_n(owners, blocks, -1.0);
    std::int64_t at = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      const std::vector<std::int64_t>& group = groups[static_cast<std::size_t>(e)];
      const std::int64_t begin = at;
      for (const std::int64_t item : group) sorted[at++] = static_cast<double>(item);
      at = (at + block - 1) / block * block;
      std::fill(owners + begin / block, owners + at / block, static_cast<double>(e));
    }
    out[2].value[r] = static_cast<double>(at);
  }
}

}  // namespace dlblas::moe
