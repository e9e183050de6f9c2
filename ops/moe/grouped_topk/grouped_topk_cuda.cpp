// grouped_topk on NVIDIA GPUs: one launch, one warp per row, any strides; rows in registers up to
// 512 experts, else in shared memory. In: Problem, Config; Args. Out: Kernel and its source; the
// launch. Flow: call > validate > [select] > [compile] > [launch]. Read next:
// ops/moe/grouped_topk/grouped_topk_lanes.cuh, grouped_topk.cuh.
#include <algorithm>
#include <bit>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cuda_form.hpp"
#include "ops/moe/grouped_topk/grouped_topk.hpp"

namespace dlblas::moe::grouped {
namespace {

/// Scalars of the key: num_groups, topk_groups, renormalize, scoring.
constexpr int kKeyGroups = 0, kKeyTopkGroups = 1, kKeyScoring = 3;

const ConfigTable<GroupedTopkConfig>& config_table() {
  static const auto* knobs =
      new ConfigTable<GroupedTopkConfig>{field<&GroupedTopkConfig::warps>("warps", {1, 2, 4, 8})};
  return *knobs;
}

/// The members that both kernels' traits have in common.
template <typename Traits>
Traits common_traits(const Query& q) {
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

/// Milliseconds of a launch with this many operations per row.
double time_of(const Query& q, double operations) {
  const auto rows = static_cast<double>(q.problem.dims[kT]);
  const double bytes =
      rows * (static_cast<double>(q.problem.dims[kE]) * size_of(q.problem.tensors[kLogits].dtype) +
              8.0 * static_cast<double>(q.problem.dims[kTopk]));
  return 1e3 * launch_s(q.device) + roofline_ms(q.device, bytes, rows * operations, DType::kF32);
}

/// The stride between rows, if there is a single one.
std::int64_t row_stride(const TensorView& t) {
  for (int i = t.rank - 2; i >= 0; --i)
    if (t.shape[i] != 1) return t.strides[i];
  return 0;
}

GroupedTopkParams params_of(const Args& args, int warps, cuda::Launch& how) {
  const auto inner = [](const TensorView& t) { return t.strides[t.rank - 1]; };
  const TensorView &logits = args.tensors[kLogits], &weights = args.tensors[kWeights],
                   &ids = args.tensors[kIds];
  GroupedTopkParams p{};
  p.logits = merged(logits);
  p.weights = merged(weights);
  p.ids = merged(ids);
  p.logits_stride = inner(logits);
  p.weights_stride = inner(weights);
  p.ids_stride = inner(ids);
  p.logits_row = row_stride(logits);
  p.weights_row = row_stride(weights);
  p.ids_row = row_stride(ids);
  if (args.has(kBias)) {
    p.bias = args.tensors[kBias].data;
    p.bias_stride = args.tensors[kBias].strides[0];
  }
  p.rows = args.letters[kT];
  p.experts = static_cast<std::int32_t>(args.letters[kE]);
  p.groups = static_cast<std::int32_t>(args.scalars[kNumGroups].i);
  p.topk_groups = static_cast<std::int32_t>(args.scalars[kTopkGroups].i);
  p.topk = static_cast<std::int32_t>(args.letters[kTopk]);
  p.shared = static_cast<std::int32_t>(args.letters[kShared]);
  p.renormalize = args.scalars[kRenormalize].i != 0;
  p.scale = static_cast<float>(args.scalars[kScale].f);
  how.grid.x = static_cast<unsigned>((p.rows + warps - 1) / warps);
  how.block.x = static_cast<unsigned>(warps * 32);
  return p;
}

/// Rows in registers. f32, E = 256 in 8 groups, topk 8: 570 instructions per row, 21 of them per
/// place.
struct LanesForm : kernels::CudaForm<GroupedTopkLanes, GroupedTopkConfig> {
  static constexpr const char* kInclude = "ops/moe/grouped_topk/grouped_topk_lanes.cuh";
  static constexpr const char* kEntry = "dlblas::moe::grouped_topk_lanes";
  static constexpr const char* kConfigName = "dlblas::moe::GroupedTopkConfig";
  static constexpr bool kDependent = true;

  static const ConfigTable<Config>& table() { return config_table(); }
  static const TraitsTable<Traits>& traits_table() {
    static const auto* members = new TraitsTable<Traits>{
        "dlblas::moe::GroupedTopkLanes",
        {member<&Traits::type>("type"), member<&Traits::bias_type>("bias_type"),
         member<&Traits::bias>("bias"), member<&Traits::softmax>("softmax"),
         member<&Traits::aligned>("aligned"), member<&Traits::full>("full"),
         member<&Traits::flat>("flat"), member<&Traits::wide>("wide"),
         member<&Traits::lanes>("lanes"), member<&Traits::columns>("columns"),
         member<&Traits::access>("access")}};
    return *members;
  }

  /// The groups to choose from; 1 if all are taken.
  static std::int64_t groups_of(const Query& q) {
    const std::int64_t* scalars = q.problem.scalars;
    const bool all = scalars[kKeyTopkGroups] == scalars[kKeyGroups];
    return all ? 1 : std::max<std::int64_t>(1, scalars[kKeyGroups]);
  }
  static std::int64_t lanes_of(std::int64_t groups) {
    return 32 / static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(groups)));
  }
  static Support supports(const Query& q) {
    const std::int64_t groups = groups_of(q), experts = q.problem.dims[kE];
    if (q.problem.dims[kTopk] > kHeldTopk)
      return Support::no("topk is {}: lanes hold {} places", q.problem.dims[kTopk], kHeldTopk);
    if (groups > Traits::kMaxGroups)
      return Support::no("{} groups: more than a warp has lanes", groups);
    if (experts / groups > lanes_of(groups) * Traits::kMaxColumns)
      return Support::no("{} experts in {} groups: more than a warp's registers hold", experts,
                         groups);
    return Support::yes();
  }

  /// The largest access, in columns, such that a lane's and a group's columns are whole accesses.
  static std::int32_t access_of(const Query& q, std::int64_t columns, std::int64_t group) {
    std::int32_t access = 8;
    for (const int i : {kLogits, kBias}) {
      const TensorTraits& t = q.problem.tensors[i];
      if (t.dtype == DType::kAbsent) continue;
      const bool neighbours = t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided ||
                              t.layout == Layout::kRowsOuter || t.layout == Layout::kRowsBroadcast;
      if (!neighbours) access = 1;
      while (access > 1 && (1 << t.align_log2) < std::min(16, access * size_of(t.dtype)))
        access /= 2;
    }
    while (columns % access != 0 || group % access != 0) access /= 2;
    return access;
  }
  static Traits traits(const Query& q, const Config&) {
    Traits s = common_traits<Traits>(q);
    const std::int64_t groups = groups_of(q);
    const std::int64_t group = q.problem.dims[kE] / groups, lanes = lanes_of(groups);
    const std::int64_t columns = std::max<std::int64_t>(1, (group + lanes - 1) / lanes);
    s.flat = true;
    for (const int i : {kLogits, kWeights, kIds}) {
      const Layout layout = q.problem.tensors[i].layout;
      s.flat &= layout == Layout::kContiguous || layout == Layout::kRowStrided;
    }
    s.full = lanes * columns == group && lanes * groups == 32;
    s.wide = q.problem.dims[kTopk] > 32;
    s.lanes = static_cast<std::int32_t>(lanes);
    s.columns = static_cast<std::int32_t>(columns);
    s.access = s.aligned ? access_of(q, columns, group) : 1;
    return s;
  }
  static Config preset(const Query& q) {
    Config c;
    while (c.warps > 1 && q.problem.dims[kT] < std::int64_t{2} * q.device.units * c.warps)
      c.warps /= 2;
    return c;
  }
  static double milliseconds(const Query& q, const Config&) {
    return time_of(q, 100.0 * static_cast<double>(q.problem.dims[kE]) +
                          2500.0 * static_cast<double>(q.problem.dims[kTopk]));
  }
  static GroupedTopkParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    GroupedTopkParams p = params_of(args, s.config.warps, how);
    if (p.topk_groups == p.groups) p.groups = p.topk_groups = 1;
    p.group = p.experts / p.groups;
    return p;
  }
};

struct Form : kernels::CudaForm<GroupedTopkTraits, GroupedTopkConfig> {
  static constexpr const char* kInclude = "ops/moe/grouped_topk/grouped_topk.cuh";
  static constexpr const char* kEntry = "dlblas::moe::grouped_topk";
  static constexpr const char* kConfigName = "dlblas::moe::GroupedTopkConfig";

  static const ConfigTable<Config>& table() { return config_table(); }
  static const TraitsTable<Traits>& traits_table() {
    static const auto* members = new TraitsTable<Traits>{
        "dlblas::moe::GroupedTopkTraits",
        {member<&Traits::type>("type"), member<&Traits::bias_type>("bias_type"),
         member<&Traits::bias>("bias"), member<&Traits::softmax>("softmax"),
         member<&Traits::aligned>("aligned"), member<&Traits::many>("many")}};
    return *members;
  }

  static Traits traits(const Query& q, const Config&) {
    Traits s = common_traits<Traits>(q);
    s.many = q.problem.dims[kTopk] > kHeldTopk;
    return s;
  }

  /// Bytes of shared memory per row.
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
  static Support same_bits(const Query& q) {
    if (LanesForm::supports(q))
      return Support::no("cuda_lanes gives a row its bits: sums are in another order here");
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
    // f32 16384×256, 8 groups, topk 8 on an H200, 2026-11-24: 64.7 µs.
    return time_of(q, 600.0 * static_cast<double>(q.problem.dims[kE]) +
                          13000.0 * static_cast<double>(q.problem.dims[kTopk]));
  }
  static std::int32_t shared_bytes(const Query& q, const State& s) {
    return static_cast<std::int32_t>(s.config.warps * row_bytes(q));
  }

  static GroupedTopkParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    GroupedTopkParams p = params_of(args, s.config.warps, how);
    p.group = p.experts / p.groups;
    p.lanes = 32;
    while (p.lanes > 1 && p.lanes * p.groups > 32) p.lanes /= 2;
    return p;
  }
};

}  // namespace

std::vector<Implementation> cuda() {
  const char* hash = source_hash<"ops/moe/grouped_topk/grouped_topk_cuda.cpp">();
  return {kernels::make_cuda<LanesForm>("cuda_lanes", hash),
          kernels::make_cuda<Form>("cuda_warps", hash)};
}

}  // namespace dlblas::moe::grouped
