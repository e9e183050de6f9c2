// Rates measured on this machine replace those of the tables: they are kept in the store, read once
// per process, and ignored if invalid. Each test of what a process reads runs its own process.
// Read next: src/store/machine_rates.cpp, src/core/rates.cpp.
#include "store/machine_rates.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/rates.hpp"
#include "dlblas/dlblas.h"
#include "registry/registry.hpp"
#include "tests/cpp/temporary_store.hpp"

namespace dlblas::test {
namespace {

const auto* const kStore = testing::AddGlobalTestEnvironment(new TemporaryStore("machine_rates"));

// The tables' copy rate and peak of one thread (core/rates.cpp); the tests publish half and twice
// these.
constexpr double kCopy = 22.3e9, kPeak = 118e9;

/// Exits with 0 if the rates of memory and arithmetic are the tables' times these factors.
[[noreturn]] void expect_scales(double memory, double flops_scale) {
  DeviceInfo tables = cpu_info();
  tables.model = "a CPU without measurements";
  const Rates plain = unit_rates(tables), now = unit_rates(cpu_info());
  const auto is = [](double got, double expected) {
    return std::abs(got / expected - 1) < 1e-9 ? 0 : 1;
  };
  const double cache = std::max(plain.cache_bytes_per_s * flops_scale, now.memory_bytes_per_s);
  std::exit(is(now.memory_bytes_per_s, plain.memory_bytes_per_s * memory) +
            2 * is(now.f32_flops, plain.f32_flops * flops_scale) +
            4 * is(now.cache_bytes_per_s, cache));
}

double peak_of_table() { return cpu_info().isa == Isa::kBaseline ? 55e9 : kPeak; }

class MachineRates : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Registry::process();  // which says where measurements are
    Store::process().clear();
    units_ = cpu_info().units;
  }
  void publish(double copy, double peak) {
    ASSERT_TRUE(publish_rates(Store::process(), cpu_info(),
                              {copy * kCopy * units_, peak * peak_of_table() * units_}));
  }
  double units_ = 1;
};

TEST_F(MachineRates, AreTheTablesWhereNothingWasMeasured) {
  EXPECT_EXIT(expect_scales(1, 1), testing::ExitedWithCode(0), "");
}

TEST_F(MachineRates, ScaleTheTables) {
  EXPECT_EXIT(
      {
        publish(0.5, 2);
        expect_scales(0.5, 2);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(MachineRates, AreReadOnceAProcess) {
  EXPECT_EXIT(
      {
        publish(0.5, 2);
        unit_rates(cpu_info());
        publish(3, 3);
        expect_scales(0.5, 2);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(MachineRates, OneThatCannotBeIsPassedOverInWords) {
  EXPECT_EXIT(
      {
        publish(1000, 2);
        expect_scales(1, 2);
      },
      testing::ExitedWithCode(0), "the measured copy of .* is passed over; expected");
}

TEST_F(MachineRates, ABrokenRecordIsSetAsideInWords) {
  EXPECT_EXIT(
      {
        publish(0.5, 2);
        const std::filesystem::path root = Store::process().path();
        for (const auto& file : std::filesystem::recursive_directory_iterator(root / "results"))
          if (file.is_regular_file()) std::ofstream(file.path(), std::ios::app) << "x";
        Store other(root.string());  // this process' own remembers what it wrote
        const MeasuredRates read = stored_rates(other, cpu_info());
        std::exit(read.copy_bytes_per_s == 0 && read.peak_flops == 0 &&
                          other.counters().quarantined == 1
                      ? 0
                      : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(MachineRates, TheNewestCounts) {
  Store store("");
  publish_rates(store, cpu_info(), {1e9, 1e9});
  publish_rates(store, cpu_info(), {2e9, 3e9});
  const MeasuredRates read = stored_rates(store, cpu_info());
  EXPECT_NEAR(read.copy_bytes_per_s, 2e9, 1);
  EXPECT_NEAR(read.peak_flops, 3e9, 1);
  DeviceInfo other = cpu_info();
  other.units += 1;
  EXPECT_EQ(stored_rates(store, other).copy_bytes_per_s, 0);
}

TEST_F(MachineRates, AreKeptByABenchOfTheWholeMachine) {
  dlblas_machine machine{};
  machine.size = sizeof machine;
  const auto bench = [&](int threads, std::int64_t bytes) {
    ASSERT_EQ(dlblas_bench_machine(threads, bytes, &machine), DLBLAS_OK);
  };
  bench(cpu_info().units, 1 << 20);              // it is in a cache
  if (cpu_info().units > 1) bench(1, 64 << 20);  // a part of the machine
  EXPECT_EQ(stored_rates(Store::process(), cpu_info()).copy_bytes_per_s, 0);
  bench(cpu_info().units, 64 << 20);
  const MeasuredRates read = stored_rates(Store::process(), cpu_info());
  EXPECT_NEAR(read.copy_bytes_per_s / machine.copy_bytes_per_s, 1, 1e-9);
  EXPECT_NEAR(read.peak_flops / machine.peak_flops, 1, 1e-9);
}

}  // namespace
}  // namespace dlblas::test
