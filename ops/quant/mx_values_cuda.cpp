// Values of microscaling formats on NVIDIA GPUs: one launch, any strides. In: Problem; Args. Out: a
// kernel's source; launches. Flow: call > validate > [select] > [compile] > [launch].
// Read next: ops/quant/mx_values.cuh.
#include <algorithm>
#include <bit>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cuda_form.hpp"
#include "ops/quant/mx_values.hpp"

namespace dlblas::quant {
namespace {

struct NoKnobs {};

struct Form : kernels::CudaForm<MxValuesTraits, NoKnobs> {
  static constexpr bool kSearched = false;

  static const TraitsTable<Traits>& traits_table() {
    static const auto* members = new TraitsTable<Traits>{
        "dlblas::quant::MxValuesTraits",
        {member<&Traits::q_type>("q_type"), member<&Traits::scale_type>("scale_type"),
         member<&Traits::type>("type"), member<&Traits::group>("group"),
         member<&Traits::access>("access"), member<&Traits::plain>("plain")}};
    return *members;
  }

  static std::int64_t width_of(const Query& q) {
    return q.problem.dims[kValuesK] * q.user<MxValuesOp>().per_code;
  }
  static Traits traits(const Query& q, const Config&) {
    const MxValuesOp& op = q.user<MxValuesOp>();
    const TensorTraits &codes = q.problem.tensors[kValuesQ],
                       &scale = q.problem.tensors[kValuesScale], &y = q.problem.tensors[op.y];
    Traits s{};
    s.q_type = codes.dtype;
    s.scale_type = scale.dtype;
    s.type = y.dtype;
    s.group = static_cast<std::int32_t>(op.group);
    const auto has_rows = [](const TensorTraits& t) {
      return t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided;
    };
    const int size = size_of(y.dtype);
    const int most =
        std::min({16 / size, (1 << y.align_log2) / size, (1 << codes.align_log2) * op.per_code});
    s.access = op.per_code;
    while (s.access * 2 <= most && width_of(q) % (s.access * 2) == 0) s.access *= 2;
    s.plain = s.access <= most && has_rows(codes) && has_rows(scale) && has_rows(y);
    if (!s.plain) s.access = op.per_code;
    return s;
  }

  static Support supports(const Query& q) {
    const std::int64_t rows = q.problem.dims[kValuesT], width = width_of(q);
    constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1;
    if (width > kMax / 2) return Support::no("rows of {} columns", width);
    if (rows > kMax / (width / kMxValuesThreads + 1)) return Support::no("{} rows", rows);
    return Support::yes();
  }

  static double milliseconds(const Query& q, const Config& config) {
    const double elements =
        static_cast<double>(q.problem.dims[kValuesT]) * static_cast<double>(width_of(q));
    const Traits s = traits(q, config);
    const double bytes = elements * (size_of(s.type) + 1.0 / q.user<MxValuesOp>().per_code);
    const double share = s.plain ? 1.1 : 10;  // of a copy; not measured yet
    return 1e3 * (launch_s(q.device) + share * bytes / memory_bytes_per_s(q.device));
  }

  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{"ops/quant/mx_values.cuh",
             "dlblas::quant::mx_values<" + traits_table().literal(s.traits) + ">"}};
  }

  static int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const State& s = kernel.load<State>();
    const auto& op = *static_cast<const MxValuesOp*>(s.user);
    const TensorView &q = args.tensors[kValuesQ], &scale = args.tensors[kValuesScale],
                     &y = args.tensors[op.y];
    MxValuesParams p{};
    p.q = merged(q);
    p.scale = merged(scale);
    p.y = merged(y);
    p.q_row = rows_of(q).stride, p.scale_row = rows_of(scale).stride, p.y_row = rows_of(y).stride;
    p.rows = args.letters[kValuesT];
    if (op.global >= 0) p.global = static_cast<const float*>(args.tensors[op.global].data);
    p.width = static_cast<std::int32_t>(args.letters[kValuesK] * op.per_code);
    p.groups = (p.width + s.traits.group - 1) / s.traits.group;
    if (p.rows == 0 || p.width == 0) return 0;
    const auto threads =
        static_cast<std::uint32_t>((p.width + s.traits.access - 1) / s.traits.access);
    p.across = std::min(std::bit_width(threads - 1), std::bit_width(kMxValuesThreads - 1u));
    p.chunks = (threads + (1u << p.across) - 1) >> p.across;
    const std::int64_t down = kMxValuesThreads >> p.across;
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>((p.rows + down - 1) / down * p.chunks);
    how.block.x = kMxValuesThreads;
    return cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State&) { return {run}; }
};

}  // namespace

Implementation mx_values_cuda(const MxValuesOp& op) {
  return kernels::make_cuda<Form>("cuda_values", source_hash<"ops/quant/mx_values_cuda.cpp">(),
                                  &op);
}

}  // namespace dlblas::quant
