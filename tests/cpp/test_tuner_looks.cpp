// The extra checks of a candidate besides the measured call: with part of the values changed, and
// with other, partly large values at other addresses. A candidate that keeps its first call, or is
// right only for small values, does not win, whether a user's or built-in; samples are of the first
// call. Read next: src/tuner/looks.cpp.
#include <set>

#include "tests/cpp/schema_dummy.hpp"
#include "tests/cpp/tuner_dummy.hpp"

namespace dlblas::test {
namespace {

struct Keeping {
  const char* name;
  Defect defect;
  Failure failure;
  const char* note;
};

class Searches : public TunerTest {
 protected:
  void SetUp() override {
    TunerTest::SetUp();
    g_first_data.clear();
    g_seen_data.clear();
  }
  /// The candidate is faster by far. Both are slow enough to get few samples, which are really run.
  static const Behaviour& behaviour(Defect defect) {
    return *new Behaviour{defect, [](std::int64_t) -> std::int64_t { return 500'000'000; }};
  }
  static inline const Behaviour kVerySlow{
      Defect::kNone, [](std::int64_t) -> std::int64_t { return 2'000'000'000; }};
  static void expect(const TuneReport& report, const Keeping& keeping) {
    EXPECT_STREQ(report.winner->name, "slow");
    const Evaluated* const found = find(report, keeping.name);
    EXPECT_EQ(found->failure, keeping.failure) << found->note;
    EXPECT_NE(found->note.find(keeping.note), std::string::npos) << found->note;
    EXPECT_EQ(find(report, "slow")->failure, Failure::kNone) << find(report, "slow")->note;
  }
};

class Looks : public Searches, public ::testing::WithParamInterface<Keeping> {};

TEST_P(Looks, AUsersCandidateThatKeepsItsFirstCallDoesNotWin) {
  const Keeping& keeping = GetParam();
  const Operator& op = make_operator(
      {user(dummy(keeping.name, behaviour(keeping.defect))), user(dummy("slow", kVerySlow))});
  for (const std::int64_t rows : {1, 8, 300'000}) {
    g_first_data.clear();
    expect(tune(op, make_problem(op, rows), nullptr, context_, options_), keeping);
  }
}

TEST_P(Looks, NorDoesABuiltInWinner) {
  const Keeping& keeping = GetParam();
  const Operator& op =
      make_operator({dummy(keeping.name, behaviour(keeping.defect)), dummy("slow", kVerySlow)});
  for (const std::int64_t rows : {1, 8, 300'000}) {
    g_first_data.clear();
    expect(tune(op, make_problem(op, rows), nullptr, context_, options_), keeping);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Looks,
    ::testing::Values(
        Keeping{"reads", Defect::kReadsFirst, Failure::kWrongResult, "at other addresses"},
        Keeping{"writes", Defect::kWritesFirst, Failure::kOutOfBounds, "at other addresses"},
        Keeping{"remembers", Defect::kRemembers, Failure::kWrongResult, "at the same addresses"},
        Keeping{"probes", Defect::kProbes, Failure::kWrongResult, "at the same addresses"},
        Keeping{"counts", Defect::kCountsOnZeros, Failure::kWrongResult, "elements are wrong"},
        Keeping{"packs", Defect::kPacksOnce, Failure::kWrongResult, "at the same addresses"},
        Keeping{"clips", Defect::kClips, Failure::kWrongResult, "some of them large"}),
    [](const auto& instance) { return std::string(instance.param.name); });

// As with a leading dimension or a TMA map: a key says that rows are strided, not by how much.
TEST_F(Searches, WhoKeepsAPitchDoesNotWin) {
  for (const Layout layout : {Layout::kRowStrided, Layout::kTransposed}) {
    g_first_pitch.clear();
    const Operator& op = make_operator(
        {user(dummy("keeps", behaviour(Defect::kKeepsPitch))), user(dummy("slow", kVerySlow))});
    Problem problem = make_problem(op, 8, 16);
    problem.tensors[0].layout = layout;
    const TuneReport report = tune(op, problem, nullptr, context_, options_);
    expect(report, {"keeps", Defect::kKeepsPitch, Failure::kWrongResult, "at other addresses"});
  }
}

// As with a launch's grid: a program's first call may be any of those that the record serves.
TEST_F(Searches, WhoKeepsItsFirstRowsDoesNotWin) {
  g_first_rows.clear();
  const Operator& op = make_operator(
      {user(dummy("keeps", behaviour(Defect::kKeepsRows))), user(dummy("slow", kVerySlow))});
  const TuneReport report = tune(op, make_problem(op, 512), nullptr, context_, options_);
  expect(report, {"keeps", Defect::kKeepsRows, Failure::kUnwritten, "were not written"});
}

// A graph holds the addresses that it was captured with, and indices at other addresses may be
// anything.
TEST_F(Searches, SamplesAreOfTheFirstCall) {
  const Operator& op = make_operator({user(dummy("fast", kFast)), dummy("slow", kSlow)});
  options_.max_evaluations = 2;
  run_tune(op);
  const void* const first = g_seen_data[1];  // before it, that of the other size
  std::set<const void*> others(g_seen_data.begin(), g_seen_data.end());
  others.erase(first);
  EXPECT_EQ(others.size(), 2u) << "one of the look, one of the other size";
  const auto away = std::count_if(g_seen_data.begin(), g_seen_data.end(),
                                  [&](const void* at) { return at != first; });
  EXPECT_LE(away, 6) << "of " << g_seen_data.size();
}

// The pitches change to others of the key's layout class, whatever the strides of rows and columns.
TEST(Pitches, AreOthersElsewhereAndOfTheSameKey) {
  const Operator& op = register_schema(
      "looks_pitch(x: f[*T, C], m: like(x)[B, T, C], ids: i32[T, C] ~index<T, seen: f[T, C]!) -> "
      "y: like(x)[*T, C] where T: bucket(tokens)");
  for (const Layout layout : {Layout::kContiguous, Layout::kRowStrided, Layout::kTransposed,
                              Layout::kRowsOuter, Layout::kMatricesTransposed})
    for (const int align : {2, 4})
      for (const std::int64_t width : {7, 8, 64}) {
        Problem problem;
        problem.op = op.id;
        for (int l = 0; l < 3; ++l) problem.dims[l] = l == 1 ? width : 6;
        for (int i = 0; i < 5; ++i) {
          const bool may = layout == Layout::kContiguous || layout == Layout::kRowStrided ||
                           (layout == Layout::kTransposed && i != 1) ||
                           (layout == Layout::kRowsOuter && i == 1) ||
                           (layout == Layout::kMatricesTransposed && i == 1);
          problem.tensors[i] = {i == 2 ? DType::kI32 : DType::kF32,
                                may ? layout : Layout::kContiguous,
                                static_cast<std::uint8_t>(align), 0};
        }
        CallData data(op, problem, 3, nullptr, host_memory());
        const Args first = data.args();
        data.vary(problem, 3, Look::kElsewhere);
        for (const int i : {0, 1, 2, 3, 4}) {
          const TensorView &now = data.args().tensors[i], &home = first.tensors[i];
          const bool other = !std::equal(now.strides, now.strides + now.rank, home.strides);
          const bool apart = problem.tensors[i].layout != Layout::kContiguous;
          EXPECT_EQ(other, apart && i != 2 && i != 3) << i << " " << name_of(layout);
          EXPECT_EQ(traits_of(now, now.rank == 3).layout, traits_of(home, home.rank == 3).layout);
          EXPECT_EQ(traits_of(now, now.rank == 3).align_log2,
                    traits_of(home, home.rank == 3).align_log2);
        }
        data.poison_results(0x5c);
        EXPECT_TRUE(data.guards_intact());
        data.remake(problem, 3);
        for (const int i : {0, 1, 2, 3, 4})
          EXPECT_EQ(data.args().tensors[i].strides[0], first.tensors[i].strides[0]);
      }
}

class Made : public ::testing::Test {
 protected:
  static std::vector<double> held(const CallData& data, int tensor) {
    const TensorView& t = data.args().tensors[tensor];
    const Rows all = rows_of(t, 0);
    std::vector<double> values;
    for (std::int64_t i = 0; i < all.count; ++i) values.push_back(load_element(t, all.offset(i)));
    return values;
  }
};

TEST_F(Made, APartOfTheValuesIsAnother) {
  const Operator& op = make_operator({dummy("any", kSlow)});
  for (const auto& [rows, width] : {std::pair{40, 50}, {1, 2000}, {2000, 1}}) {
    const Problem problem = make_problem(op, rows, width);
    CallData data(op, problem, 3, nullptr, host_memory());
    const std::vector<double> first = held(data, 0);
    data.vary(problem, 3, Look::kPart);
    const std::vector<double> part = held(data, 0);
    std::size_t stayed = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      stayed += part[i] == first[i];
      const bool seen = i % 64 == 0 || i + 1 == first.size();  // by a probe
      EXPECT_TRUE(part[i] == first[i] || !seen) << i;
    }
    EXPECT_GT(stayed, first.size() / 3);
    EXPECT_LT(stayed, 2 * first.size() / 3);
    data.remake(problem, 3);
    EXPECT_EQ(held(data, 0), first);
  }
  const Problem tiny = make_problem(op, 1, 3);
  CallData data(op, tiny, 3, nullptr, host_memory());
  const std::vector<double> first = held(data, 0);
  data.vary(tiny, 3, Look::kPart);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NE(held(data, 0)[i], first[i]);
}

// Every tensor moves, by its own distance, with the same alignment; in-place results move along.
TEST_F(Made, EveryAddressIsAnother) {
  const Operator& op = register_schema(
      "looks_place(x: f[*T, C], ids: i32[T] ~index<T, s: f32[], seen: f[T, C]!) -> "
      "(y: like(x)[*T, C], z: f32[T]) where T: bucket(tokens)");
  for (const Layout layout : {Layout::kContiguous, Layout::kRowStrided, Layout::kTransposed}) {
    Problem problem;
    problem.op = op.id;
    problem.dims[0] = 6, problem.dims[1] = 10;
    for (int i = 0; i < 6; ++i)
      problem.tensors[i] = {i == 1 ? DType::kI32 : DType::kF32,
                            i == 0 || i == 4 ? layout : Layout::kContiguous, 2, 0};
    problem.tensors[4].alias = 1;  // y is x's memory
    CallData data(op, problem, 3, nullptr, host_memory());
    const Args home = data.args();
    std::vector<std::vector<double>> first;
    for (const int i : {0, 1, 2, 3}) first.push_back(held(data, i));
    data.vary(problem, 3, Look::kElsewhere);
    std::set<std::ptrdiff_t> distances;
    for (const int i : {0, 1, 2, 3, 5}) {
      const auto* const now = static_cast<const std::byte*>(data.args().tensors[i].data);
      const std::ptrdiff_t away = now - static_cast<const std::byte*>(home.tensors[i].data);
      EXPECT_TRUE(distances.insert(away).second) << i;
      EXPECT_EQ(away % 512, 0);
      EXPECT_GT(away, 0);
    }
    EXPECT_EQ(data.args().tensors[4].data, data.args().tensors[0].data);
    EXPECT_NE(held(data, 3), first[3]);
    data.poison_results(0x5c);
    EXPECT_TRUE(data.guards_intact());
    store_element(home.tensors[5], 0, 1);  // what keeps the first call's address
    EXPECT_FALSE(data.guards_intact());
    data.remake(problem, 3);
    data.restore();
    data.poison_results(0x5c);
    EXPECT_TRUE(data.guards_intact());
    for (const int i : {0, 1, 2, 3, 4, 5})
      EXPECT_EQ(data.args().tensors[i].data, home.tensors[i].data) << i;
    for (const int i : {0, 1, 2, 3}) EXPECT_EQ(held(data, i), first[static_cast<std::size_t>(i)]);
  }
}

TEST_F(Made, TheLastRowOfTokensIsZerosSomeGroupsAreEmpty) {
  const Operator& op = register_schema(
      "looks_empty(x: f[T, C], w: f[E, C], scale: f32[T] ~positive, n: i32[T] ~lengths<=C, ends: "
      "i32[E+1] ~offsets<=T) -> y: like(x)[T, C] where T: bucket(tokens)");
  Problem problem;
  problem.op = op.id;
  problem.dims[0] = 512, problem.dims[1] = 64, problem.dims[2] = 200;
  for (int i = 0; i < 6; ++i)
    problem.tensors[i] = {i == 3 || i == 4 ? DType::kI32 : DType::kF32, Layout::kContiguous, 2, 0};
  CallData data(op, problem, 3, nullptr, host_memory());
  const auto zero_rows = [&](int tensor) {
    std::vector<std::size_t> found;
    const std::vector<double> values = held(data, tensor);
    for (std::size_t row = 0; row < values.size() / 64; ++row)
      if (std::all_of(&values[row * 64], &values[row * 64 + 64], [](double v) { return v == 0; }))
        found.push_back(row);
    return found;
  };
  const auto empty = [&] {
    const std::vector<double> ends = held(data, 4), lengths = held(data, 3);
    EXPECT_TRUE(std::is_sorted(ends.begin(), ends.end()));
    EXPECT_EQ(ends.front(), 0);
    EXPECT_EQ(ends.back(), 512);
    int groups = 0;
    for (std::size_t i = 0; i + 1 < ends.size(); ++i) groups += ends[i] == ends[i + 1];
    return std::pair{std::count(lengths.begin(), lengths.end(), 0), groups};
  };
  EXPECT_EQ(zero_rows(0), std::vector<std::size_t>{});
  EXPECT_EQ(empty().first, 0);
  const int before = empty().second;
  data.vary(problem, 3, Look::kElsewhere);
  EXPECT_EQ(zero_rows(0), std::vector<std::size_t>{511});
  EXPECT_EQ(zero_rows(1), std::vector<std::size_t>{}) << "no tokens";
  for (const double v : held(data, 2)) EXPECT_GT(v, 0);
  EXPECT_GT(empty().first, 20);
  EXPECT_GT(empty().second, before + 10);
  data.vary(problem, 3, Look::kElsewhere, nothing_else());
  EXPECT_EQ(zero_rows(0), std::vector<std::size_t>{});
  EXPECT_EQ(empty().first, 0);
}

TEST_F(Made, IntegersWithoutARoleAreNotSmallAlone) {
  const Operator& op = register_schema(
      "looks_integers(a: u8[T, C], b: i8[T, C], c: i32[T, C], d: i64[T, C], e: i32[T, C] ~bits, "
      "one: i32[]) -> y: f32[T, C] where T: bucket(tokens)");
  Problem problem;
  problem.op = op.id;
  problem.dims[0] = 64, problem.dims[1] = 256;
  const DType types[] = {DType::kU8,  DType::kI8,  DType::kI32, DType::kI64,
                         DType::kI32, DType::kI32, DType::kF32};
  for (int i = 0; i < 7; ++i) problem.tensors[i] = {types[i], Layout::kContiguous, 0, 0};
  CallData data(op, problem, 3, nullptr, host_memory());
  const auto ends = [&](int tensor) {
    const std::vector<double> values = held(data, tensor);
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    return std::pair{*least, *most};
  };
  EXPECT_EQ(ends(0), (std::pair{0.0, 255.0}));
  EXPECT_LT(ends(1).first, -120);
  EXPECT_GT(ends(1).second, 120);
  EXPECT_LT(ends(2).first, -0x1p16);
  EXPECT_GT(ends(2).second, 0x1p16);
  EXPECT_LT(ends(3).first, -0x1p32);
  EXPECT_GT(ends(3).second, 0x1p32);
  EXPECT_LT(ends(4).first, -0x1p30);
  EXPECT_GT(ends(4).second, 0x1p30);
  EXPECT_LT(std::abs(ends(5).first), 64) << "a number: how many, where";
  data.use_small_integers(problem, 3);
  for (const int i : {0, 2, 3}) EXPECT_EQ(ends(i), (std::pair{0.0, 63.0}));
  EXPECT_GT(ends(4).second, 0x1p30);
}

TEST_F(Made, SomeValuesAreLargeWhereNoRoleForbidsIt) {
  const Operator& op = register_schema(
      "looks_large(x: f[*T, C], w: like(x)[C], scale: f32[T] ~positive, decay: f32[T] ~negative, "
      "s: f32[], code: i8[T, C]) -> y: like(x)[*T, C] where T: bucket(tokens)");
  Problem problem;
  problem.op = op.id;
  problem.dims[0] = 64, problem.dims[1] = 256;
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int i = 0; i < 7; ++i)
      problem.tensors[i] = {i == 5                       ? DType::kI8
                            : i == 0 || i == 1 || i == 6 ? type
                                                         : DType::kF32,
                            Layout::kContiguous, 4, 0};
    CallData data(op, problem, 3, nullptr, host_memory());
    const auto largest = [&](int tensor, std::size_t begin = 0, std::size_t count = 1 << 20) {
      const std::vector<double> values = held(data, tensor);
      double most = 0;
      for (std::size_t i = begin; i < std::min(values.size(), begin + count); ++i)
        most = std::max(most, std::abs(values[i]));
      return most;
    };
    EXPECT_LT(largest(0), 3.5);
    data.vary(problem, 3, Look::kElsewhere);
    EXPECT_GE(largest(0, 0, 256), 96) << "in the first row, which is always judged";
    EXPECT_LE(largest(0), 128);
    EXPECT_GE(largest(1), 96) << "a channel";
    int ordinary = 0, whole = 0;
    for (std::size_t row = 0; row < 64; ++row) {
      ordinary += largest(0, row * 256, 256) < 3.5;
      const std::vector<double> x = held(data, 0);
      double sum = 0;
      for (std::size_t c = 0; c < 256; ++c) sum += std::abs(x[row * 256 + c]) / 256;
      whole += sum > 16;
    }
    EXPECT_GT(ordinary, 16);
    EXPECT_GT(whole, 6);
    for (const int i : {2, 3, 4}) EXPECT_LT(largest(i), 3.7) << i;
    EXPECT_LE(largest(5), 128) << "codes";
    for (const double v : held(data, 2)) EXPECT_GT(v, 0);
    data.vary(problem, 3, Look::kElsewhere, {.large = 0});
    EXPECT_LT(largest(0), 3.5);
  }
}

}  // namespace
}  // namespace dlblas::test
