// The few-row matmul on GPUs (decoding): m ≤ 16, b streams from memory once.
// In: a Problem of f16 or bf16 with at most 16 rows. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next:
// device/gemm/rows_mainloop.cuh, matmul_epilogue.cuh.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"

namespace dlblas::gemm {
namespace {

constexpr int kMaxRows = 16;  // of one tensor-core instruction

bool b_by_depth(const Problem& p) { return p.tensors[kB].layout == Layout::kTransposed; }

/// 32-bit registers per thread for the loads in flight and the sums.
std::int64_t words_in_flight(const GemmRowsConfig& c, const Problem& p) {
  const int rows = p.dims[kM] <= 8 ? 1 : 2;
  const int words = b_by_depth(p) ? c.columns / 8 * 4 + rows * 4 : c.columns / 4 + rows * 2;
  return std::int64_t{c.unroll} * words + c.columns / 2;
}

struct FewRows : MatmulForm<FewRows, GemmRowsConfig> {
  // The order of sums depends on the configuration.
  static constexpr bool kIsDeterministic = false;
  static constexpr const char* kKernel = "dlblas::gemm_rows";
  static constexpr const char* kInclude = "ops/gemm/matmul/cuda/matmul_rows.cuh";
  static constexpr const char* kConfigName = "dlblas::GemmRowsConfig";
  static const ConfigTable<GemmRowsConfig>& table() {
    using C = GemmRowsConfig;
    static const auto* t = new ConfigTable<C>{
        field<&C::columns>("columns", {8, 16, 32, 64}),
        field<&C::warps>("warps", {4, 8, 16}),
        field<&C::unroll>("unroll", {1, 2, 4, 8}),
    };
    return *t;
  }

  /// Rows 8 … 15 cost loads and registers: only a separate kernel has them.
  static MatmulTraits traits(const Query& q, const GemmRowsConfig& c) {
    const Problem& p = q.problem;
    return matmul_traits(p, p.dims[kM] <= 8 ? 8 : kMaxRows,
                         tensor_core_span(p, ceil_div(p.dims[kK], c.warps), true));
  }

  static void constrain(const Query& q, Space& space) {
    const bool by_depth = b_by_depth(q.problem);
    space.require(table(), "columns_fit_layout", {"columns"}, [by_depth](const GemmRowsConfig& c) {
      return by_depth ? c.columns <= 32 : c.columns >= 32;
    });
    space.require(table(), "shared_memory_fits", {"columns", "warps"},
                  [q = QueryCopy(q)](const GemmRowsConfig& c) {
                    const Query asked = q;
                    return c.shared_bytes(traits(asked, c).gemm.span) <=
                           asked.device.shared_bytes_per_block;
                  });
    space.require(table(), "registers_suffice", [p = q.problem](const GemmRowsConfig& c) {
      return words_in_flight(c, p) <= (c.warps == 16 ? 88 : 160);
    });
    space.require(table(), "every_warp_has_work", {"warps", "unroll"},
                  [depth = by_depth ? 32 : 16, k = q.problem.dims[kK]](const GemmRowsConfig& c) {
                    return (c.warps == 4 && c.unroll == 1) ||
                           std::int64_t{c.warps - 1} * c.unroll * depth < k;
                  });
  }

  /// Two blocks of 16 warps fill a multiprocessor. H200, bf16, 4096 × 4096, 1, 8 and 16 rows, 21
  /// November 2026: 16 columns with two tiles in flight 12.8 to 13.4 µs; half the warps 15 to 18,
  /// half the columns 14.4, twice the columns 17 (cuBLAS 13.5 to 13.9). With a row-major b, 64
  /// columns took 16.1 to 17.4 µs on half of the multiprocessors.
  static GemmRowsConfig preset(const Query& q) {
    const Problem& p = q.problem;
    GemmRowsConfig c{b_by_depth(p) ? 16 : 64, 16, 2};
    if (ceil_div(p.dims[kN], c.columns) < q.device.units) c = {c.columns / 2, 16, 4};
    const int depth = b_by_depth(p) ? 32 : 16;
    while (c.unroll > 1 && std::int64_t{c.warps - 1} * c.unroll * depth >= p.dims[kK])
      c.unroll /= 2;
    while (c.warps > 4 && std::int64_t{c.warps - 1} * c.unroll * depth >= p.dims[kK]) c.warps /= 2;
    return c;
  }

  static double milliseconds(const Query& q, const GemmRowsConfig& c) {
    const Problem& p = q.problem;
    const auto blocks =
        static_cast<double>(std::max<std::int64_t>(1, ceil_div(p.dims[kN], c.columns)));
    const double rows = static_cast<double>(std::max<std::int64_t>(1, p.dims[kM]));
    // Each block reads a from L2; the stream of b hides nine tenths of it.
    const double a_again =
        0.1 * blocks * rows * static_cast<double>(p.dims[kK]) * 2 / cache_bytes_per_s(q.device);
    // 56 KB in flight per multiprocessor keep memory busy (half of that where whole rows of b are
    // read), given two blocks: one waits for memory while the other adds its warps' sums.
    const double warps = std::min(32.0, blocks / q.device.units * c.warps);
    const double in_flight = warps * c.unroll * c.columns * 64;
    const double busy =
        std::min(1.0, in_flight / 56e3) * (blocks < 1.5 * q.device.units ? 0.75 : 1);
    return 1e3 * (matmul_bytes(p) / (0.8 * memory_bytes_per_s(q.device) * busy) + a_again + 3e-6);
  }

  static Support supports(const Query& q) {
    const Problem& p = q.problem;
    if (p.dims[kM] > kMaxRows) {
      return Support::no("{} has more than {} rows (bucket {})", tensor(kA), kMaxRows, p.dims[kM]);
    }
    if (p.tensors[kA].layout == Layout::kTransposed) {
      return Support::no("rows of {} are not contiguous", tensor(kA));
    }
    if (p.dims[kK] % 8 != 0) return Support::no("K = {} is not a multiple of 8", p.dims[kK]);
    if (!b_by_depth(p) && p.dims[kN] % 8 != 0) {
      return Support::no("{} is contiguous along N and N = {} is not a multiple of 8", tensor(kB),
                         p.dims[kN]);
    }
    return supports_tensor_cores(p);
  }

  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(s.traits.gemm.span);
  }
  static MatmulGpuParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    const MatmulGpuParams p = matmul_gpu_params(args);
    how.grid.x = static_cast<unsigned>(ceil_div(p.gemm.n, s.config.columns));
    how.block.x = static_cast<unsigned>(s.config.threads());
    return p;
  }
};

}  // namespace

void append_rows_cuda(std::vector<Implementation>& to) {
  to.push_back(kernels::make_cuda<FewRows>(
      "cuda_rows", source_hash<"ops/gemm/matmul/cuda/matmul_rows_cuda.cpp">()));
}

}  // namespace dlblas::gemm
