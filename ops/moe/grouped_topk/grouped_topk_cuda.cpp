// grouped_topk on NVIDIA GPUs: one launch, a warp a row, any strides. In: Problem, Config; Args.
// Out: Kernel and its source; the launch. Flow: call > validate > [select] > [compile] > [launch].
// Read next: ops/moe/grouped_topk/grouped_topk.cuh.
#include <algorithm>

#include "core/rates.hpp"
#include "generated/source_hashes.hpp"
#include "kernels/cuda_form.hpp"
#include "ops/moe/grouped_topk/grouped_topk.hpp"

namespace dlblas::moe::grouped {
namespace {

/// Scalars of the key: num_groups, topk_groups, renormalize, scoring.
constexpr int kKeyGroups = 0, kKeyScoring = 3;

struct Form : kernels::CudaForm<GroupedTopkTraits, GroupedTopkConfig> {
  static constexpr const char* kInclude = "ops/moe/grouped_topk/grouped_topk.cuh";
  static constexpr const char* kEntry = "dlblas::moe::grouped_topk";
  static constexpr const char* kConfigName = "dlblas::moe::GroupedTopkConfig";

  static const ConfigTable<Config>& table() {
    static const auto* knobs =
        new ConfigTable<Config>{field<&Config::warps>("warps", {1, 2, 4, 8})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() {
    static const auto* members = new TraitsTable<Traits>{
        "dlblas::moe::GroupedTopkTraits",
        {member<&Traits::type>("type"), member<&Traits::bias_type>("bias_type"),
         member<&Traits::bias>("bias"), member<&Traits::softmax>("softmax"),
         member<&Traits::aligned>("aligned")}};
    return *members;
  }

  static Traits traits(const Query& q, const Config&) {
    const auto& tensors = q.problem.tensors;
    Traits s{};
    s.type = tensors[kLogits].dtype;
    s.bias = tensors[kBias].dtype != DType::kAbsent;
    s.bias_type = s.bias ? tensors[kBias].dtype : s.type;
    s.softmax = q.problem.scalars[kKeyScoring] == kSoftmax;
    s.aligned = true;
    for (const int i : {kLogits, kBias, kWeights, kIds})
      if (tensors[i].dtype != DType::kAbsent)
        s.aligned &= (1 << tensors[i].align_log2) >= size_of(tensors[i].dtype);
    return s;
  }

  /// Bytes of shared memory a row.
  static std::int64_t row_bytes(const Query& q) {
    const std::int64_t groups = std::max<std::int64_t>(1, q.problem.scalars[kKeyGroups]);
    return std::int64_t{4} * grouped_topk_words(static_cast<std::int32_t>(q.problem.dims[kE]),
                                                static_cast<std::int32_t>(groups));
  }
  static constexpr std::int64_t kMaxShared = 48 * 1024;
  static Support supports(const Query& q) {
    if (q.problem.dims[kE] > (1 << 16) || row_bytes(q) > kMaxShared)
      return Support::no("{} experts: more than a warp's shared memory holds", q.problem.dims[kE]);
    return Support::yes();
  }
  static bool fits(const Config& c, std::int64_t bytes) { return c.warps * bytes <= kMaxShared; }
  static void constrain(const Query& q, Space& space) {
    space.require(table(), "shared memory holds the block's rows", {"warps"},
                  [bytes = row_bytes(q)](const Config& c) { return fits(c, bytes); });
  }
  static Config preset(const Query& q) {
    Config c;
    while (c.warps > 1 && (!fits(c, row_bytes(q)) ||
                           q.problem.dims[kT] < std::int64_t{2} * q.device.units * c.warps))
      c.warps /= 2;
    return c;
  }
  static double milliseconds(const Query& q, const Config&) {
    const auto rows = static_cast<double>(q.problem.dims[kT]);
    const auto experts = static_cast<double>(q.problem.dims[kE]);
    const double bytes = rows * (experts * size_of(q.problem.tensors[kLogits].dtype) +
                                 8.0 * static_cast<double>(q.problem.dims[kTopk]));
    const double steps =
        rows * (60 * experts + 1000.0 * static_cast<double>(q.problem.dims[kTopk]));
    return 1e3 * launch_s(q.device) + roofline_ms(q.device, bytes, steps, DType::kF32);
  }
  static std::int32_t shared_bytes(const Query& q, const State& s) {
    return static_cast<std::int32_t>(s.config.warps * row_bytes(q));
  }

  static GroupedTopkParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    const auto inner = [](const TensorView& t) { return t.strides[t.rank - 1]; };
    GroupedTopkParams p{};
    p.logits = merged(args.tensors[kLogits]);
    p.weights = merged(args.tensors[kWeights]);
    p.ids = merged(args.tensors[kIds]);
    p.logits_stride = inner(args.tensors[kLogits]);
    p.weights_stride = inner(args.tensors[kWeights]);
    p.ids_stride = inner(args.tensors[kIds]);
    if (args.has(kBias)) {
      p.bias = args.tensors[kBias].data;
      p.bias_stride = args.tensors[kBias].strides[0];
    }
    p.rows = args.letters[kT];
    p.experts = static_cast<std::int32_t>(args.letters[kE]);
    p.groups = static_cast<std::int32_t>(args.scalars[kNumGroups].i);
    p.group = p.experts / p.groups;
    p.topk_groups = static_cast<std::int32_t>(args.scalars[kTopkGroups].i);
    p.topk = static_cast<std::int32_t>(args.letters[kTopk]);
    p.shared = static_cast<std::int32_t>(args.letters[kShared]);
    p.lanes = 32;
    while (p.lanes > 1 && p.lanes * p.groups > 32) p.lanes /= 2;
    p.renormalize = args.scalars[kRenormalize].i != 0;
    p.scale = static_cast<float>(args.scalars[kScale].f);
    how.grid.x = static_cast<unsigned>((p.rows + s.config.warps - 1) / s.config.warps);
    how.block.x = static_cast<unsigned>(s.config.warps * 32);
    return p;
  }
};

}  // namespace

Implementation cuda() {
  return kernels::make_cuda<Form>("cuda_warps",
                                  source_hash("ops/moe/grouped_topk/grouped_topk_cuda.cpp"));
}

}  // namespace dlblas::moe::grouped
