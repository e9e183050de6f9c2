// Tensor maps, grids and entries of the WGMMA form; see gemm_wgmma.hpp.
#include "kernels/gemm_wgmma.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "kernels/gemm_cuda.hpp"

namespace dlblas::kernels {
namespace {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// What one copy moves: a box of `inner` × `outer`.
struct Box {
  int inner, outer;
  cuda::Swizzle swizzle = cuda::Swizzle::k128;
};

int encode(TensorMap& map, const WgmmaMatrix& x, DType type, const Box& box) {
  cuda::TensorMapSpec spec;
  spec.dtype = type;
  spec.data = x.data;
  spec.sizes[0] = static_cast<std::uint64_t>(x.inner);
  spec.sizes[1] = static_cast<std::uint64_t>(x.outer);
  // The stride of a single row is never used, but the driver checks it.
  const std::int64_t pitch = x.outer <= 1 ? ceil_div(x.inner, 16) * 16 : x.pitch;
  spec.strides_bytes[0] = static_cast<std::uint64_t>(pitch * size_of(type));
  if (x.count > 0) {
    spec.rank = 3;
    const std::int64_t apart = x.count == 1 ? pitch * x.outer : x.apart;
    spec.sizes[2] = static_cast<std::uint64_t>(x.count);
    spec.strides_bytes[1] = static_cast<std::uint64_t>(apart * size_of(type));
    spec.box[2] = 1;
  }
  spec.box[0] = static_cast<std::uint32_t>(box.inner);
  spec.box[1] = static_cast<std::uint32_t>(box.outer);
  spec.swizzle = box.swizzle;
  return cuda::encode_tensor_map(map, spec);
}

/// Rows of 128 bytes along K, or along M or N.
Box operand_box(const GemmWgmmaConfig& c, DType type, bool by_depth, int block, bool is_shared) {
  return {128 / size_of(type), (by_depth ? block : c.block_k) / (is_shared ? c.cluster : 1)};
}

Box result_box(const GemmWgmmaConfig& c, int columns, DType type, bool folded) {
  const int segment =
      folded ? kGemmFoldPiece : gemm_segment(columns, c.swapped ? 64 : 128 / size_of(type));
  if (c.swapped) return {64, segment};
  switch (segment * size_of(type)) {
    case 128:
      return {segment, 64};
    case 64:
      return {segment, 64, cuda::Swizzle::k64};
    case 32:
      return {segment, 64, cuda::Swizzle::k32};
    default:
      return {segment, 64, cuda::Swizzle::kNone};
  }
}

/// Workers that a device of so many multiprocessors holds: blocks, or clusters.
std::int64_t workers_at_once(const GemmWgmmaConfig& c, int units) {
  return std::max(1, units / c.cluster);
}
/// Bytes of the blocks' counters, before their sums.
std::size_t counter_bytes(const GemmWgmmaConfig& c, int units) {
  const auto blocks = static_cast<std::size_t>(workers_at_once(c, units) * c.cluster);
  return (blocks * sizeof(std::uint32_t) + 255) / 256 * 256;
}

}  // namespace

std::size_t wgmma_room_bytes(const GemmWgmmaConfig& c, int units) {
  if (!c.stream) return 0;
  const auto blocks = static_cast<std::size_t>(workers_at_once(c, units) * c.cluster);
  return counter_bytes(c, units) + blocks * static_cast<std::size_t>(c.block_m * c.block_n) * 4;
}

GemmStreamPlan wgmma_stream(const GemmWgmmaConfig& c, std::int64_t tiles_m, std::int64_t tiles_n,
                            std::int64_t k, int units) {
  const std::int64_t of_a_row = ceil_div(tiles_n, c.share == GemmShare::kA ? c.cluster : 1);
  const std::int64_t of_a_column = ceil_div(tiles_m, c.share == GemmShare::kB ? c.cluster : 1);
  return plan_stream(of_a_row * of_a_column, ceil_div(k, c.block_k), workers_at_once(c, units));
}

int prepare_wgmma(const WgmmaProduct& p, const GemmWgmmaConfig& c, int units, GemmWgmmaCall& call,
                  cuda::Launch& how, void* room, void* stream) {
  const bool share_a = c.share == GemmShare::kA, share_b = c.share == GemmShare::kB;
  const int columns = c.block_n / p.parts;  // of D in a tile
  call.absent = 0;
  // A tile of all rows of the product's a: rows past the end would be copied as zeros, which takes
  // as long as reading them. Their sums are not stored, so what lies there does not matter.
  const auto shorten = [&](Box& box, bool by_depth, bool is_shared) {
    const int there = static_cast<int>(std::min<std::int64_t>(box.outer, ceil_div(p.m, 8) * 8));
    if (!by_depth || is_shared || there == box.outer) return;
    call.absent = (box.outer - there) * c.block_k * 2;
    box.outer = there;
  };
  const WgmmaMatrix& a = c.swapped ? p.b[0] : p.a;
  const bool a_by_depth = c.swapped ? p.b_by_depth : p.a_by_depth;
  const bool b_by_depth = c.swapped ? p.a_by_depth : p.b_by_depth;
  Box of_a = operand_box(c, p.type, a_by_depth, c.block_m, share_a);
  if (!c.swapped) shorten(of_a, a_by_depth, share_a);
  if (a.data)
    if (const int code = encode(call.a, a, p.type, of_a)) return code;
  for (int part = 0; part < p.parts; ++part) {
    const WgmmaMatrix& b = c.swapped ? p.a : p.b[part];
    Box box = operand_box(c, p.type, b_by_depth, columns, share_b);
    if (p.folded) box.outer = kGemmFoldPiece;
    if (c.swapped) shorten(box, b_by_depth, share_b);
    if (const int code = encode(call.b[part], b, p.type, box)) return code;
  }
  if (const int code =
          encode(call.out[0], p.out, p.out_type, result_box(c, columns, p.out_type, p.folded)))
    return code;
  const std::int64_t m = c.swapped ? p.n : p.m, n = c.swapped ? p.m : p.n;
  call.m = static_cast<std::int32_t>(m), call.n = static_cast<std::int32_t>(n);
  call.k = static_cast<std::int32_t>(p.k);
  const std::int64_t tiles_m = ceil_div(m, c.block_m), tiles_n = ceil_div(n, columns);
  call.units_m = static_cast<std::int32_t>(ceil_div(tiles_m, share_b ? c.cluster : 1));
  call.units_n = static_cast<std::int32_t>(ceil_div(tiles_n, share_a ? c.cluster : 1));
  call.group = c.group_m;
  // Persistent blocks; a cluster that shares K computes one tile.
  const std::int64_t clusters = std::int64_t{call.units_m} * call.units_n;
  std::int64_t workers =
      c.share == GemmShare::kK ? clusters : std::min(clusters, workers_at_once(c, units));
  if (c.stream) {
    const GemmStreamPlan plan = wgmma_stream(c, tiles_m, tiles_n, p.k, units);
    auto* const counters = static_cast<char*>(room);
    call.stream = {reinterpret_cast<float*>(counters + counter_bytes(c, units)),
                   reinterpret_cast<std::uint32_t*>(counters), plan.stream};
    workers = plan.workers;
    if (plan.stream.splits()) cuda::fill_bytes(room, 0, counter_bytes(c, units), stream);
  }
  how.grid.x = static_cast<unsigned>(workers * c.cluster);
  how.block.x = static_cast<unsigned>(c.threads());
  how.cluster = static_cast<unsigned>(c.cluster);
  return 0;
}

std::string wgmma_entry(GemmTraits traits, GemmWgmmaConfig config, std::string_view program,
                        std::string_view kernel) {
  if (config.swapped) std::swap(traits.a_by_depth, traits.b_by_depth);
  traits.a_whole = traits.b_whole = traits.aligned = true;
  traits.rows = 0;
  config.group_m = 8;
  const auto& table = wgmma_table();
  return gemm_entry(kernel, traits,
                    table.literal(table.to_config(config), "dlblas::GemmWgmmaConfig"), program);
}

const ConfigTable<GemmWgmmaConfig>& wgmma_table() {
  using C = GemmWgmmaConfig;
  static const auto* t = new ConfigTable<C>{
      field<&C::swapped>("swapped", {0, 1}),
      field<&C::block_m>("block_m", {64, 128, 192, 256}),
      field<&C::block_n>("block_n", {8,   16,  24,  32,  40,  48,  56,  64,  72,  80,  88,
                                     96,  104, 112, 120, 128, 136, 144, 152, 160, 168, 176,
                                     184, 192, 200, 208, 216, 224, 232, 240, 248, 256}),
      field<&C::block_k>("block_k", {64, 128, 256}),
      field<&C::warpgroups>("warpgroups", {1, 2, 3}),
      field<&C::pingpong>("pingpong", {0, 1}),
      field<&C::share>("share", {0, 1, 2, 3}, {"none", "a", "b", "k"}),
      field<&C::cluster>("cluster", {1, 2, 4}),
      field<&C::stages>("stages", {2, 3, 4, 5, 6, 7, 8}),
      field<&C::weight_once>("weight_once", {0, 1}),
      field<&C::group_m>("group_m", {8, 16}),
      field<&C::stream>("stream", {0, 1}),
  };
  return *t;
}

}  // namespace dlblas::kernels
