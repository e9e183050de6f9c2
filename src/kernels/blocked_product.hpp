// The blocked products of a CPU, as selection and search see them: knobs, what fits, what is best
// unmeasured, a time. One text for every operator whose kernel is a blocked product
// (cpu/gemm/run.hpp). In: the sizes of an operator's product. Out: the functions of an
// implementation that do not run it. Flow: call > validate > [select] > compile > launch.
// Read next: cpu/gemm/run.hpp, ops/gemm/matmul/cpu/matmul_cpu.cpp (an operator).
#pragma once

#include <cstdint>
#include <vector>

#include "core/config.hpp"
#include "core/space.hpp"
#include "cpu/gemm/run.hpp"
#include "kernels/cpu_level.hpp"

namespace dlblas::kernels {

/// What a level's code multiplies: any type as f32, or pairs of bf16 (pair_code() of
/// cpu/gemm/code.hpp) by vectors or by tiles.
enum class Multiplier : std::uint8_t { kFloats, kPairs, kTiles };

/// A level's code of products, which CpuLevel::code points to.
struct ProductLevel {
  const GemmCode* code;
  int lanes;
  double f16_part = 1;  // of the rate of f16, at which few rows stream such a b
  Multiplier multiplier = Multiplier::kFloats;
};

/// A product a[m, k] · b[k, n], or `parts` of them with one a.
struct BlockedProduct {
  std::int64_t m, n, k;
  int parts;
  const TensorTraits* a;
};

/// The part of memory's rate at which b is packed, or read by a library that packs it.
inline constexpr double kPacking = 0.615;

/// The knobs of a level; the table lives as long as the process.
const ConfigTable<CpuGemmConfig>& blocked_table(
    const ProductLevel& level, const std::vector<std::int64_t>& unrolls = {1, 2, 4},
    const std::vector<std::int64_t>& prefetches = {0, 8});
/// Of an implementation that has such a table and such a level.
CpuGemmConfig blocked_config(const Query& q, const Config& config);
/// Of levels of pairs: `a` is bf16.
Support supports_blocked(const Query& q, const BlockedProduct& p, int a);
void constrain_blocked(const Query& q, const BlockedProduct& p, Space& space);
Config default_blocked(const Query& q, const BlockedProduct& p);
double estimate_blocked_ms(const Query& q, const BlockedProduct& p, const Config& config);
/// `sums`: of levels of f32; those of pairs have their own order.
GemmBlocked prepare_blocked(const Query& q, const BlockedProduct& p, const Config& config,
                            const GemmSumOrder& sums, bool holds_sums);

/// Multiply-adds in the time of one of f32, at the same level.
double speed_of(Multiplier multiplier);
/// The tile with the fewest wasted of so many rows, then the fewest loads per multiply-add; of a
/// few columns the narrowest.
int best_tile(const ProductLevel& level, double rows, std::int64_t n);

}  // namespace dlblas::kernels
