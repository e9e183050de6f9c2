// Causal convolutions of channels on NVIDIA GPUs: one launch, or two where several blocks share a
// channel's tokens and there is a state. In: Problem; Args. Out: Kernel and its sources; launches.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: conv.cuh.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cuda_form.hpp"
#include "ops/ssm/conv.hpp"

namespace dlblas::ssm {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

struct NoKnobs {};

struct ConvForm : kernels::CudaForm<ConvTraits, NoKnobs> {
  static constexpr bool kSearched = false;

  static const TraitsTable<Traits>& traits_table() {
    static const auto* members = new TraitsTable<Traits>{
        "dlblas::ssm::ConvTraits",
        {member<&Traits::x>("x"), member<&Traits::weight>("weight"), member<&Traits::bias>("bias"),
         member<&Traits::state>("state"), member<&Traits::offsets>("offsets"),
         member<&Traits::silu>("silu"), member<&Traits::channels_inner>("channels_inner"),
         member<&Traits::aligned>("aligned")}};
    return *members;
  }

  static std::int64_t blocks(const Query& q, bool inner) {
    const auto& op = q.user<ConvOp>();
    const auto& d = q.problem.dims;
    return (op.offsets < 0 ? d[op.batch] : 1) * ceil_div(d[op.channels], conv_channels(inner)) *
           ceil_div(d[op.tokens], conv_tokens(inner));
  }
  static Support supports(const Query& q) {
    constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1;
    if (blocks(q, true) > kMax || blocks(q, false) > kMax)
      return Support::no("{} blocks", blocks(q, true));
    return Support::yes();
  }
  static Traits traits(const Query& q, const Config&) {
    const auto& op = q.user<ConvOp>();
    const auto& tensors = q.problem.tensors;
    Traits s{};
    s.x = tensors[conv::kX].dtype, s.weight = tensors[conv::kWeight].dtype;
    s.bias = tensors[conv::kBias].dtype, s.state = tensors[conv::kState].dtype;
    s.offsets = op.offsets < 0 ? DType::kAbsent : tensors[op.offsets].dtype;
    s.silu = q.problem.scalars[0] != 0;
    // Few tokens, as in an update, or tokens that are not contiguous: threads run across channels.
    const Layout layout = tensors[conv::kX].layout;
    const bool side_by_side = layout == Layout::kContiguous || layout == Layout::kRowStrided ||
                              layout == Layout::kRowsOuter;
    s.channels_inner = !side_by_side || q.problem.dims[op.tokens] <= 64;
    s.aligned = true;
    for (const int i :
         {int{conv::kX}, int{conv::kWeight}, int{conv::kBias}, int{conv::kState}, op.y})
      if (tensors[i].dtype != DType::kAbsent)
        s.aligned &= (1 << tensors[i].align_log2) >= size_of(tensors[i].dtype);
    return s;
  }
  static double milliseconds(const Query& q, const Config& config) {
    const Traits s = traits(q, config);
    const double bytes =
        2.0 * kConvItems * static_cast<double>(blocks(q, s.channels_inner)) * size_of(s.x);
    constexpr double kShare = 0.5;  // of memory's rate; not measured yet
    return 1e3 * (launch_s(q.device) + bytes / (kShare * memory_bytes_per_s(q.device)));
  }

  static std::vector<KernelSource> sources(const Query&, const State& s) {
    const std::string traits = "<" + traits_table().literal(s.traits) + ">";
    std::vector<KernelSource> all = {{"ops/ssm/conv.cuh", "dlblas::ssm::causal_conv1d" + traits}};
    if (s.traits.state != DType::kAbsent)
      all.push_back({"ops/ssm/conv.cuh", "dlblas::ssm::causal_conv1d_state" + traits});
    return all;
  }
  static ConvParams params(const State& s, const Args& args) {
    ConvParams p = conv_params(*static_cast<const ConvOp*>(s.user), args);
    p.token_blocks = ceil_div(p.tokens, conv_tokens(s.traits.channels_inner));
    p.channel_blocks = ceil_div(p.channels, conv_channels(s.traits.channels_inner));
    return p;
  }
  static int convolve(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const ConvParams p = params(kernel.load<State>(), args);
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(p.batch * p.token_blocks * p.channel_blocks);
    how.block.x = kConvThreads;
    return how.grid.x == 0 ? 0 : cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
  static int keep(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const ConvParams p = params(kernel.load<State>(), args);
    if (p.token_blocks <= 1 || p.sequences * p.channels == 0) return 0;
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(ceil_div(p.sequences * p.channels, kConvThreads));
    how.block.x = kConvThreads;
    return cuda::launch(*kernel.entries[1], how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State& s) {
    if (s.traits.state == DType::kAbsent) return {convolve};
    return {convolve, keep};
  }
};

}  // namespace

Implementation conv_cuda(const ConvOp& op) {
  return kernels::make_cuda<ConvForm>("cuda_tiles", source_hash<"ops/ssm/conv_cuda.cpp">(), &op);
}

}  // namespace dlblas::ssm
