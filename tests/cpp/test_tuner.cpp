// The tuner as a whole, on a dummy operator and a fake clock: who may win, what is measured again,
// what a budget means, what a stop keeps. Read next: tests/cpp/tuner_dummy.hpp.
#include <set>

#include "store/ranking.hpp"
#include "tests/cpp/tuner_dummy.hpp"

namespace dlblas::test {
namespace {

const Behaviour kSlow{Defect::kNone, [](std::int64_t) -> std::int64_t { return 200'000; }};
const Behaviour kKnobbed{Defect::kNone,
                         [](std::int64_t b) -> std::int64_t { return b == 4 ? 25'000 : 50'000; }};
const Behaviour kFast{Defect::kNone, [](std::int64_t) -> std::int64_t { return 10'000; }};

TEST_F(TunerTest, TheFastestRightOneWinsAndIsServed) {
  const Operator& op =
      make_operator({dummy("slow", kSlow), dummy("knobbed", kKnobbed, &dummy_table())});
  const TuneReport report = run_tune(op);
  EXPECT_STREQ(report.winner->name, "knobbed");
  EXPECT_EQ(report.config.values[0], 4);
  EXPECT_EQ(report.served, report.winner);
  EXPECT_TRUE(report.served_config == report.config);
  EXPECT_EQ(report.evaluated.size(), 5u);
  EXPECT_EQ(report.final_rounds, 30);
  EXPECT_EQ(find(report, "knobbed", 4)->samples_ms.size(), 30u);
  EXPECT_NEAR(score_ms(find(report, "knobbed", 4)->samples_ms), 0.025, 1e-9);
}

struct Broken {
  Defect defect;
  Failure failure;
};
class BrokenCandidate : public TunerTest, public ::testing::WithParamInterface<Broken> {};
TEST_P(BrokenCandidate, NeverWinsHoweverFast) {
  static std::vector<Behaviour>* kept = new std::vector<Behaviour>(16);
  Behaviour& broken = (*kept)[static_cast<std::size_t>(GetParam().defect)];
  broken = {GetParam().defect, [](std::int64_t) -> std::int64_t { return 1'000; }};
  const Operator& op = make_operator({dummy("broken", broken), dummy("slow", kSlow)});
  const TuneReport report = run_tune(op);
  EXPECT_STREQ(report.winner->name, "slow");
  EXPECT_EQ(find(report, "broken")->failure, GetParam().failure) << find(report, "broken")->note;
  EXPECT_TRUE(find(report, "broken")->samples_ms.empty());
  EXPECT_STREQ(report.served->name, "slow");
  // Its failure is remembered: the next get_op measures nothing.
  const std::int64_t before = measured();
  EXPECT_EQ(run_get_op(op).source, "store");
  EXPECT_EQ(measured(), before);
}
INSTANTIATE_TEST_SUITE_P(Kinds, BrokenCandidate,
                         ::testing::Values(Broken{Defect::kWrong, Failure::kWrongResult},
                                           Broken{Defect::kNan, Failure::kWrongResult},
                                           Broken{Defect::kSecondRun, Failure::kWrongResult},
                                           Broken{Defect::kTail, Failure::kUnwritten},
                                           Broken{Defect::kPastEnd, Failure::kOutOfBounds},
                                           Broken{Defect::kCode, Failure::kLaunchError},
                                           Broken{Defect::kThrow, Failure::kLaunchError},
                                           Broken{Defect::kPrepare, Failure::kCompileError}),
                         [](const auto& instance) {
                           return "defect" +
                                  std::to_string(static_cast<int>(instance.param.defect));
                         });

struct Late {
  Defect defect;
  Failure failure;
};
class LateFailure : public TunerTest, public ::testing::WithParamInterface<Late> {
 protected:
  void expect_dropped(const TuneReport& report, const Operator& op, const Problem& problem) {
    ASSERT_NE(report.winner, nullptr);
    EXPECT_STREQ(report.winner->name, "slow");
    EXPECT_EQ(find(report, "late")->failure, GetParam().failure) << find(report, "late")->note;
    EXPECT_TRUE(find(report, "late")->samples_ms.empty());
    EXPECT_FALSE(find(report, "slow")->samples_ms.empty());
    const std::int64_t before = measured();
    EXPECT_EQ(get_op(op, problem, nullptr, context_, options_).source, "store");
    EXPECT_EQ(measured(), before) << "both what was measured and who failed are recorded";
  }
};
// Twice checked, and sampled 4 times in batches of 2: its 15th run is the final's.
TEST_P(LateFailure, InTheFinalCostsNothingButTheCandidate) {
  static std::vector<Behaviour>* kept = new std::vector<Behaviour>(16);
  Behaviour& late = (*kept)[static_cast<std::size_t>(GetParam().defect)];
  late = {GetParam().defect, [](std::int64_t) -> std::int64_t { return 10'000; }, 15};
  const Operator& op = make_operator({dummy("slow", kSlow), dummy("late", late)});
  int told = 0;
  options_.on_event = [&](const dlblas_event& event) {
    told += event.kind == DLBLAS_EVENT_FAILED;
    return false;
  };
  const TuneReport report = run_tune(op);
  EXPECT_EQ(report.final_rounds, 30);
  EXPECT_EQ(late.runs, 15) << "it was not tried again";
  EXPECT_EQ(told, 1);
  expect_dropped(report, op, make_problem(op));
}
class LateInTheEnd : public LateFailure {};
// So many elements that `check` compares chosen rows, and runs so long that there is no final: the
// fourth run of the fastest is the one that all of it is compared of.
TEST_P(LateInTheEnd, MakesTheNextOneWin) {
  static std::vector<Behaviour>* kept = new std::vector<Behaviour>(16);
  Behaviour& late = (*kept)[static_cast<std::size_t>(GetParam().defect)];
  late = {GetParam().defect, [](std::int64_t) -> std::int64_t { return 500'000'000; }, 4};
  static const Behaviour slow{Defect::kNone,
                              [](std::int64_t) -> std::int64_t { return 2'000'000'000; }};
  const Operator& op = make_operator({dummy("slow", slow), dummy("late", late)});
  const Problem problem = make_problem(op, 300'000);
  const TuneReport report = tune(op, problem, nullptr, context_, options_);
  EXPECT_EQ(report.final_rounds, 0);
  EXPECT_EQ(late.runs, 4);
  expect_dropped(report, op, problem);
}
constexpr auto kLateName = [](const auto& instance) {
  return "defect" + std::to_string(static_cast<int>(instance.param.defect));
};
INSTANTIATE_TEST_SUITE_P(Kinds, LateFailure,
                         ::testing::Values(Late{Defect::kCode, Failure::kLaunchError},
                                           Late{Defect::kThrow, Failure::kLaunchError}),
                         kLateName);
INSTANTIATE_TEST_SUITE_P(Kinds, LateInTheEnd,
                         ::testing::Values(Late{Defect::kCode, Failure::kLaunchError},
                                           Late{Defect::kThrow, Failure::kLaunchError},
                                           Late{Defect::kWrong, Failure::kWrongResult}),
                         kLateName);

TEST_F(TunerTest, AStopBeforeTheFinalKeepsTheTimesOfTheRace) {
  const Operator& op = make_operator({dummy("slow", kSlow), dummy("fast", kFast)});
  options_.on_event = [](const dlblas_event& event) { return event.kind == DLBLAS_EVENT_FINAL; };
  const TuneReport report = run_tune(op);
  EXPECT_TRUE(report.stopped);
  EXPECT_EQ(report.final_rounds, 0);
  ASSERT_NE(report.winner, nullptr);
  EXPECT_EQ(find(report, "fast")->samples_ms.size(), 4u);
}

TEST_F(TunerTest, AllBrokenIsATypedErrorThatNamesTheFailure) {
  static const Behaviour wrong{Defect::kWrong};
  const Operator& op = make_operator({dummy("wrong", wrong)});
  try {
    run_tune(op);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kTuning);
    EXPECT_NE(std::string(e.what()).find("wrong_result"), std::string::npos) << e.what();
  }
}

TEST_F(TunerTest, TiesGoToTheDefaultThenToTheLowerId) {
  const Behaviour* same = &kSlow;
  const Operator& op = make_operator({dummy("first", *same), dummy("second", *same)});
  EXPECT_STREQ(run_tune(op).winner->name, "first");
  static const Behaviour barely{Defect::kNone,
                                [](std::int64_t) -> std::int64_t { return 198'500; }};
  const Operator& close = make_operator({dummy("first", *same), dummy("barely", barely)});
  EXPECT_STREQ(run_tune(close).winner->name, "first") << "0.75 % is not faster";
  const Operator& three =
      make_operator({dummy("first", *same), dummy("a", kFast), dummy("b", kFast)});
  EXPECT_STREQ(run_tune(three).winner->name, "a");
}

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
  // Two operators with the same key would need the same name; the record is written by hand
  // instead.
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

TEST_F(TunerTest, ASeedReproducesTheRun) {
  const Operator& op = make_operator({dummy("wide", kKnobbed, &wide_table())});
  options_.max_evaluations = 20;
  const auto tried = [&](std::uint64_t seed) {
    options_.seed = seed;
    store_->clear();
    std::vector<std::int64_t> blocks;
    for (const Evaluated& e : run_tune(op).evaluated) blocks.push_back(e.plan->config.values[0]);
    return blocks;
  };
  const auto first = tried(1);
  EXPECT_EQ(first.size(), 20u);
  EXPECT_EQ(first, tried(1));
  EXPECT_NE(first, tried(2));
}

class Budget : public TunerTest, public ::testing::WithParamInterface<double> {};
TEST_P(Budget, HoldsWithinTenPercentAndIsUsed) {
  static const Behaviour heavy{
      Defect::kNone, [](std::int64_t b) -> std::int64_t { return 10'000'000 + 100'000 * b; }};
  const Operator& op = make_operator({dummy("heavy", heavy, &wide_table())});
  options_.seconds = GetParam();
  const TuneReport report = run_tune(op);
  EXPECT_LE(report.elapsed_s, 1.1 * GetParam());
  EXPECT_GE(report.elapsed_s, 0.7 * GetParam());
  EXPECT_LT(report.evaluated.size(), 200u);
  EXPECT_GE(report.final_rounds, kFinalSamples);
  EXPECT_LE(report.config.values[0], 10) << "close to the fastest of what was drawn";
}
INSTANTIATE_TEST_SUITE_P(Seconds, Budget, ::testing::Values(2.0, 5.0, 8.0));

TEST_F(TunerTest, EveryDefaultIsMeasuredHoweverSmallTheBudget) {
  const Operator& op =
      make_operator({dummy("slow", kSlow), dummy("knobbed", kKnobbed, &dummy_table())});
  options_.seconds = 1e-6;
  const TuneReport report = run_tune(op);
  EXPECT_EQ(report.evaluated.size(), 2u);
  EXPECT_STREQ(report.winner->name, "knobbed");
}

TEST_F(TunerTest, AStopKeepsAndPublishesWhatWasMeasured) {
  const Operator& op =
      make_operator({dummy("slow", kSlow), dummy("knobbed", kKnobbed, &dummy_table())});
  options_.on_event = [](const dlblas_event& event) {
    return event.kind == DLBLAS_EVENT_MEASURED && event.done == 2;
  };
  const TuneReport report = run_tune(op);
  EXPECT_TRUE(report.stopped);
  EXPECT_EQ(report.evaluated.size(), 2u);
  EXPECT_STREQ(report.served->name, "knobbed");
  EXPECT_EQ(store_->load(store_key(op, make_problem(op)))->rows.size(), 2u);
}

TEST_F(TunerTest, EventsTellTheWholeStory) {
  const Operator& op =
      make_operator({dummy("slow", kSlow), dummy("knobbed", kKnobbed, &dummy_table())});
  std::vector<int> kinds;
  std::string best;
  options_.on_event = [&](const dlblas_event& event) {
    kinds.push_back(event.kind);
    best = event.best;
    EXPECT_EQ(event.planned, 5);
    return false;
  };
  run_tune(op);
  EXPECT_EQ(kinds, (std::vector<int>{0, 1, 1, 1, 1, 1, 3, 4}));
  EXPECT_EQ(best, "knobbed block=4");
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

TEST_F(TunerTest, OptionsOfTheAbiAreCheckedInWords) {
  const auto words_of = [](dlblas_tune_options o) {
    try {
      options_from(&o);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kArgument);
      return std::string(e.what());
    }
    return std::string();
  };
  dlblas_tune_options o{};
  o.size = sizeof o;
  EXPECT_EQ(words_of(o), "");
  o.implementations = " , ";
  EXPECT_EQ(words_of(o),
            "tune: implementations names none; expected at least one implementation, or no list "
            "for all of them, got an empty list");
  o.implementations = "a, b";
  EXPECT_EQ(words_of(o), "");
  EXPECT_EQ(options_from(&o).implementations, (std::vector<std::string>{"a", "b"}));
  o.size = 8;
  EXPECT_EQ(words_of(o), text("tune: options has a wrong size; expected size = ", sizeof o,
                              ", this ABI's sizeof(dlblas_tune_options), got 8"));
}

TEST_F(TunerTest, WhatDoesNotFitInMemoryIsATypedErrorThatSaysHowMuch) {
  const Operator& op = make_operator({dummy("slow", kSlow)});
  const std::int64_t most = std::int64_t{1} << 40;
  // Results may be larger than any tensor that a caller could hold: products overflow integers.
  for (const auto& [rows, width] : {std::pair{most, std::int64_t{1}}, {most, most}}) {
    try {
      tune(op, make_problem(op, rows, width), nullptr, context_, options_);
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kTuning);
      EXPECT_EQ(e.detail().expected, width == 1 ? "room for tensors of 8192 GiB and copies of them"
                                                : "room for tensors of 9.007e+15 GiB and copies "
                                                  "of them");
      EXPECT_NE(std::string(e.what()).find("; tune a smaller size"), std::string::npos);
    }
  }
}

TEST_F(TunerTest, TypingErrorsAreArgumentErrors) {
  const Operator& op = make_operator({dummy("knobbed", kKnobbed, &dummy_table())});
  const auto kind_of = [&](const std::function<void(TuneOptions&)>& change) {
    TuneOptions saved = options_;
    change(options_);
    ErrorKind kind = ErrorKind::kInternal;
    try {
      run_tune(op);
    } catch (const Error& e) {
      kind = e.kind();
    }
    options_ = saved;
    return kind;
  };
  EXPECT_EQ(kind_of([](TuneOptions& o) { o.implementations = {"knobed"}; }), ErrorKind::kArgument);
  EXPECT_EQ(kind_of([](TuneOptions& o) { o.knobs = {{"", "blok", {"1"}}}; }), ErrorKind::kArgument);
  EXPECT_EQ(kind_of([](TuneOptions& o) {
              o.knobs = {{"", "block", {"3"}}};
            }),
            ErrorKind::kArgument);
  EXPECT_EQ(kind_of([](TuneOptions& o) { o.strategy = "psychic"; }), ErrorKind::kArgument);
  EXPECT_EQ(kind_of([](TuneOptions& o) {
              o.where = [](std::string_view, std::string_view) { return false; };
            }),
            ErrorKind::kArgument);
}

TEST_F(TunerTest, TheReferenceCompetesOnlyAlone) {
  const Operator& op = make_operator({dummy("slow", kSlow)});
  const TuneReport beside = run_tune(op);
  EXPECT_EQ(find(beside, "reference"), nullptr);
  EXPECT_NE(beside.candidates.back().refused, "");
  const Operator& alone = make_operator({});
  EXPECT_STREQ(run_tune(alone).winner->name, "reference");
  EXPECT_EQ(run_get_op(alone).source, "store");
}

TEST_F(TunerTest, OperatorCallsAreNotCountedAndNothingIsLaunched) {
  const Operator& op = make_operator({dummy("slow", kSlow)});
  const std::int64_t launched = g_counters.launched.load();
  run_tune(op);
  EXPECT_EQ(g_counters.launched.load(), launched);
}

TEST_F(TunerTest, EmptyResultsNeedNoMeasuring) {
  const Operator& op = make_operator({dummy("slow", kSlow)});
  const std::int64_t before = measured();
  EXPECT_EQ(get_op(op, make_problem(op, 0, 16), nullptr, context_, options_).source, "empty");
  EXPECT_EQ(measured(), before);
}

TEST_F(TunerTest, TheReportIsCompleteJson) {
  const Operator& op =
      make_operator({dummy("slow", kSlow), dummy("knobbed", kKnobbed, &dummy_table())});
  const std::string json = print_json(run_tune(op));
  for (const char* part : {"\"source\":\"tuned\"",
                           "\"winner\":{\"implementation\":\"knobbed\",\"config\":\"block=4\"}",
                           "\"reason\":\"is the oracle", "\"samples_ms\":[", "\"budget_s\":10"})
    EXPECT_NE(json.find(part), std::string::npos) << part << " in " << json;
}

}  // namespace
}  // namespace dlblas::test
