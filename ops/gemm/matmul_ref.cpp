// The oracle of matmul: f64 sums over the listed rows of the result, and what error is allowed.
// In: Args with any strides. Out: value and magnitude Σ|a·b| + |bias| of each element, the latter
// times the activation's Lipschitz constant: how far an error in the sum can move the result.
// Numerics: products of two f32 are exact in f64; sums are plain f64 additions in the order of k.
// Read next: registry/operator.hpp, matmul.cpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/element.hpp"
#include "ops/gemm/matmul.hpp"
#include "ops/gemm/matmul_ref.hpp"

namespace dlblas::gemm {
namespace {

/// Columns side by side: 4 + 4 accumulators of two doubles stay in the 16 registers of plain SSE2.
constexpr int kColumns = 8;
using Pair = double __attribute__((vector_size(16)));
using Mask = std::int64_t __attribute__((vector_size(16)));
constexpr int kPairs = kColumns / 2;

double element(const TensorView& t, std::int64_t row, std::int64_t col) {
  return load_element(t, row * t.strides[0] + col * t.strides[1]);
}

double activate(double x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return x < 0 ? 0 : x;
    case Activation::kLeakyRelu:
      return x < 0 ? 0.01 * x : x;
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kNone:
      break;
  }
  return x;
}

/// One row times a panel of kColumns columns, [k][kColumns].
void multiply_row(const double* a, const double* panel, std::int64_t k, double* value,
                  double* magnitude) {
  const Mask no_sign = {INT64_MAX, INT64_MAX};
  Pair sum[kPairs] = {}, size[kPairs] = {};
  for (std::int64_t i = 0; i < k; ++i, panel += kColumns) {
    const Pair x = {a[i], a[i]};
    for (int c = 0; c < kPairs; ++c) {
      Pair b;
      std::memcpy(&b, panel + 2 * c, sizeof b);
      const Pair product = x * b;
      sum[c] += product;
      size[c] += reinterpret_cast<Pair>(reinterpret_cast<Mask>(product) & no_sign);
    }
  }
  std::memcpy(value, sum, sizeof sum);
  std::memcpy(magnitude, size, sizeof size);
}

/// Roundings of f32 that a result may have seen: K + 1 in any order, and those of the activation,
/// with exp and erf good to 1.5e-7.
double roundings(std::int64_t k, Activation activation) {
  const bool smooth = activation == Activation::kGelu || activation == Activation::kSilu;
  return static_cast<double>(k) + (smooth ? 16 : 3);
}

constexpr double kHalfEps = float_traits(DType::kF32).eps / 2;

/// Σ|a·b| over the products with an operand below f32's normal range: CPUs' bf16 dot products
/// (AVX512-BF16, inside oneDNN) count such operands as zero, whatever the mode of the caller.
double subnormal_part(const double* a, const double* panel, std::int64_t k) {
  double part = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    const double x = std::abs(a[i]), y = std::abs(panel[i * kColumns]);
    if (std::isfinite(x * y) && (x < 0x1p-126 || y < 0x1p-126)) part += x * y;
  }
  return part;
}

}  // namespace

double lipschitz(Activation activation) {
  if (activation == Activation::kGelu) return 1.13;
  if (activation == Activation::kSilu) return 1.1;
  return 1;
}

double subnormal_weight(std::int64_t k, Activation activation) {
  return 1 / (roundings(k, activation) * kHalfEps);
}

void matmul_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                      OracleOut* out) {
  const TensorView &a = args.tensors[kA], &b = args.tensors[kB], &bias = args.tensors[kBias];
  const std::int64_t n = args.letters[kN], k = args.letters[kK];
  const auto activation = static_cast<Activation>(args.scalars[kActivation].i);
  const double stretch = lipschitz(activation);

  std::vector<double> a_rows(static_cast<std::size_t>(num_rows * k));
  for (std::int64_t r = 0; r < num_rows; ++r) {
    for (std::int64_t i = 0; i < k; ++i) a_rows[r * k + i] = element(a, rows[r], i);
  }
  std::vector<double> panel(static_cast<std::size_t>(k * kColumns));
  for (std::int64_t j = 0; j < n; j += kColumns) {
    const std::int64_t columns = std::min<std::int64_t>(kColumns, n - j);
    for (std::int64_t i = 0; i < k; ++i) {
      for (std::int64_t c = 0; c < columns; ++c) panel[i * kColumns + c] = element(b, i, j + c);
    }
    for (std::int64_t r = 0; r < num_rows; ++r) {
      double value[kColumns], magnitude[kColumns];
      multiply_row(a_rows.data() + r * k, panel.data(), k, value, magnitude);
      for (std::int64_t c = 0; c < columns; ++c) {
        if (a.dtype == DType::kBF16) {
          const double lost = subnormal_part(a_rows.data() + r * k, panel.data() + c, k);
          magnitude[c] += lost * subnormal_weight(k, activation);
        }
        const double add = args.has(kBias) ? load_element(bias, (j + c) * bias.strides[0]) : 0;
        out->value[r * n + j + c] = activate(value[c] + add, activation);
        out->magnitude[r * n + j + c] = stretch * (magnitude[c] + std::abs(add));
      }
    }
  }
}

/// Each rounding is at most half an epsilon of the magnitude, or, below f32's normal range, half
/// its smallest step (all of a product, where such products count as zero); then one rounding to
/// the result's dtype.
Bound matmul_bound(const Problem& problem, int) {
  const auto activation = static_cast<Activation>(problem.scalars[kActivation]);
  const double count = roundings(problem.dims[kK], activation);
  const FloatTraits out = float_traits(problem.tensors[kOut].dtype);
  const bool flushes = problem.tensors[kA].dtype == DType::kBF16;
  const double step = flushes ? 0x1p-126 : float_traits(DType::kF32).tiny / 2;
  return {.magnitude = count * kHalfEps,
          .value = out.eps / 2 * (1 + kHalfEps),
          .absolute = out.tiny + count * step * lipschitz(activation)};
}

}  // namespace dlblas::gemm
