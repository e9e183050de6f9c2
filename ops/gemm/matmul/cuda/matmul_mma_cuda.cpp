// The tensor-core matmul for sm_80 and later: the estimated time of a configuration, the default
// one, and the launch. In: a Problem of f16 or bf16, later the Args of a call. Out: a Kernel of one
// step, or of two with split_k > 1 (sums of parts of K, then their sum). Flow: call >
// validate > [select] > [compile] > [launch].  Read next: matmul_mma_space.cpp,
// matmul_epilogue.cuh.
#include <algorithm>
#include <cmath>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"
#include "ops/gemm/matmul/cuda/matmul_mma_space.hpp"

namespace dlblas::gemm {
namespace {

// The model below is fitted to one H200, bf16, 21 November 2026: within 8 % of 23 times of 11
// shapes, but up to 11 % below those of the largest, which hit the card's power limit. Other GPUs
// use the same model with a lower peak.

/// In double, since sizes that no device holds overflow integers. At least one.
double blocks_in_grid(const GemmMmaConfig& c, const Problem& p) {
  const auto m = static_cast<double>(ceil_div(p.dims[kM], c.block_m));
  const auto n = static_cast<double>(ceil_div(p.dims[kN], c.block_n));
  return std::max(1.0, m * n) * c.split_k;
}

/// Blocks that actually share a multiprocessor.
int resident_blocks(const GemmMmaConfig& c, const Problem& p, const DeviceInfo& device) {
  return static_cast<int>(std::min<double>(blocks_a_unit(c, p, device),
                                           std::ceil(blocks_in_grid(c, p) / device.units)));
}

/// Multiply-adds per second of one multiprocessor with mma.sync: 0.82 of the instruction's rate
/// without memory (629 TFLOP/s on an H200), and a fraction of what Hopper's tensor cores do with
/// wgmma. Warps of fewer than 64×64 sums wait for shared memory; four warps alone wait for each
/// other at every barrier.
double unit_rate(const GemmMmaConfig& c, const Problem& p, const DeviceInfo& device) {
  const double peak = (device.arch >= 90 ? 0.6964 : 0.917) * unit_rates(device).half_flops / 2;
  const double reuse = 1.0 * c.warp_m() * c.warp_n() / (c.warp_m() + c.warp_n());
  const bool alone = resident_blocks(c, p, device) * c.threads() < 256 && c.block_k < 128;
  const double together = alone ? 0.82 : c.threads() < 256 ? 0.95 : 1;
  return peak * std::min(1.0, 0.45 + 0.55 * reuse / 32) * together * (c.block_k == 32 ? 0.93 : 1);
}

/// Bytes of the operands over memory's rate, or over what the rings in flight draw from it. With
/// several waves of blocks, the last one leaves some of the device idle.
double memory_seconds(const Problem& p, const GemmMmaConfig& c, const DeviceInfo& device) {
  constexpr double kLatency = 1.6e-6;  // of a tile's copies, under load
  const double blocks = blocks_in_grid(c, p);
  const double at_once = 1.0 * device.units * blocks_a_unit(c, p, device);
  // Neighbouring blocks wait for the same tile: for up to four of them it counts once.
  const auto shared_by = [](std::int64_t size, int block) {
    return static_cast<double>(std::clamp<std::int64_t>(ceil_div(size, block), 1, 4));
  };
  const double tile =
      2.0 * c.block_k *
      (c.block_m / shared_by(p.dims[kN], c.block_n) + c.block_n / shared_by(p.dims[kM], c.block_m));
  const double in_flight = std::min(blocks, at_once) * (c.stages - 1) * tile;
  const double idle = blocks > at_once ? std::ceil(blocks / at_once) * at_once / blocks : 1;
  // A row-major b is read in short runs: not measured where memory is the limit, and guessed low.
  const double runs = p.tensors[kB].layout == Layout::kTransposed ? 1 : 0.75;
  return idle * matmul_bytes(p) / std::min(runs * memory_bytes_per_s(device), in_flight / kLatency);
}

/// The fullest multiprocessor runs its blocks one after another, each bound by its multiply-adds or
/// its copies; memory bounds the whole. Adds a twentieth of the copies, in favour of tiles that
/// share more, and the launches. Filling the ring and storing sums cost as much as `ends` terms of
/// K: fewer where another block multiplies meanwhile.
double estimate_ms(const Problem& p, const GemmMmaConfig& c, const DeviceInfo& device) {
  const double blocks = blocks_in_grid(c, p);
  const double ends = resident_blocks(c, p, device) < 2 ? 190 : 60;
  const double depth = static_cast<double>(p.dims[kK]) / c.split_k + ends;
  const double at_once = 1.0 * device.units * blocks_a_unit(c, p, device);
  const double full = std::floor(blocks / at_once);
  const double in_turn =
      full * blocks_a_unit(c, p, device) + std::ceil((blocks - full * at_once) / device.units);
  const double products = depth * c.block_m * c.block_n / unit_rate(c, p, device);
  // Copies from L2 to one multiprocessor.
  const double copies = depth * 2 * (c.block_m + c.block_n) / unit_rates(device).alone_bytes_per_s;
  const double sums = static_cast<double>(p.dims[kM]) * static_cast<double>(p.dims[kN]) * c.split_k;
  const double partial = c.split_k > 1 ? 1.6e-6 + 8 * sums / cache_bytes_per_s(device) : 0;
  return 1e3 * (std::max(in_turn * std::max(products, copies), memory_seconds(p, c, device)) +
                0.05 * in_turn * copies + partial + 3.7e-6);
}

struct Mma : MatmulForm<Mma, GemmMmaConfig> {
  static constexpr const char* kInclude = "ops/gemm/matmul/cuda/matmul_mma.cuh";
  static constexpr const char* kConfigName = "dlblas::GemmMmaConfig";
  static const ConfigTable<GemmMmaConfig>& table() { return mma_table(); }

  static MatmulTraits traits(const Query& q, const GemmMmaConfig& c) {
    return matmul_traits(q.problem, 0, mma_span(q.problem, c, q.device));
  }

  static Support supports(const Query& q) { return supports_tensor_cores(q.problem); }
  static Support same_bits(const Query& q) {
    if (tensor_cores_take_any_batch(q.problem)) return Support::yes();
    return Support::no("another batch may have a layout that only cuda_fma takes");
  }

  static void constrain(const Query& q, Space& space) { constrain_mma(q.problem, q.device, space); }

  static double milliseconds(const Query& q, const GemmMmaConfig& c) {
    return estimate_ms(q.problem, c, q.device);
  }

  /// Picks the fastest tile for each of the eight large products that were measured.
  static GemmMmaConfig preset(const Query& q) {
    return kernels::least_estimate<Mma>(q, {16, 32, 64, 2, 1, 2, 1, 1});
  }

  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(s.traits.gemm.span);
  }
  static std::size_t workspace_bytes(const Query& q, const State& s) {
    if (s.config.split_k == 1) return 0;
    return static_cast<std::size_t>(s.config.split_k * q.problem.dims[kM] *
                                    round_up(q.problem.dims[kN], 8)) *
           sizeof(float);
  }

  static std::vector<KernelSource> sources(const Query&, const State& s) {
    std::vector<KernelSource> list = {source("dlblas::gemm_mma", s, s.shared_bytes)};
    if (s.config.split_k > 1) list.push_back(source("dlblas::gemm_mma_finish", s, 0));
    return list;
  }

  static int multiply(const Args& args, const Context& context, const Kernel& kernel,
                      void* workspace) {
    const State& s = kernel.load<State>();
    const GemmMmaConfig& c = s.config;
    MatmulGpuParams params = matmul_gpu_params(args);
    GemmCall& p = params.gemm;
    p.partial = static_cast<float*>(workspace);
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(ceil_div(p.m, c.block_m) * ceil_div(p.n, c.block_n));
    how.grid.y = static_cast<unsigned>(c.split_k);
    how.block.x = static_cast<unsigned>(c.threads());
    how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
    how.dependent = s.dependent;
    return cuda::launch(*kernel.entries[0], how, params, context.stream);
  }
  static int finish(const Args& args, const Context& context, const Kernel& kernel,
                    void* workspace) {
    MatmulGpuParams params = matmul_gpu_params(args);
    GemmCall& p = params.gemm;
    p.partial = static_cast<float*>(workspace);
    cuda::Launch how;
    how.block.x = kGemmFinishThreads;
    how.dependent = kernel.load<State>().dependent;
    how.grid.x = static_cast<unsigned>(ceil_div(p.m * ceil_div(p.n, 8), kGemmFinishThreads));
    return cuda::launch(*kernel.entries[1], how, params, context.stream);
  }
  static std::vector<StepFn> steps(const State& s) {
    if (s.config.split_k > 1) return {multiply, finish};
    return {multiply};
  }
};

}  // namespace

void append_mma_cuda(std::vector<Implementation>& to) {
  to.push_back(kernels::make_cuda<Mma>("cuda_mma",
                                       source_hash<"ops/gemm/matmul/cuda/matmul_mma_cuda.cpp">()));
}

}  // namespace dlblas::gemm
