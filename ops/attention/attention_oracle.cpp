// The oracle of attention over unpaged keys, in f64 and for any strides.
//   s = scale·q·k, cap·tanh(s / cap), + bias; w = e^(s − max); o = Σ w·v / Σ w; lse = max + log Σ w
// Error bounds, in units u = 2^-24:
//   A logit: the sum over D (device/oracle/sum_error.hpp; kernels use at least two chains), the
//   product with scale (f8: 2 more, for both descales), the cap (tanh is accurate to 8 u, absolute)
//   and the bias: 2 of each result. For f8 also what Hopper's tensor core truncates (CutWalk
//   below).
//   A weight: the error of its logit, and 5 + 1.5·(max − s) for the exponential and its argument;
//   the error of the largest logit cancels. Where that is not small, the weight is at most
//   e^(s − max + off); where this exceeds 1/e, the row is undefined: two keys may change places.
//   o: Σ w·|v − o|·off, and the sum over keys. Errors of keys are independent unless keys are
//   alike: six standard deviations and a sixteenth of the worst case.
//   lse: the same weighted mean of the logits' errors, all of their one-sided truncation, and the
//   roundings of the largest logit and of lse itself.
//   P in 16 bits, for tensor cores: each weight is rounded to q's type (f8: to f16); these errors
//   walk along Σ w·v. An f16 weight below 2^-14 loses up to 2^-25.
// q and k that are rotated first: attention_rotary_oracle.hpp. The error of a few of their
// roundings counts as six standard deviations where keys add up, and as its worst case for one key
// and for all keys together.
// Read next: attention_host.hpp, attention_mma.cuh.
#include <cmath>
#include <functional>
#include <limits>

#include "core/error.hpp"
#include "ops/attention/rotary/attention_rotary_oracle.hpp"
#include "ops/attention/scores.hpp"

namespace dlblas::attention {

double Heads::element(std::int64_t offset, std::int64_t column) const {
  return load_element(t, offset + column * at[3]);
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// 0 · infinity is NaN: below this, a kernel's weight may be 0.
constexpr double kSurely = 0x1p-20;
/// In units of u: f8 factors may be denormal when they are multiplied.
constexpr double kDenormal = 0x1p-124 / kRounding;

struct Logit {
  double value, off;     // off in units of u
  double one_sided = 0;  // a part of it, of one sign for all keys
  double more = 0;       // of off what no single logit is off by: six deviations of few roundings
};

/// Error bound of a sum of f8 products in Hopper's tensor core: it aligns 32 products and the
/// previous sum to the largest, and truncates what is more than 13 bits below. This bound assumes
/// 12 bits, since the hardware is undocumented. A term that is a multiple of the unit loses
/// nothing. Any other term loses half a unit on average, always towards zero, which accumulates
/// where products have one sign; the deviation from that mean is 0.29 units rms and walks randomly:
/// 2·√n is more than six standard deviations.
class CutWalk {
 public:
  void add(double product) {
    terms_[count_++] = product;
    if (count_ == kTogether) end();
  }
  void end() {
    double most = std::abs(sum_), all = sum_;
    for (int i = 0; i < count_; ++i) most = std::max(most, std::abs(terms_[i])), all += terms_[i];
    const double unit = most > 0 && std::isfinite(most) ? std::ldexp(1, std::ilogb(most) - 12) : 1;
    const auto cut = [&](double term) {
      if (term / unit == std::trunc(term / unit)) return;
      one_sided_ += std::copysign(unit / 2, term), squares_ += 4 * unit * unit;
    };
    cut(sum_);
    for (int i = 0; i < count_; ++i) cut(terms_[i]);
    sum_ = all, count_ = 0;
  }
  /// The mean loss, and how far the loss may be from it.
  double one_sided() const { return std::abs(one_sided_); }
  double walked() const { return std::sqrt(squares_ + one_sided_ * one_sided_); }

 private:
  static constexpr int kTogether = 32;
  double terms_[kTogether] = {};
  double sum_ = 0, one_sided_ = 0, squares_ = 0;
  int count_ = 0;
};

class Oracle {
 public:
  explicit Oracle(const AttentionCall& call)
      : call_(call),
        half_(size_of(call.q.t.dtype) <= 2),
        dot_model_(sum_model(call.d, half_)),
        q_(static_cast<std::size_t>(call.d)),
        rotation_(call) {}

  /// Computes the logits of the keys that a row sees, their maximum, and the sum of weights.
  void see(std::int64_t b, std::int64_t head, std::int64_t row) {
    const Sequence s = call_.sequence(b);
    keys_ = call_.visible(s, row);
    const auto count = static_cast<std::size_t>(keys_.end - keys_.first);
    logits_.resize(count), weights_.resize(count), errors_.resize(count);
    at_most_.resize(count);
    const std::int64_t q0 = call_.q.offset(b, s.q_from + row, head), hkv = head / call_.group;
    for (std::int64_t c = 0; c < call_.d; ++c)
      q_[static_cast<std::size_t>(c)] = call_.q.element(q0, c);
    if (call_.op.rotates()) {
      TurnedRows turned = rotation_.turn(call_.q, b, head, row, row + 1);
      q_ = std::move(turned.value), q_off_ = std::move(turned.off);
      keys_turned_ = &rotation_.keys(b, hkv);
    }
    scale_ = call_.scale_of(b, head), value_scale_ = call_.value_scale(b, head);
    most_ = -kInfinity, lost_ = undefined_ = false;
    double most_off = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t key = keys_.first + static_cast<std::int64_t>(i);
      logits_[i] = logit(call_.k.offset(b, s.k_from + key, hkv), key);
      if (call_.has_bias()) {
        const double bias =
            load_element(call_.bias(), call_.bias_row(b, head, row) + key * call_.bias_at(3));
        logits_[i].value += bias;
        logits_[i].off += 2 * (std::abs(logits_[i].value) + std::abs(bias));
      }
      if (logits_[i].value > most_ || std::isnan(logits_[i].value))
        most_ = logits_[i].value, most_off = logits_[i].off - logits_[i].more;
      if (std::isnan(most_)) break;
    }
    values_from_ = [=, this](std::int64_t i) {
      return call_.v.offset(b, s.k_from + keys_.first + i, hkv);
    };
    weigh(most_off);
  }

  /// Element `column` of o: its value and error bound.
  Logit output(std::int64_t column) const {
    const std::size_t count = logits_.size();
    if (undefined_) return {0, -1};
    if (sum_ == 0 && !std::isnan(most_)) return {0, 0};
    if (std::isnan(sum_)) return {sum_, 0};
    SumWalk walk;
    bool lost = lost_;
    for (std::size_t i = 0; i < count; ++i) {
      const double v = value(i, column);
      lost |= !std::isfinite(v) && weights_[i] < kSurely;
      walk.add(weights_[i] / sum_ * v);
    }
    const double o = walk.sum();
    if (lost) return {o * value_scale_, -1};
    if (!std::isfinite(o)) return {o * value_scale_, 0};
    double worst = 0, all = 0, squares = 0, tiny = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double v = value(i, column), apart = std::abs(v - o) / sum_, off = errors_[i] * apart;
      worst += at_most_[i] * apart, all += off, squares += off * off;
      tiny += std::abs(v);
    }
    const SumSizes sizes = walk.sizes();
    double off =
        std::min(worst, std::sqrt(squares) + all / 16) + 2.5 * std::abs(o) +
        (half_ ? 1 : 0.6) * sum_error(sum_model(static_cast<std::int64_t>(count), half_), sizes);
    if (half_) {
      const bool f16 = call_.q.t.dtype != DType::kBF16;  // what f8 becomes
      const double rounding = (f16 ? 0x1p-11 : 0x1p-8) / kRounding;
      off += rounding *
             std::min(sizes.size, 2.5 * std::sqrt(sizes.squares) + 2 * std::sqrt(sizes.path));
      if (f16) off += 0.5 * tiny / sum_;  // 2^-25
    }
    const double scaled_o = o * value_scale_;
    if (std::abs(scaled_o) >= 0x1p126 ||
        std::abs(walk.sizes().size) * std::abs(value_scale_) >= 0x1p126)
      return {scaled_o, -1};
    return {scaled_o, off * std::abs(value_scale_) + (scaled() ? 1.5 * std::abs(scaled_o) : 0)};
  }
  Logit lse() const {
    if (undefined_) return {0, -1};
    if (std::isnan(sum_)) return {sum_, 0};
    if (sum_ == 0) return {-kInfinity, 0};
    const double value = most_ + std::log(sum_);
    if (lost_) return {value, -1};
    double worst = 0, all = 0, squares = 0, one_sided = 0;
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      if (weights_[i] == 0) continue;
      const Logit& own = logits_[i];
      const double share = weights_[i] / sum_;
      const double off = share * (own.off + 2.5 * (most_ - own.value) + 2);
      worst += off - share * own.more, all += off;
      squares += off * off, one_sided += share * own.one_sided;
    }
    return {value, std::min(worst, std::sqrt(squares) + all / 16 + one_sided) + std::abs(most_) +
                       1.5 * std::abs(value) + 5};
  }

 private:
  double value(std::size_t i, std::int64_t column) const {
    return call_.v.element(values_from_(static_cast<std::int64_t>(i)), column);
  }
  bool scaled() const { return is_f8(call_.q.t.dtype); }
  Logit logit(std::int64_t k0, std::int64_t key) {
    SumWalk walk;
    CutWalk cut;
    const double* const turned =
        call_.op.rotates() ? keys_turned_->value.data() + key * call_.d : nullptr;
    for (std::int64_t c = 0; c < call_.d; ++c) {
      const double product =
          q_[static_cast<std::size_t>(c)] * (turned ? turned[c] : call_.k.element(k0, c));
      walk.add(product);
      if (scaled()) cut.add(product);
    }
    cut.end();
    const SumSizes sizes = walk.sizes();
    Logit made{walk.sum(), 0};
    lost_ |= std::isfinite(sizes.size) &&
             (sizes.size >= 0x1p126 || sizes.size * std::abs(scale_) >= 0x1p126);
    if (std::isfinite(sizes.size))
      made.off = std::abs(scale_) * (0.5 * sum_error(dot_model_, sizes) +
                                     (cut.one_sided() + cut.walked()) / kRounding) +
                 0x1p-124;
    if (turned) {
      const TurnedOff off = turned_off(call_.q.t.dtype, q_.data(), q_off_.data(), turned,
                                       keys_turned_->off.data() + key * call_.d, call_.d);
      undefined_ |= std::isinf(off.all);
      made.off += std::abs(scale_) * off.all / kRounding;
      made.more = std::abs(scale_) * std::max(0.0, off.all - off.worst) / kRounding;
      made.one_sided += std::abs(scale_) * off.of_q / kRounding;
    }
    if (std::isfinite(sizes.size)) made.one_sided += std::abs(scale_) * cut.one_sided() / kRounding;
    made.value *= scale_;
    made.off += (scaled() ? 3 : 1) * std::abs(made.value);
    if (scaled()) made.off += kDenormal * (sizes.size + 1);
    if (call_.cap != 0) {
      const double t = std::tanh(made.value / call_.cap);
      made.value = call_.cap * t;
      made.off = std::isfinite(made.off) ? made.off * (1 - t * t) + 16 * call_.cap : 16 * call_.cap;
      made.one_sided *= 1 - t * t, made.more *= 1 - t * t;
    }
    return made;
  }

  void weigh(double most_off) {
    sum_ = 0;
    if (std::isnan(most_) || most_ == kInfinity) {
      sum_ = most_ = std::nan("");
      return;
    }
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      const double s = logits_[i].value;
      weights_[i] = s == -kInfinity ? 0 : std::exp(s - most_);
      sum_ += weights_[i];
      errors_[i] = at_most_[i] = 0;
      if (s == -kInfinity) continue;
      const double more = logits_[i].more, off = logits_[i].off - more + 5 + 1.5 * (most_ - s);
      const double part = (off + most_off) * kRounding;
      if (part < 0.05) {
        at_most_[i] = 1.03 * weights_[i] * off;
      } else if (part < 1 && (scaled() || call_.op.rotates())) {
        at_most_[i] = weights_[i] * std::expm1(part) / kRounding;
      } else if (s != most_) {  // the largest is 1 by itself
        lost_ |= s - most_ + part > -1;
        at_most_[i] = std::exp(std::min(0.0, s - most_ + part)) / kRounding;
      }
      errors_[i] = at_most_[i] + 1.03 * weights_[i] * more;
    }
  }

  const AttentionCall& call_;
  bool half_;
  SumModel dot_model_;
  std::vector<double> q_, q_off_, weights_, errors_, at_most_;
  RotationOracle rotation_;
  const TurnedRows* keys_turned_ = nullptr;
  std::vector<Logit> logits_;
  Keys keys_{};
  std::function<std::int64_t(std::int64_t)> values_from_;
  double most_ = 0, sum_ = 0, scale_ = 1, value_scale_ = 1;
  bool lost_ = false;
  bool undefined_ = false;  // by what is rotated
};

void put(const OracleOut& out, std::int64_t at, DType type, const Logit& made) {
  const double stored = round_to(type, made.value);
  out.value[at] = std::isinf(stored) ? stored : made.value;
  out.magnitude[at] = made.off;
}

/// The sequence that a packed row belongs to, or −1.
std::int64_t sequence_of(const AttentionCall& call, std::int64_t row) {
  for (std::int64_t b = 0; b < call.sequences(); ++b) {
    const Sequence s = call.sequence(b);
    if (row >= s.q_from && row < s.q_from + s.q_rows) return b;
  }
  return -1;
}

}  // namespace

void attention_reference(const AttentionOp& op, const Args& args, const std::int64_t* rows,
                         std::int64_t num_rows, OracleOut* out) {
  const AttentionCall call(args, op);
  Oracle oracle(call);
  const std::int64_t all = call.all_heads(), positions = args.letters[op.q_rows];
  const std::int64_t batches = op.packed() ? 1 : call.batches;
  const std::int64_t all_positions = std::max<std::int64_t>(1, positions);
  const auto see = [&](std::int64_t b, std::int64_t row, std::int64_t head) {
    const std::int64_t which = op.packed() ? sequence_of(call, row) : b;
    if (which < 0) return false;
    oracle.see(which, head, op.packed() ? row - call.sequence(which).q_from : row);
    return true;
  };
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const std::int64_t r = rows[i];
    if (r >= batches * positions * all) continue;
    const bool there = see(r / all / all_positions, r / all % all_positions, r % all);
    for (std::int64_t c = 0; c < call.dv; ++c)
      put(out[0], i * call.dv + c, args.tensors[op.o].dtype,
          there ? oracle.output(c) : Logit{0, -1});
    const std::int64_t head = r / all_positions;  // an element of lse is a row: of B, heads, S
    put(out[1], i, DType::kF32,
        see(head / all, r % all_positions, head % all) ? oracle.lse() : Logit{0, -1});
  }
}

Bound attention_bound(const Problem& problem, const AttentionOp& op, int result) {
  const FloatTraits out = float_traits(problem.tensors[result == 0 ? op.o : op.lse].dtype);
  return {.magnitude = 1.001 * kRounding, .value = out.eps / 2, .absolute = out.tiny + 0x1p-125};
}

void check_attention(const char* name, const Args& args) {
  const double cap = args.scalars[kSoftcap].f;
  check_scale(name, args.scalars[kScale].f);
  if (!(cap == 0 || (cap >= 1e-3 && cap <= 1e6)))
    refuse_scalar(name, "softcap", "0, or 1e-3 … 1e6", cap);
  check_window(name, args.scalars[kWindow].i);
}

}  // namespace dlblas::attention
