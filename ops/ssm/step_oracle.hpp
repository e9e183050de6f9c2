// One step of a state-space model in f64, and the error bound of f32 kernels: shared by the oracles
// of a single step and of a scan.
//   dt' = softplus(dt + bias)   h' = e^(dt'·A)·h + dt'·x·B   y = (Σ_n C·h' + D·x)·silu(z)
// Errors are in units of u = 2^-24 and follow a chain of steps: each step rounds its products and
// its sum, and the factor e^(dt'·A), which is between 0 and 1 for A < 0, scales the previous error.
// So with A < 0 the error stays at a few roundings of the state's terms, and grows with the number
// of steps only where nothing decays. Roundings are counted against sums of absolute terms, since
// kernels may scan in any order, and terms may cancel in one order only. Read next:
// selective_state_update/, selective_scan/, device/oracle/sum_error.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::ssm {

/// A value, and its error bound in roundings.
struct Rounded {
  double value = 0, off = 0;
};

inline constexpr double kFlushed = 0x1p-125 / kRounding;  // kernels make 0 of what is smaller
inline constexpr double kMax = 0x1p126;                   // more, and f32 may not hold it

/// exp has an error of 4 roundings and 1.3 per unit of its argument (device/row/values.cuh), log1p
/// of it 16; a sum, and the slope of softplus, pass on the error of dt.
inline Rounded time_step(double dt, double bias, bool softplus) {
  const double v = dt + bias, off = bias == 0 ? 0 : std::abs(v);
  if (!softplus) return {v, off};
  const double e = std::exp(-std::abs(v)), log = std::log1p(e);
  return {std::max(v, 0.0) + log, off / (1 + std::exp(-v)) + (24 + 2 * std::abs(v)) * log +
                                      std::abs(v) * (v > 0) + kFlushed};
}

/// y · silu(z): an exponential and a quotient.
inline Rounded gated(const Rounded& y, double z) {
  const double gate = z / (1 + std::exp(-z));
  // Below −87 the reciprocal is 0, where |z|·e^z is 2^-119.
  const double off = std::abs(gate) * (16 + 2 * std::abs(z)) + 0x1p7 * kFlushed;
  return {y.value * gate, std::abs(gate) * (y.off + std::abs(y.value)) + std::abs(y.value) * off};
}

/// One element of the state.
class StateElement {
 public:
  explicit StateElement(double before) : value_(before), size_(std::abs(before)) {}

  void step(const Rounded& dt, double x, double a, double b) {
    const double z = dt.value * a, factor = std::exp(z), in = dt.value * x * b;
    // An infinite state may be inf or NaN from now on: after the first step by the order of a scan,
    // and at once where the factor is 0 in f32.
    const bool flushed = factor > 0 && factor < kFlushed * kRounding;
    lost_ |= std::isinf(size_) && (steps_ > 0 || flushed);
    const double relative = std::isfinite(z) ? 4 + 2.5 * std::abs(z) + std::abs(a) * dt.off : 0;
    const double factor_off = factor * relative + kFlushed;
    const double in_off =
        2 * std::abs(in) + std::abs(x * b) * dt.off + (1 + std::abs(b) + std::abs(x)) * kFlushed;
    off_ = factor * off_ + size_ * factor_off + in_off;
    size_ = factor * size_ + std::abs(in);
    off_ += 2 * size_;
    value_ = factor * value_ + in;
    growth_ = factor * std::max(1.0, growth_);
    lost_ |= too_large(size_) || too_large(growth_) || (std::isinf(factor) && std::isfinite(z));
    peak_ = std::max(peak_, size_);
    ++steps_;
  }

  double value() const { return value_; }
  /// The sum of absolute terms.
  double size() const { return size_; }
  /// Whether f32 cannot hold an intermediate result of kernels.
  bool lost() const { return lost_; }
  /// A scan joins parts in a tree: two roundings per level, many of which cancel. A factor of many
  /// steps may be 0 in f32.
  double off() const {
    const double tree = 2.0 * static_cast<double>(std::min<std::int64_t>(steps_ - 1, 8)) * size_;
    return off_ + std::max(0.0, tree) + (steps_ > 1 ? peak_ * kFlushed : 0);
  }

 private:
  static bool too_large(double size) { return size >= kMax && std::isfinite(size); }
  double value_, size_, off_ = 0, growth_ = 1, peak_ = 0;
  std::int64_t steps_ = 0;
  bool lost_ = false;
};

/// Σ_n C·h', term by term.
class Output {
 public:
  void add(const StateElement& h, double c) {
    terms_.add(c * h.value());
    size_ += std::abs(c) * h.size();
    off_ += std::abs(c) * (h.off() + h.size()) + 0x1p-149 / kRounding;  // the least of f32
    lost_ |= h.lost();
  }
  /// Adds D·x, and applies the gate if there is a z.
  Rounded finish(double d, double x, const double* z) const {
    const double skip = d * x, value = terms_.sum() + skip;
    const Rounded y{value, off_ + terms_.roundings() + std::abs(skip) + std::abs(value)};
    return z ? gated(y, *z) : y;
  }
  bool lost() const { return lost_ || (size_ >= kMax && std::isfinite(size_)); }

 private:
  kernels::RowWalk terms_;
  double size_ = 0, off_ = 0;
  bool lost_ = false;
};

/// Stores the oracle's result for one element.
template <typename Row>
void put(Row& row, int result, std::int64_t column, const Rounded& r, bool lost) {
  row.store(result, column, r.value, lost ? -1 : std::isfinite(r.off) ? r.off : 0);
}

inline Bound step_bound(DType type) {
  const FloatTraits out = float_traits(type);
  return {.magnitude = 1.001 * kRounding, .value = out.eps / 2, .absolute = out.tiny};
}

}  // namespace dlblas::ssm
