// A product program as the epilogue of CPU products: a vector of neighbouring columns at a time,
// one rounding, the store. In place is safe: a vector of operands is read before its replacement is
// stored, and partial sums never wait in the result.
// Compiled once per instruction set. Read next: device/gemm/product.hpp, cpu/gemm/epilogue.hpp.
#pragma once

#include "cpu/gemm/epilogue.hpp"
#include "cpu/gemm/product.hpp"

namespace dlblas::DLBLAS_ISA {
namespace {

/// `lanes` columns of row i, `step` apart from j on, as a program sees them.
struct ProductAt {
  const ProductCpuParams& p;
  int64_t i, j, lanes, step = 1;

  template <class O>
  DLBLAS_INLINE bool has(O) const {
    return p.operands[O::kPlace].data != nullptr;
  }
  DLBLAS_INLINE int32_t option(int at) const { return p.options[at]; }
  template <class O>
  DLBLAS_INLINE Vec operator()(O) const {
    GemmMatrix m = p.operands[O::kPlace];
    m.data = address(m, O::kPer == Per::kColumn ? 0 : i, O::kPer == Per::kRow ? 0 : j);
    if constexpr (O::kPer != Per::kRow) {
      m.col *= step;
      return load_columns(m, 0, 0, lanes);
    }
    float one;
    __builtin_memcpy(&one, m.data, sizeof one);
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

/// Pairs [i, i + lanes) of a head in row `row`: what a program reads from tables.
struct ProductPairAt {
  const ProductCpuParams& p;
  int64_t row, i, lanes;

  template <class O>
  DLBLAS_INLINE Vec low(O) const {
    return at(O::kPlace, i);
  }
  template <class O>
  DLBLAS_INLINE Vec high(O) const {
    return at(O::kPlace, i + p.pairs.channels / 2);
  }
  DLBLAS_INLINE Vec at(int place, int64_t column) const {
    const int64_t of = (row + p.numbers[kFirstRow]) % p.numbers[kTableRows];
    return load_columns(p.operands[place], of, column, lanes);
  }
};

/// A row whose columns are combined in pairs, head by head: computes each value, then transforms
/// the pairs, both in a buffer that lies as the head does; then stores the head.
template <class P>
void product_heads(const ProductCpuParams& p, int64_t i, int64_t columns, const float* sums) {
  constexpr int64_t kMax = 512;  // channels of a head that are turned at a time
  constexpr int64_t kHalf = kMax / 2 + kWidth;
  const int64_t head = p.pairs.channels, half = head / 2, turned = p.numbers[kPairedColumns];
  const bool neighbours = p.pairs.neighbours;
  float values[2 * kHalf];
  for (int64_t begin = 0; begin < turned; begin += head)
    for (int64_t first = 0; first < half; first += kMax / 2) {
      const int64_t count = smaller(kMax / 2, half - first);
      // The column of a pair's first channel (`which` = 0) or of its second.
      const auto place = [&](int64_t c, int64_t which) {
        return begin + (neighbours ? 2 * (first + c) + which : first + c + which * half);
      };
      for (int64_t c = 0; c < count; c += kWidth) {
        const int64_t lanes = smaller(kWidth, count - c);
        const float* const from = sums + place(c, 0);
        const int64_t apart = neighbours ? kWidth : half, read = neighbours ? 2 * lanes : lanes;
        Pair both = {load_first<DType::kF32>(from, read),
                     load_first<DType::kF32>(from + apart, neighbours ? read - kWidth : lanes)};
        if (neighbours) both = unzip(both.a, both.b);
        const auto value = [&](Vec of, int64_t which) __attribute__((always_inline)) {
          const auto sum = [&](int) __attribute__((always_inline)) { return of; };
          return P::value(sum, ProductAt{p, i, place(c, which), lanes, neighbours ? 2 : 1});
        };
        both = {value(both.a, 0), value(both.b, 1)};
        P::pair(both.a, both.b, ProductPairAt{p, i, first + c, lanes});
        if (neighbours) both = zip(both.a, both.b);
        float* const to = values + (neighbours ? 2 * c : c);
        store<DType::kF32>(to, both.a);
        store<DType::kF32>(to + (neighbours ? kWidth : kHalf), both.b);
      }
      for (int64_t which = 0; which < (neighbours ? 1 : 2); ++which) {
        const float* const from = values + which * kHalf;
        store_values(
            p.out, i, place(0, which), neighbours ? 2 * count : count,
            [&](int64_t c, int64_t lanes) __attribute__((always_inline)) {
              return load_first<DType::kF32>(from + c, lanes);
            });
      }
    }
  const float* rest[1] = {sums + turned};
  if (turned < columns) ProductEpilogue<P>::store(p, i, turned, columns - turned, rest);
}

template <class P>
void product_finish(const ProductCpuFinish& f, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    if constexpr (P::kPairs) {
      product_heads<P>(f.epilogue, i, f.columns, f.sums[0] + i * f.columns);
      continue;
    }
    const float* sums[P::kParts];
    for (int part = 0; part < P::kParts; ++part) sums[part] = f.sums[part] + i * f.columns;
    ProductEpilogue<P>::store(f.epilogue, i, 0, f.columns, sums);
  }
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
