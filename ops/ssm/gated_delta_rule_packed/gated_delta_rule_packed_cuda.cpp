// gated_delta_rule_packed on NVIDIA GPUs: one launch. In: Problem; Args. Out: Kernel and its
// source; the launch. Flow: call > validate > [select] > [compile] > [launch].  Read next:
// gated_delta_rule_packed.cuh.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cuda_form.hpp"
#include "ops/ssm/gated_delta_rule_packed/gated_delta_rule_packed.hpp"

namespace dlblas::ssm::delta {
namespace {

struct NoKnobs {};

struct DeltaForm : kernels::CudaForm<DeltaTraits, NoKnobs> {
  static constexpr bool kSearched = false;

  static const TraitsTable<Traits>& traits_table() {
    static const auto* members = new TraitsTable<Traits>{
        "dlblas::ssm::DeltaTraits",
        {member<&Traits::q>("q"), member<&Traits::v>("v"), member<&Traits::g>("g"),
         member<&Traits::beta>("beta"), member<&Traits::state>("state"),
         member<&Traits::offsets>("offsets"), member<&Traits::l2norm>("l2norm"),
         member<&Traits::aligned>("aligned")}};
    return *members;
  }

  static std::int64_t column_blocks(std::int64_t columns) {
    return (columns + kDeltaColumns - 1) / kDeltaColumns;
  }
  static std::int32_t bytes_of(std::int64_t rows) {
    return static_cast<std::int32_t>(rows * (kDeltaColumns + 2) * 4);
  }
  static Support supports(const Query& q) {
    const auto& d = q.problem.dims;
    constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1, kMaxRows = 320;
    if (d[kK] > kMaxRows) return Support::no("K is {}; at most {}", d[kK], kMaxRows);
    if (d[kS] * d[kH] * d[kR] * column_blocks(d[kV]) > kMax)
      return Support::no("{} sequences", d[kS]);
    return Support::yes();
  }
  static Traits traits(const Query& q, const Config&) {
    const auto& tensors = q.problem.tensors;
    Traits s{tensors[kQ].dtype,         tensors[kValue].dtype,
             tensors[kG].dtype,         tensors[kBeta].dtype,
             tensors[kState].dtype,     tensors[kOffsets].dtype,
             q.problem.scalars[0] != 0, true};
    for (const int i : {kQ, kKey, kValue, kG, kBeta, kState, kO})
      s.aligned &= (1 << tensors[i].align_log2) >= size_of(tensors[i].dtype);
    return s;
  }
  static std::int32_t shared_bytes(const Query& q, const State&) {
    return bytes_of(q.problem.dims[kK]);
  }
  static double milliseconds(const Query& q, const Config&) {
    const auto& d = q.problem.dims;
    const double tokens =
        static_cast<double>(d[kT]) / static_cast<double>(std::max<std::int64_t>(1, d[kS]));
    constexpr double kToken = 1.5e-6;  // of a block; not measured yet
    return 1e3 * (launch_s(q.device) + tokens * kToken);
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{"ops/ssm/gated_delta_rule_packed/gated_delta_rule_packed.cuh",
             "dlblas::ssm::gated_delta_rule<" + traits_table().literal(s.traits) + ">",
             s.shared_bytes}};
  }
  static int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
    DeltaParams p = params_of(args);
    p.column_blocks = column_blocks(p.columns);
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(args.letters[kS] * p.heads * p.column_blocks);
    how.block.x = kDeltaThreads;
    how.shared_bytes = static_cast<unsigned>(bytes_of(p.rows));
    return how.grid.x == 0 ? 0 : cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State&) { return {run}; }
};

}  // namespace

Implementation cuda() {
  return kernels::make_cuda<DeltaForm>(
      "cuda_columns",
      source_hash<"ops/ssm/gated_delta_rule_packed/gated_delta_rule_packed_cuda.cpp">());
}

}  // namespace dlblas::ssm::delta
