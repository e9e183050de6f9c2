// The machine model: a card's figures apply whatever part of it is available, instruction-set
// levels are in order, and a roofline is the higher of its sides. Read next: src/core/rates.cpp.
#include "core/rates.hpp"

#include <gtest/gtest.h>

namespace dlblas {
namespace {

TEST(Rates, AreThoseMeasuredOnAnH200) {
  const DeviceInfo h200 = typical_cuda_device(90);
  EXPECT_NEAR(memory_bytes_per_s(h200), 4.2e12, 1e6);
  EXPECT_NEAR(flops(h200, DType::kBF16), 739e12, 1e12);  // cuBLAS: 743 to 797 TFLOP/s
  EXPECT_EQ(flops(h200, DType::kBF16), flops(h200, DType::kF16));
  EXPECT_NEAR(flops(h200, DType::kF32), 53e12, 1e12);
  EXPECT_GT(unit_rates(h200).alone_bytes_per_s, 2 * unit_rates(h200).memory_bytes_per_s);
  EXPECT_LT(unit_rates(h200).alone_bytes_per_s, memory_bytes_per_s(h200));
}

TEST(Rates, MemoryIsTheCardsAndOperationsAreTheUnits) {
  DeviceInfo fewer = typical_cuda_device(90);
  const DeviceInfo whole = fewer;
  fewer.units /= 2;
  EXPECT_DOUBLE_EQ(memory_bytes_per_s(fewer), memory_bytes_per_s(whole));
  EXPECT_DOUBLE_EQ(2 * flops(fewer, DType::kF16), flops(whole, DType::kF16));
}

TEST(Rates, ACardBetweenTwoIsTheOneBelow) {
  for (const auto& [arch, row] : {std::pair{75, 80}, {87, 86}, {103, 100}, {121, 100}}) {
    const DeviceInfo device = typical_cuda_device(arch), known = typical_cuda_device(row);
    EXPECT_EQ(device.arch, arch);
    EXPECT_EQ(device.model, known.model);
    EXPECT_DOUBLE_EQ(memory_bytes_per_s(device), memory_bytes_per_s(known));
  }
}

TEST(Rates, ACpusLevelsAreInOrder) {
  const DeviceInfo& cpu = cpu_info();
  const Rates baseline = unit_rates(cpu, Isa::kBaseline), avx2 = unit_rates(cpu, Isa::kAvx2),
              avx512 = unit_rates(cpu, Isa::kAvx512);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
    for (const bool cached : {false, true}) {
      EXPECT_LT(baseline.bytes_per_s(dtype, cached), avx2.bytes_per_s(dtype, cached));
      EXPECT_LE(avx2.bytes_per_s(dtype, cached), avx512.bytes_per_s(dtype, cached));
      EXPECT_LT(baseline.flops(dtype), avx2.flops(dtype));
      EXPECT_LT(avx2.flops(dtype), avx512.flops(dtype));
    }
  // Converting f16 one by one is the bottleneck, wherever the elements are.
  EXPECT_EQ(baseline.bytes_per_s(DType::kF16), baseline.bytes_per_s(DType::kF16, true));
  EXPECT_LT(baseline.bytes_per_s(DType::kF16), baseline.bytes_per_s(DType::kBF16));
  EXPECT_DOUBLE_EQ(memory_bytes_per_s(cpu), cpu.units * unit_rates(cpu).memory_bytes_per_s);
}

TEST(Rates, ARooflineIsItsHigherSide) {
  const DeviceInfo device = typical_cuda_device(90);
  const double bytes = memory_bytes_per_s(device), work = flops(device, DType::kBF16);
  EXPECT_NEAR(roofline_ms(device, bytes, work / 2, DType::kBF16), 1e3, 1e-6);
  EXPECT_NEAR(roofline_ms(device, bytes, 3 * work, DType::kBF16), 3e3, 1e-6);
  EXPECT_GT(roofline_ms(device, bytes, work, DType::kF32), 1e4);
}

}  // namespace
}  // namespace dlblas
