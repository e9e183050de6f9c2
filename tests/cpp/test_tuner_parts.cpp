// The tuner's parts, one by one: the winner rule, strategies, row choice, the verdict, rotation.
// Read next: tests/cpp/test_tuner_inputs.cpp (what it makes), tests/cpp/test_tuner.cpp (the whole).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "store/ranking.hpp"
#include "tests/cpp/schema_dummy.hpp"
#include "tests/cpp/tuner_dummy.hpp"
#include "tuner/cuda_measurer.hpp"
#include "tuner/machine.hpp"
#include "tuner/strategy.hpp"
#include "tuner/verify.hpp"

namespace dlblas::test {
namespace {

using Samples = std::vector<double>;

int winner_of(const std::vector<Samples>& samples, int preset,
              std::vector<std::int64_t> runs = {}) {
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < samples.size(); ++i)
    contenders.push_back({samples[i], static_cast<int>(i) == preset, runs.empty() ? 0 : runs[i]});
  return pick_winner(contenders);
}

TEST(Ranking, OneCentAboveTheMarginWins) {
  const Samples base(30, 1.0);
  EXPECT_EQ(winner_of({base, Samples(30, 0.995)}, 0), 0);
  EXPECT_EQ(winner_of({base, Samples(30, 0.985)}, 0), 1);
  EXPECT_EQ(winner_of({Samples(30, 0.995), base}, 1), 1) << "the default need not be the lowest id";
  EXPECT_EQ(winner_of({}, -1), -1);
  EXPECT_EQ(winner_of({{}, {}}, -1), -1);
}

TEST(Ranking, NoisyTimesNeedALargerLead) {
  Samples noisy, quiet(30, 1.0);
  for (int i = 0; i < 30; ++i) noisy.push_back(0.97 + 0.1 * i);  // one lucky sample
  EXPECT_GT(2 * spread_ms(noisy), 0.03);
  EXPECT_EQ(winner_of({quiet, noisy}, 0), 0);
}

TEST(Ranking, FewSamplesAreNoFinal) {
  const Samples final_default(30, 1.0), race_only(4, 0.5), final_other(30, 0.9);
  EXPECT_EQ(winner_of({final_default, race_only, final_other}, 0), 2);
  EXPECT_EQ(winner_of({Samples(2, 1.0), Samples(2, 0.5)}, 0), 1) << "without a final all compete";
  EXPECT_EQ(winner_of({Samples(2, 1.0), Samples(2, 0.95)}, 0), 0) << "but need a clear lead";
}

TEST(Ranking, TheNewestRunDecides) {
  const Samples slow_day(30, 2.0), slow_day_best(30, 1.5), quiet_day(30, 1.0);
  EXPECT_EQ(winner_of({slow_day, quiet_day, slow_day_best}, 0, {9, 3, 9}), 2);
  EXPECT_EQ(winner_of({slow_day, quiet_day, Samples(2, 0.1)}, 0, {3, 3, 9}), 1)
      << "a run that was stopped before its final decides nothing";
}

TEST(Strategies, AskForEveryPointOnceAndNoneThatWasTold) {
  static const Behaviour any{};
  const Implementation wide = dummy("wide", any, &wide_table()), plain = dummy("plain", any);
  SearchSpace space;
  space.points.push_back({&plain, {}});
  const Space configs = make_space({Problem{}, cpu_info(), wide});
  for (const Config& config : configs.configs()) space.points.push_back({&wide, config});
  EXPECT_EQ(default_strategy(space), "random");
  for (const char* name : {"exhaustive", "random"}) {
    const auto strategy = make_strategy(name, space, 3);
    strategy->tell(17, 1.0);
    std::vector<int> ids;
    for (auto asked = strategy->ask(7); !asked.empty(); asked = strategy->ask(7)) {
      EXPECT_LE(asked.size(), 7u);
      for (const int id : asked) strategy->tell(id, -1);
      ids.insert(ids.end(), asked.begin(), asked.end());
    }
    std::vector<int> expected(space.points.size());
    std::iota(expected.begin(), expected.end(), 0);
    expected.erase(expected.begin() + 17);
    EXPECT_EQ(std::is_sorted(ids.begin(), ids.end()), std::string(name) == "exhaustive");
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(ids, expected) << name;
  }
  space.points.resize(64);
  EXPECT_EQ(default_strategy(space), "exhaustive");
}

TEST(Strategies, AUsersOwnIsFoundByItsName) {
  register_strategy(
      "mine", [](const SearchSpace& space, std::uint64_t) { return make_exhaustive(space, 0); });
  EXPECT_NE(make_strategy("mine", SearchSpace{}, 0), nullptr);
  EXPECT_THROW(make_strategy("yours", SearchSpace{}, 0), Error);
}

TEST(Rows, AllWhenTheOracleCanAffordThemElseSeededAndEdges) {
  static const Behaviour any{};
  const Operator& op = make_operator({dummy("any", any)});
  const Problem problem = make_problem(op, 4096, 16);
  const CallData data(op, problem, 0, nullptr, host_memory());
  EXPECT_EQ(choose_rows(op, problem, data.args(), 0, 1 << 20).size(), 4096u);
  const auto some = choose_rows(op, problem, data.args(), 0, 1000);
  EXPECT_GE(some.size(), 64u);
  EXPECT_LT(some.size(), 200u);
  EXPECT_TRUE(std::is_sorted(some.begin(), some.end()));
  for (const std::int64_t row : {0, 15, 16, 17, 127, 128, 129, 4095})
    EXPECT_TRUE(std::binary_search(some.begin(), some.end(), row)) << row;
  EXPECT_EQ(some, choose_rows(op, problem, data.args(), 0, 1000));
  EXPECT_NE(some, choose_rows(op, problem, data.args(), 1, 1000));
}

// One list of rows for all results: each result has its share of them, including its last row.
TEST(Rows, OfAResultWithFewerRowsToo) {
  const Operator& op = register_schema(
      "rows_of_two(x: f32[T, C], w: f32[E, C]) -> (y: f32[T, C], s: f32[E, C], z: f32[C])");
  const Problem problem =
      Call(op.forms[0]).tensor({{65536, 4}, {}}).tensor({{300, 4}, {}}).problem();
  const CallData data(op, problem, 0, nullptr, host_memory());
  const auto rows = choose_rows(op, problem, data.args(), 0, 1000);
  EXPECT_LT(rows.size(), 300u);
  EXPECT_TRUE(std::binary_search(rows.begin(), rows.end(), 299));
  EXPECT_TRUE(std::binary_search(rows.begin(), rows.end(), 65535));
  EXPECT_TRUE(std::binary_search(rows.begin(), rows.end(), 0));  // all that z has
  EXPECT_GE(std::lower_bound(rows.begin(), rows.end(), 300) - rows.begin(), 50);
}

// One row of x in; the verdict on a given y out.
class Verdicts : public ::testing::Test {
 protected:
  Verdict judge(DType dtype, std::vector<double> x, std::vector<double> y) {
    static const Behaviour any{};
    static const Operator& op = make_operator({dummy("any", any)});
    const Problem problem = make_problem(op, 1, static_cast<std::int64_t>(x.size()), dtype);
    const CallData data(op, problem, 0, nullptr, host_memory());
    for (std::size_t i = 0; i < x.size(); ++i) {
      store_element(data.args().tensors[0], static_cast<std::int64_t>(i), x[i]);
      store_element(data.args().result(0), static_cast<std::int64_t>(i), y[i]);
    }
    return verify(op, problem, data.args(), {}, Context{});
  }
};

TEST_F(Verdicts, BoundIsRelativeAndFirstWrongIsNamed) {
  const Verdict right = judge(DType::kF32, {1, 2, 3}, {2, 4.0039, 6});
  EXPECT_EQ(right.wrong, 0);
  EXPECT_NEAR(right.worst, 0.975, 1e-3);
  const Verdict wrong = judge(DType::kF32, {1, 2, 3}, {2, 4, 6.01});
  EXPECT_EQ(wrong.wrong, 1);
  EXPECT_EQ(wrong.first_wrong, 2);
  EXPECT_EQ(wrong.checked, 3);
}

TEST_F(Verdicts, ABoundThatIsNoNumberAllowsNothing) {
  static const Behaviour any{};
  const Operator& op = make_operator({dummy("any", any)}, [](const Problem&, int) {
    return Bound{0, std::nan(""), 0};
  });
  const Problem problem = make_problem(op, 1, 2);
  const CallData data(op, problem, 0, nullptr, host_memory());
  for (const std::int64_t i : {0, 1}) {
    store_element(data.args().tensors[0], i, static_cast<double>(i + 1));
    store_element(data.args().result(0), i, 2.001 * static_cast<double>(i + 1));
  }
  const Verdict verdict = verify(op, problem, data.args(), {}, Context{});
  EXPECT_EQ(verdict.wrong, 2);
  EXPECT_TRUE(std::isinf(verdict.worst));
}

TEST_F(Verdicts, NonFiniteValuesMustAgree) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(judge(DType::kF32, {nan, inf, -inf, 1}, {nan, inf, -inf, 2}).wrong, 0);
  EXPECT_EQ(judge(DType::kF32, {nan, 1, 2}, {2, 2, 4}).wrong, 1);
  EXPECT_EQ(judge(DType::kF32, {3, 1, 2}, {nan, 2, 4}).wrong, 1);
  EXPECT_EQ(judge(DType::kF32, {inf, 1, 2}, {-inf, 2, 4}).wrong, 1);
  EXPECT_EQ(judge(DType::kF32, {3, 1, 2}, {inf, 2, 4}).wrong, 1);
}

TEST_F(Verdicts, OverflowMayRoundToInfinity) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(judge(DType::kF16, {40000, 1, 2}, {inf, 2, 4}).wrong, 0);
  EXPECT_EQ(judge(DType::kF16, {40000, 1, 2}, {-inf, 2, 4}).wrong, 1);
  EXPECT_EQ(judge(DType::kF16, {40000, 1, 2}, {65504, 2, 4}).wrong, 1) << "clamped far too low";
  EXPECT_EQ(judge(DType::kF16, {32757, 1, 2}, {65504, 2, 4}).wrong, 0) << "65514 is a step away";
  EXPECT_EQ(judge(DType::kF16, {20000, 1, 2}, {inf, 2, 4}).wrong, 1);
}

TEST_F(Verdicts, F8IsJudgedByValueAndSaturates) {
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    const double most = float_traits(dtype).max;
    EXPECT_EQ(judge(dtype, {1.5, -0.25, 2}, {3, -0.5, 4}).wrong, 0);
    EXPECT_EQ(judge(dtype, {1.5, -0.25, 2}, {3.5, -0.5, 4}).wrong, 1);
    EXPECT_EQ(judge(dtype, {most, -most, 2}, {most, -most, 4}).wrong, 0);
    EXPECT_EQ(judge(dtype, {most, 1, 2}, {-most, 2, 4}).wrong, 1);
    EXPECT_EQ(judge(dtype, {most, 1, 2}, {most / 2, 2, 4}).wrong, 1);
    EXPECT_EQ(judge(dtype, {most, 1, 2}, {std::nan(""), 2, 4}).wrong, 1);
  }
}

// Exact values: every code is a number of the format, and rounding that number returns the code.
TEST(Float8, EveryCodeComesBackAndNeighboursRoundToIt) {
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    double below = 0;
    for (int code = 0; code < 128; ++code) {
      const double v = f8_to_f32(dtype, static_cast<std::uint8_t>(code));
      if (!std::isfinite(v)) continue;
      EXPECT_EQ(f32_to_f8(dtype, static_cast<float>(v)), code);
      EXPECT_EQ(f32_to_f8(dtype, static_cast<float>(-v)), code | 0x80);
      if (code == 0) continue;
      const double middle = (below + v) / 2, up = std::nextafter(middle, 1e9);
      EXPECT_EQ(round_to(dtype, up), v) << code;
      EXPECT_EQ(round_to(dtype, std::nextafter(middle, 0)), below) << code;
      EXPECT_EQ(round_to(dtype, middle), code % 2 == 0 ? v : below) << "ties go to even";
      below = v;
    }
    EXPECT_EQ(below, float_traits(dtype).max);
    const double inf = std::numeric_limits<double>::infinity();
    EXPECT_EQ(round_to(dtype, inf), below);
    EXPECT_EQ(round_to(dtype, -1e300), -below);
    EXPECT_TRUE(std::isnan(round_to(dtype, std::nan(""))));
  }
  EXPECT_EQ(f8_to_f32(DType::kF8E4M3, 0x7e), 448);
  EXPECT_EQ(f8_to_f32(DType::kF8E4M3, 0x01), 0x1p-9f);
  EXPECT_EQ(f8_to_f32(DType::kF8E5M2, 0x01), 0x1p-16f);
  EXPECT_TRUE(std::isinf(f8_to_f32(DType::kF8E5M2, 0x7c)));
}

TEST_F(Verdicts, WhatCannotFailIsMistrusted) {
  EXPECT_TRUE(judge(DType::kF32, {1, 1, 1}, {2, 2, 2}).mistrusted);
  EXPECT_TRUE(judge(DType::kF32, {0, 0, 1}, {0, 0, 2}).mistrusted);
  EXPECT_FALSE(judge(DType::kF32, {0, 2, 1}, {0, 4, 2}).mistrusted);
}

TEST_F(Verdicts, WhatNothingIsKnownOfIsMistrusted) {
  g_undefined_from = 0;
  const Verdict unknown = judge(DType::kF32, {1, 2, 3}, {0, 0, 0});
  g_undefined_from = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(unknown.checked, 0);
  EXPECT_EQ(unknown.wrong, 0);
  EXPECT_TRUE(unknown.mistrusted);
  EXPECT_FALSE(judge(DType::kF32, {}, {}).mistrusted) << "there is nothing to know";
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kLow = -HUGE_VAL;
  EXPECT_TRUE(judge(DType::kF32, {kNan, 1, kNan}, {kNan, 2, kNan}).mistrusted);
  EXPECT_FALSE(judge(DType::kF32, {kNan, 1, kNan}, {kNan, 2, kNan}).telling);
  EXPECT_FALSE(judge(DType::kF32, {1, 1, 1}, {2, 2, 2}).telling);
  EXPECT_FALSE(judge(DType::kF32, {0, 0, 0}, {0, 0, 0}).telling);
  EXPECT_FALSE(unknown.telling);
  EXPECT_TRUE(judge(DType::kF32, {0, 0, 1}, {0, 0, 2}).telling) << "a few say something";
  EXPECT_TRUE(judge(DType::kF32, {kLow, 1, kLow}, {kLow, 2, kLow}).telling) << "a mask";
  EXPECT_TRUE(judge(DType::kF32, {1}, {2}).telling);
}

TEST(Machine, RatesArePlausible) {
  const Context context;
  const double copy = copy_rate(
      context, 1 << 20,
      [](void* to, const void* from, std::int64_t n) {
        std::memcpy(to, from, static_cast<std::size_t>(n));
      },
      steady_nanoseconds);
  EXPECT_GT(copy, 1e8);
  EXPECT_LT(copy, 1e13);
}

// ---- launches of a replay on a GPU, and the traffic between two on the same tensors -------------

TEST(Rotation, NoLaunchFindsItsOwnTensorsInTheCache) {
  constexpr std::size_t kWanted = 150'000'000;
  for (const std::size_t bytes : {std::size_t{4'096}, std::size_t{500'000}, std::size_t{1'000'000},
                                  std::size_t{30'000'000}, std::size_t{70'000'000}, kWanted}) {
    const std::size_t sets = std::min<std::size_t>(160, (kWanted + bytes - 1) / bytes);
    const Rotation rotation{sets, bytes, kWanted};
    for (const double ms : {0.001, 0.002, 0.006, 0.01, 0.07, 0.4, 3.0, 50.0}) {
      const int launches = rotation.launches(ms);
      ASSERT_GE(launches, 1);
      ASSERT_LE(launches, 160);
      EXPECT_LE(launches, std::max(1.0, 1.0 / ms) + static_cast<double>(sets)) << "not for long";
      const bool flushes = rotation.bytes_apart(launches, 0) < kWanted;
      EXPECT_GE(rotation.bytes_apart(launches, flushes ? kWanted : 0), kWanted)
          << bytes << " bytes, " << ms << " ms: " << launches << " launches on " << sets;
      if (sets * bytes >= kWanted && static_cast<double>(sets) * ms <= 1.0) {
        EXPECT_EQ(static_cast<std::size_t>(launches) % sets, 0u)
            << "whole turns where they are short";
        EXPECT_FALSE(flushes);
      }
    }
  }
}

TEST(Rotation, LaunchesAsManyOfEachSize) {
  for (const std::size_t sets : {2u, 6u, 160u})
    for (const std::size_t bytes : {std::size_t{1'000'000}, std::size_t{200'000'000}})
      for (const double ms : {0.001, 0.03, 0.07, 0.4, 3.0, 50.0}) {
        const Rotation rotation{sets, bytes, 150'000'000, 2};
        EXPECT_EQ(rotation.launches(ms) % 2, 0) << sets << ' ' << bytes << ' ' << ms;
        EXPECT_GE(rotation.launches(ms), 2);
      }
}

TEST(Rotation, KnowsWhatIsWarm) {
  const Rotation rotation{3, 50, 150};
  EXPECT_EQ(rotation.bytes_apart(3, 0), 150u);
  EXPECT_EQ(rotation.bytes_apart(6, 0), 150u);
  EXPECT_EQ(rotation.bytes_apart(1, 0), 50u) << "every replay is on set 0";
  EXPECT_EQ(rotation.bytes_apart(4, 0), 50u) << "set 0 ends a replay and begins the next";
  EXPECT_EQ(rotation.bytes_apart(1, 150), 200u);
  EXPECT_EQ((Rotation{2, 50, 150}.bytes_apart(5, 1000)), 100u) << "a flush is not inside a replay";
}

}  // namespace
}  // namespace dlblas::test
