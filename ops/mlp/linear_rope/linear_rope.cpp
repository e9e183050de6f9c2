// linear_rope: schema, oracle, and the operands of its program. All forms come from these.
// Read next: linear_rope_product.hpp (what it computes), linear_rope_ref.hpp (how exactly),
// src/kernels/product.hpp.
#include "core/error.hpp"
#include "core/source_hash.hpp"
#include "kernels/product.hpp"
#include "ops/mlp/linear_rope/cpu/linear_rope_code.hpp"
#include "ops/mlp/linear_rope/linear_rope_ref.hpp"

namespace dlblas::mlp {
namespace {

/// Columns of the result: the pairs of the rotated heads, and the rest.
std::int64_t columns(const std::int64_t* letters) {
  return 2 * letters[kRopeHeads] * letters[kRopeDh] + letters[kRopeV];
}

void check(const Args& args) {
  const auto refuse = [](const char* argument, const char* problem) {
    throw Error(ErrorKind::kArgument,
                text("linear_rope: ", argument, " has no ", problem, "; expected 1 or more, got 0"),
                {"linear_rope", argument, "1 or more", "0"});
  };
  if (args.letters[kRopeDh] == 0) refuse("cos", "columns");
  if (args.letters[kRopeS] == 0 && args.letters[kRopeT] > 0) refuse("cos", "rows");
  kernels::check_flat_rows(args, {kRopeX, kRopeY});
}

std::vector<kernels::ProductCpuLevel> levels() {
  return {
#if defined(DLBLAS_X86)
    {Isa::kAvx512, source_hash<"ops/mlp/linear_rope/cpu/linear_rope_avx512.cpp">(),
     &avx512::kLinearRopeCode},
        {Isa::kAvx2, source_hash<"ops/mlp/linear_rope/cpu/linear_rope_avx2.cpp">(),
         &avx2::kLinearRopeCode},
#endif
        {Isa::kBaseline, source_hash<"ops/mlp/linear_rope/cpu/linear_rope_baseline.cpp">(),
         &baseline::kLinearRopeCode},
  };
}

}  // namespace

OperatorDef linear_rope();
OperatorDef linear_rope() {
  OperatorDef def;
  def.family = "mlp";
  def.schema =
      "linear_rope(x: f[*T, K], weight: like(x)[2heads*Dh+V, K], cos: like(x)|f32[S, 2Dh], "
      "sin: like(cos)[S, 2Dh], heads: dim, style: \"neox\"|\"interleaved\" = \"neox\", *, "
      "bias: like(x)|f32[2heads*Dh+V]?) "
      "-> y: like(x)[*T, 2heads*Dh+V] where T: bucket(tokens), S: free(T)";
  def.formula =
      "z = x · weightᵀ + bias; y_l = z_l · cos_l − z_h · sin_l; y_h = z_h · cos_h + z_l · sin_h";
  def.letters = {"T", "K", "heads", "Dh", "V", "S"};
  kernels::set_row_oracle<linear_rope_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kRopeY].dtype);
    return Bound{.magnitude = kRounding,
                 .value = out.eps / 2 * (1 + kRounding),
                 .absolute = out.tiny + 0x1p-125};
  };
  def.check = check;
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kRopeK]) * static_cast<double>(columns(p.dims));
  };
  kernels::add_product_implementations(
      def, {.include = "ops/mlp/linear_rope/linear_rope.cuh",
            .program = "dlblas::mlp::LinearRope<void>",
            .hash = source_hash<"ops/mlp/linear_rope/linear_rope.cpp">(),
            .x = kRopeX,
            .weights = {kRopeWeight},
            .y = kRopeY,
            .rows = kRopeT,
            .depth = kRopeK,
            .columns = -1,
            .columns_of = columns,
            .product = "matmul",
            .operands = {{kRopeBias, Per::kColumn}, {kRopeCos, Per::kPair}, {kRopeSin, Per::kPair}},
            .pairs =
                [](const Problem& p) {
                  return ProductPairs{static_cast<int>(2 * p.dims[kRopeDh]), p.scalars[0] != 0};
                },
            .fill =
                [](const Args& args, std::int64_t(&numbers)[kProductNumbers]) {
                  numbers[kPairedColumns] = 2 * args.letters[kRopeHeads] * args.letters[kRopeDh];
                  numbers[kTableRows] = args.letters[kRopeS];
                },
            .levels = levels()});
  return def;
}

}  // namespace dlblas::mlp
