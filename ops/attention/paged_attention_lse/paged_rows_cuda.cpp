// paged_attention_lse on NVIDIA GPUs, any case. In: Problem, Config; Args. Out: Kernel and its
// source; launches. Flow: call > validate > [select] > [compile] > [launch].  Read next:
// paged_rows.cuh.
#include "ops/attention/paged_attention_lse/paged_cuda.hpp"

namespace dlblas::attention::paged {
namespace {

struct Form : kernels::CudaForm<PagedTraits, PagedRowsConfig> {
  static constexpr const char* kInclude = "ops/attention/paged_attention_lse/paged_rows.cuh";
  static constexpr const char* kEntry = "dlblas::attention::paged_rows";
  static constexpr const char* kConfigName = "dlblas::attention::PagedRowsConfig";

  static const ConfigTable<Config>& table() {
    static const auto* knobs =
        new ConfigTable<Config>{field<&Config::threads>("threads", {64, 128, 256})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() { return paged::traits_table(); }
  static Support supports(const Query& q) { return supports_sizes(q); }

  static Traits traits(const Query& q, const Config&) {
    const Problem& p = q.problem;
    Traits s = traits_of(p);
    // As many columns as all of them have at a time; one where some do not lie side by side.
    s.access = 8;
    const auto takes = [&](int tensor) {
      return reads_wide(p.tensors[tensor], s.access * size_of(p.tensors[tensor].dtype));
    };
    while (s.access > 1 && (s.depth % s.access != 0 || s.width % s.access != 0 || !takes(kQ) ||
                            !takes(kKCache) || !takes(kVCache)))
      s.access /= 2;
    return s;
  }
  static Config preset(const Query&) { return {}; }
  static double milliseconds(const Query& q, const Config&) {
    // Each head of a query reads its keys, mostly from L2.
    const auto& d = q.problem.dims;
    const double again =
        static_cast<double>(d[kT] * d[kG]) / static_cast<double>(std::max<std::int64_t>(1, d[kB]));
    constexpr double kPart = 0.2;
    return 1e3 * (launch_s(q.device) +
                  bytes_of(q.problem) * again / (kPart * cache_bytes_per_s(q.device)));
  }
  static std::vector<StepFn> steps(const State&) { return {run}; }
  static int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const State& s = kernel.load<State>();
    const std::int64_t rows = args.letters[kT] * args.letters[kHkv] * s.traits.group;
    if (rows == 0) return 0;
    const PagedParams p = params_of(args, s.traits);
    const cuda::Launch how = chunks_launch(rows, s.traits.width, s.traits.access, s.config.threads);
    return cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
};

}  // namespace

Implementation cuda_rows() {
  return kernels::make_cuda<Form>(
      "cuda_rows", source_hash<"ops/attention/paged_attention_lse/paged_rows_cuda.cpp">());
}

}  // namespace dlblas::attention::paged
