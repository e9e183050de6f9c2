// The oracle of an operator whose results are rows, as one text: a template over how a row is read
// and summed. Here it runs on the host, in plain f64 loops and for any strides; the same text is
// meant for the device, a block a row. An operator writes
//   template <typename Row> void softmax_row(Row& row) {
//     const double most = row.max(row.size(kC), [&](auto c) { return row.load(kX, c); });
//     row.each(row.size(kC), [&](auto c) { row.store(0, c, value, magnitude); });
//   }
// and hands row_reference<softmax_row<HostRow>> to OperatorDef. Read next: registry/operator.hpp
// (Bound), registry/sum_error.hpp, ops/norm/softmax/softmax_ref.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/element.hpp"
#include "registry/operator.hpp"
#include "registry/sum_error.hpp"

namespace dlblas::kernels {

/// Roundings that an f32 sum of `width` terms of one sign may be off by, relative to it, in any of
/// the row kernels; `total` and `squares` are Σp and Σp². registry/sum_error.hpp says how errors
/// walk along a chain and where they do not: where terms are alike.
///   chains: on a CPU sixteen (4 lanes at the narrowest) over blocks of 4096 columns; on a GPU one
/// of each of 128 threads or more. A walk along n terms of one sign is 1.44·√n at six deviations,
/// and the errors of m chains differ: √m less.
///   alike: n/4, of which q⁶ counts, q = (Σp)² / (n·Σp²) being the share of alike terms
/// (norm_ref.cpp has measurements).
///   trees: what lanes, warps and blocks add, a rounding a level, each of half as much as the next.
inline double sum_roundings(std::int64_t width, double total, double squares) {
  const auto n = static_cast<double>(width);
  const double cpu = std::min(n, 4096.0) / 16, gpu = n / 128;
  const double walk = 1.44 * std::sqrt(std::max(cpu / 16, gpu / 128));
  const double q = squares > 0 ? total / n * (total / squares) : 0, q3 = q * q * q;
  return 3.5 + walk + std::max(cpu, gpu) / 4 * q3 * q3;
}

/// The elements of one row of a tensor: for judges.
inline std::vector<double> row_values(const TensorView& t, std::int64_t row) {
  std::vector<double> values(static_cast<std::size_t>(t.shape[t.rank - 1]));
  std::int64_t at = rows_of(t).offset(row);
  for (double& v : values) v = load_element(t, at), at += t.strides[t.rank - 1];
  return values;
}

/// RowRank's order without places: NaN above all.
inline bool larger(double a, double b) { return a > b || (std::isnan(a) && !std::isnan(b)); }
/// Places of the `count` largest, in order; equal ones from left to right.
inline std::vector<std::int64_t> largest(const std::vector<double>& values, std::int64_t count) {
  std::vector<std::int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](std::int64_t a, std::int64_t b) {
                      const double x = values[static_cast<std::size_t>(a)],
                                   y = values[static_cast<std::size_t>(b)];
                      return larger(x, y) || (a < b && !larger(y, x));
                    });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

/// sum_roundings of terms of either sign: chains as above, and the levels of the trees behind them.
inline double sum_roundings(std::int64_t width, const SumWalk& walk) {
  const std::int64_t chain = std::max(std::min<std::int64_t>(width, 4096) / 16, width / 128);
  return sum_error(sum_model(std::min(width, chain + 16), false), walk.sizes());
}

class HostRow {
 public:
  HostRow(const Args& args, OracleOut* out) : args_(args), out_(out) {
    for (int i = 0; i < args.schema->num_inputs; ++i)
      if (args.has(i) && args.tensors[i].rank > 0 && args.tensors[i].numel() > 0)
        maps_[i] = rows_of(args.tensors[i]);
  }
  /// The row to be computed, and its place among those that are asked for.
  void move_to(std::int64_t row, std::int64_t place) {
    index_ = row, place_ = place;
    for (int i = 0; i < args_.schema->num_inputs; ++i) at_[i] = maps_[i].offset(row);
  }
  /// This row's number: of a tensor [*T, H, D], head index % H of index / H.
  std::int64_t index() const { return index_; }
  std::int64_t size(int letter) const { return args_.letters[letter]; }
  std::int64_t width(int tensor) const {
    return args_.tensors[tensor].shape[args_.tensors[tensor].rank - 1];
  }
  bool has(int tensor) const { return args_.has(tensor); }
  double scalar(int i) const { return args_.scalars[i].f; }
  std::int64_t integer(int i) const { return args_.scalars[i].i; }

  DType result_dtype(int result) const {
    return args_.tensors[args_.schema->num_inputs + result].dtype;
  }

  /// A tensor without dimensions.
  double value(int tensor) const { return load_element(args_.tensors[tensor], 0); }
  /// An element of this row.
  double load(int tensor, std::int64_t column) const {
    const TensorView& t = args_.tensors[tensor];
    return load_element(t, at_[tensor] + column * t.strides[t.rank - 1]);
  }
  /// An element of another row.
  double load_row(int tensor, std::int64_t row, std::int64_t column) const {
    const TensorView& t = args_.tensors[tensor];
    return load_element(t, maps_[tensor].offset(row) + column * t.strides[t.rank - 1]);
  }
  /// An element of a vector that all rows share.
  double load_column(int tensor, std::int64_t column) const {
    return load_element(args_.tensors[tensor], column * args_.tensors[tensor].strides[0]);
  }
  /// A result's element, and the sum of absolute terms behind it. Values that the result's type
  /// cannot hold are infinite.
  void store(int result, std::int64_t column, double value, double magnitude) {
    const TensorView& t = args_.tensors[args_.schema->num_inputs + result];
    const double stored = round_to(t.dtype, value);
    const std::int64_t at = place_ * t.shape[t.rank - 1] + column;
    out_[result].value[at] = std::isinf(stored) ? stored : value;
    out_[result].magnitude[at] = magnitude;
  }

  template <typename F>
  void each(std::int64_t count, const F& f) const {
    for (std::int64_t c = 0; c < count; ++c) f(c);
  }
  template <typename F>
  double sum(std::int64_t count, const F& f) const {
    double total = 0;
    for (std::int64_t c = 0; c < count; ++c) total += f(c);
    return total;
  }
  /// A sum of terms of either sign, with what its kernels' error depends on.
  template <typename F>
  SumWalk walk(std::int64_t count, const F& f) const {
    SumWalk walk;
    for (std::int64_t c = 0; c < count; ++c) walk.add(f(c));
    return walk;
  }
  /// NaN wins; −inf of nothing.
  template <typename F>
  double max(std::int64_t count, const F& f) const {
    double most = -std::numeric_limits<double>::infinity();
    for (std::int64_t c = 0; c < count; ++c) {
      const double v = f(c);
      if (v > most || std::isnan(v)) most = v;
    }
    return most;
  }

 private:
  const Args& args_;
  OracleOut* out_;
  Rows maps_[kMaxTensors];
  std::int64_t index_ = 0, place_ = 0, at_[kMaxTensors] = {};
};

/// The ReferenceFn of an oracle that is a function of one row.
template <void (*kRow)(HostRow&)>
void row_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                   OracleOut* out) {
  HostRow row(args, out);
  for (std::int64_t i = 0; i < num_rows; ++i) {
    row.move_to(rows[i], i);
    kRow(row);
  }
}

}  // namespace dlblas::kernels
