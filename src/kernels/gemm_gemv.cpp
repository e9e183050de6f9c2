// Configurations of the forms of one to four rows; see gemm_gemv.hpp.
#include "kernels/gemm_gemv.hpp"

#include <algorithm>

#include "core/rates.hpp"

namespace dlblas::kernels {
namespace {

constexpr std::int64_t kStep = 256;  // of K, of one access of a warp

/// 32-bit registers per thread: loads in flight, a's elements, sums and totals, addresses.
std::int64_t words(const GemvConfig& c, std::int64_t rows) {
  return std::int64_t{4} * c.unroll * c.columns + 8 * rows + 3 * c.columns * rows + 2 * c.columns;
}

}  // namespace

const ConfigTable<GemvConfig>& gemv_table() {
  using C = GemvConfig;
  static const auto* t = new ConfigTable<C>{
      field<&C::columns>("columns", {1, 2, 4}),
      field<&C::warps>("warps", {4, 8}),
      field<&C::unroll>("unroll", {1, 2, 4, 8}),
      field<&C::split>("split", {1, 2, 4, 8}),
  };
  return *t;
}

std::int32_t gemv_rows(std::int64_t bucket) {
  return bucket <= 1 ? 1 : bucket <= 2 ? 2 : static_cast<std::int32_t>(kGemvRows);
}

void constrain_gemv(const GemvSizes& sizes, Space& space) {
  space.require(gemv_table(), "columns_hold_all_parts", {"columns"},
                [parts = sizes.parts](const GemvConfig& c) { return c.columns % parts == 0; });
  space.require(gemv_table(), "split_divides_warps", {"warps", "split"},
                [](const GemvConfig& c) { return c.warps % c.split == 0; });
  space.require(gemv_table(), "registers_suffice", {"columns", "unroll"},
                [rows = gemv_rows(sizes.rows)](const GemvConfig& c) {
                  return valid(GemvConfig{c.columns, 8, c.unroll, 1}) && words(c, rows) <= 128;
                });
  space.require(gemv_table(), "every_part_has_work", {"unroll", "split"},
                [depth = sizes.depth](const GemvConfig& c) {
                  return (c.unroll == 1 && c.split == 1) ||
                         std::int64_t{c.split} * c.unroll * kStep < depth + kStep;
                });
}

/// Splits K over all warps of a block: they finish together, and there are many blocks.
GemvConfig gemv_preset(const GemvSizes& sizes) {
  GemvConfig c{2, 4, 4, 1};
  const auto fits = [&](int unroll, int split) {
    return std::int64_t{split} * unroll * kStep < sizes.depth + kStep;
  };
  while (c.unroll > 1 && !fits(c.unroll, 1)) c.unroll /= 2;
  while (c.split < c.warps && fits(c.unroll, 2 * c.split)) c.split *= 2;
  return c;
}

double gemv_ms(const GemvSizes& sizes, const GemvConfig& c, double bytes,
               const DeviceInfo& device) {
  // One row on an H200, µs: 1024 × 4096 3.54, 7168 × 2048 8.24, 6144 × 4096 13.1, 14336 × 4096 28.0
  // to 28.8 (28 November 2026): 1.03 of a copy's rate, since next to nothing is written.
  constexpr double kPart = 1.03, kStart = 1.6e-6;
  constexpr double kLatency = 1.2e-6;  // of a batch of loads, under load
  const auto rows = static_cast<double>(std::max<std::int64_t>(gemv_rows(sizes.rows), sizes.rows));
  const double warps =
      std::min(32.0, static_cast<double>(sizes.columns) / c.columns * c.split / device.units);
  const double in_flight = warps * c.unroll * c.columns * 512 * device.units;
  // Four rows issue more instructions than memory's time hides: 14336 × 4096 36 µs, two rows 28.5.
  const double part = kPart * (rows > 2 ? 0.78 : 1);
  const double rate = std::min(part * memory_bytes_per_s(device), in_flight / kLatency);
  // Conversions of b, and of a for every column group; multiply-adds.
  const double operations = static_cast<double>(sizes.columns) * static_cast<double>(sizes.depth) *
                            (2 + 2 * rows + 2 * rows / c.columns);
  return 1e3 * (std::max(bytes / rate, operations / flops(device, DType::kF32)) + kStart);
}

}  // namespace dlblas::kernels
