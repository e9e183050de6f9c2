// Measuring in a scripted worker on the fake clock: how long a candidate is given, and which get
// another chance. Read next: src/tuner/worker_measurer.hpp, tests/cpp/test_worker.cpp (processes),
// test_tuner_budget.cpp (what a budget is worth).
#include <set>

#include "tests/cpp/worker_script.hpp"

namespace dlblas::test {
namespace {

using worker::Candidate;
using worker::Ending;
using worker::Request;

TEST_F(ScriptedWorker, TheFastestWinsAndNothingRunsHere) {
  const Behaviour here{Defect::kNone, [](std::int64_t) -> std::int64_t {
                         ADD_FAILURE() << "ran in this process";
                         return 0;
                       }};
  const Operator& op = make_operator({dummy("slow", here), dummy("fast", here)});
  stage_.script = [](Request what, const Candidate& c) {
    return right(what, c.implementation == "fast" ? 0.01 : 0.2);
  };
  const std::int64_t before = measured();
  const TuneReport report = run(op);
  EXPECT_STREQ(report.winner->name, "fast");
  EXPECT_EQ(report.place, "worker");
  EXPECT_EQ(report.final_rounds, 30);
  EXPECT_EQ(stage_.starts, 1) << "one worker serves a whole search";
  EXPECT_EQ(measured() - before, 3) << "what workers say they measured: here, once a check";
  EXPECT_EQ(run_get_op(op).source, "store");
}

TEST_F(ScriptedWorker, AConfigurationThatHangsCostsWhatTheOthersTookAndNoMore) {
  const Operator& op = make_operator({dummy("wide", kPlain, &wide_table())});
  stage_.script = [](Request what, const Candidate& c) {
    const bool odd = c.config.find_first_of("13579", c.config.size() - 1) != std::string::npos;
    return odd && c.config != "block=1" && what == Request::kCheck ? hangs() : right(what, 5);
  };
  options_.seconds = 20;
  const TuneReport report = run(op);
  EXPECT_LE(report.elapsed_s, 22);
  int hung = 0;
  for (const Evaluated& e : report.evaluated) hung += e.failure == Failure::kTimeout;
  EXPECT_GE(hung, 3) << "each costs a second, not half of what is left";
  ASSERT_NE(report.winner, nullptr);
}

TEST_F(ScriptedWorker, ASlowCompilationIsToldFromAHang) {
  const Operator& op = make_operator({dummy("good", kPlain), user(dummy("slow", kPlain))});
  stage_.script = [](Request what, const Candidate& c) {
    return c.implementation == "slow" && what == Request::kPrepare ? hangs() : right(what, 0.2);
  };
  EXPECT_EQ(find(run(op), "slow")->failure, Failure::kCompileTimeout);
}

TEST_F(ScriptedWorker, TheFirstCallOfAUsersHasATimeOfItsOwn) {
  const Operator& op = make_operator({dummy("good", kPlain), user(dummy("imports", kPlain))});
  static bool first;
  first = true;
  stage_.script = [](Request what, const Candidate& c) {
    const bool slow = c.implementation == "imports" && what == Request::kCheck && first;
    if (slow) first = false;
    return right(what, c.implementation == "imports" ? 0.01 : 0.2, slow ? 12 : 0.01);
  };
  options_.seconds = 2;
  const TuneReport report = run(op);
  ASSERT_NE(report.winner, nullptr);
  EXPECT_STREQ(report.winner->name, "imports");
  EXPECT_GT(report.final_rounds, 0) << "it is no part of the budget";
}

TEST_F(ScriptedWorker, AFirstCallThatDoesNotComeBackIsNotRemembered) {
  const Operator& op = make_operator({dummy("good", kPlain), user(dummy("hangs", kPlain))});
  stage_.script = [](Request what, const Candidate& c) {
    return c.implementation == "hangs" && what == Request::kCheck ? hangs() : right(what, 0.2);
  };
  options_.seconds = 4;
  const TuneReport report = run(op);
  EXPECT_EQ(find(report, "hangs")->failure, Failure::kTimeout);
  EXPECT_DOUBLE_EQ(find(report, "hangs")->limit_s, 30);
  for (const Merged::Row& row : store_->load(store_key(op, report.problem))->rows)
    EXPECT_NE(row.candidate.implementation, "hangs");
}

TEST_F(ScriptedWorker, TheFirstBuiltInDefaultIsWaitedForHoweverSmallTheBudget) {
  const Operator& op = make_operator({dummy("heavy", kPlain)});
  stage_.script = [](Request what, const Candidate&) { return right(what, 4000, 9); };
  options_.seconds = 2;
  EXPECT_STREQ(run(op).winner->name, "heavy");
}

// If a worker dies under a candidate, the one before may be to blame: a fresh worker decides.
TEST_F(ScriptedWorker, ACrashAmongOthersGetsAnotherChanceInAFreshWorker) {
  const Operator& op = make_operator({dummy("good", kPlain), dummy("victim", kPlain)});
  int crashes = 0;
  stage_.script = [&](Request what, const Candidate& c) {
    if (c.implementation == "victim" && what == Request::kCheck && crashes++ == 0) return dies();
    return right(what, c.implementation == "victim" ? 0.01 : 0.2);
  };
  const TuneReport report = run(op);
  EXPECT_STREQ(report.winner->name, "victim");
  EXPECT_EQ(stage_.starts, 2);
}

TEST_F(ScriptedWorker, WhoCrashesAFreshWorkerTooIsOut) {
  const Operator& op = make_operator({dummy("good", kPlain), dummy("crash", kPlain)});
  stage_.script = [](Request what, const Candidate& c) {
    return c.implementation == "crash" && what == Request::kCheck ? dies() : right(what, 0.2);
  };
  const TuneReport report = run(op);
  EXPECT_EQ(find(report, "crash")->failure, Failure::kCrash);
  EXPECT_EQ(find(report, "crash")->note, "the worker was scripted to end");
  EXPECT_EQ(asked("check crash"), 2);
  EXPECT_EQ(run_get_op(op).source, "store") << "the failure is known";
}

TEST_F(ScriptedWorker, ACrashInTheFinalCostsTheCandidateAlone) {
  const Operator& op = make_operator({dummy("good", kPlain), dummy("late", kPlain)});
  int samples = 0;
  stage_.script = [&](Request what, const Candidate& c) {
    if (c.implementation != "late") return right(what, 0.2);
    return what == Request::kSample && ++samples > 8 ? dies() : right(what, 0.01);
  };
  const TuneReport report = run(op);
  EXPECT_STREQ(report.winner->name, "good");
  EXPECT_EQ(find(report, "late")->failure, Failure::kCrash);
  EXPECT_EQ(find(report, "good")->samples_ms.size(), 30u);
}

TEST_F(ScriptedWorker, WhoWritesOutsideItsResultsLeavesNoWorkerToTheOthers) {
  const Operator& op =
      make_operator({dummy("good", kPlain), dummy("corrupt", kPlain), dummy("next", kPlain)});
  stage_.script = [](Request what, const Candidate& c) {
    Act act = right(what, 0.2);
    if (c.implementation == "corrupt" && what == Request::kCheck)
      act.outcome.check = {Failure::kOutOfBounds, "bytes outside"};
    return act;
  };
  const TuneReport report = run(op);
  EXPECT_EQ(find(report, "corrupt")->failure, Failure::kOutOfBounds);
  EXPECT_EQ(find(report, "next")->failure, Failure::kNone);
  EXPECT_EQ(stage_.starts, 2);
}

TEST_F(ScriptedWorker, ALostDeviceIsTheWorkersAlone) {
  const Operator& op = make_operator({dummy("good", kPlain), dummy("wild", kPlain)});
  stage_.script = [](Request what, const Candidate& c) {
    Act act = right(what, 0.2);
    if (c.implementation == "wild" && what == Request::kCheck) {
      act.outcome.check = {Failure::kIllegalAccess, "an illegal address"};
      act.outcome.lost = true;
    }
    return act;
  };
  const TuneReport report = run(op);
  EXPECT_STREQ(report.winner->name, "good");
  EXPECT_EQ(find(report, "wild")->failure, Failure::kIllegalAccess);
  EXPECT_EQ(stage_.starts, 2);
}

TEST_F(ScriptedWorker, WhenNoMoreWorkersCanBeHadWhatWasMeasuredIsKept) {
  const Operator& op =
      make_operator({dummy("good", kPlain), dummy("hang", kPlain), dummy("next", kPlain)});
  stage_.most_starts = 1;
  stage_.script = [](Request what, const Candidate& c) {
    return c.implementation == "hang" && what == Request::kCheck ? hangs() : right(what, 0.2);
  };
  try {
    run(op);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kTuning);
    EXPECT_EQ(std::string(e.what()),
              op.schema.name +
                  ": worker cannot be started again; expected a process that measures, "
                  "got: the stage is closed; what was measured is kept: tune again");
  }
  const auto rows = store_->load(store_key(op, make_problem(op)))->rows;
  std::set<std::string> kept;
  for (const Merged::Row& row : rows)
    kept.insert(row.candidate.implementation + " " + row.candidate.failure);
  EXPECT_EQ(kept, (std::set<std::string>{"good ", "hang timeout"}));
}

// What ends a worker before any candidate has run would end this process as well.
TEST_F(ScriptedWorker, AWorkerThatMakesNoInputsIsATypedError) {
  const Operator& op = make_operator({dummy("good", kPlain)});
  stage_.opening = [] { return worker::Exchange{Ending::kDied, {}, "was killed", true}; };
  try {
    run(op);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kTuning);
    EXPECT_EQ(std::string(e.what()),
              op.schema.name +
                  ": worker made no inputs and no reference; expected both within 120 "
                  "s, got: it was killed; is there memory for a second copy?");
  }
}

TEST_F(ScriptedWorker, ADeviceThatAdmitsOneProcessIsThisOnes) {
  const Operator& op = make_operator({dummy("good", kPlain)});
  stage_.opening = [] {
    worker::Writer to;
    to.put(worker::Reply::kError).put(ErrorKind::kDevice).put(std::string_view("exclusive"));
    for (int i = 0; i < 4; ++i) to.put(std::string_view());
    return worker::Exchange{Ending::kReplied, to.take(), {}, false};
  };
  const TuneReport report = run(op);
  EXPECT_EQ(report.place, "process");
  EXPECT_EQ(report.no_worker, "exclusive");
}

TEST_F(ScriptedWorker, AStopWhileOneStartsMeasuresNothingAndIsNoError) {
  const Operator& op = make_operator({dummy("good", kPlain)});
  options_.on_event = [](const dlblas_event& event) { return event.kind == DLBLAS_EVENT_WAITING; };
  stage_.key = store_key(op, make_problem(op));
  options_.start_worker = [](const worker::Waiting& waiting,
                             double) -> std::unique_ptr<worker::Link> {
    EXPECT_TRUE(waiting());
    throw worker::Unusable("it was stopped");
  };
  const TuneReport report = run_tune(op);
  EXPECT_TRUE(report.stopped);
  EXPECT_TRUE(report.evaluated.empty());
  EXPECT_EQ(report.place, "worker");
}

// Otherwise a module whose import hangs would take a minute of a search of seconds.
TEST_F(ScriptedWorker, AStartIsWithinTheBudget) {
  const Operator& op = make_operator({dummy("good", kPlain), user(dummy("theirs", kPlain))});
  stage_.script = [](Request what, const Candidate&) { return right(what, 0.2); };
  options_.seconds = 8;
  EXPECT_EQ(run(op).place, "worker");
  EXPECT_DOUBLE_EQ(stage_.start_limit_s, 8);
  stage_.start_s = 1000;
  const std::int64_t begin = fake_clock();
  const TuneReport report = run(op);
  EXPECT_EQ(report.no_worker, "it said nothing");
  EXPECT_STREQ(report.winner->name, "good");
  EXPECT_LT(static_cast<double>(fake_clock() - begin) * 1e-9, 1.1 * 8);
  options_.seconds = 0.5;
  run(op);
  EXPECT_DOUBLE_EQ(stage_.start_limit_s, 5) << "below that none could start";
}

// As with `import torch` in a user's module: the candidates have the whole budget.
TEST_F(ScriptedWorker, AStartThatImportsModulesIsBesideTheBudgetAndTold) {
  const Operator& op =
      make_operator({dummy("good", kPlain), user(dummy("wide", kPlain, &wide_table()))});
  stage_.script = [](Request what, const Candidate&) { return right(what, 0.2, 0.004); };
  options_.seconds = 1;
  stage_.start_s = 0;
  const std::size_t all = run(op).evaluated.size();
  EXPECT_GT(all, 50u);
  stage_.start_s = 3;
  EXPECT_LT(run(op).evaluated.size(), 4u) << "what imports nothing is within the budget";
  std::vector<std::pair<int, std::string>> told;
  options_.on_event = [&](const dlblas_event& event) {
    told.emplace_back(event.kind, event.note);
    return false;
  };
  options_.worker_imports = true;
  EXPECT_EQ(run(op).evaluated.size(), all);
  EXPECT_DOUBLE_EQ(stage_.start_limit_s, 30);
  EXPECT_EQ(told[0], std::pair(int{DLBLAS_EVENT_WORKER}, std::string("it imports your modules")));
  EXPECT_EQ(told[1].first, DLBLAS_EVENT_START);
}

TEST_F(ScriptedWorker, StartsThatImportModulesHaveHalfAMinuteTogether) {
  const Operator& op =
      make_operator({dummy("good", kPlain), user(dummy("wide", kPlain, &wide_table()))});
  stage_.script = [](Request what, const Candidate& c) {
    const bool bad = c.implementation == "wide" && what == Request::kCheck;
    return bad ? dies() : right(what, 0.2);
  };
  options_.worker_imports = true;
  options_.seconds = 3;
  stage_.start_s = 5;
  EXPECT_LE(run(op).elapsed_s, 30 + 1.1 * 3);
  EXPECT_GE(stage_.starts, 4);
  stage_.start_s = 1000;
  const TuneReport none = run(op);
  EXPECT_EQ(none.no_worker, "it said nothing");
  EXPECT_EQ(none.place, "process");
  EXPECT_LE(none.elapsed_s, 30 + 1.1 * 3);
  EXPECT_GT(none.evaluated.size(), 100u) << "this process has the whole budget then";
}

TEST_F(ScriptedWorker, ASearchThatItsBudgetCutSaysSo) {
  const Operator& op = make_operator({dummy("wide", kPlain, &wide_table())});
  stage_.script = [](Request what, const Candidate&) { return right(what, 0.2, 0.1); };
  options_.seconds = 6;
  const TuneReport cut = run(op);
  const std::string tried = text(": ", cut.evaluated.size(), " of 200 configurations, ");
  EXPECT_TRUE(cut.why.ends_with(tried + "6 s, cut; more: get_op(…, seconds=12)")) << cut.why;
  options_.max_evaluations = 3;
  EXPECT_EQ(run(op).why.find("configurations"), std::string::npos) << "as many as asked for";
  options_.max_evaluations = 0;
  options_.on_event = [](const dlblas_event& event) { return event.done == 5; };
  const TuneReport stopped = run(op);
  EXPECT_TRUE(stopped.why.ends_with(": 5 of 200 configurations, stopped")) << stopped.why;
  options_.on_event = nullptr;
  options_.seconds = 600;
  EXPECT_EQ(run(op).why.find("configurations"), std::string::npos);
}

TEST_F(ScriptedWorker, SmallBudgetsOfBuiltInKernelsStayHere) {
  const Operator& op = make_operator({dummy("good", kPlain)});
  stage_.script = [](Request what, const Candidate&) { return right(what, 0.2); };
  options_.seconds = 1;
  const TuneReport small = run(op);
  EXPECT_EQ(small.place, "process");
  EXPECT_EQ(small.no_worker, "built-in kernels in less than 5 s");
  const Operator& theirs = make_operator({dummy("good", kPlain), user(dummy("theirs", kPlain))});
  EXPECT_EQ(run(theirs).place, "worker") << "users' own go there whatever the budget";
  options_.seconds = 10;
  options_.measure_in = MeasureIn::kProcess;
  EXPECT_EQ(run(theirs).place, "process") << "as asked";
}

TEST_F(ScriptedWorker, AClosureIsMeasuredHereBesideTheOthers) {
  static Behaviour counted{Defect::kNone, [](std::int64_t) -> std::int64_t { return 1000; }};
  Implementation closure = user(dummy("closure", counted));
  closure.flags.local = true;
  const Operator& op = make_operator({dummy("good", kPlain), closure});
  stage_.script = [](Request what, const Candidate& c) {
    EXPECT_EQ(c.implementation, "good");
    return right(what, 0.2);
  };
  const TuneReport report = run(op);
  EXPECT_STREQ(report.winner->name, "closure");
  EXPECT_GT(counted.runs, 30);
}

// Otherwise the reported time would run backwards, and the budget would be overrun by as much.
TEST_F(ScriptedWorker, AFirstCallOfWhatTheWorkerLacksIsBesideTheBudgetOnce) {
  static Behaviour imports{Defect::kNone, [](std::int64_t) -> std::int64_t {
                             return imports.runs == 1 ? 12'000'000'000 : 10'000'000;
                           }};
  imports.runs = 0;
  const Operator& op = make_operator({dummy("good", kPlain), user(dummy("imports", imports))});
  stage_.script = [](Request what, const Candidate&) { return right(what, 200); };
  stage_.lacks = "imports";
  check_that_time_goes_on();
  options_.seconds = 2;
  const std::int64_t begin = fake_clock();
  EXPECT_STREQ(run(op).winner->name, "imports");
  EXPECT_LT(static_cast<double>(fake_clock() - begin) * 1e-9, 12 + 1.1 * 2);
}

// A worker started for a first call imports modules meanwhile: both are outside the budget.
TEST_F(ScriptedWorker, AStartDuringAFirstCallIsBesideTheBudgetOnce) {
  const Operator& op = make_operator(
      {dummy("good", kPlain), user(dummy("dies", kPlain)), user(dummy("next", kPlain))});
  stage_.script = [](Request what, const Candidate& c) {
    return c.implementation == "dies" && what == Request::kCheck ? dies() : right(what, 0.2);
  };
  options_.worker_imports = true;
  options_.seconds = 3;
  stage_.start_s = 5;
  check_that_time_goes_on();
  EXPECT_EQ(find(run(op), "next")->failure, Failure::kNone);
  EXPECT_GE(stage_.starts, 3);
}

}  // namespace
}  // namespace dlblas::test
