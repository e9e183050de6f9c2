// The tuner as a whole, on a dummy operator and a fake clock: which candidates may win. Read next:
// tests/cpp/tuner_dummy.hpp; test_tuner_known.cpp (what is measured again), test_tuner_budget.cpp
// (how long it takes), test_tuner_drift.cpp (clocks that fall).
#include "store/ranking.hpp"
#include "tests/cpp/tuner_dummy.hpp"

namespace dlblas::test {
namespace {

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
  // Its failure is recorded: the next get_op measures nothing.
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
    EXPECT_EQ(measured(), before) << "both what was measured and what failed are recorded";
  }
};
// Checked twice and sampled 4 times in batches of 2, so its 15th run is in the final.
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
// So many elements that `check` compares only selected rows, and runs so long that there is no
// final: the fastest candidate's fourth run is the one whose elements are all compared.
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

// Found by the comparison with the oracle alone: it is too slow to win, and so to be checked again.
TEST_F(TunerTest, WhoIsWrongAndSlowIsAFailureAsWell) {
  static const Behaviour wrong{Defect::kWrong,
                               [](std::int64_t) -> std::int64_t { return 900'000; }};
  const Operator& op = make_operator({dummy("plain", kPlain), dummy("wrong", wrong)});
  const TuneReport report = run_tune(op);
  EXPECT_STREQ(report.winner->name, "plain");
  EXPECT_EQ(find(report, "wrong")->failure, Failure::kWrongResult);
  EXPECT_EQ(find(report, "wrong")->note,
            "1 of 128 elements are wrong, the first at 127 of result y");
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

// A changed input would be read by every other candidate and the oracle: all would be wrong.
TEST_F(TunerTest, AUsersCandidateThatWritesAnInputFailsAlone) {
  static const Behaviour spoils{Defect::kWritesInput,
                                [](std::int64_t) -> std::int64_t { return 1'000; }};
  static const Behaviour throws{Defect::kThrow};
  const Operator& op = make_operator({user(dummy("spoils", spoils)), user(dummy("throws", throws)),
                                      dummy("slow", kSlow), user(dummy("fast", kFast))});
  const TuneReport report = run_tune(op);
  EXPECT_STREQ(report.winner->name, "fast");
  EXPECT_EQ(find(report, "spoils")->failure, Failure::kOutOfBounds);
  EXPECT_EQ(find(report, "spoils")->note, "the input x was written");
  EXPECT_EQ(find(report, "slow")->failure, Failure::kNone);
}

TEST_F(TunerTest, AUsersCandidateThatWritesAnInputLaterDoesNotWin) {
  static const Behaviour spoils{Defect::kWritesInput,
                                [](std::int64_t) -> std::int64_t { return 1'000; }, 15};
  const Operator& op = make_operator({dummy("slow", kSlow), user(dummy("spoils", spoils))});
  const TuneReport report = run_tune(op);
  EXPECT_STREQ(report.winner->name, "slow");
  EXPECT_EQ(find(report, "spoils")->failure, Failure::kOutOfBounds);
  EXPECT_EQ(find(report, "slow")->failure, Failure::kNone);
}

// A packed copy, a descriptor or a graph kept by address: right only for the data it saw first.
TEST_F(TunerTest, AUsersCandidateThatRemembersByAddressFailsInWords) {
  static const Behaviour packs{Defect::kRemembers,
                               [](std::int64_t) -> std::int64_t { return 1'000; }};
  const Operator& op = make_operator(
      {user(dummy("packs_once", packs)), dummy("slow", kSlow), user(dummy("fast", kFast))});
  const TuneReport report = run_tune(op);
  EXPECT_STREQ(report.winner->name, "fast");
  EXPECT_EQ(find(report, "packs_once")->failure, Failure::kWrongResult);
  EXPECT_EQ(find(report, "packs_once")->note,
            "gave the first call's result for other values at the same addresses");
  EXPECT_EQ(find(report, "fast")->failure, Failure::kNone) << find(report, "fast")->note;
  EXPECT_EQ(find(report, "slow")->failure, Failure::kNone) << find(report, "slow")->note;
}

// The padding of groups need not be written, and its content is not compared; everything else is.
TEST_F(TunerTest, UndefinedElementsAreSkipped) {
  static const Behaviour skips{Defect::kSkipsUndefined,
                               [](std::int64_t) -> std::int64_t { return 1'000; }};
  static const Behaviour tail{Defect::kTail, [](std::int64_t) -> std::int64_t { return 900; }};
  const Operator& op =
      make_operator({dummy("skips", skips), dummy("slow", kSlow), dummy("tail", tail)});
  g_undefined_from = 5;
  const TuneReport padded = tune(op, make_problem(op, 8), nullptr, context_, options_);
  EXPECT_STREQ(padded.winner->name, "tail") << "its last row is undefined, too";
  EXPECT_EQ(find(padded, "skips")->failure, Failure::kNone) << find(padded, "skips")->note;
  options_.force = true;
  g_undefined_from = 8;
  const TuneReport whole = tune(op, make_problem(op, 8), nullptr, context_, options_);
  g_undefined_from = std::numeric_limits<std::int64_t>::max();
  EXPECT_STREQ(whole.winner->name, "skips");
  EXPECT_EQ(find(whole, "tail")->note, "1 elements of result 0 were not written, the first at 127");
}

// The winner is checked again before it is served, whether all elements or only selected rows are
// compared.
TEST_F(TunerTest, ABuiltInWinnerThatRemembersByAddressIsDropped) {
  static const Behaviour packs{Defect::kRemembers,
                               [](std::int64_t) -> std::int64_t { return 500'000'000; }};
  static const Behaviour slow{Defect::kNone,
                              [](std::int64_t) -> std::int64_t { return 2'000'000'000; }};
  for (const std::int64_t rows : {8, 300'000}) {
    const Operator& op = make_operator({dummy("packs_once", packs), dummy("slow", slow)});
    const TuneReport report = tune(op, make_problem(op, rows), nullptr, context_, options_);
    EXPECT_STREQ(report.winner->name, "slow");
    EXPECT_EQ(find(report, "packs_once")->note,
              "gave the first call's result for other values at the same addresses");
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

// A record lists the fastest first, the race follows its space's order: a tie has the same winner
// in both.
TEST_F(TunerTest, ATieIsServedAsTheRaceDecidedIt) {
  static const Behaviour tied{Defect::kNone, [](std::int64_t b) -> std::int64_t {
                                return b == 4 ? 10'000 : b == 2 ? 10'050 : 50'000;
                              }};
  static const ConfigTable<DummyConfig> falling{field<&DummyConfig::block>("block", {8, 4, 2, 1})};
  for (const auto& [table, first] : {std::pair{&dummy_table(), 2}, {&falling, 4}}) {
    const TuneReport report = run_tune(make_operator({dummy("knobbed", tied, table)}));
    EXPECT_EQ(report.config.values[0], first);
    EXPECT_EQ(report.served_config.values[0], first);
  }
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
  const auto words_of = [&](std::string_view implementation, std::string_view knob) {
    options_.knobs = {{std::string(implementation), std::string(knob), {"1"}}};
    std::string words;
    try {
      run_tune(op);
    } catch (const Error& e) {
      words = e.what();
    }
    options_.knobs.clear();
    return words;
  };
  EXPECT_NE(words_of("knobbed", "blok").find("unknown knob; expected one of block, got blok"),
            std::string::npos)
      << words_of("knobbed", "blok");
  EXPECT_NE(words_of("knobed", "block").find("expected one of knobbed, reference, got knobed"),
            std::string::npos)
      << words_of("knobed", "block");
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
