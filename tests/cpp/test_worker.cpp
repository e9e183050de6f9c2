// Measuring in a worker. First against a script on the fake clock: who is given how long, who gets
// another chance, what a budget is worth. Then against processes (this program, started again)
// whose candidates hang, crash, corrupt and lie. Read next: src/tuner/worker_measurer.hpp.
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>

#include "cpu/thread_pool.hpp"
#include "tests/cpp/worker_script.hpp"
#include "tuner/worker_process.hpp"
#include "tuner/worker_serve.hpp"

namespace dlblas::test {
namespace {

using worker::Ask;
using worker::Candidate;
using worker::Ending;

const Behaviour kPlain{Defect::kNone, [](std::int64_t) -> std::int64_t { return 200'000; }};

Implementation user(Implementation impl) {
  impl.flags.user = true;
  return impl;
}

class ScriptedWorker : public TunerTest {
 protected:
  TuneReport run(const Operator& op) {
    stage_.key = store_key(op, make_problem(op));
    options_.start_worker = start_of(stage_);
    return run_tune(op);
  }
  int asked(const std::string& what) const {
    return static_cast<int>(std::count(stage_.asked.begin(), stage_.asked.end(), what));
  }
  double first_limit(const std::string& what) const {
    for (std::size_t i = 0; i < stage_.asked.size(); ++i)
      if (stage_.asked[i] == what) return stage_.limits[i];
    return -1;
  }
  Stage stage_;
};

TEST_F(ScriptedWorker, TheFastestWinsAndNothingRunsHere) {
  const Behaviour here{Defect::kNone, [](std::int64_t) -> std::int64_t {
                         ADD_FAILURE() << "ran in this process";
                         return 0;
                       }};
  const Operator& op = make_operator({dummy("slow", here), dummy("fast", here)});
  stage_.script = [](Ask what, const Candidate& c) {
    return right(what, c.implementation == "fast" ? 0.01 : 0.2);
  };
  const std::int64_t before = measured();
  const TuneReport report = run(op);
  EXPECT_STREQ(report.winner->name, "fast");
  EXPECT_EQ(report.place, "worker");
  EXPECT_EQ(report.final_rounds, 30);
  EXPECT_EQ(stage_.starts, 1) << "one worker serves a whole search";
  EXPECT_EQ(measured() - before, 2) << "what workers measured counts";
  EXPECT_EQ(run_get_op(op).source, "store");
}

// Hanging implementations are defaults: each is tried. They share what is left, and the budget
// holds.
class HangingBudget : public ScriptedWorker, public ::testing::WithParamInterface<double> {};
TEST_P(HangingBudget, HoldsWithinTenPercent) {
  std::vector<Implementation> all{dummy("good", kPlain)};
  static const char* const kNames[] = {"hang0", "hang1", "hang2", "hang3"};
  for (const char* name : kNames) all.push_back(user(dummy(name, kPlain)));
  all.push_back(dummy("wide", kPlain, &wide_table()));
  const Operator& op = make_operator(all);
  stage_.script = [](Ask what, const Candidate& c) {
    const bool hang = c.implementation.compare(0, 4, "hang") == 0;
    return hang && what == Ask::kCheck ? hangs() : right(what, 5);
  };
  options_.seconds = GetParam();
  const TuneReport report = run(op);
  EXPECT_STREQ(report.winner->name, "good");
  EXPECT_LE(report.elapsed_s, 1.1 * GetParam());
  for (const char* name : kNames) EXPECT_EQ(find(report, name)->failure, Failure::kTimeout) << name;
  EXPECT_EQ(stage_.starts, 5) << "a fresh worker after each that had to be killed, and no more";
}
INSTANTIATE_TEST_SUITE_P(Seconds, HangingBudget, ::testing::Values(3.0, 10.0, 60.0));

TEST_F(ScriptedWorker, AConfigurationThatHangsCostsWhatTheOthersTookAndNoMore) {
  const Operator& op = make_operator({dummy("wide", kPlain, &wide_table())});
  stage_.script = [](Ask what, const Candidate& c) {
    const bool odd = c.config.find_first_of("13579", c.config.size() - 1) != std::string::npos;
    return odd && c.config != "block=1" && what == Ask::kCheck ? hangs() : right(what, 5);
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
  stage_.script = [](Ask what, const Candidate& c) {
    return c.implementation == "slow" && what == Ask::kPrepare ? hangs() : right(what, 0.2);
  };
  EXPECT_EQ(find(run(op), "slow")->failure, Failure::kCompileTimeout);
}

TEST_F(ScriptedWorker, TheFirstBuiltInDefaultIsWaitedForHoweverSmallTheBudget) {
  const Operator& op = make_operator({dummy("heavy", kPlain)});
  stage_.script = [](Ask what, const Candidate&) { return right(what, 4000, 9); };
  options_.seconds = 2;
  EXPECT_STREQ(run(op).winner->name, "heavy");
}

// Whoever runs when a worker ends may suffer from the one before: a fresh worker tells.
TEST_F(ScriptedWorker, ACrashAmongOthersGetsAnotherChanceInAFreshWorker) {
  const Operator& op = make_operator({dummy("good", kPlain), dummy("victim", kPlain)});
  int crashes = 0;
  stage_.script = [&](Ask what, const Candidate& c) {
    if (c.implementation == "victim" && what == Ask::kCheck && crashes++ == 0) return dies();
    return right(what, c.implementation == "victim" ? 0.01 : 0.2);
  };
  const TuneReport report = run(op);
  EXPECT_STREQ(report.winner->name, "victim");
  EXPECT_EQ(stage_.starts, 2);
}

TEST_F(ScriptedWorker, WhoCrashesAFreshWorkerTooIsOut) {
  const Operator& op = make_operator({dummy("good", kPlain), dummy("crash", kPlain)});
  stage_.script = [](Ask what, const Candidate& c) {
    return c.implementation == "crash" && what == Ask::kCheck ? dies() : right(what, 0.2);
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
  stage_.script = [&](Ask what, const Candidate& c) {
    if (c.implementation != "late") return right(what, 0.2);
    return what == Ask::kSample && ++samples > 8 ? dies() : right(what, 0.01);
  };
  const TuneReport report = run(op);
  EXPECT_STREQ(report.winner->name, "good");
  EXPECT_EQ(find(report, "late")->failure, Failure::kCrash);
  EXPECT_EQ(find(report, "good")->samples_ms.size(), 30u);
}

TEST_F(ScriptedWorker, WhoWritesOutsideItsResultsLeavesNoWorkerToTheOthers) {
  const Operator& op =
      make_operator({dummy("good", kPlain), dummy("corrupt", kPlain), dummy("next", kPlain)});
  stage_.script = [](Ask what, const Candidate& c) {
    Act act = right(what, 0.2);
    if (c.implementation == "corrupt" && what == Ask::kCheck)
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
  stage_.script = [](Ask what, const Candidate& c) {
    Act act = right(what, 0.2);
    if (c.implementation == "wild" && what == Ask::kCheck) {
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
  stage_.script = [](Ask what, const Candidate& c) {
    return c.implementation == "hang" && what == Ask::kCheck ? hangs() : right(what, 0.2);
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
    to.put(worker::Answer::kError).put(ErrorKind::kDevice).put(std::string_view("exclusive"));
    for (int i = 0; i < 4; ++i) to.put(std::string_view());
    return worker::Exchange{Ending::kReplied, to.take(), {}, false};
  };
  EXPECT_EQ(run(op).place, "process");
}

TEST_F(ScriptedWorker, AStopWhileOneStartsMeasuresNothingAndIsNoError) {
  const Operator& op = make_operator({dummy("good", kPlain)});
  options_.on_event = [](const dlblas_event& event) { return event.kind == DLBLAS_EVENT_WAITING; };
  stage_.key = store_key(op, make_problem(op));
  options_.start_worker = [](const worker::Waiting& waiting) -> std::unique_ptr<worker::Link> {
    EXPECT_TRUE(waiting());
    throw worker::Unusable("it was stopped");
  };
  const TuneReport report = run_tune(op);
  EXPECT_TRUE(report.stopped);
  EXPECT_TRUE(report.evaluated.empty());
  EXPECT_EQ(report.place, "worker");
}

TEST_F(ScriptedWorker, SmallBudgetsOfBuiltInKernelsStayHere) {
  const Operator& op = make_operator({dummy("good", kPlain)});
  stage_.script = [](Ask what, const Candidate&) { return right(what, 0.2); };
  options_.seconds = 1;
  EXPECT_EQ(run(op).place, "process");
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
  stage_.script = [](Ask what, const Candidate& c) {
    EXPECT_EQ(c.implementation, "good");
    return right(what, 0.2);
  };
  const TuneReport report = run(op);
  EXPECT_STREQ(report.winner->name, "closure");
  EXPECT_GT(counted.runs, 30);
}

TEST(WorkerWire, AMessageThatEndsEarlyIsRefusedAtEveryByte) {
  worker::Opening opening{"an_operator", "0123", {}, 7, {{1, 2.0}}, {}};
  TensorView view{};
  view.rank = 1;
  view.shape[0] = 3;
  view.dtype = DType::kI32;
  opening.indices.push_back({2, view, "twelve bytes"});
  const std::string bytes = encode(opening);
  for (std::size_t end = 1; end < bytes.size(); ++end) {
    worker::Reader from(std::string_view(bytes).substr(1, end - 1));
    EXPECT_THROW(worker::decode_opening(from), Error) << end;
  }
  worker::Reader from(std::string_view(bytes).substr(1));
  const worker::Opening read = worker::decode_opening(from);
  EXPECT_EQ(read.op, opening.op);
  EXPECT_EQ(read.seed, 7u);
  EXPECT_EQ(read.indices.at(0).bytes, "twelve bytes");
  EXPECT_EQ(read.indices.at(0).view.shape[0], 3);
}

// ---- processes ---------------------------------------------------------------------------------

// How a candidate ends its process, or tries to.
enum class End { kNone, kFault, kAbort, kExit, kHang, kSlowCompile, kHuge, kGuards, kWrong, kNan };

volatile int* volatile nowhere = nullptr;

int run_end(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  switch (kernel.load<End>()) {
    case End::kFault:
      std::fputs("about to write where nothing is\n", stderr);
      *nowhere = 1;
      break;
    case End::kAbort:
      std::abort();
    case End::kExit:
      _exit(0);  // as if all were well
    case End::kHang:
      for (;;) pause();
    case End::kHuge: {
      std::vector<std::unique_ptr<char[]>> kept;
      for (;;) kept.emplace_back(new char[std::size_t{1} << 30]);  // asked for, never touched
    }
    default:
      break;
  }
  static const Behaviour behaviours[] = {{Defect::kPastEnd}, {Defect::kWrong}, {Defect::kNan}, {}};
  const End end = kernel.load<End>();
  const Behaviour* b = &behaviours[end == End::kGuards  ? 0
                                   : end == End::kWrong ? 1
                                   : end == End::kNan   ? 2
                                                        : 3];
  struct State {
    const Behaviour* behaviour;
    std::int64_t block;
  };
  Kernel plain;
  plain.store(State{b, 1});
  return run_dummy(args, context, plain, workspace);
}

Implementation ending(const char* name, End end) {
  Implementation impl = dummy(name, kPlain);
  impl.user = reinterpret_cast<void*>(static_cast<std::uintptr_t>(end));
  impl.prepare = [](const Problem&, const Config&, const DeviceInfo&, const Implementation& self) {
    const auto how = static_cast<End>(reinterpret_cast<std::uintptr_t>(self.user));
    if (how == End::kSlowCompile)
      for (;;) pause();
    Kernel kernel;
    kernel.steps[0] = run_end;
    kernel.num_steps = 1;
    kernel.store(how);
    return kernel;
  };
  return impl;
}

// The same operators in the tests and in their workers: registered in this order in both.
struct Operators {
  const Operator& broken =
      make_operator({ending("right", End::kNone), user(ending("fault", End::kFault)),
                     user(ending("abort", End::kAbort)), user(ending("exit", End::kExit)),
                     user(ending("hang", End::kHang)), user(ending("slow", End::kSlowCompile)),
                     user(ending("huge", End::kHuge)), user(ending("guards", End::kGuards)),
                     user(ending("wrong", End::kWrong)), user(ending("nan", End::kNan))});
  const Operator& plain = make_operator({ending("first", End::kNone), ending("wrong", End::kWrong),
                                         dummy("wide", kPlain, &wide_table())});
  const Operator& stuck = make_operator({ending("right", End::kNone), ending("hang", End::kHang)});
};
const Operators& operators() {
  static const Operators made;
  return made;
}

void run_in_pool(void* self, std::int64_t begin, std::int64_t end, std::int64_t grain, RangeFn fn,
                 void* ctx) {
  pool_parallel_for(static_cast<const Context*>(self)->num_threads, begin, end, grain, fn, ctx);
}

int serve_tests() {
  Context context;
  return worker::serve(worker::kWorkerSocket, [&](const Problem& problem) -> const Context& {
    context.num_threads = problem.threads;
    context.self = &context;
    context.parallel_for = run_in_pool;
    return context;
  });
}

std::string own_path() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return std::string(path, n > 0 ? static_cast<std::size_t>(n) : 0);
}

int open_descriptors() {
  DIR* folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder)) ++count;
  closedir(folder);
  return count;
}

bool has_children() { return waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD; }

class ProcessWorker : public TunerTest {
 protected:
  void SetUp() override {
    TunerTest::SetUp();
    options_.clock = steady_nanoseconds;
    options_.measure_in = MeasureIn::kWorker;
    start_with({{own_path(), "--worker"}, {}});
  }
  void start_with(worker::Command command) {
    options_.start_worker = [command](const worker::Waiting& waiting) {
      return worker::start(command, waiting);
    };
  }
  std::string error_of(const Operator& op) {
    try {
      run_tune(op);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kTuning);
      return e.what();
    }
    return "no error";
  }
};

// Sanitizers catch signals and allocations themselves, and end the process in a way of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

TEST_F(ProcessWorker, EveryWayToFailIsRecordedByItsKindAndTheRightOneWins) {
  options_.seconds = 6;
  const int before = open_descriptors();
  const TuneReport report = run_tune(operators().broken);
  EXPECT_STREQ(report.winner->name, "right");
  EXPECT_EQ(report.place, "worker");
  const auto expect = [&](const char* name, Failure failure, const char* words) {
    const Evaluated* e = find(report, name);
    ASSERT_NE(e, nullptr) << name;
    EXPECT_EQ(name_of(e->failure), name_of(failure)) << name << ": " << e->note;
    EXPECT_NE(e->note.find(words), std::string::npos) << name << ": " << e->note;
  };
  expect(
      "fault", Failure::kCrash,
      "the worker was killed by signal 11 (segmentation fault): about to write where nothing is");
  expect("abort", Failure::kCrash, "signal 6 (abort)");
  expect("exit", Failure::kCrash, "exited with status 0");
  expect("hang", Failure::kTimeout, "did not come back within ");
  expect("slow", Failure::kCompileTimeout, "not compiled within ");
  if (!kSanitized) expect("huge", Failure::kOutOfMemory, "more memory than there is");
  expect("guards", Failure::kOutOfBounds, "outside the results");
  expect("wrong", Failure::kWrongResult, "elements are wrong");
  expect("nan", Failure::kWrongResult, "elements are wrong");
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_FALSE(has_children()) << "no zombie, no worker left";
  const std::int64_t measured_before = measured();
  EXPECT_EQ(run_get_op(operators().broken).source, "store") << "all failures are known";
  EXPECT_EQ(measured(), measured_before);
}

TEST_F(ProcessWorker, ItsRecordsAreThoseOfThisProcess) {
  options_.max_evaluations = 6;
  const Operator& op = operators().plain;
  std::set<std::string> texts[2];
  for (const MeasureIn where : {MeasureIn::kWorker, MeasureIn::kProcess}) {
    store_->clear();
    options_.measure_in = where;
    run_tune(op);
    const auto merged = store_->load(store_key(op, make_problem(op)));
    std::set<std::string>& all = texts[where == MeasureIn::kWorker];
    EXPECT_EQ(merged->rows.size(), 6u);
    for (const Record::Field& f : *merged->rows.front().env)
      all.insert(f.name + "=" + (f.name == "rounds" ? "" : f.value));
    for (const Merged::Row& row : merged->rows) {
      const Record::Candidate& c = row.candidate;
      all.insert(text(c.implementation, " ", c.source_hash, " ", c.config, " ", c.failure, " ",
                      std::to_string(c.error), " ", c.is_default));
    }
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST_F(ProcessWorker, WhereNoneCanBeHadThisProcessMeasuresOrSaysWhy) {
  const Operator& op = operators().plain;
  options_.max_evaluations = 3;
  start_with({{"/nowhere/at/all"}, {}});
  EXPECT_EQ(error_of(op), op.schema.name +
                              ": worker cannot be had; expected a process that measures, got: "
                              "/nowhere/at/all cannot be executed: No such file or directory; "
                              "measure in this process instead (worker=False)");
  start_with({{"/bin/sh", "-c", "echo not me >&2; exit 4"}, {}});
  EXPECT_NE(error_of(op).find("got: /bin/sh exited with status 4: not me; "), std::string::npos);
  start_with({{"/bin/sh", "-c", "echo nothing that a worker says >&3; cat"}, {}});
  EXPECT_NE(error_of(op).find("got: /bin/sh sent what is no reply"), std::string::npos)
      << error_of(op);
  options_.measure_in = MeasureIn::kAuto;
  EXPECT_EQ(run_tune(op).place, "process");
  EXPECT_FALSE(has_children());
}

TEST_F(ProcessWorker, ACandidateThatOnlyThisProcessHasIsMeasuredHere) {
  static Behaviour counted{Defect::kNone, [](std::int64_t) -> std::int64_t { return 1000; }};
  static const Implementation late = user(dummy("late", counted));
  Registry::process().add_implementation(operators().stuck, late);
  options_.measure_in = MeasureIn::kAuto;
  options_.implementations = {"right", "late"};
  const TuneReport report = run_tune(operators().stuck);
  EXPECT_EQ(report.place, "worker");
  EXPECT_EQ(find(report, "late")->failure, Failure::kNone);
  EXPECT_GT(counted.runs, 2);
}

// The pid of the worker that this process has now.
pid_t child_of_mine() {
  std::FILE* file = std::fopen("/proc/thread-self/children", "r");
  int pid = 0;
  if (!file || std::fscanf(file, "%d", &pid) != 1) pid = 0;
  if (file) std::fclose(file);
  return pid;
}

TEST_F(ProcessWorker, KilledFromOutsideCostsNoCandidate) {
  int kills = 0;
  options_.max_evaluations = 5;
  options_.on_event = [&](const dlblas_event& event) {
    if (event.kind == DLBLAS_EVENT_MEASURED && kills++ == 0) kill(child_of_mine(), SIGKILL);
    return false;
  };
  const TuneReport report = run_tune(operators().plain);
  EXPECT_GE(kills, 1);
  for (const Evaluated& e : report.evaluated)
    EXPECT_EQ(e.failure, e.plan->implementation->name == std::string("wrong")
                             ? Failure::kWrongResult
                             : Failure::kNone)
        << e.note;
}

TEST_F(ProcessWorker, AStopWhileACandidateHangsKeepsWhatWasMeasured) {
  options_.seconds = 60;
  options_.implementations = {"right", "hang"};
  options_.on_event = [](const dlblas_event& event) {
    return event.kind == DLBLAS_EVENT_WAITING && event.elapsed_s > 0.2;
  };
  const TuneReport report = run_tune(operators().stuck);
  EXPECT_TRUE(report.stopped);
  EXPECT_LT(report.elapsed_s, 10);
  ASSERT_NE(report.winner, nullptr);
  EXPECT_STREQ(report.winner->name, "right");
  EXPECT_EQ(report.evaluated.size(), 1u) << "who was interrupted has not failed";
  EXPECT_EQ(
      store_->load(store_key(operators().stuck, make_problem(operators().stuck)))->rows.size(), 1u);
  EXPECT_FALSE(has_children());
}

// A child of this test tunes with a candidate that hangs, and is killed: its worker goes with it.
TEST_F(ProcessWorker, NoWorkerOutlivesWhoStartedIt) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t tuner = fork();
  if (tuner == 0) {
    const std::string path = own_path(), fd = std::to_string(ends[1]);
    execl(path.c_str(), path.c_str(), "--tune-and-hang", fd.c_str(), nullptr);
    _exit(1);
  }
  close(ends[1]);
  pid_t its_worker = 0;
  ASSERT_EQ(read(ends[0], &its_worker, sizeof its_worker), ssize_t{sizeof its_worker});
  close(ends[0]);
  ASSERT_EQ(kill(its_worker, 0), 0);
  kill(tuner, SIGKILL);
  waitpid(tuner, nullptr, 0);
  const auto gone = [&] {  // a zombie that nobody reaps here is as good as gone
    std::FILE* stat = std::fopen(text("/proc/", its_worker, "/stat").c_str(), "r");
    if (!stat) return true;
    char state = 0;
    const int got = std::fscanf(stat, "%*d (%*[^)]) %c", &state);
    std::fclose(stat);
    return got == 1 && (state == 'Z' || state == 'X');
  };
  for (int i = 0; i < 500 && !gone(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(gone());
}

// Tells its worker's pid while a candidate hangs there.
int tune_and_hang(int report_to) {
  char folder[] = "/tmp/dlblas-worker-XXXXXX";
  Store store(std::string(mkdtemp(folder)) + "/v1");
  TuneOptions options;
  options.store = &store;
  options.seconds = 600;
  options.implementations = {"right", "hang"};
  options.measure_in = MeasureIn::kWorker;
  options.start_worker = [](const worker::Waiting& waiting) {
    return worker::start({{own_path(), "--worker"}, {}}, waiting);
  };
  options.on_event = [report_to](const dlblas_event& event) {
    const pid_t child = child_of_mine();
    return event.kind == DLBLAS_EVENT_WAITING && write(report_to, &child, sizeof child) < 0;
  };
  const Operator& op = operators().stuck;
  std::filesystem::remove_all(folder);
  tune(op, make_problem(op), nullptr, Context{}, options);
  return 0;
}

}  // namespace
}  // namespace dlblas::test

int main(int argc, char** argv) {
  dlblas::test::operators();  // before any other: their names are counted, in workers as well
  if (argc > 1 && std::string(argv[1]) == "--worker") return dlblas::test::serve_tests();
  if (argc > 2 && std::string(argv[1]) == "--tune-and-hang")
    return dlblas::test::tune_and_hang(std::atoi(argv[2]));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
