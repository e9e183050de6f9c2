// Results that a row program folds over rows: the CPU walker against f64 loops, for values in order
// and by even and odd elements, bypassing the caches or not; how rows are partitioned; the kernels
// compiled for GPUs. Read next: tests/device/row_folded_program.hpp,
// tests/test_layer_norm_backward.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/error.hpp"
#include "cpu/row/walk_rows.hpp"
#include "jit/jit.hpp"
#include "kernels/row_fold.hpp"
#include "tests/cpp/source_tree.hpp"
#include "tests/device/row_folded_program.hpp"

namespace dlblas {
namespace {

using test::RowFolded;

struct How {
  bool bf16, stream;
  int shift;  // elements from an aligned address to the first row
};

/// x of `rows` rows, in parts of `part` rows: each part must have its own sums.
void check(int rows, int width, int part, const How& how) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const auto size = static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
  std::vector<float> x(size), weight(static_cast<std::size_t>(width));
  const auto draw = [&] {  // bf16 holds them
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(normal(random)) & 0xffff0000u);
  };
  for (float& v : x) v = draw();
  for (float& v : weight) v = draw();
  const int bytes = how.bf16 ? 2 : 4;
  const auto memory = [&](const std::vector<float>& from) {
    std::vector<char> to((from.size() + 80) * static_cast<std::size_t>(bytes));
    for (std::size_t i = 0; i < from.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(from[i]) >> (how.bf16 ? 16 : 0);
      std::memcpy(
          to.data() + (i + static_cast<std::size_t>(how.shift)) * static_cast<std::size_t>(bytes),
          &bits, static_cast<std::size_t>(bytes));
    }
    return to;
  };
  std::vector<char> xs = memory(x), weights = memory(weight), ys = memory(x);
  const int parts = (rows + part - 1) / part;
  std::vector<float> sums(static_cast<std::size_t>(parts) * 2 * weight.size() + 1);
  sums.back() = 17;
  RowJob job{};
  job.call.rows = rows, job.call.width = width, job.call.tiles = 1;
  const DType type = how.bf16 ? DType::kBF16 : DType::kF32;
  char* data[] = {xs.data(), weights.data(), ys.data()};
  for (int i = 0; i < 3; ++i) {
    job.call.operands[i] = {data[i] + how.shift * bytes, i == 1 ? 0 : width, 1};
    job.types[i] = type;
    job.call.nest.strides[i][0] = i == 1 ? 0 : width;
  }
  job.call.nest.rank = 1, job.call.nest.sizes[0] = static_cast<std::uint32_t>(rows);
  job.operands = 3, job.rows_of = 0b101, job.written = 0b100, job.at_columns = 0b111;
  job.tile = width, job.paired = how.bf16, job.short_nans = how.bf16, job.stream = how.stream;
  for (int p = 0; p < parts; ++p) {
    job.partials = sums.data() + static_cast<std::ptrdiff_t>(p) * 2 * width;
    DLBLAS_ISA::walk_rows<RowFolded>(job, p * part, std::min(rows, (p + 1) * part));
  }
  ASSERT_EQ(sums.back(), 17) << "written past the last part";
  for (int p = 0; p < parts; ++p) {
    for (int c = 0; c < width; ++c) {
      double products = 0, sizes = 0;
      for (int r = p * part; r < std::min(rows, (p + 1) * part); ++r) {
        const float v = x[static_cast<std::size_t>(r * width + c)];
        products += static_cast<double>(v) * weight[static_cast<std::size_t>(c)];
        sizes += std::abs(v);
      }
      const auto at = static_cast<std::size_t>(p * 2 * width + c);
      const double most = sizes * 4e-7 * part;
      ASSERT_NEAR(sums[at], products, most * 4) << "part " << p << " column " << c;
      ASSERT_NEAR(sums[at + static_cast<std::size_t>(width)], sizes, most)
          << "part " << p << " column " << c;
    }
  }
}

TEST(RowFolds, AreTheirPartsSums) {
  for (const int width : {1, 3, 8, 17, 64, 131, 1000})
    for (const How how : {How{false, false, 0}, How{true, false, 0}, How{false, true, 0},
                          How{true, true, 0}, How{false, true, 3}, How{true, true, 5}})
      for (const int rows : {1, 7, 20}) check(rows, width, 7, how);
}

TEST(RowFolds, AreCutBySizesAlone) {
  for (const std::int64_t bucket : {1, 2, 64, 96, 1024, 16384, 131072, 1 << 22}) {
    for (const std::int64_t width : {1, 8, 100, 1000, 4096, 65536, 1 << 20}) {
      for (const std::int64_t rows : {bucket, bucket - bucket / 5, bucket / 2 + 1}) {
        for (const std::int64_t period : {1, 2, 8, 33}) {
          const std::string what = text(rows, "×", width, ", period ", period);
          const std::int64_t each = (rows + period - 1) / period;  // rows of a phase
          const kernels::CpuParts cpu = kernels::cpu_parts(rows, width, period);
          EXPECT_GE(cpu.rows * cpu.count, each) << what;
          EXPECT_LE(cpu.rows, kMaxFoldedRows);
          EXPECT_LE(cpu.count * period, kernels::most_cpu_parts(bucket, period)) << what;
          const kernels::CudaParts cuda = kernels::cuda_parts(rows, width, period);
          const std::int64_t share = cuda.rows * cuda.rows_at_once, parts = cuda.parts / period;
          EXPECT_EQ(cuda.parts, parts * period) << what;
          EXPECT_GE(share * parts, each) << what;
          EXPECT_LT(share * (parts - 1), each) << "a part has rows: " << what;
          EXPECT_GE(cuda.tiles * cuda.threads, width);
          EXPECT_EQ(cuda.threads * cuda.rows_at_once, 256);
          EXPECT_LE(cuda.rows, kMaxFoldedRows);
          EXPECT_LE(cuda.parts, kernels::most_cuda_parts(bucket, width, period)) << what;
        }
      }
    }
  }
}

TEST(RowFolds, CompileCleanForGpus) {
  if (const std::string why = jit::unavailable(); !why.empty()) GTEST_SKIP() << why;
  const auto clean = [](const std::string& entry, int arch) {
    const jit::Cubin& cubin = jit::compile({"tests/device/row_folded_program.hpp", entry, 0}, arch);
    EXPECT_EQ(cubin.spill_bytes, 0) << entry;
    EXPECT_TRUE(cubin.warnings.empty()) << entry << cubin.warnings.front();
  };
  const std::string types =
      "dlblas::RowTraits{.types = {dlblas::DType(2), dlblas::DType(0), "
      "dlblas::DType(2), dlblas::DType(0), dlblas::DType(1)}, ";
  for (const int arch : {80, 90}) {
    for (const char* rest : {".n = 8, .folded = 24}", ".n = 4, .nested = true, .folded = 24}",
                             ".n = 1, .nested = true, .strided = true, .aligned = false, "
                             ".folded = 24}"}) {
      for (const char* shape :
           {".threads = 8, .vectors = 1, .rows = 32", ".threads = 256, .vectors = 1, .rows = 1"})
        clean(text("dlblas::row_fold<dlblas::test::RowFolded, ", types, rest,
                   ", dlblas::RowConfig{", shape, ", .keep = false, .early = false}>"),
              arch);
      clean(text("dlblas::row_fold_parts<", types, rest, ">"), arch);
    }
    for (const char* shape :
         {".full = true, .folded = 24, .streamed = 1}, "
          "dlblas::RowConfig{.threads = 256, .vectors = 2, .rows = 2, .ahead = 3}>",
          ".nested = true, .folded = 24, .periodic = 2, .streamed = 1}, "
          "dlblas::RowConfig{.threads = 64, .vectors = 1, .rows = 4, .ahead = 2}>",
          ".folded = 24, .streamed = 1}, "
          "dlblas::RowConfig{.threads = 8, .vectors = 2, .rows = 32, .ahead = 1}>"})
      clean(text("dlblas::row_folded<dlblas::test::RowFolded, ", types, ".n = 8, ", shape), arch);
    for (const char* rest : {".n = 8, .group = 512, .folded = 24, .fold_lanes = 32",
                             ".n = 1, .group = 49, .folded = 24, .fold_lanes = 1",
                             ".n = 4, .folded = 24, .fold_lanes = 16"}) {
      clean(text("dlblas::row_fold_groups<", types, rest, "}>"), arch);
      clean(text("dlblas::row_registers<dlblas::test::RowFolded, ", types, rest,
                 "}, dlblas::RowConfig{.threads = 32, .vectors = 2, .rows = 4}>"),
            arch);
    }
  }
}

}  // namespace
}  // namespace dlblas
