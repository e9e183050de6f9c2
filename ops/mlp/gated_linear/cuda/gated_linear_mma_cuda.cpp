// The tensor-core gated_linear for sm_80 and later: which configurations are worth searching, the
// estimated time of one, and its launch. Tiles count the columns of both weights, which
// alternate. In: a Problem of f16 or bf16, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next:
// device/gemm/mma_mainloop.cuh, gated_linear_epilogue.cuh.
#include <algorithm>
#include <cmath>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/wgmma_space.hpp"
#include "ops/mlp/gated_linear/cuda/gated_linear_cuda.hpp"

namespace dlblas::mlp {
namespace {

constexpr int kMaxCarriedSums = 3072;  // of a warp: more spill on sm_90

std::int64_t blocks_of(const Problem& p, const GemmMmaConfig& c) {
  return ceil_div(p.dims[kT], c.block_m) * ceil_div(2 * p.dims[kF], c.block_n);
}
int blocks_a_unit(const GemmMmaConfig& c, std::int32_t span, const DeviceInfo& device) {
  const int registers = c.warp_m() * c.warp_n() / 32 + (c.warp_m() + c.warp_n()) / 2 + 40;
  return std::clamp<int>(device.shared_bytes_per_unit / (c.shared_bytes(span) + 1024), 1,
                         std::max(1, 65536 / (c.threads() * registers)));
}

struct Mma : kernels::CudaForm<GatedGpuTraits, GemmMmaConfig> {
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
  static std::int32_t span(const Problem& p) { return kernels::tensor_core_span(p.dims[kK]); }
  static GatedGpuTraits traits(const Query& q, const GemmMmaConfig&) {
    return gated_traits(q.problem, 0, span(q.problem));
  }
  static Support supports(const Query& q) { return supports_tensor_cores(q.problem); }
  static Support same_bits(const Query& q) {
    if (tensor_cores_take_any_batch(q.problem)) return Support::yes();
    return Support::no("another batch may have a layout that only cuda_fma takes");
  }

  static void constrain(const Query& q, Space& space) {
    const Problem p = q.problem;
    const DeviceInfo device = q.device;
    const std::int64_t m = p.dims[kT], n = 2 * p.dims[kF];
    const std::int32_t carried = span(p);
    space.require(table(), "tile_wastes_little", {"block_m", "block_n"},
                  [m, n](const GemmMmaConfig& c) {
                    return (c.block_m == 16 || 2 * round_up(m, c.block_m) <= 3 * round_up(m, 16)) &&
                           (c.block_n == 32 || 2 * round_up(n, c.block_n) <= 3 * round_up(n, 32));
                  });
    space.require(table(), "warps_suit_tile", {"block_m", "block_n", "warps_m", "warps_n"},
                  [carried](const GemmMmaConfig& c) {
                    GemmMmaConfig o = c;
                    o.block_k = 64, o.stages = 2, o.split_k = 1;
                    if (!valid(o) || (carried > 0 && c.warp_m() * c.warp_n() > kMaxCarriedSums))
                      return false;
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
                  [p, units = device.units](const GemmMmaConfig& c) {
                    return (c.group_m > 1) ==
                           (ceil_div(p.dims[kT], c.block_m) > 4 && blocks_of(p, c) > units);
                  });
  }

  /// A short form of matmul's model: the fullest multiprocessor runs its blocks one after another,
  /// each bound by its multiply-adds or its copies; memory bounds the whole.
  static double milliseconds(const Query& q, const GemmMmaConfig& c) {
    const Problem& p = q.problem;
    const DeviceInfo& device = q.device;
    const double peak = (device.arch >= 90 ? 0.6964 : 0.917) * unit_rates(device).half_flops / 2;
    const double reuse = 1.0 * c.warp_m() * c.warp_n() / (c.warp_m() + c.warp_n());
    const int side_by_side = blocks_a_unit(c, span(p), device);
    const double together = side_by_side * c.threads() < 256 ? 0.82 : c.threads() < 256 ? 0.95 : 1;
    const double rate = peak * std::min(1.0, 0.45 + 0.55 * reuse / 32) * together;
    const auto blocks = static_cast<double>(std::max<std::int64_t>(1, blocks_of(p, c)));
    const double at_once = 1.0 * device.units * side_by_side;
    const double full = std::floor(blocks / at_once);
    const double in_turn =
        full * side_by_side + std::ceil((blocks - full * at_once) / device.units);
    const double depth = static_cast<double>(p.dims[kK]) + (side_by_side < 2 ? 190 : 60);
    const double products = in_turn * depth * c.block_m * c.block_n / rate;
    const double in_flight =
        std::min(blocks, at_once) * (c.stages - 1) * 2.0 * 64 * (c.block_m / 4.0 + c.block_n);
    // Copies from L2 to one multiprocessor; each row of blocks reads the weights again.
    const double copies =
        in_turn * depth * 2 * (c.block_m + c.block_n) / unit_rates(device).alone_bytes_per_s;
    const double again =
        1 + 0.3 * std::min(3.0, static_cast<double>(ceil_div(p.dims[kT], c.block_m)) - 1);
    // 1 to 16 rows, 235 MB: 59.6 to 60.2 µs on an H200 where cuda_wgmma took 63.6, 26 November
    // 2026. Taller tiles have not been timed since: their share is that of the previous form.
    const double part = c.block_m == 16 ? 0.99 : 0.62;
    const double memory =
        again * bytes_of(p) / std::min(part * memory_bytes_per_s(device), in_flight / 1.6e-6);
    return 1e3 * (std::max({products, copies, memory}) + 0.05 * copies + 3.7e-6) - 1e-9 * c.stages;
  }
  static GemmMmaConfig preset(const Query& q) {
    return kernels::least_estimate<Mma>(q, {16, 32, 64, 2, 1, 2, 1, 1});
  }

  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(s.traits.gemm.span);
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {
        {"ops/mlp/gated_linear/cuda/gated_linear_mma.cuh",
         kernels::gemm_entry("dlblas::gemm_mma", s.traits.gemm,
                             table().literal(table().to_config(s.config), "dlblas::GemmMmaConfig"),
                             gated_text("GatedEpilogue", s.traits.gated)),
         s.shared_bytes}};
  }
  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const State& s = kernel.load<State>();
    const GemmMmaConfig& c = s.config;
    GatedGpuParams p = gated_params(args);
    if (const int code = align_weights(args, context, p.gemm)) return code;
    cuda::Launch how;
    how.grid.x =
        static_cast<unsigned>(ceil_div(p.gemm.m, c.block_m) * ceil_div(2 * p.gemm.n, c.block_n));
    how.block.x = static_cast<unsigned>(c.threads());
    how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
    how.dependent = s.dependent;
    return cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

}  // namespace

void append_mma_cuda(std::vector<Implementation>& to) {
  to.push_back(kernels::make_cuda<Mma>(
      "cuda_mma", source_hash<"ops/mlp/gated_linear/cuda/gated_linear_mma_cuda.cpp">()));
}

}  // namespace dlblas::mlp
