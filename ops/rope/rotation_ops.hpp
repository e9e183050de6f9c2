// Shared by the definitions of rotations: the columns of heads, and the programs' options.
// Read next: ops/rope/rotation.hpp, ops/rope/rope/rope.cpp.
#pragma once

#include "kernels/rows.hpp"
#include "ops/common/mean_square.hpp"
#include "ops/rope/rotation.hpp"

namespace dlblas::rope {

/// Heads of `pairs` pairs, followed by `rest` columns that are not rotated.
inline kernels::RowHeads rotated_heads(std::int64_t pairs, std::int64_t rest) {
  return {.width = pairs + rest, .split = rest > 0 ? pairs : 0};
}

/// Elements per column: two if the style, a key scalar, reads neighbours.
template <int kScalar>
std::int32_t rotation_span(const Problem& problem) {
  return problem.scalars[kScalar] == kNeox ? 1 : 2;
}
/// True if pairs are read as neighbours but written apart, where other accesses read theirs.
template <int kScalar>
bool rotation_crosses(const Problem& problem) {
  return problem.scalars[kScalar] == kInterleavedToHalf;
}

template <int kScalar>
void choose_rotation(const Problem& problem, std::int64_t pairs, std::int64_t copies,
                     std::int32_t* options) {
  options[kPairs] = static_cast<std::int32_t>(pairs);
  options[kCopies] = static_cast<std::int32_t>(copies);
  options[kStyle] = static_cast<std::int32_t>(problem.scalars[kScalar]);
}

/// HalfTables of a problem, whose tensors `cos` and `sin` may have either width.
inline std::int32_t halves_of(const Problem& problem, int cos, int sin) {
  return (problem.ones[cos] != 0 ? kHalfCos : 0) | (problem.ones[sin] != 0 ? kHalfSin : 0);
}

/// The bound of an operator that normalises its first tensor.
inline Bound normed_bound(const Problem& problem, int) {
  return norm::row_bound(problem.tensors[0].dtype);
}

}  // namespace dlblas::rope
