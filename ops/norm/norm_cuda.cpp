// What the norm kernels on NVIDIA GPUs have in common: traits from the Problem, the layouts they
// take, the model, the parameters of a call. Flow: call > validate > [select] > [compile] >
// [launch].  Read next: ops/norm/norm_registers_cuda.cpp.
#include "ops/norm/norm_cuda.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace dlblas::norm {
namespace {

static_assert(static_cast<int>(DType::kF32) == static_cast<int>(FloatType::kF32) &&
              static_cast<int>(DType::kF16) == static_cast<int>(FloatType::kF16) &&
              static_cast<int>(DType::kBF16) == static_cast<int>(FloatType::kBF16));

FloatType float_type(DType dtype) { return static_cast<FloatType>(dtype); }

bool has_plain_rows(Layout layout) {
  return layout == Layout::kContiguous || layout == Layout::kRowStrided;
}

const char* word(bool value) { return value ? "true" : "false"; }

}  // namespace

NormCudaTraits traits_of(const Slots& slots, const Problem& problem) {
  NormCudaTraits traits{};
  traits.type = float_type(problem.tensors[slots.x].dtype);
  traits.weight = float_type(problem.tensors[slots.weight].dtype);
  traits.add = slots.adds();
  traits.cast_before_weight = problem.scalars[kKeyCastBeforeWeight] != 0;
  traits.weight_align = 1 << problem.tensors[slots.weight].align_log2;
  int log2 = kAlignCap;
  for (int tensor : {slots.x, slots.residual, slots.y, slots.residual_out})
    if (tensor >= 0) log2 = std::min<int>(log2, problem.tensors[tensor].align_log2);
  traits.align = 1 << log2;
  const std::int64_t row_bytes = problem.dims[kC] * size_of(traits.type);
  const auto weight_bytes = [&] { return norm_elements(traits) * size_of(traits.weight); };
  // The weight is read in as many elements as x, 16 bytes at a time or all of them.
  while (traits.align > 1 &&
         (row_bytes % traits.align != 0 ||
          (norm_elements(traits) > 1 && traits.weight_align < std::min(16, weight_bytes()))))
    traits.align /= 2;
  return traits;
}

std::string literal(const NormCudaTraits& traits) {
  return text("dlblas::NormCudaTraits{.type = dlblas::FloatType(", static_cast<int>(traits.type),
              "), .weight = dlblas::FloatType(", static_cast<int>(traits.weight),
              "), .add = ", word(traits.add),
              ", .cast_before_weight = ", word(traits.cast_before_weight),
              ", .align = ", traits.align, ", .weight_align = ", traits.weight_align,
              ", .full = ", word(traits.full), "}");
}

std::int64_t accesses(const Slots& slots, const Problem& problem) {
  return problem.dims[kC] / norm_elements(traits_of(slots, problem));
}

Support supports_rows(const Slots& slots, const Problem& problem) {
  if (problem.tensors[slots.weight].layout != Layout::kContiguous)
    return Support::no("weight is not contiguous");
  if (!has_plain_rows(problem.tensors[slots.x].layout))
    return Support::no("the rows of x are not contiguous, at one stride");
  if (!has_plain_rows(problem.tensors[slots.y].layout))
    return Support::no("the rows of y are not contiguous, at one stride");
  if (!slots.adds()) return Support::yes();
  if (!has_plain_rows(problem.tensors[slots.residual].layout))
    return Support::no("the rows of residual are not contiguous, at one stride");
  if (!has_plain_rows(problem.tensors[slots.residual_out].layout))
    return Support::no("the rows of residual_out are not contiguous, at one stride");
  return Support::yes();
}

Problem typical(const Problem& problem) {
  Problem p = problem;
  p.dims[kT] = 1024;
  p.flags &= static_cast<std::uint8_t>(~kDeterministic);
  return p;
}

const CudaKernel& same_bits_kernel(const Slots& slots, const Problem& problem,
                                   const DeviceInfo& device) {
  const Problem p = typical(problem);
  for (const auto kernel : {cuda_registers, cuda_cluster, cuda_shared, cuda_rows})
    if (device.arch >= kernel().min_arch && kernel().supports(slots, p, device)) return kernel();
  return cuda_strided();
}

void require_typical(const Slots& slots, const Problem& problem, const DeviceInfo& device,
                     const CudaKernel& kernel, Space& space) {
  std::vector<std::string_view> all;
  for (const Knob& knob : kernel.knobs->knobs()) all.push_back(knob.name);
  const Config one = kernel.heuristic(slots, typical(problem), device);
  space.require("the same bits: one configuration a width", all,
                [one](const Config& config) { return config == one; });
}

double bytes_of(const Slots& slots, const Problem& problem) {
  const double elements = static_cast<double>(problem.dims[kT]) * problem.dims[kC];
  return elements * size_of(problem.tensors[slots.x].dtype) * (slots.adds() ? 4 : 2);
}

bool may_be_last(const Slots& slots, const Problem& problem, const DeviceInfo& device) {
  constexpr std::int64_t kLeastAccesses = 256;
  constexpr double kLeastCaches = 8;
  return traits_of(slots, problem).align == 16 && accesses(slots, problem) >= kLeastAccesses &&
         bytes_of(slots, problem) > kLeastCaches * static_cast<double>(device.l2_bytes);
}

double model_ms(double bytes, const Problem& problem, double concurrent, const DeviceInfo& device) {
  constexpr double kLaunch = 2.5e-3;
  // H200: 4.1 TB/s over 132 multiprocessors; one alone reaches about three times its share.
  const double rate = 31e9 * device.units, alone = 90e9;
  const double rows = std::max<double>(1, problem.dims[kT]);
  const double busy = std::min(rows, concurrent) / concurrent * device.units;
  return kLaunch + bytes / std::min(rate, std::max(1.0, busy) * alone) * 1e3;
}

NormCudaParams params_of(const Slots& slots, const Args& args) {
  NormCudaParams p{};
  const auto stride = [&](int tensor) { return rows_of(args.tensors[tensor]).stride; };
  p.x = args.tensors[slots.x].data;
  p.weight = args.tensors[slots.weight].data;
  p.y = args.tensors[slots.y].data;
  p.x_stride = stride(slots.x);
  p.y_stride = stride(slots.y);
  if (slots.adds()) {
    p.residual = args.tensors[slots.residual].data;
    p.residual_out = args.tensors[slots.residual_out].data;
    p.residual_stride = stride(slots.residual);
    p.residual_out_stride = stride(slots.residual_out);
  }
  p.rows = args.letters[kT];
  p.width = args.letters[kC];
  p.eps = args.scalars[kEps].f;
  p.inverse_width = 1.0 / static_cast<double>(p.width);
  p.eps_f32 = static_cast<float>(p.eps);
  p.inverse_width_f32 = static_cast<float>(p.inverse_width);
  p.weight_offset = static_cast<float>(args.scalars[kWeightOffset].f);
  return p;
}

NormMeeting MeetingLayout::in(void* workspace) const {
  auto* base = static_cast<char*>(workspace);
  NormMeeting meeting{};
  meeting.totals = reinterpret_cast<double*>(base + 16);
  meeting.arrived = reinterpret_cast<std::uint32_t*>(base + arrived_at());
  meeting.parts = reinterpret_cast<double*>(base + parts_at());
  meeting.members = static_cast<std::int32_t>(members);
  return meeting;
}

int clear_workspace(std::int64_t bytes, const Kernel& kernel, const Context& context,
                    void* workspace, bool dependent) {
  const NormClearParams params = {static_cast<std::uint32_t*>(workspace), bytes / 4};
  cuda::Launch how;
  how.block.x = 256;
  how.dependent = dependent;
  how.grid.x = static_cast<unsigned>(std::clamp<std::int64_t>(params.count / 256, 1, 64));
  return cuda::launch(*kernel.entries[0], how, params, context.stream);
}

KernelSource clear_source() { return {"ops/norm/norm_clear.cuh", "dlblas::norm_clear", 0}; }

std::int32_t vectors_for(std::int64_t accesses, std::int64_t threads) {
  for (std::int32_t vectors : kVectors)
    if (vectors * threads >= accesses) return vectors;
  return 0;
}

}  // namespace dlblas::norm
