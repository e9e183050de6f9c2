// Scales over groups of columns on NVIDIA GPUs: one launch; any strides; fast where rows have one
// stride. In: Problem; Args. Out: a kernel's source; launches. Flow: call > validate > [select] >
// [compile] > [launch]. Read next: ops/common/quant_groups/quant_groups.cuh.
#include <algorithm>
#include <bit>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cuda_form.hpp"
#include "ops/common/quant_groups/quant_groups.hpp"
#include "ops/common/quant_ref.hpp"

namespace dlblas::quant {
namespace {

struct NoKnobs {};

struct Form : kernels::CudaForm<QuantGroupsTraits, NoKnobs> {
  static constexpr bool kSearched = false;
  static constexpr std::int64_t kMaxBlocks = (std::int64_t{1} << 31) - 1;

  static const TraitsTable<Traits>& traits_table() {
    static const auto* members = new TraitsTable<Traits>{
        "dlblas::quant::QuantGroupsTraits",
        {member<&Traits::type>("type"), member<&Traits::q_type>("q_type"),
         member<&Traits::scale>("scale"), member<&Traits::group>("group"),
         member<&Traits::access>("access"), member<&Traits::gated>("gated"),
         member<&Traits::counted>("counted"), member<&Traits::plain>("plain")}};
    return *members;
  }

  static bool has_rows(const TensorTraits& t, bool counted) {
    return t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided ||
           (counted && t.layout == Layout::kRowsOuter);
  }
  /// True if scales have one stride between rows and one between groups.
  static bool has_strides(const TensorTraits& t, bool counted, DType type) {
    return (1 << t.align_log2) >= size_of(type) &&
           (counted || has_rows(t, false) || t.layout == Layout::kTransposed);
  }
  /// A group takes at most one warp.
  static Traits traits(const Query& q, const Config&) {
    const QuantGroupsOp& op = q.user<QuantGroupsOp>();
    const TensorTraits &x = q.problem.tensors[op.x], &codes = q.problem.tensors[op.q],
                       &scale = q.problem.tensors[op.scale];
    Traits s{};
    s.type = x.dtype;
    s.q_type = codes.dtype;
    s.scale = op.kind;
    s.group = static_cast<std::int32_t>(op.columns(q.problem.dims));
    s.gated = op.gated;
    s.counted = op.count >= 0;
    const int packed = codes.dtype == DType::kU8 ? 2 : 1;
    // The largest access, up to 16 bytes, that divides a row, a group and all addresses.
    const std::int64_t width = q.problem.dims[op.width];
    const int most = std::min({16 / size_of(x.dtype), (1 << x.align_log2) / size_of(x.dtype),
                               (1 << codes.align_log2) * packed});
    s.access = packed;
    while (s.access * 2 <= most && width % (s.access * 2) == 0 && s.group % (s.access * 2) == 0)
      s.access *= 2;
    s.plain = s.access <= most && s.group / s.access <= 32 && has_rows(x, s.counted) &&
              has_rows(codes, s.counted) && has_strides(scale, s.counted, scale.dtype);
    if (s.plain) return s;
    s.access = std::max({packed, s.group / 32, 1});
    return s;
  }

  static Support supports(const Query& q) {
    const QuantGroupsOp& op = q.user<QuantGroupsOp>();
    const std::int64_t group = op.columns(q.problem.dims), width = q.problem.dims[op.width];
    if (group > 128 || !std::has_single_bit(static_cast<std::uint64_t>(group)))
      return Support::no("groups of {} columns; expected a power of 2 up to 128", group);
    if (width >= std::int64_t{1} << 30) return Support::no("rows of {} columns", width);
    const Traits s = traits(q, {});
    if (group < s.access) return Support::no("groups of {} columns are less than a byte", group);
    const std::int64_t rows = op.num_rows(q.problem.dims);
    if (rows >= kMaxBlocks) return Support::no("more than {} rows", kMaxBlocks);
    const std::int64_t blocks = (width / s.access / kQuantGroupsThreads + 1) * rows;
    if (blocks > kMaxBlocks) return Support::no("more than {} blocks", kMaxBlocks);
    return Support::yes();
  }

  static double milliseconds(const Query& q, const Config& config) {
    const QuantGroupsOp& op = q.user<QuantGroupsOp>();
    const double elements = static_cast<double>(op.num_rows(q.problem.dims)) *
                            static_cast<double>(q.problem.dims[op.width]);
    const bool packed = q.problem.tensors[op.q].dtype == DType::kU8;
    const double bytes = elements * (size_of(q.problem.tensors[op.x].dtype) * (op.gated ? 2 : 1) +
                                     (packed ? 0.5 : 1.0));
    const double share = traits(q, config).plain ? 1.1 : 10;  // of a copy; not measured yet
    return 1e3 * (launch_s(q.device) + share * bytes / memory_bytes_per_s(q.device));
  }

  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{"ops/common/quant_groups/quant_groups.cuh",
             "dlblas::quant::quant_groups<" + traits_table().literal(s.traits) + ">"}};
  }

  struct Strides {
    std::int64_t outer, row, column;
  };
  static Strides strides_of(const TensorView& t, bool counted) {
    const auto stride = [&t](int d) { return d >= 0 && t.shape[d] > 1 ? t.strides[d] : 0; };
    const std::int64_t column = t.shape[t.rank - 1] > 1 ? t.strides[t.rank - 1] : 1;
    if (counted) return {stride(t.rank - 3), stride(t.rank - 2), column};
    return {0, rows_of(t).stride, column};
  }
  static QuantGroupsParams params(const State& s, const Args& args) {
    const QuantGroupsOp& op = *static_cast<const QuantGroupsOp*>(s.user);
    QuantGroupsParams p{};
    const TensorView &x = args.tensors[op.x], &q = args.tensors[op.q],
                     &scale = args.tensors[op.scale];
    p.x = merged(x);
    p.q = merged(q);
    p.scale = merged(scale);
    const bool counted = s.traits.counted;
    const Strides of_x = strides_of(x, counted), of_q = strides_of(q, counted),
                  of_scale = strides_of(scale, counted);
    p.x_outer = of_x.outer, p.x_row = of_x.row;
    p.q_outer = of_q.outer, p.q_row = of_q.row;
    p.scale_outer = of_scale.outer, p.scale_row = of_scale.row, p.scale_group = of_scale.column;
    p.rows = op.num_rows(args.letters);
    p.inner = op.rows[1] < 0 ? p.rows : args.letters[op.rows[1]];
    if (counted) {
      const TensorView& count = args.tensors[op.count];
      p.count = count.data;
      p.count_stride = count.shape[0] > 1 ? count.strides[0] : 0;
      p.count_bytes = size_of(count.dtype);
    }
    if (op.global >= 0) p.global = static_cast<const float*>(args.tensors[op.global].data);
    p.width = static_cast<std::int32_t>(args.letters[op.width]);
    p.groups = (p.width + s.traits.group - 1) / s.traits.group;
    const int lanes = s.traits.group / s.traits.access;
    const auto threads = static_cast<std::uint32_t>(std::max(1, p.groups * lanes));
    p.across = std::min(std::bit_width(threads - 1), std::bit_width(kQuantGroupsThreads - 1u));
    p.chunks = (threads + (1u << p.across) - 1) >> p.across;
    p.largest = static_cast<float>(largest_of(q.dtype));
    p.powers = op.powers >= 0 && args.scalars[op.powers].i != 0;
    return p;
  }

  static int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const QuantGroupsParams p = params(kernel.load<State>(), args);
    if (p.rows == 0 || p.width == 0) return 0;
    const std::int64_t down = kQuantGroupsThreads >> p.across;
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>((p.rows + down - 1) / down * p.chunks);
    how.block.x = kQuantGroupsThreads;
    return cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State&) { return {run}; }
};

}  // namespace

Implementation quant_groups_cuda(const QuantGroupsOp& op) {
  return kernels::make_cuda<Form>(
      "cuda_groups", source_hash<"ops/common/quant_groups/quant_groups_cuda.cpp">(), &op);
}

}  // namespace dlblas::quant
