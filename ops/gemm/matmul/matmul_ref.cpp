// The oracle of matmul: f64 sums over the listed rows of the result, and the allowed error.
// In: Args with any strides. Out: value and magnitude of each element. The magnitude is the allowed
// number of f32 roundings of sum, bias and activation, see matmul_ref.hpp. Numerics: products of
// two f32 are exact in f64; even and odd k are summed separately, each in order. Read next:
// matmul_ref.hpp, device/oracle/sum_error.hpp, registry/operator.hpp, matmul.cpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/element.hpp"
#include "ops/gemm/matmul/matmul.hpp"
#include "ops/gemm/matmul/matmul_ref.hpp"

namespace dlblas::gemm {
namespace {

/// Columns at a time: 4 + 4 accumulators of two doubles stay in the 16 registers of plain SSE2.
constexpr int kColumns = 8;
using Pair = double __attribute__((vector_size(16)));
using Mask = std::int64_t __attribute__((vector_size(16)));
constexpr int kPairs = kColumns / 2;

double element(const TensorView& t, std::int64_t row, std::int64_t col) {
  return load_element(t, row * t.strides[0] + col * t.strides[1]);
}

/// The sums of one row times a panel of kColumns columns.
struct PanelSums {
  double even[kColumns] = {}, odd[kColumns] = {};
  double size[kColumns] = {}, squares[kColumns] = {}, path[kColumns] = {}, lanes[kColumns] = {};

  SumSizes of(int column, std::int64_t k) const {
    const auto steps =
        static_cast<double>(std::max<std::int64_t>(1, (k + kSumStep - 1) / kSumStep));
    return {size[column], squares[column], path[column] / steps, lanes[column] / steps};
  }
};

Pair load(const double* from) {
  Pair v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
void add(double* to, Pair v) {
  v += load(to);
  std::memcpy(to, &v, sizeof v);
}

/// Adds k <= kSumStep products of a row with a panel, [k][kColumns]. Two passes over the products,
/// so that sums stay in registers.
void multiply_step(const double* a, const double* panel, int k, PanelSums& sums) {
  const Mask no_sign = {INT64_MAX, INT64_MAX};
  Pair parts[2][kPairs] = {}, size[kPairs] = {}, squares[kPairs] = {};
  for (int i = 0; i < k; ++i) {
    const Pair x = {a[i], a[i]};
    for (int c = 0; c < kPairs; ++c) parts[i % 2][c] += x * load(panel + i * kColumns + 2 * c);
  }
  for (int i = 0; i < k; ++i) {
    const Pair x = {a[i], a[i]};
    for (int c = 0; c < kPairs; ++c) {
      const Pair product = x * load(panel + i * kColumns + 2 * c);
      size[c] += reinterpret_cast<Pair>(reinterpret_cast<Mask>(product) & no_sign);
      squares[c] += product * product;
    }
  }
  for (int c = 0; c < kPairs; ++c) {
    add(sums.even + 2 * c, parts[0][c]);
    add(sums.odd + 2 * c, parts[1][c]);
    const Pair even = load(sums.even + 2 * c), odd = load(sums.odd + 2 * c), sum = even + odd;
    add(sums.size + 2 * c, size[c]);
    add(sums.squares + 2 * c, squares[c]);
    add(sums.path + 2 * c, sum * sum);
    add(sums.lanes + 2 * c, even * even + odd * odd);
  }
}

PanelSums multiply_row(const double* a, const double* panel, std::int64_t k) {
  PanelSums sums;
  for (std::int64_t i = 0; i < k; i += kSumStep)
    multiply_step(a + i, panel + i * kColumns,
                  static_cast<int>(std::min<std::int64_t>(kSumStep, k - i)), sums);
  return sums;
}

/// Σ|a·b| over the products with an operand below f32's normal range: CPUs' bf16 dot products
/// (AVX512-BF16, inside oneDNN) count such operands as zero, whatever the caller's mode.
double subnormal_part(const double* a, const double* panel, std::int64_t k) {
  double part = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    const double x = std::abs(a[i]), y = std::abs(panel[i * kColumns]);
    if (std::isfinite(x * y) && (x < 0x1p-126 || y < 0x1p-126)) part += x * y;
  }
  return part;
}

}  // namespace

void matmul_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                      OracleOut* out) {
  const TensorView a = flat(args.tensors[kA]);
  const TensorView &b = args.tensors[kB], &bias = args.tensors[kBias];
  const std::int64_t n = args.letters[kN], k = args.letters[kK];
  const auto activation = static_cast<Activation>(args.scalars[kActivation].i);
  const SumModel model = matmul_sum_model(a.dtype, k);

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
      const PanelSums sums = multiply_row(a_rows.data() + r * k, panel.data(), k);
      for (int c = 0; c < columns; ++c) {
        const double value = sums.even[c] + sums.odd[c];
        const double lost = a.dtype == DType::kBF16
                                ? subnormal_part(a_rows.data() + r * k, panel.data() + c, k)
                                : 0;
        const double add = args.has(kBias) ? load_element(bias, (j + c) * bias.strides[0]) : 0;
        out->value[r * n + j + c] = activate(value + add, activation);
        out->magnitude[r * n + j + c] =
            magnitude_of(model, sums.of(c, k), lost, value, add, activation);
      }
    }
  }
}

/// Allows the sum's roundings; below f32's normal range, half its smallest step per product (2^-126
/// where such products count as zero); then one rounding to the result's dtype.
Bound matmul_bound(const Problem& problem, int) {
  const auto activation = static_cast<Activation>(problem.scalars[kActivation]);
  const double count = static_cast<double>(problem.dims[kK]) + 1 + epilogue_roundings(activation);
  const FloatTraits out = float_traits(problem.tensors[kOut].dtype);
  const bool flushes = problem.tensors[kA].dtype == DType::kBF16;
  const double step = flushes ? 0x1p-126 : float_traits(DType::kF32).tiny / 2;
  return {.magnitude = kRounding,
          .value = out.eps / 2 * (1 + kRounding),
          .absolute = out.tiny + count * step * lipschitz(activation)};
}

}  // namespace dlblas::gemm
