// device/: barriers, copy engine, matrix instruction and dependent launches, each in a small kernel
// of tests/device, compiled by the library's own JIT and started by its own launcher. Without a GPU
// the kernels are only compiled. The tree is DLBLAS_SOURCE_DIR, else the folder at or above the
// working directory that holds tests/device. Read next: tests/device/wgmma_gemm.cuh.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "core/dtype.hpp"
#include "cuda/cuda.hpp"
#include "jit/jit.hpp"
#include "tests/cpp/source_tree.hpp"
#include "tests/device/toolbox_params.hpp"

namespace dlblas::test {
namespace {

KernelSource copies(const std::string& entry) {
  return {"tests/device/tma_copies.cuh", "dlblas::" + entry};
}
KernelSource gemm(WgmmaTraits s) {
  const auto flag = [](bool on) { return on ? "true" : "false"; };
  return {"tests/device/wgmma_gemm.cuh",
          text("dlblas::wgmma_gemm<dlblas::WgmmaTraits{", s.width, ", ", flag(s.bf16), ", ",
               flag(s.a_mn), ", ", flag(s.b_mn), ", ", s.stages, "}>"),
          wgmma_shared_bytes(s)};
}
KernelSource phases(int slots) {
  return {"tests/device/mbarrier_phases.cuh", text("dlblas::mbarrier_phases<", slots, ">")};
}
const KernelSource kLink = {"tests/device/dependent_chain.cuh", "dlblas::dependent_link"};

TEST(DeviceToolboxJit, EveryKernelCompilesClean) {
  if (const std::string why = jit::unavailable(); !why.empty()) GTEST_SKIP() << why;
  const std::vector<KernelSource> sources = {phases(2),
                                             kLink,
                                             copies("tma_to_dense<2, true>"),
                                             copies("tma_to_dense<3, false>"),
                                             copies("tma_from_dense<2, true>"),
                                             copies("tma_from_dense<3, false>"),
                                             copies("tma_multicast<2>"),
                                             gemm({8, true, false, false, 4}),
                                             gemm({128, true, false, false, 4}),
                                             gemm({256, false, true, true, 4})};
  const auto expect_clean = [](const KernelSource& source, int arch) {
    const jit::Cubin& cubin = jit::compile(source, arch);
    EXPECT_TRUE(cubin.warnings.empty()) << source.entry << ": " << cubin.warnings.front();
    EXPECT_EQ(cubin.spill_bytes, 0) << source.entry;
    EXPECT_GT(cubin.registers, 0) << source.entry;
    std::printf("  %-64s sm_%d %3d registers, compiled in %.0f ms\n", source.entry.c_str(), arch,
                cubin.registers, cubin.compile_ms);
  };
  for (const KernelSource& source : sources) expect_clean(source, 90);
  expect_clean(kLink, 80);  // griddepcontrol falls away
}

// Everything below runs on the first GPU, in its primary context and a stream of our own.
class DeviceToolbox : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = cuda::unavailable(); !why.empty()) GTEST_SKIP() << why;
    if (cuda::device_count() == 0) GTEST_SKIP() << "no GPU is visible";
    if (cuda::info(0).arch / 10 != 9)
      GTEST_SKIP() << "needs a Hopper GPU (sm_90a), this is " << cuda::info(0).arch;
    current_ = std::make_unique<cuda::CurrentDevice>(0);
    stream_ = std::make_unique<cuda::Stream>();
  }

  template <typename T>
  cuda::Buffer upload(const std::vector<T>& host) {
    cuda::Buffer buffer(host.size() * sizeof(T));
    cuda::copy_to_device(buffer.data(), host.data(), buffer.bytes(), stream_->get());
    return buffer;
  }
  template <typename T>
  std::vector<T> download(const cuda::Buffer& buffer) {
    std::vector<T> host(buffer.bytes() / sizeof(T));
    cuda::copy_to_host(host.data(), buffer.data(), buffer.bytes(), stream_->get());
    return host;
  }
  template <typename Params>
  void launch(const KernelSource& source, cuda::Launch how, const Params& params) {
    how.shared_bytes = static_cast<unsigned>(source.dynamic_shared_bytes);
    const cuda::Function& function = jit::load(source, cuda::info(0));
    cuda::check(cuda::launch(function, how, params, stream_->get()), source.entry.c_str());
  }

  std::unique_ptr<cuda::CurrentDevice> current_;
  std::unique_ptr<cuda::Stream> stream_;
};

TEST_F(DeviceToolbox, PhasesHandOverEveryRound) {
  for (const int slots : {1, 2, 3}) {
    const cuda::Buffer wrong = upload(std::vector<std::int32_t>(256, -1));
    launch(phases(slots), {.grid = {1}, .block = {256}},
           PhasesParams{static_cast<std::int32_t*>(wrong.data()), 1000});
    EXPECT_EQ(download<std::int32_t>(wrong), std::vector<std::int32_t>(256, 0)) << slots;
  }
}

// ---- The copy engine -------------------------------------------------------------------------

constexpr std::int64_t kBox[3] = {64, 16, 4};  // as in tma_copies.cuh
constexpr std::int64_t kGrid[3] = {3, 5, 3};   // boxes; they cover the tensor and its outside
// The first box's corner. Loads may begin before the tensor; stores may not.
constexpr std::int64_t kBefore[3] = {-8, -3, -2}, kOrigin[3] = {0, 0, 0};
constexpr std::int64_t kSizes[3] = {100, 50, 6};
constexpr std::int64_t kRow = 104, kPlane = kRow * 52;  // strides; the gaps must stay as they are

TensorMap map_of(const cuda::TensorMapSpec& spec) {
  TensorMap map;
  cuda::check(cuda::encode_tensor_map(map, spec), "encoding a tensor map");
  return map;
}
TensorMap matrix_map(DType dtype, const void* data, std::int64_t width, std::int64_t height,
                     int box_width, int box_height) {
  cuda::TensorMapSpec spec{.dtype = dtype, .data = data};
  spec.sizes[0] = static_cast<std::uint64_t>(width);
  spec.sizes[1] = static_cast<std::uint64_t>(height);
  spec.strides_bytes[0] = static_cast<std::uint64_t>(width) * 2;
  spec.box[0] = static_cast<std::uint32_t>(box_width);
  spec.box[1] = static_cast<std::uint32_t>(box_height);
  return map_of(spec);
}

struct CopyCase {
  int rank;
  bool swizzled;
  std::string entry(const char* name) const {
    return text(name, "<", rank, swizzled ? ", true>" : ", false>");
  }
  std::int64_t depth() const { return rank == 3 ? kSizes[2] : 1; }
  std::int64_t grid_z() const { return rank == 3 ? kGrid[2] : 1; }
  cuda::Launch launch() const {
    return {.grid = {kGrid[0], kGrid[1], static_cast<unsigned>(grid_z())}, .block = {128}};
  }
  std::size_t dense_size() const {
    return static_cast<std::size_t>(kGrid[0] * kBox[0] * kGrid[1] * kBox[1] *
                                    (rank == 3 ? kGrid[2] * kBox[2] : 1));
  }
  CopyParams params(const cuda::Buffer& tensor, const cuda::Buffer& dense,
                    const std::int64_t (&first)[3]) const {
    cuda::TensorMapSpec spec{.data = tensor.data(), .rank = rank};
    for (int i = 0; i < rank; ++i) {
      spec.sizes[i] = static_cast<std::uint64_t>(kSizes[i]);
      spec.box[i] = static_cast<std::uint32_t>(kBox[i]);
    }
    spec.strides_bytes[0] = kRow * 2;
    spec.strides_bytes[1] = kPlane * 2;
    spec.swizzle = swizzled ? cuda::Swizzle::k128 : cuda::Swizzle::kNone;
    return {map_of(spec), static_cast<std::uint16_t*>(dense.data()),
            static_cast<std::int32_t>(first[0]), static_cast<std::int32_t>(first[1]),
            static_cast<std::int32_t>(rank == 3 ? first[2] : 0)};
  }
  /// Calls fn(index in the tensor's memory, or -1 outside of it; index in the dense array). Treats
  /// rows as `columns` long.
  template <typename F>
  void for_each(const std::int64_t (&first)[3], std::int64_t columns, F&& fn) const {
    const std::int64_t width = kGrid[0] * kBox[0], height = kGrid[1] * kBox[1];
    for (std::size_t i = 0; i < dense_size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const std::int64_t x = at % width + first[0], y = at / width % height + first[1];
      const std::int64_t z = at / width / height + (rank == 3 ? first[2] : 0);
      const bool inside = x >= 0 && x < columns && y >= 0 && y < kSizes[1] && z >= 0 && z < depth();
      fn(inside ? z * kPlane + y * kRow + x : -1, i);
    }
  }
};

std::vector<std::uint16_t> random_bits(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint16_t> bits(n);
  for (std::uint16_t& b : bits) b = static_cast<std::uint16_t>(random() | 1);  // no zero
  return bits;
}

/// Where a tensor differs from what is expected: how many elements, and the first few as (z, y, x).
std::string differences(const std::vector<std::uint16_t>& got,
                        const std::vector<std::uint16_t>& expected) {
  std::string text;
  std::size_t count = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (got[i] == expected[i] || ++count > 8) continue;
    const auto at = static_cast<std::int64_t>(i);
    char line[96];
    std::snprintf(line, sizeof line, " (%d, %d, %d) is %04x, expected %04x;",
                  static_cast<int>(at / kPlane), static_cast<int>(at % kPlane / kRow),
                  static_cast<int>(at % kRow), got[i], expected[i]);
    text += line;
  }
  return count == 0 ? "" : std::to_string(count) + " differ:" + text;
}

class Copies : public DeviceToolbox, public testing::WithParamInterface<CopyCase> {};

TEST_P(Copies, LoadTilesAndFillTheOutsideWithZeros) {
  const CopyCase& c = GetParam();
  const auto host = random_bits(static_cast<std::size_t>(kPlane * c.depth()), 1);
  const cuda::Buffer tensor = upload(host);
  const cuda::Buffer dense = upload(std::vector<std::uint16_t>(c.dense_size(), 0xffff));
  launch(copies(c.entry("tma_to_dense")), c.launch(), c.params(tensor, dense, kBefore));
  std::vector<std::uint16_t> expected(c.dense_size());
  c.for_each(kBefore, kSizes[0], [&](std::int64_t from, std::size_t to) {
    expected[to] = from < 0 ? 0 : host[static_cast<std::size_t>(from)];
  });
  EXPECT_TRUE(download<std::uint16_t>(dense) == expected);
}

// Stores may also fill the rest of a row's last 16 bytes, hence rows of kRow elements: see
// tma_store.
TEST_P(Copies, StoreTilesAndNothingOutside) {
  const CopyCase& c = GetParam();
  std::vector<std::uint16_t> expected(static_cast<std::size_t>(kPlane * c.depth()), 0xffff);
  const auto host = random_bits(c.dense_size(), 2);
  const cuda::Buffer tensor = upload(expected), dense = upload(host);
  launch(copies(c.entry("tma_from_dense")), c.launch(), c.params(tensor, dense, kOrigin));
  c.for_each(kOrigin, kRow, [&](std::int64_t to, std::size_t from) {
    if (to >= 0) expected[static_cast<std::size_t>(to)] = host[from];
  });
  EXPECT_EQ(differences(download<std::uint16_t>(tensor), expected), "");
}

INSTANTIATE_TEST_SUITE_P(Tma, Copies,
                         testing::Values(CopyCase{2, true}, CopyCase{2, false}, CopyCase{3, true},
                                         CopyCase{3, false}),
                         [](const auto& which) {
                           return text(which.param.rank, "d_",
                                       which.param.swizzled ? "swizzled" : "plain");
                         });

class Multicast : public DeviceToolbox, public testing::WithParamInterface<int> {};

TEST_P(Multicast, EveryBlockOfTheClusterSeesTheWholeTile) {
  const int blocks = GetParam(), rounds = 6;
  const std::size_t tile = 64 * 64;
  const auto host = random_bits(rounds * tile, 3);
  const cuda::Buffer tensor = upload(host);
  const cuda::Buffer dense =
      upload(std::vector<std::uint16_t>(static_cast<std::size_t>(blocks) * host.size(), 0xffff));
  const MulticastParams params = {
      matrix_map(DType::kBF16, tensor.data(), 64, rounds * 64, 64, 64 / blocks),
      static_cast<std::uint16_t*>(dense.data()), rounds};
  const auto width = static_cast<unsigned>(blocks);
  launch(copies(text("tma_multicast<", blocks, ">")),
         {.grid = {width}, .block = {128}, .cluster = width}, params);
  const auto seen = download<std::uint16_t>(dense);
  for (std::size_t b = 0; b < width; ++b)
    EXPECT_TRUE(
        std::equal(host.begin(), host.end(), seen.begin() + static_cast<long>(b * host.size())))
        << "block " << b;
}
INSTANTIATE_TEST_SUITE_P(Clusters, Multicast, testing::Values(2, 4),
                         [](const auto& which) { return text("of_", which.param); });

// ---- Dependent launches ----------------------------------------------------------------------

TEST_F(DeviceToolbox, DependentLaunchesSeeWhatTheOneBeforeWrote) {
  const std::int32_t count = 1 << 20, links = 200;
  cuda::Buffer buffers[2] = {upload(std::vector<std::int32_t>(count, 0)),
                             upload(std::vector<std::int32_t>(count, -1))};
  for (int i = 0; i < links; ++i) {
    const ChainParams params = {static_cast<const std::int32_t*>(buffers[i % 2].data()),
                                static_cast<std::int32_t*>(buffers[1 - i % 2].data()), count};
    launch(kLink, {.grid = {64}, .block = {256}, .dependent = true}, params);
  }
  EXPECT_EQ(download<std::int32_t>(buffers[links % 2]), std::vector<std::int32_t>(count, links));
}

// ---- The matrix instruction ------------------------------------------------------------------

struct Matrix {
  std::vector<std::uint16_t> bits;
  std::vector<double> values;  // as rounded
};

Matrix random_matrix(std::size_t n, bool bf16, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix m;
  for (std::size_t i = 0; i < n; ++i) {
    const float v = normal(random);
    m.bits.push_back(bf16 ? f32_to_bf16(v) : f32_to_f16(v));
    m.values.push_back(bf16 ? bf16_to_f32(m.bits.back()) : f16_to_f32(m.bits.back()));
  }
  return m;
}

struct Shape {
  std::int32_t m, n, k;
};

/// The worst |D − f64| over its bound: K f32 roundings (2⁻²³ each, since the units truncate) of the
/// sum of absolute terms.
double worst_of(const WgmmaTraits& s, Shape shape, const Matrix& a, const Matrix& b,
                const std::vector<float>& d) {
  double worst = 0;
  for (std::int32_t row = 0; row < shape.m; ++row)
    for (std::int32_t column = 0; column < shape.n; ++column) {
      double sum = 0, magnitude = 0;
      for (std::int32_t k = 0; k < shape.k; ++k) {
        const double term =
            a.values[static_cast<std::size_t>(s.a_mn ? k * shape.m + row : row * shape.k + k)] *
            b.values[static_cast<std::size_t>(s.b_mn ? k * shape.n + column
                                                     : column * shape.k + k)];
        sum += term;
        magnitude += std::abs(term);
      }
      const double error = std::abs(d[static_cast<std::size_t>(row * shape.n + column)] - sum);
      const double ratio = error / (magnitude * shape.k * 0x1p-23);
      if (!(ratio <= worst)) worst = ratio;  // a NaN stays
    }
  return worst;
}

class Wgmma : public DeviceToolbox {
 protected:
  void expect_right(WgmmaTraits s, Shape shape) {
    const auto size = [](std::int64_t rows, std::int64_t columns) {
      return static_cast<std::size_t>(rows * columns);
    };
    const Matrix a = random_matrix(size(shape.m, shape.k), s.bf16, 4);
    const Matrix b = random_matrix(size(shape.n, shape.k), s.bf16, 5);
    const cuda::Buffer a_device = upload(a.bits), b_device = upload(b.bits);
    const cuda::Buffer d = upload(std::vector<float>(size(shape.m, shape.n), NAN));
    const DType dtype = s.bf16 ? DType::kBF16 : DType::kF16;
    WgmmaParams p = {};
    p.a = s.a_mn ? matrix_map(dtype, a_device.data(), shape.m, shape.k, 64, kWgmmaDepth)
                 : matrix_map(dtype, a_device.data(), shape.k, shape.m, kWgmmaDepth, kWgmmaRows);
    p.b = s.b_mn ? matrix_map(dtype, b_device.data(), shape.n, shape.k, 64, kWgmmaDepth)
                 : matrix_map(dtype, b_device.data(), shape.k, shape.n, kWgmmaDepth, s.width);
    p.d = static_cast<float*>(d.data());
    p.m = shape.m, p.n = shape.n, p.k = shape.k;
    const auto blocks = static_cast<unsigned>((shape.m + kWgmmaRows - 1) / kWgmmaRows);
    launch(gemm(s), {.grid = {blocks}, .block = {384}}, p);
    EXPECT_LE(worst_of(s, shape, a, b, download<float>(d)), 1.0)
        << gemm(s).entry << " at " << shape.m << "x" << shape.n << "x" << shape.k;
  }
};

TEST_F(Wgmma, EveryWidthMultiplies) {
  std::vector<WgmmaTraits> all;
  for (std::int32_t width = 8; width <= 256; width += 8)
    for (const bool bf16 : {true, false}) all.push_back({width, bf16, false, false, 4});
  std::vector<KernelSource> sources;
  for (const WgmmaTraits& s : all) sources.push_back(gemm(s));
  jit::compile_all(sources, cuda::info(0).arch);
  for (const WgmmaTraits& s : all) expect_right(s, {128, s.width, 128});
}

TEST_F(Wgmma, EitherOperandMayLieEitherWay) {
  for (const bool bf16 : {true, false})
    for (const bool a_mn : {false, true})
      for (const bool b_mn : {false, true})
        expect_right({192, bf16, a_mn, b_mn, 3}, {128, 192, 256});
}

TEST_F(Wgmma, TheRingTurnsAndEdgesAreZeros) {
  for (const bool mn : {false, true}) {
    expect_right({128, true, mn, mn, 4}, {200, 120, 2008});  // 32 turns of 4 stages; every edge
    expect_right({128, true, mn, mn, 4}, {8, 8, 8});
    expect_right({256, false, mn, mn, 1}, {264, 256, 192});  // one stage: every turn waits
  }
}

}  // namespace
}  // namespace dlblas::test
