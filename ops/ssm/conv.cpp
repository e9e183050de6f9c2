// Causal convolutions of channels: the definitions' common part, and the CPU form. It works on f32:
// either the tokens of one channel, contiguous after its state, or, where tokens are few or not
// contiguous, a block of channels, with one row of channels per token. In: Problem; Args. Out:
// Kernel; y and the state.
// Flow: call > validate > [select] > compile > [launch].  Read next: conv_ref.hpp, steps_simd.hpp,
// conv_cuda.cpp.
#include "ops/ssm/conv.hpp"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "core/element.hpp"
#include "core/rates.hpp"
#include "ops/ssm/steps_cpu.hpp"

namespace dlblas::ssm {
namespace {

using conv::kBias;
using conv::kState;
using conv::kWeight;
using conv::kX;

struct State {
  SsmPasses passes;
  const ConvOp* op;
};

constexpr std::int64_t kChannels = 64;  // of a block
/// Tokens converted to f32 at a time, for a block and for one channel.
constexpr std::int64_t kBlockTokens = 32, kLineTokens = 4096;

std::int64_t offset_of(const ConvOp& op, const Args& args, std::int64_t s) {
  const TensorView& t = args.tensors[op.offsets];
  return static_cast<std::int64_t>(load_element(t, s * t.strides[0]));
}

/// Elements of some channels, `count` of each, from element `first` of a tensor on.
struct Piece {
  const TensorView& tensor;
  std::int64_t first, channel_step, step, channels, count;
  Line line(std::int64_t i) const { return {tensor, first + i * step, channel_step, channels}; }
  Line of_channel(std::int64_t c) const { return {tensor, first + c * channel_step, step, count}; }
  /// Whether all elements are contiguous, channel after channel.
  bool one_run() const { return step == 1 && channel_step == count && count > 1; }
};

/// Convolves some channels of sequences.
class Channels {
 public:
  Channels(const State& state, const Args& args)
      : passes_(state.passes),
        op_(*state.op),
        args_(args),
        p_(conv_params(op_, args)),
        past_(std::max<std::int64_t>(0, p_.taps - 1)),
        across_(p_.x_at[2] != 1 || p_.y_at[2] != 1 || average_tokens() <= kBlockTokens),
        pitch_(across_ ? kChannels : 1),
        chunk_(across_ ? kBlockTokens : kLineTokens),
        in_(sized((past_ + chunk_) * pitch_)),
        y_(sized(chunk_ * pitch_)),
        run_(sized(std::max(p_.taps, across_ ? chunk_ : 0) * kChannels)),
        weight_(sized(p_.taps * kChannels)),
        bias_(sized(kChannels)) {}

  static std::int64_t blocks(const Args& args, const ConvOp& op) {
    return (args.letters[op.channels] + kChannels - 1) / kChannels;
  }
  /// Convolves a block of channels of sequence s.
  void run(std::int64_t block, std::int64_t s) {
    const std::int64_t first = block * kChannels, end = std::min(p_.channels, first + kChannels);
    if (block != block_) load_weights(first, end - first);
    block_ = block;
    if (across_) return convolve(s, first, first, end - first);
    for (std::int64_t c = first; c < end; ++c) convolve(s, c, first, 1);
  }

 private:
  static std::vector<float> sized(std::int64_t n) {
    return std::vector<float>(static_cast<std::size_t>(n));
  }
  std::int64_t average_tokens() const {
    return op_.offsets < 0 ? p_.tokens : p_.tokens / std::max<std::int64_t>(1, p_.sequences);
  }
  void load_weights(std::int64_t first, std::int64_t count) {
    load({args_.tensors[kWeight], first * p_.weight_at[0], p_.weight_at[0], p_.weight_at[1], count,
          p_.taps},
         weight_.data(), kChannels);
    if (args_.has(kBias))
      read(passes_, {args_.tensors[kBias], first * p_.bias_at, p_.bias_at, count}, bias_.data());
  }

  /// Convolves channels [c, c + channels) of sequence s; their weights begin with channel `first`.
  void convolve(std::int64_t s, std::int64_t c, std::int64_t first, std::int64_t channels) {
    const bool packed = op_.offsets >= 0, has_state = args_.has(kState);
    const std::int64_t row = packed ? 0 : s, begin = packed ? offset_of(op_, args_, s) : 0;
    const std::int64_t end = packed ? offset_of(op_, args_, s + 1) : p_.tokens;
    if (end <= begin) return;
    const Piece state = {args_.tensors[kState],
                         s * p_.state_at[0] + c * p_.state_at[1],
                         p_.state_at[1],
                         p_.state_at[2],
                         channels,
                         past_};
    if (has_state)
      load(state, in_.data(), pitch_);
    else
      std::fill_n(in_.begin(), past_ * pitch_, 0.0f);
    ConvLine line{};
    line.weight = weight_.data() + (c - first);
    line.bias = args_.has(kBias) ? bias_.data() + (c - first) : nullptr;
    line.in_step = pitch_, line.weight_step = kChannels, line.taps = p_.taps;
    line.across = across_, line.silu = args_.scalars[0].i != 0;
    for (std::int64_t t = begin; t < end; t += chunk_) {
      const std::int64_t tokens = std::min(chunk_, end - t);
      load({args_.tensors[kX], row * p_.x_at[0] + c * p_.x_at[1] + t * p_.x_at[2], p_.x_at[1],
            p_.x_at[2], channels, tokens},
           in_.data() + past_ * pitch_, pitch_);
      line.count = across_ ? channels : tokens;
      for (std::int64_t i = 0; i < (across_ ? tokens : 1); ++i) {
        line.in = in_.data() + i * pitch_, line.y = y_.data() + i * pitch_;
        passes_.convolve(line);
      }
      store({args_.tensors[op_.y], row * p_.y_at[0] + c * p_.y_at[1] + t * p_.y_at[2], p_.y_at[1],
             p_.y_at[2], channels, tokens},
            y_.data());
      std::copy_n(in_.begin() + tokens * pitch_, past_ * pitch_, in_.begin());
    }
    if (has_state) store(state, in_.data());
  }

  void load(const Piece& piece, float* to, std::int64_t pitch) {
    if (piece.channels == 1 && pitch == 1) return read(passes_, piece.of_channel(0), to);
    if (!piece.one_run()) {
      for (std::int64_t i = 0; i < piece.count; ++i) read(passes_, piece.line(i), to + i * pitch);
      return;
    }
    read(passes_, {piece.tensor, piece.first, 1, piece.channels * piece.count}, run_.data());
    turned(piece, [&, run = run_.data()](std::int64_t in_run, std::int64_t i, std::int64_t c) {
      to[i * pitch + c] = run[in_run];
    });
  }
  void store(const Piece& piece, const float* from) {
    if (pitch_ == 1) return write(passes_, from, piece.of_channel(0));
    if (!piece.one_run()) {
      for (std::int64_t i = 0; i < piece.count; ++i)
        write(passes_, from + i * pitch_, piece.line(i));
      return;
    }
    turned(piece, [&, run = run_.data(), pitch = pitch_](std::int64_t in_run, std::int64_t i,
                                                         std::int64_t c) {
      run[in_run] = from[i * pitch + c];
    });
    write(passes_, run_.data(), {piece.tensor, piece.first, 1, piece.channels * piece.count});
  }

  /// Calls body(place in the run, i, channel). With four taps, the state's three are a constant, so
  /// that the compiler transposes in registers.
  template <typename Body>
  static void turned(const Piece& piece, const Body& body) {
    const auto all = [&](auto count) {
      for (std::int64_t c = 0; c < piece.channels; ++c)
        for (std::int64_t i = 0; i < count; ++i) body(c * count + i, i, c);
    };
    if (piece.count == 3) return all(std::integral_constant<std::int64_t, 3>{});
    all(piece.count);
  }

  const SsmPasses& passes_;
  const ConvOp& op_;
  const Args& args_;
  const ConvParams p_;
  const std::int64_t past_;  // tokens
  const bool across_;
  const std::int64_t pitch_, chunk_;  // of in_ and y_: floats between tokens; tokens
  std::int64_t block_ = -1;           // whose weights are there
  std::vector<float> in_, y_, run_, weight_, bias_;
};

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const auto& state = kernel.load<State>();
  const std::int64_t sequences = args.letters[state.op->sequences];
  context.run(0, Channels::blocks(args, *state.op) * sequences, 1,
              [&](std::int64_t begin, std::int64_t end) {
                Channels channels(state, args);
                for (std::int64_t i = begin; i < end; ++i)
                  channels.run(i / sequences, i % sequences);
              });
  return 0;
}

double estimate(const Query& q, const Config&) {
  const auto& op = kernels::op_of<ConvOp>(q);
  const auto& d = q.problem.dims;
  const double elements = static_cast<double>(op.offsets < 0 ? d[op.batch] : 1) *
                          static_cast<double>(d[op.channels]) * static_cast<double>(d[op.tokens]);
  const double units = std::max<double>(1, q.problem.threads);
  return 1e3 * launch_s(q.device) +
         kernels::rates_of(q).roofline_ms(units, 8 * elements,
                                          elements * (40 + 2 * static_cast<double>(d[op.taps])),
                                          DType::kF32);
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
  cpu.flags = {.deterministic = true};
  cpu.supports = [](const Query&) { return Support::yes(); };
  cpu.estimate = estimate;
  cpu.prepare = [](const Query& q, const Config&) {
    return make_kernel({run},
                       State{kernels::code_of<StepLevel>(q).passes(), &kernels::op_of<ConvOp>(q)});
  };
  def.implementations = step_levels(cpu, &op);
  def.implementations.push_back(conv_cuda(op));
}

}  // namespace dlblas::ssm
