// The oracle of matmul: the sums of a column's products in f64, the value of the element, and its
// allowed error in f32 roundings. One text, which g++ compiles for the reference and NVRTC for the
// device oracle; these differ in where the factors come from. Numerics: products of two f32 are
// exact in f64; even and odd k are summed separately, each in order. Read next: matmul_ref.cpp,
// matmul_oracle.cuh, device/oracle/sum_error.hpp.
#pragma once

#include "device/oracle/math.hpp"
#include "device/oracle/sum_error.hpp"
#include "device/oracle/value.hpp"
#include "ops/gemm/activation.hpp"

namespace dlblas::gemm {

DLBLAS_ORACLE double activate(double x, Activation activation) {
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

/// How much an activation can amplify a difference: the largest |slope|, rounded up.
DLBLAS_ORACLE double lipschitz(Activation activation) {
  if (activation == Activation::kGelu) return 1.13;
  if (activation == Activation::kSilu) return 1.1;
  return 1;
}

/// Roundings after the sum, relative to the activation's input: two for adding a bias and rounding
/// the f32 result; 14 more for exp and erf, which are good to 1.5e-7.
DLBLAS_ORACLE double epilogue_roundings(Activation activation) {
  return activation == Activation::kGelu || activation == Activation::kSilu ? 16 : 2;
}

/// CPUs' bf16 dot products (AVX512-BF16, inside oneDNN) count operands below f32's normal range as
/// zero, whatever the caller's mode.
DLBLAS_ORACLE bool loses_products(DType dtype) { return dtype == DType::kBF16; }
DLBLAS_ORACLE bool is_subnormal(double v) { return std::abs(v) < 0x1p-126; }
/// |a·b| if such a product may count as zero, else 0.
DLBLAS_ORACLE double lost_of(double a, double b) {
  const double size = std::abs(a * b);
  return (is_subnormal(a) || is_subnormal(b)) && std::isfinite(size) ? size : 0;
}

/// What all elements of a call share.
struct MatmulRule {
  SumModel model;
  Activation activation;
  bool loses;  // lost_of() counts
};
/// For sums of `terms` products of a's dtype.
DLBLAS_ORACLE MatmulRule matmul_rule(DType dtype, std::int64_t terms, Activation activation) {
  return {sum_model(terms, dtype != DType::kF32), activation, loses_products(dtype)};
}

/// A sum of products, and what its error depends on.
struct ProductSum {
  double sum;
  SumSizes sizes;
};

/// How ProductSums holds columns: one in an f64, as on devices, or several in a vector of f64.
struct OneColumn {
  using Value = double;
  DLBLAS_ORACLE static Value absolute(Value v) { return std::abs(v); }
  DLBLAS_ORACLE static double at(const Value* values, int column) { return values[column]; }
};

/// The sums of columns of products, in kCount values of Columns.
template <typename Columns, int kCount>
class ProductSums {
 public:
  using Value = typename Columns::Value;
  /// Adds the next `terms` products, kSumStep or what is left. Calls products(i, c) once for each,
  /// i in order. Zeros change no sum.
  template <typename Products>
  DLBLAS_ORACLE void add(int terms, const Products& products) {
    Value even[kCount] = {}, odd[kCount] = {}, size[kCount] = {}, squares[kCount] = {};
    const auto add_one = [&](Value* to, int i) {
      for (int c = 0; c < kCount; ++c) {
        const Value product = products(i, c);
        to[c] += product;
        size[c] += Columns::absolute(product);
        squares[c] += product * product;
      }
    };
    int i = 0;
    for (; i + 1 < terms; i += 2) add_one(even, i), add_one(odd, i + 1);
    if (i < terms) add_one(even, i);
    for (int c = 0; c < kCount; ++c) {
      even_[c] += even[c];
      odd_[c] += odd[c];
      size_[c] += size[c];
      squares_[c] += squares[c];
      const Value sum = even_[c] + odd_[c];
      path_[c] += sum * sum;
      lanes_[c] += even_[c] * even_[c] + odd_[c] * odd_[c];
    }
    ++steps_;
  }
  DLBLAS_ORACLE ProductSum column(int c) const {
    const double steps = std::max(1.0, steps_);
    return {Columns::at(even_, c) + Columns::at(odd_, c),
            {Columns::at(size_, c), Columns::at(squares_, c), Columns::at(path_, c) / steps,
             Columns::at(lanes_, c) / steps}};
  }

 private:
  Value even_[kCount] = {}, odd_[kCount] = {}, size_[kCount] = {}, squares_[kCount] = {},
        path_[kCount] = {}, lanes_[kCount] = {};
  double steps_ = 0;
};

/// An element from its sum. `lost`: Σ lost_of(a, b). The allowed error is that of sum, bias and
/// activation, times how much the activation can amplify the first two.
DLBLAS_ORACLE OracleValue matmul_element(const MatmulRule& rule, const ProductSum& of, double lost,
                                         double bias) {
  const double roundings = sum_error(rule.model, of.sizes) + lost / kRounding;
  const double epilogue = epilogue_roundings(rule.activation) * (std::abs(of.sum) + std::abs(bias));
  return {activate(of.sum + bias, rule.activation),
          lipschitz(rule.activation) * (roundings + epilogue)};
}

}  // namespace dlblas::gemm
