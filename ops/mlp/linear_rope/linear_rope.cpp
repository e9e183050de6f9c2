// linear_rope: schema, oracle, and its program's places. All forms come from these.
// Read next: linear_rope_product.hpp (what it computes), linear_rope_ref.hpp (how exactly),
// src/kernels/product.hpp.
#include "core/error.hpp"
#include "core/source_hash.hpp"
#include "kernels/product.hpp"
#include "ops/mlp/linear_rope/cpu/linear_rope_code.hpp"
#include "ops/mlp/linear_rope/linear_rope_ref.hpp"

namespace dlblas::mlp {
namespace {

[[noreturn]] void refuse(const char* argument, const char* problem, const std::string& expected,
                         std::int64_t got) {
  throw Error(ErrorKind::kArgument,
              text("linear_rope: ", argument, " ", problem, "; expected ", expected, ", got ", got),
              {"linear_rope", argument, expected, text(got)});
}

void check(const Args& args) {
  const std::int64_t* size = args.letters;
  const std::int64_t head = size[kRopeHeadDim], heads = size[kRopeHeads];
  if (head < 2 || head % 2 != 0)
    refuse("head_dim", "has no pairs of channels", "an even number from 2 on", head);
  if (heads < 0 || heads > size[kRopeN] / head)
    refuse("heads", "is out of range", text("0 … ", size[kRopeN] / head, ", as weight has rows"),
           heads);
  if (size[kRopeR] != head && 2 * size[kRopeR] != head)
    refuse("cos", "has another number of columns", text(head, " or ", head / 2), size[kRopeR]);
  if (size[kRopeS] == 0 && size[kRopeT] > 0) refuse("cos", "has no rows", "1 or more", 0);
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
      "linear_rope(x: f[*T, K], weight: like(x)[N, K], cos: like(x)|f32[S, R], "
      "sin: like(cos)[S, R], heads: dim, head_dim: dim, "
      "style: \"neox\"|\"interleaved\" = \"neox\", *, bias: like(x)|f32[N]?) "
      "-> y: like(x)[*T, N] where T: bucket(tokens), S: free(T)";
  def.formula =
      "z = x · weightᵀ + bias; y_l = z_l · cos_l − z_h · sin_l; y_h = z_h · cos_h + z_l · sin_h";
  def.letters = {"T", "K", "N", "S", "R", "heads", "head_dim"};
  kernels::set_row_oracle<linear_rope_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kRopeY].dtype);
    return Bound{.magnitude = kRounding,
                 .value = out.eps / 2 * (1 + kRounding),
                 .absolute = out.tiny + 0x1p-125};
  };
  def.check = check;
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kRopeK]) * static_cast<double>(p.dims[kRopeN]);
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
            .columns = kRopeN,
            .product = "matmul",
            .operands = {{kRopeBias, Per::kColumn}, {kRopeCos, Per::kPair}, {kRopeSin, Per::kPair}},
            .pairs =
                [](const Problem& p) {
                  return ProductPairs{static_cast<int>(p.dims[kRopeHeadDim]), p.scalars[0] != 0,
                                      p.dims[kRopeR] == p.dims[kRopeHeadDim]};
                },
            .fill =
                [](const Args& args, std::int64_t(&numbers)[kProductNumbers]) {
                  numbers[kPairedColumns] = args.letters[kRopeHeads] * args.letters[kRopeHeadDim];
                  numbers[kTableRows] = args.letters[kRopeS];
                },
            .levels = levels()});
  return def;
}

}  // namespace dlblas::mlp
