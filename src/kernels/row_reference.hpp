// One row of an oracle on the host, in plain f64 loops and for any strides: the row type that an
// oracle's text (ops/common/oracle_text.hpp) is compiled with here. Read next:
// registry/operator.hpp (Bound), device/oracle/sum_error.hpp, ops/norm/softmax/softmax_ref.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "core/element.hpp"
#include "device/oracle/sum_error.hpp"
#include "device/row/call.hpp"
#include "registry/operator.hpp"

namespace dlblas::kernels {

/// The elements of one row of a tensor: for judges.
inline std::vector<double> row_values(const TensorView& t, std::int64_t row) {
  std::vector<double> values(static_cast<std::size_t>(t.shape[t.rank - 1]));
  std::int64_t at = rows_of(t).offset(row);
  for (double& v : values) v = load_element(t, at), at += t.strides[t.rank - 1];
  return values;
}

/// RowRank's order, without places: NaN is the largest.
inline bool larger(double a, double b) { return a > b || (std::isnan(a) && !std::isnan(b)); }
/// Places of the `count` largest, in descending order; ties from left to right.
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

class HostRow {
 public:
  HostRow(const Args& args, OracleOut* out) : args_(args), out_(out) {
    for (int i = 0; i < args.schema->num_inputs; ++i)
      if (args.has(i) && args.tensors[i].rank > 0 && args.tensors[i].numel() > 0)
        maps_[i] = rows_of(args.tensors[i]);
  }
  /// Selects the row to compute, and its place among the requested rows.
  void move_to(std::int64_t row, std::int64_t place) {
    index_ = row, place_ = place;
    for (int i = 0; i < args_.schema->num_inputs; ++i) at_[i] = maps_[i].offset(row);
  }
  /// This row's index: for a tensor [*T, H, D], head index % H of row index / H.
  std::int64_t index() const { return index_; }
  std::int64_t size(int letter) const { return args_.letters[letter]; }
  std::int64_t width(int tensor) const {
    return args_.tensors[tensor].shape[args_.tensors[tensor].rank - 1];
  }
  bool has(int tensor) const { return args_.has(tensor); }
  double scalar(int i) const { return args_.scalars[i].f; }
  std::int64_t integer(int i) const { return args_.scalars[i].i; }

  DType dtype(int tensor) const { return args_.tensors[tensor].dtype; }
  DType result_dtype(int result) const { return args_.judged(result).dtype; }

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
  /// The value of row `row` in an operand [*T].
  double load_value(int tensor, std::int64_t row) const {
    if (args_.tensors[tensor].rank == 0) return value(tensor);
    return load_row(tensor, row / width(tensor), row % width(tensor));
  }
  /// An element of a vector that all rows share.
  double load_column(int tensor, std::int64_t column) const {
    return load_element(args_.tensors[tensor], column * args_.tensors[tensor].strides[0]);
  }
  /// Stores a result's element, and the sum of the absolute terms behind it. A value that the
  /// result's type cannot hold becomes infinite.
  void store(int result, std::int64_t column, double value, double magnitude) {
    const double stored = round_to(result_dtype(result), value);
    store_as_is(result, column, std::isinf(stored) ? stored : value, magnitude);
  }
  /// As store, for a value at the edge of the type's range, where a correct result may be finite or
  /// infinite.
  void store_as_is(int result, std::int64_t column, double value, double magnitude) {
    const TensorView& t = args_.judged(result);
    const std::int64_t at = place_ * (t.rank > 0 ? t.shape[t.rank - 1] : 1) + column;
    out_[result].value[at] = value;
    out_[result].magnitude[at] = magnitude;
  }

  /// Values that rows share, computed before the first row: `keep` from one row alone, `keep_most`
  /// from any number of rows, for values of at least 0; NaN wins.
  double kept(std::int64_t at) const { return shared_[at]; }
  void keep(std::int64_t at, double value) { shared_[at] = value; }
  void keep_most(std::int64_t at, double value) {
    if (value > shared_[at] || std::isnan(value)) shared_[at] = value;
  }
  void share(double* shared) { shared_ = shared; }

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
  /// Several sums at a time: f(c, terms) sets kCount of them.
  template <int kCount, typename F>
  RowSums<kCount> sums(std::int64_t count, const F& f) const {
    RowSums<kCount> total;
    for (std::int64_t c = 0; c < count; ++c) {
      double terms[kCount];
      f(c, terms);
      for (int i = 0; i < kCount; ++i) total.of[i] += terms[i];
    }
    return total;
  }
  /// A sum of terms of either sign, with the quantities that a kernel's error depends on.
  template <typename F>
  RowWalk walk(std::int64_t count, const F& f) const {
    RowWalk walk;
    for (std::int64_t c = 0; c < count; ++c) walk.add(f(c));
    return walk;
  }
  /// The same, where accumulation chains do not matter.
  template <typename F>
  SumWalk sum_walk(std::int64_t count, const F& f) const {
    SumWalk walk;
    for (std::int64_t c = 0; c < count; ++c) walk.add(f(c));
    return walk;
  }
  /// NaN wins; −inf if there are no terms.
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
  double* shared_ = nullptr;
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

/// How many calls, with indices 0, 1, …, compute what rows share, and how many values that is.
struct SharedSize {
  std::int64_t calls, values;
};

/// The same, where kShared first computes values that rows share; they start at 0.
template <void (*kShared)(HostRow&), void (*kRow)(HostRow&), SharedSize (*kSize)(const Args&)>
void shared_row_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                          OracleOut* out) {
  const SharedSize size = kSize(args);
  std::vector<double> shared(static_cast<std::size_t>(size.values));
  HostRow row(args, out);
  row.share(shared.data());
  for (std::int64_t i = 0; i < size.calls; ++i) {
    row.move_to(i, 0);
    kShared(row);
  }
  for (std::int64_t i = 0; i < num_rows; ++i) {
    row.move_to(rows[i], i);
    kRow(row);
  }
}

}  // namespace dlblas::kernels
