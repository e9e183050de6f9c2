#include "kernels/gemm_fma.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "core/integers.hpp"
#include "core/rates.hpp"

namespace dlblas::kernels {

std::int32_t gemm_fma_span(const Problem& problem, const GemmSize& size) {
  constexpr std::int32_t kLong = 128;
  constexpr std::int64_t kFewSums = 128 * 128;
  if (!(problem.flags & kDeterministic) && size.m * size.n <= kFewSums) return kShortFmaSpan;
  if (size.k > kLong) return kLong;
  return problem.tensors[0].dtype == DType::kF32 ? 0 : kShortFmaSpan;
}

void constrain_gemm_fma(const Query& q, const GemmSize& size,
                        const ConfigTable<GemmFmaConfig>& table, Space& space) {
  using C = GemmFmaConfig;
  space.require(table, "block_m_distinct", {"block_m"},
                [m = size.m](const C& c) { return c.block_m == 32 || c.block_m / 2 < m; });
  space.require(table, "block_n_distinct", {"block_n"},
                [n = size.n](const C& c) { return c.block_n == 32 || c.block_n / 2 < n; });
  space.require(table, "threads_divide_tiles", [](const C& c) { return valid(c); });
  space.require(table, "shared_memory_fits", {"block_m", "block_n", "block_k"},
                [most = q.device.shared_bytes_per_block, length = gemm_fma_span(q.problem, size)](
                    const C& c) { return c.shared_bytes(length) <= most; });
}

double gemm_fma_seconds(const DeviceInfo& device, const GemmSize& size, const GemmFmaConfig& c) {
  // Multiply-adds per second of one multiprocessor: fewer if a thread's tile is small and loads
  // take issue slots. H200, 2048³, 21 November 2026: 39 TFLOP/s with 8×8 per thread, 36 with 8×4,
  // 29 with 4×4 (cuBLAS 48).
  const double reuse = 1.0 * c.thread_m * c.thread_n / (c.thread_m + c.thread_n);
  const double rate = unit_rates(device).f32_flops / 2 * std::min(1.0, 0.37 + 0.1 * reuse);
  const double blocks = static_cast<double>(ceil_div(size.m, c.block_m)) *
                        static_cast<double>(ceil_div(size.n, c.block_n));
  const int fitting = std::max(1, 512 / c.threads());
  const double waves = std::ceil(blocks / (device.units * fitting)) * fitting;
  const double depth = static_cast<double>(size.k) + c.block_k;
  // A lone block of few threads waits on every load.
  const double alone = depth / c.block_k * 1.5e-6;
  return std::max(waves * depth * c.block_m * c.block_n / rate, alone);
}

GemmFmaConfig gemm_fma_preset(const Query& q, const GemmSize& size,
                              const ConfigTable<GemmFmaConfig>& table,
                              double (*milliseconds)(const Query&, const GemmFmaConfig&)) {
  constexpr GemmFmaConfig kChoices[] = {{128, 128, 16, 8, 8}, {128, 64, 16, 8, 4},
                                        {64, 64, 16, 4, 4},   {32, 64, 16, 4, 4},
                                        {64, 32, 16, 4, 4},   {32, 32, 16, 4, 4}};
  Space space(table);
  constrain_gemm_fma(q, size, table, space);
  GemmFmaConfig best = *std::rbegin(kChoices);  // of a device that holds none
  double best_ms = std::numeric_limits<double>::infinity();
  for (const GemmFmaConfig& c : kChoices) {
    if (!space.broken_constraint(table.to_config(c)).empty()) continue;
    const double ms = milliseconds(q, c);
    if (ms < best_ms) best = c, best_ms = ms;
  }
  return best;
}

}  // namespace dlblas::kernels
