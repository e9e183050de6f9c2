// gated_delta_rule_packed, linear attention with a state that decays (Qwen3-Next): schema, and the
// CPU form, which has one task per head of a sequence and keeps the state in f32 until the sequence
// ends. Letters H and R: heads of q and k, and heads of v per head of q. In: Problem; Args. Out:
// Kernel; o and the state. Flow: call > validate > [select] > compile > [launch].  Read next:
// gated_delta_rule_packed_ref.cpp (how exactly), gated_delta_rule_packed.cuh.
#include "ops/ssm/gated_delta_rule_packed/gated_delta_rule_packed.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/element.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"

namespace dlblas::ssm {
namespace delta {
namespace {

float element(const TensorView& t, std::int64_t at) {
  return static_cast<float>(load_element(t, at));
}

class Head {
 public:
  explicit Head(const Args& args)
      : args_(args),
        p_(params_of(args)),
        state_(static_cast<std::size_t>(p_.rows * p_.columns)),
        k_(static_cast<std::size_t>(p_.rows)),
        q_(k_.size()),
        sums_(static_cast<std::size_t>(p_.columns)) {}

  void run(std::int64_t s, std::int64_t head) {
    const TensorView &state = args_.tensors[kState], &offsets = args_.tensors[kOffsets];
    const auto offset = [&](std::int64_t i) {
      const auto at = static_cast<std::int64_t>(load_element(offsets, i * p_.offsets_at));
      return std::clamp<std::int64_t>(at, 0, args_.letters[kT]);
    };
    const std::int64_t begin = offset(s), end = offset(s + 1);
    if (end <= begin) return;
    const std::int64_t first = s * p_.state_at[0] + head * p_.state_at[1];
    const auto place = [&](std::int64_t i, std::int64_t j) {
      return first + i * p_.state_at[2] + j * p_.state_at[3];
    };
    for (std::int64_t i = 0; i < p_.rows; ++i)
      for (std::int64_t j = 0; j < p_.columns; ++j) row(i)[j] = element(state, place(i, j));
    for (std::int64_t t = begin; t < end; ++t) step(t, head);
    for (std::int64_t i = 0; i < p_.rows; ++i)
      for (std::int64_t j = 0; j < p_.columns; ++j)
        store_element(state, place(i, j), static_cast<double>(row(i)[j]));
  }

 private:
  float* row(std::int64_t i) { return state_.data() + i * p_.columns; }
  void read(int tensor, const std::int64_t (&at)[3], std::int64_t t, std::int64_t head,
            std::vector<float>& to) const {
    float squares = 0;
    std::int64_t from = t * at[0] + head / p_.repeats * at[1];
    for (float& v : to) {
      v = element(args_.tensors[tensor], from), from += at[2];
      squares += v * v;
    }
    if (args_.scalars[kL2Norm].i == 0) return;
    const float factor = 1 / std::sqrt(squares + kDeltaEps);
    for (float& v : to) v *= factor;
  }
  void step(std::int64_t t, std::int64_t head) {
    read(kKey, p_.k_at, t, head, k_);
    read(kQ, p_.q_at, t, head, q_);
    const float decay = std::exp(element(args_.tensors[kG], t * p_.g_at[0] + head * p_.g_at[1]));
    const float beta = element(args_.tensors[kBeta], t * p_.beta_at[0] + head * p_.beta_at[1]);
    float* sums = sums_.data();
    std::fill(sums_.begin(), sums_.end(), 0.0f);
    for (std::int64_t i = 0; i < p_.rows; ++i) {
      float* s = row(i);
      const float k = k_[static_cast<std::size_t>(i)];
      for (std::int64_t j = 0; j < p_.columns; ++j) s[j] *= decay, sums[j] += k * s[j];
    }
    const std::int64_t v_at = t * p_.v_at[0] + head * p_.v_at[1];
    for (std::int64_t j = 0; j < p_.columns; ++j)
      sums[j] = beta * (element(args_.tensors[kValue], v_at + j * p_.v_at[2]) - sums[j]);
    std::vector<float> out(sums_.size(), 0.0f);
    for (std::int64_t i = 0; i < p_.rows; ++i) {
      float* s = row(i);
      const float k = k_[static_cast<std::size_t>(i)], q = q_[static_cast<std::size_t>(i)];
      for (std::int64_t j = 0; j < p_.columns; ++j)
        s[j] += k * sums[j], out[static_cast<std::size_t>(j)] += q * s[j];
    }
    const std::int64_t o_at = t * p_.o_at[0] + head * p_.o_at[1];
    for (std::int64_t j = 0; j < p_.columns; ++j)
      store_element(args_.tensors[kO], o_at + j * p_.o_at[2],
                    static_cast<double>(out[static_cast<std::size_t>(j)] * p_.scale));
  }

  const Args& args_;
  const DeltaParams p_;
  std::vector<float> state_, k_, q_, sums_;
};

int run(const Args& args, const Context& context, const Kernel&, void*) {
  const std::int64_t heads = args.letters[kH] * args.letters[kR];
  context.run(0, args.letters[kS] * heads, 1, [&](std::int64_t begin, std::int64_t end) {
    Head head(args);
    for (std::int64_t i = begin; i < end; ++i) head.run(i / heads, i % heads);
  });
  return 0;
}

}  // namespace

DeltaParams params_of(const Args& args) {
  DeltaParams p{};
  const auto point = [&](int tensor, auto& data, std::int64_t* strides, int rank) {
    data = args.tensors[tensor].data;
    std::copy_n(args.tensors[tensor].strides, rank, strides);
  };
  point(kQ, p.q, p.q_at, 3), point(kKey, p.k, p.k_at, 3), point(kValue, p.v, p.v_at, 3);
  point(kG, p.g, p.g_at, 2), point(kBeta, p.beta, p.beta_at, 2);
  point(kState, p.state, p.state_at, 4), point(kO, p.o, p.o_at, 3);
  point(kOffsets, p.offsets, &p.offsets_at, 1);
  p.heads = args.letters[kH] * args.letters[kR];
  p.repeats = std::max<std::int64_t>(1, args.letters[kR]);
  p.rows = args.letters[kK], p.columns = args.letters[kV];
  p.scale = static_cast<float>(args.scalars[kScale].f);
  return p;
}

Implementation cpu() {
  Implementation impl;
  impl.name = "cpu_heads";
  impl.source_hash = source_hash<"ops/ssm/gated_delta_rule_packed/gated_delta_rule_packed.cpp">();
  impl.flags = {.deterministic = true};
  impl.supports = [](const Query&) { return Support::yes(); };
  impl.estimate = [](const Query& q, const Config&) {
    double elements = 1;
    for (const Letter letter : {kT, kH, kR, kK, kV})
      elements *= static_cast<double>(q.problem.dims[letter]);
    return 1e3 * launch_s(q.device) +
           unit_rates(q.device, Isa::kBaseline)
               .roofline_ms(std::max<double>(1, q.problem.threads), 0, 8 * elements, DType::kF32);
  };
  impl.prepare = [](const Query&, const Config&) { return make_kernel({run}, 0); };
  return impl;
}

}  // namespace delta

OperatorDef gated_delta_rule_packed();
OperatorDef gated_delta_rule_packed() {
  using namespace delta;
  OperatorDef def;
  def.family = "ssm";
  def.schema =
      "gated_delta_rule_packed(q: f[T, H, K], k: like(q)[T, H, K], v: like(q)[T, H*R, V], "
      "g: like(q)|f32[T, H*R] ~ negative, beta: like(q)|f32[T, H*R] ~ positive, "
      "state: like(q)|f32[S, H*R, K, V]!, cu_seqlens: index[S+1] ~ offsets<=T, "
      "scale: float = 1, qk_l2norm: bool = false) -> o: like(q)[T, H*R, V] "
      "where T: bucket(tokens)";
  def.formula = "S = e^g·S; S = S + k·(beta·(v − Sᵀ·k))ᵀ; o = scale·Sᵀ·q, of each token in turn";
  def.letters = {"T", "H", "K", "R", "V", "S"};
  def.reference = delta::reference;
  def.reference_is_whole = true;
  def.bound = [](const Problem& problem, int judged) {
    const FloatTraits out = float_traits(problem.tensors[judged == 0 ? kO : kState].dtype);
    return Bound{
        .magnitude = kRounding * (1 + out.eps), .value = out.eps / 2, .absolute = out.tiny};
  };
  def.work_per_row = [](const Problem& problem) {
    return 8.0 * static_cast<double>(problem.dims[kK]) * static_cast<double>(problem.dims[kV]);
  };
  def.implementations = {delta::cpu(), delta::cuda()};
  return def;
}

}  // namespace dlblas::ssm
