// Predictions rank the built-in implementations before anything is measured. They must be sane at
// any size and have no ties between instruction-set levels, or "smallest predicted time" would name
// the one that is listed first. Read next: src/kernels/rows_cpu.cpp, ops/gemm/matmul/matmul.hpp.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "dispatch/dispatch.hpp"
#include "registry/registry.hpp"

namespace dlblas {
namespace {

Problem problem_of(const Operator& op, DType dtype, std::initializer_list<std::int64_t> dims) {
  Problem p;
  p.op = op.id;
  p.threads = 2;
  for (std::size_t i = 0; i < op.schema.tensors.size(); ++i) {
    const TensorSpec& spec = op.schema.tensors[i];
    const bool absent = spec.optional && !spec.usual;
    p.tensors[i] = {absent ? DType::kAbsent : dtype, Layout::kContiguous, 4, 0};
  }
  std::copy(dims.begin(), dims.end(), p.dims);
  for (const ScalarSpec& spec : op.schema.scalars)
    if (spec.key) p.scalars[spec.key_slot] = spec.default_value.i;
  return p;
}

double predicted(const Operator& op, const Problem& p, const std::string& name) {
  const Implementation* impl = op.find(name);
  const DeviceInfo& device = device_info(p.device());
  const Query q{p, device, *impl};
  return impl->estimate(q, default_config(q));
}

void expect_levels_in_order(const Operator& op, const Problem& p, const std::string& prefix) {
#if defined(__x86_64__)
  const double avx512 = predicted(op, p, prefix + "avx512"),
               avx2 = predicted(op, p, prefix + "avx2");
  EXPECT_LE(avx512, avx2) << prefix << p.dims[0];
  EXPECT_LT(avx2, predicted(op, p, prefix + "baseline")) << prefix << p.dims[0];
#else
  EXPECT_GT(predicted(op, p, prefix + "baseline"), 0);
#endif
}

TEST(Estimates, WiderLevelsArePredictedFaster) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const char* name : {"rms_norm", "add_rms_norm"}) {
      const Operator& op = *Registry::process().at(name).op;
      for (const std::int64_t rows : {1, 512, 16384})
        expect_levels_in_order(op, problem_of(op, dtype, {rows, 4096}), "cpu_");
    }
    const Operator& matmul = *Registry::process().at("matmul").op;
    for (const std::int64_t rows : {1, 8})
      expect_levels_in_order(matmul, problem_of(matmul, dtype, {rows, 4096, 4096}), "cpu_row_");
    for (const std::int64_t rows : {16, 512})
      expect_levels_in_order(matmul, problem_of(matmul, dtype, {rows, 4096, 4096}), "cpu_");
  }
}

/// The implementation that a call on a typical sm_90 runs before anything is measured.
std::string predicted_best(const Operator& op, Problem p) {
  p.device_type = DeviceType::kCuda;
  const DeviceInfo device = typical_cuda_device(90);
  const Implementation* best = nullptr;
  double least = 0;
  for (const Implementation* impl : op.candidates()) {
    const Query q{p, device, *impl};
    if (impl->backend != DeviceType::kCuda || !check_support(q)) continue;
    const double ms = impl->estimate(q, default_config(q));
    if (!best || ms < least) best = impl, least = ms;
  }
  return best ? best->name : "none";
}
std::string predicted_best(const char* name, std::int64_t rows, std::int64_t width) {
  const Operator& op = *Registry::process().at(name).op;
  return predicted_best(op, problem_of(op, DType::kBF16, {rows, width}));
}

// The fastest with bf16 on an H200: benchmarks/results, 2026-11-22.
TEST(Estimates, ArithmeticCountsWhereItTakesLonger) {
  const auto microseconds = [](const char* name, const char* impl,
                               std::initializer_list<std::int64_t> dims) {
    const Operator& op = *Registry::process().at(name).op;
    return 1e3 * predicted(op, problem_of(op, DType::kBF16, dims), impl);
  };
  // Measured on two threads of an EPYC (Zen 5): 466 and 46 us; their bytes take 9 and 18.
  const double router = microseconds("topk_softmax", "cpu_avx2", {4096, 128, 8});
  const double plain = microseconds("scale_rows", "cpu_avx2", {4096, 128});
  EXPECT_GT(router, 8 * plain);
  const Operator& softmax = *Registry::process().at("softmax").op;
  Problem p = problem_of(softmax, DType::kF32, {4096, 4096});
  const double rows = predicted(softmax, p, "cpu_avx2");
  p.tensors[0].layout = Layout::kTransposed;
  EXPECT_GT(predicted(softmax, p, "cpu_avx2"), 2 * rows);  // 240 and 50 ms
}

TEST(Estimates, NormsOnAGpuRunWhatWasMeasuredFastest) {
  for (const char* op : {"rms_norm", "add_rms_norm"}) {
    EXPECT_EQ(predicted_best(op, 1, 4096), "cuda_registers") << op;
    EXPECT_EQ(predicted_best(op, 16384, 8192), "cuda_registers") << op;
    EXPECT_EQ(predicted_best(op, 131072, 128), "cuda_registers") << op;
    EXPECT_EQ(predicted_best(op, 1024, 65536), "cuda_cluster") << op;
    EXPECT_EQ(predicted_best(op, 256, 262144), "cuda_cluster") << op;
    EXPECT_EQ(predicted_best(op, 16, 4194304), "cuda_ring") << op;
  }
}

// The fastest with bf16 on an H200, 26 November 2026: docs/notes/gemm.md.
TEST(Estimates, ProductsOnAHopperRunWhatWasMeasuredFastest) {
  const Operator& gated = *Registry::process().at("gated_linear").op;
  for (const std::int64_t rows : {1, 2, 4, 16})
    EXPECT_EQ(predicted_best(gated, problem_of(gated, DType::kBF16, {rows, 4096, 14336})),
              rows <= 2 ? "cuda_gemv" : "cuda_mma")
        << rows;

  const Operator& packed = *Registry::process().at("mm_w4a16_awq").op;
  // The parts of a composed form cannot be selected for an absent device: only its estimate is
  // compared.
  const DeviceInfo hopper = typical_cuda_device(90);
  for (const std::int64_t rows : {1, 16, 64, 256}) {
    Problem p = problem_of(packed, DType::kBF16, {rows, 4096, 14336 / 8, 128});
    p.device_type = DeviceType::kCuda, p.tensors[1].dtype = DType::kI32;
    const auto estimated = [&](const char* name) {
      const Query q{p, hopper, *packed.find(name)};
      return q.self.estimate(q, default_config(q));
    };
    EXPECT_EQ(estimated("cuda_dequantized") < estimated("cuda_packed"), rows > 16) << rows;
  }

  const Operator& grouped = *Registry::process().at("grouped_gemm_k").op;
  const struct {
    std::int64_t rows, n, k, groups;
    const char* tile;
  } sums[] = {{32768, 768, 2048, 128, "tile=128x192x64"},
              {8192, 4096, 7168, 8, "tile=128x128x64"},
              {16384, 4096, 4096, 8, "tile=128x128x64"}};
  for (const auto& s : sums) {
    Problem p = problem_of(grouped, DType::kBF16, {s.rows, s.n, s.k, s.groups});
    p.device_type = DeviceType::kCuda;
    p.tensors[2].dtype = DType::kI32;
    EXPECT_EQ(predicted_best(grouped, p), "cuda_wgmma") << s.rows;
    const Implementation& wgmma = *grouped.find("cuda_wgmma");
    const DeviceInfo device = typical_cuda_device(90);
    EXPECT_EQ(wgmma.table().print(default_config({p, device, wgmma})), s.tile) << s.rows;
  }
}

// 3·10⁹ each way: 2.7·10²⁸ multiply-adds, far beyond int64; the estimate must be years, not
// negative.
TEST(Estimates, HoldAtSizesNobodyHas) {
  const Operator& op = *Registry::process().at("matmul").op;
  const std::int64_t huge = 3'000'000'000;
  const Problem many = problem_of(op, DType::kF32, {huge, huge, huge});
  const Problem few = problem_of(op, DType::kF32, {8, huge, huge});
  const DeviceInfo& device = device_info(many.device());
  for (const Implementation* impl : op.candidates()) {
    if (!impl->estimate) continue;
    const bool row = std::string(impl->name).find("row") != std::string::npos;
    const Problem& p = row ? few : many;
    const Query q{p, device, *impl};
    const double ms = impl->estimate(q, default_config(q));
    EXPECT_TRUE(std::isfinite(ms)) << impl->name;
    EXPECT_GT(ms, row ? 1e8 : 1e18) << impl->name;
  }
}

TEST(Buckets, EndAtOrAboveTheSizeAndSayNothingPastTheLast) {
  constexpr std::int64_t kLast = std::int64_t{1} << 62;
  static_assert(bucket_tokens(kLast) == kLast && bucket_tokens(kLast - 1) == kLast);
  static_assert(bucket_tokens(kLast / 4 * 3) == kLast / 4 * 3);
  static_assert(bucket_tokens(kLast + 1) == kLast + 1, "and it ends");
  static_assert(bucket_tokens(INT64_MAX) == INT64_MAX);
  for (std::int64_t n = 0; n < 5000; ++n) {
    EXPECT_GE(bucket_tokens(n), n);
    EXPECT_LE(bucket_tokens(n), 2 * n);
    EXPECT_EQ(bucket_tokens(bucket_tokens(n)), bucket_tokens(n));
  }
}

}  // namespace
}  // namespace dlblas
