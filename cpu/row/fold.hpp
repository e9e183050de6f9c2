// Results over columns that a row program sums over all rows (Fold<i>), on a CPU: while a row is
// written, its terms are added to the sums of its part of the rows, in f32;
// src/kernels/rows_cpu.cpp adds the parts in f64. Compiled once per instruction set, like
// cpu/simd.hpp. Read next: cpu/row/walk.hpp.
#pragma once

#include "cpu/row/access.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Adds an access's terms to its columns' sums, which are in column order. Values of two vectors
/// may be split into even and odd elements.
DLBLAS_INLINE void add_terms(float* sums, const Values<2>& terms, int, bool paired) {
  const Pair p = paired ? zip(terms.v[0], terms.v[1]) : Pair{terms.v[0], terms.v[1]};
  store<DType::kF32>(sums, load<DType::kF32>(sums) + p.a);
  store<DType::kF32>(sums + kWidth, load<DType::kF32>(sums + kWidth) + p.b);
}
DLBLAS_INLINE void add_terms(float* sums, const Values<1>& terms, int lanes, bool) {
  const Vec before = load_partial<DType::kF32>(sums, lanes);
  store_partial<DType::kF32>(sums, before + terms.v[0], lanes);
}

/// All results of the program P; `sums` is at the access's first column, results `width` apart.
template <typename P, int kFold = 0, typename Kept, typename Access>
DLBLAS_INLINE void fold_access(float* sums, const Kept& kept, const typename P::Columns& columns,
                               const typename P::Stats& stats, const Access& at, bool paired) {
  if constexpr (kFold < P::kFolds) {
    add_terms(sums, P::fold(Fold<kFold>{}, kept, columns, stats, at), at.lanes, paired);
    fold_access<P, kFold + 1>(sums + at.call.width, kept, columns, stats, at, paired);
  }
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
