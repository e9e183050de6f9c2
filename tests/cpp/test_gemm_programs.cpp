// Epilogue programs other than matmul's on the WGMMA form of matrix products: alpha[m] · beta[n] ·
// sum + residual[m, n], and silu(a·b₀) · (a·b₁): compiled without spills or waits for sm_90a, and
// on a Hopper GPU run against f64, with every way to divide the work. Read next:
// tests/device/gemm_programs.cuh, kernels/gemm_wgmma.hpp.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/error.hpp"
#include "cuda/cuda.hpp"
#include "jit/jit.hpp"
#include "kernels/gemm_wgmma.hpp"
#include "tests/cpp/gemm_case.hpp"
#include "tests/cpp/source_tree.hpp"

namespace dlblas {
namespace {

using test::at, test::Half, test::kUnwritten, test::value_of;

enum class Program { kScaledResidual, kGated };

struct Way {
  Program program;
  GemmWgmmaConfig config;
  std::int32_t span;  // 0: one sum over K
};

GemmWgmmaConfig tile(int m, int n, int k, int warpgroups, bool pingpong, int stages) {
  return {false, m, n, k, warpgroups, pingpong, GemmShare::kNone, 1, stages, false, 8};
}
GemmWgmmaConfig with(GemmWgmmaConfig c, GemmShare share, int cluster) {
  c.share = share, c.cluster = cluster;
  return c;
}
GemmWgmmaConfig swapped(GemmWgmmaConfig c) {
  c.swapped = c.weight_once = true;
  return c;
}

GemmWgmmaConfig streamed(GemmWgmmaConfig c) {
  c.stream = true;
  return c;
}

std::vector<Way> ways() {
  const auto narrow = tile(64, 48, 128, 1, false, 3), together = tile(128, 96, 64, 2, false, 3),
             in_turn = tile(128, 144, 64, 2, true, 5),
             in_turn_gated = tile(128, 192, 64, 2, true, 4);
  return {
      {Program::kScaledResidual, narrow, 0},
      {Program::kScaledResidual, together, 256},
      {Program::kScaledResidual, in_turn, 0},
      {Program::kScaledResidual, with(in_turn, GemmShare::kA, 2), 0},
      {Program::kScaledResidual, with(in_turn, GemmShare::kB, 2), 0},
      {Program::kScaledResidual, swapped(narrow), 0},
      {Program::kScaledResidual, swapped(tile(128, 24, 64, 2, false, 4)), 0},
      {Program::kScaledResidual, swapped(with(narrow, GemmShare::kK, 2)), 0},
      {Program::kScaledResidual, with(tile(128, 64, 64, 2, false, 4), GemmShare::kK, 4), 128},
      {Program::kGated, narrow, 0},
      {Program::kGated, together, 256},
      {Program::kGated, tile(128, 256, 64, 2, false, 4), 0},
      {Program::kGated, in_turn_gated, 0},
      {Program::kGated, with(in_turn_gated, GemmShare::kA, 2), 0},
      {Program::kGated, with(in_turn_gated, GemmShare::kB, 2), 0},
      {Program::kGated, with(narrow, GemmShare::kK, 2), 0},
      {Program::kScaledResidual, streamed(narrow), 0},
      {Program::kScaledResidual, streamed(together), 256},
      {Program::kScaledResidual, streamed(in_turn), 0},
      {Program::kScaledResidual, streamed(with(in_turn, GemmShare::kA, 2)), 0},
      {Program::kScaledResidual, streamed(with(in_turn, GemmShare::kB, 2)), 0},
      {Program::kScaledResidual, streamed(swapped(narrow)), 0},
      {Program::kScaledResidual, streamed(tile(192, 96, 64, 3, false, 4)), 0},
      {Program::kScaledResidual, streamed(tile(64, 32, 64, 1, false, 4)), 0},
      {Program::kGated, streamed(tile(64, 32, 64, 1, false, 4)), 0},
      {Program::kGated, streamed(with(together, GemmShare::kA, 2)), 0},
      {Program::kGated, streamed(in_turn_gated), 0},
  };
}

/// b as a linear layer's weights: contiguous along K.
KernelSource source_of(const Way& way) {
  const GemmTraits traits{DType::kBF16, true, true, true, true, true, 0, way.span};
  const char* program = way.program == Program::kGated ? "dlblas::test::GatedProgram"
                                                       : "dlblas::test::ScaledResidualProgram";
  return {"tests/device/gemm_programs.cuh", kernels::wgmma_entry(traits, way.config, program),
          way.config.shared_bytes(true, way.span)};
}

TEST(GemmPrograms, CompileCleanForHopper) {
  if (const std::string why = jit::unavailable(); !why.empty()) GTEST_SKIP() << why;
  std::vector<KernelSource> all;
  for (const Way& way : ways()) {
    ASSERT_TRUE(valid(way.config)) << source_of(way).entry;
    EXPECT_LE(source_of(way).dynamic_shared_bytes, 227 * 1024) << source_of(way).entry;
    all.push_back(source_of(way));
  }
  jit::compile_all(all, 90);
  for (const KernelSource& one : all) {
    const jit::Cubin& cubin = jit::compile(one, 90);
    EXPECT_EQ(cubin.spill_bytes, 0) << one.entry;
    EXPECT_TRUE(cubin.warnings.empty()) << one.entry << cubin.warnings.front();
  }
}

/// Rows of out and residual are followed by a gap.
struct Case : test::GemmCase {
  Case(std::int64_t rows, std::int64_t columns, std::int64_t depth)
      : GemmCase(rows, columns, depth, columns + 8) {}
  double expected(Program program, std::int64_t i, std::int64_t j) const {
    const double x = sum(0, i, j).first;
    if (program == Program::kGated) return x / (1 + std::exp(-x)) * sum(1, i, j).first;
    return double{alpha[at(i)]} * double{beta[at(j)]} * x +
           double{value_of(residual[at(i * row + j)])};
  }
};

class GemmProgramsOnGpu : public test::GemmOnGpu {
 protected:
  void SetUp() override { start(90, false); }

  std::vector<Half> run(const Case& c, const Way& way) {
    buffers_.clear();
    std::vector<Half> out = c.unwritten();
    Half* const to = upload(out);
    const bool gated = way.program == Program::kGated;
    const kernels::WgmmaProduct product = {
        .type = DType::kBF16,
        .out_type = DType::kBF16,
        .a = {upload(c.a), c.k, c.m, c.k},
        .b = {{upload(c.b[0]), c.k, c.n, c.k}, {upload(c.b[1]), c.k, c.n, c.k}},
        .out = {to, c.n, c.m, c.row},
        .a_by_depth = true,
        .b_by_depth = true,
        .parts = gated ? 2 : 1,
        .m = c.m,
        .n = c.n,
        .k = c.k};
    GemmWgmmaCall call{};
    cuda::Launch how;
    const KernelSource source = source_of(way);
    const int units = cuda::info(0).units;
    void* room = nullptr;  // of stream-K, filled with NaN
    if (const std::size_t bytes = kernels::wgmma_room_bytes(way.config, units); bytes > 0)
      room = upload(std::vector<float>(bytes / 4, std::nanf("")));
    cuda::check(kernels::prepare_wgmma(product, way.config, units, call, how, room, stream_->get()),
                "encoding tensor maps");
    if (!gated) {
      call.operands[0] = {upload(c.alpha), 0};
      call.operands[1] = {upload(c.beta), 0};
      call.operands[2] = {upload(c.residual), c.row};
    }
    how.shared_bytes = static_cast<unsigned>(source.dynamic_shared_bytes);
    const cuda::Function& function = jit::load(source, cuda::info(0));
    cuda::check(cuda::launch(function, how, call, stream_->get()), source.entry.c_str());
    cuda::copy_to_host(out.data(), to, out.size() * sizeof(Half), stream_->get());
    return out;
  }

  /// Compares a way's result with f64, and its bits with another run's.
  void expect_as_in_f64(const Case& c, const Way& way, const std::vector<double>& expected) {
    const std::string entry = source_of(way).entry;
    const std::vector<Half> out = run(c, way);
    for (std::int64_t i = 0; i < c.m; ++i)
      for (std::int64_t j = 0; j < c.row; ++j) {
        const Half got = out[at(i * c.row + j)];
        if (j >= c.n) {
          ASSERT_EQ(got, kUnwritten) << entry << " at " << i << ", " << j << ": past the last";
          continue;
        }
        const double want = expected[at(i * c.n + j)];
        // One rounding to bf16, and f32 sums of 1,032 terms in both parts.
        ASSERT_NEAR(double{value_of(got)}, want, 0.0040 * std::abs(want) + 2e-3)
            << entry << " at " << i << ", " << j;
      }
    EXPECT_EQ(run(c, way), out) << entry << ": other bits in another run";
  }
};

std::vector<double> expected_of(const Case& c, Program program) {
  std::vector<double> expected;
  for (std::int64_t i = 0; i < c.m * c.n; ++i)
    expected.push_back(c.expected(program, i / c.n, i % c.n));
  return expected;
}

// 200 to 600 units for 132 blocks: with stream-K each block has whole units before its split ones.
TEST_F(GemmProgramsOnGpu, StreamsUnitsAfterWholeOnes) {
  const Case c(640, 960, 520);
  const auto narrow = tile(64, 48, 64, 1, false, 3);
  for (const Program program : {Program::kScaledResidual, Program::kGated}) {
    const std::vector<double> expected = expected_of(c, program);
    for (const GemmWgmmaConfig& config : {narrow, tile(64, 32, 64, 1, false, 4)})
      expect_as_in_f64(c, {program, streamed(config), 0}, expected);
  }
}

TEST_F(GemmProgramsOnGpu, AreAsInF64) {
  // Partial tiles in each dimension; several passes over the ring, and over the persistent blocks.
  for (const Case& c : {Case(5, 40, 264), Case(200, 264, 1032)}) {
    const std::vector<double> expected[] = {expected_of(c, Program::kScaledResidual),
                                            expected_of(c, Program::kGated)};
    for (const Way& way : ways()) expect_as_in_f64(c, way, expected[static_cast<int>(way.program)]);
  }
}

}  // namespace
}  // namespace dlblas
