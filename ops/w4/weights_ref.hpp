// One element of a weight of codes, for the oracles. 4 bits: (q − zero) · scale. A 32-bit word
// holds eight q. AWQ: those of eight columns, in the order 0 2 4 6 1 3 5 7 from the lowest bits up.
// GPTQ: those of eight rows, in order; its zeros are those of eight columns, in order. Without
// zeros, 8 is subtracted. A nibble minus a zero has five bits: its product with an 11-bit scale is
// exact in f32. Read next: ops/w4/dequantize.hpp, ops/w4/product.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::w4 {

/// The `at`-th nibble of a word, from the lowest bits up.
DLBLAS_ORACLE double nibble_of(double word, std::int64_t at) {
  const auto bits = static_cast<std::int64_t>(word) & 0xffffffff;
  return static_cast<double>(bits >> 4 * at & 15);
}
/// The nibble in which AWQ stores column c of eight.
DLBLAS_ORACLE std::int64_t awq_place(std::int64_t c) { return c / 2 + c % 2 * 4; }

/// A call's tensors: words at `first`, then scales, then zeros.
template <typename Row>
double awq_weight(const Row& row, int first, std::int64_t group, std::int64_t k, std::int64_t n) {
  const std::int64_t r = k / group, at = awq_place(n % 8);
  const double zero = row.has(first + 2) ? nibble_of(row.load_row(first + 2, r, n / 8), at) : 8.0;
  return (nibble_of(row.load_row(first, k, n / 8), at) - zero) * row.load_row(first + 1, r, n);
}

/// `plus`: what is to be added to stored zeros.
template <typename Row>
double gptq_weight(const Row& row, int first, std::int64_t group, std::int64_t plus, std::int64_t k,
                   std::int64_t n) {
  const std::int64_t r = k / group;
  const double zero = row.has(first + 2) ? nibble_of(row.load_row(first + 2, r, n / 8), n % 8) +
                                               static_cast<double>(plus)
                                         : 8.0;
  return (nibble_of(row.load_row(first, k / 8, n), k % 8) - zero) * row.load_row(first + 1, r, n);
}

/// A sum, and the error it may have, in roundings.
struct PackedSum {
  double sum, off;
};

/// A row of x times a column of a weight whose elements are rounded to x's type first. The allowed
/// error is matmul's (ops/gemm/matmul/matmul_ref.hpp): CPUs' bf16 products may count operands below
/// f32's normal range as zero.
template <typename Row, typename Weight>
PackedSum packed_sum(const Row& row, std::int64_t depth, std::int64_t n, const Weight& weight) {
  const DType type = row.dtype(0);
  SumWalk walk;
  double lost = 0;
  for (std::int64_t k = 0; k < depth; ++k) {
    const double a = row.load(0, k), w = round_to(type, weight(k, n)), product = a * w;
    walk.add(product);
    const bool tiny = std::abs(a) < 0x1p-126 || std::abs(w) < 0x1p-126;
    if (type == DType::kBF16 && tiny && std::isfinite(product)) lost += std::abs(product);
  }
  return {walk.sum(), sum_error(sum_model(depth, true), walk.sizes()) + lost / kRounding};
}

template <typename Row, typename Weight>
void product_row(Row& row, std::int64_t depth, std::int64_t columns, const Weight& weight) {
  row.each(columns, [&](auto n) {
    const PackedSum of = packed_sum(row, depth, n, weight);
    row.store(0, n, of.sum, of.off + 2 * std::abs(of.sum));
  });
}

}  // namespace dlblas::w4
