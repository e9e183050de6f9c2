// Attention of one query over the keys it sees, in f64, and the error bound of f32 kernels: shared
// by the oracles of attention over paged caches.
//   s_j = f · (q · k_j), capped;  p_j = e^(s_j − m), m = max;  o = Σ p·v / Σ p;  lse = m + log Σ p
// Errors are in units u = 2^-24.
//   A score: 0.7 of the roundings of its dot product (RowWalk: 16 chains or more), times f; 2 of
// its value for the factors; tanh is accurate to 8 ulp: 20 of its result. Tensor cores truncate:
// n/2·R for 16-bit inputs (device/oracle/sum_error.hpp).
//   A power: 3 + 1.2·|s − m| (ops/norm/softmax/softmax_ref.hpp), |m|/4 for rounding the maximum
// times log2 e, and √c for the c times that a running maximum may grow.
//   o changes by Σ p·e·(v − o) / Σ p. Errors e of different keys add up as squares, 0.7 of which is
// six standard deviations; a tenth of their plain sum is added for keys that are alike, and all of
// the truncation.
//   Σ p·v: sum_off, below; Σ p: 0.6 of sum_roundings. Kernels split p into two 16-bit numbers: bf16
// loses 2^-17 of p, f16 2^-22 and, where p is below 2^-24, 2^-35. Or they round p to one 16-bit
// number (Powers::kOne), whose errors walk along Σ p·v as in attention_oracle.cpp; equal powers (a
// page that a sequence holds twice) count as one. Kernels that do not scale p up first
// (Powers::kOneAsIs) lose 2^-25 of an f16 p below 2^-14. The quotient: 2.5.
// An intermediate infinity makes the result undefined; NaN gives NaN. Read next:
// paged_attention_lse/, device/oracle/sum_error.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/element.hpp"
#include "kernels/row_reference.hpp"

namespace dlblas::attention {

inline constexpr double kFlushed = 0x1p-125 / kRounding;  // kernels make 0 of what is smaller
inline constexpr double kMax = 0x1p126;                   // more, and f32 may not hold it

/// How many 16-bit numbers hold a power for its product with 16-bit values.
enum class Powers { kOne, kOneAsIs, kTwo };

class AttendedRow {
 public:
  /// `type`: that of q, which decides what kernels do with p; `width`: columns of v.
  AttendedRow(DType type, std::int64_t width, Powers powers)
      : narrow_(size_of(type) < 4),
        half_(type == DType::kF16),
        rounded_(narrow_ && powers != Powers::kTwo),
        flushed_(!half_                       ? 0
                 : powers == Powers::kOneAsIs ? 0.5
                                              : 0x1p-11),
        width_(width) {}

  /// Adds a key: q and k of `depth` elements, and v.
  void add(const double* q, const double* k, std::int64_t depth, double factor, double cap,
           const double* v) {
    kernels::RowWalk dot;
    SumWalk plain;
    for (std::int64_t i = 0; i < depth; ++i) {
      dot.add(q[i] * k[i]);
      if (narrow_) plain.add(q[i] * k[i]);
    }
    const double size = std::abs(factor);
    double score = dot.sum() * factor;
    double off = 0.7 * dot.roundings() * size + 2 * std::abs(score) + 0x1p-149 / kRounding;
    double cut = narrow_ ? static_cast<double>(std::min<std::int64_t>(depth, 0x10000)) / 2 *
                               std::sqrt(plain.sizes().path) * size
                         : 0;
    lost_ |= dot.overflows() || dot.size() * size >= kMax || std::isinf(score);
    if (cap != 0) {
      const double slope = 1 / std::pow(std::cosh(score / cap), 2);
      score = cap * std::tanh(score / cap);
      off = off * std::min(1.0, 2 * slope + 1e-3) + 20 * std::abs(score);
      cut *= std::min(1.0, 2 * slope + 1e-3);
    }
    add_score(score, off, cut, v);
  }
  /// A value that another row of the sequence sees but this one does not: kernels that process rows
  /// together multiply it by 0.
  void add_unseen(const double* v) {
    for (std::int64_t d = 0; d < width_; ++d)
      if (!std::isfinite(v[d])) touched_.push_back(d);
  }
  /// A logit without a value.
  void add_sink(double sink) { add_score(sink, 0, 0, nullptr); }

  /// The row of o times `scale`: values and magnitudes [width].
  void output(double scale, double* value, double* magnitude) const {
    const Weights w(*this);
    std::vector<SumWalk> sums(static_cast<std::size_t>(width_));
    std::vector<double> sizes(static_cast<std::size_t>(width_)), weighed(sizes);
    for (std::size_t j = 0; j < keys_.size(); ++j) {
      if (!keys_[j].v) continue;
      for (std::int64_t d = 0; d < width_; ++d) {
        const double v = keys_[j].v[d];
        sums[d].add(w.p[j] * v);
        sizes[d] += std::abs(v);
        weighed[d] += w.p[j] * std::abs(v);
      }
    }
    std::vector<double> squares(sizes.size()), plain(sizes.size());
    for (std::int64_t d = 0; d < width_; ++d) value[d] = w.sum == 0 ? 0 : sums[d].sum() / w.sum;
    for (std::size_t j = 0; j < keys_.size(); ++j)
      for (std::int64_t d = 0; d < width_; ++d) {
        const double away = w.p[j] * std::abs((keys_[j].v ? keys_[j].v[d] : 0) - value[d]);
        squares[d] += std::pow(away * w.off[j], 2);
        plain[d] += away * (w.off[j] / 10 + keys_[j].cut);
      }
    const std::vector<double> alike = squares_of_equal(w.p);
    const double split = !narrow_ ? 0 : half_ ? 4 : 128;
    const double rounding = rounded_ ? (half_ ? 0x1p-11 : 0x1p-8) / kRounding : 0;
    for (std::int64_t d = 0; d < width_; ++d) {
      const double total = std::max(w.sum, 0x1p-1000), o = std::abs(value[d]);
      const SumSizes sizes_of = sums[d].sizes();
      const double walk = 2.5 * std::sqrt(alike[d]) + 2 * std::sqrt(sizes_of.path);
      const double off = 0.7 * std::sqrt(squares[d]) + plain[d] +
                         sum_off(sums[d].sizes(), static_cast<double>(keys_.size()), narrow_) +
                         split * weighed[d] + rounding * std::min(sizes_of.size, walk) +
                         (flushed_ + kFlushed) * sizes[d];
      const bool lost = lost_ || weighed[d] >= kMax || std::abs(value[d] * scale) >= kMax;
      value[d] *= scale;
      magnitude[d] = std::abs(scale) * (off / total + o * (0.6 * w.sum_off + 2.5));
      if (std::isnan(value[d])) magnitude[d] = 0;
      if (lost && (!std::isnan(value[d]) || infinite_)) magnitude[d] = -1;
      if (!std::isfinite(magnitude[d])) magnitude[d] = -1;
    }
    for (const std::int64_t d : touched_) magnitude[d] = -1;
  }
  void lse(double* value, double* magnitude) const {
    const Weights w(*this);
    *value = w.sum == 0 ? -std::numeric_limits<double>::infinity() : w.most + std::log(w.sum);
    double squares = 0, plain = 0;
    for (std::size_t j = 0; j < keys_.size(); ++j) {
      squares += std::pow(w.p[j] * w.off[j], 2);
      plain += w.p[j] * (w.off[j] / 10 + keys_[j].cut);
    }
    const double off =
        w.sum == 0 ? 0
                   : (std::sqrt(squares) + plain) / w.sum + w.sum_off + 5 + 1.5 * std::abs(*value);
    *magnitude = lost_ ? -1 : std::isfinite(off) ? off : 0;
  }

 private:
  struct Key {
    double score, off, cut;
    const double* v;
  };
  /// The powers of all keys and their error bounds.
  struct Weights {
    double most = -std::numeric_limits<double>::infinity(), sum = 0, sum_off = 0;
    std::vector<double> p, off;
    explicit Weights(const AttendedRow& row) {
      double changes = 0;
      for (const Key& key : row.keys_)
        if (key.score > most) most = key.score, ++changes;
      const double base = std::isinf(most) ? 0 : most;
      SumWalk walk;
      for (const Key& key : row.keys_) {
        p.push_back(std::exp(key.score - base));
        off.push_back(key.off + 3 + 1.2 * std::min(200.0, std::abs(key.score - base)) +
                      std::abs(base) / 4 + std::sqrt(changes));
        walk.add(p.back());
      }
      sum = walk.sum();
      // Equal blocks of 64 round alike: their errors add up linearly.
      const auto n = static_cast<std::int64_t>(p.size());
      if (sum > 0)
        sum_off =
            kernels::sum_roundings(n, sum, walk.sizes().squares) + static_cast<double>(n) / 256;
    }
  };
  /// Per column, Σ (Σ p·v over equal p)²: equal powers round alike. 0 if powers are not rounded.
  std::vector<double> squares_of_equal(const std::vector<double>& p) const {
    std::vector<std::size_t> order;
    if (!rounded_) return std::vector<double>(static_cast<std::size_t>(width_));
    for (std::size_t j = 0; j < keys_.size(); ++j)
      if (keys_[j].v) order.push_back(j);
    std::sort(order.begin(), order.end(), [&](auto a, auto b) {  // NaN is last
      return p[a] < p[b] || (std::isnan(p[b]) && !std::isnan(p[a]));
    });
    std::vector<double> squares(static_cast<std::size_t>(width_)), sums(squares);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::size_t j = order[i];
      const bool last = i + 1 == order.size() || p[order[i + 1]] != p[j];
      for (std::int64_t d = 0; d < width_; ++d) {
        sums[d] += p[j] * keys_[j].v[d];
        if (last) squares[d] += sums[d] * sums[d], sums[d] = 0;
      }
    }
    return squares;
  }
  /// Error bound of Σ p·v: six standard deviations of a chain over blocks of 64 terms or more;
  /// equal terms, which round alike over more than a block; the truncation of tensor cores.
  static double sum_off(const SumSizes& sums, double n, bool cuts) {
    const double path = std::sqrt(sums.path), sided = sums.size > 0 ? path / sums.size : 0;
    const double alike = 0.8 * std::min(n, 64 + n / 64) * path * sided * sided;
    return std::min(
               2.5 * std::sqrt(std::min(n, std::max(64.0, n / 64)) * sums.path + sums.squares) +
                   alike,
               n * sums.size) +
           (cuts ? std::min(n, 0x1p16) / 2 * path : 0);
  }
  void add_score(double score, double off, double cut, const double* v) {
    infinite_ |= std::isinf(score);
    lost_ |= std::isinf(score) && score > 0;
    keys_.push_back({score, off, cut, v});
  }

  bool narrow_, half_, rounded_;
  double flushed_;  // of a power in f16, at most, in units of u
  bool lost_ = false, infinite_ = false;
  std::int64_t width_;
  std::vector<Key> keys_;
  std::vector<std::int64_t> touched_;
};

}  // namespace dlblas::attention
