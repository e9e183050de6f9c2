// mla_decode_lse on NVIDIA GPUs, any case. In: Problem, Config; Args. Out: Kernel and its source;
// launches. Flow: call > validate > [select] > [compile] > [launch].  Read next: mla_rows.cuh.
#include "ops/attention/mla_decode_lse/mla_cuda.hpp"

namespace dlblas::attention::mla {
namespace {

struct Form : kernels::CudaForm<MlaTraits, MlaRowsConfig> {
  static constexpr const char* kInclude = "ops/attention/mla_decode_lse/mla_rows.cuh";
  static constexpr const char* kEntry = "dlblas::attention::mla_rows";
  static constexpr const char* kConfigName = "dlblas::attention::MlaRowsConfig";

  static const ConfigTable<Config>& table() {
    static const auto* knobs =
        new ConfigTable<Config>{field<&Config::threads>("threads", {64, 128, 256})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() { return mla::traits_table(); }
  static Support supports(const Query& q) { return supports_sizes(q); }

  static Traits traits(const Query& q, const Config&) {
    const Problem& p = q.problem;
    Traits s = traits_of(p);
    // As many columns per access as all tensors allow; one if the columns of some are not
    // contiguous.
    const auto takes = [&](int tensor) {
      return reads_wide(p.tensors[tensor], s.access * size_of(p.tensors[tensor].dtype));
    };
    while (s.access > 1 && (s.latent % s.access != 0 || s.rotary % s.access != 0 ||
                            !takes(kQNope) || !takes(kQPe) || !takes(kCkv) || !takes(kKpe)))
      s.access /= 2;
    return s;
  }
  static Config preset(const Query&) { return {}; }
  static double milliseconds(const Query& q, const Config&) {
    constexpr double kPart = 0.2;  // each head reads all keys, from L2
    return 1e3 *
           (launch_s(q.device) + bytes_of(q.problem) * static_cast<double>(q.problem.dims[kH]) /
                                     (kPart * cache_bytes_per_s(q.device)));
  }
  static std::vector<StepFn> steps(const State&) { return {run}; }
  static int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const State& s = kernel.load<State>();
    const std::int64_t rows = args.letters[kT] * args.letters[kH];
    if (rows == 0) return 0;
    const MlaParams p = params_of(args);
    const cuda::Launch how =
        chunks_launch(rows, s.traits.latent, s.traits.access, s.config.threads);
    return cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
};

}  // namespace

Implementation cuda_rows() {
  return kernels::make_cuda<Form>("cuda_rows",
                                  source_hash<"ops/attention/mla_decode_lse/mla_rows_cuda.cpp">());
}

}  // namespace dlblas::attention::mla
