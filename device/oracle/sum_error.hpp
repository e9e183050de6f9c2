// How far a kernel's f32 sum of many terms may be from the exact one, for operators' bounds.
// In: sizes that an oracle collects beside a sum. Out: roundings, in units of u = 2^-24.
//
// The worst conceivable chain has an error of n·u·Σ|p|, more than the sum itself from n = 2^17 on
// for draws of both signs: such a bound accepts zeros. Real kernels do better. Addition i rounds by
// at most u·|s_i|, s_i being a partial sum, and by 0.42·u·|s_i| in the root mean square, and
// roundings are independent. So errors walk at random along the partial sums:
//   walk:  0.42·u·√n·R, R the root mean square of the s_i. Six standard deviations: 2.5·u·√n·R.
// The s_i are in the order of the terms; a kernel that permutes or splits the terms walks along
// other sums, of the same size for random terms: √Σp² enters beside R, so that a path that happens
// to be short does not reject another order. Kernels that add in lanes see one sign per lane where
// signs alternate: the sums of the even and of the odd terms enter too, for eight lanes.
//   Q² = R² + Σp² + (R_even² + R_odd²)/32,  allowed 4·√n·Q.
// Measured, n = 64 … 2^25, f32 (our chains, oneDNN, cuBLAS; normal, uniform, halves of either sign,
// alternating): at most 1.8·√n·Q. From 2^20 terms on, n counts as 2^20: longer sums are split.
//   alike: equal terms round alike. In each binade of a sum of n·p all roundings are the same, up
//   to u·|s_i|, which adds up to n·u·S/2 for a sum of one sign; the largest measured was 0.22·n·u·S
//   (full(0.1) of f16, one chain). Allowed 1.5·n·R·(R/Σ|p|)², which is 0.29·n·S there and next to
//   nothing where signs differ, for chains of at most 2^14: oneDNN begins a new one after 4,096
//   terms, cuBLAS and ours sooner. A longer chain of equal terms has an error above 3e-4, and is
//   rejected. Neither part exceeds n·u·Σ|p|, the worst case.
//   cut: tensor cores align an instruction's products to the largest and truncate what is below,
//   one or two bits below f32's last; the sum is truncated again. A product loses at most 5/16 of a
//   step on average (8 products, 1 bit: Ampere; 16 and 2: half), always towards zero: 0.45·u·n·R.
//   cuBLAS on an H200: 0.18·u·n·R for f16, 0.07 for bf16, up to n = 2^12, where it begins to split.
//   Allowed n/2·R for inputs of f16 and bf16, of at most 2^16 terms: 2^-9·R, a fifth of 2 %.
// Read next: registry/operator.hpp (Bound), ops/gemm/matmul/matmul_ref.cpp.
#pragma once

#include "device/oracle/math.hpp"

namespace dlblas {

/// The largest relative error of one f32 rounding.
inline constexpr double kRounding = 0x1p-24;

/// The allowed error of one element: |out − ref| ≤ magnitude·mag + value·|ref| + absolute, where
/// `mag` is the sum of absolute terms that the reference reports beside each value. Derived from
/// accumulation length × eps.
struct Bound {
  double magnitude = 0;
  double value = 0;
  double absolute = 0;
};

/// Factors of the parts above, for one number of terms.
struct SumModel {
  double worst = 0, walk = 0, alike = 0, cut = 0;
};

/// `terms` in one chain of f32; `cuts`: tensor cores take such inputs.
DLBLAS_ORACLE SumModel sum_model(std::int64_t terms, bool cuts) {
  const auto n = [terms](double most) { return std::min(static_cast<double>(terms), most); };
  return {static_cast<double>(terms), 4 * std::sqrt(n(0x1p20)), 1.5 * n(0x1p14),
          cuts ? n(0x1p16) / 2 : 0};
}

/// What an oracle collects beside a sum: Σ|p| and Σp²; the mean of s², and of the squared sums of
/// even and of odd terms added, sampled after every kSumStep terms.
struct SumSizes {
  double size = 0, squares = 0, path = 0, lanes = 0;
};
inline constexpr int kSumStep = 16;

/// Several plain sums.
template <int kCount>
struct RowSums {
  double of[kCount] = {};
};

/// A sum of terms that are computed one after the other. Several walks may each take a part of a
/// long sum: begin(what precedes the part), then their parts are added.
class SumWalk {
 public:
  /// The additive state of a part.
  struct Parts {
    double even = 0, odd = 0, size = 0, squares = 0, path = 0, lanes = 0, steps = 0;
  };
  SumWalk() = default;
  explicit SumWalk(const Parts& all) : parts_(all) {}
  /// The sums of even and of odd terms before this part, which begins at a multiple of kSumStep.
  void begin(double even, double odd) { before_even_ = even, before_odd_ = odd; }
  void add(double term) {
    (count_ % 2 == 0 ? parts_.even : parts_.odd) += term;
    parts_.size += std::abs(term);
    parts_.squares += term * term;
    if (++count_ % kSumStep == 0) look();
  }
  double sum() const { return parts_.even + parts_.odd; }
  Parts parts() const {
    SumWalk last = *this;
    if (count_ % kSumStep != 0) last.look();
    return last.parts_;
  }
  SumSizes sizes() const {
    const Parts all = parts();
    const double steps = std::max(1.0, all.steps);
    return {all.size, all.squares, all.path / steps, all.lanes / steps};
  }

 private:
  void look() {
    const double even = before_even_ + parts_.even, odd = before_odd_ + parts_.odd;
    parts_.path += (even + odd) * (even + odd);
    parts_.lanes += even * even + odd * odd;
    ++parts_.steps;
  }
  Parts parts_;
  double before_even_ = 0, before_odd_ = 0;
  std::int64_t count_ = 0;
};

/// Upper bound of the sum's error, in roundings: times kRounding.
DLBLAS_ORACLE double sum_error(const SumModel& model, const SumSizes& sums) {
  const double path = std::sqrt(sums.path), sided = sums.size > 0 ? path / sums.size : 0;
  const double walk = model.walk * std::sqrt(sums.path + sums.squares + sums.lanes / 32);
  const double alike = model.alike * path * sided * sided;
  return std::min(walk + alike, model.worst * sums.size) + model.cut * path;
}

namespace kernels {

/// Upper bound of the error of an f32 sum of `width` terms of one sign, relative to the sum, in
/// roundings, for any of the row kernels; `total` and `squares` are Σp and Σp². As above, errors
/// walk along a chain except where terms are alike.
///   chains: on a CPU sixteen (4 lanes at the narrowest) over blocks of 4096 columns; on a GPU one
///   in each of 128 threads or more. A walk along n terms of one sign is 1.44·√n at six standard
///   deviations, and the errors of m chains are independent: √m less.
///   alike: n/4, weighted by q⁶, q = (Σp)² / (n·Σp²) being the share of alike terms (norm_ref.hpp
///   has measurements); a chain of more than 2^14 equal terms is rejected, as above.
///   trees: the additions of lanes, warps and blocks, one rounding per level, each half the next.
inline double sum_roundings(std::int64_t width, double total, double squares) {
  const auto n = static_cast<double>(width);
  const double cpu = std::min(n, 4096.0) / 16, gpu = n / 128;
  const double walk = 1.44 * std::sqrt(std::max(cpu / 16, gpu / 128));
  const double q = squares > 0 ? total / n * (total / squares) : 0, q3 = q * q * q;
  return 3.5 + walk + std::max(cpu, std::min(gpu, 0x1p14)) / 4 * q3 * q3;
}

/// A sum of terms of either sign, with what its kernels' error depends on, for kernels that add in
/// kChains chains of f32 over blocks of kBlock terms. An addition rounds by at most u·|s| and by
/// 0.42·u·|s| in the root mean square, s being its result, as above.
///   walk: six standard deviations, 2.5·√Σs². First those of the chains. Then the trees of lanes
///   and warps: a level's sums contribute Σp² where signs differ, and all levels 2·(Σp)², six times
///   the mean square of the partial sums, where they do not.
///   alike: differences from a mean share their last bits where elements are few-bit numbers (f16).
///   Then all partial sums round to one side, each by at most half a step: u·2^⌊log2 |s|⌋.
/// In any order, none of the n − 1 additions yields more than all terms of one sign.
template <int kChainsOf, int kBlockOf>
class ChainWalk {
 public:
  static constexpr int kChains = kChainsOf, kBlock = kBlockOf;
  /// What the chains contribute, to be added up.
  struct Parts {
    double squares = 0, alike = 0, above = 0, below = 0;
    /// count(): a term, by its sign. step(): the value of a chain after any but its first term.
    void count(double term) { (term < 0 ? below : above) += std::abs(term); }
    void step(double chain) {
      squares += chain * chain;
      alike += power_below(chain);
    }
  };
  ChainWalk() = default;
  ChainWalk(const SumWalk& walk, const Parts& parts, std::int64_t count)
      : walk_(walk), parts_(parts), count_(count) {}
  void add(double term) {
    walk_.add(term);
    parts_.count(term);
    const std::int64_t at = count_++ % kBlock;
    double& chain = chains_[at % kChains];
    chain = at < kChains ? term : chain + term;
    if (at >= kChains) parts_.step(chain);
  }
  double sum() const { return walk_.sum(); }
  /// Σ|p|.
  double size() const { return parts_.above + parts_.below; }
  /// For finite terms: f32 may not hold the sum.
  bool overflows() const { return std::isfinite(size()) && size() >= 0x1p126; }
  /// Upper bound of the error of a kernel's sum, in roundings: times kRounding.
  double roundings() const {
    if (count_ < 2) return 0;
    const auto n = static_cast<double>(count_);
    const SumSizes sizes = walk_.sizes();
    double trees = 6 * sizes.path + (1 + std::log2(n)) * sizes.squares, alike = parts_.alike;
    if (kChains == 1) {
      // A GPU combines at most 32 threads, of at least four terms each, one by one. Their chains have
      // other terms: in any order, Σs² is on average n/6·Σp² and a share of (Σp)². No mean was
      // subtracted: only equal terms round alike, weighted by q⁶ as in sum_roundings.
      trees = std::min(n / 4, 32 * std::ceil(n / (32 * kBlock))) * sizes.path;
      trees += std::min(n, static_cast<double>(kBlock)) / 6 * sizes.squares;
      const double q = sizes.squares > 0 ? sum() * sum() / (n * sizes.squares) : 0;
      alike *= q * q * q * q * q * q;
    }
    return std::min(2.5 * std::sqrt(parts_.squares + trees) + alike,
                    (n - 1) * std::max(parts_.above, parts_.below));
  }

 private:
  SumWalk walk_;
  Parts parts_;
  double chains_[kChains] = {};
  std::int64_t count_ = 0;
};
/// Over a row: the chains of the narrowest CPU. A GPU's chains are not longer up to 65536 columns.
using RowWalk = ChainWalk<16, 4096>;

}  // namespace kernels

}  // namespace dlblas
