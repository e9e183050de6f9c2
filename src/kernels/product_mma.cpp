// Product programs on tensor cores for sm_80 and later: which configurations are worth a search,
// their expected times, and the launch. Tiles count the columns of all parts, which alternate. In:
// a Problem of f16 or bf16, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next:
// device/gemm/mma_mainloop.cuh, device/gemm/product.cuh.
#include <algorithm>
#include <cmath>

#include "core/integers.hpp"
#include "core/rates.hpp"
#include "kernels/cuda_form.hpp"
#include "kernels/gemm_cuda.hpp"
#include "kernels/product.hpp"
#include "kernels/wgmma_space.hpp"

namespace dlblas::kernels {
namespace {

constexpr int kMaxCarriedSums = 3072;  // of a warp: more spill on sm_90

/// N counts the columns of all parts.
GemmSize whole_size(const Query& q) {
  GemmSize s = product_size(q);
  s.n *= q.user<ProductOp>().parts;
  return s;
}
std::int64_t blocks_of(const GemmSize& s, const GemmMmaConfig& c) {
  return ceil_div(s.m, c.block_m) * ceil_div(s.n, c.block_n);
}
int blocks_a_unit(const GemmMmaConfig& c, std::int32_t span, const DeviceInfo& device) {
  const int registers = c.warp_m() * c.warp_n() / 32 + (c.warp_m() + c.warp_n()) / 2 + 40;
  return std::clamp<int>(device.shared_bytes_per_unit / (c.shared_bytes(span) + 1024), 1,
                         std::max(1, 65536 / (c.threads() * registers)));
}

struct Mma : CudaForm<GemmTraits, GemmMmaConfig> {
  static constexpr bool kDependent = true;
  static const ConfigTable<GemmMmaConfig>& table() {
    using C = GemmMmaConfig;
    static const auto* t = new ConfigTable<C>{
        field<&C::block_m>("block_m", {16, 32, 64, 128}),
        field<&C::block_n>("block_n", {32, 64, 128, 192}),
        field<&C::block_k>("block_k", {64}),
        field<&C::stages>("stages", {2, 3, 4, 6}),
        field<&C::warps_m>("warps_m", {1, 2, 4}),
        field<&C::warps_n>("warps_n", {1, 2, 4}),
        field<&C::group_m>("group_m", {1, 4}),
        field<&C::split_k>("split_k", {1}),
    };
    return *t;
  }
  static std::int32_t span(const Query& q) { return tensor_core_span(product_size(q).k); }
  static GemmTraits traits(const Query& q, const GemmMmaConfig&) {
    return product_gemm_traits(q, 0, span(q));
  }
  static Support supports(const Query& q) {
    if (const Support columns = mma_has_columns(q); !columns) return columns;
    // Decided by the weight alone, which all batches share: a row has the same bits in each of
    // them.
    if (columns_together(q) >= 128 && !traits(q, {}).b_whole)
      return Support::no("rows of {} are not whole 16 bytes: pairs across 128 columns would spill",
                         tensor(q.user<ProductOp>().weights[0]));
    return product_fits_tensor_cores(q);
  }
  static Support same_bits(const Query& q) {
    if (tensor_cores_take_any_batch(q)) return Support::yes();
    return Support::no("another batch may have a layout that only cuda_fma takes");
  }

  static void constrain(const Query& q, Space& space) {
    const GemmSize s = whole_size(q);
    const DeviceInfo device = q.device;
    const std::int32_t carried = span(q), together = columns_together(q);
    space.require(
        table(), "tile_wastes_little", {"block_m", "block_n"},
        [s, together](const GemmMmaConfig& c) {
          if (together > 0) return c.block_m <= 32 || 2 * round_up(s.m, c.block_m) <= 3 * s.m;
          return (c.block_m == 16 || 2 * round_up(s.m, c.block_m) <= 3 * round_up(s.m, 16)) &&
                 (c.block_n == 32 || 2 * round_up(s.n, c.block_n) <= 3 * round_up(s.n, 32));
        });
    space.require(table(), "warps_suit_tile", {"block_m", "block_n", "warps_m", "warps_n"},
                  [carried, together](const GemmMmaConfig& c) {
                    GemmMmaConfig o = c;
                    o.block_k = 64, o.stages = 2, o.split_k = 1;
                    if (!valid(o) || (together > 0 && c.warp_n() % together != 0) ||
                        (carried > 0 && c.warp_m() * c.warp_n() > kMaxCarriedSums))
                      return false;
                    if (together > 0) return true;
                    const int warps = c.warps_m * c.warps_n, area = c.block_m * c.block_n;
                    return area <= 1024 ? warps == 2 : area >= 128 * 128 ? warps == 8 : warps == 4;
                  });
    space.require(table(), "shared_memory_fits", {"block_m", "block_n", "block_k", "stages"},
                  [carried, most = device.shared_bytes_per_block](const GemmMmaConfig& c) {
                    GemmMmaConfig o = c;
                    o.warps_m = o.warps_n = 2;
                    if (c.block_m < 32) o.warps_m = 1;
                    return o.shared_bytes(carried) <= most;
                  });
    space.require(table(), "group_matters", {"block_m", "block_n", "group_m"},
                  [s, units = device.units](const GemmMmaConfig& c) {
                    return (c.group_m > 1) ==
                           (ceil_div(s.m, c.block_m) > 4 && blocks_of(s, c) > units);
                  });
  }

  /// matmul's model in short: the blocks in turn on the fullest multiprocessor, each as long as its
  /// multiply-adds, and memory.
  static double milliseconds(const Query& q, const GemmMmaConfig& c) {
    const GemmSize s = whole_size(q);
    const DeviceInfo& device = q.device;
    const double peak = (device.arch >= 90 ? 0.6964 : 0.917) * unit_rates(device).half_flops / 2;
    const double reuse = 1.0 * c.warp_m() * c.warp_n() / (c.warp_m() + c.warp_n());
    const int side_by_side = blocks_a_unit(c, span(q), device);
    const double together = side_by_side * c.threads() < 256 ? 0.82 : c.threads() < 256 ? 0.95 : 1;
    const double rate = peak * std::min(1.0, 0.45 + 0.55 * reuse / 32) * together;
    const auto blocks = static_cast<double>(std::max<std::int64_t>(1, blocks_of(s, c)));
    const double at_once = 1.0 * device.units * side_by_side;
    const double full = std::floor(blocks / at_once);
    const double in_turn =
        full * side_by_side + std::ceil((blocks - full * at_once) / device.units);
    const double depth = static_cast<double>(s.k) + (side_by_side < 2 ? 190 : 60);
    const double products = in_turn * depth * c.block_m * c.block_n / rate;
    const double in_flight =
        std::min(blocks, at_once) * (c.stages - 1) * 2.0 * 64 * (c.block_m / 4.0 + c.block_n);
    // From L2 to one multiprocessor; weights are read again for each row of blocks.
    const double copies =
        in_turn * depth * 2 * (c.block_m + c.block_n) / unit_rates(device).alone_bytes_per_s;
    const double again = 1 + 0.3 * std::min(3.0, static_cast<double>(ceil_div(s.m, c.block_m)) - 1);
    const double part = c.block_m == 16 ? 0.99 : 0.62;  // of memory's rate, as gated_linear's
    const double memory =
        again * product_bytes(q) / std::min(part * memory_bytes_per_s(device), in_flight / 1.6e-6);
    return 1e3 * (std::max({products, copies, memory}) + 0.05 * copies + 3.7e-6) - 1e-9 * c.stages;
  }
  static GemmMmaConfig preset(const Query& q) {
    return least_estimate<Mma>(q, {16, 32, 64, 2, 1, 2, 1, 1});
  }

  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(s.traits.span);
  }
  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    return {{q.user<ProductOp>().include,
             gemm_entry("dlblas::gemm_mma", s.traits,
                        table().literal(table().to_config(s.config), "dlblas::GemmMmaConfig"),
                        product_text(q, "ProductEpilogue")),
             s.shared_bytes}};
  }
  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const State& s = kernel.load<State>();
    const auto& op = *static_cast<const ProductOp*>(s.user);
    const GemmMmaConfig& c = s.config;
    ProductGpuParams p = product_params(op, args);
    if (op.parts == 2) {
      const TensorView first = flat_rows(args.tensors[op.weights[0]]),
                       second = flat_rows(args.tensors[op.weights[1]]);
      if (p.gemm.n > 1 && first.strides[0] != second.strides[0]) {  // slow and right
        const TensorView copies[] = {packed_copy(first, context), packed_copy(second, context)};
        if (!copies[0].data || !copies[1].data) return kNoMemory;
        p.gemm.b[0] = copies[0].data, p.gemm.b[1] = copies[1].data;
        p.gemm.b_col = copies[0].strides[0];
      }
    }
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(ceil_div(p.gemm.m, c.block_m) *
                                       ceil_div(op.parts * p.gemm.n, c.block_n));
    how.block.x = static_cast<unsigned>(c.threads());
    how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
    how.dependent = s.dependent;
    return cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

// ---- few rows ----

constexpr int kMaxRows = 16;  // of one tensor-core instruction
constexpr int kDepth = 32;    // of a tile of K

/// For one part: the weight streams from memory once. Two streams per column are slower than
/// cuda_mma.
struct FewRows : CudaForm<GemmTraits, GemmRowsConfig> {
  static constexpr bool kDependent = true;
  static constexpr bool kIsDeterministic = false;  // the order of sums depends on the configuration
  static const ConfigTable<GemmRowsConfig>& table() {
    using C = GemmRowsConfig;
    static const auto* t = new ConfigTable<C>{
        field<&C::columns>("columns", {8, 16, 32}),
        field<&C::warps>("warps", {4, 8, 16}),
        field<&C::unroll>("unroll", {1, 2, 4, 8}),
    };
    return *t;
  }

  static GemmTraits traits(const Query& q, const GemmRowsConfig& c) {
    const GemmSize s = product_size(q);
    constexpr std::int64_t kShort = 1024;  // as exact as cuBLAS, which splits K
    const bool carries = ceil_div(s.k, c.warps) > kShort;
    return product_gemm_traits(q, s.m <= 8 ? 8 : kMaxRows, carries ? kShort : 0);
  }

  static void constrain(const Query& q, Space& space) {
    const GemmSize s = product_size(q);
    // 32-bit registers per thread, for the loads in flight and the sums.
    space.require(table(), "registers_suffice", [rows = s.m <= 8 ? 1 : 2](const GemmRowsConfig& c) {
      return c.unroll * (c.columns / 8 * 4 + rows * 4) + c.columns / 2 <=
             (c.warps == 16 ? 88 : 160);
    });
    space.require(table(), "every_warp_has_work", {"warps", "unroll"},
                  [k = s.k](const GemmRowsConfig& c) {
                    return (c.warps == 4 && c.unroll == 1) ||
                           std::int64_t{c.warps - 1} * c.unroll * kDepth < k;
                  });
  }
  static GemmRowsConfig preset(const Query& q) {
    const GemmSize s = product_size(q);
    GemmRowsConfig c{16, 16, 2};
    if (ceil_div(s.n, c.columns) < q.device.units) c = {8, 16, 4};
    const auto idles = [&] { return std::int64_t{c.warps - 1} * c.unroll * kDepth >= s.k; };
    while (c.unroll > 1 && idles()) c.unroll /= 2;
    while (c.warps > 4 && idles()) c.warps /= 2;
    return c;
  }
  static double milliseconds(const Query& q, const GemmRowsConfig& c) {
    const GemmSize s = product_size(q);
    const auto blocks = static_cast<double>(std::max<std::int64_t>(1, ceil_div(s.n, c.columns)));
    const double rows = static_cast<double>(std::max<std::int64_t>(1, s.m));
    const double x_again =
        0.1 * blocks * rows * static_cast<double>(s.k) * 2 / cache_bytes_per_s(q.device);
    const double warps = std::min(32.0, blocks / q.device.units * c.warps);
    const double in_flight = warps * c.unroll * c.columns * 64;
    const double busy =
        std::min(1.0, in_flight / 56e3) * (blocks < 1.5 * q.device.units ? 0.75 : 1);
    constexpr double kMemory = 0.8;  // of memory's rate; not measured yet
    return 1e3 *
           (product_bytes(q) / (kMemory * memory_bytes_per_s(q.device) * busy) + x_again + 3e-6);
  }

  static Support supports(const Query& q) {
    const GemmSize s = product_size(q);
    if (s.m > kMaxRows)
      return Support::no("{} has more than {} rows (bucket {})", tensor(q.user<ProductOp>().x),
                         kMaxRows, s.m);
    if (s.k % 8 != 0) return Support::no("K = {} is not a multiple of 8", s.k);
    return product_fits_tensor_cores(q);
  }
  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(s.traits.span);
  }
  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    return {{q.user<ProductOp>().include,
             gemm_entry("dlblas::gemm_rows", s.traits,
                        table().literal(table().to_config(s.config), "dlblas::GemmRowsConfig"),
                        product_text(q, "ProductEpilogue")),
             s.shared_bytes}};
  }
  static ProductGpuParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    const ProductGpuParams p = product_params(*static_cast<const ProductOp*>(s.user), args);
    how.grid.x = static_cast<unsigned>(ceil_div(p.gemm.n, s.config.columns));
    how.block.x = static_cast<unsigned>(s.config.threads());
    return p;
  }
};

}  // namespace

void append_product_mma(std::vector<Implementation>& to, const ProductOp& op) {
  to.push_back(make_cuda<Mma>("cuda_mma", op.hash, &op));
}

void append_product_rows(std::vector<Implementation>& to, const ProductOp& op) {
  if (op.parts == 1 && !op.pairs) to.push_back(make_cuda<FewRows>("cuda_rows", op.hash, &op));
}

}  // namespace dlblas::kernels
