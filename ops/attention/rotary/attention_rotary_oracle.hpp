// Rotated heads for the oracle of attention, in f64: rows that tables rotate, rounded to their type
// as the contract says, and the error bound of a kernel's.
//   r_l = l·cos_l − h·sin_l, r_h = h·cos_h + l·sin_h; in f32, r has an error of
//   u·(|l·cos| + |h·sin| + |r|)
// (ops/rope/rotation_ref.hpp). Rounding to 16 bits leaves no error, or one step where r is that
// near to a tie; f32 keeps the error. A score q̂ · k̂ has an error of Σ |q̂|·off(k̂) +
// |k̂|·off(q̂). Roundings of channels are independent: 3.5 roots of the sum of squares are six
// standard deviations, and a sixteenth of the worst case is added. With 16 bits it is 6 such roots,
// since an error is one full step and not an upper bound, and the sum over keys takes off() as six
// standard deviations; `worst` bounds a single score. The error of q̂ shifts the scores of all
// keys, perhaps to one side. Where f32 or the type may overflow, the result is undefined.
// Read next: attention_oracle.cpp.
#pragma once

#include <limits>
#include <map>
#include <vector>

#include "ops/attention/attention_host.hpp"
#include "ops/common/tie_ref.hpp"

namespace dlblas::attention {

/// Rows of d channels, one after another; `off` in units of the values.
struct TurnedRows {
  std::vector<double> value, off;
};

class RotationOracle {
 public:
  explicit RotationOracle(const AttentionCall& call) : call_(call) {}

  /// Rotates rows [first, end) of a head of q or k.
  TurnedRows turn(const Heads& x, std::int64_t b, std::int64_t head, std::int64_t first,
                  std::int64_t end) const {
    const TensorView &cos = call_.args.tensors[call_.op.cos],
                     &sin = call_.args.tensors[call_.op.sin];
    const std::int64_t d = call_.d, half = d / 2;
    TurnedRows made{std::vector<double>(static_cast<std::size_t>((end - first) * d)), {}};
    made.off = made.value;
    // A table of half the columns serves both channels of a pair.
    const auto factor = [&](const TensorView& t, std::int64_t row, std::int64_t column) {
      return load_element(t, (t.shape[0] == 1 ? 0 : b) * t.strides[0] + row * t.strides[1] +
                                 column % t.shape[2] * t.strides[2]);
    };
    for (std::int64_t row = first; row < end; ++row) {
      const std::int64_t from = x.offset(b, row, head);
      const auto to = static_cast<std::size_t>((row - first) * d);
      for (std::int64_t i = 0; i < half; ++i) {
        const double l = x.element(from, i), h = x.element(from, half + i);
        const auto low = to + static_cast<std::size_t>(i);
        const auto high = low + static_cast<std::size_t>(half);
        put(made, low, l * factor(cos, row, i), -h * factor(sin, row, i));
        put(made, high, h * factor(cos, row, half + i), l * factor(sin, row, half + i));
      }
    }
    return made;
  }
  /// All rows of a head of k; a few heads are cached.
  const TurnedRows& keys(std::int64_t b, std::int64_t head) {
    constexpr std::size_t kMax = std::size_t{1} << 23;  // elements
    const auto [at, is_new] = kept_.try_emplace({b, head});
    if (!is_new) return at->second;
    TurnedRows made = turn(call_.k, b, head, 0, call_.args.letters[call_.op.k_rows]);
    held_ += made.value.size();
    if (held_ <= kMax) return at->second = std::move(made);
    kept_.clear(), held_ = made.value.size();
    return kept_[{b, head}] = std::move(made);
  }

 private:
  void put(TurnedRows& to, std::size_t at, double a, double b) const {
    const DType type = call_.q.t.dtype;
    constexpr double kMax = 0x1p127, kNone = std::numeric_limits<double>::infinity();
    const double r = a + b;
    const bool finite = std::isfinite(a) && std::isfinite(b);
    to.value[at] = type == DType::kF32 ? r : round_to(type, r);
    if (finite ? std::abs(a) + std::abs(b) >= kMax
               : (std::isfinite(a) && std::abs(a) >= kMax) ||
                     (std::isfinite(b) && std::abs(b) >= kMax)) {
      to.off[at] = kNone;
      return;
    }
    if (!finite) return;
    const double error =
        1.001 * kRounding * (std::abs(a) + std::abs(b) + std::abs(r)) + 3 * 0x1p-149;
    if (type == DType::kF32) {
      to.off[at] = error;
    } else if (norm::may_flip(type, r, error)) {
      const bool overflows = !std::isfinite(round_to(type, std::abs(r) + error));
      to.off[at] = overflows ? kNone : norm::spacing(type, r) + error;
    }
  }

  const AttentionCall& call_;
  std::map<std::pair<std::int64_t, std::int64_t>, TurnedRows> kept_;  // by sequence and head
  std::size_t held_ = 0;
};

/// Error bound of a product of rows, from the errors of both; infinite: the product is undefined.
struct TurnedOff {
  double all, of_q;  // of_q: a part of it, which may have one sign for all keys
  double worst;      // and no product is off by more
};
inline TurnedOff turned_off(DType type, const double* q, const double* q_off, const double* k,
                            const double* k_off, std::int64_t d) {
  double worst = 0, worst_q = 0, squares = 0, squares_q = 0;
  for (std::int64_t c = 0; c < d; ++c) {
    if (q_off[c] == 0 && k_off[c] == 0) continue;
    double off = q_off[c] * k_off[c], of_q = 0;
    if (k_off[c] > 0) off += std::abs(q[c]) * k_off[c];
    if (q_off[c] > 0) of_q = std::abs(k[c]) * q_off[c];
    off += of_q;
    worst += off, squares += off * off, worst_q += of_q, squares_q += of_q * of_q;
  }
  if (!(worst < std::numeric_limits<double>::max()))
    return {std::numeric_limits<double>::infinity(), 0, 0};
  if (type == DType::kF32)
    return {std::min(worst, 3.5 * std::sqrt(squares) + worst / 16),
            std::min(worst_q, 3.5 * std::sqrt(squares_q) + worst_q / 16), worst};
  return {6 * std::sqrt(squares), worst_q, worst};
}

}  // namespace dlblas::attention
