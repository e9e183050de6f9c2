// Programs on Hopper's WGMMA: heads folded, so that a tile need not hold whole ones, and default
// choices where they were measured (H200, 29 November 2026; docs/notes/gemm.md). No GPU: devices
// are typical ones. Read next: device/gemm/wgmma_config.hpp, src/kernels/wgmma_space.cpp.
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>

#include "dispatch/dispatch.hpp"
#include "jit/jit.hpp"
#include "kernels/gemm_wgmma.hpp"
#include "registry/registry.hpp"

namespace dlblas {
namespace {

/// Contiguous bf16 operands, other tensors as `types` says by position.
Problem problem_of(const Operator& op, std::initializer_list<std::int64_t> dims,
                   std::initializer_list<std::pair<int, DType>> types) {
  Problem p;
  p.op = op.id;
  p.device_type = DeviceType::kCuda;
  for (std::size_t i = 0; i < op.schema.tensors.size(); ++i) {
    const DType type = op.schema.tensors[i].optional ? DType::kAbsent : DType::kBF16;
    p.tensors[i] = {type, Layout::kContiguous, 4, 0};
  }
  for (const auto& [tensor, type] : types) p.tensors[tensor].dtype = type;
  std::copy(dims.begin(), dims.end(), p.dims);
  return p;
}
const Operator& op_named(const char* name) { return *Registry::process().at(name).op; }

std::string tile_of(const Operator& op, const Problem& p) {
  const DeviceInfo device = typical_cuda_device(90);
  const Query q{p, device, *op.find("cuda_wgmma")};
  const GemmWgmmaConfig c = kernels::wgmma_table().from_config(default_config(q));
  return text(c.block_m, "x", c.block_n, c.pingpong ? " pingpong" : "",
              c.share == GemmShare::kK ? " k" : "");
}

template <int kChannels>
void expect_folded_pairs() {
  std::set<std::int32_t> seen;
  for (std::int32_t first = 0; first < 3 * kChannels; first += 2 * kGemmFoldPiece) {
    const std::int32_t low = gemm_unfolded<kChannels>(first),
                       high = gemm_unfolded<kChannels>(first + kGemmFoldPiece);
    EXPECT_EQ(high - low, kChannels / 2) << first;
    EXPECT_EQ(low / kChannels, high / kChannels) << "of one head: " << first;
    for (int i = 0; i < kGemmFoldPiece; ++i) seen.insert(low + i), seen.insert(high + i);
  }
  EXPECT_EQ(seen.size(), std::size_t{3 * kChannels});
  EXPECT_EQ(*seen.rbegin(), 3 * kChannels - 1);
}

TEST(WgmmaChoices, FoldedHeadsAreEveryColumnOnceInPairs) {
  expect_folded_pairs<128>();
  expect_folded_pairs<192>();
  expect_folded_pairs<256>();
  EXPECT_EQ(gemm_unfolded<0>(96), 96);
}

// 128 × 256 was the tile of whole heads: 53 µs for 512 rows, 1.43 ms for 16,384.
TEST(WgmmaChoices, RotatedProductsHaveTilesOfOneHeadAndAHalf) {
  const Operator& op = op_named("linear_rope");
  const auto rotated = [&](std::int64_t t) {
    return problem_of(op, {t, 4096, 40, 64, 1024, t}, {});
  };
  EXPECT_EQ(tile_of(op, rotated(512)), "128x192");
  for (const std::int64_t t : {1024, 4096, 16384})
    EXPECT_EQ(tile_of(op, rotated(t)), "128x192 pingpong") << t;
}

TEST(WgmmaChoices, RotatedTilesNeitherSpillNorWait) {
  if (const std::string why = jit::unavailable(); !why.empty()) GTEST_SKIP() << why;
  const Operator& op = op_named("linear_rope");
  const DeviceInfo device = typical_cuda_device(90);
  for (const DType tables : {DType::kBF16, DType::kF32}) {
    const Problem p =
        problem_of(op, {16384, 4096, 40, 64, 1024, 16384}, {{2, tables}, {3, tables}});
    const Query q{p, device, *op.find("cuda_wgmma")};
    for (const KernelSource& source : q.self.sources(q, default_config(q))) {
      const jit::Cubin& cubin = jit::compile(source, 90);
      EXPECT_EQ(cubin.spill_bytes, 0) << source.entry;
      EXPECT_TRUE(cubin.warnings.empty()) << source.entry << cubin.warnings.front();
    }
  }
}

// 128 × 256 with K over a cluster took 95.5 and 33.2 µs, 128 × 128 89.3 and 27.3.
TEST(WgmmaChoices, LargeTilesDoNotSplitK) {
  const Operator& op = op_named("linear_residual");
  for (const std::int64_t k : {4096, 14336})
    EXPECT_EQ(tile_of(op, problem_of(op, {512, k, 4096}, {{3, DType::kBF16}})), "128x128") << k;
}

// µs of cuda_ring and cuda_wgmma, 14336 × 4096: 25.1 and 22.7 with 1 row, 35.7 and 25.5 with
// 32, 54.3 and 30.5 with 64.
TEST(WgmmaChoices, CodesOf8BitsAreUnpackedForWgmma) {
  const Operator& op = op_named("mm_w8a16_group");
  const DeviceInfo device = typical_cuda_device(90);
  for (const std::int64_t t : {1, 16, 32, 64, 128}) {
    const Problem p = problem_of(op, {t, 4096, 14336, 4096},
                                 {{1, DType::kI8}, {2, DType::kF32}, {3, DType::kAbsent}});
    const auto predicted = [&](const char* name) {
      const Query q{p, device, *op.find(name)};
      EXPECT_EQ(q.self.supports(q).text(op.schema), "yes") << name;
      return q.self.estimate(q, default_config(q));
    };
    const double chosen = predicted("cuda_wgmma");
    for (const char* other : {"cuda_ring", "cuda_packed", "cuda_dequantized"})
      EXPECT_LT(chosen, predicted(other)) << other << " of " << t;
  }
  Problem grouped = problem_of(op, {64, 4096, 14336, 128},
                               {{1, DType::kI8}, {2, DType::kF32}, {3, DType::kAbsent}});
  const Query q{grouped, device, *op.find("cuda_wgmma")};
  EXPECT_EQ(q.self.supports(q).text(op.schema), "groups of 128 of 4096 codes");
}

}  // namespace
}  // namespace dlblas
