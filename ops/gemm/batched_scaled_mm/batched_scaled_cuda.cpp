// batched_scaled_mm in one launch of the general form: a grid of tiles for each matrix.
// In: any Problem. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: batched_scaled_mma.cuh.
#include <algorithm>
#include <cmath>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/gemm/batched_scaled_mm/batched_scaled_config.hpp"
#include "ops/gemm/batched_scaled_mm/batched_scaled_mm.hpp"
#include "ops/gemm/scaled/scaled_cuda.hpp"

namespace dlblas::gemm::scaled {
namespace {

struct Form : kernels::CudaForm<ScaledTraits, ScaledMmaConfig> {
  static constexpr const char* kInclude = "ops/gemm/batched_scaled_mm/batched_scaled_mma.cuh";
  static constexpr const char* kEntry = "dlblas::gemm::scaled::batched_scaled_mma";
  static constexpr const char* kConfigName = "dlblas::gemm::scaled::ScaledMmaConfig";

  static const ConfigTable<Config>& table() {
    static const auto* knobs =
        new ConfigTable<Config>{field<&Config::block_m>("block_m", {16, 32, 64, 128})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() { return scaled_traits_table(); }

  static Support supports(const Query& q) {
    constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1,
                           kMatrices = kBatchedScaledRow * 65535;
    const std::int64_t batch = q.problem.dims[kBatch], m = q.problem.dims[kBatchedM],
                       n = q.problem.dims[kBatchedN];
    if (batch == 0 || m == 0 || n == 0) return Support::no("a dimension is zero");
    if (batch > kMatrices) return Support::no("more than {} matrices", kMatrices);
    const std::int64_t blocks = ceil_div(m, 16) * ceil_div(n, Config::kColumns);
    if (m > kMax || n > kMax || blocks > kMax)
      return Support::no("a matrix has {} tiles: more than a grid has blocks", blocks);
    return Support::yes();
  }
  static Support same_bits(const Query&) {
    return Support::no("adds up in another order than the kernels of one matrix");
  }
  static void constrain(const Query& q, Space& space) {
    space.require(table(), "block_m_distinct", {"block_m"},
                  [m = q.problem.dims[kBatchedM]](const Config& c) {
                    return c.block_m == 16 || c.block_m / 2 < m;
                  });
  }
  static Traits traits(const Query& q, const Config&) {
    return scaled_traits(scaled_matrix_problem(q.problem), Scales::kChannel);
  }
  static std::int32_t shared_bytes(const Query&, const State& s) { return s.config.shared_bytes(); }

  /// scaled_mma_cuda.cpp's model, with the tiles of all matrices in its waves.
  static double milliseconds(const Query& q, const Config& c) {
    const Problem p = scaled_matrix_problem(q.problem);
    const auto batch = static_cast<double>(q.problem.dims[kBatch]);
    const double tiles = batch * static_cast<double>(ceil_div(p.dims[kM], c.block_m)) *
                         static_cast<double>(ceil_div(p.dims[kN], Config::kColumns));
    const double waves = std::ceil(tiles / q.device.units);
    const auto depth = static_cast<double>(p.dims[kK]) + Config::kDepth;
    const double part = 0.3 * c.block_m / (c.block_m + 32) * (traits(q, c).b_vector ? 1 : 0.4);
    const double products =
        waves * 2 * depth * c.block_m * Config::kColumns / (part * unit_rates(q.device).half_flops);
    const double memory = batch * bytes_of(p) / memory_bytes_per_s(q.device);
    return 1e3 * (std::max({products, depth / Config::kDepth * 1.2e-6, memory}) + 4e-6);
  }
  static Config preset(const Query& q) { return kernels::least_estimate<Form>(q, {16}); }

  static BatchedScaledParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    const std::int64_t batch = args.letters[kBatch];
    const BatchedScaledParams p = {scaled_params(scaled_matrix_args(args, 0), Scales::kChannel),
                                   batch, batch_stride(args.tensors[kA]),
                                   batch_stride(args.tensors[kB]),
                                   batch_stride(args.tensors[kOut])};
    how.grid.x = static_cast<unsigned>(ceil_div(p.first.m, s.config.block_m) *
                                       ceil_div(p.first.n, Config::kColumns));
    how.grid.y = static_cast<unsigned>(std::min(batch, kBatchedScaledRow));
    how.grid.z = static_cast<unsigned>(ceil_div(batch, kBatchedScaledRow));
    how.block.x = Config::kThreads;
    return p;
  }
};

}  // namespace

Implementation batched_scaled_mma() {
  return kernels::make_cuda<Form>(
      "cuda_mma", source_hash<"ops/gemm/batched_scaled_mm/batched_scaled_cuda.cpp">());
}

}  // namespace dlblas::gemm::scaled
