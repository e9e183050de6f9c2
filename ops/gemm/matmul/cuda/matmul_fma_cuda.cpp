// The matmul that takes everything on a GPU: IEEE f32, any strides, any alignment.
// In: any Problem. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next:
// device/gemm/fma_mainloop.cuh, matmul_epilogue.cuh.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "core/rates.hpp"
#include "generated/source_hashes.hpp"
#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"

namespace dlblas::gemm {
namespace {

// Few sums: as exact as cuBLAS where that adds up one row as a tree. Many: as its products of 512
// and more. H200, 22 November 2026.
std::int32_t span(const Problem& p) {
  constexpr std::int32_t kLong = 128;
  constexpr std::int64_t kFewSums = 128 * 128;
  const bool few = !(p.flags & kDeterministic) && p.dims[kM] * p.dims[kN] <= kFewSums;
  if (few) return kShortFmaSpan;
  return p.dims[kK] > kLong ? kLong : 0;
}
struct Fma : MatmulForm<Fma, GemmFmaConfig> {
  static constexpr const char* kKernel = "dlblas::gemm_fma";
  static constexpr const char* kInclude = "ops/gemm/matmul/cuda/matmul_fma.cuh";
  static constexpr const char* kConfigName = "dlblas::GemmFmaConfig";
  static const ConfigTable<GemmFmaConfig>& table() {
    using C = GemmFmaConfig;
    static const auto* t = new ConfigTable<C>{
        field<&C::block_m>("block_m", {32, 64, 128}), field<&C::block_n>("block_n", {32, 64, 128}),
        field<&C::block_k>("block_k", {8, 16, 32}),   field<&C::thread_m>("thread_m", {4, 8}),
        field<&C::thread_n>("thread_n", {4, 8}),
    };
    return *t;
  }

  static MatmulTraits traits(const Query& q, const GemmFmaConfig&) {
    return matmul_traits(q.problem, 0, span(q.problem));
  }

  static Support supports(const Query& q) { return supports_grid(q.problem); }
  static Support same_bits(const Query& q) {
    if (!tensor_cores_take_any_batch(q.problem)) return Support::yes();
    return Support::no(
        "adds up in another order than cuda_mma, which takes any batch of such rows");
  }

  static void constrain(const Query& q, Space& space) {
    const std::int64_t m = q.problem.dims[kM], n = q.problem.dims[kN];
    space.require(table(), "block_m_distinct", {"block_m"},
                  [m](const GemmFmaConfig& c) { return c.block_m == 32 || c.block_m / 2 < m; });
    space.require(table(), "block_n_distinct", {"block_n"},
                  [n](const GemmFmaConfig& c) { return c.block_n == 32 || c.block_n / 2 < n; });
    space.require(table(), "threads_divide_tiles", [](const GemmFmaConfig& c) { return valid(c); });
    space.require(table(), "shared_memory_fits", {"block_m", "block_n", "block_k"},
                  [most = q.device.shared_bytes_per_block, length = span(q.problem)](
                      const GemmFmaConfig& c) { return c.shared_bytes(length) <= most; });
  }

  static double milliseconds(const Query& q, const GemmFmaConfig& c) {
    const Problem& p = q.problem;
    // Multiply-adds a second of one multiprocessor: fewer where a thread's tile is small and loads
    // take their turns. H200, 2048³, 21 November 2026: 39 TFLOP/s with 8×8 per thread, 36 with 8×4,
    // 29 with 4×4 (cuBLAS 48).
    const double reuse = 1.0 * c.thread_m * c.thread_n / (c.thread_m + c.thread_n);
    const double rate = unit_rates(q.device).f32_flops / 2 * std::min(1.0, 0.37 + 0.1 * reuse);
    const double blocks = static_cast<double>(ceil_div(p.dims[kM], c.block_m)) *
                          static_cast<double>(ceil_div(p.dims[kN], c.block_n));
    const int fitting = std::max(1, 512 / c.threads());
    const double waves = std::ceil(blocks / (q.device.units * fitting)) * fitting;
    const double depth = static_cast<double>(p.dims[kK]) + c.block_k;
    // A lone block of few threads waits for every load.
    const double alone = depth / c.block_k * 1.5e-6;
    const double products = waves * depth * c.block_m * c.block_n / rate;
    return 1e3 *
           (std::max({products, alone, matmul_bytes(p) / memory_bytes_per_s(q.device)}) + 4e-6);
  }

  static GemmFmaConfig preset(const Query& q) {
    constexpr GemmFmaConfig kChoices[] = {{128, 128, 16, 8, 8}, {128, 64, 16, 8, 4},
                                          {64, 64, 16, 4, 4},   {32, 64, 16, 4, 4},
                                          {64, 32, 16, 4, 4},   {32, 32, 16, 4, 4}};
    Space space(table());
    constrain(q, space);
    GemmFmaConfig best = *std::rbegin(kChoices);  // of a device that holds none
    double best_ms = std::numeric_limits<double>::infinity();
    for (const GemmFmaConfig& c : kChoices) {
      if (!space.broken_constraint(table().to_config(c)).empty()) continue;
      const double ms = milliseconds(q, c);
      if (ms < best_ms) best = c, best_ms = ms;
    }
    return best;
  }

  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(s.traits.gemm.span);
  }
  static MatmulGpuParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    const GemmFmaConfig& c = s.config;
    const MatmulGpuParams p = matmul_gpu_params(args);
    how.grid.x =
        static_cast<unsigned>(ceil_div(p.gemm.m, c.block_m) * ceil_div(p.gemm.n, c.block_n));
    how.block.x = static_cast<unsigned>(c.threads());
    return p;
  }
};

}  // namespace

void append_fma_cuda(std::vector<Implementation>& to) {
  to.push_back(
      kernels::make_cuda<Fma>("cuda_fma", source_hash("ops/gemm/matmul/cuda/matmul_fma_cuda.cpp")));
}

}  // namespace dlblas::gemm
