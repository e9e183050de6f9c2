// The oracle of rms_norm_backward, any strides, in f64:
//   r = 1/sqrt(mean_C(x²) + eps), n = x·r, g = dy·(weight + weight_offset), s = mean_C(g·n)
//   dx = r·(g − n·s) + dresidual       dweight = Σ_T dy·n, n rounded first with cast_before_weight
// (the derivative of that rounding is taken as 1, so dx knows nothing of it). dweight has no rows:
// it is made where row 0 is asked for, from all rows of x and dy.
//
// The error a kernel may make, in roundings u = 2^-24. A = |weight| + |offset|, G = |dy|·A.
//   r: e = 5 and what the sum of squares brings, as in norm_ref.hpp; n: e + 1; g: 2
//   s: the walk of a sum of g·x along chains of at most sum_chain(C) terms, as in
//      device/oracle/sum_error.hpp; 3 for g and the product, e for r, 3 for the mean and its
//      product with r, all of |s|
//   n·s: s' error of |n|, and e + 2 of |n·s|; then dx: the difference and the product with r, e + 2
//      of r·|g − n·s|; dresidual's addition, 1 of |dx|
//   dweight: at most e + 2 of each |dy·n|, which differ from row to row and walk: two of their
//      root sum of squares; but where rows' squares are alike, and 1 more, errors of one sign. Then
//      the walk of a sum of T terms: kernels add at most kMaxRowsInF32 in f32, such sums in f64.
// Read next: ops/norm/norm_ref.hpp, registry/operator.hpp.
#include "ops/norm/rms_norm_backward/rms_norm_backward_ref.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/element.hpp"
#include "ops/norm/norm_ops.hpp"
#include "ops/norm/norm_ref.hpp"
#include "ops/norm/rms_norm_backward/rms_norm_backward.hpp"

namespace dlblas::norm {
namespace {

using namespace backward;

constexpr double kTiny = 0x1p-126;  // below, roundings of f32 are absolute

// Roundings of r but for those of the sum behind it.
constexpr double kRoot = kNormRoundings - 1;

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
    const bool weighted = args.has(kWeight);  // without one the factor is 1
    const TensorView& weight = args.tensors[kWeight];
    const double offset = held_offset(args.scalars[kWeightOffset].f);
    for (std::int64_t c = 0; c < width_; ++c) {
      const double w = weighted ? load_element(weight, c * weight.strides[0]) : 1;
      factor_[c] = w + offset;
      factor_size_[c] = std::abs(w) + std::abs(offset);
    }
  }

  void dx(std::int64_t t, double* value, double* magnitude) {
    const Scale scale = load(t);
    if (args_.has(kDresidual))
      load_row(args_.tensors[kDresidual], dresidual_map_.offset(t), dresidual_);
    SumWalk products;
    for (std::int64_t c = 0; c < width_; ++c) products.add(dy_[c] * factor_[c] * (x_[c] * scale.r));
    const auto width = static_cast<double>(width_);
    const double mean = products.sum() / width, root = kRoot + scale.alike + scale.walk;
    const double mean_error = sum_error(chain_model_, products.sizes()) / width +
                              (6 + root) * std::abs(mean) + (sum_chain(width_) + 16) * kTiny;
    const DType dtype = args_.tensors[kDy].dtype;
    for (std::int64_t c = 0; c < width_; ++c) {
      const double g = dy_[c] * factor_[c], n = x_[c] * scale.r;
      const double size = std::abs(dy_[c]) * factor_size_[c] + kTiny;
      const double difference = g - n * mean, dx = scale.r * difference + dresidual_[c];
      magnitude[c] =
          scale.r * (3 * size + (root + 2) * (std::abs(difference) + std::abs(n * mean)) +
                     (std::abs(n) + kTiny) * mean_error) +
          std::abs(dx) + 8 * kTiny;
      value[c] = overflowed(dtype, dx, magnitude[c]);
    }
  }

  void dweight(double* value, double* magnitude) {
    std::vector<Scale> scales(args_.letters[kT]);
    for (std::size_t t = 0; t < scales.size(); ++t) scales[t] = load(static_cast<std::int64_t>(t));
    constexpr std::int64_t kBlock = 4096;  // columns: what they add up to is ten times their values
    for (std::int64_t begin = 0; begin < width_; begin += kBlock)
      dweight_block(scales, begin, std::min(width_, begin + kBlock), value, magnitude);
  }

 private:
  // r of a row, and the roundings that its sum brings: alike ones, and others.
  struct Scale {
    double r, alike, walk;
  };
  // What a column of dweight adds up to: its terms, and the errors that they come with.
  struct Column {
    SumWalk products;
    double worst = 0, alike = 0, squares = 0, rest = 0;
  };

  // Columns [begin, end) of dweight.
  void dweight_block(const std::vector<Scale>& scales, std::int64_t begin, std::int64_t end,
                     double* value, double* magnitude) {
    const TensorView &x = args_.tensors[kX], &dy = args_.tensors[kDy];
    const DType dtype = x.dtype;
    const DType dweight_dtype = args_.has(kWeight) ? args_.tensors[kWeight].dtype : DType::kF32;
    const bool cast = args_.scalars[kCastBeforeWeight].i != 0 && dtype != DType::kF32;
    std::vector<Column> columns(end - begin);
    std::vector<double> x_part(columns.size()), dy_part(columns.size());
    for (std::size_t t = 0; t < scales.size(); ++t) {
      const Scale& scale = scales[t];
      const double random = kRoot + scale.walk + 2, error = random + scale.alike;
      const auto row = static_cast<std::int64_t>(t);
      load_row(x, x_map_.offset(row) + begin * x.strides[x.rank - 1], x_part);
      load_row(dy, dy_map_.offset(row) + begin * dy.strides[dy.rank - 1], dy_part);
      for (std::size_t c = 0; c < columns.size(); ++c) {
        Column& column = columns[c];
        const double gradient = std::abs(dy_part[c]);
        double n = x_part[c] * scale.r;
        if (cast) {  // one step of the dtype, where the kernel's n may be beyond a tie
          if (may_flip(dtype, n, (std::abs(n) + kTiny) * error * kRounding))
            column.rest += gradient * spacing(dtype, n) / kRounding;
          n = round_to(dtype, n);
        }
        const double size = gradient * std::abs(n);
        column.products.add(dy_part[c] * n);
        column.worst += size * error;
        column.alike += size * (scale.alike + 1);
        column.squares += size * random * size * random;
        column.rest += (gradient * error + 1) * kTiny;
      }
    }
    const auto rows = static_cast<std::int64_t>(scales.size());
    const SumModel model = sum_model(std::min<std::int64_t>(rows, kMaxRowsInF32), false);
    for (std::int64_t c = begin; c < end; ++c) {
      const Column& column = columns[c - begin];
      magnitude[c] = sum_error(model, column.products.sizes()) + column.rest +
                     std::min(column.worst, 2 * std::sqrt(column.squares) + column.alike);
      value[c] = overflowed(dweight_dtype, column.products.sum(), magnitude[c]);
    }
  }

  // Row t of x and dy; its r.
  Scale load(std::int64_t t) {
    load_row(args_.tensors[kX], x_map_.offset(t), x_);
    load_row(args_.tensors[kDy], dy_map_.offset(t), dy_);
    RowSquares squares;
    for (const double v : x_) squares.add(v);
    const double r = 1 / std::sqrt(squares.sum / static_cast<double>(width_) + eps_);
    const double walk = RowSquares().root_error(width_);
    return {r, squares.root_error(width_) - walk, walk};
  }

  const Args& args_;
  const std::int64_t width_;
  const double eps_;
  // Five more where lanes are added up.
  const SumModel chain_model_ =
      sum_model(std::min(width_, static_cast<std::int64_t>(sum_chain(width_)) + 6), false);
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
  const DType dtype = problem.tensors[result == kResultDx ? kDx : kDweight].dtype;
  const FloatTraits traits = float_traits(dtype);
  Bound bound;
  bound.magnitude = kRounding * (1 + traits.eps);
  // dweight is rounded from f64 or a last f32 sum; an f32 dx is its last operation's own rounding.
  bound.value = result == kResultDx && dtype == DType::kF32 ? 0 : traits.eps / 2;
  bound.absolute = traits.tiny / 2 + 0x1p-149;
  return bound;
}

}  // namespace dlblas::norm
