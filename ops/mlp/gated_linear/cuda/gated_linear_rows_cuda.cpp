// The few-row gated_linear on GPUs (decoding): at most 16 rows, both weights stream from memory
// once. In: a Problem of f16 or bf16. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].
// Read next: device/gemm/rows_mainloop.cuh, gated_linear_epilogue.cuh.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/mlp/gated_linear/cuda/gated_linear_cuda.hpp"

namespace dlblas::mlp {
namespace {

constexpr int kMaxRows = 16;  // of one tensor-core instruction
constexpr int kDepth = 32;    // of a tile of K

/// 32-bit registers per thread for the loads in flight and the sums.
std::int64_t words_in_flight(const GemmRowsConfig& c, const Problem& p) {
  const int rows = p.dims[kT] <= 8 ? 1 : 2;
  return std::int64_t{c.unroll} * (c.columns / 8 * 4 + rows * 4) + c.columns / 2;
}

/// `columns` counts the columns of both weights, which alternate.
struct FewRows : kernels::CudaForm<GatedGpuTraits, GemmRowsConfig> {
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

  static GatedGpuTraits traits(const Query& q, const GemmRowsConfig& c) {
    const Problem& p = q.problem;
    constexpr std::int64_t kShort = 1024;  // as exact as cuBLAS, which splits K
    const bool carries = ceil_div(p.dims[kK], c.warps) > kShort;
    return gated_traits(p, p.dims[kT] <= 8 ? 8 : kMaxRows, carries ? kShort : 0);
  }

  static void constrain(const Query& q, Space& space) {
    space.require(table(), "registers_suffice", [p = q.problem](const GemmRowsConfig& c) {
      return words_in_flight(c, p) <= (c.warps == 16 ? 88 : 160);
    });
    space.require(table(), "every_warp_has_work", {"warps", "unroll"},
                  [k = q.problem.dims[kK]](const GemmRowsConfig& c) {
                    return (c.warps == 4 && c.unroll == 1) ||
                           std::int64_t{c.warps - 1} * c.unroll * kDepth < k;
                  });
  }

  /// matmul's preset for twice the columns.
  static GemmRowsConfig preset(const Query& q) {
    const Problem& p = q.problem;
    GemmRowsConfig c{16, 16, 2};
    if (ceil_div(2 * p.dims[kF], c.columns) < q.device.units) c = {8, 16, 4};
    const auto idles = [&] { return std::int64_t{c.warps - 1} * c.unroll * kDepth >= p.dims[kK]; };
    while (c.unroll > 1 && idles()) c.unroll /= 2;
    while (c.warps > 4 && idles()) c.warps /= 2;
    return c;
  }

  static double milliseconds(const Query& q, const GemmRowsConfig& c) {
    const Problem& p = q.problem;
    const auto blocks =
        static_cast<double>(std::max<std::int64_t>(1, ceil_div(2 * p.dims[kF], c.columns)));
    const double rows = static_cast<double>(std::max<std::int64_t>(1, p.dims[kT]));
    const double x_again =
        0.1 * blocks * rows * static_cast<double>(p.dims[kK]) * 2 / cache_bytes_per_s(q.device);
    const double warps = std::min(32.0, blocks / q.device.units * c.warps);
    const double in_flight = warps * c.unroll * c.columns * 64;
    const double busy =
        std::min(1.0, in_flight / 56e3) * (blocks < 1.5 * q.device.units ? 0.75 : 1);
    // Two streams per column: an H200 read 235 MB at 2.5 TB/s, WGMMA at 3.5 (November 2026).
    constexpr double kMemory = 0.53;
    return 1e3 * (bytes_of(p) / (kMemory * memory_bytes_per_s(q.device) * busy) + x_again + 3e-6);
  }

  static Support supports(const Query& q) {
    const Problem& p = q.problem;
    if (p.dims[kT] > kMaxRows)
      return Support::no("{} has more than {} rows (bucket {})", tensor(kX), kMaxRows, p.dims[kT]);
    if (p.dims[kK] % 8 != 0) return Support::no("K = {} is not a multiple of 8", p.dims[kK]);
    return supports_tensor_cores(p);
  }

  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(s.traits.gemm.span);
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {
        {"ops/mlp/gated_linear/cuda/gated_linear_rows.cuh",
         kernels::gemm_entry("dlblas::gemm_rows", s.traits.gemm,
                             table().literal(table().to_config(s.config), "dlblas::GemmRowsConfig"),
                             gated_text("GatedEpilogue", s.traits.gated)),
         s.shared_bytes}};
  }
  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const State& s = kernel.load<State>();
    GatedGpuParams p = gated_params(args);
    if (const int code = align_weights(args, context, p.gemm)) return code;
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(ceil_div(2 * p.gemm.n, s.config.columns));
    how.block.x = static_cast<unsigned>(s.config.threads());
    how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
    how.dependent = s.dependent;
    return cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

}  // namespace

void append_rows_cuda(std::vector<Implementation>& to) {
  to.push_back(kernels::make_cuda<FewRows>(
      "cuda_rows", source_hash<"ops/mlp/gated_linear/cuda/gated_linear_rows_cuda.cpp">()));
}

}  // namespace dlblas::mlp
