// Sampling and filtering of rows on NVIDIA GPUs: one launch, one block per row, any strides. In:
// Problem, Config; Args. Out: Kernel and its source; the launch. Flow: call > validate > [select] >
// [compile] > [launch].  Read next: sampling.cuh.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cuda_form.hpp"
#include "ops/sampling/sampling.hpp"

namespace dlblas::sampling {
namespace {

struct CudaRows : kernels::CudaForm<SamplingTraits, SamplingConfig> {
  static constexpr const char* kInclude = "ops/sampling/sampling.cuh";
  static constexpr const char* kEntry = "dlblas::sampling::sampling";
  static constexpr const char* kConfigName = "dlblas::sampling::SamplingConfig";

  static const ConfigTable<Config>& table() {
    static const auto* knobs =
        new ConfigTable<Config>{field<&Config::threads>("threads", {128, 256, 512, 1024})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() {
    static const auto* members =
        new TraitsTable<Traits>{"dlblas::sampling::SamplingTraits",
                                {member<&Traits::type>("type"), member<&Traits::count>("count"),
                                 member<&Traits::form>("form"), member<&Traits::probs>("probs"),
                                 member<&Traits::access>("access")}};
    return *members;
  }

  static Support supports(const Query& q) {
    constexpr std::int64_t kMaxRows = (std::int64_t{1} << 31) - 1, kWidest = 1 << 23;
    if (q.problem.dims[kT] > kMaxRows) return Support::no("{} rows", q.problem.dims[kT]);
    if (q.problem.dims[kV] > kWidest)
      return Support::no("rows of {} elements: their mass leaves 64 bits", q.problem.dims[kV]);
    return Support::yes();
  }
  static Traits traits(const Query& q, const Config&) {
    const Problem& p = q.problem;
    const auto& op = q.user<SamplingOp>();
    const TensorTraits& x = p.tensors[kX];
    Traits s{};
    s.type = x.dtype;
    s.count = p.tensors[op.top_k].dtype;
    s.form = op.form(op.key_renorm >= 0 && p.scalars[op.key_renorm] != 0);
    s.probs = p.scalars[op.key_probs] != 0;
    s.access = 16 / size_of(s.type);
    const auto wide = [&](const TensorTraits& t) {
      const bool neighbours = t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided ||
                              t.layout == Layout::kRowsOuter || t.layout == Layout::kRowsBroadcast;
      return neighbours && t.align_log2 >= 4;
    };
    if (!wide(x) || (!op.samples && !wide(p.tensors[op.y])) || p.dims[kV] % s.access != 0)
      s.access = 1;
    return s;
  }
  static Config preset(const Query& q) {
    const std::int64_t accesses = q.problem.dims[kV] / traits(q, {}).access;
    Config c{512};
    while (c.threads > 128 && c.threads > accesses) c.threads /= 2;
    return c;
  }
  static double milliseconds(const Query& q, const Config&) {
    const double elements =
        static_cast<double>(q.problem.dims[kT]) * static_cast<double>(q.problem.dims[kV]);
    constexpr double kPasses = 8, kOperations = 100;
    return 1e3 * launch_s(q.device) +
           std::max(1e3 * kPasses * elements * size_of(q.problem.tensors[kX].dtype) /
                        cache_bytes_per_s(q.device),
                    roofline_ms(q.device, 0, kOperations * elements, DType::kF32));
  }

  static SamplingParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    const auto& op = *static_cast<const SamplingOp*>(s.user);
    const TensorView &x = args.tensors[kX], &y = args.tensors[op.y];
    SamplingParams p{};
    p.x_col = x.strides[x.rank - 1], p.y_col = y.strides[y.rank - 1];
    const int tensors[kViews] = {kX,       op.y,     op.temperature, op.top_k,
                                 op.top_p, op.min_p, op.seeds,       op.offsets};
    for (int i = 0; i < kViews; ++i)
      if (tensors[i] >= 0 && args.has(tensors[i])) p.views[i] = merged(args.tensors[tensors[i]]);
    p.rows = args.letters[kT], p.width = args.letters[kV];
    if (op.seed >= 0) {
      p.seed = static_cast<std::uint64_t>(args.scalars[op.seed].i);
      p.offset = static_cast<std::uint64_t>(args.scalars[op.offset].i);
    }
    how.grid.x = static_cast<unsigned>(p.rows);
    how.block.x = static_cast<unsigned>(s.config.threads);
    return p;
  }
};

}  // namespace

Implementation sampling_cuda(const SamplingOp& op) {
  return kernels::make_cuda<CudaRows>("cuda_rows", source_hash<"ops/sampling/sampling_cuda.cpp">(),
                                      &op);
}

}  // namespace dlblas::sampling
