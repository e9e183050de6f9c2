// What matmul's host files share: the parts that matmul.cpp assembles into the operator.
// Read next: matmul.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "core/integers.hpp"
#include "kernels/blocked_product.hpp"
#include "ops/gemm/matmul/matmul_config.hpp"
#include "registry/operator.hpp"

namespace dlblas::gemm {

/// A factor or the result as a matrix: all leading dimensions become rows, at one stride.
TensorView flat(const TensorView& t);
/// Strides, dtypes and exact sizes of one call. Strides of dimensions of size 1 mean nothing and
/// become 1, so that kernels see them as contiguous.
MatmulParams matmul_params(const Args& args);
/// The product of a call. An f32 result with contiguous rows may hold partial sums.
GemmJob product_of(const MatmulParams& p);

/// The CPU kernels' order of sums: the same in every implementation and configuration. Under
/// `deterministic` it does not depend on M, so a row has the same bits in any batch.
GemmSumOrder sums_of(const Problem& problem);

/// Blocked forms, widest instruction set first.
void append_blocked(std::vector<Implementation>& to);
/// Few-row forms.
void append_rows(std::vector<Implementation>& to);
/// oneDNN, the rival.
void append_onednn(std::vector<Implementation>& to);

void matmul_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                      OracleOut* out);
Bound matmul_bound(const Problem& problem, int result);

/// Terms of the estimates, in double: products of sizes that no machine holds overflow integers.
double multiply_adds(const Problem& problem);
double bytes_of_b(const Problem& problem);

using kernels::kPacking;
using kernels::ProductLevel;
/// The levels of this build, widest first. `f16_part` was measured at 1×4096×4096, AMD Zen 4, 2
/// threads, November 2026.
struct MatmulLevels {
#if defined(DLBLAS_X86)
  ProductLevel avx512 = {&avx512::kMatmulCode, 16};
  ProductLevel avx2 = {&avx2::kMatmulCode, 8, 0.32};
#endif
  ProductLevel baseline = {&baseline::kMatmulCode, 4};
};
extern const MatmulLevels kMatmulLevels;
/// Units that multiply bf16 in blocks.
#if defined(DLBLAS_X86)
inline constexpr ProductLevel kMatmulAmx = {&avx512::kMatmulAmx, 16, 1,
                                            kernels::Multiplier::kTiles};
inline constexpr ProductLevel kMatmulBf16 = {&avx512::kMatmulBf16, 16, 1,
                                             kernels::Multiplier::kPairs};
#endif
/// One implementation per level of this build, widest first; their code is a ProductLevel. `knobs`:
/// the table of a level.
std::vector<Implementation> gemm_levels(const Implementation& base, const char* prefix,
                                        const KnobTable& (*knobs)(const ProductLevel&));

}  // namespace dlblas::gemm
