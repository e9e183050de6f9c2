// A budget holds within 10 %, whatever takes the time, measured in this process and in a worker; a
// stop keeps what was measured. All on the test's own clock. Read next: docs/tuning.md ("In a
// worker"), tests/cpp/worker_script.hpp.
#include "store/ranking.hpp"
#include "tests/cpp/worker_script.hpp"

namespace dlblas::test {
namespace {

using worker::Candidate;
using worker::Request;

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

// However the budget ends: a final of the default alone would decide for it.
TEST_F(TunerTest, TheFastestIsInEveryFinal) {
  static const Behaviour slow{Defect::kNone,
                              [](std::int64_t) -> std::int64_t { return 40'000'000; }};
  static const Behaviour fast{Defect::kNone,
                              [](std::int64_t) -> std::int64_t { return 30'000'000; }};
  static const Behaviour slower{Defect::kNone,
                                [](std::int64_t) -> std::int64_t { return 100'000'000; }};
  for (options_.seconds = 0.3; options_.seconds < 1.2; options_.seconds += 0.02) {
    const Operator& op =  // another one, of which nothing is known
        make_operator({dummy("slow", slow), dummy("slower", slower), dummy("fast", fast)});
    EXPECT_STREQ(run_tune(op).winner->name, "fast") << options_.seconds << " s";
  }
}

TEST_F(TunerTest, AStopBeforeTheFinalKeepsTheTimesOfTheRace) {
  const Operator& op = make_operator({dummy("slow", kSlow), dummy("fast", kFast)});
  options_.on_event = [](const dlblas_event& event) { return event.kind == DLBLAS_EVENT_FINAL; };
  const TuneReport report = run_tune(op);
  EXPECT_TRUE(report.stopped);
  EXPECT_EQ(report.final_rounds, 0);
  ASSERT_NE(report.winner, nullptr);
  EXPECT_EQ(find(report, "fast")->samples_ms.size(), 4u);
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

// ---- in this process ---------------------------------------------------------------------------

constexpr double kBudgets[] = {0.5, 3, 60};
std::int64_t g_budget_ns = 0;  // costs are shares of it
std::int64_t share(double of) {
  return static_cast<std::int64_t>(of * static_cast<double>(g_budget_ns));
}

/// What takes the time.
struct Phase {
  const char* name;
  double row_share;      // of the budget: a row of the oracle, eight of them
  double compile_share;  // a compilation
  Defect defect;         // of every configuration but the default
  std::int64_t (*cost)(std::int64_t block);
};
std::int64_t short_run(std::int64_t) { return share(1e-3); }
const Phase kPhases[] = {
    {"oracle", 0.05, 0, Defect::kNone, short_run},
    {"compile", 0, 0.02, Defect::kNone, short_run},
    {"check", 0, 0, Defect::kNone, [](std::int64_t) { return share(0.008); }},
    {"race", 0, 0, Defect::kNone, [](std::int64_t b) { return share(1e-3) + b; }},
    {"mixed", 0, 0, Defect::kNone, [](std::int64_t b) { return share(b % 7 ? 1e-3 : 0.01); }},
    {"final", 0, 0, Defect::kNone,  // ever slower: the final takes longer than the race said
     [](std::int64_t) { return share(1e-3) + g_now % g_budget_ns / 500; }},
    {"failures", 0, 4e-3, Defect::kCode, short_run},
};
class HereBudget : public TunerTest,
                   public ::testing::WithParamInterface<std::tuple<double, Phase>> {};
TEST_P(HereBudget, HoldsWithinTenPercent) {
  const auto& [seconds, phase] = GetParam();
  g_budget_ns = static_cast<std::int64_t>(1e9 * seconds);
  static auto* const kept = new std::vector<std::unique_ptr<Behaviour>>;
  for (const Defect defect : {Defect::kNone, phase.defect}) {
    kept->push_back(std::make_unique<Behaviour>(Behaviour{defect, phase.cost}));
    kept->back()->compile_ns = share(phase.compile_share);
  }
  const Operator& op = make_operator(
      {dummy("good", *(*kept)[kept->size() - 2]), dummy("wide", *kept->back(), &wide_table())});
  g_row_ns = share(phase.row_share);
  options_.seconds = seconds;
  options_.measure_in = MeasureIn::kProcess;
  const TuneReport report = run_tune(op);
  g_row_ns = 0;
  EXPECT_LE(report.elapsed_s, 1.1 * seconds);
  EXPECT_LT(report.evaluated.size(), 201u) << "it is the budget that ended it";
  ASSERT_NE(report.winner, nullptr);
}
INSTANTIATE_TEST_SUITE_P(Phases, HereBudget,
                         ::testing::Combine(::testing::ValuesIn(kBudgets),
                                            ::testing::ValuesIn(kPhases)),
                         [](const auto& i) {
                           return text(std::get<1>(i.param).name,
                                       static_cast<int>(10 * std::get<0>(i.param)));
                         });

// Nothing can interrupt it in this process: its time comes on top, and no further candidate starts.
TEST_F(TunerTest, ACandidateSlowerThanTheBudgetIsTheLastOneHere) {
  static const Behaviour slow{Defect::kNone,
                              [](std::int64_t) -> std::int64_t { return 8'000'000'000; }};
  const Operator& op = make_operator(
      {dummy("good", kSlow), dummy("slow", slow), dummy("wide", kSlow, &wide_table())});
  options_.seconds = 3;
  const TuneReport report = run_tune(op);
  EXPECT_LE(report.elapsed_s, 1.1 * 3 + 2 * 8) << "its check: two runs";
  EXPECT_EQ(report.evaluated.size(), 3u) << "the defaults";
  EXPECT_STREQ(report.winner->name, "good");
}

// ---- in a worker -------------------------------------------------------------------------------

/// A script for a worker and its candidates: all but "good" may misbehave.
struct Trouble {
  const char* name;
  void (*set)(Stage& stage, double budget_s);
  Act (*act)(Request what, int config, double budget_s);  // of "wide"; config: 1 … 200
};
Act quick(Request what, double budget_s) { return right(what, 0.05 * budget_s, 5e-3 * budget_s); }
Act plain(Request what, int, double budget_s) { return quick(what, budget_s); }
Act hang_at(Request where, Request what, int config, double budget_s) {
  return what == where && config % 2 == 0 ? hangs() : quick(what, budget_s);
}
void nothing(Stage&, double) {}
int g_samples = 0;
std::int64_t g_began = 0;

const Trouble kTroubles[] = {
    {"slow_start", [](Stage& s, double b) { s.start_s = 0.4 * b; }, plain},
    {"slow_opening", [](Stage& s, double b) { s.open_s = 0.4 * b; }, plain},
    {"slow_compile", nothing,
     [](Request what, int config, double b) {
       Act act = quick(what, b);
       if (what == Request::kPrepare && config % 2 == 0) act.seconds = 0.04 * b;
       return act;
     }},
    {"compile_hangs", nothing,
     [](Request what, int c, double b) { return hang_at(Request::kPrepare, what, c, b); }},
    {"batch_hangs",
     [](Stage& s, double) {
       s.at_once = 8;
       s.ahead_s = 1e9;
     },
     plain},
    {"check_hangs", nothing,
     [](Request what, int c, double b) { return hang_at(Request::kCheck, what, c, b); }},
    {"race_hangs", nothing,
     [](Request what, int c, double b) { return hang_at(Request::kSample, what, c, b); }},
    {"final_hangs", nothing,  // and the next one
     [](Request what, int, double b) {
       return what == Request::kSample && ++g_samples > 60 ? hangs() : quick(what, b);
     }},
    {"final_is_slower", nothing,
     [](Request what, int, double b) {
       Act act = quick(what, b);
       if (what == Request::kSample) act.seconds *= ++g_samples > 60 ? 20 : 1;
       return act;
     }},
    {"crashes_and_slow_restarts", [](Stage& s, double b) { s.start_s = 0.15 * b; },
     [](Request what, int c, double b) {
       return what == Request::kCheck && c % 3 == 0 ? dies() : quick(what, b);
     }},
    {"a_late_crash_gets_no_other_chance", [](Stage& s, double b) { s.start_s = 0.2 * b; },
     [](Request what, int, double b) {
       const bool late = static_cast<double>(g_now - g_began) * 1e-9 > 0.9 * b;
       return late && what == Request::kCheck ? dies() : quick(what, b);
     }},
    {"quick_failures", nothing,
     [](Request what, int, double b) {
       Act act = quick(what, b);
       if (what == Request::kCheck) act.outcome.check = {Failure::kWrongResult, "wrong"};
       return act;
     }},
    {"one_is_slower_than_the_budget", nothing,
     [](Request what, int c, double b) {
       Act act = quick(what, b);
       if (what == Request::kCheck && c == 200) act.seconds = 3 * b;
       return act;
     }},
    {"whole_comparison_hangs", [](Stage& s, double b) { s.whole_ms = 50 * b; },
     [](Request what, int, double b) {
       return what == Request::kWhole ? hangs() : quick(what, b);
     }},
    {"whole_comparisons_fail", [](Stage& s, double b) { s.whole_ms = 50 * b; },
     [](Request what, int, double b) {
       Act act = quick(what, b);
       if (what != Request::kWhole) return act;
       act.seconds = 0.05 * b;
       act.outcome.check.failure = Failure::kWrongResult;
       return act;
     }},
    {"conditions_hang", [](Stage& s, double) { s.conditions_s = 1e9; }, plain},
};
class WorkerBudget : public ScriptedWorker,
                     public ::testing::WithParamInterface<std::tuple<double, Trouble>> {};
TEST_P(WorkerBudget, HoldsWithinTenPercent) {
  const auto& [budget_s, trouble] = GetParam();
  const double seconds = budget_s;
  const auto act = trouble.act;
  const Operator& op =
      make_operator({dummy("good", kPlain), user(dummy("wide", kPlain, &wide_table()))});
  g_samples = 0;
  g_began = g_now;
  stage_.start_s = 0.01 * seconds;
  trouble.set(stage_, seconds);
  stage_.script = [=](Request what, const Candidate& c) {
    if (c.implementation == "good") return right(what, 0.1 * seconds, 5e-3 * seconds);
    return act(what, std::atoi(c.config.c_str() + std::strlen("block=")), seconds);
  };
  options_.seconds = seconds;
  options_.measure_in = MeasureIn::kWorker;
  const TuneReport report = run(op);
  EXPECT_LE(report.elapsed_s, 1.1 * seconds);
  EXPECT_LT(report.evaluated.size(), 201u) << "it is the budget that ended it";
  EXPECT_EQ(report.place, "worker");
  ASSERT_NE(report.winner, nullptr);
}
INSTANTIATE_TEST_SUITE_P(Troubles, WorkerBudget,
                         ::testing::Combine(::testing::ValuesIn(kBudgets),
                                            ::testing::ValuesIn(kTroubles)),
                         [](const auto& i) {
                           return text(std::get<1>(i.param).name,
                                       static_cast<int>(10 * std::get<0>(i.param)));
                         });

// Hanging implementations are defaults, so each is tried. Their first calls together have half a
// minute outside the budget; after that they share what is left, and the budget holds.
constexpr double kFirstCalls = 30;
class HangingBudget : public ScriptedWorker, public ::testing::WithParamInterface<double> {};
TEST_P(HangingBudget, HoldsWithinTenPercent) {
  std::vector<Implementation> all{dummy("good", kPlain)};
  static const char* const kNames[] = {"hang0", "hang1", "hang2", "hang3"};
  for (const char* name : kNames) all.push_back(user(dummy(name, kPlain)));
  all.push_back(dummy("wide", kPlain, &wide_table()));
  const Operator& op = make_operator(all);
  stage_.script = [](Request what, const Candidate& c) {
    const bool hang = c.implementation.compare(0, 4, "hang") == 0;
    return hang && what == Request::kCheck ? hangs() : right(what, 5);
  };
  options_.seconds = GetParam();
  const TuneReport report = run(op);
  EXPECT_STREQ(report.winner->name, "good");
  EXPECT_LE(report.elapsed_s, 1.1 * GetParam() + kFirstCalls);
  for (const char* name : kNames) EXPECT_EQ(find(report, name)->failure, Failure::kTimeout) << name;
  EXPECT_LE(stage_.starts, 5) << "a fresh worker after each that had to be killed, and no more";
}
INSTANTIATE_TEST_SUITE_P(Seconds, HangingBudget, ::testing::Values(3.0, 10.0, 60.0));

TEST_F(ScriptedWorker, OnceHangingOnesHaveUsedTheBudgetUpTheOthersWaitForTheNextRun) {
  std::vector<Implementation> all{dummy("good", kPlain)};
  static std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back(text("hang", i));
  for (const std::string& name : names) all.push_back(user(dummy(name.c_str(), kPlain)));
  const Operator& op = make_operator(all);
  stage_.script = [](Request what, const Candidate& c) {
    return c.implementation != "good" && what == Request::kCheck ? hangs() : right(what, 5);
  };
  options_.seconds = 3;
  const TuneReport report = run(op);
  EXPECT_STREQ(report.winner->name, "good");
  EXPECT_LE(report.elapsed_s, 1.1 * 3 + kFirstCalls);
  EXPECT_GE(report.evaluated.size(), 5u);
  EXPECT_LT(report.evaluated.size(), 21u) << "what was not tried has not failed";
}

}  // namespace
}  // namespace dlblas::test
