// Tiles for the smaller sizes of a bucket; see matmul_wgmma_rows.hpp.
#include "ops/gemm/matmul/cuda/matmul_wgmma_rows.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <vector>

#include "ops/gemm/matmul/cuda/matmul_wgmma_space.hpp"
#include "ops/gemm/matmul/matmul.hpp"

namespace dlblas::gemm {
namespace {

constexpr int kSizes = 8;                              // of a bucket that are looked at
constexpr std::int64_t kMinRows = 64;                  // fewer are one tile, and memory's time
constexpr double kWorth[] = {1.02, 1.04, 1.08, 1.16};  // a tile stays where another is no faster

/// The fastest configuration at one size, by the model.
struct Best {
  std::int64_t m;
  GemmWgmmaConfig config;
  double ms;
};

Problem with_rows(const Problem& p, std::int64_t m) {
  Problem at = p;
  at.dims[kM] = m;
  return at;
}

/// In descending order of M, without the bucket's end.
std::vector<Best> fastest_of(const Query& q, WgmmaModel model) {
  std::vector<Best> all;
  const std::int64_t end = q.problem.dims[kM], before = bucket_before(end);
  for (int i = kSizes - 1; i > 0; --i) {
    const std::int64_t m = before + (end - before) * i / kSizes;
    if (m <= before) break;
    const Problem at = with_rows(q.problem, m);
    Space space(wgmma_table());
    constrain_wgmma(at, q.device, space);
    Best best{m, {}, std::numeric_limits<double>::infinity()};
    for (const Config& config : space.configs()) {
      const GemmWgmmaConfig c = wgmma_table().from_config(config);
      if (c.stream) continue;  // a search's choice: not for sizes that it does not measure
      const double ms = model(at, c, q.device);
      if (ms < best.ms) best = {m, c, ms};
    }
    if (best.ms < std::numeric_limits<double>::infinity()) all.push_back(best);
  }
  return all;
}

/// Caches the last problem's result: a search asks again for each configuration.
std::vector<Best> remembered(const Query& q, WgmmaModel model) {
  static std::mutex* const mutex = new std::mutex;
  struct Last {
    Problem problem;
    std::int32_t units = -1, arch = 0;
    std::vector<Best> best;
  };
  static Last* const last = new Last;
  const std::lock_guard lock(*mutex);
  if (!(last->problem == q.problem) || last->units != q.device.units || last->arch != q.device.arch)
    *last = {q.problem, q.device.units, q.device.arch, fastest_of(q, model)};
  return last->best;
}

}  // namespace

PackedWgmma::PackedWgmma(const GemmWgmmaConfig& c) {
  int at = 0;
  const auto put = [&](int value, int width) {
    bits |= static_cast<std::uint32_t>(value) << at;
    at += width;
  };
  put(c.swapped, 1), put(c.block_m / 64, 3), put(c.block_n / 8, 6), put(c.block_k / 64, 3);
  put(c.warpgroups, 2), put(c.pingpong, 1), put(static_cast<int>(c.share), 2), put(c.cluster, 3);
  put(c.stages, 4), put(c.weight_once, 1), put(c.group_m / 8, 2), put(c.stream, 1);
}

GemmWgmmaConfig PackedWgmma::config() const {
  int at = 0;
  const auto take = [&](int width) {
    const auto value = static_cast<std::int32_t>(bits >> at & ((1u << width) - 1));
    at += width;
    return value;
  };
  GemmWgmmaConfig c{};
  c.swapped = take(1) != 0, c.block_m = take(3) * 64, c.block_n = take(6) * 8;
  c.block_k = take(3) * 64, c.warpgroups = take(2), c.pingpong = take(1) != 0;
  c.share = static_cast<GemmShare>(take(2)), c.cluster = take(3), c.stages = take(4);
  c.weight_once = take(1) != 0, c.group_m = take(2) * 8, c.stream = take(1) != 0;
  return c;
}

FewerRows for_fewer_rows(const Query& q, const GemmWgmmaConfig& config, WgmmaModel model) {
  const std::int64_t end = q.problem.dims[kM];
  if (end <= kMinRows || end > std::numeric_limits<std::int32_t>::max()) return {};
  const std::int32_t span = wgmma_span(q.problem, config, q.device);
  const std::vector<Best> best = remembered(q, model);
  FewerRows found;
  for (const double worth : kWorth) {  // until so few kernels do
    found = {};
    bool all = true;
    GemmWgmmaConfig current = config;
    for (const Best& b : best) {
      const Problem at = with_rows(q.problem, b.m);
      if (model(at, current, q.device) <= worth * b.ms) continue;
      if (wgmma_span(q.problem, b.config, q.device) != span) continue;
      if (found.count == FewerRows::kMax) {
        all = false;
        break;
      }
      found.rows[found.count] = static_cast<std::int32_t>(b.m);
      found.tiles[found.count++] = PackedWgmma(b.config);
      current = b.config;
    }
    if (all) break;
  }
  return found;
}

}  // namespace dlblas::gemm
