// In-place row programs on CPUs where an access writes what others of its head read
// (RowOp::crosses): a few rows at a time are copied and read from the copies, so that the loops are
// those of any call. Included by kernels/rows_cpu.cpp alone. Read next: cpu/row/walk.hpp
// (RowWalker).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/row_operator.hpp"
#include "registry/registry.hpp"

namespace dlblas::kernels {

/// Memory for copies: each part of the rows is walked by one thread at a time, and has room for
/// `rows` of them.
struct RowCopies {
  std::int64_t elements;  // of a row: of its heads, and of the second ones
  std::int64_t rows, parts, element_bytes;

  std::int64_t part_bytes() const { return rows * elements * element_bytes; }
  std::size_t bytes() const { return static_cast<std::size_t>(parts * part_bytes()); }
};

inline RowCopies row_copies(const RowOperator& op, const Problem& problem) {
  constexpr std::int64_t kBytes = 16 << 10;  // what a first-level cache has room for
  const Schema& schema = Registry::process().by_id(problem.op).schema;
  RowCopies copies = {};
  copies.element_bytes = size_of(problem.tensors[op.operands[0].tensor].dtype);
  for (const int i : {0, op.operands[0].second}) {
    const auto& spec = op.operands[static_cast<std::size_t>(i)];
    const std::vector<DimExpr>& dims = schema.tensors[static_cast<std::size_t>(spec.tensor)].dims;
    copies.elements +=
        dims[dims.size() - 2].evaluate(problem.dims) * dims.back().evaluate(problem.dims);
    if (op.operands[0].second == 0) break;
  }
  copies.elements = std::max<std::int64_t>(1, copies.elements);
  copies.rows = std::max<std::int64_t>(1, kBytes / (copies.elements * copies.element_bytes));
  copies.parts = problem.threads > 1 ? 2 * problem.threads : 1;
  return copies;
}

/// Copies row `row` of an operand, its heads one after the other.
inline void copy_row(const Args& args, const RowOperandSpec& spec, const RowNest& nest,
                     const std::int64_t (&strides)[RowNest::kMaxRank], std::int64_t row, char* to) {
  const TensorView& t = args.tensors[spec.tensor];
  const std::int64_t bytes = size_of(t.dtype), width = t.shape[t.rank - 1];
  const char* from = static_cast<const char*>(t.data);
  for (int d = 0; d < nest.rank; ++d) {
    from += row % nest.sizes[d] * strides[d] * bytes;
    row /= nest.sizes[d];
  }
  const std::int64_t column = t.strides[t.rank - 1] * bytes;
  for (std::int64_t head = 0; head < t.shape[t.rank - 2]; ++head) {
    if (column == bytes) std::memcpy(to, from, static_cast<std::size_t>(width * bytes));
    for (std::int64_t c = 0; c < width && column != bytes; ++c)
      std::memcpy(to + c * bytes, from + c * column, static_cast<std::size_t>(bytes));
    to += width * bytes;
    from += t.strides[t.rank - 2] * bytes;
  }
}

/// Walks rows [begin, end) of the job, reading them from copies at `to`.
inline void walk_copied(const RowOperator& op, const Args& args, RowJobFn walk, const RowJob& job,
                        const RowCopies& copies, char* to, std::int64_t begin, std::int64_t end) {
  RowJob copied = job;
  RowNest& nest = copied.call.nest;
  const int second = op.operands[0].second;
  std::int64_t first = 0;  // element of a copied row
  for (const int i : {0, second}) {
    const RowOperandSpec& spec = op.operands[static_cast<std::size_t>(i)];
    const TensorView& t = args.tensors[spec.tensor];
    const std::int64_t width = t.shape[t.rank - 1];
    for (std::int64_t row = begin; row < end; ++row)
      copy_row(args, spec, nest, job.call.nest.strides[i], row,
               to + ((row - begin) * copies.elements + first) * copies.element_bytes);
    // Rows are indexed from 0, so the base address is `begin` rows before the copies.
    const std::int64_t origin = (first - begin * copies.elements) * copies.element_bytes;
    copied.call.operands[i].data =
        reinterpret_cast<void*>(reinterpret_cast<std::intptr_t>(to) + origin);
    copied.call.operands[i].column = 1, copied.call.operands[i].head = width;
    std::int64_t stride = copies.elements;
    for (int d = 0; d < nest.rank; ++d) nest.strides[i][d] = stride, stride *= nest.sizes[d];
    first += t.shape[t.rank - 2] * width;
    if (second == 0) break;
  }
  walk(copied, begin, end);
}

inline void run_copied(const RowOperator& op, const Args& args, const Context& context,
                       RowJobFn walk, const RowJob& job, const RowCopies& copies) {
  char* memory = reinterpret_cast<char*>(job.partials);  // the workspace
  const std::int64_t share = (job.call.rows + copies.parts - 1) / copies.parts;
  context.run(0, copies.parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      char* to = memory + part * copies.part_bytes();
      const std::int64_t last = std::min(job.call.rows, (part + 1) * share);
      for (std::int64_t row = part * share; row < last; row += copies.rows)
        walk_copied(op, args, walk, job, copies, to, row, std::min(last, row + copies.rows));
    }
  });
}

}  // namespace dlblas::kernels
