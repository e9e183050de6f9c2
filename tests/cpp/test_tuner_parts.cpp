// The tuner's parts, one by one: the winner rule, strategies, row choice, the verdict, made inputs.
// Read next: tests/cpp/test_tuner.cpp (the whole).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "store/ranking.hpp"
#include "tests/cpp/schema_dummy.hpp"
#include "tests/cpp/tuner_dummy.hpp"
#include "tuner/cuda_measurer.hpp"
#include "tuner/inputs.hpp"
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

// One list of rows for all results: each result has its share of them, and its last row.
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

// One row of x in, the verdict on a given y out.
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

// Exact values: every code is a number of the format, and rounding finds it again.
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

// Inputs made for a Problem are of that Problem: bound and validated, they give it back.
struct Made {
  DType dtype;
  Layout layout;
  int align_log2;
  std::int64_t width;
};
class MadeInputs : public ::testing::TestWithParam<Made> {};
TEST_P(MadeInputs, GiveTheirProblemBack) {
  static const Behaviour any{};
  static const Operator& op = make_operator({dummy("any", any)});
  const Made& made = GetParam();
  Problem problem = make_problem(op, 32, made.width, made.dtype);
  problem.tensors[0].layout = made.layout;
  problem.tensors[0].align_log2 = static_cast<std::uint8_t>(made.align_log2);
  if (made.layout == Layout::kRowsOuter || made.layout == Layout::kRowsBroadcast)
    problem.tensors[1].layout = Layout::kContiguous;
  problem.tensors[1].align_log2 = static_cast<std::uint8_t>(std::min<int>(
      4, std::countr_zero(static_cast<unsigned>(made.width * size_of(made.dtype)) | 16u)));
  const CallData data(op, problem, 5, nullptr, host_memory());

  dlblas_tensor tensors[2];
  dlblas_value value{};
  for (int i = 0; i < 2; ++i) {
    const TensorView& t = data.args().tensors[i];
    tensors[i] = {t.data,
                  {1, 0},
                  t.rank,
                  {dlpack_code_of(t.dtype), static_cast<std::uint8_t>(8 * size_of(t.dtype)), 1},
                  const_cast<std::int64_t*>(t.shape),
                  const_cast<std::int64_t*>(t.strides),
                  0};
  }
  value.kind = DLBLAS_TENSOR;
  value.as.tensor = &tensors[0];
  dlblas_args call{sizeof call, &value, 1, 0, nullptr, &tensors[1], 1, 0};
  Args args;
  Problem again;
  bind(op.forms.front(), call, args);
  validate(op, call, 1, args, again);
  EXPECT_EQ(again.tensors[0].layout, problem.tensors[0].layout);
  EXPECT_EQ(again.tensors[0].align_log2, problem.tensors[0].align_log2);
  EXPECT_TRUE(again == problem);
  EXPECT_TRUE(data.guards_intact());
}
INSTANTIATE_TEST_SUITE_P(Layouts, MadeInputs,
                         ::testing::Values(Made{DType::kF32, Layout::kContiguous, 4, 64},
                                           Made{DType::kF32, Layout::kContiguous, 2, 63},
                                           Made{DType::kBF16, Layout::kContiguous, 1, 63},
                                           Made{DType::kF32, Layout::kContiguous, 0, 64},
                                           Made{DType::kF16, Layout::kContiguous, 3, 64},
                                           Made{DType::kF32, Layout::kRowStrided, 4, 64},
                                           Made{DType::kF32, Layout::kRowStrided, 4, 63},
                                           Made{DType::kBF16, Layout::kRowStrided, 2, 64},
                                           Made{DType::kF32, Layout::kRowsOuter, 4, 64},
                                           Made{DType::kF32, Layout::kTransposed, 2, 64},
                                           Made{DType::kF32, Layout::kTransposed, 4, 64},
                                           Made{DType::kF32, Layout::kBroadcast, 4, 64},
                                           Made{DType::kF32, Layout::kRowsBroadcast, 4, 64},
                                           Made{DType::kF16, Layout::kOther, 4, 64}),
                         [](const auto& instance) {
                           return "made" + std::to_string(instance.index);
                         });

TEST(Inputs, SameSeedSameBitsAndRoughlyNormal) {
  static const Behaviour any{};
  const Operator& op = make_operator({dummy("any", any)});
  const Problem problem = make_problem(op, 256, 256);
  const CallData a(op, problem, 1, nullptr, host_memory()),
      b(op, problem, 1, nullptr, host_memory());
  const CallData c(op, problem, 2, nullptr, host_memory());
  const auto* values = static_cast<const float*>(a.args().tensors[0].data);
  const std::size_t bytes = 256 * 256 * sizeof(float);
  EXPECT_EQ(std::memcmp(values, b.args().tensors[0].data, bytes), 0);
  EXPECT_NE(std::memcmp(values, c.args().tensors[0].data, bytes), 0);
  double sum = 0, squares = 0;
  for (int i = 0; i < 256 * 256; ++i) sum += values[i], squares += values[i] * values[i];
  EXPECT_NEAR(sum / 65536, 0, 0.02);
  EXPECT_NEAR(squares / 65536, 1, 0.03);
}

TEST(Inputs, AWriteIntoAGapOrAGuardIsSeen) {
  TensorView view{};
  view.rank = 2;
  view.dtype = DType::kF32;
  view.shape[0] = 4, view.shape[1] = 5;
  GuardedTensor tensor(view, {DType::kF32, Layout::kRowStrided, 4, 0}, host_memory());
  auto* data = static_cast<float*>(view.data);
  const std::int64_t pitch = view.strides[0];
  for (int t = 0; t < 4; ++t)
    for (int c = 0; c < 5; ++c) data[t * pitch + c] = 1;
  EXPECT_TRUE(tensor.guards_intact());
  for (const std::int64_t at : {std::int64_t{-1}, std::int64_t{5}, pitch - 1, 3 * pitch + 5}) {
    const float before = data[at];
    data[at] = 0;
    EXPECT_FALSE(tensor.guards_intact()) << at;
    std::memcpy(data + at, &before, sizeof before);
    tensor.poison(0x5c);
    EXPECT_TRUE(tensor.guards_intact());
    EXPECT_EQ(tensor.elements_equal_to(0x5c).size(), 20u);
  }
}

// Other values for everything, scalars among them, at the same addresses, but for one of several
// inputs of indices that the caller lent; and back.
TEST(Inputs, VaryAndComeBack) {
  const Operator& op = register_schema(
      "parts_vary(x: f32[T], ids: i32[T] ~index<T, seen: i32[T]! ~index<T, scale: float = 1, "
      "eps: float = 1e-6) -> y: f32[T]");
  Problem problem;
  problem.op = op.id;
  for (int i = 0; i < 4; ++i)
    problem.tensors[i] = {i == 1 || i == 2 ? DType::kI32 : DType::kF32, Layout::kContiguous, 4, 0};
  problem.dims[0] = 64;
  std::vector<std::int32_t> lent(64);
  std::iota(lent.rbegin(), lent.rend(), 0);
  Args caller;
  caller.schema = &op.schema;
  caller.present = 1u << 2;
  caller.tensors[2] = {};
  caller.tensors[2].data = lent.data();
  caller.tensors[2].rank = 1, caller.tensors[2].shape[0] = 64, caller.tensors[2].strides[0] = 1;
  caller.tensors[2].dtype = DType::kI32;
  caller.scalars[0] = {0, 0.25}, caller.scalars[1] = {0, 1e-6};
  CallData data(op, problem, 1, &caller, host_memory());
  EXPECT_EQ(data.args().scalars[0].f, 0.25) << "the caller's, not the default";
  const auto held = [&](int tensor) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < 64; ++i)
      values.push_back(load_element(data.args().tensors[tensor], i));
    return values;
  };
  const void* const address = data.args().tensors[0].data;
  const std::vector<double> x = held(0), ids = held(1), seen = held(2);
  EXPECT_EQ(seen.front(), 63);
  store_element(data.args().tensors[2], 0, 7);  // as a call would
  data.vary(problem, 2);
  EXPECT_EQ(data.args().tensors[0].data, address);
  EXPECT_NE(held(0), x);
  EXPECT_NE(held(1), ids);
  EXPECT_EQ(held(2), seen) << "one of two inputs of indices";
  EXPECT_EQ(data.args().scalars[0].f, 1.0);
  EXPECT_EQ(data.args().scalars[1].f, 0.500002);
  data.remake(problem, 1);
  data.restore();
  EXPECT_EQ(held(0), x);
  EXPECT_EQ(held(1), ids);
  EXPECT_EQ(held(2), seen);
  EXPECT_EQ(data.args().scalars[0].f, 0.25);
}

// Lent lengths or offsets alone change, and stay a load like the caller's; several stay.
TEST(Inputs, LentLengthsAndOffsetsVaryInOrder) {
  using Words = std::vector<std::int32_t>;
  const auto varied = [](const std::string& schema, std::vector<Words> lent) {
    const Operator& op = register_schema(schema);
    Problem problem;
    problem.op = op.id;
    const int count = static_cast<int>(lent.size());
    for (int i = 0; i < count + 2; ++i)
      problem.tensors[i] = {i > 0 && i <= count ? DType::kI32 : DType::kF32, Layout::kContiguous, 4,
                            0};
    problem.dims[0] = 64, problem.dims[1] = 4;
    Args caller;
    caller.schema = &op.schema;
    for (int i = 1; i <= count; ++i) {
      caller.present |= 1u << i;
      TensorView& t = caller.tensors[i] = {};
      t.data = lent[i - 1].data(), t.dtype = DType::kI32, t.rank = 1, t.strides[0] = 1;
      t.shape[0] = static_cast<std::int64_t>(lent[i - 1].size());
    }
    CallData data(op, problem, 1, &caller, host_memory());
    const auto held = [&] {
      Words values;
      for (std::int64_t i = 0; i < data.args().tensors[1].shape[0]; ++i)
        values.push_back(static_cast<std::int32_t>(load_element(data.args().tensors[1], i)));
      return values;
    };
    data.vary(problem, 2);
    const Words found = held();
    data.remake(problem, 1);
    EXPECT_EQ(held(), lent[0]);
    return found;
  };
  EXPECT_EQ(
      varied("parts_ends(x: f32[T], ends: i32[E+1] ~offsets<=T) -> y: f32[T]", {{0, 1, 1, 30, 64}}),
      (Words{0, 34, 63, 63, 64}));
  EXPECT_EQ(varied("parts_lens(x: f32[T], lens: i32[E] ~lengths<=T) -> y: f32[T]", {{9, 0, 3, 4}}),
            (Words{4, 3, 0, 9}));
  EXPECT_EQ(varied("parts_both(x: f32[T], ends: i32[E+1] ~offsets<=T, lens: i32[E] ~lengths<=T) "
                   "-> y: f32[T]",
                   {{0, 1, 1, 30, 64}, {1, 0, 29, 34}}),
            (Words{0, 1, 1, 30, 64}));
}

// The sizes that a user's candidate is shown beside its bucket's end: of the same key.
TEST(Inputs, SmallerCallsHaveTheSameKey) {
  const Operator& op = register_schema(
      "parts_smaller(x: f[T, C], bias: f[S, L]) -> y: f[T, C] where T: bucket(tokens), "
      "S: bucket(tokens), L: bucket(tokens)");
  Problem problem;
  problem.op = op.id;
  for (int i = 0; i < 3; ++i) problem.tensors[i] = {DType::kF32, Layout::kContiguous, 4, 0};
  for (std::size_t i = 0; i < op.schema.letters.size(); ++i) problem.dims[i] = 512;
  const auto size = [&](const char* name) {
    const Problem other = smaller_call(op, problem);
    for (std::size_t i = 0; i < op.schema.letters.size(); ++i)
      if (op.schema.letters[i].name == name) return other.dims[i];
    return std::int64_t{-1};
  };
  EXPECT_EQ(size("T"), 508);
  EXPECT_EQ(size("C"), 512) << "exact";
  EXPECT_EQ(size("S"), 508);
  EXPECT_EQ(size("L"), 508) << "rows of 16 bytes stay aligned, and all are as much smaller";
  for (std::size_t i = 0; i < op.schema.letters.size(); ++i) problem.dims[i] = 1;
  EXPECT_EQ(size("T"), 1) << "a bucket of one";
}

// A pool's size is no part of the key (`free`): the tuner's is smaller than the caller's, whose
// indices would reach beyond it.
TEST(Inputs, LentIndicesStayInsideTheTunersPool) {
  const Operator& op = register_schema(
      "parts_pool(x: f[P], at: i64[T] ~index<P, slots: i64[T] ~distinct<P|-1) -> y: f[T] "
      "where P: free(2T)");
  Problem problem;
  problem.op = op.id;
  for (int i = 0; i < 4; ++i)
    problem.tensors[i] = {i == 1 || i == 2 ? DType::kI64 : DType::kF32, Layout::kContiguous, 4, 0};
  const auto letter = [&](const char* name) {
    for (std::size_t i = 0; i < op.schema.letters.size(); ++i)
      if (op.schema.letters[i].name == name) return i;
    return std::size_t{0};
  };
  problem.dims[letter("T")] = 8;
  std::vector<std::int64_t> at = {3, 90000, 15, 16, 17, 0, 5, 1 << 20};
  std::vector<std::int64_t> slots = {900, 3, -1, 17, 15, 1 << 20, 0, 16};
  Args caller;
  caller.schema = &op.schema;
  for (const int i : {1, 2}) {
    caller.present |= 1u << i;
    caller.tensors[i] = {};
    caller.tensors[i].data = i == 1 ? at.data() : slots.data();
    caller.tensors[i].rank = 1, caller.tensors[i].shape[0] = 8, caller.tensors[i].strides[0] = 1;
    caller.tensors[i].dtype = DType::kI64;
  }
  const CallData data(op, problem, 1, &caller, host_memory());
  std::set<double> seen;
  for (std::int64_t i = 0; i < 8; ++i) {
    const double index = load_element(data.args().tensors[1], i);
    EXPECT_GE(index, 0);
    EXPECT_LT(index, 16) << i;
    const double given = static_cast<double>(at[static_cast<std::size_t>(i)]);
    if (given < 16) {
      EXPECT_EQ(index, given);
    }
    const double slot = load_element(data.args().tensors[2], i);
    EXPECT_GE(slot, -1) << i;
    EXPECT_LT(slot, 16) << i;
    const double asked = static_cast<double>(slots[static_cast<std::size_t>(i)]);
    if (asked < 16) {
      EXPECT_EQ(slot, asked);
    }
    if (slot >= 0) {
      EXPECT_TRUE(seen.insert(slot).second) << slot << " twice";
    }
  }
}

// As wide as a tile on both sides, and of copies, narrow: a set of rotated tensors stays small.
TEST(Inputs, AWriteATileAwayIsSeen) {
  for (const Layout layout : {Layout::kContiguous, Layout::kRowStrided}) {
    TensorView view{};
    view.rank = 2;
    view.dtype = DType::kBF16;
    view.shape[0] = 4, view.shape[1] = 5;
    GuardedTensor tensor(view, {DType::kBF16, layout, 4, 0}, host_memory());
    auto* data = static_cast<std::uint16_t*>(view.data);
    constexpr std::int64_t kTile = 65536 / 2;
    for (const std::int64_t at : {-kTile, 4 * view.strides[0] + kTile}) {
      tensor.poison(0x5c);
      EXPECT_TRUE(tensor.guards_intact());
      data[at] = 0;
      EXPECT_FALSE(tensor.guards_intact()) << at;
      tensor.mend_guards();
      EXPECT_TRUE(tensor.guards_intact()) << at;
    }
    EXPECT_LE(tensor.bytes(), 1024u) << "what a call touches, without the guards";
    const GuardedTensor copy(tensor);
    EXPECT_TRUE(copy.guards_intact());
    EXPECT_EQ(copy.elements_equal_to(0x5c).size(), 20u);
  }
}

// Every index-valued fill stays inside its bounds, and offsets end at the right letter.
TEST(Inputs, IndicesStayInsideTheirBounds) {
  const Schema schema = parse_schema(
      "op(x: f[T, C], page: i32[P, G], near: i32[T] ~index<P*G, upto: i32[T] ~index<=C, "
      "slots: i64[T] ~index<P|-1, once: i32[T] ~distinct<4P, ids: i32[T, K] ~distinct_rows<C, "
      "ends: i32[B+1] ~offsets<=L, lens: i32[B] ~lengths<=2L, five: i32[T] ~index<5, "
      "more: i32[P] ~distinct<C|-1, order: i32[T] ~permutation, starts: i32[B+1] ~offsets, "
      "k: f[L]) -> y: f[T] where T: bucket(tokens)");
  const std::map<std::string, std::int64_t> sizes = {{"T", 40}, {"C", 11}, {"P", 16}, {"G", 3},
                                                     {"K", 4},  {"B", 7},  {"L", 100}};
  std::int64_t letters[kMaxLetters] = {};
  for (std::size_t i = 0; i < schema.letters.size(); ++i)
    letters[i] = sizes.at(schema.letters[i].name);
  const auto made = [&](const char* name, std::uint64_t seed) {
    const int tensor = schema.params[static_cast<std::size_t>(schema.find_param(name))].index;
    TensorView view{};
    view.dtype = DType::kI64;
    for (const DimExpr& d : schema.tensors[static_cast<std::size_t>(tensor)].dims)
      view.shape[view.rank++] = d.evaluate(letters);
    const Filler filler = make_filler(schema, tensor, letters, view, seed);
    std::vector<double> values;
    for (std::int64_t i = 0; i < view.numel(); ++i) values.push_back(filler.value(i));
    return values;
  };
  const auto within = [](const std::vector<double>& v, double least, double most) {
    const auto [low, high] = std::minmax_element(v.begin(), v.end());
    return *low >= least && *high <= most;
  };
  bool reached = false, none = false;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_TRUE(within(made("near", seed), 0, 47));
    const std::vector<double> upto = made("upto", seed), slots = made("slots", seed);
    EXPECT_TRUE(within(upto, 0, 11));
    reached |= std::count(upto.begin(), upto.end(), 11) > 0;
    EXPECT_TRUE(within(slots, -1, 15));
    none |= std::count(slots.begin(), slots.end(), -1) > 0;
    EXPECT_TRUE(within(made("five", seed), 0, 4));
    const std::vector<double> once = made("once", seed), ids = made("ids", seed);
    EXPECT_TRUE(within(once, 0, 63));
    EXPECT_EQ(std::set<double>(once.begin(), once.end()).size(), 40u);
    EXPECT_TRUE(within(ids, 0, 10));
    for (auto row = ids.begin(); row != ids.end(); row += 4)
      EXPECT_EQ(std::set<double>(row, row + 4).size(), 4u);
    const std::vector<double> ends = made("ends", seed), starts = made("starts", seed);
    EXPECT_TRUE(std::is_sorted(ends.begin(), ends.end()));
    EXPECT_EQ(ends.front(), 0);
    EXPECT_EQ(ends.back(), 100) << "of L, not of the tokens";
    EXPECT_EQ(starts.back(), 40) << "where it names no letter, of the tokens";
    const std::vector<double> lens = made("lens", seed);
    EXPECT_TRUE(within(lens, 1, 200));
    EXPECT_EQ(lens.back(), 200);
    const std::vector<double> more = made("more", seed);  // 16 of 11
    EXPECT_TRUE(within(more, -1, 10));
    EXPECT_GE(std::count(more.begin(), more.end(), -1), 5);
    std::vector<double> order = made("order", seed);
    std::sort(order.begin(), order.end());
    for (int i = 0; i < 40; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }
  EXPECT_TRUE(reached);
  EXPECT_TRUE(none);
  EXPECT_NE(made("ends", 1), made("ends", 2));
  EXPECT_NE(made("order", 1), made("order", 2));
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

// ---- launches of a replay on a GPU, and what lies between two on the same tensors ---------------

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
