// What searches over the tensor-core forms of matmul visit: never nothing, never more than fits
// into a budget, and by default what was measured to be fastest on the large products; what
// cuda_wgmma refuses. No GPU: devices are typical ones. Read next:
// ops/gemm/matmul/cuda/matmul_mma_space.cpp, matmul_wgmma_space.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "jit/jit.hpp"
#include "ops/gemm/matmul/cuda/matmul_wgmma_space.hpp"
#include "registry/registry.hpp"

namespace dlblas {
namespace {

constexpr std::size_t kMax = 128;       // 64 are searched exhaustively, and few shapes have more
constexpr std::size_t kMaxWgmma = 512;  // the model ranks them

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

std::string wgmma_says(const Problem& p) {
  const DeviceInfo device = typical_cuda_device(90);
  const Query q{p, device, *matmul().find("cuda_wgmma")};
  return q.self.supports(q).text(matmul().schema);
}

void expect_searchable(const Problem& p, const DeviceInfo& device, const char* name = "cuda_mma",
                       std::size_t most = kMax) {
  const Implementation& impl = *matmul().find(name);
  const Query q{p, device, impl};
  const Space space = make_space(q);
  const std::string where =
      text(name, " ", device.model, " ", p.dims[0], "x", p.dims[2], "x", p.dims[1]);
  EXPECT_GE(space.configs().size(), 1u) << where;
  EXPECT_LE(space.configs().size(), most) << where;
  const Config config = default_config(q);
  EXPECT_EQ(space.broken_constraint(config), "") << where << ": " << impl.table().print(config);
  EXPECT_GT(impl.estimate(q, config), 0) << where;
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
    for (std::int64_t& size : p.dims) size = (size + 7) / 8 * 8;  // rows of 16 bytes
    const DeviceInfo hopper = typical_cuda_device(90);
    ASSERT_EQ(wgmma_says(p), "yes");
    expect_searchable(p, hopper, "cuda_wgmma", kMaxWgmma);
    for (const std::int64_t activation : {0, 3}) {  // none, gelu
      p.tensors[2].dtype = activation ? DType::kBF16 : DType::kAbsent;
      p.tensors[3].dtype = activation ? DType::kBF16 : DType::kF32;
      p.scalars[0] = activation;
      expect_searchable(p, hopper, "cuda_wgmma", kMaxWgmma);
    }
  }
}

TEST(MatmulSpace, WgmmaRefusesWhatTheCopyEngineCannotMove) {
  const Problem good = product({64, 128, 256}, false, true);
  ASSERT_EQ(wgmma_says(good), "yes");
  Problem p = good;
  p.dims[2] = 132;
  EXPECT_EQ(wgmma_says(p),
            "N = 132 is not a multiple of 8: rows of out are no multiples of 16 bytes");
  p.tensors[3].dtype = DType::kF32;  // 4 are 16 bytes
  EXPECT_EQ(wgmma_says(p), "yes");
  p = good, p.dims[1] = 0;
  EXPECT_EQ(wgmma_says(p), "a dimension is zero");
  p = good, p.tensors[0].align_log2 = 3;
  EXPECT_EQ(wgmma_says(p), "rows of a are aligned to 8 bytes; 16 are needed");
  p = good, p.tensors[3].align_log2 = 1;
  EXPECT_EQ(wgmma_says(p), "rows of out are aligned to 2 bytes; 16 are needed");
  p = good, p.tensors[3].layout = Layout::kTransposed;
  EXPECT_EQ(wgmma_says(p), "rows of out are not contiguous");
  p = good, p.tensors[1].layout = Layout::kRowsBroadcast;
  EXPECT_EQ(wgmma_says(p), "b is contiguous in neither dimension");
  p = good, p.tensors[2] = {DType::kBF16, Layout::kOther, 4, 0};
  EXPECT_EQ(wgmma_says(p), "bias is not contiguous from a multiple of 8 bytes on");
  p.tensors[2] = {DType::kBF16, Layout::kContiguous, 1, 0};
  EXPECT_EQ(wgmma_says(p), "bias is not contiguous from a multiple of 8 bytes on");
  p = good;
  for (TensorTraits& t : p.tensors)
    if (t.dtype == DType::kBF16) t.dtype = DType::kF32;
  EXPECT_EQ(wgmma_says(p), "f32 stays IEEE here: tensor cores would round it to TF32");
}

// H200s, bf16, a prototype's times of 22 November 2026 (docs/notes/gemm.md): the fastest tile of
// each, or one within 1.5 % of it.
TEST(MatmulSpace, WgmmaDefaultsAreTilesThatWereFastest) {
  const Implementation& wgmma = *matmul().find("cuda_wgmma");
  const DeviceInfo device = typical_cuda_device(90);
  const struct {
    Sizes sizes;
    int swapped, block_m, block_n;
    bool pingpong;
  } fastest[] = {
      {{8192, 8192, 8192}, 0, 128, 144, true},  {{16384, 11264, 4096}, 0, 128, 128, true},
      {{4096, 7168, 2048}, 0, 128, 160, true},  {{4096, 24576, 1536}, 0, 128, 176, true},
      {{4096, 7168, 16384}, 0, 128, 160, true}, {{4096, 2112, 7168}, 0, 128, 176, true},
      {{1024, 4096, 4096}, 0, 128, 128, true},  {{512, 4096, 7168}, 0, 128, 128, false},
      {{256, 7168, 2048}, 0, 128, 112, false},  {{64, 14336, 4096}, 0, 64, 112, false},
      {{16, 4096, 4096}, 1, 64, 16, false},
  };
  for (const auto& row : fastest) {
    const Problem p = product(row.sizes, false, true);
    const std::string printed = wgmma.table().print(default_config({p, device, wgmma}));
    EXPECT_TRUE(printed.starts_with(
        text("swapped=", row.swapped, " block_m=", row.block_m, " block_n=", row.block_n, " ")))
        << printed << " for " << row.sizes.m << "x" << row.sizes.n << "x" << row.sizes.k;
    EXPECT_EQ(printed.find("pingpong=1") != printed.npos, row.pingpong) << printed;
  }
}

// Every tile that a search may try: sums beside an epilogue's values must fit into registers, and
// ptxas must not serialise the instruction (C7510 … C7514).
TEST(MatmulSpace, WgmmaTilesNeitherSpillNorWait) {
  if (const std::string why = jit::unavailable(); !why.empty()) GTEST_SKIP() << why;
  const Implementation& wgmma = *matmul().find("cuda_wgmma");
  const DeviceInfo device = typical_cuda_device(90);
  std::vector<KernelSource> all;
  for (const std::int64_t activation : {3, 4}) {
    Problem p = product({4096, 4608, 512}, false, true);
    p.scalars[0] = activation;
    p.tensors[2] = {DType::kF32, Layout::kContiguous, 4, 0};
    const Query q{p, device, wgmma};
    std::set<std::string> tiles;  // one ring of each
    for (const Config& config : make_space(q).configs()) {
      const GemmWgmmaConfig c = gemm::wgmma_table().from_config(config);
      if (c.share != GemmShare::kNone || c.sums() < 160) continue;
      if (tiles.insert(text(c.block_m, "x", c.block_n, c.pingpong)).second)
        for (KernelSource& source : wgmma.sources(q, config)) all.push_back(std::move(source));
    }
  }
  ASSERT_FALSE(all.empty());
  jit::compile_all(all, 90);
  for (const KernelSource& source : all) {
    const jit::Cubin& cubin = jit::compile(source, 90);
    EXPECT_EQ(cubin.spill_bytes, 0) << source.entry;
    EXPECT_TRUE(cubin.warnings.empty()) << source.entry << cubin.warnings.front();
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
