// A device whose clock changes during measurements, as a GPU's does under its power limit: a
// candidate must neither win nor lose because it was measured early. Read next: docs/tuning.md
// ("How time is measured"), src/tuner/race.cpp.
#include <cmath>

#include "store/ranking.hpp"
#include "tests/cpp/worker_script.hpp"

namespace dlblas::test {
namespace {

/// From `g_turn` on, every run takes `g_pace` times its previous time.
std::int64_t g_turn = 0;
double g_pace = 1;
std::int64_t paced(double nanoseconds) {
  return static_cast<std::int64_t>(nanoseconds * (g_now < g_turn ? 1 : g_pace));
}

class Drift : public TunerTest {
 protected:
  // Changes the pace after this many fake seconds of load.
  void turn(double after_s, double pace) {
    g_turn = g_now + static_cast<std::int64_t>(1e9 * after_s);
    g_pace = pace;
    options_.strategy = "exhaustive";  // in the order of their ids
    options_.seconds = 60;
  }
};

// Blocks 1 … 200; a search takes about 2 s.
const Behaviour kBest150{Defect::kNone, [](std::int64_t block) -> std::int64_t {
                           return paced(block == 150 ? 880'000 : 1'000'000 - block);
                         }};
const Behaviour kBestIsTheDefault{Defect::kNone, [](std::int64_t block) -> std::int64_t {
                                    return paced(block == 1 ? 800'000 : 1'000'000 + block);
                                  }};
const Behaviour kAllTheSame{Defect::kNone,
                            [](std::int64_t) -> std::int64_t { return paced(1'000'000); }};
// Equal except for noise that only adds time, as load does: exponential, a tenth of the time.
double noisy_tenth() {
  static std::uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return -0.1 * std::log((static_cast<double>(state >> 40) + 1) / 16777217.0);
}
const Behaviour kNoisy{Defect::kNone, [](std::int64_t) -> std::int64_t {
                         return static_cast<std::int64_t>(500'000 * (1 + noisy_tenth()));
                       }};
const Behaviour kFirst{Defect::kNone, [](std::int64_t) -> std::int64_t { return paced(900'000); }};

TEST_F(Drift, AClockThatFallsUnderLoadDoesNotHideTheBestThatIsMeasuredLate) {
  const Operator& op =
      make_operator({dummy("first", kFirst), dummy("wide", kBest150, &wide_table())});
  turn(0.5, 1.25);
  const TuneReport report = run_tune(op);
  EXPECT_STREQ(report.winner->name, "wide");
  EXPECT_EQ(report.config.values[0], 150);
  EXPECT_EQ(report.final_rounds, 30);
}

TEST_F(Drift, AClockThatRisesFromIdleDoesNotHideTheDefaultOfANarrowedSearch) {
  const Operator& op =
      make_operator({dummy("first", kFirst), dummy("wide", kBestIsTheDefault, &wide_table())});
  turn(0.012, 0.7);  // the default of "wide" has been measured, and little else
  options_.implementations = {"wide"};
  const TuneReport report = run_tune(op);
  EXPECT_STREQ(report.winner->name, "wide");
  EXPECT_EQ(report.config.values[0], 1);
  EXPECT_EQ(find(report, "wide", 1)->samples_ms.size(), 30u) << "it was in the final";
  EXPECT_NE(report.why.find("the default, "), std::string::npos) << report.why;
}

// Otherwise the last of two hundred would win, with a time that no machine can reach.
TEST_F(Drift, NoiseIsNotTakenForAChangeOfPace) {
  const Operator& op = make_operator({dummy("wide", kNoisy, &wide_table())});
  turn(1e6, 1);
  options_.on_event = [](const dlblas_event& event) { return event.kind == DLBLAS_EVENT_FINAL; };
  const TuneReport report = run_tune(op);
  ASSERT_EQ(report.evaluated.size(), 200u);
  for (const Evaluated& e : report.evaluated) {
    EXPECT_GT(score_ms(e.samples_ms), 0.4) << e.id;
    EXPECT_LT(score_ms(e.samples_ms), 0.8) << e.id;
  }
}

// A stop, or the end of the budget, leaves only the race's times: they are compared as if measured
// at one pace.
TEST_F(Drift, WithoutAFinalTheDefaultStillWinsTies) {
  const Operator& op = make_operator({dummy("wide", kAllTheSame, &wide_table())});
  turn(0.05, 0.7);
  options_.on_event = [](const dlblas_event& event) { return event.kind == DLBLAS_EVENT_FINAL; };
  const TuneReport report = run_tune(op);
  EXPECT_EQ(report.final_rounds, 0);
  EXPECT_EQ(report.config.values[0], 1) << report.why;
  options_.on_event = {};
  EXPECT_EQ(run_get_op(op).config.values[0], 1) << "what is stored says the same";
}

TEST_F(Drift, ANarrowedSearchHasADefaultThatWinsTies) {
  static const Behaviour nearly{Defect::kNone, [](std::int64_t block) -> std::int64_t {
                                  return paced(block == 3 ? 995'000 : 1'000'000);
                                }};
  const Operator& op =
      make_operator({dummy("first", kFirst), dummy("wide", nearly, &wide_table())});
  turn(0.05, 1.25);
  options_.implementations = {"wide"};
  const TuneReport report = run_tune(op);
  EXPECT_EQ(report.config.values[0], 1) << "0.5 % is not faster";
  EXPECT_STREQ(report.served->name, "first");
  EXPECT_EQ(run_get_op(op).config.values[0], 1) << "a hit inside the narrowing says the same";
}

// Half as fast from the final on: fewer finalists reach a decision, instead of none.
TEST_F(Drift, AFinalThatIsSlowerThanTheRaceSaidHasFewerFinalists) {
  static const Behaviour heavy{Defect::kNone, [](std::int64_t block) -> std::int64_t {
                                 return paced(static_cast<double>(20'000'000 + 100'000 * block));
                               }};
  const Operator& op = make_operator({dummy("wide", heavy, &wide_table())});
  turn(1e3, 2);
  options_.seconds = 4;
  options_.on_event = [](const dlblas_event& event) {
    if (event.kind == DLBLAS_EVENT_FINAL) g_turn = g_now;
    return false;
  };
  const TuneReport report = run_tune(op);
  EXPECT_GE(report.final_rounds, kFinalSamples);
  EXPECT_LE(report.elapsed_s, 1.1 * 4);
  EXPECT_GE(find(report, "wide", 1)->samples_ms.size(), static_cast<std::size_t>(kFinalSamples));
}

// A burst of load that outlasts a candidate's samples: it is measured once more after all others.
TEST_F(Drift, ABurstOverAllOfACandidatesSamplesIsNotItsTime) {
  static const Behaviour ours{Defect::kNone,
                              [](std::int64_t block) -> std::int64_t { return 1'000'000 + block; }};
  static const Behaviour rival{Defect::kNone, [](std::int64_t) { return paced(60'000'000); }};
  const Operator& op = make_operator({dummy("wide", ours, &wide_table()), dummy("rival", rival)});
  turn(0.7, 0.01);  // 0.6 ms
  options_.seconds = 10;
  EXPECT_STREQ(run_tune(op).winner->name, "rival");
}

/// Two and a half times as slow between these times.
std::int64_t g_busy_from = 0, g_busy_until = 0;
const Behaviour kBusyMeanwhile{Defect::kNone, [](std::int64_t block) -> std::int64_t {
                                 const bool busy = g_now >= g_busy_from && g_now < g_busy_until;
                                 return (500'000 + 100 * block) * (busy ? 5 : 2) / 2;
                               }};

// A burst may begin between a candidate's samples and those of the reference beside it, which then
// say nothing about the candidate. Otherwise the candidate would be given two fifths of its time,
// and everything after it would be measured against that.
TEST_F(Drift, ABurstOverTheReferenceGivesNoTimeThatNoMachineHas) {
  options_.on_event = [](const dlblas_event& event) { return event.kind == DLBLAS_EVENT_FINAL; };
  for (const int lasts_us : {3'000, 30'000}) {
    for (int begins = 0; begins < 40; ++begins) {
      const Operator& op = make_operator({dummy("wide", kBusyMeanwhile, &wide_table())});
      turn(1e6, 1);
      g_busy_from = g_now + 100'000'000 + 150'000 * begins;
      g_busy_until = g_busy_from + 1000 * lasts_us;
      const TuneReport report = run_tune(op);
      ASSERT_EQ(report.evaluated.size(), 200u);
      for (const Evaluated& e : report.evaluated)
        ASSERT_GT(score_ms(e.samples_ms), 0.45) << e.id << " beginning " << begins;
    }
  }
}

// Only the reference's own runs are slow, as when another process has the same rhythm.
TEST_F(Drift, AReferenceThatIsThreeTimesAsSlowAsItWasGivesNoPace) {
  static const Behaviour others{Defect::kNone, [](std::int64_t block) -> std::int64_t {
                                  const bool busy = g_now >= g_busy_from && block == 1;
                                  return (busy ? 6 : 1) * (500'000 + 100 * block);
                                }};
  const Operator& op = make_operator({dummy("wide", others, &wide_table())});
  turn(1e6, 1);
  g_busy_from = g_now + 100'000'000;
  options_.on_event = [](const dlblas_event& event) { return event.kind == DLBLAS_EVENT_FINAL; };
  const TuneReport report = run_tune(op);
  ASSERT_EQ(report.evaluated.size(), 200u);
  for (const Evaluated& e : report.evaluated) {
    EXPECT_GT(score_ms(e.samples_ms), 0.45) << e.id;
    EXPECT_LT(score_ms(e.samples_ms), 0.55) << e.id;
  }
}

// Compiling the defaults uses up the budget. Still, the best of one or two samples each, on a clock
// that has meanwhile risen from idle, is compared with the default in alternating runs.
TEST_F(Drift, DefaultsThatTookTheBudgetAreComparedInTurn) {
  static Behaviour ours{Defect::kNone, [](std::int64_t) { return paced(1'000'000); }},
      rival{Defect::kNone, [](std::int64_t) { return paced(1'200'000); }};
  ours.compile_ns = rival.compile_ns = 400'000'000;
  const Operator& op = make_operator({dummy("ours", ours), dummy("rival", rival)});
  turn(0.5, 0.7);
  options_.seconds = 0.5;
  const TuneReport report = run_tune(op);
  EXPECT_STREQ(report.winner->name, "ours") << report.why;
  EXPECT_GE(report.final_rounds, kFinalSamples);
}

// The last candidate's compiler used up the budget: a final that costs next to nothing is held.
TEST_F(Drift, ALateSearchHasABriefFinal) {
  static Behaviour wide{Defect::kNone, [](std::int64_t block) -> std::int64_t {
                          return paced(static_cast<double>(200'000 + 1'000 * block));
                        }};
  wide.compile_ns = 200'000'000;
  const Operator& op = make_operator({dummy("wide", wide, &wide_table())});
  turn(1e3, 1);
  options_.seconds = 1;
  options_.on_event = [](const dlblas_event& event) {
    if (event.kind == DLBLAS_EVENT_MEASURED && event.done == 2) wide.compile_ns = 1'500'000'000;
    return false;
  };
  const TuneReport report = run_tune(op);
  EXPECT_EQ(report.evaluated.size(), 3u);
  EXPECT_GT(report.elapsed_s, options_.seconds);
  EXPECT_GE(report.final_rounds, kFinalSamples);
}

// Batches return in another order: the default is measured last, and still counts as the default.
TEST_F(ScriptedWorker, TheDefaultNeedNotBeMeasuredFirst) {
  const Operator& op = make_operator({dummy("a", kPlain), dummy("b", kPlain), dummy("c", kPlain)});
  stage_.at_once = 8;
  stage_.script = [](worker::Request what, const worker::Candidate& c) {
    return right(what, c.implementation == "c" ? 0.995 : 1);
  };
  const TuneReport report = run(op);
  EXPECT_EQ(stage_.asked.at(1), "check c");
  EXPECT_STREQ(report.winner->name, "a");
}

}  // namespace
}  // namespace dlblas::test
