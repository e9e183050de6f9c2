// The matmul that takes everything on a GPU: IEEE f32, any strides, any alignment.
// In: any Problem. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: matmul_fma.cuh.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "cuda/cuda.hpp"
#include "generated/source_hashes.hpp"
#include "ops/gemm/matmul_cuda.hpp"

namespace dlblas::gemm {
namespace {

const ConfigTable<MatmulFmaConfig>& table() {
  using C = MatmulFmaConfig;
  static const auto* t = new ConfigTable<C>{
      field<&C::block_m>("block_m", {32, 64, 128}), field<&C::block_n>("block_n", {32, 64, 128}),
      field<&C::block_k>("block_k", {8, 16, 32}),   field<&C::thread_m>("thread_m", {4, 8}),
      field<&C::thread_n>("thread_n", {4, 8}),
  };
  return *t;
}

// Few sums: as exact as cuBLAS where that adds up one row as a tree. Many: as its products of 512
// and more. H200, 22 November 2026.
std::int32_t span(const Problem& p) {
  constexpr std::int32_t kLong = 128;
  constexpr std::int64_t kFewSums = 128 * 128;
  const bool few = !(p.flags & kDeterministic) && p.dims[kM] * p.dims[kN] <= kFewSums;
  if (few) return kShortFmaSpan;
  return p.dims[kK] > kLong ? kLong : 0;
}
MatmulTraits traits(const Problem& p) { return matmul_traits(p, 0, span(p)); }

void constrain(const Problem& p, const DeviceInfo& device, Space& space) {
  const auto require = [&](const char* name, const std::vector<std::string_view>& knobs,
                           auto allowed) {
    space.require(name, knobs, [allowed](const Config& c) { return allowed(table().restore(c)); });
  };
  const std::int64_t m = p.dims[kM], n = p.dims[kN];
  require("block_m_distinct", {"block_m"},
          [m](const MatmulFmaConfig& c) { return c.block_m == 32 || c.block_m / 2 < m; });
  require("block_n_distinct", {"block_n"},
          [n](const MatmulFmaConfig& c) { return c.block_n == 32 || c.block_n / 2 < n; });
  require("threads_divide_tiles", {"block_m", "block_n", "block_k", "thread_m", "thread_n"},
          [](const MatmulFmaConfig& c) { return valid(c); });
  require("shared_memory_fits", {"block_m", "block_n", "block_k"},
          [most = device.shared_bytes_per_block, length = span(p)](const MatmulFmaConfig& c) {
            return c.shared_bytes(length) <= most;
          });
}

double estimate_ms(const Problem& p, const MatmulFmaConfig& c, const DeviceInfo& device) {
  // Multiply-adds a second of one multiprocessor: 128 lanes at 1.7 GHz, fewer where a thread's
  // tile is small and loads take their turns. H200, 2048³, 21 November 2026: 39 TFLOP/s with 8×8 a
  // thread, 36 with 8×4, 29 with 4×4 (cuBLAS 48).
  const double reuse = 1.0 * c.thread_m * c.thread_n / (c.thread_m + c.thread_n);
  const double rate = 0.2e12 * std::min(1.0, 0.37 + 0.1 * reuse);
  const double blocks = static_cast<double>(ceil_div(p.dims[kM], c.block_m)) *
                        static_cast<double>(ceil_div(p.dims[kN], c.block_n));
  const int fitting = std::max(1, 512 / c.threads());
  const double waves = std::ceil(blocks / (device.units * fitting)) * fitting;
  const double depth = static_cast<double>(p.dims[kK]) + c.block_k;
  // A lone block of few threads waits for every load.
  const double alone = depth / c.block_k * 1.5e-6;
  const double products = waves * depth * c.block_m * c.block_n / rate;
  return 1e3 * (std::max({products, alone, matmul_bytes(p) / memory_rate(device)}) + 4e-6);
}

double estimate(const Problem& p, const Config& config, const DeviceInfo& device,
                const Implementation&) {
  return estimate_ms(p, table().restore(config), device);
}

Config heuristic(const Problem& p, const DeviceInfo& device) {
  constexpr MatmulFmaConfig kChoices[] = {{128, 128, 16, 8, 8}, {128, 64, 16, 8, 4},
                                          {64, 64, 16, 4, 4},   {32, 64, 16, 4, 4},
                                          {64, 32, 16, 4, 4},   {32, 32, 16, 4, 4}};
  Space space(table());
  constrain(p, device, space);
  Config best = table().erase(*std::rbegin(kChoices));  // of a device that holds none
  double best_ms = std::numeric_limits<double>::infinity();
  for (const MatmulFmaConfig& c : kChoices) {
    const Config config = table().erase(c);
    if (!space.broken_constraint(config).empty()) continue;
    const double ms = estimate_ms(p, c, device);
    if (ms < best_ms) best = config, best_ms = ms;
  }
  return best;
}

Support supports(const Problem& p, const DeviceInfo&, const Implementation&) {
  return supports_grid(p);
}

struct State {
  MatmulFmaConfig config;
  std::int32_t shared_bytes;
};

int step(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const auto& state = kernel.load<State>();
  const MatmulFmaConfig& c = state.config;
  const MatmulGpuParams p = matmul_gpu_params(args);
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(ceil_div(p.m, c.block_m) * ceil_div(p.n, c.block_n));
  how.block.x = static_cast<unsigned>(c.threads());
  how.shared_bytes = static_cast<unsigned>(state.shared_bytes);
  return cuda::launch(*kernel.entries[0], how, p, context.stream);
}

Kernel prepare(const Problem& p, const Config& config, const DeviceInfo&,
               const Implementation& implementation) {
  Kernel kernel;
  kernel.implementation = &implementation;
  kernel.steps[0] = step;
  kernel.num_steps = 1;
  const MatmulFmaConfig c = table().restore(config);
  kernel.store(State{c, c.shared_bytes(span(p))});
  return kernel;
}

std::vector<KernelSource> sources(const Problem& p, const Config& config, const DeviceInfo&,
                                  const Implementation&) {
  return {{"ops/gemm/matmul_fma.cuh",
           matmul_entry("matmul_fma", traits(p),
                        table().literal(config, "dlblas::gemm::MatmulFmaConfig")),
           table().restore(config).shared_bytes(span(p))}};
}

}  // namespace

void append_fma_cuda(std::vector<Implementation>& to) {
  Implementation i;
  i.name = "cuda_fma";
  i.backend = DeviceType::kCuda;
  i.min_arch = 80;
  i.source_hash = source_hash("ops/gemm/matmul_fma_cuda.cpp");
  i.flags.deterministic = true;
  i.flags.capturable = true;
  i.knobs = &table();
  i.supports = supports;
  i.same_bits = [](const Problem& p, const DeviceInfo&, const Implementation&) {
    if (!tensor_cores_take_any_batch(p)) return Support::yes();
    return Support::no(
        "adds up in another order than cuda_mma, which takes any batch of such rows");
  };
  i.constrain = constrain;
  i.heuristic = heuristic;
  i.estimate = estimate;
  i.prepare = prepare;
  i.sources = sources;
  to.push_back(i);
}

}  // namespace dlblas::gemm
