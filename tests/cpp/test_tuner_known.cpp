// The later value of a tuned key: hits, what makes a result stale, queries narrower than the one
// answered. Read next: tests/cpp/test_tuner.cpp, src/tuner/candidates.hpp.
#include <algorithm>
#include <set>

#include "dispatch/extent.hpp"
#include "tests/cpp/tuner_dummy.hpp"
#include "tuner/verify.hpp"

namespace dlblas::test {
namespace {

TEST_F(TunerTest, AHitMeasuresNothingAndCountsOnce) {
  const Operator& op =
      make_operator({dummy("slow", kSlow), dummy("knobbed", kKnobbed, &dummy_table())});
  std::int64_t before = measured();
  EXPECT_EQ(run_get_op(op).source, "tuned");
  EXPECT_EQ(measured() - before, 5);
  before = measured();
  Store reopened(folder_ + "/v1");
  options_.store = &reopened;
  const TuneReport hit = run_get_op(op);
  EXPECT_EQ(hit.source, "store");
  EXPECT_STREQ(hit.winner->name, "knobbed");
  EXPECT_EQ(hit.config.values[0], 4);
  EXPECT_EQ(measured(), before);
  options_.force = true;
  EXPECT_EQ(run_get_op(op).source, "tuned");
  EXPECT_EQ(measured() - before, 5);
}

TEST_F(TunerTest, ACutSearchGoesOnWithTwiceTheBudget) {
  static const Implementation wide = dummy("wide", kSlow, &wide_table());
  const Operator& op = make_operator({wide});
  options_.seconds = 0.1;
  const TuneReport cut = run_get_op(op);
  ASSERT_EQ(cut.source, "tuned");
  EXPECT_EQ(cut.planned, 200u);
  ASSERT_LT(cut.evaluated.size(), 200u);
  const auto known = current_rows(op, make_problem(op), *store_->load(store_key(op, cut.problem)));
  EXPECT_TRUE(extent_of(known).cut);
  EXPECT_EQ(extent_of(known).tried, static_cast<int>(cut.evaluated.size()));
  options_.seconds = 0.19;
  EXPECT_EQ(run_get_op(op).source, "store") << "little more";
  options_.seconds = 0.2;
  const TuneReport more = run_get_op(op);
  EXPECT_EQ(more.source, "tuned");
  EXPECT_GT(more.evaluated.size(), cut.evaluated.size());
  EXPECT_EQ(run_get_op(op).source, "store") << "as long as the last one";
  options_.seconds = 100;
  EXPECT_EQ(run_get_op(op).evaluated.size(), 200u);
  options_.seconds = 1000;
  EXPECT_EQ(run_get_op(op).source, "store") << "it came to the end of the space";
}

TEST_F(TunerTest, AStoppedSearchGoesOnWithTwiceWhatItTook) {
  static const Implementation wide = dummy("wide", kSlow, &wide_table());
  const Operator& op = make_operator({wide});
  options_.on_event = [](const dlblas_event& e) { return e.done == 20; };
  EXPECT_TRUE(run_get_op(op).stopped);
  options_.on_event = {};
  EXPECT_EQ(run_get_op(op).source, "tuned");
  EXPECT_EQ(run_get_op(op).source, "store");
}

TEST_F(TunerTest, ANarrowedSearchIsNotACutOne) {
  static const Implementation wide = dummy("wide", kSlow, &wide_table());
  const Operator& op = make_operator({wide});
  options_.max_evaluations = 5;
  run_tune(op);
  options_.max_evaluations = 0;
  options_.seconds = 1000;
  EXPECT_EQ(run_get_op(op).source, "store");
}

// Something else ran at the same time: the first sample is far too slow.
TEST_F(TunerTest, AFirstSampleFarAboveTheOthersIsTakenAgain) {
  static int runs = 0;
  static const Behaviour rival{Defect::kNone, [](std::int64_t) -> std::int64_t {
                                 return ++runs <= 3 ? 100'000'000 : 10'000;
                               }};
  const Operator& op = make_operator({dummy("first", kSlow), dummy("rival", rival)});
  options_.seconds = 0.5;
  EXPECT_STREQ(run_tune(op).winner->name, "rival");
}

TEST_F(TunerTest, AClockThatWasAheadDoesNotRuleForGood) {
  constexpr std::int64_t kFar = 9'000'000'000'000'000'000;  // the year 2255
  const Operator& op = make_operator({dummy("slow", kSlow), dummy("fast", kFast)});
  run_tune(op);
  const Fields key = store_key(op, make_problem(op));
  Record ahead{key, {}, {}};
  for (const Merged::Row& row : store_->load(key)->rows) ahead.candidates.push_back(row.candidate);
  for (Record::Candidate& c : ahead.candidates) {
    c.measured_at = kFar;
    if (c.implementation == "slow") c.samples_ms.assign(c.samples_ms.size(), 1e-6);
  }
  store_->publish(ahead);
  EXPECT_STREQ(run_get_op(op).winner->name, "slow") << "that is what the newest record says";
  options_.force = true;
  run_get_op(op);
  options_.force = false;
  EXPECT_STREQ(run_get_op(op).winner->name, "fast") << "measured since";
}

// Like a kernel whose semaphore is never reset: it is checked again after many runs, and is out.
TEST_F(TunerTest, WhoIsRightAtFirstOnlyDoesNotWin) {
  static const Behaviour tires{Defect::kWrong, [](std::int64_t) -> std::int64_t { return 10'000; },
                               6};
  const Operator& op = make_operator({dummy("slow", kSlow), dummy("tires", tires)});
  const TuneReport report = run_tune(op);
  EXPECT_STREQ(report.winner->name, "slow");
  EXPECT_EQ(find(report, "tires")->failure, Failure::kWrongResult);
}

// An oracle for which the budget allows only some rows, fewer than a complete comparison of the
// winner.
class EveryElement : public TunerTest {
 protected:
  void SetUp() override {
    TunerTest::SetUp();
    g_row_work = 0x1p30;
    g_row_ns = 1'000'000;
  }
  void TearDown() override {
    g_row_work = 0, g_row_ns = 0, g_wrong_by = 1, g_wrong_row = 0;
    TunerTest::TearDown();
  }
  static constexpr std::int64_t kRows = 4096;
  // Makes kOneRow wrong in the first row in which no candidate is compared with the oracle.
  TuneReport run_tune(const Operator& op) {
    const Problem problem = make_problem(op, kRows);
    const CallData data(op, problem, options_.seed, nullptr, host_memory());
    const auto rows = choose_rows(op, problem, data.args(), options_.seed, 1 << 22);
    EXPECT_LT(rows.size(), 200u);
    for (g_wrong_row = 0; std::count(rows.begin(), rows.end(), g_wrong_row) > 0;) ++g_wrong_row;
    return tune(op, problem, nullptr, context_, options_);
  }
};
constexpr auto kQuick = [](std::int64_t) -> std::int64_t { return 10'000; };

TEST_F(EveryElement, WhoIsWrongBetweenTheChosenRowsDoesNotWin) {
  static const Behaviour wrong{Defect::kOneRow, kQuick};
  const Operator& op = make_operator({dummy("slow", kSlow), user(dummy("wrong", wrong))});
  const TuneReport report = run_tune(op);
  EXPECT_STREQ(report.winner->name, "slow");
  ASSERT_EQ(find(report, "wrong")->failure, Failure::kWrongResult);
  EXPECT_EQ(find(report, "wrong")->note,
            text("1 of 16 elements are wrong where another implementation disagrees, the first at ",
                 g_wrong_row * 16, " of result y"));
}

TEST_F(EveryElement, NorWhenItIsTheOneThatOthersAreComparedWith) {
  static const Behaviour wrong{Defect::kOneRow, kQuick};
  const Operator& op = make_operator({dummy("wrong", wrong), dummy("slow", kSlow)});
  const TuneReport report = run_tune(op);
  EXPECT_STREQ(report.winner->name, "slow");
  EXPECT_EQ(find(report, "wrong")->failure, Failure::kWrongResult);
  EXPECT_EQ(find(report, "slow")->failure, Failure::kNone);
}

TEST_F(EveryElement, AConfigurationIsComparedWithOthersOfItsOwn) {
  static const Behaviour wrong{Defect::kOneRow, kQuick};
  static const Implementation bad = dummy("bad", wrong, &dummy_table());
  const Operator& op = make_operator({dummy("first", kSlow), bad});
  const TuneReport report = run_tune(op);
  EXPECT_STREQ(report.winner->name, "first");
  for (const int block : {1, 2, 4, 8})
    EXPECT_EQ(find(report, "bad", block)->failure, Failure::kWrongResult);
}

// No candidate is refused for a difference within the bound: where two disagree, the oracle
// decides.
TEST_F(EveryElement, WhoIsWithinTheBoundThereWins) {
  g_wrong_by = 0.9e-3;
  static const Behaviour near{Defect::kOneRow, kQuick};
  const Operator& op = make_operator({dummy("slow", kSlow), dummy("near", near)});
  EXPECT_STREQ(run_tune(op).winner->name, "near");
  static const Behaviour far{Defect::kOneRow, kQuick};
  const Operator& strict =
      make_operator({dummy("slow", kSlow), dummy("far", far)}, [](const Problem&, int) {
        return Bound{0, 1e-4, 0};
      });
  EXPECT_STREQ(run_tune(strict).winner->name, "slow");
}

// Two samples overturn nothing that thirty have decided.
TEST_F(TunerTest, ARunThatIsStoppedBeforeItsFinalChangesNoChoice) {
  const Operator& op =
      make_operator({dummy("slow", kSlow), dummy("knobbed", kKnobbed, &dummy_table())});
  run_tune(op);
  const auto samples_of_best = [&] {
    std::size_t most = 0;
    for (const Merged::Row& row : store_->load(store_key(op, make_problem(op)))->rows)
      if (row.candidate.config == "block=4") most = row.candidate.samples_ms.size();
    return most;
  };
  ASSERT_EQ(samples_of_best(), 30u);
  options_.on_event = [](const dlblas_event& event) { return event.kind == DLBLAS_EVENT_FINAL; };
  const TuneReport stopped = run_tune(op);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.final_rounds, 0);
  EXPECT_EQ(samples_of_best(), 30u);
  options_.on_event = {};
  const TuneReport hit = run_get_op(op);
  EXPECT_EQ(hit.source, "store");
  EXPECT_EQ(hit.config.values[0], 4);
}

TEST_F(TunerTest, OnlyANewCandidateIsMeasuredBesideDefaultAndIncumbent) {
  const Operator& op =
      make_operator({dummy("slow", kSlow), dummy("knobbed", kKnobbed, &dummy_table())});
  run_get_op(op);
  static const Implementation late = dummy("late", kFast);
  Registry::process().add_implementation(op, late);
  const TuneReport report = run_get_op(op);
  std::set<std::string> names;
  for (const Evaluated& e : report.evaluated)
    names.insert(e.plan->implementation->name + std::string(" ") +
                 e.plan->implementation->table().print(e.plan->config));
  EXPECT_EQ(names, (std::set<std::string>{"slow default", "knobbed block=4", "late default"}));
  EXPECT_STREQ(report.winner->name, "late");
  EXPECT_STREQ(report.served->name, "late");
  EXPECT_EQ(run_get_op(op).source, "store");
}

TEST_F(TunerTest, AChangedSourceMakesOnlyThatCandidateStale) {
  // Two operators with the same key would need the same name, so the record is written by hand.
  const Operator& op =
      make_operator({dummy("slow", kSlow), dummy("knobbed", kKnobbed, &dummy_table())});
  run_get_op(op);
  const auto merged = store_->load(store_key(op, make_problem(op)));
  Record record{merged->key, *merged->rows.front().env, {}};
  for (const Merged::Row& row : merged->rows) {
    record.candidates.push_back(row.candidate);
    if (row.candidate.implementation == "knobbed") record.candidates.back().source_hash = "older";
  }
  store_->clear();
  store_->publish(record);
  const std::int64_t before = measured();
  EXPECT_EQ(run_get_op(op).source, "tuned");
  EXPECT_EQ(measured() - before, 5) << "four of knobbed, and the default again";
}

TEST_F(TunerTest, AnUpgradedLibraryMakesOnlyItsCandidateStale) {
  static const char* version = "3.1.0";
  Implementation rival = dummy("rival", kFast);
  rival.version = [] { return version; };
  const Operator& op = make_operator({dummy("slow", kSlow), rival});
  run_get_op(op);
  EXPECT_EQ(op.find("rival")->identity(), "s1-3.1.0");
  EXPECT_EQ(run_get_op(op).source, "store");
  version = "3.2.0";
  const std::int64_t before = measured();
  const TuneReport report = run_get_op(op);
  EXPECT_EQ(report.source, "tuned");
  EXPECT_STREQ(report.winner->name, "rival");
  EXPECT_EQ(measured() - before, 2) << "the rival, and the default beside it";
  EXPECT_EQ(run_get_op(op).source, "store");
}

TEST_F(TunerTest, NarrowingIsHonouredAndNothingFasterIsForgotten) {
  const Operator& op =
      make_operator({dummy("slow", kSlow), dummy("knobbed", kKnobbed, &dummy_table())});
  run_tune(op);
  options_.knobs = {{"", "block", {"1", "2"}}};
  options_.implementations = {"knobbed"};
  options_.where = [](std::string_view, std::string_view config) { return config != "block=1"; };
  const TuneReport report = run_tune(op);
  EXPECT_STREQ(report.winner->name, "knobbed");
  EXPECT_EQ(report.config.values[0], 2) << "all that the narrowing leaves";
  EXPECT_EQ(report.served_config.values[0], 4) << "the incumbent took part and stays";
}

TEST_F(TunerTest, ANarrowedHitStaysInsideTheNarrowing) {
  const Operator& op =
      make_operator({dummy("slow", kSlow), dummy("knobbed", kKnobbed, &dummy_table())});
  run_tune(op);
  const std::int64_t before = measured();
  options_.implementations = {"slow"};
  const TuneReport slow = run_get_op(op);
  EXPECT_EQ(slow.source, "store");
  EXPECT_STREQ(slow.winner->name, "slow");
  EXPECT_STREQ(slow.served->name, "knobbed");
  EXPECT_EQ(slow.served_config.values[0], 4);
  options_.implementations.clear();
  options_.knobs = {{"knobbed", "block", {"8"}}};
  options_.where = [](std::string_view name, std::string_view) { return name == "knobbed"; };
  const TuneReport eight = run_get_op(op);
  EXPECT_EQ(eight.source, "store");
  EXPECT_STREQ(eight.winner->name, "knobbed");
  EXPECT_EQ(eight.config.values[0], 8);
  EXPECT_EQ(eight.served_config.values[0], 4);
  EXPECT_EQ(measured(), before) << "all of it was known";
}

// Otherwise its samples would be the newest final inside the narrowing, and hide what is known
// there.
TEST_F(TunerTest, ANewcomerInsideANarrowingHasTheBestThereBesideIt) {
  static const Behaviour between{Defect::kNone,
                                 [](std::int64_t) -> std::int64_t { return 30'000; }};
  const Operator& op = make_operator(
      {dummy("slow", kSlow), dummy("best", kFast), dummy("knobbed", kKnobbed, &dummy_table())});
  run_get_op(op);
  static const Implementation late = dummy("late", between);
  Registry::process().add_implementation(op, late);
  options_.implementations = {"knobbed", "late"};
  const TuneReport report = run_get_op(op);
  EXPECT_STREQ(report.winner->name, "knobbed");
  EXPECT_EQ(report.config.values[0], 4);
  EXPECT_STREQ(report.served->name, "best");
  const TuneReport hit = run_get_op(op);
  EXPECT_EQ(hit.source, "store");
  EXPECT_STREQ(hit.winner->name, "knobbed");
}

// A record keeps the 32 fastest; an implementation with none among them counts as measured all the
// same.
TEST_F(TunerTest, TheBestOfEachImplementationIsKept) {
  static const Behaviour quick{Defect::kNone,
                               [](std::int64_t b) -> std::int64_t { return 10'000 + b; }};
  const Operator& op = make_operator(
      {dummy("quick", quick, &wide_table()), dummy("knobbed", kKnobbed, &dummy_table())});
  options_.where = [](std::string_view, std::string_view config) { return config != "block=1"; };
  const TuneReport report = run_get_op(op);
  ASSERT_EQ(report.evaluated.size(), 199u + 3u + 1u) << "and the default, left out by where";
  const std::int64_t before = measured();
  EXPECT_EQ(run_get_op(op).source, "store");
  EXPECT_EQ(measured(), before);
}

TEST_F(TunerTest, ANarrowingThatNothingKnownMeetsIsMeasured) {
  const Operator& op =
      make_operator({dummy("slow", kSlow), dummy("knobbed", kKnobbed, &dummy_table())});
  options_.knobs = {{"knobbed", "block", {"1", "2"}}};
  run_get_op(op);
  options_.knobs = {{"knobbed", "block", {"8"}}};
  const TuneReport report = run_get_op(op);
  EXPECT_EQ(report.source, "tuned");
  EXPECT_NE(find(report, "knobbed", 8), nullptr);
  EXPECT_STREQ(report.winner->name, "knobbed");
  EXPECT_EQ(report.config.values[0], 8);
}

}  // namespace
}  // namespace dlblas::test
