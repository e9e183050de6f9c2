// Where a row's operands are on a CPU, by the strides of the call and by the numbers in index
// tensors, and how elements there are loaded and stored. Compiled once per instruction set, like
// cpu/simd.hpp. Read next: cpu/row/walk.hpp.
#pragma once

#include "cpu/row/columns.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

class RowPlaces {
 protected:
  explicit RowPlaces(const RowJob& job)
      : job_(job), row_{job.call, {}, 0, {}, job.paired, 0, {}, 0, 0} {
    for (int i = 0; i < kMaxRowOptions; ++i) row_.options[i] = job.call.options[i];
    for (int i = 0; i < job.operands; ++i) {
      RowTensor& t = row_.operands[i];
      t.type = job.types[i];
      t.column = job.call.operands[i].column * size_of(t.type);
      t.data = static_cast<char*>(job.call.operands[i].data);
      t.load = t.store = way(t);
      const bool moves = t.data && (job.rows_of >> i & 1u) && job.call.nest.rank > 0;
      steps_[i] = moves ? job.call.nest.strides[i][0] * size_of(t.type) : 0;
    }
    even_ = job.call.nest.rank <= 1 && job.shape.gathered == 0;
  }

  /// Like data_of(), but fast where rows are even.
  DLBLAS_INLINE char* place_of(int operand, int64_t row) const {
    if (!even_) return data_of(operand, row);
    return static_cast<char*>(job_.call.operands[operand].data) + row * steps_[operand];
  }
  DLBLAS_INLINE void place_row(int64_t row) {
    if (even_) {
      for (int i = 0; i < job_.operands; ++i)
        row_.operands[i].data = static_cast<char*>(job_.call.operands[i].data) + row * steps_[i];
    } else {
      for (int i = 0; i < job_.operands; ++i) row_.operands[i].data = data_of(i, row);
    }
  }

  Way way(const RowTensor& t) const {
    if (t.column != size_of(t.type)) return Way::kOther;
    if (size_of(t.type) == 1) return Way::kBytes;
    if (t.type == DType::kF32) return job_.paired ? Way::kF32Paired : Way::kF32;
    if (t.type == DType::kF16 && !job_.paired) return Way::kF16;
    if (t.type == DType::kBF16 && job_.paired) return job_.short_nans ? Way::kBF16 : Way::kBF16Any;
    return Way::kOther;
  }

  int64_t offset(int operand, int64_t row) const {
    const RowNest& nest = job_.call.nest;
    const int64_t* strides = nest.strides[operand];
    if (nest.rank <= 1) return nest.rank == 0 ? 0 : row * strides[0];
    int64_t at = 0;
    for (int d = 0; d < nest.rank; ++d) {
      at += row % nest.sizes[d] * strides[d];
      row /= nest.sizes[d];
    }
    return at;
  }
  DLBLAS_OUTLINE char* data_of(int operand, int64_t row) const {
    char* base = static_cast<char*>(job_.call.operands[operand].data);
    if (base == nullptr) return nullptr;  // absent
    if (job_.shape.gathered >> operand & 1u) return gathered(operand, base);
    if (!(job_.rows_of >> operand & 1u)) return base;
    return base + offset(operand, row) * size_of(job_.types[operand]);
  }
  /// Null if the row has none.
  DLBLAS_OUTLINE char* gathered(int operand, char* base) const {
    return gathered(operand, base, row_.numbers[job_.shape.gathered_by[operand]]);
  }
  char* gathered(int operand, char* base, int64_t at) const {
    const RowOperand& o = job_.call.operands[operand];
    const int64_t page = job_.shape.page;
    if (at < 0) return nullptr;
    const bool paged = job_.shape.paged >> operand & 1u;
    const int64_t offset = paged ? at / page * o.block + at % page * o.row : at * o.row;
    return base + offset * size_of(job_.types[operand]);
  }
  /// The value of index i, which is given, for a row.
  int64_t number_of(int i, int64_t row) const {
    const int index = job_.shape.index[i], bytes = job_.shape.index_bytes[i];
    const char* from =
        static_cast<const char*>(job_.call.operands[index].data) + offset(index, row) * bytes;
    int64_t wide = 0;
    int32_t narrow = 0;
    if (bytes == 8) return __builtin_memcpy(&wide, from, 8), wide;
    return __builtin_memcpy(&narrow, from, 4), narrow;
  }
  /// False if the row is left out.
  DLBLAS_OUTLINE bool find_numbers(int64_t row) {
    for (int i = 0; i < job_.shape.indices; ++i) {
      if (job_.shape.index[i] < 0) continue;
      row_.numbers[i] = number_of(i, row);
      if (row_.numbers[i] < 0 && (job_.shape.leaves_out >> i & 1u)) return false;
    }
    if (job_.prefetch && row + 1 < job_.call.rows) fetch_gathered(row + 1);
    return true;
  }
  /// Prefetches rows that numbers choose: hardware cannot predict them.
  void fetch_gathered(int64_t row) const {
    for (int i = 0; i < job_.operands; ++i) {
      char* base = static_cast<char*>(job_.call.operands[i].data);
      if (!base || !((job_.shape.gathered & ~job_.written) >> i & 1u)) continue;
      const int by = job_.shape.gathered_by[i];
      if (job_.shape.index[by] < 0) continue;
      const char* from = gathered(i, base, number_of(by, row));
      const int64_t bytes = job_.call.operands[i].row * size_of(job_.types[i]);
      for (int64_t b = 0; from && b < bytes && b < kAheadBytes; b += kLine) prefetch(from + b);
    }
  }
  Way streamed(const RowTensor& t) const {
    return t.store == Way::kOther     ? t.store
           : t.store == Way::kBF16Any ? Way::kStreamBF16Any
           : size_of(t.type) == 1     ? Way::kStreamBytes
           : t.type == DType::kF16    ? Way::kStreamF16
           : t.type == DType::kBF16   ? Way::kStreamBF16
           : job_.paired              ? t.store
                                      : Way::kStreamF32;
  }

  const RowJob& job_;
  RowState row_;
  int64_t steps_[kMaxRowOperands] = {};  // bytes from row to row, where rows are even
  bool even_;                            // one stride, and no number that chooses
};

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
