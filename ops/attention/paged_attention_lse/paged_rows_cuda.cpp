// paged_attention_lse on NVIDIA GPUs, any case. In: Problem, Config; Args. Out: Kernel and its
// source; launches. Flow: call > validate > [select] > [compile] > [launch].  Read next:
// paged_rows.cuh.
#include "ops/attention/paged_attention_lse/paged_cuda.hpp"

namespace dlblas::attention::paged {
namespace {

struct Form : kernels::CudaForm<PagedTraits, PagedRowsConfig>, PagedRows {
  static const TraitsTable<Traits>& traits_table() { return paged::traits_table(); }
  static Support supports(const Query& q) { return supports_sizes(q); }

  static Traits traits(const Query& q, const Config&) { return rows_traits(q.problem); }
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
    return launch_rows(args, s.traits, s.config, *kernel.entries[0], context);
  }
};

}  // namespace

Implementation cuda_rows() {
  return kernels::make_cuda<Form>(
      "cuda_rows", source_hash<"ops/attention/paged_attention_lse/paged_rows_cuda.cpp">());
}

}  // namespace dlblas::attention::paged
