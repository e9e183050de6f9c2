// The oracle of attention's gradient, in f64 and for any strides. For a query and a key that it
// sees, with s as in attention_oracle.cpp:
//   P = e^(s − lse), dP = dout·v, δ = dout·o − dlse, dS = P·(dP − δ)·slope of the cap
//   dq = scale·Σ dS·k, dk = scale·Σ dS·q, dv = Σ P·dout
// Error bounds, in units u = 2^-24. P, relative to it: the error of the logit, and 3 + |s − lse| +
// |lse| / 2 for the exponential and its argument. dP and δ: those of their sums. The slope: 40, and
// twice the error of the logit over the cap. Sums over pairs as in attention_oracle.cpp: six
// standard deviations of what differs, where equal P or dS have the same error; the effect of the
// rounded scale, an lse and a δ on all pairs at once; a sixteenth of the worst case; the walk of
// the sum, sums of each two terms that are alike, and P and dS in 16 bits. In f32, equal P or dS
// make terms round alike; groups differ, so what they share is a root of squares. Values that
// are not finite, or overflow f32 (f16: that type), are undefined. Read next: attention_host.hpp,
// attention_gradient_mma.cuh.
#include <cmath>
#include <limits>
#include <unordered_map>

#include "ops/attention/attention_host.hpp"

namespace dlblas::attention {
namespace {

struct Value {
  double value = 0, off = 0;
};
/// What a pair contributes to a sum.
struct Term : Value {
  double of_scale = 0, of_row = 0;  // errors that have the value's sign in all pairs
  std::size_t alike = 0;            // equal ones, of equal rows, are off by the same
};
/// A query and a key that it sees.
struct Pair {
  Term p, ds;
  std::int64_t other;  // offset of the other side's row: of k for dq, of q for dk
  std::int64_t dout;   // of the query's row
};

class Gradients {
 public:
  Gradients(const AttentionGradientOp& op, const Args& args)
      : op_(op),
        call_(args, op.of),
        dout_(call_.view(op.dout)),
        half_(size_of(call_.q.t.dtype) == 2),
        dot_model_(model_of(call_.d)),
        value_model_(model_of(call_.dv)) {}

  const AttentionCall& call() const { return call_; }

  /// Collects the pairs of a query with all keys that it sees.
  void of_query(std::int64_t b, std::int64_t head, std::int64_t row) {
    start();
    const Sequence s = call_.sequence(b);
    const Keys keys = call_.visible(s, row);
    for (std::int64_t key = keys.first; key < keys.end; ++key) meet(b, s, head, row, key, true);
  }
  /// Collects the pairs of a key with all queries that see it.
  void of_key(std::int64_t b, std::int64_t hkv, std::int64_t key) {
    start();
    const Sequence s = call_.sequence(b);
    const Keys rows = call_.seeing(s, key);
    for (std::int64_t g = 0; g < call_.group; ++g)
      for (std::int64_t row = rows.first; row < rows.end; ++row)
        meet(b, s, hkv * call_.group + g, row, key, false);
  }

  /// scale·Σ dS·other: other is q for a key, and k for a query.
  Value inner(const Heads& other, std::int64_t column) const {
    Value v = sum([](const Pair& p) -> const Term& { return p.ds; },
                  [&](const Pair& p) { return other.element(p.other, column); });
    v.value *= call_.scale;
    v.off = v.off < 0 ? v.off : v.off * std::abs(call_.scale) + 2 * std::abs(v.value);
    return v;
  }
  Value outer(std::int64_t column) const {
    return sum([](const Pair& p) -> const Term& { return p.p; },
               [&](const Pair& p) { return dout_.element(p.dout, column); });
  }

 private:
  void start() { pairs_.clear(), of_p_.clear(), of_ds_.clear(), lost_ = false; }
  using Different = std::unordered_map<double, std::size_t>;
  static Term term(const Value& v, Different& seen) {
    return {v, 0, 0, seen.try_emplace(v.value, seen.size()).first->second};
  }
  /// Kernels add in several chains: the bound is less than half of that of one chain.
  SumModel model_of(std::int64_t terms) const {
    SumModel model = sum_model(terms, half_);
    model.walk *= 0.45, model.alike *= 0.45;
    return model;
  }

  /// Error beyond the walk where signs alternate and the sums of each two terms are alike.
  double alike_twos(const SumSizes& sizes, double twos) const {
    const double path = std::sqrt(sizes.path), sided = twos > 0 ? path / twos : 0;
    const auto pairs = static_cast<std::int64_t>(pairs_.size());
    return sizes.size > 2 * twos ? sum_model(pairs, false).alike / 2 * path * sided * sided : 0;
  }

  Value dot(const Heads& a, std::int64_t a0, const Heads& b, std::int64_t b0, std::int64_t width,
            const SumModel& model) {
    SumWalk walk;
    for (std::int64_t c = 0; c < width; ++c) walk.add(a.element(a0, c) * b.element(b0, c));
    const SumSizes sizes = walk.sizes();
    lost_ |= !(sizes.size < 0x1p100);
    return {walk.sum(), sum_error(model, sizes)};
  }

  void meet(std::int64_t b, const Sequence& s, std::int64_t head, std::int64_t row,
            std::int64_t key, bool of_query) {
    const std::int64_t hkv = head / call_.group, at = s.q_from + row;
    const std::int64_t q0 = call_.q.offset(b, at, head), dout0 = dout_.offset(b, at, head);
    const std::int64_t k0 = call_.k.offset(b, s.k_from + key, hkv);
    const std::int64_t v0 = call_.v.offset(b, s.k_from + key, hkv);
    Value logit = dot(call_.q, q0, call_.k, k0, call_.d, dot_model_);
    logit.value *= call_.scale;
    logit.off = logit.off * std::abs(call_.scale) + std::abs(logit.value);
    Value slope{1, 0};
    if (call_.cap != 0) {
      const double t = std::tanh(logit.value / call_.cap);
      slope = {1 - t * t, 40 + 2 * logit.off / call_.cap};
      logit = {call_.cap * t, logit.off * slope.value + 16 * call_.cap};
    }
    if (call_.has_bias()) {
      const double bias =
          load_element(call_.bias(), call_.bias_row(b, head, row) + key * call_.bias_at(3));
      logit.value += bias;
      logit.off += 2 * (std::abs(logit.value) + std::abs(bias));
    }
    const double lse = call_.row_value(op_.of.lse, b, head, at);
    const Value dp = dot(dout_, dout0, call_.v, v0, call_.dv, value_model_);
    Value delta = dot(dout_, dout0, call_.o, call_.o.offset(b, at, head), call_.dv, value_model_);
    if (op_.dlse >= 0 && call_.args.has(op_.dlse)) {
      delta.value -= call_.row_value(op_.dlse, b, head, at);
      delta.off += std::abs(delta.value);
    }
    Pair pair;
    pair.other = of_query ? k0 : q0;
    pair.dout = dout0;
    if (lse != -std::numeric_limits<double>::infinity() &&
        logit.value != -std::numeric_limits<double>::infinity()) {
      const double p = std::exp(logit.value - lse);
      const double relative = logit.off + 3 + std::abs(logit.value - lse) + 0.5 * std::abs(lse);
      lost_ |= !(relative * kRounding < 0.05);
      pair.p = term({p, 1.03 * p * relative}, of_p_);
      const double inner = dp.value - delta.value;
      pair.ds = term({p * inner * slope.value,
                      pair.p.off * std::abs(inner) * slope.value +
                          p * slope.value * (dp.off + delta.off + 2 * std::abs(inner)) +
                          p * std::abs(inner) * slope.off},
                     of_ds_);
      const double of_row = 0.5 + 0.5 * std::abs(lse);
      pair.p.of_scale = p * logit.value, pair.p.of_row = p * of_row;
      pair.ds.of_scale = pair.ds.value * logit.value;
      pair.ds.of_row = pair.ds.value * of_row + (of_query ? p * slope.value * delta.off : 0);
      const double most = call_.q.t.dtype == DType::kF16 ? 6e4 : 0x1p100;
      lost_ |= !(p < most) || !(std::abs(pair.ds.value) < most) || !std::isfinite(pair.ds.off);
    }
    pairs_.push_back(pair);
  }

  template <typename Of, typename With>
  Value sum(const Of& of, const With& with) const {
    SumWalk walk;
    double worst = 0, squares = 0, tiny = 0, of_scale = 0, of_row = 0, two = 0, twos = 0;
    std::vector<double> alike(std::max(of_p_.size(), of_ds_.size()) + 1);
    std::vector<double> alike_sizes(alike.size());
    for (const Pair& pair : pairs_) {
      const Term& v = of(pair);
      const double x = with(pair), off = v.off * std::abs(x);
      walk.add(v.value * x);
      two += v.value * x;
      if ((&pair - pairs_.data()) % 2 == 1 || &pair == &pairs_.back())
        twos += std::abs(two), two = 0;
      worst += off, tiny += std::abs(x);
      alike[v.alike] += v.off * x, alike_sizes[v.alike] += std::abs(v.value * x);
      of_scale += v.of_scale * x, of_row += v.of_row * x;
    }
    for (const double same : alike) squares += same * same;
    const SumSizes sizes = walk.sizes();
    SumModel model = sum_model(static_cast<std::int64_t>(pairs_.size()), half_);
    if (!half_ && sizes.size > 0) {
      double together = 0;
      for (const double same : alike_sizes) together += same * same;
      model.alike *= std::sqrt(together) / sizes.size;
    }
    if (lost_ || !(sizes.size < 0x1p100)) return {walk.sum(), -1};
    const double shared = std::abs(of_scale) + std::abs(of_row);
    double off = std::min(worst, std::sqrt(squares) + worst / 16 + shared) +
                 2 * std::abs(walk.sum()) + sum_error(model, sizes);
    off += alike_twos(sizes, twos);
    if (half_) {
      const bool f16 = call_.q.t.dtype == DType::kF16;
      const double rounding = (f16 ? 0x1p-11 : 0x1p-8) / kRounding;
      off += rounding *
             std::min(sizes.size, 2.5 * std::sqrt(sizes.squares) + 2 * std::sqrt(sizes.path));
      off += f16 ? 0.5 * tiny : 0x1p-100 * tiny;  // 2^-25, of numbers below the type's least
    }
    return {walk.sum(), off};
  }

  const AttentionGradientOp& op_;
  AttentionCall call_;
  Heads dout_;
  bool half_;
  SumModel dot_model_, value_model_;
  std::vector<Pair> pairs_;
  Different of_p_, of_ds_;
  bool lost_ = false;
};

void put(const OracleOut& out, std::int64_t at, DType type, const Value& made) {
  const double stored = round_to(type, made.value);
  out.value[at] = std::isinf(stored) ? stored : made.value;
  out.magnitude[at] = made.off;
}

/// The sequence that row `row` of q, or of k, belongs to.
std::int64_t sequence_of(const AttentionCall& call, std::int64_t row, bool keys) {
  for (std::int64_t b = call.sequences() - 1; b > 0; --b) {
    const Sequence s = call.sequence(b);
    const std::int64_t from = keys ? s.k_from : s.q_from, count = keys ? s.k_rows : s.q_rows;
    if (row >= from && row < from + count) return b;
  }
  return 0;
}

}  // namespace

void attention_gradient_reference(const AttentionGradientOp& op, const Args& args,
                                  const std::int64_t* rows, std::int64_t num_rows, OracleOut* out) {
  Gradients made(op, args);
  const AttentionCall& call = made.call();
  const std::int64_t batches = op.of.packed() ? 1 : call.batches;
  const std::int64_t positions = args.letters[op.of.q_rows], keys = args.letters[op.of.k_rows];
  const DType type = args.tensors[op.dq].dtype;
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const std::int64_t r = rows[i];
    if (r < batches * positions * call.all_heads()) {
      const std::int64_t head = r % call.all_heads(), at = r / call.all_heads();
      const std::int64_t b = op.of.packed() ? sequence_of(call, at, false) : at / positions;
      made.of_query(b, head, op.of.packed() ? at - call.sequence(b).q_from : at % positions);
      for (std::int64_t c = 0; c < call.d; ++c)
        put(out[0], i * call.d + c, type, made.inner(call.k, c));
    }
    if (r < batches * keys * call.heads) {
      const std::int64_t head = r % call.heads, at = r / call.heads;
      const std::int64_t b = op.of.packed() ? sequence_of(call, at, true) : at / keys;
      made.of_key(b, head, op.of.packed() ? at - call.sequence(b).k_from : at % keys);
      for (std::int64_t c = 0; c < call.d; ++c)
        put(out[1], i * call.d + c, type, made.inner(call.q, c));
      for (std::int64_t c = 0; c < call.dv; ++c) put(out[2], i * call.dv + c, type, made.outer(c));
    }
  }
}

Bound attention_gradient_bound(const Problem& problem, const AttentionGradientOp& op) {
  const FloatTraits out = float_traits(problem.tensors[op.dq].dtype);
  return {.magnitude = 1.001 * kRounding, .value = out.eps / 2, .absolute = out.tiny + 0x1p-120};
}

}  // namespace dlblas::attention
