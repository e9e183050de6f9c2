// Row programs on CPUs whose heads lie further apart than tokens, as [B, H, S, D] seen as
// [B, S, H, D]: a few heads of many tokens at a time, so that a processor's prefetchers follow each
// head through memory. Rows are those of any call, with fewer heads; so are the bits. Included by
// kernels/rows_cpu.cpp alone. Read next: cpu/row/walk.hpp (RowWalker), kernels/row_copies.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "kernels/row_operator.hpp"

namespace dlblas::kernels {

/// True if most heads of the call are further apart than its tokens, and may be walked by
/// themselves.
inline bool walks_by_heads(const RowOperator& op, const RowJob& job) {
  if (!op.op.heads || op.op.reduces || op.op.heads_together || job.shape.whole) return false;
  const bool second = job.shape.heads[1] > job.shape.heads[0];
  const int i = second ? job.shape.second[0] : 0;
  return job.call.rows > 1 && job.call.nest.rank > 0 && job.shape.heads[second] > 1 &&
         std::abs(job.call.operands[i].head) > std::abs(job.call.nest.strides[i][0]);
}

/// The job of `count` heads from `head` on, of the first tensors or, `part` = 1, of the second
/// ones.
inline RowJob job_of_heads(const RowOperator& op, const RowJob& job, int part, std::int32_t head,
                           std::int32_t count) {
  RowJob some = job;
  some.shape.heads[part] = count, some.shape.heads[1 - part] = 0;
  some.call.width = some.tile = job.shape.head_width * count;
  // The second ones come after these, and are reached through them.
  for (int i = 0; i < static_cast<int>(op.op.operands.size()); ++i) {
    if (!(job.shape.headed >> i & 1u)) continue;
    const int from = part == 1 && job.shape.second[i] ? job.shape.second[i] : i;
    RowOperand& operand = some.call.operands[from];
    if (operand.data)
      operand.data = static_cast<char*>(operand.data) + head * operand.head * size_of(job.types[i]);
  }
  return some;
}

/// Walks rows [begin, end) of the job. Two heads at a time pay more for their rows, eight are more
/// streams than are followed (docs/notes/cpu_rows.md).
inline void walk_by_heads(const RowOperator& op, RowJobFn walk, const RowJob& job,
                          std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kTokens = 64;  // their rows of tables stay in the first-level cache
  constexpr std::int32_t kHeads = 4;    // each is a stream of its own
  for (std::int64_t first = begin; first < end; first += kTokens)
    for (int part = 0; part < 2; ++part)
      for (std::int32_t head = 0; head < job.shape.heads[part]; head += kHeads) {
        const std::int32_t count = std::min(kHeads, job.shape.heads[part] - head);
        walk(job_of_heads(op, job, part, head, count), first, std::min(end, first + kTokens));
      }
}

}  // namespace dlblas::kernels
