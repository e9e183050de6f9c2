// Calls of the WGMMA forms of grouped products; see grouped_wgmma.hpp.
// Flow: call > validate > [select] > compile > [launch].  Read next: device/gemm/wgmma_groups.cuh.
#include <algorithm>
#include <cmath>

#include "core/rates.hpp"
#include "kernels/gemm_wgmma.hpp"
#include "ops/gemm/grouped/grouped_wgmma.hpp"
#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"

namespace dlblas::gemm {
namespace {

/// The same matrix, `elements` further on.
Columns from_element(Columns c, std::int64_t elements, DType type) {
  c.data = static_cast<const char*>(c.data) + elements * size_of(type);
  return c;
}

bool one_pitch(const TensorTraits& t) {
  return t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided;
}

kernels::WgmmaMatrix wgmma_matrix(const Columns& m) { return {m.data, m.rows, m.cols, m.pitch}; }

}  // namespace

Support supports_grouped_wgmma(const GroupedOp& op, const Problem& p) {
  if (!one_pitch(p.tensors[kGroupedA]))
    return Support::no("rows of {} are not at one pitch", tensor(kGroupedA));
  return supports_grouped_result(op, p);
}

Support supports_grouped_result(const GroupedOp& op, const Problem& p) {
  constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1, kMaxGroups = 1024;
  const TensorTraits& out = p.tensors[op.out];
  const std::int64_t m = p.dims[op.m], n = p.dims[op.n], k = p.dims[op.k],
                     groups = p.dims[op.groups];
  if (m == 0 || n == 0 || k == 0 || groups == 0) return Support::no("a dimension is zero");
  if (!one_pitch(out) || out.align_log2 < kAlignCap)
    return Support::no("rows of {} are not at one pitch of 16 bytes", tensor(op.out));
  const std::int64_t whole = 16 / size_of(out.dtype);
  if (n % whole != 0)
    return Support::no("N = {} is not a multiple of {}: rows of {} are no multiples of 16 bytes", n,
                       whole, tensor(op.out));
  if (groups > kMaxGroups) return Support::no("{} groups: at most {}", groups, kMaxGroups);
  const std::int64_t rows = op.kind == GroupKind::kRows ? m : groups * m;
  const std::int64_t tiles = (rows / 64 + groups) * ((n + 127) / 128);
  if (rows > kMax || k > kMax || tiles > kMax)
    return Support::no("rows of all groups, or their tiles, are more than 31 bits count");
  if (op.gathers() && p.dims[op.sources] > kMax)
    return Support::no("{} rows of a: at most {}", p.dims[op.sources], kMax);
  return Support::yes();
}

int multiply_groups(const GroupedOp& op, const Args& args, const GroupedProduct& p,
                    const GroupedWgmmaForm& form, const Context& context,
                    const cuda::Function& kernel,
                    const std::function<void(GroupedWgmmaCall&)>& finish) {
  const GemmWgmmaConfig& c = *form.tile;
  const bool by_depth = op.kind == GroupKind::kDepth, plain_b = form.b_by_depth;
  const std::int64_t rows = op.kind == GroupKind::kRows ? p.m : p.groups * p.m;
  // The rows of all groups have one pitch; groups of a single row are one group stride apart.
  const std::int64_t out_pitch = p.m > 1 ? p.out.row : p.out.group;
  const Columns a = by_depth ? Columns{p.a.data, p.m, p.k, p.a.col}
                             : Columns{p.a.data, p.k, rows, p.m > 1 ? p.a.row : p.a.group};
  const Columns out{p.out.data, p.n, rows, out_pitch};
  Columns b = plain_b ? Columns{p.b.data, p.k, p.n, p.b.col} : Columns{p.b.data, p.n, p.k, p.b.row};
  const Columns all_of_b{b.data, b.rows, (by_depth ? 1 : p.groups) * b.cols, b.pitch};
  std::int64_t apart = p.b.group;
  const bool gathers = op.gathers();  // then a has no map: any pitch will do
  const Columns o[] = {gathers ? a : stand_in(a, form.type, context, 8),
                       stand_in(out, form.out_type, context, 8)};
  if ((!o[0].data && !gathers) || !o[1].data) return kNoMemory;
  if (o[0].data != a.data) copy_columns(a, o[0], form.type, context.stream);
  if (o[1].data != out.data)
    copy_columns(out, o[1], form.out_type, context.stream);  // rows of no group
  if (!b.fits() || (p.groups > 1 && apart < 0)) {
    const Columns to = packed(all_of_b, form.type, context, 8);
    if (!to.data) return kNoMemory;
    for (std::int64_t e = 0; e < all_of_b.cols / b.cols; ++e)
      copy_columns(
          from_element(b, e * apart, form.type),
          from_element({to.data, b.rows, b.cols, to.pitch}, e * b.cols * to.pitch, form.type),
          form.type, context.stream);
    b = {to.data, b.rows, b.cols, to.pitch}, apart = b.cols * to.pitch;
  }
  kernels::WgmmaMatrix b_map = wgmma_matrix(b);
  if (!by_depth) b_map.count = p.groups, b_map.apart = apart;
  const kernels::WgmmaProduct product = {.type = form.type,
                                         .out_type = form.out_type,
                                         .a = gathers ? kernels::WgmmaMatrix{} : wgmma_matrix(o[0]),
                                         .b = {b_map, {}},
                                         .out = wgmma_matrix(o[1]),
                                         .a_by_depth = form.a_by_depth,
                                         .b_by_depth = plain_b,
                                         .parts = 1,
                                         .m = by_depth ? p.m : rows,
                                         .n = p.n,
                                         .k = p.k};
  GroupedWgmmaCall call{};
  cuda::Launch how;
  if (const int code = kernels::prepare_wgmma(product, c, form.units, call.product, how))
    return code;
  const GroupedGpuParams plain = grouped_gpu_params(op, args);
  call.groups = plain.groups;
  if (gathers)
    call.product.operands[kGroupGatheredA] = {const_cast<void*>(plain.gemm.a), plain.gemm.a_row};
  call.out = {const_cast<void*>(o[1].data), o[1].pitch, 1};
  finish(call);
  const std::int64_t blocks = grouped_blocks(op, p.m, p.n, p.groups, c.block_m, c.block_n);
  how.grid.x = static_cast<unsigned>(std::min<std::int64_t>(blocks, form.units));
  how.shared_bytes = static_cast<unsigned>(form.shared_bytes);
  how.dependent = form.dependent;
  const int code = cuda::launch(kernel, how, call, context.stream);
  if (code == 0 && o[1].data != out.data) copy_columns(o[1], out, form.out_type, context.stream);
  return code;
}

double grouped_wgmma_ms(const Query& q, const GroupedOp& op, const GemmWgmmaConfig& c,
                        const GroupedTileTime& t) {
  const double tiles = std::max(1.0, grouped_tiles(op, q.problem, c.block_m, c.block_n));
  const double depth = op.kind == GroupKind::kDepth ? grouped_average(op, q.problem)
                                                    : static_cast<double>(q.problem.dims[op.k]);
  const double products = 2.0 * c.block_m * c.block_n * depth / (t.part * t.flops);
  const double copies =
      t.bytes * (c.block_m + c.block_n) * depth / (1.33 * unit_rates(q.device).alone_bytes_per_s);
  const double turns =
      std::max(std::ceil(tiles / q.device.units) * 0.5 + 0.5 * tiles / q.device.units, 1.0);
  constexpr double kReached = 0.85;
  const double memory = grouped_bytes(op, q.problem) / (kReached * memory_bytes_per_s(q.device));
  const double stages = t.stage * std::ceil(depth / c.block_k);
  const double product = turns * (std::max({products, copies, stages}) + t.turn) + t.once;
  return 1e3 * (std::max(product, memory) + 0.1 * std::min(product, memory) + 3e-6);
}

}  // namespace dlblas::gemm
