// The CUDA forms of batched products: one launch for all matrices, with a tile chosen for the sizes
// of one. In: a Problem, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: batched_mma.cuh.
#include <algorithm>
#include <cmath>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/gemm/batched/batched_cuda.hpp"

namespace dlblas::gemm {
namespace {

struct Params {  // BatchedParams of matmul's epilogue
  MatmulGpuParams product;
  BatchedStrides batch;
};

std::int64_t blocks_of(std::int64_t m, std::int64_t n, std::int64_t block_m, std::int64_t block_n) {
  return ceil_div(m, block_m) * ceil_div(n, block_n);
}

/// Each multiprocessor runs its share of the tiles, two side by side, at `rate` multiply-adds per
/// second; memory bandwidth bounds the whole. Not measured yet: `rate`, and the part of memory's
/// rate that is reached.
double estimate_ms(const Query& q, int block_m, int block_n, double rate) {
  const Problem p = matrix_problem(q.user<BatchedOp>(), q.problem);
  const auto batch = static_cast<double>(q.problem.dims[kBatch]);
  const double tiles = std::max(
      1.0, batch * static_cast<double>(blocks_of(p.dims[kM], p.dims[kN], block_m, block_n)));
  const double turns =
      tiles <= 2.0 * q.device.units ? std::ceil(tiles / q.device.units) : tiles / q.device.units;
  const double depth = static_cast<double>(p.dims[kK]) + 128;
  constexpr double kReached = 0.8;
  const double memory = batch * matmul_bytes(p) / (kReached * memory_bytes_per_s(q.device));
  return 1e3 * (std::max(turns * depth * block_m * block_n / rate, memory) + 4e-6);
}

/// A form of one launch of gridded tiles.
template <typename Form>
struct GridForm : BatchedForm<Form> {
  using State = typename BatchedForm<Form>::State;
  static Params launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    const auto& op = *static_cast<const BatchedOp*>(s.user);
    const auto& tile = Form::kTiles[s.config.tile];
    const std::int64_t batch = args.letters[kBatch];
    Params p{};
    p.product = matmul_gpu_params(matrix_args(op, args, 0));
    p.batch = {batch, batch_stride(args.tensors[kA]), batch_stride(args.tensors[kB]),
               batch_stride(args.tensors[kOut])};
    const GemmCall& one = p.product.gemm;
    how.grid.x = static_cast<unsigned>(blocks_of(one.m, one.n, tile.block_m, tile.block_n));
    how.grid.y = static_cast<unsigned>(std::min(batch, kBatchedRow));
    how.grid.z = static_cast<unsigned>(ceil_div(batch, kBatchedRow));
    how.block.x = static_cast<unsigned>(tile.threads());
    return p;
  }
};

Support fits_grid(const Query& q) {
  constexpr std::int64_t kMax = kBatchedRow * 65535;
  if (q.problem.dims[kBatch] > kMax) return Support::no("more than {} matrices", kMax);
  return supports_grid(matrix_problem(q.user<BatchedOp>(), q.problem));
}

struct Mma : GridForm<Mma> {
  static constexpr const char* kInclude = "ops/gemm/batched/batched_mma.cuh";
  static constexpr const char* kEntry = "dlblas::gemm::batched_mma";
  static constexpr const auto& kTiles = kBatchedMmaTiles;
  static constexpr int kCount = kBatchedMmaCount;

  static std::int32_t span(const Query& q) {
    return tensor_core_span(q.problem, q.problem.dims[kBatchedK], false);
  }
  static Support supports(const Query& q) {
    const Support grid = fits_grid(q);
    return grid ? supports_tensor_cores(matrix(q)) : grid;
  }
  static Support same_bits(const Query& q) {
    if (tensor_cores_take_any_batch(matrix(q))) return Support::yes();
    return Support::no("another batch may have a layout that only cuda_fma takes");
  }
  static bool fits(const Query& q, int tile) {
    const GemmMmaConfig& c = kTiles[tile];
    const bool spills = span(q) > 0 && c.warp_m() * c.warp_n() > 3072;  // pairs of 64 × 64 sums
    return !spills && GridForm<Mma>::fits(q, tile);
  }
  static double milliseconds(const Query& q, const BatchedConfig& config) {
    const GemmMmaConfig& c = kTiles[config.tile];
    const double reuse = 1.0 * c.warp_m() * c.warp_n() / (c.warp_m() + c.warp_n());
    const double peak = (q.device.arch >= 90 ? 0.6 : 0.8) * unit_rates(q.device).half_flops / 2;
    return estimate_ms(q, c.block_m, c.block_n, peak * std::min(1.0, 0.45 + 0.55 * reuse / 32));
  }
};

struct Fma : GridForm<Fma> {
  static constexpr const char* kInclude = "ops/gemm/batched/batched_fma.cuh";
  static constexpr const char* kEntry = "dlblas::gemm::batched_fma";
  static constexpr const auto& kTiles = kBatchedFmaTiles;
  static constexpr int kCount = kBatchedFmaCount;

  /// As in matmul's form of many sums.
  static std::int32_t span(const Query& q) {
    constexpr std::int64_t kLong = 128;
    return q.problem.dims[kBatchedK] > kLong ? kLong : 0;
  }
  static Support supports(const Query& q) { return fits_grid(q); }
  static Support same_bits(const Query& q) {
    if (!tensor_cores_take_any_batch(matrix(q))) return Support::yes();
    return Support::no("adds up in another order than cuda_mma, which takes any batch");
  }
  static double milliseconds(const Query& q, const BatchedConfig& config) {
    const GemmFmaConfig& c = kTiles[config.tile];
    const double reuse = 1.0 * c.thread_m * c.thread_n / (c.thread_m + c.thread_n);
    const double rate = unit_rates(q.device).f32_flops / 2 * std::min(1.0, 0.37 + 0.1 * reuse);
    return estimate_ms(q, c.block_m, c.block_n, rate);
  }
};

}  // namespace

std::vector<Implementation> batched_cuda(const BatchedOp& op) {
  const char* const hash = source_hash<"ops/gemm/batched/batched_cuda.cpp">();
  return {batched_wgmma(op), kernels::make_cuda<Mma>("cuda_mma", hash, &op),
          kernels::make_cuda<Fma>("cuda_fma", hash, &op)};
}

}  // namespace dlblas::gemm
