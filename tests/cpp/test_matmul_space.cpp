// What a search over the tensor-core matmul visits: never nothing, never more than fits into a
// budget, and by default what was measured to be fastest on the large products. No GPU: devices are
// typical ones. Read next: ops/gemm/matmul/cuda/matmul_mma_space.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "jit/jit.hpp"
#include "registry/registry.hpp"

namespace dlblas {
namespace {

constexpr std::size_t kMax = 128;  // 64 are searched exhaustively, and few shapes have more

struct Sizes {
  std::int64_t m, n, k;
};

const Operator& matmul() { return *Registry::process().at("matmul").op; }

/// a row-major or transposed, b as in a linear layer (transposed) or row-major.
Problem product(const Sizes& s, bool a_transposed, bool b_transposed) {
  Problem p;
  p.op = matmul().id;
  p.device_type = DeviceType::kCuda;
  const Layout layouts[] = {a_transposed ? Layout::kTransposed : Layout::kContiguous,
                            b_transposed ? Layout::kTransposed : Layout::kContiguous};
  for (std::size_t i = 0; i < matmul().schema.tensors.size(); ++i) {
    const DType dtype = matmul().schema.tensors[i].optional ? DType::kAbsent : DType::kBF16;
    p.tensors[i] = {dtype, i < 2 ? layouts[i] : Layout::kContiguous, 4, 0};
  }
  p.dims[0] = s.m, p.dims[1] = s.k, p.dims[2] = s.n;
  return p;
}

void expect_searchable(const Problem& p, const DeviceInfo& device) {
  const Implementation& mma = *matmul().find("cuda_mma");
  const Query q{p, device, mma};
  const Space space = make_space(q);
  const std::string where = text(device.model, " ", p.dims[0], "x", p.dims[2], "x", p.dims[1]);
  EXPECT_GE(space.configs().size(), 1u) << where;
  EXPECT_LE(space.configs().size(), kMax) << where;
  const Config config = default_config(q);
  EXPECT_EQ(space.broken_constraint(config), "") << where << ": " << mma.table().print(config);
  EXPECT_GT(mma.estimate(q, config), 0) << where;
}

TEST(MatmulSpace, HasAFewConfigurationsAtAnySize) {
  ASSERT_EQ(matmul().schema.letters[1].name, "K") << "dims below are in this order";
  std::uint64_t state = 1;
  const auto below = [&](double most) {  // sizes of every magnitude alike
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::int64_t>(
        std::exp2(static_cast<double>(state >> 11) * 0x1p-53 * std::log2(most)));
  };
  for (int i = 0; i < 300; ++i) {
    Problem p = product({below(40000), below(200000), below(40000)}, i & 1, i & 2);
    if (i % 5 == 0) p.flags = kDeterministic;
    for (const int arch : {80, 86, 90}) expect_searchable(p, typical_cuda_device(arch));
  }
}

// H200, bf16, b as in a linear layer: tiles and parts of K of the fastest.
TEST(MatmulSpace, DefaultsAreWhatWasFastest) {
  const Implementation& mma = *matmul().find("cuda_mma");
  const DeviceInfo device = typical_cuda_device(90);
  const struct {
    Sizes sizes;
    const char* config;
  } fastest[] = {
      {{4096, 4096, 4096}, "block_m=128 block_n=256 block_k=64 stages=4"},
      {{8192, 8192, 8192}, "block_m=128 block_n=256 block_k=64 stages=4"},
      {{4096, 7168, 2048}, "block_m=128 block_n=128 block_k=64 stages=3"},
      {{4096, 2112, 7168}, "block_m=192 block_n=176 block_k=64 stages=4"},
      {{4096, 24576, 1536}, "block_m=128 block_n=128 block_k=64 stages=3"},
      {{4096, 7168, 16384}, "block_m=128 block_n=256 block_k=64 stages=4"},
      {{128, 7168, 2048}, "block_m=64 block_n=128 block_k=128 stages=4"},
  };
  for (const auto& row : fastest) {
    const Problem p = product(row.sizes, false, true);
    const std::string printed = mma.table().print(default_config({p, device, mma}));
    EXPECT_EQ(printed.substr(0, std::string(row.config).size()), row.config);
  }
}

// Small tiles with an activation that branches, b row-major: 72 registers and a spill for a seventh
// block, before it was told of six.
TEST(MatmulSpace, RegistersHoldASmallTile) {
  if (const std::string why = jit::unavailable(); !why.empty()) GTEST_SKIP() << why;
  const Implementation& mma = *matmul().find("cuda_mma");
  const DeviceInfo device = typical_cuda_device(80);
  for (const std::int64_t activation : {2, 4}) {  // leaky_relu, silu
    Problem p = product({256, 1024, 128}, false, false);
    p.scalars[0] = activation;
    const Query q{p, device, mma};
    const Config config = default_config(q);
    ASSERT_TRUE(mma.table().print(config).starts_with("block_m=32 block_n=64 block_k=128"));
    for (const KernelSource& source : mma.sources(q, config))
      EXPECT_EQ(jit::compile(source, 80).spill_bytes, 0) << source.entry;
  }
}

}  // namespace
}  // namespace dlblas
