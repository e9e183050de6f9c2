// CPU blocked products as selection and search see them: knobs, constraints, the default, an
// estimate. Shared by every operator whose kernel is a blocked product (cpu/gemm/run.hpp). In: the
// sizes of an operator's product. Out: the functions of an implementation, except those that run
// it. Flow: call > validate > [select] > compile > launch.
// Read next: cpu/gemm/run.hpp, ops/gemm/matmul/cpu/matmul_cpu.cpp (an operator).
#pragma once

#include <cstdint>
#include <vector>

#include "core/config.hpp"
#include "core/space.hpp"
#include "cpu/gemm/run.hpp"
#include "kernels/cpu_level.hpp"

namespace dlblas::kernels {

/// What a level's code multiplies: any type as f32, or pairs of bf16 (objects of units:
/// cpu/gemm/loops.hpp) with vectors or with tiles.
enum class Multiplier : std::uint8_t { kFloats, kPairs, kTiles };

/// A level's code for products, which CpuLevel::code points to.
struct ProductLevel {
  const GemmCode* code;
  int lanes;
  double f16_part = 1;  // of the rate of f16, at which few rows stream such a b
  Multiplier multiplier = Multiplier::kFloats;
};

/// A product a[m, k] · b[k, n], or `parts` of them that share a.
struct BlockedProduct {
  std::int64_t m, n, k;
  int parts;
  const TensorTraits* a;
  const ProductLevel* level = nullptr;  // null: the implementation's
};

/// The fraction of memory's rate at which b is packed, or read by a library that packs it.
inline constexpr double kPacking = 0.615;

/// The knobs of a level; the table lives as long as the process.
const ConfigTable<CpuGemmConfig>& blocked_table(const ProductLevel& level);
/// The configuration of an implementation with such a table and such a level.
CpuGemmConfig blocked_config(const Query& q, const Config& config);
/// Levels of pairs require a bf16 tensor `a`.
Support supports_blocked(const Query& q, const BlockedProduct& p, int a);
void constrain_blocked(const Query& q, const BlockedProduct& p, Space& space);
Config default_blocked(const Query& q, const BlockedProduct& p);
/// Turns a wish into a configuration of the table that fits: no block larger than needed, and a's
/// block in L2.
Config fit_blocked(const Query& q, const BlockedProduct& p, CpuGemmConfig wish);
double estimate_blocked_ms(const Query& q, const BlockedProduct& p, const Config& config);
/// `sums`: for levels of f32; those of pairs have their own order.
GemmBlocked prepare_blocked(const Query& q, const BlockedProduct& p, const Config& config,
                            const GemmSumOrder& sums, bool holds_sums);

/// Multiply-adds in the time of one f32 multiply-add, at the same level.
double speed_of(Multiplier multiplier);
/// Whether the best unit here for products of such an `a` is AVX512_BF16.
bool multiplies_pairs(const DeviceInfo& device, DType a);
/// Few rows of bf16 on a unit: `cpu_row_amx` by tiles, `cpu_row_avx512bf16` by pairs. b's N columns
/// are contiguous along K, and read in place.
const ConfigTable<CpuGemmRowConfig>& unit_rows_table(Multiplier multiplier);
Support supports_unit_rows(const Query& q, const BlockedProduct& p, int a, int b);
void constrain_unit_rows(const Query& q, const BlockedProduct& p, Space& space);
Config default_unit_rows(const Query& q, const BlockedProduct& p);
double estimate_unit_rows_ms(const Query& q, const BlockedProduct& p);
GemmFewRows prepare_unit_rows(const Query& q, const Config& config);

/// The tile that wastes the fewest of so many rows, then takes the fewest loads per multiply-add;
/// for a few columns, the narrowest.
int best_tile(const ProductLevel& level, double rows, std::int64_t n);

}  // namespace dlblas::kernels
