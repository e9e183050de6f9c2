// gated_linear_quant_group: schema, oracle, its program on Hopper, and the form for elsewhere: two
// f32 products by matmul's own choice, side by side in the workspace, then silu_and_mul_quant_group
// of them, some rows at a time.
// Read next: gated_linear_quant_group_product.hpp (what it computes),
// gated_linear_quant_group_ref.hpp (how exactly), src/kernels/product.hpp, core/nested.hpp.
#include <algorithm>

#include "core/nested.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/product.hpp"
#include "ops/mlp/gated_linear/gated_linear.hpp"
#include "ops/mlp/gated_linear_quant_group/gated_linear_quant_group_ref.hpp"
#include "ops/mlp/matrices.hpp"

namespace dlblas::mlp {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;  // of a piece's sums

std::int64_t piece_of(std::int64_t rows, std::int64_t columns) {
  return std::min(rows,
                  std::max<std::int64_t>(1, kMaxBytes / (8 * std::max<std::int64_t>(1, columns))));
}
/// The sums of both products, [rows, 2F]; below, those of one of them.
TensorView sums_at(void* data, std::int64_t rows, std::int64_t columns, const Device& device) {
  TensorView t;
  t.data = data, t.dtype = DType::kF32, t.device = device;
  t.rank = 2, t.shape[0] = rows, t.shape[1] = 2 * columns;
  t.strides[0] = 2 * columns, t.strides[1] = 1;
  return t;
}
TensorView half_of(TensorView sums, int which) {
  sums.shape[1] /= 2;
  sums.data = static_cast<float*>(sums.data) + which * sums.shape[1];
  return sums;
}

std::vector<Part> parts(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const std::int64_t k = p.dims[kK], f = p.dims[kF], t = piece_of(p.dims[kT], f);
  alignas(256) static char nowhere[256];
  const TensorView sums = sums_at(nowhere, t, f, p.device());
  std::vector<Part> all;
  for (const int which : {0, 1})
    all.push_back({"matmul",
                   {{p.tensors[kX], {t, k}},
                    {exchanged(p.tensors[kGate + which]), {k, f}},
                    {"out_dtype", "f32"}},
                   {{traits_of(half_of(sums, which)), {t, f}}}});
  all.push_back(
      {"silu_and_mul_quant_group",
       {{DType::kF32, {t, 2 * f}}},
       {{p.tensors[kCodesQ], {t, f}}, {p.tensors[kCodesScale], {t, ceil_div(f, kCodesGroup)}}}});
  return all;
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const std::int64_t rows = args.letters[kT], columns = args.letters[kF];
  const std::int64_t piece = piece_of(rows, columns);
  const auto some = [&](int tensor, std::int64_t first, std::int64_t count) {
    TensorView t = flat(args.tensors[tensor]);
    t.data = static_cast<char*>(t.data) + first * t.strides[0] * size_of(t.dtype);
    t.shape[0] = count;
    return t;
  };
  for (std::int64_t first = 0; first < rows; first += piece) {
    const std::int64_t count = std::min(piece, rows - first);
    const TensorView x = some(kX, first, count), q = some(kCodesQ, first, count),
                     scale = some(kCodesScale, first, count);
    const TensorView sums = sums_at(workspace, count, columns, x.device);
    for (const int which : {0, 1})
      kernel.part(which)({x, exchanged(args.tensors[kGate + which]), {"out_dtype", "f32"}},
                         {half_of(sums, which)}, context, workspace);
    kernel.part(2)({sums}, {q, scale}, context, workspace);
  }
  return 0;
}

/// The products at the dtype's rate, or reading the weights; then writing and reading the sums.
double estimate(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const double sums = 8.0 * static_cast<double>(p.dims[kT]) * static_cast<double>(p.dims[kF]);
  if (p.device_type == DeviceType::kCpu) {
    const Rates rates = unit_rates(q.device);
    return 1e3 * (2 * multiply_adds(p) / rates.f32_flops + 2 * sums / rates.cache_bytes_per_s) /
               std::max<int>(1, p.threads) +
           0.02;
  }
  constexpr double kProducts = 0.93, kMemory = 0.8;  // as gated_linear's
  const double memory = kMemory * memory_bytes_per_s(q.device);
  return 1e3 * (std::max(2 * multiply_adds(p) / (kProducts * flops(q.device, p.tensors[kX].dtype)),
                         bytes_of_weights(p) / memory) +
                2 * sums / memory + 3 * launch_s(q.device) + 3e-6);
}

void append_composed_codes(std::vector<Implementation>& to) {
  Implementation impl;
  impl.source_hash = source_hash<"ops/mlp/gated_linear_quant_group/gated_linear_quant_group.cpp">();
  impl.flags = {.deterministic = true, .capturable = true};
  impl.supports = [](const Query&) { return Support::yes(); };
  impl.parts = parts;
  impl.estimate = estimate;
  impl.prepare = [](const Query& q, const Config&) {
    const std::int64_t f = q.problem.dims[kF];
    return make_kernel({run}, 0, static_cast<std::size_t>(8 * piece_of(q.problem.dims[kT], f) * f));
  };
  for (const DeviceType backend : {DeviceType::kCpu, DeviceType::kCuda}) {
    impl.backend = backend;
    impl.name = backend == DeviceType::kCpu ? "composed" : "cuda_composed";
    to.push_back(impl);
  }
}

}  // namespace

OperatorDef gated_linear_quant_group();
OperatorDef gated_linear_quant_group() {
  OperatorDef def;
  def.family = "mlp";
  def.schema =
      "gated_linear_quant_group(x: f[*T, K], w_gate: like(x)[F, K], w_up: like(x)[F, K]) -> "
      "(q: f8e4m3[*T, F], scale: f32[*T, F/128]) where T: bucket(tokens)";
  def.formula =
      "y = silu(x · w_gateᵀ) ⊙ (x · w_upᵀ); scale = max |y| / 448 of 128 columns; "
      "q = round(y / scale)";
  def.letters = {"T", "K", "F"};
  kernels::set_row_oracle<gated_linear_quant_group_row<kernels::HostRow>>(def);
  def.bound = [](const Problem&, int judged) {
    return judged == 0 ? quant::quantize_bound(judged)
                       : Bound{.magnitude = kRounding, .value = kRounding};
  };
  def.check = [](const Args& args) { check_rows(args, {kX, kCodesQ, kCodesScale}); };
  def.work_per_row = [](const Problem& p) {
    return 6.0 * static_cast<double>(p.dims[kK]) * static_cast<double>(p.dims[kF]);
  };
  append_composed_codes(def.implementations);
  static const kernels::ProductOp program = {
      .include = "ops/mlp/gated_linear_quant_group/gated_linear_quant_group.cuh",
      .program = "dlblas::mlp::GatedLinearQuantGroup<dlblas::DeviceMath>",
      .hash = source_hash<"ops/mlp/gated_linear_quant_group/gated_linear_quant_group.cpp">(),
      .x = kX,
      .weights = {kGate, kUp},
      .y = kCodesQ,
      .rows = kT,
      .depth = kK,
      .columns = kF,
      .parts = 2,
      .group = static_cast<int>(kCodesGroup),
      .scale = kCodesScale};
  kernels::append_product_wgmma(def.implementations, program);
  return def;
}

}  // namespace dlblas::mlp
