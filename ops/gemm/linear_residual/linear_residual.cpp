// linear_residual: schema, oracle, and the operands of its program. All forms come from these.
// Read next: linear_residual_product.hpp (what it computes), linear_residual_ref.hpp (how exactly),
// src/kernels/product.hpp.
#include "ops/gemm/linear_residual/linear_residual.hpp"

#include "core/source_hash.hpp"
#include "kernels/product.hpp"
#include "ops/gemm/linear_residual/cpu/linear_residual_code.hpp"

namespace dlblas::gemm {
namespace {

std::vector<kernels::ProductCpuLevel> levels() {
  using kernels::CpuUnit;
  return {
#if defined(DLBLAS_X86)
    {Isa::kAvx512, source_hash<"ops/gemm/linear_residual/cpu/linear_residual_amx.cpp">(), nullptr,
     &avx512::kLinearResidualAmx, CpuUnit::kAmx},
        {Isa::kAvx512, source_hash<"ops/gemm/linear_residual/cpu/linear_residual_avx512bf16.cpp">(),
         nullptr, &avx512::kLinearResidualBf16, CpuUnit::kAvx512Bf16},
        {Isa::kAvx512, source_hash<"ops/gemm/linear_residual/cpu/linear_residual_avx512.cpp">(),
         &avx512::kLinearResidualCode},
        {Isa::kAvx2, source_hash<"ops/gemm/linear_residual/cpu/linear_residual_avx2.cpp">(),
         &avx2::kLinearResidualCode},
#endif
        {Isa::kBaseline, source_hash<"ops/gemm/linear_residual/cpu/linear_residual_baseline.cpp">(),
         &baseline::kLinearResidualCode},
  };
}

}  // namespace

OperatorDef linear_residual();
OperatorDef linear_residual() {
  OperatorDef def;
  def.family = "gemm";
  def.schema =
      "linear_residual(x: f[*T, K], weight: like(x)[N, K], "
      "activation: \"\"|\"relu\"|\"leaky_relu\"|\"gelu\"|\"silu\" = \"\", *, "
      "bias: like(x)|f32[N]?, residual: like(x)|f32[*T, N]?, row_scale: f32[*T, 1]?, "
      "column_scale: f32[N]?, out_dtype: dtype(f) = none) "
      "-> y: out_dtype|like(x)[*T, N] where T: bucket(tokens)";
  def.inplace = {
      "linear_residual_(x, weight, residual!y, activation, *, bias, row_scale, column_scale, "
      "out_dtype)"};
  def.formula = "y = act(row_scale · column_scale · (x · weightᵀ) + bias) + residual";
  def.letters = {"T", "K", "N"};
  kernels::set_row_oracle<linear_residual_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kLinearY].dtype);
    return Bound{.magnitude = kRounding,
                 .value = out.eps / 2 * (1 + kRounding),
                 .absolute = out.tiny + 0x1p-125};
  };
  def.check = [](const Args& args) {
    kernels::check_flat_rows(args, {kLinearX, kLinearResidual, kLinearRowScale, kLinearY});
  };
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kLinearK]) * static_cast<double>(p.dims[kLinearN]);
  };
  kernels::add_product_implementations(
      def, {.include = "ops/gemm/linear_residual/linear_residual.cuh",
            .program = "dlblas::gemm::LinearResidual<dlblas::gemm::DeviceActivations>",
            .hash = source_hash<"ops/gemm/linear_residual/linear_residual.cpp">(),
            .x = kLinearX,
            .weights = {kLinearWeight},
            .y = kLinearY,
            .rows = kLinearT,
            .depth = kLinearK,
            .columns = kLinearN,
            .product = "matmul",
            .operands = {{kLinearRowScale, Per::kRow},
                         {kLinearColumnScale, Per::kColumn},
                         {kLinearBias, Per::kColumn},
                         {kLinearResidual, Per::kElement}},
            .choose =
                [](const Problem& p, std::int32_t* options) {
                  options[0] = static_cast<std::int32_t>(p.scalars[kLinearActivation]);
                },
            .levels = levels()});
  def.implementations.push_back(linear_residual_onednn());
  return def;
}

}  // namespace dlblas::gemm
