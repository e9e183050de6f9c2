// The oracle of rms_norm_backward, any strides, in f64:
//   r = 1/sqrt(mean_C(x²) + eps), n = x·r, g = dy·(weight + weight_offset), s = mean_C(g·n)
//   dx = r·(g − n·s) + dresidual       dweight = Σ_T dy·n, n rounded first with cast_before_weight
// (the derivative of that rounding is taken as 1, so dx knows nothing of it). dweight has no rows:
// it is made where row 0 is asked for, from all rows of x and dy.
//
// The error a kernel may make. u = 2^-24; k = sum_chain(C) roundings along a sum over a row, as in
// norm_ref.cpp. A = |weight| + |offset|, G = |dy|·A, M = mean_C(G·|n|). Relative to these, in u:
//   r: k/2 + 6 (half of the sum's, of eps' and 1/C's; a root within 2 units)   n: k/2 + 8   g: 2
//   s: k + 3 for the sum of g·x, 3 for the mean and its product with r, r's own: 3k/2 + 12, of M
//   n·s: 2k + 20, of |n|·M; the difference, and the product with r on top: 5k/2 + 29
//   dx: (5k/2 + 29)·u of r·(G + |n|·M) + |dresidual|, whose addition is among these
//   dweight: n and a product: k/2 + 9; at most min(T, kMostRowsInF32) additions in f32, and 16 more
//   where the threads of a block are added up; those sums are added in f64: of Σ_T |dy|·|n|
// Second-order terms are below 4 more. Read next: ops/norm/norm_ref.cpp, registry/operator.hpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/element.hpp"
#include "ops/norm/norm_ops.hpp"
#include "ops/norm/norm_ref.hpp"
#include "ops/norm/rms_norm_backward.hpp"

namespace dlblas::norm {
namespace {

using namespace backward;

constexpr double kUnit = 0x1p-24;
constexpr double kTiny = 0x1p-126;  // below, roundings of f32 are absolute

double dx_error(std::int64_t width) {
  return (2.5 * static_cast<double>(sum_chain(width)) + 33) * kUnit;
}

double dweight_error(std::int64_t rows, std::int64_t width) {
  const auto added = static_cast<double>(std::min<std::int64_t>(rows, kMostRowsInF32));
  return (static_cast<double>(sum_chain(width)) / 2 + 29 + added) * kUnit;
}

// One row of a tensor in f64. The dtype is looked at once a row: dweight reads whole tensors.
void load_row(const TensorView& t, std::int64_t at, std::vector<double>& row) {
  const std::int64_t stride = t.strides[t.rank - 1];
  const auto width = static_cast<std::int64_t>(row.size());
  auto convert = [&]<typename V>(V, auto to_f64) {
    const auto* p = static_cast<const char*>(t.data);
    for (std::int64_t c = 0; c < width; ++c) {
      V v;
      std::memcpy(&v, p + (at + c * stride) * static_cast<std::int64_t>(sizeof v), sizeof v);
      row[c] = to_f64(v);
    }
  };
  switch (t.dtype) {
    case DType::kF32:
      return convert(0.0f, [](float v) { return v; });
    case DType::kF16:
      return convert(std::uint16_t{}, f16_to_f32);
    case DType::kBF16:
      return convert(std::uint16_t{}, bf16_to_f32);
    default:
      for (std::int64_t c = 0; c < width; ++c) row[c] = load_element(t, at + c * stride);
  }
}

// The tensors of a call, and the rows at work.
class Rows64 {
 public:
  explicit Rows64(const Args& args)
      : args_(args),
        width_(args.letters[kC]),
        eps_(args.scalars[kEps].f),
        dy_map_(rows_of(args.tensors[kDy])),
        x_map_(rows_of(args.tensors[kX])),
        dy_(width_),
        x_(width_),
        dresidual_(width_),
        factor_(width_),
        factor_size_(width_) {
    if (args.has(kDresidual)) dresidual_map_ = rows_of(args.tensors[kDresidual]);
    const TensorView& weight = args.tensors[kWeight];
    const double offset = weight_offset_of(args);
    for (std::int64_t c = 0; c < width_; ++c) {
      const double w = load_element(weight, c * weight.strides[0]);
      factor_[c] = w + offset;
      factor_size_[c] = std::abs(w) + std::abs(offset);
    }
  }

  void dx(std::int64_t t, double* value, double* magnitude) {
    const double scale = load(t);
    if (args_.has(kDresidual))
      load_row(args_.tensors[kDresidual], dresidual_map_.offset(t), dresidual_);
    double mean = 0, mean_size = 0;
    for (std::int64_t c = 0; c < width_; ++c) {
      const double g = dy_[c] * factor_[c], n = x_[c] * scale;
      mean += g * n;
      mean_size += std::abs(dy_[c]) * factor_size_[c] * std::abs(n);
    }
    mean /= static_cast<double>(width_);
    mean_size = mean_size / static_cast<double>(width_) + kTiny;
    const DType dtype = args_.tensors[kDy].dtype;
    for (std::int64_t c = 0; c < width_; ++c) {
      const double g = dy_[c] * factor_[c], n = x_[c] * scale;
      const double size = std::abs(dy_[c]) * factor_size_[c] + kTiny;
      value[c] = overflowed(dtype, scale * (g - n * mean) + dresidual_[c]);
      magnitude[c] =
          scale * (size + (std::abs(n) + kTiny) * mean_size) + std::abs(dresidual_[c]) + kTiny;
    }
  }

  void dweight(double* value, double* magnitude) {
    const std::int64_t rows = args_.letters[kT];
    const DType dtype = args_.tensors[kX].dtype;
    const bool cast = args_.scalars[kCastBeforeWeight].i != 0 && dtype != DType::kF32;
    const double error = dweight_error(rows, width_);
    const double scale_error = (static_cast<double>(sum_chain(width_)) / 2 + 8) * kUnit;
    std::fill(value, value + width_, 0.0);
    std::fill(magnitude, magnitude + width_, 0.0);
    for (std::int64_t t = 0; t < rows; ++t) {
      const double scale = load(t);
      for (std::int64_t c = 0; c < width_; ++c) {
        double n = x_[c] * scale, size = std::abs(n) + kTiny;
        if (cast) {  // one step of the dtype, where the kernel's n may be beyond a tie
          if (may_flip(dtype, n, size * scale_error)) size += spacing(dtype, n) / error;
          n = round_to(dtype, n);
        }
        value[c] += dy_[c] * n;
        magnitude[c] += std::abs(dy_[c]) * size + kTiny;
      }
    }
    for (std::int64_t c = 0; c < width_; ++c)
      value[c] = overflowed(args_.tensors[kWeight].dtype, value[c]);
  }

 private:
  // Row t of x and dy; its r.
  double load(std::int64_t t) {
    load_row(args_.tensors[kX], x_map_.offset(t), x_);
    load_row(args_.tensors[kDy], dy_map_.offset(t), dy_);
    double sum = 0;
    for (const double v : x_) sum += v * v;
    return 1 / std::sqrt(sum / static_cast<double>(width_) + eps_);
  }

  const Args& args_;
  const std::int64_t width_;
  const double eps_;
  const Rows dy_map_, x_map_;
  Rows dresidual_map_;
  std::vector<double> dy_, x_, dresidual_, factor_, factor_size_;
};

}  // namespace

void rms_norm_backward_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                                 OracleOut* out) {
  const std::int64_t width = args.letters[kC];
  Rows64 work(args);
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const std::int64_t at = i * width;
    if (rows[i] < args.letters[kT])
      work.dx(rows[i], out[kResultDx].value + at, out[kResultDx].magnitude + at);
    if (rows[i] == 0)
      work.dweight(out[kResultDweight].value + at, out[kResultDweight].magnitude + at);
  }
}

Bound rms_norm_backward_bound(const Problem& problem, int result) {
  const std::int64_t rows = problem.dims[kT], width = problem.dims[kC];
  const DType dtype = problem.tensors[result == kResultDx ? kDx : kDweight].dtype;
  const FloatTraits traits = float_traits(dtype);
  const double error = result == kResultDx ? dx_error(width) : dweight_error(rows, width);
  Bound bound;
  bound.magnitude = error * (1 + traits.eps);
  // dweight is rounded from f64 or a last f32 sum; an f32 dx is its last operation's own rounding.
  bound.value = result == kResultDx && dtype == DType::kF32 ? 0 : traits.eps / 2;
  bound.absolute = traits.tiny / 2 + 0x1p-149;
  return bound;
}

}  // namespace dlblas::norm
