// A row program in f64, one element at a time: for rows whose sums leave f32 (kSquaresOf). The same
// source as for vectors; one rounding, at the store. Correct, and up to a hundred times slower.
// In: a row whose keep() has stored. Read next: cpu/row/walk.hpp.
#pragma once

#include "cpu/row/access.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

struct ExactValue {
  double v;
  ExactValue() = default;
  DLBLAS_INLINE ExactValue(double x) : v(x) {}
  DLBLAS_INLINE friend ExactValue operator+(ExactValue a, ExactValue b) { return a.v + b.v; }
  /// 0 · ∞ is NaN: what is 0 in f32 is so here, too.
  DLBLAS_INLINE friend ExactValue operator*(ExactValue a, ExactValue b) {
    return (__builtin_isinf(b.v) ? static_cast<double>(static_cast<float>(a.v)) : a.v) * b.v;
  }
};
DLBLAS_INLINE ExactValue values(ExactValue x) { return x; }

/// The factor 1/√mean.
struct ExactScale {
  double factor;
  DLBLAS_INLINE static ExactScale wide_root(double mean) { return {1 / __builtin_sqrt(mean)}; }
};
DLBLAS_INLINE ExactValue scaled(ExactValue x, ExactScale s) { return x.v * s.factor; }

struct ExactSum {
  double sum = 0;
  DLBLAS_INLINE void add_squares(ExactValue x) { sum += x.v * x.v; }
};

/// A value as f32, rounded to the side with an odd last bit: rounded once more, to 16 bits, it is
/// what the value itself rounds to.
DLBLAS_INLINE float round_to_odd(double x) {
  const auto near = static_cast<float>(x);
  if (static_cast<double>(near) == x || x != x) return near;
  auto bits = __builtin_bit_cast(uint32_t, near);
  if (__builtin_fabs(static_cast<double>(near)) > __builtin_fabs(x)) --bits;
  return __builtin_bit_cast(float, bits | 1u);
}

struct ExactAccess {
  const RowState& row;
  int64_t first;
  const RowCall& call = row.call;

  DLBLAS_INLINE int64_t column() const { return first; }
  DLBLAS_INLINE int32_t option(int i) const { return row.options[i]; }
  template <int kIndex>
  DLBLAS_INLINE ExactValue load(Operand<kIndex>) const {
    return static_cast<double>(load_some(row.operands[kIndex], first, 1)[0]);
  }
  template <int kIndex>
  DLBLAS_INLINE ExactValue load_column(Operand<kIndex> o) const {
    return load(o);
  }
  template <int kIndex>
  DLBLAS_INLINE void store(Operand<kIndex>, ExactValue x) const {
    const RowTensor& t = row.operands[kIndex];
    const float value = t.type == DType::kF32 ? static_cast<float>(x.v) : round_to_odd(x.v);
    store_some(t, first, broadcast(value), 1);
  }
  /// Rounds to a 16-bit operand's type; f32 is rounded at the store.
  template <int kIndex>
  DLBLAS_INLINE ExactValue round(Operand<kIndex>, ExactValue x) const {
    const DType type = row.operands[kIndex].type;
    const Vec odd = broadcast(round_to_odd(x.v));
    if (type == DType::kBF16)
      return static_cast<double>(dlblas::DLBLAS_ISA::round<DType::kBF16>(odd)[0]);
    if (type == DType::kF16)
      return static_cast<double>(dlblas::DLBLAS_ISA::round<DType::kF16>(odd)[0]);
    return x;
  }
};

struct ExactTarget {
  static constexpr int kElements = 1;
  static constexpr bool kKeeps = false, kInRegisters = false;
  static constexpr int kVariant = 0;
  using Access = ExactAccess;
  using Row = RowState;
  using Values = ExactValue;
  template <int kIndex>
  using Words = ExactValue;
  template <int kIndex>
  using Scale = ExactScale;
  using Math = CpuMath;
  using Total = double;
  using Sum = ExactSum;
};

/// Repeats the one stage of a row, and stores.
template <template <typename> class Program>
DLBLAS_OUTLINE void write_exactly(const RowState& row, int64_t end) {
  using P = Program<ExactTarget>;
  const auto kept_at = [](const ExactAccess& at) {
    typename P::Kept kept;
    if constexpr (P::kStoredByKeep != 0) {
      P::reload(kept, at);
    } else {
      typename P::Loaded loaded;
      P::load(loaded, at);
      P::keep(kept, loaded, at);
    }
    return kept;
  };
  typename P::Stats stats = {};
  typename P::Columns columns = {};
  ExactSum sum;
  for (int64_t c = 0; c < end; ++c) {
    const ExactAccess at = {row, c};
    P::accumulate(Stage<0>{}, sum, kept_at(at), columns, stats, at);
  }
  P::finalize_wide(Stage<0>{}, stats, sum.sum, row.call);
  for (int64_t c = 0; c < end; ++c) {
    const ExactAccess at = {row, c};
    const typename P::Kept kept = kept_at(at);
    P::load_columns(columns, at);
    P::store(kept, columns, stats, at);
  }
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
