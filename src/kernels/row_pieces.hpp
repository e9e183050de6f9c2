// Rows longer than one launch takes, of programs whose columns are independent, and more rows than
// one launch takes: cut into parts, each a call of its own on views of the same memory. Included by
// kernels/rows_c*.cpp alone. Read next: kernels/row_operator.hpp (kMaxRowWidth).
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/row_operator.hpp"

namespace dlblas::kernels {

/// Makes `piece` the columns [begin, begin + count) of `args`. `begin` is a group's first column,
/// or the part lies within one group.
inline void cut_piece(const RowOperator& op, const Args& args, std::int64_t begin,
                      std::int64_t count, std::int64_t group, Args& piece) {
  piece.letters[op.width] = count;
  for (const RowOperandSpec& spec : op.operands) {
    const bool groups = spec.role == RowRole::kGroup;
    if (!given(args, spec) ||
        !(groups || spec.role == RowRole::kRow || spec.role == RowRole::kColumns))
      continue;
    const TensorView& whole = args.tensors[spec.tensor];
    TensorView& t = piece.tensors[spec.tensor];
    const int last = t.rank - 1;
    const std::int64_t at = groups ? begin / group : begin;
    t.data = static_cast<char*>(whole.data) + at * whole.strides[last] * size_of(t.dtype);
    t.shape[last] = groups ? (count + group - 1) / group : count;
  }
}

/// Calls `run` for the call or, if it has more rows than `most`, for parts of it in turn: slices of
/// the first leading dimension longer than 1. Returns the first nonzero code, or 0.
template <typename Run>
int for_rows(const RowOperator& op, const Args& args, std::int64_t most, const Run& run) {
  const std::int64_t rows = args.letters[op.rows];
  if (!op.parts || rows <= most) return run(args);
  int dim = 0;
  std::int64_t size = 1;
  for (const RowOperandSpec& spec : op.operands) {
    if (!given(args, spec) || !has_rows(spec.role)) continue;
    const TensorView& t = args.tensors[spec.tensor];
    while (dim < t.rank && t.shape[dim] == 1) ++dim;
    size = t.shape[dim];
    break;
  }
  const std::int64_t each = rows / size, step = std::max<std::int64_t>(1, most / each);
  for (std::int64_t begin = 0; begin < size; begin += step) {
    Args piece = args;
    const std::int64_t count = std::min(step, size - begin);
    piece.letters[op.rows] = count * each;
    for (const RowOperandSpec& spec : op.operands) {
      if (!given(args, spec) || !has_rows(spec.role)) continue;
      TensorView& t = piece.tensors[spec.tensor];
      if (t.shape[dim] != size) continue;  // one for all
      t.data = static_cast<char*>(t.data) + begin * t.strides[dim] * size_of(t.dtype);
      t.shape[dim] = count;
    }
    if (const int code = for_rows(op, piece, most, run); code != 0) return code;
  }
  return 0;
}

/// Calls `run` for the call, or for its parts in turn; returns the first nonzero code, or 0.
template <typename Run>
int for_pieces(const RowOperator& op, const Args& args, const Run& run) {
  const std::int64_t width = args.letters[op.width];
  if (!op.cuts || width <= kMaxRowWidth) return run(args);
  const std::int64_t group = op.group < 0 ? 1 : std::max<std::int64_t>(1, args.letters[op.group]);
  Args piece = args;
  for (std::int64_t begin = 0, count = 0; begin < width; begin += count) {
    count = group > kMaxRowWidth ? std::min(kMaxRowWidth, group - begin % group)
                                 : kMaxRowWidth / group * group;
    count = std::min(count, width - begin);
    cut_piece(op, args, begin, count, group, piece);
    if (const int code = run(piece); code != 0) return code;
  }
  return 0;
}

}  // namespace dlblas::kernels
