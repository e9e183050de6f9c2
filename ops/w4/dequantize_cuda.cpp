// The dequantisers of 4-bit weights on NVIDIA GPUs: one launch, any strides. In: Problem; Args.
// Out: a kernel's source; launches. Flow: call > validate > [select] > [compile] > [launch].
// Read next: dequantize.cuh.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cuda_form.hpp"
#include "ops/w4/dequantize.hpp"

namespace dlblas::w4 {
namespace {

struct NoKnobs {};

struct Form : kernels::CudaForm<W4Traits, NoKnobs> {
  static constexpr bool kSearched = false;

  static const TraitsTable<Traits>& traits_table() {
    static const auto* members =
        new TraitsTable<Traits>{"dlblas::w4::W4Traits",
                                {member<&Traits::type>("type"), member<&Traits::along_k>("along_k"),
                                 member<&Traits::zeros>("zeros"), member<&Traits::plain>("plain")}};
    return *members;
  }

  /// The letters are R, G, P or Q, N, group.
  static std::int64_t depth_of(const Query& q) {
    const auto& d = q.problem.dims;
    return q.user<W4Op>().along_k ? 8 * d[0] : d[0] * d[1];
  }
  static std::int64_t columns_of(const Query& q) {
    const auto& d = q.problem.dims;
    return q.user<W4Op>().along_k ? d[1] : 8 * d[2];
  }

  static Traits traits(const Query& q, const Config&) {
    const Problem& p = q.problem;
    const bool along_k = q.user<W4Op>().along_k;
    Traits s{p.tensors[kY].dtype, along_k, p.tensors[kZeros].dtype != DType::kAbsent,
             columns_of(q) % 8 == 0};
    const auto lies = [&](int tensor, int align_log2) {
      const TensorTraits& t = p.tensors[tensor];
      return (t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided) &&
             t.align_log2 >= align_log2;
    };
    s.plain = s.plain && lies(kQ, along_k ? 4 : 2) && lies(kScales, 4) && lies(kY, 4) &&
              (!s.zeros || lies(kZeros, 2));
    return s;
  }

  static std::int64_t blocks(std::int64_t depth, std::int64_t columns) {
    return ((depth + 7) / 8 * ((columns + 7) / 8) + kW4Threads - 1) / kW4Threads;
  }
  static Support supports(const Query& q) {
    constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1;
    if (blocks(depth_of(q), columns_of(q)) > kMax)
      return Support::no("{} rows of {} columns", depth_of(q), columns_of(q));
    return Support::yes();
  }

  static double milliseconds(const Query& q, const Config& config) {
    const Traits s = traits(q, config);
    const double elements = static_cast<double>(depth_of(q)) * static_cast<double>(columns_of(q));
    const double share = s.plain ? 1.1 : 10;  // of a copy; not measured yet
    return 1e3 * (launch_s(q.device) +
                  share * elements * (0.5 + size_of(s.type)) / memory_bytes_per_s(q.device));
  }

  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{"ops/w4/dequantize.cuh",
             "dlblas::w4::dequantize<" + traits_table().literal(s.traits) + ">"}};
  }
  static int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const W4Params p = w4_params(*static_cast<const W4Op*>(kernel.load<State>().user), args);
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(blocks(p.depth, p.columns));
    how.block.x = kW4Threads;
    return how.grid.x == 0 ? 0 : cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State&) { return {run}; }
};

}  // namespace

Implementation w4_dequantize_cuda(const W4Op& op) {
  return kernels::make_cuda<Form>("cuda_values", source_hash<"ops/w4/dequantize_cuda.cpp">(), &op);
}

}  // namespace dlblas::w4
