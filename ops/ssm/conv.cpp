// Causal convolutions of channels: the definitions' common part, and the CPU form: a channel of a
// sequence as f32 side by side, behind its state. In: Problem; Args. Out: Kernel; y and the state.
// Flow: call > validate > [select] > compile > [launch].  Read next: conv_ref.hpp, conv_cuda.cpp.
#include "ops/ssm/conv.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/element.hpp"
#include "core/rates.hpp"
#include "generated/source_hashes.hpp"

namespace dlblas::ssm {
namespace {

using conv::kBias;
using conv::kState;
using conv::kWeight;
using conv::kX;

struct State {
  const ConvOp* op;
};

std::int64_t offset_of(const ConvOp& op, const Args& args, std::int64_t s) {
  const TensorView& t = args.tensors[op.offsets];
  return static_cast<std::int64_t>(load_element(t, s * t.strides[0]));
}

class Channel {
 public:
  Channel(const ConvOp& op, const Args& args) : args_(args), p_(conv_params(op, args)), op_(op) {}

  /// Channel c of sequence s.
  void run(std::int64_t s, std::int64_t c) {
    const bool packed = op_.offsets >= 0;
    const std::int64_t row = packed ? 0 : s, begin = packed ? offset_of(op_, args_, s) : 0;
    const std::int64_t end = packed ? offset_of(op_, args_, s + 1) : p_.tokens;
    const std::int64_t length = end - begin, past = p_.taps - 1;
    if (length <= 0) return;
    in_.assign(static_cast<std::size_t>(past + length), 0);
    sum_.assign(static_cast<std::size_t>(length), 0);
    const TensorView &x = args_.tensors[kX], &state = args_.tensors[kState],
                     &weight = args_.tensors[kWeight], &y = args_.tensors[op_.y];
    const std::int64_t state_at = s * p_.state_at[0] + c * p_.state_at[1];
    for (std::int64_t j = 0; args_.has(kState) && j < past; ++j)
      in_[static_cast<std::size_t>(j)] =
          static_cast<float>(load_element(state, state_at + j * p_.state_at[2]));
    const std::int64_t x_at = row * p_.x_at[0] + c * p_.x_at[1] + begin * p_.x_at[2];
    for (std::int64_t t = 0; t < length; ++t)
      in_[static_cast<std::size_t>(past + t)] =
          static_cast<float>(load_element(x, x_at + t * p_.x_at[2]));
    if (args_.has(kBias))
      std::fill(sum_.begin(), sum_.end(),
                static_cast<float>(load_element(args_.tensors[kBias], c * p_.bias_at)));
    for (std::int64_t k = 0; k < p_.taps; ++k) {
      const auto w =
          static_cast<float>(load_element(weight, c * p_.weight_at[0] + k * p_.weight_at[1]));
      const float* from = in_.data() + k;
      for (std::int64_t t = 0; t < length; ++t) sum_[static_cast<std::size_t>(t)] += w * from[t];
    }
    const std::int64_t y_at = row * p_.y_at[0] + c * p_.y_at[1] + begin * p_.y_at[2];
    const bool silu = args_.scalars[0].i != 0;
    for (std::int64_t t = 0; t < length; ++t) {
      const float v = sum_[static_cast<std::size_t>(t)];
      store_element(y, y_at + t * p_.y_at[2],
                    static_cast<double>(silu ? v / (1 + std::exp(-v)) : v));
    }
    for (std::int64_t j = 0; args_.has(kState) && j < past; ++j)
      store_element(state, state_at + j * p_.state_at[2],
                    static_cast<double>(in_[static_cast<std::size_t>(length + j)]));
  }

 private:
  const Args& args_;
  const ConvParams p_;
  const ConvOp& op_;
  std::vector<float> in_, sum_;
};

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const ConvOp& op = *kernel.load<State>().op;
  const std::int64_t channels = args.letters[op.channels];
  context.run(0, args.letters[op.sequences] * channels, 4,
              [&](std::int64_t begin, std::int64_t end) {
                Channel channel(op, args);
                for (std::int64_t i = begin; i < end; ++i) channel.run(i / channels, i % channels);
              });
  return 0;
}

double estimate(const Query& q, const Config&) {
  const auto& op = q.user<ConvOp>();
  const auto& d = q.problem.dims;
  const double elements = static_cast<double>(op.offsets < 0 ? d[op.batch] : 1) *
                          static_cast<double>(d[op.channels]) * static_cast<double>(d[op.tokens]);
  const double units = std::max<double>(1, q.problem.threads);
  return 1e3 * launch_s(q.device) +
         unit_rates(q.device, Isa::kBaseline)
             .roofline_ms(units, 8 * elements,
                          elements * (40 + 2 * static_cast<double>(d[op.taps])), DType::kF32);
}

}  // namespace

ConvParams conv_params(const ConvOp& op, const Args& args) {
  ConvParams p{};
  const auto point = [&](int tensor, auto& data, std::int64_t* strides, int rank) {
    if (tensor < 0 || !args.has(tensor)) return;
    const TensorView& t = args.tensors[tensor];
    data = t.data;
    for (int i = 0; i < rank; ++i) strides[rank - 1 - i] = t.strides[t.rank - 1 - i];
  };
  const bool packed = op.offsets >= 0;
  point(kX, p.x, packed ? p.x_at + 1 : p.x_at, packed ? 2 : 3);
  point(op.y, p.y, packed ? p.y_at + 1 : p.y_at, packed ? 2 : 3);
  point(kWeight, p.weight, p.weight_at, 2);
  point(kBias, p.bias, &p.bias_at, 1);
  point(kState, p.state, p.state_at, 3);
  point(op.offsets, p.offsets, &p.offsets_at, 1);
  p.batch = packed ? 1 : args.letters[op.batch];
  p.channels = args.letters[op.channels], p.tokens = args.letters[op.tokens];
  p.sequences = args.letters[op.sequences], p.taps = args.letters[op.taps];
  return p;
}

void add_conv(OperatorDef& def, const ConvOp& op) {
  def.family = "ssm";
  def.bound = [](const Problem& problem, int judged) {
    if (judged == 1) {
      const FloatTraits out = float_traits(problem.tensors[kState].dtype);
      return Bound{.value = out.eps / 2, .absolute = out.tiny};
    }
    const FloatTraits out = float_traits(problem.tensors[kX].dtype);
    return Bound{.magnitude = kRounding * (1 + out.eps),
                 .value = out.eps / 2,
                 .absolute = out.tiny + 0x1p-126};
  };
  Implementation cpu;
  cpu.name = "cpu_channels";
  cpu.source_hash = source_hash("ops/ssm/conv.cpp");
  cpu.flags = {.deterministic = true};
  cpu.user = &op;
  cpu.supports = [](const Query&) { return Support::yes(); };
  cpu.estimate = estimate;
  cpu.prepare = [](const Query& q, const Config&) {
    return make_kernel({run}, State{&q.user<ConvOp>()});
  };
  def.implementations = {cpu, conv_cuda(op)};
}

}  // namespace dlblas::ssm
