// The oracle of matmul on the host: the listed rows of the result, one panel of columns at a time.
// In: Args with any strides. Out: value and magnitude of each element, see matmul_ref.hpp. Read
// next: matmul_ref.hpp, registry/operator.hpp, matmul.cpp.
#include "ops/gemm/matmul/matmul_ref.hpp"

#include <algorithm>
#include <vector>

#include "core/element.hpp"
#include "ops/gemm/matmul/matmul.hpp"

namespace dlblas::gemm {
namespace {

double element(const TensorView& t, std::int64_t row, std::int64_t col) {
  return load_element(t, row * t.strides[0] + col * t.strides[1]);
}

/// Columns in registers of two.
struct Pairs {
  using Value = double __attribute__((vector_size(16)));
  using Mask = std::int64_t __attribute__((vector_size(16)));
  static Value load(const double* from) {
    Value v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  static Value absolute(Value v) {
    const Mask no_sign = {INT64_MAX, INT64_MAX};
    return reinterpret_cast<Value>(reinterpret_cast<Mask>(v) & no_sign);
  }
  static double at(const Value* values, int column) { return values[column / 2][column % 2]; }
};

/// Columns at a time: their eight accumulators stay in the 16 registers of plain SSE2. Eight
/// columns take 1.5 times as long (AMD Zen 5, November 2026).
constexpr int kColumns = 4;
using PanelSums = ProductSums<Pairs, kColumns / 2>;

/// The sums of one row times a panel, [k][kColumns].
PanelSums multiply_row(const double* a, const double* panel, std::int64_t k) {
  PanelSums sums;
  for (std::int64_t begin = 0; begin < k; begin += kSumStep) {
    const double *x = a + begin, *y = panel + begin * kColumns;
    sums.add(static_cast<int>(std::min<std::int64_t>(kSumStep, k - begin)), [&](int i, int c) {
      return Pairs::Value{x[i], x[i]} * Pairs::load(y + i * kColumns + 2 * c);
    });
  }
  return sums;
}

double lost_part(const double* a, const double* column, std::int64_t k) {
  double lost = 0;
  for (std::int64_t i = 0; i < k; ++i) lost += lost_of(a[i], column[i * kColumns]);
  return lost;
}

}  // namespace

void matmul_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                      OracleOut* out) {
  const TensorView a = flat(args.tensors[kA]);
  const TensorView &b = args.tensors[kB], &bias = args.tensors[kBias];
  const std::int64_t n = args.letters[kN], k = args.letters[kK];
  const MatmulRule rule =
      matmul_rule(a.dtype, k, static_cast<Activation>(args.scalars[kActivation].i));

  // Factors of which none is subnormal lose nothing.
  const auto may_lose = [&rule](const double* from, std::int64_t count) {
    return rule.loses && std::any_of(from, from + count, is_subnormal);
  };
  std::vector<double> a_rows(static_cast<std::size_t>(num_rows * k));
  std::vector<bool> row_loses(static_cast<std::size_t>(num_rows));
  for (std::int64_t r = 0; r < num_rows; ++r) {
    for (std::int64_t i = 0; i < k; ++i) a_rows[r * k + i] = element(a, rows[r], i);
    row_loses[r] = may_lose(a_rows.data() + r * k, k);
  }
  std::vector<double> panel(static_cast<std::size_t>(k * kColumns));
  for (std::int64_t j = 0; j < n; j += kColumns) {
    const std::int64_t columns = std::min<std::int64_t>(kColumns, n - j);
    for (std::int64_t i = 0; i < k; ++i) {
      for (std::int64_t c = 0; c < columns; ++c) panel[i * kColumns + c] = element(b, i, j + c);
    }
    const bool panel_loses = may_lose(panel.data(), k * kColumns);
    for (std::int64_t r = 0; r < num_rows; ++r) {
      const bool loses = row_loses[r] || panel_loses;
      const double* row = a_rows.data() + r * k;
      const PanelSums sums = multiply_row(row, panel.data(), k);
      for (int c = 0; c < columns; ++c) {
        const double lost = loses ? lost_part(row, panel.data() + c, k) : 0;
        const double add = args.has(kBias) ? load_element(bias, (j + c) * bias.strides[0]) : 0;
        const OracleValue of = matmul_element(rule, sums.column(c), lost, add);
        out->value[r * n + j + c] = of.value;
        out->magnitude[r * n + j + c] = of.magnitude;
      }
    }
  }
}

/// Allows the sum's roundings; below f32's normal range, half its smallest step per product (2^-126
/// where such products count as zero); then one rounding to the result's dtype. A call that allows
/// TF32 may have its factors cut to 11 bits: each product is off by up to 2^-9, and these errors
/// walk as roundings do.
Bound matmul_bound(const Problem& problem, int) {
  const auto activation = static_cast<Activation>(problem.scalars[kActivation]);
  const double count = static_cast<double>(problem.dims[kK]) + 1 + epilogue_roundings(activation);
  const FloatTraits out = float_traits(problem.tensors[kOut].dtype);
  const bool loses = loses_products(problem.tensors[kA].dtype);
  const double step = loses ? 0x1p-126 : float_traits(DType::kF32).tiny / 2;
  const bool tf32 = problem.tensors[kA].dtype == DType::kF32 && (problem.flags & kAllowTf32);
  return {.magnitude = tf32 ? 0x1p-9 : kRounding,
          .value = out.eps / 2 * (1 + kRounding),
          .absolute = out.tiny + count * step * lipschitz(activation)};
}

}  // namespace dlblas::gemm
