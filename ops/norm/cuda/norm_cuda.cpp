// Shared by the norm kernels on NVIDIA GPUs: traits from the Problem, the accepted layouts, the
// cost model, the parameters of a call. Flow: call > validate > [select] > [compile] > [launch].
// Read next: ops/norm/cuda/norm_ring_cuda.cpp.
#include "ops/norm/cuda/norm_cuda.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/rates.hpp"
#include "registry/registry.hpp"

namespace dlblas::norm {
namespace {

bool has_plain_rows(Layout layout) {
  return layout == Layout::kContiguous || layout == Layout::kRowStrided;
}

const NormTensors& tensors_of(const Query& q) { return q.user<NormTensors>(); }

}  // namespace

const TraitsTable<NormCudaTraits>& norm_traits_table() {
  using T = NormCudaTraits;
  static const auto* table = new TraitsTable<T>{
      "dlblas::norm::NormCudaTraits",
      {member<&T::type>("type"), member<&T::weight>("weight"), member<&T::add>("add"),
       member<&T::cast_before_weight>("cast_before_weight"), member<&T::align>("align"),
       member<&T::weight_align>("weight_align"), member<&T::full>("full")}};
  return *table;
}

NormCudaTraits traits_of(const Query& q) {
  const NormTensors& at = tensors_of(q);
  const Problem& problem = q.problem;
  NormCudaTraits traits{};
  traits.type = problem.tensors[at.x].dtype;
  const bool weighted = problem.tensors[at.weight].dtype != DType::kAbsent;
  traits.weight = weighted ? problem.tensors[at.weight].dtype : traits.type;
  traits.add = at.adds();
  traits.cast_before_weight = problem.scalars[kKeyCastBeforeWeight] != 0;
  traits.weight_align = weighted ? 1 << problem.tensors[at.weight].align_log2 : 0;
  int log2 = kAlignCap;
  for (const int i : at.rows())
    if (i >= 0) log2 = std::min<int>(log2, problem.tensors[i].align_log2);
  traits.align = 1 << log2;
  const std::int64_t row_bytes = problem.dims[kC] * size_of(traits.type);
  const auto weight_bytes = [&] { return norm_elements(traits) * size_of(traits.weight); };
  // An access of the weight has as many elements as one of x, read 16 bytes at a time or, if fewer,
  // at once.
  while (traits.align > 1 &&
         (row_bytes % traits.align != 0 || (weighted && norm_elements(traits) > 1 &&
                                            traits.weight_align < std::min(16, weight_bytes()))))
    traits.align /= 2;
  return traits;
}

std::int64_t accesses(const Query& q) { return q.problem.dims[kC] / norm_elements(traits_of(q)); }

Support supports_rows(const Query& q) {
  const NormTensors& at = tensors_of(q);
  if (q.problem.tensors[at.weight].layout != Layout::kContiguous)
    return Support::no("{} is not contiguous", tensor(at.weight));
  for (const int i : at.rows())
    if (i >= 0 && !has_plain_rows(q.problem.tensors[i].layout))
      return Support::no("the rows of {} are not contiguous, at one stride", tensor(i));
  return Support::yes();
}

Support has_other_bits(const Query&) {
  return Support::no(
      "adds up in another order than the kernel that serves this width in any batch");
}

double bytes_of(const Query& q) {
  const NormTensors& at = tensors_of(q);
  const double elements = static_cast<double>(q.problem.dims[kT]) * q.problem.dims[kC];
  return elements * size_of(q.problem.tensors[at.x].dtype) * (at.adds() ? 4 : 2) +
         static_cast<double>(q.problem.dims[kC] * size_of(traits_of(q).weight));
}

double model_ms(const Query& q, double bytes, double concurrent) {
  // H200: 4.1 TB/s over 132 multiprocessors; one alone reaches about three times its share.
  constexpr double kCopy = 0.975;
  const double rate = kCopy * memory_bytes_per_s(q.device);
  const double alone = unit_rates(q.device).alone_bytes_per_s;
  const double rows = std::max<double>(1, q.problem.dims[kT]);
  const double busy = std::min(rows, concurrent) / concurrent * q.device.units;
  return 1e3 * (launch_s(q.device) + bytes / std::min(rate, std::max(1.0, busy) * alone));
}

NormCudaParams params_of(const NormTensors& at, const Args& args) {
  NormCudaParams p{};
  const auto stride = [&](int tensor) { return rows_of(args.tensors[tensor]).stride; };
  p.x = args.tensors[at.x].data;
  p.weight = args.tensors[at.weight].data;
  p.y = args.tensors[at.y].data;
  p.x_stride = stride(at.x);
  p.y_stride = stride(at.y);
  if (at.adds()) {
    p.residual = args.tensors[at.residual].data;
    p.residual_out = args.tensors[at.residual_out].data;
    p.residual_stride = stride(at.residual);
    p.residual_out_stride = stride(at.residual_out);
  }
  p.rows = args.letters[kT];
  p.width = args.letters[kC];
  p.eps = args.scalars[kEps].f;
  p.inverse_width = 1.0 / static_cast<double>(p.width);
  p.eps_f32 = static_cast<float>(p.eps);
  p.inverse_width_f32 = static_cast<float>(p.inverse_width);
  p.weight_offset = args.has(at.weight) ? static_cast<float>(args.scalars[kWeightOffset].f) : 1.0f;
  return p;
}

GridRowSum GridRowSumLayout::in(void* workspace) const {
  auto* base = static_cast<char*>(workspace);
  GridRowSum row_sum{};
  row_sum.totals = reinterpret_cast<double*>(base + 16);
  row_sum.arrived = reinterpret_cast<std::uint32_t*>(base + arrived_at());
  row_sum.parts = reinterpret_cast<double*>(base + parts_at());
  row_sum.members = static_cast<std::int32_t>(members);
  return row_sum;
}

int zero_workspace(std::int64_t bytes, const Kernel& kernel, const Context& context,
                   void* workspace, bool dependent) {
  const ZeroFillParams params = {static_cast<std::uint32_t*>(workspace), bytes / 4};
  cuda::Launch how;
  how.block.x = 256;
  how.dependent = dependent;
  how.grid.x = static_cast<unsigned>(std::clamp<std::int64_t>(params.count / 256, 1, 64));
  return cuda::launch(*kernel.entries[0], how, params, context.stream);
}

KernelSource zero_fill_source() {
  return {"ops/norm/cuda/zero_fill.cuh", "dlblas::norm::zero_fill", 0};
}

}  // namespace dlblas::norm
