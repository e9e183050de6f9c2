// The tensor-core matmul for sm_80 and later: which configurations exist, which one is the default,
// and its launch.
// In: a Problem of f16 or bf16, later the Args of a call. Out: a Kernel of one step, or of two with
// split_k > 1 (sums of parts of K, then their sum).
// Flow: call > validate > [select] > [compile] > [launch].  Read next: matmul_mma.cuh.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "cuda/cuda.hpp"
#include "generated/source_hashes.hpp"
#include "ops/gemm/matmul_cuda.hpp"

namespace dlblas::gemm {
namespace {

constexpr const char* kInclude = "ops/gemm/matmul_mma.cuh";
constexpr const char* kConfigName = "dlblas::gemm::MatmulMmaConfig";

const ConfigTable<MatmulMmaConfig>& table() {
  using C = MatmulMmaConfig;
  static const auto* t = new ConfigTable<C>{
      field<&C::block_m>("block_m", {16, 32, 64, 128, 256}),
      field<&C::block_n>("block_n", {32, 64, 128, 192, 256}),
      field<&C::block_k>("block_k", {32, 64, 128}),
      field<&C::stages>("stages", {2, 3, 4, 5, 6, 8}),
      field<&C::warps_m>("warps_m", {1, 2, 4}),
      field<&C::warps_n>("warps_n", {1, 2, 4}),
      field<&C::group_m>("group_m", {1, 4, 8, 16}),
      field<&C::split_k>("split_k", {1, 2, 3, 4, 6, 8}),
  };
  return *t;
}

/// A tile's rows of 16-byte chunks are divided among the block's threads without a rest.
bool copies_divide(const MatmulMmaConfig& c, const MatmulTraits& s) {
  const auto divides = [&](bool by_depth, int outer, int warp_outer) {
    const int chunks = (by_depth ? c.block_k : outer) / 8;
    const bool power = (chunks & (chunks - 1)) == 0 && (warp_outer & (warp_outer - 1)) == 0;
    return c.threads() % chunks == 0 && (by_depth || power);
  };
  return divides(s.a_by_depth, c.block_m, c.warp_m()) &&
         divides(s.b_by_depth, c.block_n, c.warp_n());
}

/// No smaller block covers the dimension.
bool is_distinct(std::int64_t block, std::int64_t smallest, std::int64_t size) {
  return block == smallest || block * 2 / 3 < size;
}

std::int64_t blocks_of(const MatmulMmaConfig& c, const Problem& p) {
  return ceil_div(p.dims[kM], c.block_m) * ceil_div(p.dims[kN], c.block_n);
}

/// Parts of K pay where blocks do not fill the device, and each part keeps a few tiles. Under
/// `deterministic` there is one part: then no batch size changes a bit.
bool is_split_useful(const MatmulMmaConfig& c, const Problem& p, const DeviceInfo& device) {
  if (c.split_k == 1) return true;
  return !(p.flags & kDeterministic) && blocks_of(c, p) * c.split_k <= 3 * device.units &&
         p.dims[kK] >= 4 * c.block_k * c.split_k;
}

bool is_group_distinct(const MatmulMmaConfig& c, const Problem& p) {
  return c.group_m == 1 || c.group_m / 2 < ceil_div(p.dims[kM], c.block_m);
}

void constrain(const Problem& p, const DeviceInfo& device, Space& space) {
  const auto require = [&](const char* name, const std::vector<std::string_view>& knobs,
                           auto allowed) {
    space.require(name, knobs, [allowed](const Config& c) { return allowed(table().restore(c)); });
  };
  const std::int64_t m = p.dims[kM], n = p.dims[kN];
  const MatmulTraits s = matmul_traits(p);
  require("block_m_distinct", {"block_m"},
          [m](const MatmulMmaConfig& c) { return is_distinct(c.block_m, 16, m); });
  require("block_n_distinct", {"block_n"},
          [n](const MatmulMmaConfig& c) { return is_distinct(c.block_n, 32, n); });
  require("shared_memory_fits", {"block_m", "block_n", "block_k", "stages", "warps_m", "warps_n"},
          [most = device.shared_bytes_per_block](const MatmulMmaConfig& c) {
            return c.shared_bytes() <= most;
          });
  require("warps_divide_block", {"block_m", "block_n", "stages", "warps_m", "warps_n"},
          [](const MatmulMmaConfig& c) { return valid(c); });
  require("copies_divide", {"block_m", "block_n", "block_k", "warps_m", "warps_n"},
          [s](const MatmulMmaConfig& c) { return copies_divide(c, s); });
  require("group_m_distinct", {"block_m", "group_m"},
          [p](const MatmulMmaConfig& c) { return is_group_distinct(c, p); });
  require("split_k_useful", {"block_m", "block_n", "block_k", "split_k"},
          [p, units = device.units](const MatmulMmaConfig& c) {
            DeviceInfo d;
            d.units = units;
            return is_split_useful(c, p, d);
          });
}

// Everything below that ranks configurations is fitted to one H200, bf16, 21 November 2026: 180
// times of 12 shapes, most within 10 %. Other GPUs take the shape of the model with a lower peak.

/// Blocks that share a multiprocessor: by shared memory, and by registers (sums, fragments, 40
/// more).
int blocks_a_unit(const MatmulMmaConfig& c, const DeviceInfo& device) {
  const int registers = c.warp_m() * c.warp_n() / 32 + (c.warp_m() + c.warp_n()) / 2 + 40;
  return std::clamp<int>(device.shared_bytes_per_unit / (c.shared_bytes() + 1024), 1,
                         std::max(1, 65536 / (c.threads() * registers)));
}

/// In double: sizes that no device holds overflow integers. At least one.
double blocks_in_grid(const MatmulMmaConfig& c, const Problem& p) {
  const auto m = static_cast<double>(ceil_div(p.dims[kM], c.block_m));
  const auto n = static_cast<double>(ceil_div(p.dims[kN], c.block_n));
  return std::max(1.0, m * n) * c.split_k;
}

/// Multiply-adds a second of one multiprocessor by mma.sync. 64×64 sums a warp reach 0.6 of what
/// wgmma does on Hopper; smaller ones wait for shared memory, and four warps alone for each other.
double unit_rate(const MatmulMmaConfig& c, const Problem& p, const DeviceInfo& device) {
  const double peak = device.arch >= 90 ? 1.85e12 : device.arch == 80 ? 1.1e12 : 0.55e12;
  const double reuse = 1.0 * c.warp_m() * c.warp_n() / (c.warp_m() + c.warp_n());
  const double resident =
      std::min<double>(blocks_a_unit(c, device), std::ceil(blocks_in_grid(c, p) / device.units));
  const double together = resident * c.threads() < 256 ? 0.82 : c.threads() < 256 ? 0.95 : 1;
  return peak * std::min(1.0, 0.45 + 0.55 * reuse / 32) * together * (c.block_k == 32 ? 0.93 : 1) *
         (p.tensors[kB].layout == Layout::kTransposed ? 1 : 0.93);
}

/// Bytes of operands over the rate of memory, or over what the rings in flight draw from it. Where
/// blocks come in waves, the last wave leaves some of the device idle.
double memory_seconds(const Problem& p, const MatmulMmaConfig& c, const DeviceInfo& device) {
  constexpr double kLatency = 1.6e-6;  // of a tile's copies, under load
  const double blocks = blocks_in_grid(c, p);
  const double at_once = 1.0 * device.units * blocks_a_unit(c, device);
  // Blocks side by side wait for the same tile; up to four are counted once.
  const auto shared_by = [](std::int64_t size, int block) {
    return static_cast<double>(std::clamp<std::int64_t>(ceil_div(size, block), 1, 4));
  };
  const double tile =
      2.0 * c.block_k *
      (c.block_m / shared_by(p.dims[kN], c.block_n) + c.block_n / shared_by(p.dims[kM], c.block_m));
  const double in_flight = std::min(blocks, at_once) * (c.stages - 1) * tile;
  const double idle = blocks > at_once ? std::ceil(blocks / at_once) * at_once / blocks : 1;
  // A row-major b comes in short runs: not measured where memory is the limit, and guessed low.
  const double runs = p.tensors[kB].layout == Layout::kTransposed ? 1 : 0.75;
  return idle * matmul_bytes(p) / std::min(runs * memory_rate(device), in_flight / kLatency);
}

/// Blocks one after another on the fullest multiprocessor, each as long as its multiply-adds or its
/// copies; never faster than memory; and the launches.
double estimate_ms(const Problem& p, const MatmulMmaConfig& c, const DeviceInfo& device) {
  constexpr double kEnds = 128;  // depths that filling the ring and storing sums cost
  const double blocks = blocks_in_grid(c, p);
  const double depth = static_cast<double>(p.dims[kK]) / c.split_k + kEnds;
  const double at_once = 1.0 * device.units * blocks_a_unit(c, device);
  const double full = std::floor(blocks / at_once);
  const double in_turn =
      full * blocks_a_unit(c, device) + std::ceil((blocks - full * at_once) / device.units);
  const double products = depth * c.block_m * c.block_n / unit_rate(c, p, device);
  const double copies = depth * 2 * (c.block_m + c.block_n) / 90e9;  // L2 to one multiprocessor
  const double sums = static_cast<double>(p.dims[kM]) * static_cast<double>(p.dims[kN]) * c.split_k;
  const double partial = c.split_k > 1 ? 1.6e-6 + 8 * sums / 6e12 : 0;
  return 1e3 * (std::max(in_turn * std::max(products, copies), memory_seconds(p, c, device)) +
                partial + 3.7e-6);
}

double estimate(const Problem& p, const Config& config, const DeviceInfo& device,
                const Implementation&) {
  return estimate_ms(p, table().restore(config), device);
}

Config heuristic(const Problem& p, const DeviceInfo& device) {
  // The measured winners of each class of shapes, and what smaller devices hold. Where the
  // estimates agree the first wins: large products (four stages lose nothing at 4096³, and win 5 to
  // 10 % from 8192³ on), then 128, 64 and 16 rows.
  constexpr MatmulMmaConfig kChoices[] = {
      {256, 128, 64, 4, 4, 2, 16, 1}, {128, 256, 64, 3, 2, 4, 16, 1},
      {128, 192, 64, 3, 2, 4, 16, 1}, {128, 128, 64, 3, 2, 2, 16, 1},
      {128, 128, 32, 4, 2, 2, 16, 1}, {128, 128, 64, 5, 2, 2, 8, 2},
      {128, 64, 64, 8, 4, 2, 8, 1},   {128, 64, 64, 3, 2, 2, 8, 1},
      {128, 32, 64, 4, 4, 1, 8, 1},   {64, 128, 128, 4, 2, 2, 8, 1},
      {64, 128, 64, 6, 2, 2, 8, 1},   {64, 64, 64, 6, 2, 2, 8, 1},
      {64, 64, 64, 6, 2, 2, 8, 2},    {64, 64, 64, 3, 2, 2, 8, 1},
      {32, 128, 64, 4, 1, 4, 8, 1},   {32, 64, 64, 6, 1, 4, 8, 2},
      {32, 64, 64, 4, 1, 2, 8, 1},    {16, 64, 128, 4, 1, 4, 8, 2},
      {16, 64, 64, 6, 1, 4, 8, 4},    {16, 128, 64, 4, 1, 4, 8, 1},
      {16, 64, 64, 6, 1, 4, 8, 1},    {16, 32, 64, 8, 1, 2, 1, 1},
      {16, 32, 64, 3, 1, 2, 1, 1},
  };
  Space space(table());
  constrain(p, device, space);
  Config best = table().erase(*std::rbegin(kChoices));  // of a device that holds none
  double best_ms = std::numeric_limits<double>::infinity();
  for (MatmulMmaConfig c : kChoices) {
    while (!is_group_distinct(c, p)) c.group_m = c.group_m == 4 ? 1 : c.group_m / 2;
    const Config config = table().erase(c);
    if (!space.broken_constraint(config).empty()) continue;
    const double ms = estimate_ms(p, c, device);
    if (ms < best_ms) best = config, best_ms = ms;
  }
  return best;
}

Support supports(const Problem& p, const DeviceInfo&, const Implementation&) {
  return supports_tensor_cores(p);
}

int step_multiply(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& c = kernel.load<MatmulMmaConfig>();
  MatmulGpuParams p = matmul_gpu_params(args);
  p.partial = static_cast<float*>(workspace);
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(ceil_div(p.m, c.block_m) * ceil_div(p.n, c.block_n));
  how.grid.y = static_cast<unsigned>(c.split_k);
  how.block.x = static_cast<unsigned>(c.threads());
  how.shared_bytes = static_cast<unsigned>(c.shared_bytes());
  return cuda::launch(*kernel.entries[0], how, p, context.stream);
}

int step_finish(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  MatmulGpuParams p = matmul_gpu_params(args);
  p.partial = static_cast<float*>(workspace);
  cuda::Launch how;
  how.block.x = kFinishThreads;
  how.grid.x = static_cast<unsigned>(ceil_div(p.m * ceil_div(p.n, 8), kFinishThreads));
  return cuda::launch(*kernel.entries[1], how, p, context.stream);
}

Kernel prepare(const Problem& p, const Config& config, const DeviceInfo&,
               const Implementation& implementation) {
  const MatmulMmaConfig c = table().restore(config);
  Kernel kernel;
  kernel.implementation = &implementation;
  kernel.store(c);
  kernel.steps[kernel.num_steps++] = step_multiply;
  if (c.split_k > 1) {
    kernel.steps[kernel.num_steps++] = step_finish;
    kernel.workspace_bytes =
        static_cast<std::size_t>(c.split_k * p.dims[kM] * round_up(p.dims[kN], 8)) * sizeof(float);
  }
  return kernel;
}

std::vector<KernelSource> sources(const Problem& p, const Config& config, const DeviceInfo&,
                                  const Implementation&) {
  const MatmulTraits s = matmul_traits(p);
  const MatmulMmaConfig c = table().restore(config);
  const std::string literal = table().literal(config, kConfigName);
  std::vector<KernelSource> list = {
      {kInclude, matmul_entry("matmul_mma", s, literal), c.shared_bytes()}};
  if (c.split_k > 1) list.push_back({kInclude, matmul_entry("matmul_mma_finish", s, literal), 0});
  return list;
}

}  // namespace

void append_mma_cuda(std::vector<Implementation>& to) {
  Implementation i;
  i.name = "cuda_mma";
  i.backend = DeviceType::kCuda;
  i.min_arch = 80;
  i.source_hash = source_hash("ops/gemm/matmul_mma_cuda.cpp");
  i.flags.deterministic = true;
  i.flags.capturable = true;
  i.knobs = &table();
  i.supports = supports;
  i.constrain = constrain;
  i.heuristic = heuristic;
  i.estimate = estimate;
  i.prepare = prepare;
  i.sources = sources;
  to.push_back(i);
}

}  // namespace dlblas::gemm
