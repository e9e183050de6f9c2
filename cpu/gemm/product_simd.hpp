// A product program as the epilogue of CPU products: a vector of neighbouring columns at a time,
// one rounding, the store. In place is right: a vector of operands is read before the one that
// takes its place is stored, and partial sums never wait in the result.
// Compiled once per instruction set.  Read next: device/gemm/product.hpp, cpu/gemm/epilogue.hpp.
#pragma once

#include "cpu/gemm/epilogue.hpp"
#include "cpu/gemm/product.hpp"

namespace dlblas::DLBLAS_ISA {
namespace {

/// Columns [j, j + lanes) of row i, as a program sees them.
struct ProductAt {
  const ProductCpuParams& p;
  int64_t i, j, lanes;

  template <class O>
  DLBLAS_INLINE bool has(O) const {
    return p.operands[O::kPlace].data != nullptr;
  }
  DLBLAS_INLINE int32_t option(int at) const { return p.options[at]; }
  template <class O>
  DLBLAS_INLINE Vec operator()(O) const {
    const GemmMatrix& m = p.operands[O::kPlace];
    if constexpr (O::kPer == Per::kElement) return load_columns(m, i, j, lanes);
    if constexpr (O::kPer == Per::kColumn) return load_columns(m, 0, j, lanes);
    float one;
    __builtin_memcpy(&one, address(m, i, 0), sizeof one);
    return broadcast(one);
  }
};

template <class P>
struct ProductEpilogue {
  using Params = ProductCpuParams;
  static constexpr int kParts = P::kParts;

  static void store(const Params& p, int64_t i, int64_t j, int64_t n,
                    const float* const (&sums)[kParts]) {
    store_values(
        p.out, i, j, n, [&](int64_t c, int64_t lanes) __attribute__((always_inline)) {
          const auto sum = [&](int part) __attribute__((always_inline)) {
            return load_first<DType::kF32>(sums[part] + c, lanes);
          };
          return P::value(sum, ProductAt{p, i, j + c, lanes});
        });
  }
};

template <class P>
void product_finish(const ProductCpuFinish& f, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float* sums[P::kParts];
    for (int part = 0; part < P::kParts; ++part) sums[part] = f.sums[part] + i * f.columns;
    ProductEpilogue<P>::store(f.epilogue, i, 0, f.columns, sums);
  }
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
