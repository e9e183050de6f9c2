// Row programs on CPUs whose rows run down the columns of memory, as in softmax over the first
// dimension: a few rows at a time are transposed into contiguous copies, walked there, and copied
// back. So the loops, and the bits, are those of any call. Included by kernels/rows_cpu.cpp alone.
// Read next: cpu/row/walk.hpp (RowWalker), kernels/row_copies.hpp (heads in place).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/row_operator.hpp"

namespace dlblas::kernels {

/// Memory for copies: each part of the rows is walked by one thread at a time, `rows` of them per
/// step. parts = 0: nothing is copied.
struct RowTurns {
  std::int32_t rows = 0, parts = 0;
  std::uint32_t operands = 0;  // bit i: rows of operand i are copied

  bool has(std::size_t i) const { return operands >> i & 1u; }
};

/// The pitch of copied rows in bytes. A power of 2 would map the rows to the same sets of a cache.
inline std::int64_t turned_pitch(std::int64_t row_bytes) {
  constexpr std::int64_t kLine = 64;
  return (row_bytes + kLine - 1) / kLine * kLine + kLine;
}

/// `bytes`: of the workspace.
inline RowTurns row_turns(const RowOperator& op, const Problem& problem, std::size_t& bytes) {
  constexpr std::int64_t kLine = 64, kMaxBytes = std::int64_t{2} << 20, kMinRows = 4;
  RowTurns turns;
  if (!op.op.reduces || op.op.heads || op.folded != 0 || !op.indices.empty()) return turns;
  std::int64_t row_bytes = 0, narrowest = 8;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const RowOperandSpec& spec = op.operands[i];
    const TensorTraits& t = problem.tensors[spec.tensor];
    if (spec.role != RowRole::kRow || t.dtype == DType::kAbsent || has_unit_columns(t.layout))
      continue;
    turns.operands |= 1u << i;
    row_bytes += turned_pitch(spec.times * problem.dims[op.width] * size_of(t.dtype));
    narrowest = std::min<std::int64_t>(narrowest, size_of(t.dtype));
  }
  if (row_bytes == 0) return turns;
  const std::int64_t rows = std::min(kLine / narrowest, kMaxBytes / row_bytes);
  if (rows < kMinRows) return {};
  turns.rows = static_cast<std::int32_t>(rows);
  turns.parts = std::max<std::int32_t>(1, problem.threads);
  bytes = static_cast<std::size_t>(turns.parts * rows * row_bytes);
  return turns;
}

/// Transposes `rows` rows that are adjacent in memory to contiguous rows, or back.
template <typename T>
void turn(char* lying, std::int64_t column, char* turned, std::int64_t pitch, std::int64_t width,
          std::int64_t rows, bool back) {
  constexpr std::int64_t kAhead = 16;
  for (std::int64_t c = 0; c < width; ++c) {
    T* from = reinterpret_cast<T*>(lying + c * column);
    __builtin_prefetch(lying + (c + kAhead) * column);
    char* to = turned + c * static_cast<std::int64_t>(sizeof(T));
    if (back)
      for (std::int64_t r = 0; r < rows; ++r) std::memcpy(from + r, to + r * pitch, sizeof(T));
    else
      for (std::int64_t r = 0; r < rows; ++r) std::memcpy(to + r * pitch, from + r, sizeof(T));
  }
}

inline void turn_rows(int size, char* lying, std::int64_t column, char* turned, std::int64_t pitch,
                      std::int64_t width, std::int64_t rows, bool back) {
  const auto as = [&](auto element) {
    turn<decltype(element)>(lying, column, turned, pitch, width, rows, back);
  };
  size == 1 ? as(std::uint8_t{}) : size == 2 ? as(std::uint16_t{}) : as(std::uint32_t{});
}

/// True if the copied operands of this call have rows that are adjacent in memory.
inline bool turns_pay(const RowOperator& op, const Args& args, const RowJob& job,
                      const RowTurns& turns) {
  if (turns.parts == 0 || job.call.nest.rank < 1 || job.call.rows < 2) return false;
  if (job.call.rows % job.call.nest.sizes[0] != 0) return false;  // of the last period, a part
  for (std::size_t i = 0; i < op.operands.size(); ++i)
    if (turns.has(i) && given(args, op.operands[i]) && job.call.nest.strides[i][0] != 1)
      return false;
  return true;
}

/// Walks rows [begin, end), which lie within one run of the innermost leading dimension.
inline void walk_turned(const RowOperator& op, const Args& args, RowJobFn walk, const RowJob& job,
                        const RowTurns& turns, char* memory, std::int64_t begin, std::int64_t end) {
  RowJob turned = job;
  turned.stream = false;
  struct {
    char *lying, *at;
    std::int64_t column, width, pitch;
  } of[kMaxRowOperands] = {};
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (!turns.has(i) || !given(args, op.operands[i])) continue;
    const TensorView& t = args.tensors[op.operands[i].tensor];
    const RowNest& nest = job.call.nest;
    const std::int64_t size = size_of(t.dtype), pitch = turned_pitch(t.shape[t.rank - 1] * size);
    std::int64_t offset = 0, row = begin;
    for (int d = 0; d < nest.rank; ++d) {
      offset += row % nest.sizes[d] * nest.strides[i][d];
      row /= nest.sizes[d];
    }
    of[i] = {static_cast<char*>(t.data) + offset * size, memory, t.strides[t.rank - 1] * size,
             t.shape[t.rank - 1], pitch};
    if (op.operands[i].tensor < args.schema->num_inputs)
      turn_rows(size_of(t.dtype), of[i].lying, of[i].column, memory, pitch, of[i].width,
                end - begin, false);
    RowOperand& operand = turned.call.operands[i];
    // Rows are indexed from 0, so the base address is `begin` rows before the copies.
    operand.data = reinterpret_cast<void*>(reinterpret_cast<std::intptr_t>(memory) - begin * pitch);
    operand.column = 1;
    std::int64_t stride = pitch / size;
    operand.row = stride;
    for (int d = 0; d < nest.rank; ++d)
      turned.call.nest.strides[i][d] = stride, stride *= nest.sizes[d];
    memory += pitch * turns.rows;
  }
  walk(turned, begin, end);
  for (std::size_t i = 0; i < op.operands.size(); ++i)
    if (of[i].at && op.operands[i].written)
      turn_rows(size_of(args.tensors[op.operands[i].tensor].dtype), of[i].lying, of[i].column,
                of[i].at, of[i].pitch, of[i].width, end - begin, true);
}

inline void run_turned(const RowOperator& op, const Args& args, const Context& context,
                       RowJobFn walk, const RowJob& job, const RowTurns& turns) {
  char* memory = reinterpret_cast<char*>(job.partials);  // the workspace
  std::int64_t part_bytes = 0;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const TensorView& t = args.tensors[op.operands[i].tensor];
    if (turns.has(i)) part_bytes += turned_pitch(t.shape[t.rank - 1] * size_of(t.dtype));
  }
  part_bytes *= turns.rows;
  const std::int64_t inner = job.call.nest.sizes[0];
  // A whole step of adjacent rows, which share cache lines, belongs to one thread.
  const std::int64_t steps_of_inner = (inner + turns.rows - 1) / turns.rows;
  const std::int64_t steps = job.call.rows / inner * steps_of_inner;
  const std::int64_t share = (steps + turns.parts - 1) / turns.parts;
  context.run(0, turns.parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      char* to = memory + part * part_bytes;
      for (std::int64_t s = part * share; s < std::min(steps, (part + 1) * share); ++s) {
        const std::int64_t outer = s / steps_of_inner * inner;
        const std::int64_t at = s % steps_of_inner * turns.rows;
        walk_turned(op, args, walk, job, turns, to, outer + at,
                    outer + std::min(inner, at + turns.rows));
      }
    }
  });
}

}  // namespace dlblas::kernels
