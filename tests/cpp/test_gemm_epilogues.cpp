// Epilogues other than matmul's on the mainloops of matrix products: alpha[m] · beta[n] · sum +
// residual[m, n], and silu(a·b₀) · (a·b₁), against f64 loops: the CPU's blocked and few-row forms
// in every tile, split and number of threads; the GPU's three forms compiled for sm_80 and sm_90a
// and, if there is a GPU, run. Read next: tests/device/gemm_epilogues.cuh, cpu/gemm/epilogue.hpp.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "core/error.hpp"
#include "cpu/gemm/code.hpp"
#include "cpu/gemm/run.hpp"
#include "cpu/math.hpp"
#include "cuda/cuda.hpp"
#include "jit/jit.hpp"
#include "kernels/gemm_cuda.hpp"
#include "tests/cpp/gemm_case.hpp"
#include "tests/cpp/source_tree.hpp"
#include "tests/device/gemm_epilogue_params.hpp"

namespace dlblas {
namespace DLBLAS_ISA {
namespace {

struct ScaledResidual {
  struct Params {
    GemmMatrix out, residual;
    const float *alpha, *beta;
  };
  static constexpr int kParts = 1;
  static void store(const Params& p, int64_t i, int64_t j, int64_t n,
                    const float* const (&sums)[kParts]) {
    store_values(p.out, i, j, n, [&](int64_t c, int64_t lanes) {
      const Vec scale = mul(broadcast(p.alpha[i]), load_first<DType::kF32>(p.beta + j + c, lanes));
      return fma(scale, load_first<DType::kF32>(sums[0] + c, lanes),
                 load_columns(p.residual, i, j + c, lanes));
    });
  }
};

struct Gated {
  struct Params {
    GemmMatrix out;
  };
  static constexpr int kParts = 2;
  static void store(const Params& p, int64_t i, int64_t j, int64_t n,
                    const float* const (&sums)[kParts]) {
    store_values(p.out, i, j, n, [&](int64_t c, int64_t lanes) {
      const Vec gate = load_first<DType::kF32>(sums[0] + c, lanes);
      return mul(mul(gate, sigmoid(gate)), load_first<DType::kF32>(sums[1] + c, lanes));
    });
  }
};

}  // namespace
}  // namespace DLBLAS_ISA

namespace {

using test::at, test::Half, test::value_of;

struct Case : test::GemmCase {
  using GemmCase::GemmCase;

  /// The bound: an f32 sum, compensated or in one accumulation chain of this K, and one rounding to
  /// bf16.
  void expect(const std::vector<Half>& out, bool gated, const std::string& what) const {
    constexpr double kSum = 2e-6, kRound = 0.0040;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < row; ++j) {
        const Half got = out[at(i * row + j)];
        if (j >= n) {
          ASSERT_EQ(got, test::kUnwritten) << what << ": written past the last column";
          continue;
        }
        const auto [x, x_size] = sum(0, i, j);
        double want, most;
        if (gated) {
          const auto [y, y_size] = sum(1, i, j);
          const double silu = x / (1 + std::exp(-x));
          want = silu * y;
          most = kSum * (1.1 * x_size * std::abs(y) + std::abs(silu) * y_size);
        } else {
          const double scale = double{alpha[at(i)]} * double{beta[at(j)]};
          want = scale * x + double{value_of(residual[at(i * row + j)])};
          most = kSum * (std::abs(scale) * x_size + std::abs(want));
        }
        ASSERT_NEAR(double{value_of(got)}, want, most + kRound * std::abs(want) + 1e-30)
            << what << " at " << i << ", " << j;
      }
    }
  }
};

/// Runs the chunks one after the other, partitioned as a pool of this many threads would.
Context context_of(int threads) {
  Context context;
  context.num_threads = threads;
  context.parallel_for = [](void*, std::int64_t begin, std::int64_t end, std::int64_t grain,
                            void (*fn)(std::int64_t, std::int64_t, void*), void* ctx) {
    for (std::int64_t i = begin; i < end; i += grain) fn(i, std::min(end, i + grain), ctx);
  };
  return context;
}

/// Runs `run(job, params)` with each epilogue, on b as given and, with `b_rows`, on b as rows of N.
template <typename Run>
void on_cpu(const Case& c, bool gated, bool b_rows, const std::string& what, const Run& run) {
  std::vector<Half> turned[2];
  GemmJob job{};
  job.m = c.m, job.n = c.n, job.k = c.k;
  const auto matrix = [](const std::vector<Half>& v, std::int64_t row, std::int64_t col) {
    return GemmMatrix{const_cast<Half*>(v.data()), row, col, DType::kBF16};
  };
  job.a = matrix(c.a, c.k, 1);
  for (int part = 0; part < 2; ++part) {
    job.b[part] = matrix(c.b[part], 1, c.k);
    if (!b_rows) continue;
    turned[part].resize(c.b[part].size());
    for (std::int64_t i = 0; i < c.n * c.k; ++i)
      turned[part][at(i % c.k * c.n + i / c.k)] = c.b[part][at(i)];
    job.b[part] = matrix(turned[part], c.n, 1);
  }
  std::vector<Half> out = c.unwritten();
  const DLBLAS_ISA::ScaledResidual::Params scaled{
      matrix(out, c.row, 1), matrix(c.residual, c.row, 1), c.alpha.data(), c.beta.data()};
  const DLBLAS_ISA::Gated::Params gate{matrix(out, c.row, 1)};
  run(job, gated ? static_cast<const void*>(&gate) : &scaled);
  c.expect(out, gated, what);
}

const GemmCode& code_of(bool gated) {
  static constexpr GemmCode kScaled = DLBLAS_ISA::gemm_code<DLBLAS_ISA::ScaledResidual>(),
                            kGated = DLBLAS_ISA::gemm_code<DLBLAS_ISA::Gated>();
  return gated ? kGated : kScaled;
}

constexpr float kUnset = std::numeric_limits<float>::quiet_NaN();  // a sum that nothing wrote

TEST(GemmEpilogues, OfBlocksAreAsInF64) {
  // Partial tiles; several K blocks; several spans of K.
  for (const auto& [m, n, k] : {std::array{1, 1, 1}, {37, 131, 40}, {50, 70, 700}, {7, 19, 8500}}) {
    const Case c(m, n, k, n + 3);
    for (const bool gated : {false, true}) {
      const GemmCode& code = code_of(gated);
      for (int tile = 0; tile < code.blocks->num_tiles; ++tile) {
        for (const int threads : {1, 3}) {
          for (const GemmSplit split : {GemmSplit::kColumns, GemmSplit::kRows}) {
            const CpuGemmConfig config{tile, 16, 48, 256, GemmOrder::kColumns, split, true};
            const GemmBlocked blocked = gemm_blocked(code, config, kLongSums, threads, k, false);
            std::vector<float> workspace(workspace_bytes(blocked, m, n, k) / sizeof(float), kUnset);
            on_cpu(c, gated, tile % 2 == 1,
                   text(m, "x", n, "x", k, gated ? " gated" : "", " tile ", tile, " threads ",
                        threads, " split ", static_cast<int>(split)),
                   [&](const GemmJob& job, const void* epilogue) {
                     run_blocked(blocked, job, epilogue, context_of(threads), workspace.data());
                   });
          }
        }
      }
    }
  }
}

TEST(GemmEpilogues, OfFewRowsAreAsInF64) {
  for (const auto& [m, n, k] : {std::array{1, 1, 1}, {1, 300, 40}, {5, 70, 700}, {8, 19, 8500}}) {
    const Case c(m, n, k, n + 3);
    for (const bool gated : {false, true}) {
      for (const bool dots : {false, true}) {
        for (const int threads : {1, 3}) {
          const std::int32_t prefetch = threads == 1 ? 0 : dots ? 512 : kNextRows;
          const GemmFewRows rows{&code_of(gated), {1, 256, prefetch, dots}, kLongSums, threads};
          std::vector<float> workspace(workspace_bytes(rows, m, k) / sizeof(float), kUnset);
          on_cpu(c, gated, !dots, text(m, "x", n, "x", k, gated ? " gated" : "", " dots ", dots),
                 [&](const GemmJob& job, const void* epilogue) {
                   run_few_rows(rows, job, epilogue, context_of(threads), workspace.data());
                 });
        }
      }
    }
  }
}

// ---- The GPU's forms ---------------------------------------------------------------------------

constexpr GemmMmaConfig kMma{64, 64, 64, 2, 2, 2, 2, 1}, kSplit{64, 64, 64, 2, 2, 2, 2, 2};
constexpr GemmRowsConfig kRows{16, 4, 2};
constexpr GemmFmaConfig kFma{64, 64, 16, 4, 4};

std::string text_of(const GemmMmaConfig& c) {
  return text("dlblas::GemmMmaConfig{", c.block_m, ", ", c.block_n, ", ", c.block_k, ", ", c.stages,
              ", ", c.warps_m, ", ", c.warps_n, ", ", c.group_m, ", ", c.split_k, "}");
}
std::string text_of(const GemmRowsConfig& c) {
  return text("dlblas::GemmRowsConfig{", c.columns, ", ", c.warps, ", ", c.unroll, "}");
}
std::string text_of(const GemmFmaConfig& c) {
  return text("dlblas::GemmFmaConfig{", c.block_m, ", ", c.block_n, ", ", c.block_k, ", ",
              c.thread_m, ", ", c.thread_n, "}");
}

/// bf16, K a multiple of 8, b as a linear layer's weight.
GemmTraits traits(std::int32_t span) {
  return {DType::kBF16, true, true, true, true, true, 16, span};
}
template <typename Config>
KernelSource source(const char* kernel, const Config& config, std::int32_t span, bool gated,
                    bool vector) {
  const std::string epilogue =
      text("dlblas::test::", gated ? "Gated<" : "ScaledResidual<", vector ? "true" : "false", ">");
  return {"tests/device/gemm_epilogues.cuh",
          kernels::gemm_entry(kernel, traits(span), text_of(config), epilogue),
          config.shared_bytes(span)};
}

TEST(GemmEpilogues, CompileCleanForGpus) {
  if (const std::string why = jit::unavailable(); !why.empty()) GTEST_SKIP() << why;
  for (const int arch : {80, 90}) {
    std::vector<KernelSource> all;
    for (const bool gated : {false, true}) {
      for (const bool vector : {false, true}) {
        all.push_back(source("dlblas::gemm_mma", kMma, 0, gated, vector));
        all.push_back(source("dlblas::gemm_rows", kRows, 1024, gated, vector));
        all.push_back(source("dlblas::gemm_fma", kFma, 128, gated, vector));
      }
      all.push_back(source("dlblas::gemm_mma", kSplit, 1024, gated, true));
      all.push_back(source("dlblas::gemm_mma_finish", kSplit, 1024, gated, true));
    }
    jit::compile_all(all, arch);
    for (const KernelSource& one : all) {
      const jit::Cubin& cubin = jit::compile(one, arch);
      EXPECT_EQ(cubin.spill_bytes, 0) << one.entry;
      EXPECT_TRUE(cubin.warnings.empty()) << one.entry << cubin.warnings.front();
    }
  }
}

/// The product's parameters followed by the epilogue's, as in GemmParams.
template <typename Epilogue>
struct Params {
  GemmCall gemm;
  Epilogue epilogue;
};

class GemmEpiloguesOnGpu : public test::GemmOnGpu {
 protected:
  void SetUp() override { start(80, true); }
  void launch(const KernelSource& source, cuda::Launch how, const GemmCall& gemm, bool gated,
              const test::ScaledResidualParams& e) {
    how.shared_bytes = static_cast<unsigned>(source.dynamic_shared_bytes);
    const cuda::Function& function = jit::load(source, cuda::info(0));
    const int status =
        gated
            ? cuda::launch(function, how, Params<test::GatedParams>{gemm, {e.out}}, stream_->get())
            : cuda::launch(function, how, Params<test::ScaledResidualParams>{gemm, e},
                           stream_->get());
    cuda::check(status, source.entry.c_str());
  }

  /// Checks every kernel that `launch_all(call, epilogue)` starts, on fresh memory.
  void check(const Case& c, bool gated, const std::string& what,
             const std::function<void(GemmCall, const test::ScaledResidualParams&)>& launch_all) {
    buffers_.clear();
    std::vector<Half> out = c.unwritten();
    Half* const to = upload(out);
    const GemmCall call{upload(c.a), {upload(c.b[0]), gated ? upload(c.b[1]) : nullptr},
                        nullptr,     c.k,
                        1,           1,
                        c.k,         c.m,
                        c.n,         c.k};
    launch_all(call,
               {{to, c.row, 1}, {upload(c.residual), c.row, 1}, upload(c.alpha), upload(c.beta)});
    cuda::copy_to_host(out.data(), to, out.size() * sizeof(Half), stream_->get());
    c.expect(out, gated, what);
  }
};

unsigned blocks(std::int64_t size, int block) {
  return static_cast<unsigned>((size + block - 1) / block);
}

TEST_F(GemmEpiloguesOnGpu, AreAsInF64) {
  // Rows whose pitch allows vector accesses and rows that need scalar ones; K in one span and in
  // several.
  for (const auto& [n, row] : {std::pair{136, 144}, {133, 139}}) {
    for (const int k : {40, 2600}) {
      for (const bool gated : {false, true}) {
        const bool vector = row % 8 == 0;
        const int parts = gated ? 2 : 1;
        const std::string what = text(n, "x", k, gated ? " gated" : "");
        const Case c(70, n, k, row);
        for (const GemmMmaConfig& config : {kMma, kSplit}) {
          check(c, gated, what + " mma", [&](GemmCall call, const auto& e) {
            const std::vector<float> partial(at(config.split_k * c.m * (n * parts + 7)), NAN);
            call.partial = upload(partial);
            launch(source("dlblas::gemm_mma", config, 1024, gated, vector),
                   {.grid = {blocks(c.m, 64) * blocks(n * parts, 64),
                             static_cast<unsigned>(config.split_k)},
                    .block = {static_cast<unsigned>(config.threads())}},
                   call, gated, e);
            if (config.split_k == 1) return;
            KernelSource finish = source("dlblas::gemm_mma_finish", config, 1024, gated, vector);
            finish.dynamic_shared_bytes = 0;
            launch(finish,
                   {.grid = {blocks(c.m * blocks(n * parts, 8), kGemmFinishThreads)},
                    .block = {kGemmFinishThreads}},
                   call, gated, e);
          });
        }
        check(c, gated, what + " fma", [&](const GemmCall& call, const auto& e) {
          launch(source("dlblas::gemm_fma", kFma, 128, gated, vector),
                 {.grid = {blocks(c.m, 64) * blocks(n * parts, 64)},
                  .block = {static_cast<unsigned>(kFma.threads())}},
                 call, gated, e);
        });
        const Case few(13, n, k, row);
        check(few, gated, what + " rows", [&](const GemmCall& call, const auto& e) {
          launch(source("dlblas::gemm_rows", kRows, 1024, gated, vector),
                 {.grid = {blocks(n * parts, kRows.columns)},
                  .block = {static_cast<unsigned>(kRows.threads())}},
                 call, gated, e);
        });
      }
    }
  }
}

}  // namespace
}  // namespace dlblas
